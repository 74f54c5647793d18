/* tests/bench/main_cuda.c: the candidates of a model as CUDA kernels: every STEP-th distinct spec is
 * generated, and run through the host shim against the interpreter (--check), or written with its
 * prelude as files that NVRTC takes (--write=DIR).
 *
 *   bench-cuda [--step=N] [--from=N] [--sm=80] [--precision=f32] [--schedule=S] [--check] [--write=DIR] MODEL.onnx */
#include "../../daemon/fission/fission.h"
#include "../../daemon/identify/identify.h"
#include "../../daemon/rewrite/rewrite.h"
#include "../harness/cuda_kernel.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32 };

struct args {
	int64_t step, from, sm;
	bool check;
	struct target target;
	const char *file, *write, *schedule;
};
struct totals {
	uint32_t made, checked, heavy, refused, wrong, tiles;
};

static bool
candidates_of(struct arena *a, const char *file, struct cand_set *out, struct err *e)
{
	const struct rewrite_opts ro = {
	    .normalize = true, .alternatives = true, .worst = NUM_PRECISION, .max_nodes = 100000};
	struct bytes onnx;
	struct model m;
	struct graph prim, g;
	struct fission_stats fs;

	return os_read_file(os_real(), a, file, (size_t)2 << 30, &onnx, e)
	    && model_read(a, onnx, file, NULL, &model_limits_default, &m, e) && fission_run(a, &m, &prim, &fs, e)
	    && rewrite_run(a, &prim, &ro, &g, NULL, e) && identify_run(a, &g, IDENTIFY_FULL, NULL, out, e);
}

/* More than the interpreter, and coroutines, should be asked for. */
static bool
is_heavy(const struct spec *s)
{
	double flops = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		flops += node_flops(&s->g, &s->g.nodes[i]);
	return flops > 2e7;
}

static bool
write_batch(struct arena *a, const struct args *args, const struct cuda_case *list, uint32_t n, int64_t number,
    struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, emit_cuda_prelude(a, false));
	for (uint32_t i = 0; i < n; i++)
		if (!list[i].refused)
			sb_add(&sb, list[i].code.text);
	return os_write_file(os_real(), arena_printf(a, "%s/k%lld.cu", args->write, (long long)number),
	    (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
}

static bool
batch(const struct args *args, const struct cand_set *cs, int64_t *at, struct totals *t, struct err *e)
{
	struct arena a = {0};
	struct cuda_case *list = NEW_ARRAY(&a, struct cuda_case, BATCH);
	const int64_t first = *at;
	uint32_t n = 0;
	bool ok = true;

	for (; *at < cs->n_specs && n < BATCH; *at += args->step, n++) {
		struct cuda_case *c = &list[n];

		*c = (struct cuda_case){.spec = cs->specs[*at], .schedule = args->schedule, .seed = (uint64_t)*at + 1,
		    .by = args->target.precision == PRECISION_F32 ? 5 : 1000};
		cuda_case_make(&a, c, &args->target, n);
		t->made += !c->refused;
		t->refused += c->refused;
		if (c->refused) {
			printf("spec %lld is refused: %.*s\n", (long long)*at, STR_ARG(c->refusal));
			continue;
		}
		t->tiles += strstr(c->code.text.p, "part_a") != NULL;
		if (args->check && is_heavy(&c->spec)) {
			c->refused = true;
			t->heavy++;
		}
	}
	for (uint32_t i = 0; i < n && args->check; i++)
		t->checked += !list[i].refused;
	if (args->check)
		t->wrong += cuda_cases_check(&a, list, n);
	if (args->write)
		ok = write_batch(&a, args, list, n, first, e);
	arena_fini(&a);
	return ok;
}

static bool
read_args(int argc, char **argv, struct args *args)
{
	static const char *const precisions[PRECISION_COUNT] = {"f32", "tf32", "f16", "bf16"};

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--step=", 7) == 0)
			(void)str_to_i64(str_of(argv[i] + 7), &args->step);
		else if (strncmp(argv[i], "--from=", 7) == 0)
			(void)str_to_i64(str_of(argv[i] + 7), &args->from);
		else if (strncmp(argv[i], "--sm=", 5) == 0)
			(void)str_to_i64(str_of(argv[i] + 5), &args->sm);
		else if (strncmp(argv[i], "--schedule=", 11) == 0)
			args->schedule = argv[i] + 11;
		else if (strncmp(argv[i], "--write=", 8) == 0)
			args->write = argv[i] + 8;
		else if (strcmp(argv[i], "--check") == 0)
			args->check = true;
		else if (strncmp(argv[i], "--precision=", 12) != 0)
			args->file = argv[i];
		for (int p = 0; p < PRECISION_COUNT && strncmp(argv[i], "--precision=", 12) == 0; p++)
			if (strcmp(argv[i] + 12, precisions[p]) == 0)
				args->target.precision = (enum precision)p;
	}
	args->target.sm = (int)args->sm;
	return args->file && args->step >= 1 && args->from >= 0;
}

int
main(int argc, char **argv)
{
	struct args args = {.step = 1, .sm = 80, .target = target_cuda, .schedule = ""};
	struct totals t = {0};
	struct arena a = {0};
	struct cand_set cs;
	struct err e = {0};
	bool ok;

	if (!read_args(argc, argv, &args)) {
		fprintf(stderr, "usage: bench-cuda [--step=N] [--from=N] [--sm=80] [--precision=f32|tf32|f16|bf16]"
				" [--schedule=S] [--check] [--write=DIR] MODEL.onnx\n");
		return 2;
	}
	ok = candidates_of(&a, args.file, &cs, &e);
	for (int64_t i = args.from; ok && i < cs.n_specs;)
		ok = batch(&args, &cs, &i, &t, &e);
	if (!ok) {
		fprintf(stderr, "bench-cuda: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	printf("%s: %u specs, %u kernels made, %u with tiles, %u refused, %u checked, %u too large to check, %u wrong\n",
	    args.file, (unsigned)cs.n_specs, t.made, t.tiles, t.refused, t.checked, t.heavy, t.wrong);
	arena_fini(&a);
	return t.wrong ? 1 : 0;
}
