/* tests/opt_rewrite.c: rewriting and identification over graphs as text. */
#include "opt.h"
#include "../daemon/identify/identify.h"
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
	if (!worst_of(opt_arg(c, "--worst", "precision"), &o.worst, e) || !graph_read(&g, c->a, c->text, e) ||
	    !rewrite_run(c->a, &g, &o, out, stats, e))
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
	graph_print(c->out, &g);
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		if (s.n_applied[i])
			sb_addf(c->out, "# %s %u\n", rewrite_rule_name(i), s.n_applied[i]);
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

static void
print_tensors(struct strbuf *sb, const char *what, const tensor_id *t, uint32_t n)
{
	sb_addf(sb, " %s", what);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(sb, " %%%u", t[i].i);
}

/* One line a candidate: its spec's number, its nodes by first result, what it reads and makes. */
static void
print_candidates(struct strbuf *sb, const struct graph *g, const struct cand_set *s)
{
	for (uint32_t i = 0; i < s->n_cands; i++) {
		const struct cand *c = &s->cands[i];
		sb_addf(sb, "spec %u:", c->spec);
		BITSET_EACH(k, &c->members)
		sb_addf(sb, " %%%u=%s", g->nodes[k].out[0].i, prim_info[g->nodes[k].prim].name);
		print_tensors(sb, "| in", c->in, c->n_in);
		print_tensors(sb, "| out", c->out, c->n_out);
		sb_addc(sb, '\n');
	}
	sb_addf(sb, "# candidates %u distinct %u infeasible %u dropped %u\n", s->n_cands, s->n_specs,
	    s->n_infeasible, s->n_dropped);
	for (uint32_t i = 0; i < s->n_infeasible_rules; i++)
		sb_addf(sb, "# infeasible %.*s\n", STR_ARG(s->infeasible_rules[i]));
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

	if (!graph_read(&g, c->a, c->text, e))
		return false;
	graph_sort(&sorted, c->a, &g, NULL);
	lim.max_beside = opt_arg(c, "--side-by-side", NULL) ? IDENTIFY_BESIDE : 0;
	for (size_t i = 0; i < COUNT_OF(modes); i++)
		if (strcmp(mode, modes[i]) == 0) {
			if (!identify_run(c->a, &sorted, (enum identify_mode)i, &lim, &s, e))
				return false;
			print_candidates(c->out, &sorted, &s);
			return true;
		}
	return err_set(e, ERR_USAGE, "--mode=%s: full, operator or none", mode);
}
