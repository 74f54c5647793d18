/* tests/harness/model_candidates.c: see the header. */
#include "model_candidates.h"

bool
model_candidates(struct arena *a, const char *file, struct cand_set *out, struct err *e)
{
	const struct rewrite_opts ro = {
	    .normalize = true, .alternatives = true, .worst = NUM_PRECISION, .max_nodes = 100000};
	struct bytes onnx;
	struct model m;
	struct graph prim, g;
	struct fission_stats fs;

	return os_read_file(os_real(), a, file, (size_t)2 << 30, &onnx, e) &&
	    model_read(a, onnx, file, NULL, &model_limits_default, &m, e) &&
	    fission_run(a, &m, &prim, &fs, e) && rewrite_run(a, &prim, &ro, &g, NULL, e) &&
	    identify_run(a, &g, IDENTIFY_FULL, NULL, out, e);
}
