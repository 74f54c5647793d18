/* worker/frozen.h: the calibration of a measuring environment, kept from its first time on:
 * bounds and clock ratios of all later runs stand on the same numbers. */
#ifndef KORCH_FROZEN_H
#define KORCH_FROZEN_H

#include "measure.h"

/* `folder`: where they are kept; "" or NULL: the XDG cache folder. */
/* The one of this host's present environment; false when there is none yet.  may_be_quick: else one that was
 * made in a hurry, which is kept apart.  *is_quick: the full one is not there, and a quick one will do. */
bool frozen_load(const char *folder, bool may_be_quick, struct calibration *out, bool *is_quick);
bool frozen_save(const char *folder, bool is_quick, const struct calibration *c, struct err *e) MUST_CHECK;
/* The same of an environment that is named. */
bool frozen_load_for(const char *folder, const char *environment, struct calibration *out);
bool frozen_save_for(
    const char *folder, const char *environment, const struct calibration *c, struct err *e) MUST_CHECK;

#endif
