/* tests/prop/plan_outputs.c: see the header. */
#include "plan_outputs.h"

#include "../../kernels/interp/interp.h"
#include "../harness/plan_path.h"
#include "random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static bool
is_near(const struct tensor *t, const void *have, const void *want, double most, double *d)
{
	size_t n;

	*d = values_distance(t->type, &t->shape, have, want, 1);
	if (most > 0)
		return *d < most;
	return shape_bytes(&t->shape, t->type, &n) && memcmp(have, want, n) == 0;
}

void
plan_makes_outputs(
    struct arena *a, const struct graph *g, const struct plan *p, struct rng *r, double most, uint64_t seed)
{
	const void **inputs = random_inputs(a, r, g);
	void **want = NEW_ARRAY(a, void *, g->n_outputs), **have = NEW_ARRAY(a, void *, g->n_outputs);
	struct err e = {0};

	if (!interp_run(a, g, inputs, NULL, want, &e) || !plan_path_run(a, p, inputs, have, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		double d;

		if (!is_near(graph_tensor(g, g->outputs[i]), have[i], want[i], most, &d))
			fail_msg("seed %llu: output %u differs by %g", (unsigned long long)seed, i, d);
	}
}
