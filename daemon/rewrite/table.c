/* daemon/rewrite/table.c: rule.def as data, its patterns read. */
#include "rewrite_int.h"

/* Guards are expressions of the table; m is the match. */
#define RULE(NAME, KIND, TEXT)
#define PATTERN(NAME, KIND, TEXT, TREES, GUARD)                                                              \
	static bool guard_##NAME(struct match *m)                                                            \
	{                                                                                                    \
		(void)m;                                                                                     \
		return GUARD;                                                                                \
	}
#include "rule.def"
#undef RULE

#define ROW(NAME, KIND, TEXT) .name = #NAME, .text = TEXT, .kind = NUM_##KIND
static const struct rule table[] = {
#define RULE(NAME, KIND, TEXT) {ROW(NAME, KIND, TEXT), .apply = rule_##NAME},
#define GAIN(NAME, KIND, TEXT) {ROW(NAME, KIND, TEXT), .apply = rule_##NAME, .is_gain = true},
#define ALT(NAME, KIND, TEXT) {ROW(NAME, KIND, TEXT), .offer = alt_##NAME, .is_gain = true},
#define PATTERN(NAME, KIND, TEXT, TREES, GUARD)                                                              \
	{ROW(NAME, KIND, TEXT), .pattern = TREES, .guard = guard_##NAME},
#define GAIN_PATTERN(NAME, KIND, TEXT, TREES, GUARD)                                                         \
	{ROW(NAME, KIND, TEXT), .pattern = TREES, .guard = guard_##NAME, .is_gain = true},
#include "rule.def"
#undef RULE
};
_Static_assert(COUNT_OF(table) <= COUNT_OF(((struct rewrite_stats *)0)->n_applied), "room for every rule");

uint32_t
rewrite_n_rules(void)
{
	return COUNT_OF(table);
}

const char *
rewrite_rule_name(uint32_t i)
{
	return table[i].name;
}

const char *
rewrite_rule_text(uint32_t i)
{
	return table[i].text;
}

void
rewrite_print_stats(struct strbuf *sb, const struct rewrite_stats *s)
{
	for (uint32_t i = 0; i < rewrite_n_rules(); i++)
		if (s->n_applied[i])
			sb_addf(sb, "# %s %u\n", rewrite_rule_name(i), s->n_applied[i]);
}

bool
rules_read(struct arena *a, struct rw *r, struct err *e)
{
	const struct rule only = {.name = "given", .pattern = r->o->pattern};
	uint32_t n = only.pattern ? 1 : rewrite_n_rules();
	struct rule *rules = arena_dup(a, only.pattern ? &only : table, n * sizeof(only));

	for (struct rule *k = rules; k < rules + n; k++) {
		if (!k->pattern)
			k->roots = (struct prims){{UINT64_MAX, UINT64_MAX}};
		else if (!pattern_read(a, k->pattern, &k->first, e))
			return err_in(e, "rule %s", k->name);
		for (const struct pattern *p = k->first; p; p = p->next) {
			k->roots.w[0] |= p->term->prims.w[0];
			k->roots.w[1] |= p->term->prims.w[1];
		}
	}
	r->rules = rules;
	r->n_rules = n;
	return true;
}
