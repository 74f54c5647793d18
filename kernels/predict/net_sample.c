/* kernels/predict/net_sample.c: leaves keep their vectors; their places are those of the whole tree's
 * pre-order, in which a leaf comes behind the loops around it. */
#include "net_sample.h"

#include <math.h>
#include <string.h>

const struct net_shape net_usual = {
    .leaf = LEAF_FEATURES,
    .whole = (uint32_t)SPEC_FEATURES + (uint32_t)WAY_FEATURES,
    .width = 64,
    .heads = 4,
    .layers = 2,
    .inner = 128,
    .hidden = 32,
};
_Static_assert(
    sizeof(struct sample_leaf) == LEAF_FEATURES * sizeof(float), "leaves lie one behind the other");

struct net_sample
net_sample_of(struct arena *a, const struct sample *s)
{
	float *whole = NEW_ARRAY(a, float, net_usual.whole);
	uint32_t *place = NEW_ARRAY(a, uint32_t, s->n_leaves), at = 0;

	memcpy(whole, s->spec, sizeof(s->spec));
	memcpy(whole + SPEC_FEATURES, s->way, sizeof(s->way));
	for (uint32_t i = 0; i < s->n_leaves; i++) {
		at += (uint32_t)lround(expm1((double)s->leaf[i].x[LEAF_loops]));
		place[i] = at++;
	}
	return (struct net_sample){
	    .leaf = s->n_leaves ? s->leaf[0].x : NULL,
	    .place = place,
	    .n_leaves = s->n_leaves,
	    .whole = whole,
	};
}
