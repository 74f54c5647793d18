/* tests/bench/main_candidates.c: the candidates of a model as kernels: every STEP-th distinct spec
 * is generated, compiled and compared with the interpreter (small models: in full).
 *
 * --untiled=ISA only says which of those with a heavy linear primitive would have products outside of tiles
 * of registers there (isa.def), and how much of the arithmetic of all their products that is.
 *
 *   bench-candidates [--step=N] [--from=N] [--rel=R] [--untiled=ISA] MODEL.onnx */
#include "../../kernels/space/space.h"
#include "../../kernels/predict/program.h"
#include "../harness/kernel.h"
#include "../harness/model_candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, SAMPLES = 64 };
/* Of products: what is cut off at a border, a last column, a small product beside a heavy one. */
static const double small_share = 0.1;

struct args {
	int64_t step, from;
	double rel;
	const char *file;
	const struct target *untiled; /* NULL: check kernels */
};
struct totals {
	uint32_t checked, refused, wrong;
};

/* More arithmetic than the interpreter should be asked for in full. */
static bool
is_heavy(const struct spec *s)
{
	double flops = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		flops += node_flops(&s->g, &s->g.nodes[i]);
	return flops > 2e8;
}

static void
report(const struct spec *s, uint32_t number, const char *what, const char *why)
{
	printf("spec %u %s: %s\n%.*s", number, what, why, STR_ARG(s->text));
}

static void
check_batch(
    struct arena *a, struct test_kernel *k, const uint32_t *number, uint32_t n, double rel, struct totals *t)
{
	struct err e = {0};

	if (!kernel_compile(a, k, n, &target_avx2, &e)) {
		printf("specs %u..%u do not compile: %s\n", number[0], number[n - 1], e.msg);
		t->wrong += n;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct arena tmp = {0};
		struct err wrong = {0};
		bool heavy = is_heavy(&k[i].spec);
		bool ok = heavy ? kernel_check_sampled(&tmp, &k[i], SAMPLES, rel, &wrong)
				: kernel_check(&tmp, &k[i], 1 + i % 3, rel, &wrong);
		if (!ok && !(heavy && wrong.code == ERR_LIMIT)) {
			report(&k[i].spec, number[i], "is wrong", wrong.msg);
			t->wrong++;
		}
		t->checked++;
		arena_fini(&tmp);
	}
}

static bool
run(const struct args *args, struct totals *t, struct err *e)
{
	struct arena a = {0};
	struct cand_set cs;
	bool ok = model_candidates(&a, args->file, &cs, e);

	for (int64_t i = args->from; ok && i < cs.n_specs;) {
		struct arena batch = {0};
		struct test_kernel *k = NEW_ARRAY(&batch, struct test_kernel, BATCH);
		uint32_t number[BATCH], n = 0;
		struct rng r = {(uint64_t)i};

		for (; i < cs.n_specs && n < BATCH; i += args->step) {
			struct err refused = {0};
			number[n] = ck_u32((size_t)i);
			if (kernel_make(
				&batch, &cs.specs[i], STR(""), &target_avx2, n, &r, &k[n], &refused)) {
				n++;
			} else {
				report(&cs.specs[i], number[n], "is refused", refused.msg);
				t->refused++;
			}
		}
		if (n)
			check_batch(&batch, k, number, n, args->rel, t);
		arena_fini(&batch);
	}
	if (ok)
		printf("%s: %u kernels checked, %u refused by the generator, %u wrong\n", args->file,
		    t->checked, t->refused, t->wrong);
	arena_fini(&a);
	return ok;
}

/* ---- untiled ------------------------------------------------------------------------------------ */
static const struct target *
target_named(const char *name)
{
	for (int i = 0; i < ISA_COUNT; i++)
		if (strcmp(name, isa_info[i].name) == 0)
			return target_of_isa((enum isa)i);
	return NULL;
}

/* Multiplications of the linear leaves of one kernel, and of those that are no tiles of registers. */
static bool
count_untiled(const struct spec *s, const struct target *t, double *all, double *loops)
{
	struct arena a = {0};
	struct program p;
	struct err e = {0};
	bool ok = program_of_schedule(&a, s, STR(TRACED), t, &p, &e);

	*all = *loops = 0;
	for (uint32_t i = 0; ok && i < p.n_leaves; i++) {
		double n = 2 * p.leaf[i].op[OP_PRODUCT];

		for (uint32_t k = 0; k < p.leaf[i].n_loops; k++)
			n *= p.leaf[i].loop[k].extent;
		*all += n;
		*loops += p.leaf[i].is_tiled ? 0 : n;
	}
	arena_fini(&a);
	return ok;
}

static bool
has_anchor(const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (node_is_anchor(g, &g->nodes[i]))
			return true;
	return false;
}

static bool
list_untiled(const struct args *args, struct totals *t, struct err *e)
{
	struct arena a = {0};
	struct cand_set cs;
	double all = 0, loops = 0;
	bool ok = model_candidates(&a, args->file, &cs, e);

	for (int64_t i = args->from; ok && i < cs.n_specs; i += args->step) {
		double mine, mine_loops;

		if (!has_anchor(&cs.specs[i].g))
			continue;
		t->refused += !count_untiled(&cs.specs[i], args->untiled, &mine, &mine_loops);
		t->checked++;
		all += mine;
		loops += mine_loops;
		if (mine_loops > small_share * mine) {
			printf("spec %lld: %.3f of %.3f GFLOP in loops\n%.*s", (long long)i, mine_loops / 1e9,
			    mine / 1e9, STR_ARG(cs.specs[i].text));
			t->wrong++;
		}
	}
	if (ok)
		printf(
		    "%s: %u of %u kernels have heavy linear stages without tiles, %.4f of their arithmetic\n",
		    args->file, t->wrong, t->checked, loops / MAX_OF(all, 1.0));
	arena_fini(&a);
	return ok;
}

/* False: a number, or an instruction set, that is none. */
static bool
take_argument(struct args *args, const char *arg)
{
	if (strncmp(arg, "--step=", 7) == 0)
		return str_to_i64(str_of(arg + 7), &args->step) && args->step >= 1;
	if (strncmp(arg, "--from=", 7) == 0)
		return str_to_i64(str_of(arg + 7), &args->from) && args->from >= 0;
	if (strncmp(arg, "--rel=", 6) == 0)
		return str_to_f64(str_of(arg + 6), &args->rel);
	if (strncmp(arg, "--untiled=", 10) == 0)
		return (args->untiled = target_named(arg + 10)) != NULL;
	args->file = arg;
	return true;
}

int
main(int argc, char **argv)
{
	struct args args = {.step = 1, .rel = 1e-3};
	struct totals t = {0};
	struct err e = {0};
	bool ok = true;

	for (int i = 1; i < argc && ok; i++)
		ok = take_argument(&args, argv[i]);
	if (!ok || !args.file) {
		fprintf(stderr,
		    "usage: bench-candidates [--step=N] [--from=N] [--rel=R] "
		    "[--untiled=ISA] MODEL.onnx\n");
		return 2;
	}
	if (!(args.untiled ? list_untiled(&args, &t, &e) : run(&args, &t, &e))) {
		fprintf(stderr, "bench-candidates: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	return t.wrong ? 1 : 0;
}
