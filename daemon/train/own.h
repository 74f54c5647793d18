/* daemon/train/own.h: is what was trained for a device class better than what serves it? */
#ifndef KORCH_TRAIN_OWN_H
#define KORCH_TRAIN_OWN_H

#include "train.h"

/* Those that came with Korch (kernels/predict/trained), which are inside the program; the list ends with
 * NULL. */
extern const struct train_shipped {
	const char *name;
	const uint8_t *first, *last;
	bool is_taught;
} train_shipped[];
bool train_rows_add_shipped(struct arena *a, struct train_set *set, struct err *e) MUST_CHECK;

struct own_check {
	uint32_t
	    compared; /* kernels of the class that neither has seen; fewer than 20: no word on the rest */
	double error,
	    beside; /* median |expected / measured - 1|: of such a training, of the predictor beside */
};
/* Kernels of own rows, measured after since_ns, whose model is left out; of `beside` what a job would expect
 * by it, also where it says nothing. */
bool own_check(const struct train_set *set, const struct fit *how, const struct predictor *beside,
    int64_t since_ns, struct own_check *out, struct err *e) MUST_CHECK;

#endif
