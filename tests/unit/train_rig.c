/* tests/unit/train_rig.c: see train_rig.h. */
#include "train_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

const struct hw rig_host = {
    .flops_peak = 1e11,
    .bytes_per_s = {1e11, 5e10, 2e10, 1e10},
    .level_bytes = {32768, 524288, 16777216},
    .call_ns = 20,
    .simd_bytes = 64,
    .n_threads = 1,
};

void
rig_row(struct arena *a, uint32_t i, double extra, struct train_row *out)
{
	uint32_t rows = 256 + 24 * (i % 13), columns = 256 + 16 * (i / 13 % 11);
	char *text = arena_printf(a, "%%0 = input f32[%u,%u]\n%%1 = %s %%0\n%%2 = %s %%1\noutput %%2\n", rows,
	    columns, i % 2 ? "exp" : "neg", i % 3 ? "abs" : "tanh");
	struct graph g;
	struct spec s;
	struct err e = {0};

	*out = (struct train_row){.model = i % RIG_MODELS, .schedule = STR(""), .wall_ns = 1000 + i};
	if (!graph_read(&g, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, &g, &s);
	if (!sample_make(a, &s, STR(""), &target_avx512, &rig_host, STR(""), &out->sample, &e))
		fail_msg("%s", e.msg);
	sample_plain(a, &s, &target_avx512, &rig_host, STR(""), &out->plain);
	train_row_flatten(a, out);
	out->spec = s.hash;
	out->log_ratio = 0.3 + 0.8 * (i % 2) + 0.4 * (i % 3 == 0) + extra;
	out->ns = out->sample.work_ns * exp(out->log_ratio);
}

void
rig_train(struct arena *a, const struct train_set *set, struct predictor *out)
{
	struct err e = {0};

	if (!train_predictor(a, set, &fit_usual, out, &e))
		fail_msg("%s", e.msg);
}
