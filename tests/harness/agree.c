/* tests/harness/agree.c: how far results may be from the interpreter's. */
#include "agree.h"
#include "../../kernels/interp/error_check.h"

#include <math.h>

/* How far sums may drift: float32, reassociated. */
static double
allowed(enum dtype t)
{
	return t == DT_f16 ? 4e-3 : t == DT_bf16 ? 3e-2 : t == DT_f64 ? 1e-9 : 2e-5;
}

bool
agrees(const struct graph *g, const void *const *in, void *const *want, uint32_t i, const void *have,
    double by, double *d)
{
	struct arena a = {0};
	struct wanted *w = NEW_ARRAY(&a, struct wanted, g->n_outputs);
	struct error_check j = {.arena = &a,
	    .g = g,
	    .inputs = in,
	    .want = w,
	    .seed = 1,
	    .may_be_wild = true,
	    .grain = by > 1 ? (uint32_t)(5 * by)
			    : 1}; /* up to the last place of the factors, as the shakes grow */
	struct verdict v;

	for (uint32_t k = 0; k < g->n_outputs; k++) {
		w[k].dense = want[k];
		w[k].scale = fmax(1e-2, wanted_scale(graph_tensor(g, g->outputs[k]), &w[k]));
	}
	v = check_error(&j, i, by * allowed(graph_tensor(g, g->outputs[i])->type), have);
	*d = v.worst;
	arena_fini(&a);
	return v.n_off == 0;
}
