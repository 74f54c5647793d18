/* daemon/orchestrate/choice_text.c: the chosen kernels as text, for dumps and golden files. */
#include "blp.h"

#include <string.h>

void
choice_print(struct strbuf *sb, const struct blp *p, const struct blp_result *r)
{
	sb_addf(sb, "kernels %u of %u\nplan", r->n_chosen, p->n_kernels);
	for (uint32_t i = 0; i < r->n_chosen; i++)
		sb_addf(sb, " %u", r->chosen[i]);
	sb_addf(
	    sb, "\nduals prove %.3f\ncost %lld bound %lld ", r->pi, (long long)r->cost, (long long)r->bound);
	if (r->proved)
		sb_addz(sb, "proved\n");
	else
		sb_addf(sb, "gap %.6f\n", r->cost > 0 ? (double)(r->cost - r->bound) / (double)r->cost : 0);
}

static bool
read_plan(struct arena *a, struct str rest, const struct blp *p, struct blp_result *out, struct err *e)
{
	uint32_t cap = 0;

	for (rest = str_trim(rest); rest.n; rest = str_trim(rest)) {
		struct str word = str_cut(&rest, ' ');
		int64_t k;

		if (!str_to_i64(word, &k) || k < 0 || k >= p->n_kernels)
			return err_set(e, ERR_FORMAT, "the program has no kernel '%.*s'", STR_ARG(word));
		GROW(a, out->chosen, out->n_chosen, cap);
		out->chosen[out->n_chosen++] = (uint32_t)k;
	}
	return true;
}

/* "C bound B proved" or "C bound B gap G" */
static bool
read_cost(struct str rest, struct blp_result *out, struct err *e)
{
	struct str cost = str_cut(&rest, ' '), word = str_cut(&rest, ' '), bound = str_cut(&rest, ' ');

	out->proved = str_is(rest, "proved");
	return (str_is(word, "bound") && str_to_i64(cost, &out->cost) && str_to_i64(bound, &out->bound)) ||
	    err_set(e, ERR_FORMAT, "'cost C bound B proved' is wanted");
}

static bool
read_line(struct arena *a, struct str line, const struct blp *p, struct blp_result *out, struct err *e)
{
	struct str rest = line, word = str_cut(&rest, ' ');

	if (line.n == 0 || line.p[0] == '#' || str_is(word, "kernels"))
		return true;
	if (str_is(word, "plan"))
		return read_plan(a, rest, p, out, e);
	if (str_is(word, "cost"))
		return read_cost(rest, out, e);
	if (str_is(word, "duals") && str_is(str_cut(&rest, ' '), "prove"))
		return str_to_f64(rest, &out->pi) ||
		    err_set(e, ERR_FORMAT, "'%.*s' is no number", STR_ARG(rest));
	return err_set(e, ERR_FORMAT, "'%.*s' is none of kernels, plan, duals, cost", STR_ARG(word));
}

bool
choice_read(struct arena *a, struct str text, const struct blp *p, struct blp_result *out, struct err *e)
{
	*out = (struct blp_result){0};
	for (uint32_t n = 1; text.n; n++)
		if (!read_line(a, str_trim(str_cut(&text, '\n')), p, out, e))
			return err_in(e, "line %u", n);
	return out->n_chosen || err_set(e, ERR_FORMAT, "no line 'plan K...'");
}
