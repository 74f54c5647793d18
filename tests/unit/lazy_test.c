/* tests/unit/lazy_test.c: lazy profiling against random true costs: it ends at the optimum that full
 * knowledge would give, having measured only a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "../../daemon/orchestrate/lazy.h"

enum { LENGTH = 48, WIDEST = 7, N_RUNS = 12 };

/* A chain of tensors with a second one beside it now and then; every window is a kernel, and
 * windows of equal width at equal places of a block of 12 share a spec. */
struct world {
	struct arena a;
	struct blp p;
	struct blp_kernel *kernels;
	uint32_t *spec_of, n_specs;
	int64_t *truth, *lower; /* per spec */
	enum lazy_state *state;
	int64_t *cost;     /* per kernel */
	int64_t *expected; /* per spec; NULL: nothing is */
};

static void
add_window(struct world *w, uint32_t from, uint32_t width, uint32_t *cap)
{
	struct blp_kernel *k;
	uint32_t *io = NEW_ARRAY(&w->a, uint32_t, 4);

	GROW(&w->a, w->kernels, w->p.n_kernels, *cap);
	k = &w->kernels[w->p.n_kernels];
	io[0] = from;
	io[2] = from + width;
	k->in = io;
	k->out = io + 2;
	k->n_in = k->n_out = 1;
	/* Every fourth tensor is read again three further on: fusing over it computes it twice. */
	if (from % 4 == 0 && width > 3 && from + 3 < LENGTH) {
		io[3] = from + 3;
		k->n_out = 2;
	}
	w->spec_of[w->p.n_kernels++] = (width - 1) * 12 + from % 12;
}

static void
world_make(struct world *w, uint64_t seed)
{
	struct rng r = {seed};
	uint32_t cap = 0, *io = NEW_ARRAY(&w->a, uint32_t, 2);

	w->spec_of = NEW_ARRAY(&w->a, uint32_t, LENGTH * WIDEST);
	for (uint32_t from = 0; from < LENGTH; from++)
		for (uint32_t width = 1; width <= WIDEST && from + width < LENGTH; width++)
			add_window(w, from, width, &cap);
	io[1] = LENGTH - 1;
	w->n_specs = WIDEST * 12;
	w->p.kernels = w->kernels;
	w->p.n_tensors = LENGTH;
	w->p.given = io;
	w->p.wanted = io + 1;
	w->p.n_given = w->p.n_wanted = 1;
	w->truth = NEW_ARRAY(&w->a, int64_t, w->n_specs);
	w->lower = NEW_ARRAY(&w->a, int64_t, w->n_specs);
	w->state = NEW_ARRAY(&w->a, enum lazy_state, w->n_specs);
	w->cost = NEW_ARRAY(&w->a, int64_t, w->p.n_kernels);
	for (uint32_t s = 0; s < w->n_specs; s++) {
		w->lower[s] = 3000 + (int64_t)(s / 12 + 1) * 700 + (int64_t)rng_below(&r, 500);
		w->truth[s] =
		    w->lower[s] + (int64_t)(rng_unit(&r) * rng_unit(&r) * 2.0 * (double)w->lower[s]);
		/* Some kernels turn out not to work; those of one tensor always do. */
		if (s >= 12 && rng_below(&r, 25) == 0)
			w->truth[s] = BLP_NEVER;
	}
}

static void
set_costs(struct world *w, bool is_truth)
{
	for (uint32_t k = 0; k < w->p.n_kernels; k++) {
		uint32_t s = w->spec_of[k];
		bool is_known = is_truth || w->state[s] == LAZY_MEASURED || w->state[s] == LAZY_FAILED;

		w->cost[k] = is_known ? w->truth[s] : w->lower[s];
		w->kernels[k].cost = w->cost[k];
	}
}

/* What only measured kernels can do. */
static int64_t
measured_cost(struct world *w, struct blp_state *solver)
{
	int64_t *cost = arena_dup(&w->a, w->cost, sizeof(*cost) * w->p.n_kernels);
	struct blp_result r;
	struct err e = {0};

	for (uint32_t k = 0; k < w->p.n_kernels; k++)
		if (w->state[w->spec_of[k]] != LAZY_MEASURED)
			cost[k] = BLP_NEVER;
	return blp_solve_again(&w->a, solver, cost, NULL, 0, &r, &e) ? r.cost : BLP_NEVER;
}

static uint32_t
profile(struct world *w, uint32_t want, int64_t *found, uint32_t *n_rounds)
{
	struct blp_state *solver = blp_state_new(&w->p, NULL);
	uint32_t n_measured = 0;
	struct blp_result r;
	struct lazy_out next;
	struct err e = {0};

	do {
		struct lazy_in in = {
		    &w->p, &r, w->spec_of, w->state, w->n_specs, BLP_NEVER, want, w->expected};

		set_costs(w, false);
		in.measured_cost = measured_cost(w, solver);
		if (!blp_solve_again(&w->a, solver, w->cost, NULL, 0, &r, &e))
			fail_msg("%s", e.msg);
		assert_true(r.proved);
		lazy_next(&w->a, &in, &next);
		assert_true(next.done || next.n_measure > 0);
		for (uint32_t i = 0; i < next.n_measure; i++) {
			uint32_t s = next.measure[i];

			assert_int_equal(w->state[s], LAZY_OPEN);
			w->state[s] = w->truth[s] == BLP_NEVER ? LAZY_FAILED : LAZY_MEASURED;
			n_measured++;
		}
		++*n_rounds;
	} while (!next.done);
	*found = r.cost;
	blp_state_free(solver);
	return n_measured;
}

static void
ends_at_the_true_optimum(void **state)
{
	const uint32_t wants[] = {0, 4, 16};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(wants); i++) {
		uint32_t n_measured = 0, n_specs = 0, n_rounds = 0;

		for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
			struct world w = {0};
			struct blp_result r;
			struct err e = {0};
			int64_t found;

			world_make(&w, seed);
			n_measured += profile(&w, wants[i], &found, &n_rounds);
			n_specs += w.n_specs;
			set_costs(&w, true);
			if (!blp_solve(&w.a, &w.p, NULL, 0, NULL, &r, &e))
				fail_msg("%s", e.msg);
			assert_true(r.proved);
			assert_int_equal(found, r.cost);
			arena_fini(&w.a);
		}
		print_message("farm of %u: measured %u of %u specs (%.0f %%) in %u rounds\n", wants[i],
		    n_measured, n_specs, 100.0 * n_measured / n_specs, n_rounds);
		assert_true(n_measured < n_specs);
	}
}

/* Where it is known about what specs will take, a choice is lifted by some of its kernels and the rest of it
 * is not looked at; the end is the same. */
static void
asks_for_what_lifts_the_choice(void **state)
{
	uint32_t n_all = 0, n_lifting = 0, n_rounds = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
		struct world all = {0}, lifting = {0};
		int64_t found, again;

		world_make(&all, seed);
		world_make(&lifting, seed);
		lifting.expected = NEW_ARRAY(&lifting.a, int64_t, lifting.n_specs);
		for (uint32_t s = 0; s < lifting.n_specs; s++)
			lifting.expected[s] = lifting.lower[s] + lifting.lower[s] / 2;
		n_all += profile(&all, 0, &found, &n_rounds);
		n_lifting += profile(&lifting, 0, &again, &n_rounds);
		assert_int_equal(found, again);
		arena_fini(&all.a);
		arena_fini(&lifting.a);
	}
	print_message("measured %u specs, %u of them where it is known what lifts\n", n_all, n_lifting);
	assert_true(n_lifting < n_all * 95 / 100);
}

static void
never_asks_for_what_cannot_matter(void **state)
{
	/* Two ways to make tensor 1: one measured at 10, one bounded by 12. */
	const uint32_t in[] = {0}, out[] = {1};
	const struct blp_kernel kernels[] = {{in, out, 1, 1, 10}, {in, out, 1, 1, 12}};
	const struct blp p = {.n_tensors = 2,
	    .n_kernels = 2,
	    .kernels = kernels,
	    .given = in,
	    .wanted = out,
	    .n_given = 1,
	    .n_wanted = 1};
	const uint32_t spec_of[] = {0, 1};
	const enum lazy_state states[] = {LAZY_MEASURED, LAZY_OPEN};
	struct arena a = {0};
	struct blp_result r;
	struct lazy_out next;
	struct err e = {0};
	struct lazy_in lin = {&p, &r, spec_of, states, 2, 10, 8, NULL};

	(void)state;
	assert_true(blp_solve(&a, &p, NULL, 0, NULL, &r, &e));
	lazy_next(&a, &lin, &next);
	assert_true(next.done);
	assert_int_equal(next.n_measure, 0);
	assert_int_equal(next.n_useless, 1);
	arena_fini(&a);
}

static void
waits_for_what_is_on_its_way(void **state)
{
	const uint32_t in[] = {0}, out[] = {1};
	const struct blp_kernel kernels[] = {{in, out, 1, 1, 10}};
	const struct blp p = {.n_tensors = 2,
	    .n_kernels = 1,
	    .kernels = kernels,
	    .given = in,
	    .wanted = out,
	    .n_given = 1,
	    .n_wanted = 1};
	const uint32_t spec_of[] = {0};
	const enum lazy_state states[] = {LAZY_WAITING};
	struct arena a = {0};
	struct blp_result r;
	struct lazy_out next;
	struct err e = {0};
	struct lazy_in lin = {&p, &r, spec_of, states, 1, BLP_NEVER, 8, NULL};

	(void)state;
	assert_true(blp_solve(&a, &p, NULL, 0, NULL, &r, &e));
	lazy_next(&a, &lin, &next);
	assert_false(next.done);
	assert_int_equal(next.n_measure, 0);
	assert_int_equal(next.n_chosen_open, 1);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ends_at_the_true_optimum),
	    cmocka_unit_test(asks_for_what_lifts_the_choice),
	    cmocka_unit_test(never_asks_for_what_cannot_matter),
	    cmocka_unit_test(waits_for_what_is_on_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
