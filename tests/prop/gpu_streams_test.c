/* Plans on several streams of the fake GPU, whose graphs run in any order that their edges allow: random plans
 * whose steps share bytes in all ways compute what they compute in order; without any one of their waits they do
 * not; what cannot be made is said, and what is not faster is not used. */
#include "../../kernels/emit/emit.h"
#include "../../worker/gpu_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 64, BLOCK = 32, SLOT = 64, MAX_STEPS = 24, N_PLANS = 40, N_DROPPED = 12 };
#define PASS(NAME) "K_KERNEL K_BOUNDS(32) " NAME "(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n" \
	"\tconst float *x = (const float *)buf[0], *y = (const float *)buf[1];\n" \
	"\tfloat *r = (float *)buf[2], *s = (float *)buf[3], *t = (float *)shared;\n" \
	"\t(void)x, (void)y, (void)r, (void)s, (void)t, (void)local;\n" \
	"\tfor (k_i64 i = lo + K_BLOCK * 32 + K_TID; i < hi; i += K_BLOCKS * 32)\n\t\t"
/* r = x - y / 2 and r = x - mirrored y / 2, the second by way of scratch; both into s too. */
static const char *const texts[2] = {
    PASS("k_p0") "r[i] = s[i] = x[i] - 0.5f * y[i];\n}\n",
    PASS("k_p0") "t[i] = y[63 - i];\n}\n" PASS("k_p1") "r[i] = s[i] = x[i] - 0.5f * t[i];\n}\n"};

/* Every step's result lies in work memory, maybe over older ones, and in a part of the only output. */
struct sample {
	struct plan plan;
	uint32_t n_slots; /* of SLOT bytes */
	uint32_t x[2 * MAX_STEPS], y[2 * MAX_STEPS], at[2 * MAX_STEPS]; /* steps read, counted from 1, 0: the input; slot */
};

/* ---- plans --------------------------------------------------------------------------------------- */
static struct bytes
module(struct arena *a, const struct gpu *g)
{
	struct gpu_kernel k[2];
	struct bytes out;

	for (uint32_t i = 0; i < 2; i++) {
		struct strbuf sb;
		struct err e = {0};

		sb_init(&sb, a);
		sb_add(&sb, emit_cuda_prelude(a, false));
		sb_addz(&sb, texts[i]);
		k[i] = (struct gpu_kernel){.symbol = i ? STR("mirror") : STR("plain"), .n_passes = 1 + i};
		for (uint32_t q = 0; q <= i; q++)
			k[i].pass[q] = (struct gpu_pass){.grid = {2, 1, 1}, .block = {BLOCK, 1, 1}};
		if (!gpu_compile(g, a, sb_str(&sb), 80, false, &k[i].cubin, &e))
			fail_msg("%s", e.msg);
	}
	gpu_module_pack(a, 80, k, 2, &out);
	return out;
}

static bool
meet(const struct sample *s, uint32_t i, uint32_t step)
{
	uint32_t d = step ? s->at[i] > s->at[step - 1] ? s->at[i] - s->at[step - 1] : s->at[step - 1] - s->at[i] : UINT32_MAX;

	return d < N * sizeof(float) / SLOT;
}

/* Operands are of the last few steps or of any; then every place is read once more as it was left. */
static uint32_t
choose_steps(struct sample *s, struct rng *r)
{
	uint32_t n = 4 + rng_below(r, MAX_STEPS - 4), wide = 1 + rng_below(r, MAX_STEPS);

	s->n_slots = 24 + rng_below(r, 2) * rng_below(r, 100);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t span = MIN_OF(i + 1, wide);

		s->x[i] = i - rng_below(r, span);
		s->y[i] = rng_below(r, 4) ? i - rng_below(r, span) : 0;
		do
			s->at[i] = rng_below(r, s->n_slots - 3);
		while (meet(s, i, s->x[i]) || meet(s, i, s->y[i]));
	}
	for (uint32_t i = 0; i < n; i++) {
		s->x[n + i] = s->y[n + i] = i + 1;
		s->at[n + i] = s->n_slots + 4 * i;
	}
	return 2 * n;
}

static struct place
place(enum place_kind kind, size_t offset)
{
	return (struct place){.kind = kind, .offset = offset, .n_bytes = N * sizeof(float), .type = DT_f32,
	    .shape = shape_make(1, (const int64_t[]){N})};
}

static void
make_sample(struct arena *a, const struct bytes *code, uint64_t seed, struct sample *s)
{
	struct rng r = {seed};
	uint32_t n = choose_steps(s, &r);
	struct plan *p = &s->plan;

	*p = (struct plan){.run_compat = STR("cuda sm_80"), .n_threads = 1, .n_kernels = 2, .n_steps = n, .n_inputs = 1,
	    .n_outputs = 1, .n_places = 2 * n + 1, .module = *code, .work_bytes = (s->n_slots + 2 * n) * SLOT};
	p->kernels = NEW_ARRAY(a, struct plan_kernel, 2);
	for (uint32_t i = 0; i < 2; i++)
		p->kernels[i] = (struct plan_kernel){.symbol = i ? STR("mirror") : STR("plain"), .n_operands = 2, .n_results = 2,
		    .n_passes = 1 + i, .range = {N, N}, .shared_bytes = i * N * sizeof(float), .cost_ns = 4000};
	p->inputs = NEW_ARRAY(a, struct plan_io, 1);
	p->inputs[0] = (struct plan_io){STR("x"), DT_f32, shape_make(1, (const int64_t[]){N})};
	p->outputs = NEW_ARRAY(a, struct plan_io, 1);
	p->outputs[0] = (struct plan_io){STR("all"), DT_f32, shape_make(1, (const int64_t[]){n * N})};
	p->places = NEW_ARRAY(a, struct place, p->n_places);
	p->steps = NEW_ARRAY(a, struct plan_step, n);
	p->places[0] = place(PLACE_INPUT, 0);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t list[4] = {s->x[i], s->y[i], i + 1, n + i + 1};

		p->places[i + 1] = place(PLACE_WORK, s->at[i] * SLOT);
		p->places[n + i + 1] = place(PLACE_OUTPUT, i * N * sizeof(float));
		p->steps[i] = (struct plan_step){.kernel = rng_below(&r, 2), .n_places = 4, .places = arena_dup(a, list, sizeof(list))};
	}
}

/* The same in order, on the host. */
static void
expect(struct arena *a, const struct sample *s, const float *in, float *out)
{
	float *work = NEW_ARRAY(a, float, s->plan.work_bytes / sizeof(float));
	const size_t slot = SLOT / sizeof(float);

	for (uint32_t i = 0; i < s->plan.n_steps; i++) {
		const float *x = s->x[i] ? work + s->at[s->x[i] - 1] * slot : in, *y = s->y[i] ? work + s->at[s->y[i] - 1] * slot : in;

		for (int k = 0; k < N; k++)
			out[i * N + (uint32_t)k] = x[k] - 0.5F * y[s->plan.steps[i].kernel ? N - 1 - k : k];
		memcpy(work + s->at[i] * slot, out + i * N, N * sizeof(float));
	}
}

/* ---- running them ----------------------------------------------------------------------------------- */
static void
open_fake(struct arena *a, uint64_t seed, const char *more, struct gpu *g)
{
	struct err e = {0};

	if (!gpu_fake_open(str_of(arena_printf(a, "gpu=a100,replay=1,seed=%llu%s", (unsigned long long)seed, more)), g, &e))
		fail_msg("%s", e.msg);
}

/* As many runs as its graph has nodes, each on other values: is every one of them right? */
static bool
is_right(struct arena *a, const struct sample *s, struct runner *r, uint64_t seed)
{
	size_t n = s->plan.n_steps * (size_t)N;
	float in[N], *out = NEW_ARRAY(a, float, n), *want = NEW_ARRAY(a, float, n);
	struct rng rng = {seed + 77};
	struct err e = {0};
	int64_t ns;

	for (uint32_t turn = 0; turn < 2 * s->plan.n_steps; turn++) {
		for (int k = 0; k < N; k++)
			in[k] = (float)rng_normal(&rng);
		expect(a, s, in, want);
		if (!runner_run(r, (const void *[]){in}, (void *[]){out}, &ns, NULL, &e))
			fail_msg("%s", e.msg);
		if (memcmp(out, want, n * sizeof(float)) != 0)
			return false;
	}
	return true;
}

static void
random_plans(void **state)
{
	struct arena a = {0};
	struct gpu g;
	struct bytes code;
	uint32_t n_several = 0;

	(void)state;
	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	for (uint64_t seed = 0; seed < N_PLANS; seed++) {
		struct sample s;
		struct runner *r;
		struct err e = {0};
		uint32_t n_streams = 1 + (uint32_t)seed % STREAMS_MAX;

		make_sample(&a, &code, seed, &s);
		open_fake(&a, seed, "", &g);
		if (!runner_open(&s.plan, &(struct runner_opts){.n_streams = n_streams, .gpu = &g}, &r, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		assert_int_equal(runner_streams(r)->n_asked, n_streams);
		assert_in_range(runner_streams(r)->n_used, 1, n_streams);
		if (!is_right(&a, &s, r, seed))
			fail_msg("seed %llu: wrong on %u streams", (unsigned long long)seed, runner_streams(r)->n_used);
		n_several += runner_streams(r)->n_used > 1;
		runner_close(r);
	}
	assert_true(n_several > N_PLANS / 2);
	arena_fini(&a);
}

enum outcome { REFUSED, WRONG, RIGHT };
static enum outcome
without_wait(struct arena *a, const struct sample *s, uint64_t seed, uint32_t k)
{
	struct runner *r;
	struct gpu g;
	struct err e = {0};
	bool ok;

	open_fake(a, seed, arena_printf(a, ",drop_wait=%u", k), &g);
	if (!runner_open(&s->plan, &(struct runner_opts){.n_streams = 3, .gpu = &g}, &r, &e))
		return REFUSED;
	assert_true(runner_streams(r)->n_used > 1);
	ok = is_right(a, s, r, seed);
	runner_close(r);
	return ok ? RIGHT : WRONG;
}

/* Streams whose first step waits for nothing: they are forked from the first one. */
static uint32_t
n_forked(const struct streams *o)
{
	bool seen[STREAMS_MAX] = {true};
	uint32_t n = 0;

	for (uint32_t i = 0; i < o->n_steps; i++) {
		n += !seen[o->stream[i]] && o->waits.first[i] == o->waits.first[i + 1];
		seen[o->stream[i]] = true;
	}
	return n;
}

/* Captured are forks, waits between steps, joins.  Without one of the former the plan is wrong or refused (steps stay
 * outside of the graph), without a join refused unless the first stream has waited for that one's end anyway. */
static void
every_wait_counts(void **state)
{
	struct arena a = {0};
	struct gpu g;
	struct bytes code;
	uint32_t n_waits = 0, n_unjoined = 0;

	(void)state;
	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	for (uint64_t seed = 0; seed < N_DROPPED; seed++) {
		struct sample s;
		struct streams o;
		uint32_t forks, k;

		make_sample(&a, &code, seed, &s);
		streams_of_plan(&a, &s.plan, 3, &o);
		forks = n_forked(&o);
		for (k = 1; k <= forks + o.n_waits; k++) {
			if (without_wait(&a, &s, seed, k) == RIGHT)
				fail_msg("seed %llu: right without wait %u of %u forks and %u", (unsigned long long)seed, k, forks, o.n_waits);
			n_waits++;
		}
		for (; k < forks + o.n_waits + o.n_streams; k++) {
			enum outcome out = without_wait(&a, &s, seed, k);

			assert_int_not_equal(out, WRONG);
			n_unjoined += out == REFUSED;
		}
	}
	assert_true(n_waits > 100);
	assert_true(n_unjoined > 5);
	arena_fini(&a);
}

/* ---- what is said ------------------------------------------------------------------------------------ */
/* A plan that can use several streams. */
static void
wide_sample(struct arena *a, const struct bytes *code, struct sample *s, struct streams *order)
{
	uint64_t seed = 0;

	do {
		make_sample(a, code, seed++, s);
		streams_of_plan(a, &s->plan, 3, order);
	} while (order->n_streams < 3 || order->n_waits < 4);
}

static void
what_cannot_be_made(void **state)
{
	static const struct {
		const char *settings, *words;
	} rows[] = {{",streams=1", "cuStreamCreate"}, {",streams=2", "cuStreamCreate"}, {",events=2", "cuEventCreate"},
	    {",events=5", "cuEventCreate"}};
	struct arena a = {0};
	struct gpu g;
	struct sample s;
	struct streams order;
	struct runner *r;
	struct err e = {0};
	struct bytes code;

	(void)state;
	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	wide_sample(&a, &code, &s, &order);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		open_fake(&a, 1, rows[i].settings, &g);
		if (runner_open(&s.plan, &(struct runner_opts){.n_streams = 3, .gpu = &g}, &r, &e))
			fail_msg("%s: it opens", rows[i].settings);
		if (e.code != ERR_MEMORY || !strstr(e.msg, rows[i].words) || !strstr(e.msg, "--streams 1"))
			fail_msg("%s: %s: \"%s\"", rows[i].settings, err_name(e.code), e.msg);
		open_fake(&a, 1, rows[i].settings, &g);
		if (!runner_open(&s.plan, &(struct runner_opts){.n_streams = 1, .gpu = &g}, &r, &e))
			fail_msg("%s: %s", rows[i].settings, e.msg);
		assert_true(is_right(&a, &s, r, 1));
		runner_close(r);
	}
	arena_fini(&a);
}

static void
what_is_faster_runs(void **state)
{
	static const struct {
		const char *settings;
		uint32_t n_asked;
		bool is_several;
	} rows[] = {{"", 3, true}, {",cross_ns=10000000", 3, false}, {"", 1, false}};
	struct arena a = {0};
	struct gpu g;
	struct sample s;
	struct streams order;
	struct err e = {0};
	struct bytes code;

	(void)state;
	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	wide_sample(&a, &code, &s, &order);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct plan_streams *said;
		struct runner *r;

		open_fake(&a, 1, rows[i].settings, &g);
		if (!runner_open(&s.plan, &(struct runner_opts){.n_streams = rows[i].n_asked, .gpu = &g}, &r, &e))
			fail_msg("%s", e.msg);
		said = runner_streams(r);
		assert_int_equal(said->n_used, rows[i].is_several ? order.n_streams : 1);
		assert_int_equal(said->n_side, rows[i].n_asked > 1 ? order.n_streams : 1);
		assert_int_equal(said->n_waits, rows[i].n_asked > 1 ? order.n_waits : 0);
		assert_int_equal(said->one_ns > 0, rows[i].n_asked > 1);
		if (rows[i].n_asked > 1)
			assert_int_equal(said->side_ns < said->one_ns, rows[i].is_several);
		assert_true(is_right(&a, &s, r, 5));
		runner_close(r);
	}
	arena_fini(&a);
}

/* The fake driver leaves its functions to the process's end. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:fake_function\n";
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_plans), cmocka_unit_test(every_wait_counts),
	    cmocka_unit_test(what_cannot_be_made), cmocka_unit_test(what_is_faster_runs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
