/* Plans on several streams of the fake GPU, whose graphs run in any order that their edges allow: random
 * plans whose steps share bytes in all ways, calls of cuBLASLt and cuDNN among them, compute what they
 * compute in order; without any one of their waits they do not; several threads may run one plan; what cannot
 * be made is said, and what is not faster is not used.  threads: yes */
#include "../../kernels/generate/generate.h"
#include "../../kernels/run/gpu_plan.h"
#include "../../kernels/device/gpu_fake.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 64, BLOCK = 32, SLOT = 64, MAX_STEPS = 24, N_PLANS = 40, N_DROPPED = 12 };
#define PASS(NAME)                                                                                           \
	"K_KERNEL K_BOUNDS(32) " NAME                                                                        \
	"(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n"                             \
	"\tconst float *x = (const float *)buf[0], *y = (const float *)buf[1];\n"                            \
	"\tfloat *r = (float *)buf[2], *s = (float *)buf[3], *t = (float *)shared;\n"                        \
	"\t(void)x, (void)y, (void)r, (void)s, (void)t, (void)local;\n"                                      \
	"\tfor (k_i64 i = lo + K_BLOCK * 32 + K_TID; i < hi; i += K_BLOCKS * 32)\n\t\t"
/* r = x - y / 2 and r = x - mirrored y / 2, the second by way of scratch; both into s too. */
static const char *const texts[2] = {PASS("k_p0") "r[i] = s[i] = x[i] - 0.5f * y[i];\n}\n",
    PASS("k_p0") "t[i] = y[63 - i];\n}\n" PASS("k_p1") "r[i] = s[i] = x[i] - 0.5f * t[i];\n}\n"};

enum { PLAIN, MIRROR, PRODUCT, PICTURE, KERNELS, EDGE = 8 };
static const char *const symbols[KERNELS] = {"plain", "mirror", "product", "picture"};
static const uint32_t n_passes[KERNELS] = {1, 2, 1, 1};
/* y + x in / 8, and y + x W not beyond 4: matrices of 8 by 8, the second as a picture's channels and weights
 * that are packed for the call.  Both want scratch; they have one result. */
static const struct call {
	const char *spec, *schedule;
} calls[] = {
    {"spec 1\n%0 = input f32[8,8]\n%1 = input f32[8,8]\n%2 = input f32[8,8]\n%3 = const f32[1,1] 0x1p-3\n"
     "%4 = bcast %3 shape=[8,8] : f32[8,8]\n%5 = matmul %1 %2 : f32[8,8]\n%6 = mul %4 %5 : f32[8,8]\n"
     "%7 = add %0 %6 : f32[8,8]\noutput %7\n",
	"lib=cublaslt-13.1.0 algo=1"},
    {"spec 1\n%0 = input f32[1,2,4,8]\n%1 = input f32[1,2,4,8]\n%2 = weight f32[1,1,8,8]\n"
     "%3 = const f32[1,1,1,1] -0x1p+2\n%4 = bcast %3 shape=[1,2,4,8] : f32[1,2,4,8]\n"
     "%5 = conv %1 %2 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,2,4,8]\n"
     "%6 = add %0 %5 : f32[1,2,4,8]\n%7 = max %4 %6 : f32[1,2,4,8]\n%8 = const f32[1,1,1,1] 0x1p+2\n"
     "%9 = bcast %8 shape=[1,2,4,8] : f32[1,2,4,8]\n%10 = min %7 %9 : f32[1,2,4,8]\noutput %10\n",
	"lib=cudnn-9.19.0 algo=2"}};

/* Every step's result lies in work memory, maybe over older ones.  A generated kernel's is in a part of the
 * only output, too; a call's is read by the next step. */
struct sample {
	struct plan plan;
	uint32_t n_slots; /* of SLOT bytes */
	uint32_t x[2 * MAX_STEPS], y[2 * MAX_STEPS],
	    at[2 * MAX_STEPS]; /* steps read, counted from 1, 0: the input; slot */
	uint32_t kernel[2 * MAX_STEPS], part[2 * MAX_STEPS]; /* part of the output */
	uint32_t n_parts;
	float weights[N];
};

/* ---- plans --------------------------------------------------------------------------------------- */
/* The library's choice, as a worker takes it from its list. */
static struct bytes
chosen(struct arena *a, const struct gpu *g, const struct call *c)
{
	struct bytes out;
	struct err e = {0};
	struct spec s;
	struct dev d;

	if (!spec_read(a, str_of(c->spec), &s, &e) || !dev_cuda_open(g, 0, &d, &e))
		fail_msg("%s", e.msg);
	assert_true(str_is(s.text, c->spec)); /* operands are in this order */
	if (!vendor_resolve(&d, a, s.text, str_of(c->schedule), &out, &e))
		fail_msg("%s: %s", c->schedule, e.msg);
	d.close(d.self);
	return out;
}

static struct bytes
module(struct arena *a, const struct gpu *g)
{
	struct gpu_kernel k[KERNELS];
	struct bytes out;

	for (uint32_t i = 0; i < KERNELS; i++) {
		struct strbuf sb;
		struct err e = {0};

		k[i] = (struct gpu_kernel){.symbol = str_of(symbols[i]), .n_passes = n_passes[i]};
		for (uint32_t q = 0; q < n_passes[i]; q++)
			k[i].pass[q] = (struct gpu_pass){.grid = {2, 1, 1}, .block = {BLOCK, 1, 1}};
		if (i >= PRODUCT) {
			k[i].cubin = chosen(a, g, &calls[i - PRODUCT]);
			continue;
		}
		sb_init(&sb, a);
		sb_add(&sb, prelude_cuda(a, false));
		sb_addz(&sb, texts[i]);
		if (!gpu_compile(g, a, sb_str(&sb), 80, false, &k[i].cubin, &e))
			fail_msg("%s", e.msg);
	}
	gpu_module_pack(a, 80, k, KERNELS, &out);
	return out;
}

static bool
meet(const struct sample *s, uint32_t i, uint32_t step)
{
	uint32_t d = step
	    ? s->at[i] > s->at[step - 1] ? s->at[i] - s->at[step - 1] : s->at[step - 1] - s->at[i]
	    : UINT32_MAX;

	return d < N * sizeof(float) / SLOT;
}

static bool
is_call(const struct sample *s, uint32_t i)
{
	return s->kernel[i] >= PRODUCT;
}

/* Operands are of the last few steps or of any; then every place is read once more as it was left. */
static uint32_t
choose_steps(struct sample *s, struct rng *r, uint32_t n_kernels)
{
	uint32_t n = 4 + rng_below(r, MAX_STEPS - 4), wide = 1 + rng_below(r, MAX_STEPS);

	s->n_slots = 24 + rng_below(r, 2) * rng_below(r, 100);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t span = MIN_OF(i + 1, wide);
		bool is_behind = i && is_call(s, i - 1);

		s->kernel[i] = rng_below(r, is_behind || i + 1 == n ? PRODUCT : n_kernels);
		s->x[i] = i - (is_behind ? 0 : rng_below(r, span));
		s->y[i] = rng_below(r, 4) ? i - rng_below(r, span) : 0;
		do
			s->at[i] = rng_below(r, s->n_slots - 3);
		while (meet(s, i, s->x[i]) || meet(s, i, s->y[i]));
	}
	for (uint32_t i = 0; i < n; i++) {
		s->kernel[n + i] = rng_below(r, PRODUCT);
		s->x[n + i] = s->y[n + i] = i + 1;
		s->at[n + i] = s->n_slots + 4 * i;
	}
	for (uint32_t i = 0; i < 2 * n; i++) {
		s->part[i] = s->n_parts;
		s->n_parts += !is_call(s, i);
	}
	return 2 * n;
}

static struct place
place(enum place_kind kind, size_t offset)
{
	return (struct place){.kind = kind,
	    .offset = offset,
	    .n_bytes = N * sizeof(float),
	    .type = DT_f32,
	    .shape = shape_make(1, (const int64_t[]){N})};
}

static void
put_kernels(struct arena *a, struct plan *p)
{
	p->n_kernels = KERNELS;
	p->kernels = NEW_ARRAY(a, struct plan_kernel, KERNELS);
	for (uint32_t i = 0; i < KERNELS; i++)
		p->kernels[i] = (struct plan_kernel){.symbol = str_of(symbols[i]),
		    .n_operands = i < PRODUCT ? 2 : 3,
		    .n_results = i < PRODUCT ? 2 : 1,
		    .n_passes = n_passes[i],
		    .range = {N, N},
		    .shared_bytes = i == MIRROR ? N * sizeof(float) : 0,
		    .cost_ns = 4000};
}

/* Places: the input, the weights, each step's in work memory, the parts of the output. */
static void
put_steps(struct arena *a, struct sample *s)
{
	struct plan *p = &s->plan;
	const uint32_t n = p->n_steps;

	p->n_places = 2 + n + s->n_parts;
	p->places = NEW_ARRAY(a, struct place, p->n_places);
	p->steps = NEW_ARRAY(a, struct plan_step, n);
	p->places[0] = place(PLACE_INPUT, 0);
	p->places[1] = place(PLACE_CONST, 0);
	for (uint32_t i = 0; i < s->n_parts; i++)
		p->places[2 + n + i] = place(PLACE_OUTPUT, i * N * sizeof(float));
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t x = s->x[i] ? 1 + s->x[i] : 0, y = s->y[i] ? 1 + s->y[i] : 0;
		const uint32_t lists[KERNELS][4] = {[PLAIN] = {x, y, 2 + i, 2 + n + s->part[i]},
		    [MIRROR] = {x, y, 2 + i, 2 + n + s->part[i]},
		    [PRODUCT] = {y, x, 0, 2 + i},
		    [PICTURE] = {y, x, 1, 2 + i}};

		p->places[2 + i] = place(PLACE_WORK, s->at[i] * SLOT);
		p->steps[i] = (struct plan_step){.kernel = s->kernel[i],
		    .n_places = 4,
		    .places = arena_dup(a, lists[s->kernel[i]], sizeof(lists[0]))};
	}
}

/* Of the first n_kernels kinds of kernels. */
static void
make_sample(struct arena *a, const struct bytes *code, uint32_t n_kernels, uint64_t seed, struct sample *s)
{
	struct rng r = {seed};
	struct plan *p = &s->plan;
	uint32_t n;

	*s = (struct sample){.n_slots = 0};
	n = choose_steps(s, &r, n_kernels);
	for (int k = 0; k < N; k++)
		s->weights[k] = (float)rng_normal(&r) / 4;
	*p = (struct plan){.run_compat = STR("cuda sm_80"),
	    .n_threads = 1,
	    .n_steps = n,
	    .n_inputs = 1,
	    .n_outputs = 1,
	    .module = *code,
	    .work_bytes = (s->n_slots + 2 * n) * SLOT,
	    .constants = {arena_dup(a, s->weights, sizeof(s->weights)), sizeof(s->weights)}};
	put_kernels(a, p);
	p->inputs = NEW_ARRAY(a, struct plan_io, 1);
	p->inputs[0] = (struct plan_io){STR("x"), DT_f32, shape_make(1, (const int64_t[]){N})};
	p->outputs = NEW_ARRAY(a, struct plan_io, 1);
	p->outputs[0] =
	    (struct plan_io){STR("all"), DT_f32, shape_make(1, (const int64_t[]){s->n_parts * N})};
	put_steps(a, s);
}

/* y + scale x m, in rows. */
static double
product_at(const float *x, const float *m, const float *y, double scale, int at)
{
	double sum = 0;

	for (int k = 0; k < EDGE; k++)
		sum += (double)x[at / EDGE * EDGE + k] * (double)m[k * EDGE + at % EDGE];
	return sum * scale + (double)y[at];
}

/* The same in order, on the host. */
static void
expect(struct arena *a, const struct sample *s, const float *in, float *out)
{
	float *work = NEW_ARRAY(a, float, s->plan.work_bytes / sizeof(float));
	const size_t slot = SLOT / sizeof(float);

	for (uint32_t i = 0; i < s->plan.n_steps; i++) {
		const float *x = s->x[i] ? work + s->at[s->x[i] - 1] * slot : in,
			    *y = s->y[i] ? work + s->at[s->y[i] - 1] * slot : in;
		float made[N];

		for (int k = 0; k < N; k++) {
			const double bounded = product_at(x, s->weights, y, 1, k);

			made[k] = s->kernel[i] == PRODUCT ? (float)product_at(x, in, y, 0.125, k)
			    : s->kernel[i] == PICTURE
			    ? (float)MIN_OF(MAX_OF(bounded, -4), 4)
			    : x[k] - 0.5F * y[s->kernel[i] == MIRROR ? N - 1 - k : k];
		}
		memcpy(work + s->at[i] * slot, made, sizeof(made));
		if (!is_call(s, i))
			memcpy(out + s->part[i] * N, made, sizeof(made));
	}
}

/* ---- running them ----------------------------------------------------------------------------------- */
static void
open_fake(struct arena *a, uint64_t seed, const char *more, struct gpu *g)
{
	struct err e = {0};

	if (!gpu_fake_open(
		str_of(arena_printf(a, "gpu=a100,replay=1,seed=%llu%s", (unsigned long long)seed, more)), g,
		&e))
		fail_msg("%s", e.msg);
}

/* As many runs as its graph has nodes, each on other values: is every one of them right? */
static bool
is_right(struct arena *a, const struct sample *s, struct runner *r, uint64_t seed)
{
	size_t n = s->n_parts * (size_t)N;
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
try_plans(uint32_t n_kernels)
{
	struct arena a = {0};
	struct gpu g;
	struct bytes code;
	uint32_t n_several = 0, n_calls = 0;

	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	for (uint64_t seed = 0; seed < N_PLANS; seed++) {
		struct sample s;
		struct streams order;
		struct runner *r;
		struct err e = {0};
		uint32_t n_streams = 1 + (uint32_t)seed % STREAMS_MAX;

		make_sample(&a, &code, n_kernels, seed, &s);
		open_fake(&a, seed, "", &g);
		if (!runner_open(&s.plan, &(struct runner_opts){.n_streams = n_streams, .gpu = &g}, &r, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		assert_int_equal(runner_streams(r)->n_asked, n_streams);
		assert_in_range(runner_streams(r)->n_used, 1, n_streams);
		if (!is_right(&a, &s, r, seed))
			fail_msg("seed %llu: wrong on %u streams", (unsigned long long)seed,
			    runner_streams(r)->n_used);
		n_several += runner_streams(r)->n_used > 1;
		streams_of_plan(&a, &s.plan, n_streams, &order);
		for (uint32_t i = 0; i < order.n_steps; i++)
			n_calls += is_call(&s, i) && order.stream[i] > 0;
		runner_close(r);
	}
	assert_true(n_several > N_PLANS / 2);
	assert_true(n_kernels <= PRODUCT || n_calls > N_PLANS); /* on side streams */
	arena_fini(&a);
}

static void
random_plans(void **state)
{
	(void)state;
	try_plans(PRODUCT);
}

static void
random_plans_with_calls(void **state)
{
	(void)state;
	try_plans(KERNELS);
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

/* Captured are forks, waits between steps, joins.  Without one of the former the plan is wrong or refused
 * (steps stay outside of the graph), without a join refused unless the first stream has waited for that one's
 * end anyway. */
static void
drop_each(uint32_t n_kernels)
{
	struct arena a = {0};
	struct gpu g;
	struct bytes code;
	uint32_t n_waits = 0, n_unjoined = 0;

	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	for (uint64_t seed = 0; seed < N_DROPPED; seed++) {
		struct sample s;
		struct streams o;
		uint32_t forks, k;

		make_sample(&a, &code, n_kernels, seed, &s);
		streams_of_plan(&a, &s.plan, 3, &o);
		forks = n_forked(&o);
		for (k = 1; k <= forks + o.n_waits; k++) {
			if (without_wait(&a, &s, seed, k) == RIGHT)
				fail_msg("seed %llu: right without wait %u of %u forks and %u",
				    (unsigned long long)seed, k, forks, o.n_waits);
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

static void
every_wait_counts(void **state)
{
	(void)state;
	drop_each(PRODUCT);
}

static void
every_wait_of_calls_counts(void **state)
{
	(void)state;
	drop_each(KERNELS);
}

/* ---- what is said ------------------------------------------------------------------------------------ */
/* A plan that can use several streams. */
static void
wide_sample(struct arena *a, const struct bytes *code, struct sample *s, struct streams *order)
{
	uint64_t seed = 0;

	do {
		make_sample(a, code, KERNELS, seed++, s);
		streams_of_plan(a, &s->plan, 3, order);
	} while (order->n_streams < 3 || order->n_waits < 4);
}

static void
what_cannot_be_made(void **state)
{
	static const struct {
		const char *settings, *words;
	} rows[] = {{",streams=1", "cuStreamCreate"}, {",streams=2", "cuStreamCreate"},
	    {",events=2", "cuEventCreate"}, {",events=5", "cuEventCreate"}};
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
		if (!runner_open(
			&s.plan, &(struct runner_opts){.n_streams = rows[i].n_asked, .gpu = &g}, &r, &e))
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

/* ---- threads ------------------------------------------------------------------------------------------- */
struct caller {
	struct sample *s;
	struct runner *r;
	pthread_barrier_t *start; /* NULL: closes it */
	uint64_t seed;
	bool is_right;
};

static void *
call_often(void *arg)
{
	struct caller *c = arg;
	struct arena a = {0};

	if (c->start) {
		(void)pthread_barrier_wait(c->start);
		c->is_right = is_right(&a, c->s, c->r, c->seed);
	} else {
		runner_close(c->r);
	}
	arena_fini(&a);
	return NULL;
}

/* Opened here, run by threads that have never seen the driver, closed by another one. */
static void
threads_share_a_plan(void **state)
{
	enum { CALLERS = 3 };
	struct arena a = {0};
	struct gpu g;
	struct sample s;
	struct streams order;
	struct caller list[CALLERS + 1];
	pthread_t thread[CALLERS + 1];
	pthread_barrier_t start;
	struct runner *r;
	struct err e = {0};
	struct bytes code;

	(void)state;
	open_fake(&a, 1, "", &g);
	code = module(&a, &g);
	wide_sample(&a, &code, &s, &order);
	open_fake(&a, 1, "", &g);
	if (!runner_open(&s.plan, &(struct runner_opts){.n_streams = 3, .gpu = &g}, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(pthread_barrier_init(&start, NULL, CALLERS), 0);
	for (uint32_t i = 0; i <= CALLERS; i++) {
		list[i] = (struct caller){&s, r, i < CALLERS ? &start : NULL, 100 + i, false};
		for (uint32_t k = 0; k < CALLERS && i == CALLERS; k++)
			(void)pthread_join(thread[k], NULL);
		assert_int_equal(pthread_create(&thread[i], NULL, call_often, &list[i]), 0);
	}
	(void)pthread_join(thread[CALLERS], NULL);
	(void)pthread_barrier_destroy(&start);
	for (uint32_t i = 0; i < CALLERS; i++)
		assert_true(list[i].is_right);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_plans),
	    cmocka_unit_test(random_plans_with_calls), cmocka_unit_test(every_wait_counts),
	    cmocka_unit_test(every_wait_of_calls_counts), cmocka_unit_test(what_cannot_be_made),
	    cmocka_unit_test(what_is_faster_runs), cmocka_unit_test(threads_share_a_plan)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
