/* daemon/train/reliability.h: predicted beside measured times, as a picture. */
#ifndef KORCH_TRAIN_RELIABILITY_H
#define KORCH_TRAIN_RELIABILITY_H

#include "../../kernels/base/base.h"

struct reliability_point {
	double predicted_ns, measured_ns;
	bool is_far; /* nothing like it was learned from: drawn apart */
};
/* An SVG: both axes logarithmic, the line of equal times, and those of twice and half; `title` is its first
 * line. */
void reliability_svg(
    struct strbuf *sb, const char *title, const struct reliability_point *points, uint32_t n);

#endif
