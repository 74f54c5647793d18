/* tests/prop/cuda_knobs_test.c: every knob of a schedule either says nothing to the CUDA emitter or changes
 * what it writes; each value that a search tries, each precision and each form of the online softmax goes
 * through NVRTC for the architectures that this host's knows.  A new row of space.def needs one here.
 * KORCH_NVRTC_ALL=1 compiles every value for every architecture, not for sm_80 and one other.
 * label: gpu (most of its time is NVRTC's, in which a sanitizer of ours finds nothing) */
#include "../../kernels/base/base.h"
#include "../../kernels/fuse/tile.h"
#include "../harness/cuda_nvrtc.h"
#include "../harness/setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const struct knob_row {
	const char *name, *tried;
} knobs[KNOB_COUNT] = {
#define KNOB(N, LEAST, MOST, TRIED, MEANING) [KNOB_##N] = {#N, TRIED},
#include "../../kernels/fuse/space.def"
#undef KNOB
};
static const char *const linears[] = {
#include "cuda_cases.inc"
};
static const char *const apart[] = {
#include "cuda_apart.inc"
};
static const char *const sweeps[] = {
#include "cuda_sweeps.inc"
};
static const char maps[] =
    "%0 = input f32[64,1024]\n%1 = exp %0\n%2 = mul %1 %0\n%3 = sigmoid %2\n%4 = add %3 %1\noutput %4\n";
static const char shared_map[] =
    "%0 = input f32[64,96]\n%1 = sigmoid %0\n%2 = sum %1 axes=[0]\n%3 = bcast %2 shape=[64,96]\n"
    "%4 = mul %1 %3\noutput %4\n";
static const char short_sum[] = "%0 = input f32[9,1000]\n%1 = sum %0 axes=[0]\n%2 = relu %1\noutput %2\n";
static const char keys[] =
    "%0 = input f32[70,20]\n%1 = input f32[20,1024]\n%2 = matmul %0 %1\n%3 = rmax %2 axes=[1]\n"
    "%4 = bcast %3 shape=[70,1024]\n%5 = sub %2 %4\n%6 = exp %5\n%7 = sum %6 axes=[1]\n%8 = bcast %7 "
    "shape=[70,1024]\n"
    "%9 = div %6 %8\n%10 = input f32[1024,64]\n%11 = matmul %9 %10\noutput %11\n";
static const char rows[] = "%0 = input f32[5000,300]\n%1 = sum %0 axes=[1]\noutput %1\n";
static const char all[] = "%0 = input f32[200000]\n%1 = sum %0 axes=[0]\noutput %1\n";

/* What a knob means to the CUDA emitter. */
static const struct concern {
	enum {
		UNSAID,
		NOTHING,
		LIBRARY,
		CHANGES,
		GRID
	} how;                   /* GRID: how the pass is started, and not its text */
	const char *const *text; /* a graph where values differ, under `with` */
	const char *with;
	enum precision precision;
	int64_t most; /* beyond it CUDA refuses; 0: never */
} concerns[KNOB_COUNT] = {
    [KNOB_block] = {NOTHING},
    [KNOB_mr] = {NOTHING},
    [KNOB_nv] = {NOTHING},
    [KNOB_field] = {NOTHING},
    [KNOB_wino] = {NOTHING},
    [KNOB_lib] = {LIBRARY},
    [KNOB_algo] = {LIBRARY},
    [KNOB_math] = {LIBRARY},
    [KNOB_trace] = {CHANGES, (const char *const[]){rows}, ""},
    [KNOB_inline_flops] = {CHANGES, (const char *const[]){shared_map}, ""},
    [KNOB_unroll_red] = {CHANGES, (const char *const[]){short_sum}, ""},
    [KNOB_split] = {CHANGES, (const char *const[]){all}, ""},
    [KNOB_online] = {CHANGES, (const char *const[]){keys}, "", PRECISION_F32, 128},
    [KNOB_threads] = {CHANGES, (const char *const[]){rows}, ""},
    [KNOB_team] = {CHANGES, (const char *const[]){rows}, ""},
    [KNOB_tm] = {CHANGES, &linears[1], ""},
    [KNOB_tn] = {CHANGES, &linears[1], "tm=4"},
    [KNOB_tk] = {CHANGES, &linears[1], ""},
    [KNOB_stages] = {CHANGES, &linears[1], ""},
    [KNOB_async] = {CHANGES, &linears[1], ""},
    [KNOB_splitk] = {CHANGES, &linears[5], ""},
    [KNOB_exact] = {CHANGES, &linears[1], "", PRECISION_TF32},
    [KNOB_vector] = {CHANGES, (const char *const[]){maps}, ""},
    [KNOB_persist] = {GRID, (const char *const[]){rows}, "threads=128"},
    [KNOB_apart] = {CHANGES, &apart[0], ""},
};

/* `with` and a value, in the order of the knobs. */
static const char *
schedule_of(struct arena *a, const char *with, int knob, int64_t value)
{
	struct sched s;
	struct strbuf sb;
	struct err e = {0};

	if (!sched_read(str_of(with), &s, &e))
		fail_msg("%s", e.msg);
	s.v[knob] = value;
	sb_init(&sb, a);
	sched_print(&sb, &s);
	return sb_str(&sb).p;
}

static void
make(struct arena *a, struct cuda_case *c, const char *text, const char *schedule, int sm,
    enum precision precision, uint32_t number)
{
	struct target t = target_cuda;

	t.sm = sm;
	t.precision = precision;
	*c = (struct cuda_case){.seed = number + 1, .schedule = schedule};
	cuda_case_read(a, c, text);
	cuda_case_make(a, c, &t, number);
}

/* Behind the comment that names the schedule. */
static const char *
body(const struct cuda_case *c)
{
	const char *end = strstr(c->code.text.p, "*/");

	assert_non_null(end);
	return end;
}

static bool
is_same(const struct cuda_case *a, const struct cuda_case *b)
{
	return a->refused == b->refused &&
	    (a->refused ||
		(strcmp(body(a), body(b)) == 0 && a->code.desc.n_passes == b->code.desc.n_passes &&
		    memcmp(a->code.desc.launch, b->code.desc.launch,
			a->code.desc.n_passes * sizeof(a->code.desc.launch[0])) == 0));
}

/* ---- what a knob means ---- */
/* Values of it, times graphs, to which it makes a difference; refusing one is none. */
static uint32_t
n_changes(int knob)
{
	uint32_t n_changed = 0;

	const char *const others[] = {maps, shared_map, short_sum, rows, all, linears[0], linears[1],
	    linears[3], linears[4], linears[5], apart[0], sweeps[0]};
	struct arena a = {0};

	for (size_t i = 0; i < COUNT_OF(others); i++) {
		struct str tried = str_of(knobs[knob].tried);
		struct cuda_case plain, with;

		make(&a, &plain, others[i], "", 80, PRECISION_F32, 0);
		while (tried.n) {
			int64_t v;

			assert_true(str_to_i64(str_cut(&tried, ' '), &v));
			make(&a, &with, others[i], schedule_of(&a, "", knob, v), 80, PRECISION_F32, 0);
			if (!with.refused && !is_same(&plain, &with))
				fprintf(stderr, "%s=%lld changes CUDA's text of graph %zu\n",
				    knobs[knob].name, (long long)v, i);
			n_changed += !with.refused && !is_same(&plain, &with);
		}
	}
	arena_fini(&a);
	return n_changed;
}

/* Every value within reach makes a kernel, and they are not all the same one. */
static void
makes_a_difference(int knob)
{
	const struct concern *c = &concerns[knob];
	struct str tried = str_of(knobs[knob].tried);
	struct arena a = {0};
	struct cuda_case first, next;
	uint32_t n = 0, n_others = 0;

	while (tried.n) {
		struct cuda_case *to = n++ ? &next : &first;
		int64_t v;

		assert_true(str_to_i64(str_cut(&tried, ' '), &v));
		make(&a, to, *c->text, schedule_of(&a, c->with, knob, v), 80, c->precision, 0);
		if (to->refused != (c->most && v > c->most))
			fail_msg("%s=%lld: %.*s", knobs[knob].name, (long long)v,
			    STR_ARG(to->refused ? to->refusal : STR("is not refused")));
		n_others += to == &next && !to->refused && !is_same(&first, &next);
		if (c->how == GRID && to == &next)
			assert_string_equal(body(&first), body(&next));
	}
	if (n_others == 0)
		fail_msg("%s: all of its values make the same kernel of\n%s", knobs[knob].name, *c->text);
	arena_fini(&a);
}

static void
test_meanings(void **state)
{
	uint32_t n_changed = 0;

	(void)state;
	for (int k = 0; k < KNOB_COUNT; k++) {
		if (concerns[k].how == UNSAID)
			fail_msg("what does knob %s mean to CUDA?", knobs[k].name);
		if (concerns[k].how == NOTHING)
			n_changed += n_changes(k);
		if (concerns[k].text)
			makes_a_difference(k);
	}
	assert_int_equal(n_changed, 0);
}

/* ---- NVRTC ---- */
static const int sms[] = {80, 70, 75, 90, 100};
struct compiling {
	struct gpu gpu;
	struct arena arena; /* of the batch */
	struct cuda_case list[NVRTC_BATCH];
	uint32_t n;
	int sm;
	struct nvrtc_totals t;
};

static void
flush(struct compiling *c)
{
	if (c->n)
		cuda_nvrtc_compile(&c->gpu, c->list, c->n, 0, c->sm, &c->t);
	arena_fini(&c->arena);
	c->n = 0;
}

static void
add(struct compiling *c, const char *text, const char *schedule, enum precision precision)
{
	make(&c->arena, &c->list[c->n], text, str_dup(&c->arena, str_of(schedule)), c->sm, precision, c->n);
	if (++c->n == NVRTC_BATCH)
		flush(c);
}

static void
add_values(struct compiling *c, uint32_t arch)
{
	bool all_of_them = setting("KORCH_NVRTC_ALL", 0) != 0 || arch == 0;
	uint32_t turn = 0;

	for (int k = 0; k < KNOB_COUNT; k++)
		for (struct str tried = str_of(concerns[k].text ? knobs[k].tried : ""); tried.n;) {
			struct arena tmp = {0};
			enum precision p = precision_on(c->sm, concerns[k].precision) ? concerns[k].precision
										      : PRECISION_F32;
			int64_t v;

			assert_true(str_to_i64(str_cut(&tried, ' '), &v));
			if (all_of_them || turn++ % (COUNT_OF(sms) - 1) == arch - 1)
				add(c, *concerns[k].text, schedule_of(&tmp, concerns[k].with, k, v), p);
			arena_fini(&tmp);
		}
}

static void
add_precisions(struct compiling *c)
{
	for (int p = 0; p < PRECISION_COUNT; p++) {
		if (!precision_on(c->sm, (enum precision)p))
			continue;
		add(c, linears[1], "", (enum precision)p);
		add(c, linears[3], "", (enum precision)p);
		add(c, linears[5], "splitk=4", (enum precision)p);
		for (size_t i = 0; i < COUNT_OF(sweeps); i++)
			add(c, sweeps[i], "online=64", (enum precision)p);
		add(c, sweeps[0], "online=32 tm=0", (enum precision)p);
	}
}

static void
test_nvrtc_compiles_values(void **state)
{
	struct err e;
	uint32_t failed = 0;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(sms); i++) {
		struct compiling c = {.sm = sms[i]};

		gpu_open(&c.gpu);
		if (!gpu_rtc_choose(&c.gpu, sms[i], &e)) {
			printf("SKIP: 1 part: schedules' values are not compiled for sm_%d: %s\n", sms[i],
			    e.msg);
		} else {
			add_values(&c, i);
			flush(&c);
			cuda_nvrtc_print(&c.t, c.sm, "values");
			failed += c.t.failed;
			c.t = (struct nvrtc_totals){.kernels = 0};
			add_precisions(&c);
			flush(&c);
			cuda_nvrtc_print(&c.t, c.sm, "precisions, online softmax");
			failed += c.t.failed;
		}
		gpu_close(&c.gpu);
	}
	assert_int_equal(failed, 0);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_meanings),
	    cmocka_unit_test(test_nvrtc_compiles_values),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
