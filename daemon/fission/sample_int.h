/* daemon/fission/sample_int.h: reading tensors at computed places, for sample.c and region.c. */
#ifndef KORCH_SAMPLE_INT_H
#define KORCH_SAMPLE_INT_H

#include "fission_int.h"

enum mode { NEAREST, LINEAR, CUBIC };
enum border { ZEROS, BORDER, REFLECTION };
enum { MAX_SPATIAL = 3, MAX_TAPS = 4 };

struct grid {
	struct fission *f;
	enum mode mode;
	enum border border;
	bool is_aligned;
	int n; /* spatial dimensions */
	int64_t extent[MAX_SPATIAL];
	enum dtype type; /* of coordinates and weights */
};
/* Taps along one dimension, each over the places [N, P]. */
struct axis_taps {
	int n;
	tensor_id at[MAX_TAPS];     /* i64, inside */
	tensor_id weight[MAX_TAPS]; /* zero outside for border ZEROS */
};
/* One tap at the whole place x with a weight; n is the extent. */
void sample_add_tap(const struct grid *g, struct axis_taps *t, tensor_id x, tensor_id weight, int64_t n);
/* The two neighbours of x, in elements. */
struct axis_taps sample_linear(const struct grid *g, tensor_id x, int64_t n);
/* Sum over all combinations of taps; x is [N, C, elements], the result [N, C, P]. */
tensor_id sample_gather(const struct grid *g, tensor_id x, const struct axis_taps *t, int64_t n_places);

#endif
