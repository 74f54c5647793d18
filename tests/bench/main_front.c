/* tests/bench/main_front.c: the pure front half of a job on an ONNX file: counts and seconds of
 * reading, fission, rewriting and identification.
 *
 * --check computes the model before and after rewriting with the interpreter (small models).
 *
 *   bench-front [--check] [--rules] [--kernels] [--primitives] [--rewritten]
 *               [--mode=full|operator|none] MODEL.onnx */
#include "../../daemon/fission/fission.h"
#include "../../daemon/identify/identify.h"
#include "../../daemon/rewrite/rewrite.h"
#include "../../kernels/interp/interp.h"
#include "../prop/random_graph.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct args {
	bool check, rules, kernels, primitives, rewritten;
	enum identify_mode mode;
	const char *file;
};

/* Of this process's processor time: other work on the machine does not show. */
static double
seconds(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void
print_graph(struct arena *a, const struct graph *g)
{
	struct strbuf sb;

	sb_init(&sb, a);
	graph_print(&sb, g);
	printf("%.*s", STR_ARG(sb_str(&sb)));
}

static void
print_rules(const struct rewrite_stats *s)
{
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		if (s->n_applied[i] || s->n_refused[i])
			printf("  %-26s %6u applied %6u refused\n", rewrite_rule_name(i), s->n_applied[i],
			    s->n_refused[i]);
}

static void
print_prims(const struct graph *g)
{
	uint32_t n[PRIM_COUNT] = {0}, views = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		n[g->nodes[i].prim]++;
		views += node_is_view(g, &g->nodes[i]);
	}
	printf("  %u nodes, %u views:", g->n_nodes, views);
	for (uint32_t p = 0; p < PRIM_COUNT; p++)
		if (n[p])
			printf(" %s %u", prim_info[p].name, n[p]);
	printf("\n");
}

static void
print_kernels(const struct graph *g, const struct cand_set *s)
{
	for (uint32_t i = 0; i < s->n_cands; i++) {
		const struct cand *c = &s->cands[i];
		printf("spec %u:", c->spec);
		BITSET_EACH(k, &c->members)
		printf(" %s", prim_info[g->nodes[k].prim].name);
		printf(" | in");
		for (uint32_t k = 0; k < c->n_in; k++)
			printf(" %%%u", c->in[k].i);
		printf(" | out");
		for (uint32_t k = 0; k < c->n_out; k++)
			printf(" %%%u", c->out[k].i);
		printf("\n");
	}
}

/* Largest difference of an output after rewriting, over its largest magnitude. */
static bool
print_differences(struct arena *a, const struct graph *before, const struct graph *after, struct err *e)
{
	struct rng r = {1};
	const void **in = random_inputs(a, &r, before);
	void **want = NEW_ARRAY(a, void *, before->n_outputs),
	     **have = NEW_ARRAY(a, void *, before->n_outputs);

	if (!interp_run(a, before, in, NULL, want, e) || !interp_run(a, after, in, NULL, have, e))
		return false;
	for (uint32_t i = 0; i < before->n_outputs; i++) {
		const struct tensor *t = graph_tensor(before, before->outputs[i]);
		printf("  output %u differs by %g\n", i,
		    values_distance(t->type, &t->shape, have[i], want[i], 1e-30));
	}
	return true;
}

static bool
run(struct arena *a, const struct args *args, struct err *e)
{
	struct bytes onnx;
	struct model m;
	struct graph prim, g;
	struct fission_stats fs;
	struct rewrite_stats rs;
	struct cand_set cs;
	const struct rewrite_opts ro = {
	    .normalize = true, .alternatives = true, .worst = NUM_PRECISION, .max_nodes = 100000};
	double t[5];

	t[0] = seconds();
	if (!os_read_file(os_real(), a, args->file, (size_t)2 << 30, &onnx, e) ||
	    !model_read(a, onnx, args->file, NULL, &model_limits_default, &m, e))
		return false;
	t[1] = seconds();
	if (!fission_run(a, &m, &prim, &fs, e))
		return false;
	t[2] = seconds();
	if (args->primitives)
		print_graph(a, &prim);
	if (!rewrite_run(a, &prim, &ro, &g, &rs, e))
		return false;
	graph_verify(&g);
	double rewritten = seconds();
	if (args->rewritten)
		print_graph(a, &g);
	if (args->check && !print_differences(a, &prim, &g, e))
		return false;
	t[3] = seconds();
	if (!identify_run(a, &g, args->mode, NULL, &cs, e))
		return false;
	t[4] = seconds();
	printf("%s: operators %u, primitives %u, rewritten %u (%u rounds), candidates %u, distinct %u, "
	       "infeasible %u, dropped %u; read %.3f fission %.3f rewrite %.3f identify "
	       "%.3f s\n",
	    args->file, fs.n_operators, prim.n_nodes, g.n_nodes, rs.n_rounds, cs.n_cands, cs.n_specs,
	    cs.n_infeasible, cs.n_dropped, t[1] - t[0], t[2] - t[1], rewritten - t[2], t[4] - t[3]);
	print_prims(&prim);
	print_prims(&g);
	for (uint32_t i = 0; i < cs.n_infeasible_rules; i++)
		printf("  infeasible %.*s\n", STR_ARG(cs.infeasible_rules[i]));
	if (args->rules)
		print_rules(&rs);
	if (args->kernels)
		print_kernels(&g, &cs);
	return true;
}

int
main(int argc, char **argv)
{
	struct args args = {.mode = IDENTIFY_FULL};
	struct arena a = {0};
	struct err e = {0};
	int status = 0;

	for (int i = 1; i < argc; i++) {
		args.check |= strcmp(argv[i], "--check") == 0;
		args.rules |= strcmp(argv[i], "--rules") == 0;
		args.kernels |= strcmp(argv[i], "--kernels") == 0;
		args.primitives |= strcmp(argv[i], "--primitives") == 0;
		args.rewritten |= strcmp(argv[i], "--rewritten") == 0;
		if (strcmp(argv[i], "--mode=operator") == 0)
			args.mode = IDENTIFY_OPERATOR;
		if (strcmp(argv[i], "--mode=none") == 0)
			args.mode = IDENTIFY_NONE;
		if (argv[i][0] != '-')
			args.file = argv[i];
	}
	if (!args.file) {
		fprintf(stderr,
		    "usage: bench-front [--check] [--rules] [--kernels] [--primitives] [--rewritten] "
		    "[--mode=full|operator|none] MODEL.onnx\n");
		return 2;
	}
	if (!run(&a, &args, &e)) {
		fprintf(stderr, "bench-front: %s\n", e.msg);
		status = err_exit_status(e.code);
	}
	arena_fini(&a);
	return status;
}
