/* tests/unit/search_test.c: the search finds what is known to be best, says what it did, and does it again.
 */
#include "../harness/golden_cubins.h"
#include "../harness/sass_made.h"
#include "../../kernels/sass/price.h"
#include "../../kernels/sass/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct rig {
	struct arena a;
	struct golden_kernel *kernel;
	uint32_t n;
};

static int
set_up(void **state)
{
	struct rig *r = heap_alloc(sizeof(*r));
	struct err e = {0};

	r->kernel = golden_cubins(&r->a, &r->n, &e);
	if (r->n == 0)
		fail_msg("%s", e.msg);
	*state = r;
	return 0;
}

static int
tear_down(void **state)
{
	struct rig *r = *state;

	arena_fini(&r->a);
	free(r);
	return 0;
}

static const struct golden_kernel *
find(const struct rig *r, const char *file)
{
	for (uint32_t n = 0; n < r->n; n++)
		if (strcmp(r->kernel[n].file, file) == 0)
			return &r->kernel[n];
	fail_msg("no %s", file);
	return NULL;
}

/* ---- a small loop whose every schedule can be priced
 * ------------------------------------------------------- */
/* Loads late, products that need them early in the next turn: the best order has the loads first. */
static const char loop[] = "FFMA d10 a20 b21 c10 S6 B0\n"
			   "FFMA d11 a20 b21 c11 S6\n"
			   "FFMA d12 a40 b41 c12 S6\n"
			   "LDS d20 a50 W0 S6\n"
			   "IADD3 d60 a60 b61 S6\n"
			   "MUFU d30 b43 W1 S8\n"
			   "FFMA d14 a30 b41 c14 S6 B1\n"
			   "@P1 BRA t0 S5\n"
			   "EXIT S5\n";

struct all { /* every order that exchanges lead to */
	struct sass_sched *s;
	struct sass_price *model;
	uint32_t last;
	uint64_t *seen;
	uint32_t n_seen, cap_seen;
	struct arena a;
	double best;
};

static bool
is_new(struct all *x)
{
	uint64_t key = 0;

	for (uint32_t at = 0; at <= x->last; at++)
		key = mix64(
		    key ^ ((uint64_t)sass_sched_who(x->s, at) << 8 | sass_sched_now(x->s)->instr[at].stall));
	for (uint32_t n = 0; n < x->n_seen; n++)
		if (x->seen[n] == key)
			return false;
	GROW(&x->a, x->seen, x->n_seen, x->cap_seen);
	x->seen[x->n_seen++] = key;
	return true;
}

static void
go_through(struct all *x)
{
	if (!is_new(x) || x->n_seen > 5000)
		return;
	x->best = fmin(x->best, sass_price_loop(x->model, sass_sched_now(x->s)->instr, INFINITY));
	for (uint32_t at = 0; at < x->last; at++) {
		const uint32_t mark = sass_sched_mark(x->s);

		if (sass_exchange(x->s, at) == SASS_LEGAL)
			go_through(x);
		sass_sched_undo(x->s, mark);
	}
}

/* Of orders alone; the search may change stall counts too. */
static double
best_of_all(const struct sass_kernel *k, uint32_t *n)
{
	struct all x = {.last = 7, .best = INFINITY};
	const struct sass_load load = {.warps = 1, .blocks = 1};

	x.s = sass_sched_make(&x.a, k);
	x.model = sass_price_make(&x.a, k, sass_hot(k), &load);
	go_through(&x);
	*n = x.n_seen;
	arena_fini(&x.a);
	return x.best;
}

static void
test_each_method_finds_the_best_of_a_small_loop(void **state)
{
	struct arena a = {0};
	const struct golden_kernel *g = find(*state, "hand_v2_sm80.cubin");
	struct sass_kernel k;
	struct bytes cubin;
	struct err e = {0};
	uint32_t n;

	assert_true(made_cubin(&a, g->cubin, loop, &cubin));
	assert_true(sass_read(&a, cubin, g->k.name, &k, &e));
	const double best = best_of_all(&k, &n);

	assert_true(n > 50 && n <= 5000);
	for (int m = 0; m < SASS_METHODS; m++) {
		const struct sass_search how = {.method = (enum sass_method)m, .seed = 1, .tries = 20000};
		struct sass_found found;

		if (!sass_search(&a, cubin, k.name, &how, &found, &e))
			fail_msg("%s", e.msg);
		assert_true(found.n_best > 0 && found.base_price > best);
		if (found.best[0].price > best)
			fail_msg("%s: %g, best of %u orders is %g", sass_method_name(how.method),
			    found.best[0].price, n, best);
	}
	arena_fini(&a);
}

/* ---- a price of the caller's
 * ------------------------------------------------------------------------------- */
/* How far from a schedule that legal moves made: that is the optimum, at 1. */
struct goal {
	const struct golden_kernel *g;
	struct bytes want;
	uint64_t asked, until;
};

static void
word_at(const struct goal *g, struct bytes b, uint32_t at, uint64_t out[2])
{
	memcpy(out, b.p + g->g->k.at + (size_t)at * SASS_BYTES, SASS_BYTES);
}

/* Places from where the instruction is wanted, and a hundredth for each other bit. */
static double
distance(const struct goal *g, struct bytes edited, uint32_t at)
{
	const uint32_t n = g->g->k.n_instr;
	uint64_t have[2], want[2];

	word_at(g, edited, at, have);
	for (uint32_t d = 0; d < n; d++)
		for (int sign = -1; sign <= 1; sign += 2) {
			const uint32_t q = sign < 0 ? at - d : at + d;

			if (q >= n)
				continue;
			word_at(g, g->want, q, want);
			if (want[0] == have[0])
				return d + __builtin_popcountll(want[1] ^ have[1]) / 100.;
		}
	fail_msg("an instruction is lost");
	return 0;
}

static double
far_from_goal(void *self, struct bytes edited, const struct sass_moves *moves, double limit)
{
	struct goal *g = self;
	double price = 1;

	assert_int_equal(edited.n, g->want.n);
	assert_true(moves->n_kernels == 0 || strcmp(moves->kernel[0].kernel, g->g->k.name) == 0);
	if (++g->asked > g->until)
		return NAN;
	for (uint32_t at = 0; at < g->g->k.n_instr; at++)
		price += distance(g, edited, at);
	return price < limit ? price : INFINITY;
}

/* A memory access carried as far as it goes, here and there. */
static struct bytes
goal_of(struct arena *a, const struct golden_kernel *g)
{
	struct sass_sched *s = sass_sched_make(a, &g->k);
	const struct sass_sched *one = s;
	const struct sass_loop *hot = sass_hot(&g->k);
	struct sass_moves m;
	struct bytes out;
	struct err e = {0};
	uint32_t done = 0;

	for (uint32_t at = hot->first; at < hot->last && done < 3; at++)
		if ((g->k.instr[at].flags & SASS_LOAD) && sass_exchange(s, at) == SASS_LEGAL) {
			done++;
			at += 4;
		}
	assert_int_equal(done, 3);
	sass_moves_of(a, g->cubin, &one, 1, &m);
	if (!sass_moves_apply(a, g->cubin, &m, &out, &e))
		fail_msg("%s", e.msg);
	return out;
}

static void
test_the_callers_price_is_what_counts(void **state)
{
	struct arena a = {0};
	const struct golden_kernel *g = find(*state, "gemm_f16_sm80.cubin");
	struct goal goal = {g, goal_of(&a, g), 0, UINT64_MAX};
	const struct sass_search how = {.method = SASS_ANNEAL,
	    .seed = 5,
	    .tries = 40000,
	    .heat = .001,
	    .price = far_from_goal,
	    .self = &goal};
	struct sass_found found;
	struct bytes out;
	struct err e = {0};

	assert_true(sass_search(&a, g->cubin, g->k.name, &how, &found, &e));
	print_message(
	    "%g %g %lu\n", found.base_price, found.n_best ? found.best[0].price : -1, found.accepted);
	assert_true(found.best[0].price == 1);
	assert_int_equal(found.priced, goal.asked);
	assert_true(sass_moves_apply(&a, g->cubin, &found.best[0].moves, &out, &e));
	assert_memory_equal(out.p, goal.want.p, out.n);
	arena_fini(&a);
}

static void
test_the_caller_ends_it(void **state)
{
	struct arena a = {0};
	const struct golden_kernel *g = find(*state, "gemm_f16_sm80.cubin");

	for (uint64_t until = 0; until < 40; until += 13)
		for (int m = 0; m < SASS_METHODS; m++) {
			struct goal goal = {g, goal_of(&a, g), 0, until};
			const struct sass_search how = {.method = (enum sass_method)m,
			    .seed = 5,
			    .tries = 40000,
			    .price = far_from_goal,
			    .self = &goal};
			struct sass_found found;
			struct err e = {0};

			assert_true(sass_search(&a, g->cubin, g->k.name, &how, &found, &e));
			assert_int_equal(goal.asked, until + 1);
			assert_int_equal(found.priced, until + 1);
		}
	arena_fini(&a);
}

/* ---- what it says
 * ------------------------------------------------------------------------------------------ */
static void
test_two_searches_are_equal_and_what_they_found_is_legal(void **state)
{
	const struct golden_kernel *g = find(*state, "hand_v3_sm80.cubin");

	for (int m = 0; m < SASS_METHODS; m++) {
		const struct sass_search how = {
		    .method = (enum sass_method)m, .seed = 9, .tries = 3000, .warps = 2, .blocks = 2};
		struct arena a = {0};
		struct sass_found x, y;
		struct bytes out;
		struct err e = {0};
		uint64_t refused = 0;

		assert_true(sass_search(&a, g->cubin, g->k.name, &how, &x, &e));
		assert_true(sass_search(&a, g->cubin, g->k.name, &how, &y, &e));
		assert_true(x.n_best > 0 && x.n_best == y.n_best && x.tries == y.tries);
		assert_int_equal(x.refused[SASS_LEGAL], 0);
		for (int r = 0; r < SASS_RULES; r++)
			refused += x.refused[r];
		assert_true(x.tries == how.tries && refused + x.accepted <= x.tries && refused > 0);
		for (uint32_t n = 0; n < x.n_best; n++) {
			assert_true(str_eq(
			    sass_moves_print(&a, &x.best[n].moves), sass_moves_print(&a, &y.best[n].moves)));
			assert_true(x.best[n].price == y.best[n].price && x.best[n].price < x.base_price);
			assert_true(n == 0 || x.best[n - 1].price <= x.best[n].price);
			if (!sass_moves_apply(&a, g->cubin, &x.best[n].moves, &out, &e))
				fail_msg("%s", e.msg);
		}
		arena_fini(&a);
	}
}

static void
test_what_cannot_be_searched(void **state)
{
	const struct golden_kernel *g = find(*state, "hand_v3_sm80.cubin");
	struct sass_search how = {.tries = 10};
	struct arena a = {0};
	struct sass_found found;
	struct bytes cubin;
	struct err e = {0};

	assert_false(sass_search(&a, g->cubin, "nobody", &how, &found, &e));
	assert_string_equal(e.msg, "cubin: it holds no kernel 'nobody'");
	assert_true(made_cubin(&a, g->cubin, "EXIT S5\n", &cubin));
	assert_false(sass_search(&a, cubin, g->k.name, &how, &found, &e));
	assert_string_equal(e.msg, "search: kernel 'k' has no loop");
	assert_int_equal(e.code, ERR_INFEASIBLE);
	how.warps = 1000;
	assert_false(sass_search(&a, g->cubin, g->k.name, &how, &found, &e));
	assert_string_equal(e.msg, "search: 1000 warps of 1 blocks: at most 16 warps, and a block has one");
	arena_fini(&a);
}

static void
test_methods_have_names(void **state)
{
	enum sass_method m;

	(void)state;
	for (int n = 0; n < SASS_METHODS; n++) {
		assert_true(sass_method_read(str_of(sass_method_name((enum sass_method)n)), &m));
		assert_int_equal(m, n);
	}
	assert_false(sass_method_read(STR("annealing"), &m));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_method_finds_the_best_of_a_small_loop),
	    cmocka_unit_test(test_the_callers_price_is_what_counts),
	    cmocka_unit_test(test_the_caller_ends_it),
	    cmocka_unit_test(test_two_searches_are_equal_and_what_they_found_is_legal),
	    cmocka_unit_test(test_what_cannot_be_searched),
	    cmocka_unit_test(test_methods_have_names),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
