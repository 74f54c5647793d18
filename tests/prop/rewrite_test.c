/* tests/prop/rewrite_test.c: a rewritten graph computes what the graph did, whatever the graph;
 * and every rule is met by some graph. */
#include "random_graph.h"

#include "../../daemon/rewrite/rewrite.h"
#include "../../kernels/interp/interp.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static void
print_graph(struct arena *a, const char *what, const struct graph *g)
{
	struct strbuf sb;

	sb_init(&sb, a);
	graph_print(&sb, g);
	fprintf(stderr, "--- %s\n%.*s", what, STR_ARG(sb_str(&sb)));
}

struct totals {
	uint64_t applied[96], rounds, nodes_before, nodes_after;
	uint32_t most_rounds;
};

/* A producer for each tensor, any of its alternatives. */
static uint32_t *
random_pick(struct arena *a, struct rng *r, const struct graph *g)
{
	struct graph_index ix = graph_index_make(a, g);
	uint32_t *pick = NEW_ARRAY(a, uint32_t, g->n_tensors + 1);

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t n = ix.maker_first[t + 1] - ix.maker_first[t];
		pick[t] = n ? ix.maker[ix.maker_first[t] + rng_below(r, n)] : NO_NODE;
	}
	return pick;
}

/* One graph, one setting; true when both graphs agree, whatever alternatives are taken. */
static bool
agrees(struct arena *a, const struct graph *g, struct rng *r, const struct rewrite_opts *o, double within,
    struct totals *sum)
{
	const void **in = random_inputs(a, r, g);
	void **want = NEW_ARRAY(a, void *, g->n_outputs), **have = NEW_ARRAY(a, void *, g->n_outputs);
	struct rewrite_stats stats;
	struct graph to;
	struct err e = {0};

	if (!rewrite_run(a, g, o, &to, &stats, &e))
		bug("%s", e.msg);
	graph_verify(&to);
	if (stats.n_rounds >= 20) {
		print_graph(a, "rules that undo each other", g);
		print_graph(a, "after", &to);
		for (uint32_t i = 0; i < rewrite_n_rules(); i++)
			if (stats.n_applied[i] >= 20)
				fprintf(stderr, "%s %u\n", rewrite_rule_name(i), stats.n_applied[i]);
		return false;
	}
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		sum->applied[i] += stats.n_applied[i];
	sum->rounds += stats.n_rounds;
	sum->most_rounds = MAX_OF(sum->most_rounds, stats.n_rounds);
	sum->nodes_before += g->n_nodes;
	sum->nodes_after += to.n_nodes;
	if (!interp_run(a, g, in, NULL, want, &e) ||
	    !interp_run(a, &to, in, random_pick(a, r, &to), have, &e))
		bug("%s", e.msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		double d = values_distance(t->type, &t->shape, have[i], want[i], 1);
		if (d <= within)
			continue;
		fprintf(stderr, "output %u differs by %g of its largest magnitude\n", i, d);
		print_graph(a, "before", g);
		print_graph(a, "after", &to);
		return false;
	}
	return true;
}

static struct totals
sweep(const struct random_opts *ro, const struct rewrite_opts *o, double within, uint32_t n, uint64_t seed)
{
	struct totals sum = {0};

	for (uint32_t k = 0; k < n; k++) {
		struct arena a = {0};
		struct rng r = {seed + k};
		struct random_opts mine = *ro;
		struct graph g;

		mine.n_nodes = 1 + rng_below(&r, ro->n_nodes);
		mine.chain = rng_below(&r, 2);
		random_graph(&g, &a, &r, &mine);
		if (!agrees(&a, &g, &r, o, within, &sum)) {
			fprintf(stderr, "seed %llu\n", (unsigned long long)(seed + k));
			fail();
		}
		arena_fini(&a);
	}
	return sum;
}

static void
print_totals(const struct totals *t)
{
	print_message("nodes %llu -> %llu, most rounds %u\n", (unsigned long long)t->nodes_before,
	    (unsigned long long)t->nodes_after, t->most_rounds);
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		print_message("  %-26s %llu\n", rewrite_rule_name(i), (unsigned long long)t->applied[i]);
}

static const struct rewrite_opts all_rules = {
    .normalize = true, .alternatives = false, .worst = NUM_PRECISION, .max_nodes = 100000};

static uint32_t
n_graphs(uint32_t by_default)
{
	const char *n = getenv("KORCH_RANDOM_GRAPHS");
	int64_t v;

	return n && str_to_i64(str_of(n), &v) && v > 0 ? (uint32_t)v : by_default;
}

static void
exact_rules_keep_every_bit_but_sums(void **state)
{
	struct rewrite_opts o = all_rules;
	struct random_opts ro = {.n_nodes = 12, .kinds = RG_ALL & ~(uint32_t)RG_PROD, .max_elements = 600};

	(void)state;
	o.worst = NUM_EXACT;
	/* The interpreter sums in double, so that the order of a sum hardly shows. */
	(void)sweep(&ro, &o, 1e-6, n_graphs(1500), 1000000);
}

static void
all_rules_agree(void **state)
{
	struct random_opts ro = {.n_nodes = 14, .kinds = RG_ALL & ~(uint32_t)RG_PROD, .max_elements = 600};

	(void)state;
	struct totals t = sweep(&ro, &all_rules, 2e-4, n_graphs(1500), 2000000);
	print_totals(&t);
}

static void
alternatives_agree(void **state)
{
	struct rewrite_opts o = all_rules;
	struct random_opts ro = {.n_nodes = 14,
	    .kinds = RG_LAYOUT | RG_MAP | RG_BCAST | RG_GATHER | RG_SELECT,
	    .max_elements = 600};

	(void)state;
	o.alternatives = true;
	o.alt_elements = 1;
	struct totals t = sweep(&ro, &o, 2e-4, n_graphs(2000), 4000000);
	print_totals(&t);
}

static void
form_without_gain_agrees(void **state)
{
	struct rewrite_opts o = all_rules;
	struct random_opts ro = {.n_nodes = 14, .kinds = RG_ALL & ~(uint32_t)RG_PROD, .max_elements = 600};

	(void)state;
	o.alternatives = true;
	o.only_form = true;
	struct totals t = sweep(&ro, &o, 2e-4, n_graphs(1000), 6000000);
	for (uint32_t i = 0; i < rewrite_n_rules(); i++) {
		const char *name = rewrite_rule_name(i);
		if (!strcmp(name, "mul_into_linear") || !strcmp(name, "sink_bcast"))
			assert_int_equal(t.applied[i] > 0, name[0] == 's');
	}
}

static void
layout_chains_agree(void **state)
{
	struct random_opts ro = {.n_nodes = 10,
	    .kinds = RG_LAYOUT | RG_BCAST | RG_MAP | RG_REDUCE | RG_GATHER,
	    .max_elements = 400,
	    .max_extent = 5};

	(void)state;
	struct totals t = sweep(&ro, &all_rules, 1e-4, n_graphs(3000), 3000000);
	print_totals(&t);
}

static void
branches_agree(void **state)
{
	struct random_opts ro = {.n_nodes = 4, .kinds = RG_BRANCHES | RG_MAP, .max_elements = 600};

	(void)state;
	struct totals t = sweep(&ro, &all_rules, 1e-5, n_graphs(2000), 7000000);
	print_totals(&t);
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		if (!strcmp(rewrite_rule_name(i), "linear_branches"))
			assert_true(t.applied[i] > 300);
}

static void
equal_graphs_are_rewritten_alike(void **state)
{
	struct random_opts ro = {.n_nodes = 20, .kinds = RG_ALL};

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct arena a = {0};
		struct strbuf sb[2];

		for (int k = 0; k < 2; k++) {
			struct rng r = {seed};
			struct graph g, to;
			struct err e = {0};
			random_graph(&g, &a, &r, &ro);
			assert_true(rewrite_run(&a, &g, &all_rules, &to, NULL, &e));
			sb_init(&sb[k], &a);
			graph_print(&sb[k], &to);
		}
		assert_true(str_eq(sb_str(&sb[0]), sb_str(&sb[1])));
		arena_fini(&a);
	}
}

/* With and without alternatives: what is rewritten stays as it is, alternatives included. */
static void
rewriting_again_changes_nothing(void **state)
{
	struct random_opts ro = {.n_nodes = 16, .kinds = RG_ALL, .max_elements = 600};

	(void)state;
	for (uint64_t seed = 0; seed < n_graphs(600); seed++) {
		struct arena a = {0};
		struct rng r = {seed + 5000000};
		struct rewrite_opts o = all_rules, again = all_rules;
		struct strbuf sb[2];
		struct graph g[3];
		struct err e = {0};

		o.alternatives = seed & 1;
		o.alt_elements = 1;
		random_graph(&g[0], &a, &r, &ro);
		assert_true(rewrite_run(&a, &g[0], &o, &g[1], NULL, &e));
		assert_true(rewrite_run(&a, &g[1], &again, &g[2], NULL, &e));
		for (int k = 0; k < 2; k++) {
			sb_init(&sb[k], &a);
			graph_print(&sb[k], &g[k + 1]);
		}
		if (!str_eq(sb_str(&sb[0]), sb_str(&sb[1])))
			fail_msg("seed %llu\n%.*s---\n%.*s", (unsigned long long)seed,
			    STR_ARG(sb_str(&sb[0])), STR_ARG(sb_str(&sb[1])));
		arena_fini(&a);
	}
}

/* The inputs of the golden cases: between them they meet every rule, which random graphs do not. */
static struct str
golden_input(struct arena *a, const char *path)
{
	struct bytes b;
	struct err e = {0};
	struct str text, line, rest;
	struct strbuf sb;
	bool on = false;

	if (!os_read_file(os_real(), a, path, 1 << 20, &b, &e))
		fail_msg("%s", e.msg);
	rest = (struct str){(const char *)b.p, b.n};
	sb_init(&sb, a);
	while (rest.n) {
		line = str_cut(&rest, '\n');
		if (str_starts(line, "< exit"))
			break;
		if (on)
			sb_addf(&sb, "%.*s\n", STR_ARG(line));
		on |= str_starts(line, ">");
	}
	text = sb_str(&sb);
	return text;
}

/* Weights have no data in text. */
static void
give_weights_data(struct arena *a, struct rng *r, struct graph *g)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i].role == ROLE_WEIGHT)
			g->tensors[i].data = random_values(a, r, g->tensors[i].type, &g->tensors[i].shape);
}

static void
golden_cases_keep_their_meaning_and_meet_every_rule(void **state)
{
	struct arena a = {0};
	struct rng r = {7};
	struct totals sum = {0};
	glob_t found;

	(void)state;
	assert_int_equal(glob(KORCH_SOURCE_DIR "/tests/golden/rewrite/*.txt", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct graph g;
		struct err e = {0};
		struct str text = golden_input(&a, found.gl_pathv[i]);

		if (!graph_read(&g, &a, text, &e))
			fail_msg("%s: %s", found.gl_pathv[i], e.msg);
		give_weights_data(&a, &r, &g);
		struct rewrite_opts o = all_rules;
		o.alternatives = true;
		for (int k = NUM_EXACT; k <= NUM_PRECISION; k++) {
			o.worst = (enum numeric)k;
			if (!agrees(&a, &g, &r, &o, 1e-5, &sum))
				fail_msg("%s", found.gl_pathv[i]);
		}
	}
	globfree(&found);
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		if (!sum.applied[i])
			fail_msg("no case in tests/golden/rewrite meets rule %s", rewrite_rule_name(i));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exact_rules_keep_every_bit_but_sums),
	    cmocka_unit_test(all_rules_agree),
	    cmocka_unit_test(alternatives_agree),
	    cmocka_unit_test(form_without_gain_agrees),
	    cmocka_unit_test(layout_chains_agree),
	    cmocka_unit_test(branches_agree),
	    cmocka_unit_test(equal_graphs_are_rewritten_alike),
	    cmocka_unit_test(rewriting_again_changes_nothing),
	    cmocka_unit_test(golden_cases_keep_their_meaning_and_meet_every_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
