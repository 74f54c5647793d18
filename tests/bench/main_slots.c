/* tests/bench/main_slots.c: what the text of one generator makes a GPU issue, beside that of another, no GPU
 * needed: both are compiled by NVRTC, and warps of their blocks out of all run by the interpreter of
 * machine code (kernels/sass/machine.h), which takes every branch that hangs on indices as a GPU would.
 *
 *   bench-slots [--sm=80] [--count=8] [--step=N] [--class=NAME] [--old=emit] [--new=loops] [--kernels]
 * MODEL.onnx...
 *
 * A line a class: kernels, what the new generator refuses, what could not be run to its end; instructions
 * that all warps issue, new over old, as geometric mean and worst; kernels with fewer launches, and with
 * more.
 * --kernels: a line each, too; --specs: and what it computes. */
#include "../../kernels/device/gpu.h"
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/machine.h"
#include "../harness/generator.h"
#include "../harness/texts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 1 << 20, PARAM_WORDS = 10, SAMPLES = 12 };

struct args {
	struct texts_opts texts;
	uint32_t count;
	bool lines, specs, has_only;
	enum kernel_class only;
	const struct generator *old, *new;
	char **files;
	int n_files;
};
struct class_slots {
	uint32_t n, refused, unknown, fewer, more;
	double log, worst;
};

/* ---- a kernel -------------------------------------------------------------------------------------------
 */
/* Instructions of a warp of that block, on average; NAN: it was not run to its end. */
static double
steps_of(struct arena *a, const struct sass_kernel *k, const struct launch *l, int64_t range, uint32_t block)
{
	const uint32_t warps = (l->block[0] + 31) / 32;
	const uint32_t param[PARAM_WORDS] = {
	    0x10000000, 1, 0x20000000, 1, 0x30000000, 1, 0, 0, (uint32_t)range, (uint32_t)(range >> 32)};
	struct machine_input in = {.seed = 1,
	    .param = param,
	    .n_param = PARAM_WORDS,
	    .block = {block},
	    .grid = {l->grid[0], 1, 1},
	    .threads = {l->block[0], 1, 1},
	    .warp = {0, warps - 1},
	    .n_warps = MIN_OF(warps, 2u),
	    .turns = TURNS};
	struct machine_trace t;

	machine_run(a, k, NULL, &in, &t);
	return t.end == MACHINE_ENDED ? (double)t.steps / in.n_warps : NAN;
}

/* Of all warps of all passes. */
static bool
slots_of(struct arena *a, struct bytes cubin, const struct kernel_code *c, const char *symbol, double *out,
    struct err *e)
{
	*out = 0;
	for (uint32_t q = 0; q < c->desc.n_passes; q++) {
		const struct launch *l = &c->desc.launch[q];
		const uint32_t n = MIN_OF(l->grid[0], SAMPLES);
		struct sass_kernel k;
		double all = 0;

		if (!sass_read(a, cubin, arena_printf(a, "%s_p%u", symbol, q), &k, e))
			return false;
		for (uint32_t i = 0; i < n; i++) {
			struct arena tmp = {0};

			all += steps_of(&tmp, &k, l, c->desc.range[q],
			    (uint32_t)((2 * (uint64_t)i + 1) * l->grid[0] / (2 * n)));
			arena_fini(&tmp);
		}
		*out += all / n * l->grid[0] * ((l->block[0] + 31) / 32);
	}
	return true;
}

static bool
compile(struct arena *a, const struct gpu *g, const struct kernel_code *c, int sm, struct bytes *out,
    struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	sb_add(&sb, c->text);
	return gpu_compile(g, a, sb_str(&sb), sm, false, out, e);
}

static bool
make(struct arena *a, const struct gpu *g, const struct generator *by, const struct text_row *r,
    const struct target *t, struct kernel_code *code, double *slots, struct err *e)
{
	struct bytes cubin;

	return by->make(a, r->what, STR(""), t, "k", code, e) && compile(a, g, code, t->sm, &cubin, e) &&
	    slots_of(a, cubin, code, "k", slots, e);
}

static bool
one_kernel(const struct args *args, const struct gpu *g, const struct text_row *r, struct class_slots *c,
    struct err *e)
{
	struct arena a = {0};
	struct kernel_code old, new;
	struct err why = {0};
	double x, y;
	char hex[65];
	bool ok = make(&a, g, args->old, r, &args->texts.target, &old, &x, e);
	bool made = ok && make(&a, g, args->new, r, &args->texts.target, &new, &y, &why);

	if (ok && !made && why.code != ERR_INFEASIBLE)
		ok = err_set(e, why.code, "%s", why.msg);
	c->refused += ok && !made;
	if (ok && !made && args->lines)
		printf("%-8s refused: %s\n", kernel_class_name(r->class), why.msg);
	if (made) {
		c->unknown += isnan(x) || isnan(y);
		hash_hex(&r->spec, hex);
		if (args->lines)
			printf("%-8s %.12s new/old %.3f, %.0f instructions of warps, launches %u, %u\n",
			    kernel_class_name(r->class), hex, y / x, x, old.desc.n_passes, new.desc.n_passes);
	}
	if (ok && args->specs)
		printf("%.*s", STR_ARG(r->what->text));
	if (made && !isnan(x) && !isnan(y)) {
		c->n++;
		c->fewer += new.desc.n_passes < old.desc.n_passes;
		c->more += new.desc.n_passes > old.desc.n_passes;
		c->log += log(y / x);
		c->worst = MAX_OF(c->worst, y / x);
	}
	arena_fini(&a);
	return ok;
}

/* ---- classes --------------------------------------------------------------------------------------------
 */
static bool
one_class(const struct args *args, const struct texts *t, const struct gpu *g, enum kernel_class class,
    struct err *e)
{
	struct class_slots c = {0};
	uint32_t all = 0, at = 0, taken = 0, take;

	for (uint32_t i = 0; i < t->n; i++)
		all += t->row[i].class == class;
	take = MIN_OF(all, args->count);
	for (uint32_t i = 0; i < t->n && taken < take; i++) {
		if (t->row[i].class != class || at++ < (uint64_t)taken * all / take)
			continue;
		taken++;
		if (!one_kernel(args, g, &t->row[i], &c, e))
			return err_in(e, "%.*s", STR_ARG(t->row[i].what->text));
	}
	if (taken)
		printf(
		    "%-8s %u of %u kernels, %u refused, %u not run; new over old %.3f, worst %.3f; launches: "
		    "%u fewer, %u more\n",
		    kernel_class_name(class), c.n, all, c.refused, c.unknown, c.n ? exp(c.log / c.n) : 0,
		    c.worst, c.fewer, c.more);
	(void)fflush(stdout);
	return true;
}

static bool
run(const struct args *args, struct err *e)
{
	struct arena a = {0};
	struct texts t = {.a = &a};
	struct gpu g;
	bool ok = true;

	gpu_open(&g);
	ok = gpu_rtc_choose(&g, args->texts.target.sm, e);
	for (int i = 0; i < args->n_files && ok; i++)
		ok = texts_add_model(&t, &args->texts, args->files[i], e);
	for (int i = 0; i < KERNEL_CLASSES && ok; i++)
		if (!args->has_only || (enum kernel_class)i == args->only)
			ok = one_class(args, &t, &g, (enum kernel_class)i, e);
	gpu_close(&g);
	arena_fini(&a);
	return ok;
}

/* ---- calling --------------------------------------------------------------------------------------------
 */
static bool
is_option(const char *arg, const char *name, struct str *value)
{
	const size_t n = strlen(name);

	*value = str_of(arg + (strncmp(arg, name, n) == 0 ? n : 0));
	return strncmp(arg, name, n) == 0;
}

static bool
take(struct args *args, char *arg)
{
	struct str v;
	int64_t n = 0;
	bool ok = true;

	if (is_option(arg, "--sm=", &v)) {
		ok = str_to_i64(v, &n) && n >= 50 && n <= 999;
		args->texts.target.sm = (int)n;
	} else if (is_option(arg, "--count=", &v)) {
		ok = str_to_i64(v, &n) && n >= 1 && n <= 1000000;
		args->count = (uint32_t)n;
	} else if (is_option(arg, "--step=", &v)) {
		ok = str_to_i64(v, &args->texts.step) && args->texts.step >= 1;
	} else if (is_option(arg, "--class=", &v)) {
		ok = args->has_only = kernel_class_read(v, &args->only);
	} else if (is_option(arg, "--old=", &v)) {
		ok = (args->old = generator_named(v)) != NULL;
	} else if (is_option(arg, "--new=", &v)) {
		ok = (args->new = generator_named(v)) != NULL;
	} else if (strcmp(arg, "--kernels") == 0) {
		args->lines = true;
	} else if (strcmp(arg, "--specs") == 0) {
		args->lines = args->specs = true;
	} else {
		ok = arg[0] != '-';
		args->files[args->n_files++] = arg;
	}
	return ok;
}

int
main(int argc, char **argv)
{
	struct args args = {.files = argv,
	    .count = 8,
	    .texts = {.target = target_cuda, .effort = 1, .step = 1},
	    .old = generator_named(STR("emit")),
	    .new = generator_named(STR("loops"))};
	struct err e = {0};
	bool ok = true;

	for (int i = 1; i < argc && ok; i++)
		ok = take(&args, argv[i]) ||
		    err_set(&e, ERR_USAGE, "%s: no such option, or no such value of it", argv[i]);
	if (!ok || args.n_files == 0) {
		if (e.msg[0])
			fprintf(stderr, "bench-slots: %s\n", e.msg);
		fprintf(stderr, "usage: bench-slots [--name=value]... MODEL.onnx...\n");
		return 2;
	}
	if (!run(&args, &e)) {
		fprintf(stderr, "bench-slots: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	return 0;
}
