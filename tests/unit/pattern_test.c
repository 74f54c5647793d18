/* tests/unit/pattern_test.c: what a pattern of rewriting matches, what it does not, and what it builds;
 * patterns that cannot be read. */
#include "../../daemon/rewrite/rewrite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* What the cases' graphs start with: %3 is 2, %6 -0, %5 has three values, %7 none that is known. */
static const char head[] = "%0 = input f32[2,3]\n"
			   "%1 = input f32[2,3]\n"
			   "%2 = const f32[1,1] 0x1p+1\n"
			   "%3 = bcast %2 shape=[2,3]\n"
			   "%4 = const f32[1,3] 0x1p+0 0x1p+1 0x1p+2\n"
			   "%5 = bcast %4 shape=[2,3]\n"
			   "%6 = const f32[1,1] -0x0p+0\n"
			   "%7 = weight f32[2,3]\n"
			   "%8 = const f32[2,3] 0x1p+0 0x1p+1 0x1p+2 0x1p+3 0x1p+4 0x1p+5\n"
			   "%9 = bcast %6 shape=[2,3]\n"
			   "%10 = input i32[2,3]\n"
			   "%11 = input f32[2,1]\n";

struct rewriting {
	const char *pattern, *before, *after; /* after NULL: it does not match */
};
static const struct rewriting cases[] = {
    /* a name is one tensor */
    {"(add x y) -> (sub y x)", "%20 = add %0 %1", "%20 = sub %1 %0"},
    {"(add x y) -> (sub y x)", "%20 = mul %0 %1", NULL},
    {"(add x x) -> (neg x)", "%20 = add %0 %0", "%20 = neg %0"},
    {"(add x x) -> (neg x)", "%20 = add %0 %1", NULL},
    {"(sub y:(neg x) x) -> (exp y)", "%19 = neg %0\n%20 = sub %19 %0", "%19 = neg %0\n%20 = exp %19"},
    {"(sub y:(neg x) x) -> (exp y)", "%19 = neg %0\n%20 = sub %19 %1", NULL},
    {"(sub (neg x) y:(exp x)) -> y", "%18 = neg %0\n%19 = exp %1\n%20 = sub %18 %19", NULL},
    {"(neg (exp x)) -> x", "%20 = neg %0", NULL},
    /* what its letter says */
    {"(sub x c) -> (neg x)", "%20 = sub %0 %3", "%20 = neg %0"},
    {"(sub x c) -> (neg x)", "%20 = sub %0 %7", "%20 = neg %0"},
    {"(sub x c) -> (neg x)", "%20 = sub %0 %1", NULL},
    {"(sub x d) -> (neg x)", "%20 = sub %0 %5", "%20 = neg %0"},
    {"(sub x d) -> (neg x)", "%20 = sub %0 %7", NULL},
    {"(sub x k) -> (neg x)", "%20 = sub %0 %3", "%20 = neg %0"},
    {"(sub x k) -> (neg x)", "%20 = sub %0 %5", NULL},
    {"(sub x w) -> (neg x)", "%20 = sub %0 %8", "%20 = neg %0"},
    {"(sub x w) -> (neg x)", "%20 = sub %0 %3", NULL},
    {"(sub x w) -> (neg x)", "%20 = sub %0 %7", NULL},
    {"(sub x v) -> (neg x)", "%20 = sub %0 %1", "%20 = neg %0"},
    {"(sub x v) -> (neg x)", "%20 = sub %0 %5", NULL},
    /* numbers */
    {"(sub x 2) -> (neg x)", "%20 = sub %0 %3", "%20 = neg %0"},
    {"(sub x 2.5) -> (neg x)", "%20 = sub %0 %3", NULL},
    {"(sub x -0) -> (neg x)", "%20 = sub %0 %9", "%20 = neg %0"},
    {"(sub x 0) -> (neg x)", "%20 = sub %0 %9", NULL},
    /* types */
    {"(neg.f32 x) -> x", "%20 = neg %0", "output %0"},
    {"(neg.f32 x) -> x", "%20 = neg %10", NULL},
    {"(abs (neg.f32 x)) -> (abs x)", "%19 = neg %0\n%20 = abs %19", "%20 = abs %0"},
    {"(abs (neg.f32 x)) -> (abs x)", "%19 = neg %10\n%20 = abs %19", NULL},
    /* operands in either order, the written one first */
    {"(mul (neg x) y) -> (sub x y)", "%19 = neg %0\n%20 = mul %1 %19", NULL},
    {"(mul~ (neg x) y) -> (sub x y)", "%19 = neg %0\n%20 = mul %1 %19", "%20 = sub %0 %1"},
    {"(mul~ (neg x) y) -> (sub x y)", "%19 = neg %0\n%20 = mul %19 %1", "%20 = sub %0 %1"},
    {"(mul~ (neg x) y) -> (sub x y)", "%18 = neg %0\n%19 = neg %1\n%20 = mul %18 %19",
	"%19 = neg %1\n%20 = sub %0 %19"},
    {"(abs (mul~ (neg x) y)) -> (sub x y)", "%18 = neg %0\n%19 = mul %1 %18\n%20 = abs %19",
	"%20 = sub %0 %1"},
    /* readers: outputs count */
    {"(neg (exp x)!) -> x", "%19 = exp %0\n%20 = neg %19", "output %0"},
    {"(neg (exp x)!) -> x", "%19 = exp %0\n%20 = neg %19\noutput %19", NULL},
    {"(neg y:(exp x)!2) -> (abs y)", "%19 = exp %0\n%20 = neg %19\noutput %19",
	"%19 = exp %0\n%20 = abs %19\noutput %19"},
    {"(neg y:(exp x)!2) -> (abs y)", "%19 = exp %0\n%20 = neg %19", NULL},
    {"(neg x!) -> (abs x)", "%19 = exp %0\n%20 = neg %19", "%19 = exp %0\n%20 = abs %19"},
    /* sets, and which of them it is */
    {"(add|mul x c) -> (same c x)", "%20 = mul %0 %3", "%20 = mul %3 %0"},
    {"(add|mul x c) -> (same c x)", "%20 = sub %0 %3", NULL},
    {"(neg (add|mul x y)) -> (add|mul y x)", "%19 = mul %0 %1\n%20 = neg %19", "%20 = mul %1 %0"},
    {"(neg (map x..)) -> (map (exp x)..)", "%19 = mul %0 %1\n%20 = neg %19",
	"%17 = exp %0\n%18 = exp %1\n%20 = mul %17 %18"},
    {"(neg (map x..)) -> (map x..)", "%19 = transpose %11 perm=[1,0]\n%20 = neg %19", NULL},
    {"(neg (concat x..)) -> (concat (abs x)..)", "%19 = concat %0 %1 %0 %0 %1 axis=0\n%20 = neg %19",
	"%17 = abs %0\n%18 = abs %1\n%20 = concat %17 %18 %17 %17 %18 axis=0"},
    /* attributes are those of the same word, shapes the result's */
    {"(transpose (neg x)) -> (neg (transpose x))", "%19 = neg %0\n%20 = transpose %19 perm=[1,0]",
	"%19 = transpose %0 perm=[1,0]\n%20 = neg %19"},
    {"(neg (bcast x)) -> (bcast (neg x))", "%19 = bcast %11 shape=[2,3]\n%20 = neg %19",
	"%19 = neg %11\n%20 = bcast %19 shape=[2,3]"},
    {"(reshape (neg (reshape x))) -> (reshape (abs x))",
	"%18 = reshape %0 shape=[6]\n%19 = neg %18\n%20 = reshape %19 shape=[3,2]",
	"%19 = abs %0\n%20 = reshape %19 shape=[3,2]"},
    {"(sub x c) -> (add x (bcast (neg *c)))", "%20 = sub %0 %5",
	"%18 = neg %4\n%19 = bcast %18 shape=[2,3]\n%20 = add %0 %19"},
    /* the first of several */
    {"(neg (neg x)) -> (exp x); (neg (abs x)) -> (log x)", "%19 = abs %0\n%20 = neg %19", "%20 = log %0"},
    {"(neg x) -> (exp x); (neg x) -> (log x)", "%20 = neg %0", "%20 = exp %0"},
};

/* The graph as text once the pattern has been applied; how often it was. */
static struct str
rewritten(struct arena *a, const char *pattern, const char *nodes, uint32_t *n_applied)
{
	struct rewrite_opts o = {.normalize = true, .worst = NUM_EXACT, .pattern = pattern};
	bool whole = str_starts(str_of(nodes), "output"); /* else what it makes is %20 */
	const char *text = arena_printf(a, "%s%s\n%s", head, nodes, whole ? "" : "output %20\n");
	struct rewrite_stats stats;
	struct graph g, to;
	struct strbuf sb;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(text), &e) || !rewrite_run(a, &g, &o, &to, &stats, &e))
		fail_msg("%s: %s", pattern, e.msg);
	graph_verify(&to);
	*n_applied = stats.n_applied[0];
	sb_init(&sb, a);
	graph_print(&sb, &to);
	return sb_str(&sb);
}

static void
test_matches(void **state)
{
	static const char none[] = "(tan (tan (tan x))) -> x";

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		const struct rewriting *c = &cases[i];
		struct arena a = {0};
		uint32_t n, n_none;
		struct str have = rewritten(&a, c->pattern, c->before, &n);
		struct str want = rewritten(&a, none, c->after ? c->after : c->before, &n_none);

		if (n != (c->after != NULL) || n_none || !str_eq(have, want))
			fail_msg("%s: applied %u times\n%.*s--- is wanted\n%.*s", c->pattern, n,
			    STR_ARG(have), STR_ARG(want));
		arena_fini(&a);
	}
}

static void
test_unreadable(void **state)
{
	static const struct {
		const char *pattern, *why;
	} bad[] = {
	    {"", "no operand"},
	    {"x -> x", "a primitive and"},
	    {"(add x y)", "' -> ' are wanted"},
	    {"(add x y) ->", "' -> ' are wanted"},
	    {"(add x y) -> ", "no operand"},
	    {"(add x y) -> x y", "the end"},
	    {"(add x y) -> x; ", "no operand"},
	    {"(add x y -> x", "no number"},
	    {"(plus x y) -> x", "no primitive"},
	    {"(add|plus x y) -> x", "no primitive"},
	    {"(add x) -> x", "another number"},
	    {"(map x) -> x", "another number"},
	    {"(add|neg x y) -> x", "another number"},
	    {"(select x y z a) -> x", "too many"},
	    {"(add x y) -> z", "no name of this side"},
	    {"(add e y) -> y", "no name of this side"},
	    {"(add x *y) -> x", "no operand"},
	    {"(add z:x y) -> x", "'(' is wanted"},
	    {"(add 1:(neg x) y) -> x", "no operand"},
	    {"(add x 1.2.3) -> x", "no number"},
	    {"(add x y) -> 1", "no operand"},
	    {"(add x y) -> (slice x)", "attributes"},
	    {"(add x y) -> (cast x)", "attributes"},
	    {"(neg x) -> (add|mul x x)", "does not have that set"},
	    {"(neg (map x..)) -> (map x)", "another number"},
	    {"(same x) -> x", "no primitive"},
	    {"(neg@ x) -> x", "')' is wanted"},
	    {"(neg x) -> (neg.f32 x)", "')' is wanted"},
	    {"(neg x) -> (neg~ x)", "')' is wanted"},
	    {"(neg x)! -> x", "' -> ' are wanted"},
	    {"(neg x) -> x!", "the end"},
	    {"(neg x) -> x:(neg x)", "the end"},
	    {"(map y..) -> y", "'..'"},
	    {"(map x.. y) -> x", "too many"},
	    {"(add~ x..) -> x", "'..'"},
	    {"(neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg "
	     "x))))))))))"
	     ")))))))) -> x",
		"too many terms"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct rewrite_opts o = {.normalize = true, .pattern = bad[i].pattern};
		struct arena a = {0};
		struct graph g, to;
		struct err e = {0};

		graph_init(&g, &a);
		if (rewrite_run(&a, &g, &o, &to, NULL, &e) || e.code != ERR_FORMAT ||
		    !strstr(e.msg, bad[i].why))
			fail_msg("'%s': wanted '%s', got '%s'", bad[i].pattern, bad[i].why, e.msg);
		arena_fini(&a);
	}
}

static void
test_table(void **state)
{
	struct rewrite_opts o = {.normalize = true};
	struct arena a = {0};
	struct graph g, to;
	struct err e = {0};

	(void)state;
	graph_init(&g, &a);
	if (!rewrite_run(&a, &g, &o, &to, NULL, &e))
		fail_msg("%s", e.msg);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_table),
	    cmocka_unit_test(test_matches),
	    cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
