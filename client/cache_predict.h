/* client/cache_predict.h: what kernels of the cache are expected to take, beside what they were measured at.
 */
#ifndef KORCH_CACHE_PREDICT_H
#define KORCH_CACHE_PREDICT_H

#include "../schema/export_read.h"

/* For each measuring environment of the specs whose hash begins so: the best expected, and each schedule of
 * the space with its expected time, where nine of ten such lie, and its measurement.  ERR_FAILED: there is
 * none. */
bool cache_predict(
    struct arena *a, const struct export_rows *x, const char *hex, bool json, struct err *e) MUST_CHECK;
/* All kernels of the export, expected against measured, as an SVG; `file` is the export. */
bool cache_predict_plot(struct arena *a, const struct export_rows *x, struct bytes file, const char *path,
    struct err *e) MUST_CHECK;

#endif
