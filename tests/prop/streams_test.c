/* Steps on streams, over random lists of steps and the bytes they touch: every two steps that share bytes,
 * one writing, run in their order by streams and waits alone; nothing waits in a circle or for nothing; one
 * stream is the plan's own order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../kernels/device/streams.h"
#include "../../kernels/run/exec.h"
#include "../harness/plan_sample.h"

enum { N_LISTS = 400, MAX_N = 48, FEW = 4 };

/* ---- random lists ----------------------------------------------------------------------------- */
static void
random_uses(struct arena *a, struct rng *r, struct step_uses *u)
{
	uint32_t n_steps = rng_below(r, MAX_N), n_regions = 1 + rng_below(r, 3),
		 bytes = 8u << rng_below(r, 6), n = 0;

	*u = (struct step_uses){.use = NEW_ARRAY(a, struct step_use, MAX_N * FEW),
	    .first = NEW_ARRAY(a, uint32_t, MAX_N + 1),
	    .n_steps = n_steps};
	for (uint32_t i = 0; i < n_steps; i++) {
		for (uint32_t k = rng_below(r, FEW + 1); k-- > 0;) {
			uint32_t from = rng_below(r, bytes);

			u->use[n++] = (struct step_use){.region = rng_below(r, n_regions),
			    .from = from,
			    .to = from + 1 + rng_below(r, 8),
			    .is_written = rng_below(r, 3) == 0};
		}
		u->first[i + 1] = n;
	}
}

/* Byte by byte, as slowly as it can be said. */
static bool
share(const struct step_uses *u, uint32_t i, uint32_t j)
{
	for (uint32_t x = u->first[i]; x < u->first[i + 1]; x++)
		for (uint32_t y = u->first[j]; y < u->first[j + 1]; y++) {
			const struct step_use *p = &u->use[x], *q = &u->use[y];

			for (size_t b = p->from;
			     b < p->to && p->region == q->region && (p->is_written || q->is_written); b++)
				if (b >= q->from && b < q->to)
					return true;
		}
	return false;
}

/* ---- what an order implies ----------------------------------------------------------------------- */
struct behind {
	bool is[MAX_N][MAX_N]; /* [i][j]: i runs behind j */
};

/* Without wait number `drop`; UINT32_MAX: with all. */
static void
close_order(const struct streams *s, uint32_t drop, struct behind *b)
{
	*b = (struct behind){0};
	for (uint32_t i = 0; i < s->n_steps; i++) {
		for (uint32_t j = 0; j < i; j++)
			b->is[i][j] = s->stream[i] == s->stream[j];
		for (uint32_t k = s->waits.first[i]; k < s->waits.first[i + 1]; k++)
			b->is[i][s->waits.item[k]] |= k != drop;
		/* all that comes earlier is closed already, and nothing waits for what comes later */
		for (uint32_t j = 0; j < i; j++)
			for (uint32_t k = 0; k < j && b->is[i][j]; k++)
				b->is[i][k] |= b->is[j][k];
	}
}

static bool
keeps_order(const struct step_uses *u, const struct behind *b)
{
	for (uint32_t i = 0; i < u->n_steps; i++)
		for (uint32_t j = 0; j < i; j++)
			if (share(u, i, j) && !b->is[i][j])
				return false;
	return true;
}

static void
is_well_formed(const struct streams *s, uint32_t n_steps, uint32_t max)
{
	bool awaited[MAX_N] = {0};

	assert_int_equal(s->n_steps, n_steps);
	assert_in_range(s->n_streams, 1, max);
	assert_int_equal(s->n_waits, s->waits.first[n_steps]);
	for (uint32_t i = 0; i < n_steps; i++) {
		assert_true(s->stream[i] < s->n_streams);
		for (uint32_t k = s->waits.first[i]; k < s->waits.first[i + 1]; k++) {
			assert_true(s->waits.item[k] < i);
			assert_int_not_equal(s->stream[s->waits.item[k]], s->stream[i]);
			awaited[s->waits.item[k]] = true;
		}
	}
	for (uint32_t i = 0; i < n_steps; i++)
		assert_int_equal(s->is_awaited[i], awaited[i]);
}

static void
assign(struct arena *a, struct rng *r, const struct step_uses *u, uint32_t max, struct streams *out)
{
	int64_t cost_ns[MAX_N];
	struct step_links deps;

	for (uint32_t i = 0; i < u->n_steps; i++)
		cost_ns[i] = rng_below(r, 8) ? rng_below(r, 20000) : rng_below(r, 2) ? INT64_MAX : -5;
	streams_depend(a, u, &deps);
	streams_assign(a, &deps, cost_ns, u->n_steps, max, out);
}

static void
random_lists(void **state)
{
	uint32_t most = 0, n_waits = 0;

	(void)state;
	for (uint64_t seed = 0; seed < N_LISTS; seed++) {
		struct rng r = {seed};
		struct arena a = {0};
		struct step_uses u;
		struct behind b;

		random_uses(&a, &r, &u);
		for (uint32_t max = 1; max <= STREAMS_MAX; max++) {
			struct streams s;

			assign(&a, &r, &u, max, &s);
			is_well_formed(&s, u.n_steps, max);
			close_order(&s, UINT32_MAX, &b);
			if (!keeps_order(&u, &b))
				fail_msg(
				    "seed %llu, %u streams: two steps that share bytes may run side by side",
				    (unsigned long long)seed, max);
			for (uint32_t k = 0; k < s.n_waits; k++) {
				close_order(&s, k, &b);
				if (keeps_order(&u, &b))
					fail_msg("seed %llu, %u streams: wait %u is for nothing",
					    (unsigned long long)seed, max, k);
			}
			assert_true(max > 1 || s.n_waits == 0);
			most = MAX_OF(most, s.n_streams);
			n_waits += s.n_waits;
		}
		arena_fini(&a);
	}
	assert_int_equal(most, STREAMS_MAX); /* the lists were worth it */
	assert_true(n_waits > 10000);
}

/* ---- small ones by hand ---------------------------------------------------------------------------- */
struct hand { /* a step: bytes [read, read + 4) and [write, write + 4) of region 0; -1: none */
	int read, other, write;
};

static void
by_hand(struct arena *a, const struct hand *h, uint32_t n, int64_t cost_ns, uint32_t max, struct streams *out)
{
	struct step_uses u = {.use = NEW_ARRAY(a, struct step_use, 3 * (size_t)n),
	    .first = NEW_ARRAY(a, uint32_t, n + 1),
	    .n_steps = n};
	int64_t *cost = NEW_ARRAY(a, int64_t, n);
	struct step_links deps;
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		const int at[] = {h[i].read, h[i].other, h[i].write};

		for (int j = 0; j < 3; j++)
			if (at[j] >= 0)
				u.use[k++] = (struct step_use){
				    .from = (size_t)at[j], .to = (size_t)at[j] + 4, .is_written = j == 2};
		u.first[i + 1] = k;
		cost[i] = cost_ns;
	}
	streams_depend(a, &u, &deps);
	streams_assign(a, &deps, cost, n, max, out);
}

/* 0 makes a, 1 and 2 read it and make b and c, 3 reads both: the branches run side by side. */
static void
diamond(void **state)
{
	static const struct hand steps[] = {{-1, -1, 0}, {0, -1, 16}, {0, -1, 32}, {16, 32, 48}};
	struct arena a = {0};
	struct streams s;

	(void)state;
	by_hand(&a, steps, 4, 10000, 4, &s);
	assert_int_equal(s.n_streams, 2);
	assert_int_not_equal(s.stream[1], s.stream[2]);
	assert_int_equal(s.n_waits, 2);    /* into the second branch, and out of it */
	by_hand(&a, steps, 4, 100, 4, &s); /* the branches are shorter than a wait */
	assert_int_equal(s.n_streams, 1);
	by_hand(&a, steps, 4, 10000, 1, &s);
	assert_int_equal(s.n_streams, 1);
	assert_int_equal(s.n_waits, 0);
	arena_fini(&a);
}

/* The second branch makes its result where the first one's operand lay: it must wait for that to be read. */
static void
reused_bytes(void **state)
{
	static const struct hand reads[] = {{-1, -1, 0}, {0, -1, 16}, {-1, -1, 0}},
				 writes[] = {{-1, -1, 0}, {-1, -1, 2}},
				 apart[] = {{-1, -1, 0}, {0, -1, 16}, {-1, -1, 32}};
	struct arena a = {0};
	struct streams s;

	(void)state;
	by_hand(&a, reads, 3, 10000, 4, &s);
	assert_int_equal(s.n_streams, 1);
	by_hand(&a, writes, 2, 10000, 4, &s);
	assert_int_equal(s.n_streams, 1);
	by_hand(&a, apart, 3, 10000, 4, &s);
	assert_int_equal(s.n_streams, 2);
	assert_int_equal(s.n_waits, 0);
	arena_fini(&a);
}

static void
of_plans(void **state)
{
	struct arena a = {0};
	struct plan p;
	struct step_uses u;
	struct streams s;
	uint32_t places[] = {0, 1};
	struct plan_step *many = NEW_ARRAY(&a, struct plan_step, STREAMS_MAX_STEPS + 1);

	(void)state;
	plan_sample_dry(&a, &p);
	streams_uses(&a, &p, &u);
	assert_int_equal(u.first[2], 3); /* written; read and written: input and weights are not there */
	assert_true(u.use[0].is_written && !u.use[1].is_written && u.use[2].is_written);
	assert_int_equal(u.use[0].region, 0);
	assert_int_equal(u.use[2].region, 1);
	streams_of_plan(&a, &p, 4, &s);
	assert_int_equal(s.n_streams, 1); /* a chain */
	for (uint32_t i = 0; i <= STREAMS_MAX_STEPS;
	     i++) /* steps that share nothing: they only read the input */
		many[i] = (struct plan_step){.places = places, .n_places = 2};
	p.steps = many;
	p.n_steps = 100;
	p.kernels[0].cost_ns = 10000;
	streams_of_plan(&a, &p, 4, &s);
	assert_int_equal(s.n_streams, 4);
	p.n_steps = STREAMS_MAX_STEPS + 1;
	streams_of_plan(&a, &p, 4, &s);
	assert_int_equal(s.n_streams, 1);
	p.n_steps = 0;
	streams_of_plan(&a, &p, 4, &s);
	assert_int_equal(s.n_streams, 1);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_lists), cmocka_unit_test(diamond),
	    cmocka_unit_test(reused_bytes), cmocka_unit_test(of_plans)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
