/* daemon/orchestrate/blp_some.c: the program of some kernels alone: where few of thousands count, rows and
 * duals made for these few prune what those of the whole program let pass. */
#include "blp.h"

bool
blp_solve_some(struct arena *a, const struct blp *p, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, const struct blp_limits *lim, struct blp_result *out, struct err *e)
{
	struct arena tmp = {0};
	struct blp some = *p;
	struct blp_kernel *kernels = NEW_ARRAY(&tmp, struct blp_kernel, p->n_kernels);
	uint32_t *number = NEW_ARRAY(&tmp, uint32_t, p->n_kernels),
		 *of = NEW_ARRAY(&tmp, uint32_t, p->n_kernels);
	uint32_t *from = NEW_ARRAY(&tmp, uint32_t, n_start), n_from = 0;
	bool ok;

	some.kernels = kernels;
	some.n_kernels = 0;
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		number[k] = UINT32_MAX;
		if (cost[k] == BLP_NEVER)
			continue;
		kernels[some.n_kernels] = p->kernels[k];
		kernels[some.n_kernels].cost = cost[k];
		of[some.n_kernels] = k;
		number[k] = some.n_kernels++;
	}
	for (uint32_t i = 0; i < n_start; i++)
		if (number[start[i]] != UINT32_MAX)
			from[n_from++] = number[start[i]];
	ok = blp_solve(a, &some, from, n_from, lim, out, e);
	for (uint32_t i = 0; ok && i < out->n_chosen; i++)
		out->chosen[i] = of[out->chosen[i]];
	out->reduced = NULL;
	out->rows = NULL;
	out->n_rows = 0;
	arena_fini(&tmp);
	return ok;
}
