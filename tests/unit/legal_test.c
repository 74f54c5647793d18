/* tests/unit/legal_test.c: each rule by cases made by hand (legal_cases.txt): what it refuses, what is legal
 * beside it; and without the rule, the same is accepted: each case is caught by its rule alone. */
#include "../harness/golden_cubins.h"
#include "../harness/sass_made.h"
#include "../../kernels/sass/legal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_TEXT = 1 << 20 };

/* Asks one thing of the base. */
static enum sass_rule
ask(struct sass_sched *s, struct str what)
{
	const struct str verb = str_cut(&what, ' ');
	int64_t x = -1, y = -1;

	if (!str_to_i64(str_cut(&what, ' '), &x))
		fail_msg("no place: %.*s", STR_ARG(what));
	if (what.n && !str_to_i64(what, &y))
		fail_msg("no number: %.*s", STR_ARG(what));
	if (str_is(verb, "exchange"))
		return sass_exchange(s, (uint32_t)x);
	if (str_is(verb, "move"))
		return sass_move(s, (uint32_t)x, (uint32_t)y, true);
	if (str_is(verb, "stall"))
		return sass_set_stall(s, (uint32_t)x, (uint32_t)y);
	if (!str_is(verb, "yield"))
		fail_msg("no such question: %.*s", STR_ARG(verb));
	return sass_set_yield(s, (uint32_t)x, y);
}

static enum sass_rule
ask_once(const struct sass_kernel *k, struct str what, uint32_t without)
{
	struct arena a = {0};
	struct sass_sched *s = sass_sched_make(&a, k);

	sass_sched_without(s, without);
	const enum sass_rule r = ask(s, what);

	arena_fini(&a);
	return r;
}

struct told {
	uint32_t refused[SASS_RULES]; /* questions that the rule answered */
	uint32_t alone[SASS_RULES];   /* of them, legal without it */
	uint32_t legal, wrong;
};

static void
check_question(const char *name, const struct sass_kernel *k, struct str line, struct told *t)
{
	struct str want = line, what = str_trim(str_cut(&want, '='));

	want = str_trim(want);
	const enum sass_rule r = ask_once(k, what, 0);

	if (!str_is(want, sass_rule_name(r))) {
		print_error("%s: %.*s, not %s\n", name, STR_ARG(line), sass_rule_name(r));
		t->wrong++;
	}
	t->legal += r == SASS_LEGAL;
	t->refused[r] += r != SASS_LEGAL;
	if (r != SASS_LEGAL)
		t->alone[r] += ask_once(k, what, 1u << r) == SASS_LEGAL;
}

/* One case: `head` is "NAME sm", then instructions, then questions. */
static void
check_case(struct str head, struct str body, struct told *t)
{
	struct arena a = {0};
	const char *name = str_dup(&a, head);
	const int sm = atoi(strrchr(name, ' ') + 1);
	struct str left = body;
	struct strbuf code;
	struct sass_kernel k;
	bool is_made = false;

	sb_init(&code, &a);
	while (left.n) {
		const struct str line = str_trim(str_cut(&left, '\n'));

		if (line.n == 0 || *line.p == '#')
			continue;
		if (!memchr(line.p, '=', line.n)) {
			sb_add(&code, line);
			sb_addc(&code, '\n');
			continue;
		}
		if (!is_made && !made_kernel(&a, code.p, sm, &k))
			fail_msg("%s", name);
		is_made = true;
		check_question(name, &k, line, t);
	}
	assert_true(is_made);
	arena_fini(&a);
}

static void
test_each_rule_refuses_and_nothing_else_does(void **state)
{
	struct arena a = {0};
	struct told t = {.legal = 0};
	struct bytes b;
	struct err e = {0};
	char *at, *next;

	(void)state;
	if (!os_read_file(os_real(), &a, KORCH_SOURCE_DIR "/tests/unit/legal_cases.txt", MAX_TEXT, &b, &e))
		fail_msg("%s", e.msg);
	at = strstr(str_dup(&a, (struct str){(const char *)b.p, b.n}), "\ncase ");
	for (; at; at = next) {
		struct str body;

		next = strstr(at + 1, "\ncase ");
		if (next)
			*next = 0;
		body = str_of(at + strlen("\ncase "));
		const struct str head = str_cut(&body, '\n');

		check_case(head, body, &t);
		if (next)
			*next = '\n';
	}
	assert_int_equal(t.wrong, 0);
	for (int r = 1; r < SASS_RULES; r++)
		if (t.refused[r] == 0 || t.alone[r] == 0)
			fail_msg("%s: %u cases, %u that it alone refuses", sass_rule_name((enum sass_rule)r),
			    t.refused[r], t.alone[r]);
	assert_true(t.legal > SASS_RULES);
	arena_fini(&a);
}

static void
test_rules_have_names_and_sentences(void **state)
{
	(void)state;
	assert_string_equal(sass_rule_name(SASS_LEGAL), "legal");
	for (int r = 1; r < SASS_RULES; r++) {
		assert_non_null(sass_rule_name((enum sass_rule)r));
		assert_true(strlen(sass_rule_text((enum sass_rule)r)) > 20);
	}
}

/* Whatever order a chain of legal moves ends in, who depends on whom comes behind it still. */
static bool
keeps_dependences(const struct sass_sched *s, const struct sass_kernel *base)
{
	uint32_t *place = heap_alloc(sizeof(*place) * base->n_instr);
	bool ok = true;

	for (uint32_t at = 0; at < base->n_instr; at++)
		place[sass_sched_who(s, at)] = at;
	for (uint32_t n = 0; n < base->n_blocks; n++)
		for (uint32_t x = base->block[n].first; x < base->block[n].end; x++)
			for (uint32_t y = x + 1; y < base->block[n].end; y++) {
				const struct sass_instr *p = &base->instr[x], *q = &base->instr[y];

				if (sass_set_meets(&p->defs, &q->uses) ||
				    sass_set_meets(&p->uses, &q->defs) || sass_set_meets(&p->defs, &q->defs))
					ok &= place[x] < place[y];
			}
	free(place);
	return ok;
}

static void
test_dependences_keep_their_order(void **state)
{
	struct arena a = {0};
	struct rng rng = {3};
	struct err e = {0};
	uint32_t n;
	const struct golden_kernel *g = golden_cubins(&a, &n, &e);

	(void)state;
	for (uint32_t q = 0; q < n; q++) {
		struct sass_sched *s = sass_sched_make(&a, &g[q].k);
		uint32_t done = 0;

		for (uint32_t m = 0; m < 20000; m++) {
			const uint32_t from = rng_below(&rng, g[q].k.n_instr),
				       to = from + rng_below(&rng, 25);

			if (to >= 12)
				done += sass_move(s, from, to - 12, true) == SASS_LEGAL && to != from + 12;
		}
		assert_true(keeps_dependences(s, &g[q].k));
		if (done == 0)
			fail_msg("%s: %s: no move is legal", g[q].file, g[q].k.name);
	}
	assert_true(n > 30);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_rule_refuses_and_nothing_else_does),
	    cmocka_unit_test(test_rules_have_names_and_sentences),
	    cmocka_unit_test(test_dependences_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
