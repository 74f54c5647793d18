/* tests/unit/price_test.c: what machine code costs: small lists whose cycles are known, lists of any kind
 * against counting cycles one by one, and the golden kernels, whose figures another program took before. */
#include "../../kernels/cost/launch.h"
#include "../../kernels/sass/price_int.h"
#include "../harness/code_figures.h"
#include "../harness/gold.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { LINES = 128 };
static const struct sass_load one = {.warps = 1, .blocks = 1};

/* ---- small lists ------------------------------------------------------------------------------------ */
static struct sass_step
step(enum sass_unit unit, double cycles)
{
	return (struct sass_step){.unit = {(uint8_t)unit},
	    .gate = {(uint8_t)unit},
	    .cost = {llround(cycles * SASS_TICK)},
	    .stall = 1,
	    .write_barrier = SASS_NO_BARRIER,
	    .read_barrier = SASS_NO_BARRIER};
}

static void
test_what_is_known(void **state)
{
	struct sass_step s[4] = {
	    step(SASS_UNIT_FMA, 2), step(SASS_UNIT_FMA, 2), step(SASS_UNIT_ALU, 2), step(SASS_UNIT_NONE, 0)};
	struct sass_load two = {.warps = 2, .blocks = 1};

	(void)state;
	/* at 0, 2, 3, 4: five cycles a turn; the first warp leaves the second no unit that it could use: ten
	 */
	assert_true(sass_simulate(s, 4, &one, INFINITY) == 5);
	assert_true(sass_simulate(s, 4, &two, INFINITY) == 10);
	/* a stall count of 9 behind the last: 3 + 9; the second warp issues meanwhile */
	s[3].stall = 9;
	assert_true(sass_simulate(s, 4, &one, INFINITY) == 13);
	assert_true(sass_simulate(s, 4, &two, INFINITY) == 13);
	/* a load of 4 cycles, there 20 later, that the last waits for: issued at 0, there at 24, 1 to issue
	 */
	s[0] = step(SASS_UNIT_MEMORY, 4);
	s[0].write_barrier = 2;
	s[0].latency = 20 * SASS_TICK;
	s[3] = step(SASS_UNIT_NONE, 0);
	s[3].wait = 1 << 2;
	assert_true(sass_simulate(s, 4, &one, INFINITY) == 25);
	/* at a barrier both wait for the later one, and 12 cycles more */
	s[3].kind = STEP_BARRIER;
	assert_true(fabs(sass_simulate_once(s, 4, &two) - (29 + 1)) <= 1);
}

static void
test_limits(void **state)
{
	const struct sass_step s[2] = {step(SASS_UNIT_FMA, 2), step(SASS_UNIT_FMA, 2)};

	(void)state;
	assert_true(sass_simulate(s, 2, &one, 100) == 4);
	assert_int_equal(sass_price_knows(80), true);
	assert_int_equal(sass_price_knows(100), false);
	assert_int_equal(sass_price_knows(0), false);
}

/* ---- counted one by one ---------------------------------------------------------------------------------
 */
struct slow_warp {
	int64_t ready, barrier[SASS_BARRIERS], copies, group[256];
	uint32_t at, n_groups, block;
	bool waits, is_done;
};

static bool
may_issue(const struct slow_warp *w, const struct sass_step *s, int64_t now, const int64_t *free)
{
	if (w->is_done || w->waits || w->ready > now)
		return false;
	for (int b = 0; b < SASS_BARRIERS; b++)
		if (s->wait >> b & 1 && w->barrier[b] > now)
			return false;
	if (s->kind == STEP_GROUP_WAITS && w->n_groups > s->left && w->group[w->n_groups - s->left - 1] > now)
		return false;
	for (int k = 0; k < 2; k++) {
		const bool queues = s->unit[k] == SASS_UNIT_MEMORY || s->unit[k] == SASS_UNIT_L2;

		if (s->unit[k] && free[s->unit[k]] - now > (queues ? 48 * SASS_TICK : 0))
			return false;
	}
	return true;
}

static void
slow_issue(struct slow_warp *all, uint32_t n_warps, uint32_t which, const struct sass_step *s, int64_t now,
    int64_t *free, uint32_t n)
{
	struct slow_warp *w = &all[which];
	int64_t end = now;
	bool all_wait = true;

	for (int k = 0; k < 2 && s->unit[k]; k++) {
		free[s->unit[k]] = (free[s->unit[k]] > now ? free[s->unit[k]] : now) + s->cost[k];
		end = free[s->unit[k]] > end ? free[s->unit[k]] : end;
	}
	if (s->read_barrier < SASS_BARRIERS)
		w->barrier[s->read_barrier] = MAX_OF(w->barrier[s->read_barrier], end + 8 * SASS_TICK);
	if (s->write_barrier < SASS_BARRIERS)
		w->barrier[s->write_barrier] = MAX_OF(w->barrier[s->write_barrier], end + s->latency);
	if (s->kind == STEP_COPY)
		w->copies = MAX_OF(w->copies, end + s->latency);
	if (s->kind == STEP_GROUP_ENDS)
		w->group[w->n_groups++] = w->copies;
	if (s->kind == STEP_BARRIER) {
		w->waits = true;
		for (uint32_t i = 0; i < n_warps; i++)
			all_wait &= all[i].block != w->block || all[i].waits;
		for (uint32_t i = 0; i < n_warps && all_wait; i++)
			if (all[i].block == w->block) {
				all[i].waits = false;
				all[i].ready = now + 12 * SASS_TICK;
			}
	}
	w->ready = MAX_OF(w->ready, now + s->stall * SASS_TICK);
	w->is_done = ++w->at == n;
}

static double
one_by_one(const struct sass_step *s, uint32_t n, const struct sass_load *l)
{
	struct slow_warp w[SASS_PRICE_WARPS] = {{0}};
	int64_t free[SASS_UNITS] = {0}, now = 0;
	uint32_t last = 0, left = l->warps;

	for (uint32_t i = 0; i < l->warps; i++)
		w[i].block = i * l->blocks / l->warps;
	while (left > 0) {
		for (uint32_t d = 0; d < l->warps; d++) {
			const uint32_t i = (last + d) % l->warps;

			if (!may_issue(&w[i], &s[w[i].at], now, free))
				continue;
			slow_issue(w, l->warps, i, &s[w[i].at], now, free, n);
			left -= w[i].is_done;
			last = i;
			break;
		}
		now += SASS_TICK;
	}
	for (int u = 0; u < SASS_UNITS; u++)
		now = MAX_OF(now, free[u]);
	return (double)now / SASS_TICK;
}

static struct sass_step
random_step(struct rng *r)
{
	static const double cycles[SASS_UNITS] = {0, 2, 2, 1, 8, 2, 8.25, 10, 16, 4};
	const enum sass_unit unit = (enum sass_unit)rng_below(r, SASS_UNITS);
	struct sass_step s = step(unit, cycles[unit]);

	if (unit == SASS_UNIT_MEMORY && rng_below(r, 2)) {
		s.unit[1] = s.gate[1] = SASS_UNIT_L2;
		s.cost[1] = 8 * SASS_TICK;
	}
	s.latency = (int64_t)rng_below(r, 60) * SASS_TICK;
	s.stall = (uint8_t)(1 + rng_below(r, 6));
	s.write_barrier = (uint8_t)rng_below(r, 8);
	s.read_barrier = (uint8_t)rng_below(r, 8);
	s.wait = rng_below(r, 3) ? 0 : (uint8_t)rng_below(r, 64);
	s.left = (uint8_t)rng_below(r, 3);
	s.kind = (uint8_t)(rng_below(r, 4) ? STEP_PLAIN : 1 + rng_below(r, STEP_GROUP_WAITS));
	return s;
}

static void
test_jumps_are_counted_cycles(void **state)
{
	enum { LISTS = 400, LONG = 90 };
	struct rng r = {16};
	struct sass_step s[LONG];

	(void)state;
	for (int i = 0; i < LISTS; i++) {
		const uint32_t n = 1 + (uint32_t)rng_below(&r, LONG);
		struct sass_load l = {.warps = 1 + (uint32_t)rng_below(&r, SASS_PRICE_WARPS)};

		l.blocks = 1 + (uint32_t)rng_below(&r, l.warps);
		for (uint32_t k = 0; k < n; k++)
			s[k] = random_step(&r);
		assert_true(sass_simulate_once(s, n, &l) == one_by_one(s, n, &l));
		assert_true(sass_simulate(s, n, &l, INFINITY) == sass_simulate(s, n, &l, INFINITY));
	}
}

/* Steps change a few at a time and are taken or put back: of one loop only the parts that changed are run
 * again, of another of the same steps all.  Their prices are the same at every step, and that of a loop that
 * was never changed is what it costs. */
static void
test_what_is_run_again_is_enough(void **state)
{
	enum { LISTS = 60, CHANGES = 40, LONG = 300 };
	struct rng r = {17};
	struct sass_step s[LONG];
	uint32_t n_same = 0, n_taken = 0;

	(void)state;
	for (int i = 0; i < LISTS; i++) {
		const uint32_t n = 20 + (uint32_t)rng_below(&r, LONG - 20);
		struct sass_load l = {.warps = 1 + (uint32_t)rng_below(&r, 4)};
		struct arena a = {0};
		struct sass_steady *some, *all;

		l.blocks = 1 + (uint32_t)rng_below(&r, l.warps);
		for (uint32_t k = 0; k < n; k++)
			s[k] = random_step(&r);
		some = sass_steady_make(&a, s, n, &l, 1);
		all = sass_steady_make(&a, s, n, &l, 1);
		if (l.warps == 1)
			assert_true(fabs(sass_steady_ask(some, 0, INFINITY) -
					sass_simulate(s, n, &l, INFINITY)) <= 1);
		for (int c = 0; c < CHANGES; c++) {
			const uint32_t at = (uint32_t)rng_below(&r, n - 1);
			const struct sass_step was[2] = {s[at], s[at + 1]};
			const double before = sass_steady_ask(some, 0, INFINITY);
			double cycles;

			s[at] = was[1];
			s[at + 1] = was[0];
			s[at].stall = (uint8_t)(1 + rng_below(&r, 4));
			cycles = sass_steady_ask(
			    some, sass_steady_part(some, at) | sass_steady_part(some, at + 1), INFINITY);
			assert_true(cycles == sass_steady_ask(all, UINT64_MAX, INFINITY));
			n_same += cycles == before;
			if (rng_below(&r, 2)) {
				sass_steady_take(some);
				sass_steady_take(all);
				n_taken++;
			} else
				memcpy(&s[at], was, sizeof(was));
		}
		arena_fini(&a);
	}
	assert_true(n_taken > LISTS && n_same > LISTS && n_same < LISTS * CHANGES - LISTS);
}

/* ---- the golden kernels -------------------------------------------------------------------------------- */
static struct cubin *
cubin_of(struct arena *a, const struct gold *k, struct bytes *bytes)
{
	struct cubin *c = NEW(a, struct cubin);
	struct err e = {0};

	*bytes = gold_cubin(a, k);
	if (!cubin_read(*bytes, c, &e))
		fail_msg("%s: %s", gold_file(a, k), e.msg);
	return c;
}

static uint32_t
lines_of(struct arena *a, const char *file, struct str *line)
{
	struct err e = {0};
	struct bytes b;
	struct str rest;
	uint32_t n = 0;

	if (!os_read_file(os_real(), a, arena_printf(a, KORCH_SOURCE_DIR "/tests/golden/sass/%s", file),
		1 << 20, &b, &e))
		fail_msg("%s", e.msg);
	for (rest = (struct str){(const char *)b.p, b.n}; rest.n;) {
		const struct str l = str_trim(str_cut(&rest, '\n'));

		assert_true(n < LINES);
		if (l.n && l.p[0] != '#')
			line[n++] = l;
	}
	return n;
}

struct fact {
	char name[48], arch[8], kernel[32];
	unsigned registers, blocks;
	double per_mma, bound, model;
};

static bool
figures_of(struct arena *a, const char *name, const char *arch, const char *kernel, struct code_figures *f)
{
	struct gold *list = NEW_ARRAY(a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(a, list);

	for (uint32_t i = 0; i < n; i++) {
		struct bytes bytes;
		struct cubin *c;
		struct err e = {0};

		if (strcmp(list[i].name, name) != 0 || strcmp(list[i].arch, arch) != 0)
			continue;
		c = cubin_of(a, &list[i], &bytes);
		for (uint32_t q = 0; q < c->n_kernels; q++)
			if (strcmp(c->kernel[q].name, kernel) == 0 &&
			    code_figures(a, bytes, &c->kernel[q], list[i].sm, 0, list[i].dynamic_bytes,
				list[i].conflict, f, &e))
				return true;
	}
	return false;
}

static bool
is_near(const char *what, const struct fact *want, double have, double wanted, double by)
{
	if (fabs(have - wanted) <= by)
		return true;
	print_error(
	    "%s sm_%s %s: %s is %.3f, not %.2f\n", want->name, want->arch, want->kernel, what, have, wanted);
	return false;
}

/* The model is judged before it judges. */
static void
test_facts(void **state)
{
	struct arena a = {0};
	struct str line[LINES];
	const uint32_t n = lines_of(&a, "facts.txt", line);
	bool ok = n >= 20;

	(void)state;
	for (uint32_t i = 0; i < n; i++) {
		struct code_figures f;
		struct fact w;

		if (sscanf(str_dup(&a, line[i]), "%47s %7s %31s %u %u %lf %lf %lf", w.name, w.arch, w.kernel,
			&w.registers, &w.blocks, &w.per_mma, &w.bound, &w.model) != 8)
			fail_msg("facts.txt: %.*s", STR_ARG(line[i]));
		if (!figures_of(&a, w.name, w.arch, w.kernel, &f))
			fail_msg("facts.txt: %s sm_%s %s is not there", w.name, w.arch, w.kernel);
		ok &= is_near("registers", &w, f.registers, w.registers, 0);
		ok &= is_near("blocks", &w, f.blocks, w.blocks, 0);
		ok &= is_near("instructions an MMA", &w, f.per_mma, w.per_mma, w.per_mma * .04);
		ok &= is_near("the bound", &w, f.bound, w.bound, .03);
		ok &= is_near("the model", &w, f.model, w.model, .03);
	}
	arena_fini(&a);
	assert_true(ok);
}

/* Triton's and CUTLASS's products, made here where these are: the same figures as were taken of them before.
 * In place of registers: bytes of shared memory. */
static void
test_peers(void **state)
{
	static const struct fact want[] = {
	    {"triton_gemm_f16_128x128x32_w4_s4", "80", "", 49152, 2, 2.8, 1, .96},
	    {"triton_gemm_f16_128x256x64_w8_s3", "80", "", 98304, 1, 2.0, 1, .87},
	    {"cutlass_gemm_f16_128x128x32_w4_s4", "80", "", 65536, 2, 2.5, 1, .80}};
	static const double none[4] = {1, 1, 1, 1};
	char folder[] = "/tmp/korch-peers-XXXXXX";
	struct arena a = {0};
	bool ok = true;
	int status;

	(void)state;
	assert_non_null(mkdtemp(folder));
	status = system(arena_printf(&a,
	    KORCH_SOURCE_DIR "/tests/bench/gpu_peers.sh %s --only gemm_f16 >%s/said 2>&1", folder, folder));
	for (size_t i = 0; i < COUNT_OF(want) && WIFEXITED(status) && WEXITSTATUS(status) == 0; i++) {
		const struct fact *w = &want[i];
		struct cubin *c = NEW(&a, struct cubin);
		struct code_figures f;
		struct bytes b;
		struct err e = {0};

		if (!os_read_file(os_real(), &a,
			arena_printf(&a, "%s/%s_sm%s.cubin", folder, w->name, w->arch), 1 << 24, &b, &e)) {
			printf("SKIP: 1 part: %s was not made\n", w->name);
			continue;
		}
		if (!cubin_read(b, c, &e) ||
		    !code_figures(&a, b, &c->kernel[0], 80, strstr(w->name, "_w8") ? 256 : 128, w->registers,
			none, &f, &e))
			fail_msg("%s: %s", w->name, e.msg);
		ok &= is_near("blocks", w, f.blocks, w->blocks, 0);
		ok &= is_near("instructions an MMA", w, f.per_mma, w->per_mma, .2);
		ok &= is_near("the bound", w, f.bound, w->bound, .03);
		ok &= is_near("the model", w, f.model, w->model, .03);
	}
	(void)system(arena_printf(&a, "rm -rf %s", folder));
	arena_fini(&a);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("SKIP: 1 part: no triton in KORCH_TEST_PYTHON or python3\n");
	else
		assert_int_equal(status, 0);
	assert_true(ok);
}

/* All golden kernels, all their loops, from one warp to many. */
static void
each_loop(void (*test)(const struct sass_kernel *, const struct sass_loop *, const struct sass_load *))
{
	static const struct sass_load loads[] = {{.warps = 1, .blocks = 1}, {.warps = 2, .blocks = 1},
	    {.warps = 2, .blocks = 2, .load = 2, .store = 2.5, .copy = 2.5}, {.warps = 3, .blocks = 3},
	    {.warps = 4, .blocks = 2}, {.warps = 8, .blocks = 1}, {.warps = 16, .blocks = 4}};
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);

	for (uint32_t i = 0; i < n; i++) {
		struct bytes bytes;
		const struct cubin *c = cubin_of(&a, &list[i], &bytes);

		for (uint32_t q = 0; q < c->n_kernels; q++) {
			struct sass_kernel k;
			struct err e = {0};

			if (!sass_read(&a, bytes, c->kernel[q].name, &k, &e))
				fail_msg("%s: %s", gold_file(&a, &list[i]), e.msg);
			for (uint32_t l = 0; l < k.n_loops; l++)
				for (size_t w = 0; w < COUNT_OF(loads); w++)
					test(&k, &k.loop[l], &loads[w]);
		}
	}
	arena_fini(&a);
}

static void
above_its_bound(const struct sass_kernel *k, const struct sass_loop *loop, const struct sass_load *l)
{
	struct arena a = {0};
	struct sass_price *p = sass_price_make(&a, k, loop, l);
	const double cycles = sass_price_loop(p, k->instr, INFINITY);
	struct sass_bounds b, sure;

	sass_bounds(k, loop->first, loop->last + 1, l, &b);
	sass_floor(k, loop, l->warps, &sure);
	assert_true(cycles >= sass_bound_cycles(&b));
	assert_true(sass_bound_cycles(&sure) <= sass_bound_cycles(&b));
	/* again, made anew, and on the way given a limit */
	assert_true(sass_price_loop(p, k->instr, INFINITY) == cycles);
	assert_true(sass_price_loop(sass_price_make(&a, k, loop, l), k->instr, INFINITY) == cycles);
	assert_true(isinf(sass_price_loop(p, k->instr, cycles)));
	assert_true(isinf(sass_price_loop(p, k->instr, cycles / 2)));
	assert_true(sass_price_loop(p, k->instr, cycles * 1.2) == cycles);
	arena_fini(&a);
}

static void
test_never_below_the_bound(void **state)
{
	(void)state;
	each_loop(above_its_bound);
}

/* ---- launches
 * ---------------------------------------------------------------------------------------------- */
/* A product of 4096 x 4096 x 4096 in tiles of so many rows and columns: what is expected of its golden
 * kernel. */
static struct sass_time
gemm_time(const char *name, const char *arch, uint32_t n_sm, double tile, uint32_t *resident)
{
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);
	struct sass_time t = {0, 0};

	for (uint32_t i = 0; i < n; i++) {
		struct sass_kernel k;
		struct bytes bytes;
		struct err e = {0};
		const struct cubin *c;

		if (strcmp(list[i].name, name) != 0 || strcmp(list[i].arch, arch) != 0)
			continue;
		c = cubin_of(&a, &list[i], &bytes);
		assert_true(sass_read(&a, bytes, "k_p0", &k, &e));
		*resident = cubin_occupancy(&c->kernel[0], list[i].sm, 256, 0);
		t = sass_price_launch(&a, &k,
		    &(struct sass_launch){.blocks = 4096 * 4096 / tile / tile,
			.threads = 256,
			.resident = *resident,
			.n_sm = n_sm,
			.multiply_adds = 4096 * tile * tile,
			.conflict = {.load = list[i].conflict[0],
			    .store = list[i].conflict[2],
			    .copy = list[i].conflict[3]}});
	}
	arena_fini(&a);
	return t;
}

static void
test_launches(void **state)
{
	struct arena a = {0};
	uint32_t resident = 0;
	/* 385 slots, 256 turns, 8 warps, 1024 blocks on 528 quarters; the last turn copies nothing, so that
	 * the half of the loop that copies is not certain */
	const struct sass_time h100 = gemm_time("gemm_f16", "90", 132, 128, &resident);
	const double slots = 385. * 256 * 8 * 1024 / 528;
	struct sass_kernel none = {.sm = 80};

	(void)state;
	assert_true(h100.floor > .45 * slots && h100.floor <= slots);
	/* 770 cycles of issue become 1987 for a block's turn, and some for its beginning and end */
	assert_true(h100.expected > 1900. * 256 * 8 && h100.expected < 2300. * 256 * 8);
	assert_true(sass_price_launch(&a, &none, &(struct sass_launch){.blocks = 1}).expected == 0);
	arena_fini(&a);
}

/* Launches alone promise most of the smallest tile, which has most warps; machine code knows better. */
static void
test_order(void **state)
{
	static const struct {
		const char *name;
		double tile;
	} tiles[] = {{"gemm_f16_1", 128}, {"gemm_f16", 128}, {"gemm_f16_22", 64}};
	const struct hw hw = {.call_ns = 1000, .n_threads = 1};
	const struct cost_parts parts = {.flop_ns = 440000, .byte_ns = 130000, .call_ns = 1000};
	struct cost_launch l[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint32_t resident = 0;
		const struct sass_time t = gemm_time(tiles[i].name, "80", 108, tiles[i].tile, &resident);
		const struct cost_pass p = {.blocks = 4096 * 4096 / tiles[i].tile / tiles[i].tile,
		    .threads = 256,
		    .resident = resident,
		    .instructions = 1000,
		    .expected_ns = t.expected / 1.41,
		    .floor_ns = t.floor / 1.41};

		l[i] = cost_launch(&parts, &hw, 108, &p, 1);
		assert_true((double)l[i].bound_ns <= l[i].expected_ns);
		assert_true(l[i].bound_ns > 441000); /* more than the spec says */
		assert_true(l[i].is_priced);
	}
	assert_true(l[0].expected_ns < l[1].expected_ns && l[1].expected_ns < l[2].expected_ns);
	assert_true(l[2].plain_ns < l[1].plain_ns);
}

/* What the emitter says of a block's products is what machine code turns into turns. */
static void
test_work(void **state)
{
	static const struct {
		const char *name;
		double multiply_adds;
	} want[] = {{"gemm_f32", 4096. * 128 * 128}, {"softmax", 0}, {"attention", 128. * 128 * 64}};
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);

	(void)state;
	for (size_t w = 0; w < COUNT_OF(want); w++)
		for (uint32_t i = 0; i < n; i++) {
			struct kernel_code code;
			struct spec spec;
			struct err e = {0};

			if (strcmp(list[i].name, want[w].name) != 0)
				continue;
			assert_true(gold_code(&a, &list[i], &spec, &code, &e));
			assert_true(code.work[0].multiply_adds == want[w].multiply_adds);
		}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_known),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_jumps_are_counted_cycles),
	    cmocka_unit_test(test_what_is_run_again_is_enough),
	    cmocka_unit_test(test_facts),
	    cmocka_unit_test(test_peers),
	    cmocka_unit_test(test_never_below_the_bound),
	    cmocka_unit_test(test_launches),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
