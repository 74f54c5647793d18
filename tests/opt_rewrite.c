/* tests/opt_rewrite.c: rewriting and identification over graphs as text. */
#include "opt.h"
#include "../daemon/identify/identify.h"
#include "../daemon/plan/plan_make.h"
#include "../daemon/rewrite/rewrite.h"

#include <string.h>

static bool
worst_of(const char *name, enum numeric *out, struct err *e)
{
	static const char *const names[] = {
	    [NUM_EXACT] = "exact", [NUM_REASSOC] = "reassoc", [NUM_PRECISION] = "precision"};

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum numeric)i;
			return true;
		}
	return err_set(e, ERR_USAGE, "--worst=%s: exact, reassoc or precision", name);
}

static bool
rewritten(struct opt_call *c, struct graph *out, struct rewrite_stats *stats, struct err *e)
{
	struct rewrite_opts o = {.normalize = true, .max_nodes = 100000};
	struct graph g;

	o.alternatives = opt_arg(c, "--alternatives", NULL) != NULL;
	o.only_form = opt_arg(c, "--only-form", NULL) != NULL;
	if (!worst_of(opt_arg(c, "--worst", "precision"), &o.worst, e) ||
	    !opt_read_graph(c, c->text, &g, e) || !rewrite_run(c->a, &g, &o, out, stats, e))
		return false;
	graph_verify(out);
	return true;
}

bool
opt_rewrite(struct opt_call *c, struct err *e)
{
	struct graph g;
	struct rewrite_stats s;

	if (!rewritten(c, &g, &s, e))
		return false;
	opt_print_graph(c, &g);
	rewrite_print_stats(c->out, &s);
	return true;
}

bool
opt_rules(struct opt_call *c, struct err *e)
{
	(void)e;
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		sb_addf(c->out, "%s: %s\n", rewrite_rule_name(i), rewrite_rule_text(i));
	return true;
}

bool
opt_identify(struct opt_call *c, struct err *e)
{
	static const char *const modes[] = {
	    [IDENTIFY_FULL] = "full", [IDENTIFY_OPERATOR] = "operator", [IDENTIFY_NONE] = "none"};
	const char *mode = opt_arg(c, "--mode", "full");
	struct identify_limits lim = identify_limits_default;
	struct cand_set s;
	struct graph g, sorted;

	if (!opt_read_graph(c, c->text, &g, e))
		return false;
	if (opt_arg(c, "--dump", NULL))
		sorted = g; /* it is; and numbers stay what they are */
	else
		graph_sort(&sorted, c->a, &g, NULL);
	for (size_t i = 0; i < COUNT_OF(modes); i++)
		if (strcmp(mode, modes[i]) == 0) {
			if (!identify_run(c->a, &sorted, (enum identify_mode)i, &lim, &s, e))
				return false;
			cand_set_print(c->out, &sorted, &s);
			return true;
		}
	return err_set(e, ERR_USAGE, "--mode=%s: full, operator or none", mode);
}

static bool
read_candidates(const struct opt_call *c, struct str text, struct graph *g, struct cand_set *s, struct err *e)
{
	struct str graph;

	return opt_file(c, "--graph", &graph, e) && graph_read_dump(g, c->a, graph, e) &&
	    cand_set_read(c->a, text, g, s, e);
}

bool
opt_specs(struct opt_call *c, struct err *e)
{
	struct cand_set s;
	struct graph g;

	if (!read_candidates(c, c->text, &g, &s, e))
		return false;
	cand_specs_print(c->out, &s);
	return true;
}

/* "spec 3 cost 5120 | ..."; "never" for one that cannot be chosen. */
static bool
read_cost(struct str line, int64_t *costs, uint32_t n_specs, struct err *e)
{
	struct str head = str_cut(&line, '|'), word = str_cut(&head, ' '), number = str_cut(&head, ' ');
	int64_t spec;

	if (!str_is(word, "spec") || !str_to_i64(number, &spec) || spec < 0 || spec >= n_specs ||
	    !str_is(str_cut(&head, ' '), "cost"))
		return err_set(e, ERR_FORMAT, "'spec N cost C | ...' is wanted, N below %u", n_specs);
	head = str_trim(head);
	costs[spec] = BLP_NEVER;
	return str_is(head, "never") || str_to_i64(head, &costs[spec]) ||
	    err_set(e, ERR_FORMAT, "'%.*s' is no cost", STR_ARG(head));
}

bool
opt_program(struct opt_call *c, struct err *e)
{
	struct str candidates, rest = c->text;
	struct program p;
	struct cand_set s;
	struct graph g;
	int64_t *costs;

	if (!opt_file(c, "--candidates", &candidates, e) || !read_candidates(c, candidates, &g, &s, e))
		return false;
	program_make(c->a, &g, &s, &p);
	views_find(c->a, &g, &s, &p);
	costs = NEW_ARRAY(c->a, int64_t, s.n_specs);
	for (uint32_t i = 0; i < s.n_specs; i++)
		costs[i] = BLP_NEVER;
	for (uint32_t n = 1; rest.n; n++) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n && line.p[0] != '#' && !read_cost(line, costs, s.n_specs, e))
			return err_in(e, "line %u", n);
	}
	program_set_costs(&p, costs);
	blp_print_whole(c->out, &p.blp);
	return true;
}
