/* worker/calibration_cache.h: the calibration of a measuring environment, kept from its first time on:
 * bounds and clock ratios of all later runs stand on the same numbers. */
#ifndef KORCH_CALIBRATION_CACHE_H
#define KORCH_CALIBRATION_CACHE_H

#include "measure.h"

/* `folder`: where they are kept; "" or NULL: the XDG cache folder. */
/* The one of this host's present environment; false when there is none yet.  may_be_quick: else one that was
 * made in a hurry, which is kept apart.  *is_quick: the full one is not there, and a quick one will do. */
bool calibration_load(const char *folder, bool may_be_quick, struct calibration *out, bool *is_quick);
bool calibration_save(
    const char *folder, bool is_quick, const struct calibration *c, struct err *e) MUST_CHECK;
/* The same of an environment that is named. */
bool calibration_load_for(const char *folder, const char *environment, struct calibration *out);
bool calibration_save_for(
    const char *folder, const char *environment, const struct calibration *c, struct err *e) MUST_CHECK;

#endif
