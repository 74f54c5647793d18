/* daemon/identify/why.c: why no candidate holds some primitives together.
 *
 * The smallest convex set with them is what every larger one contains, and the limits on groups, anchors
 * and reductions only get tighter as sets grow: what refuses it refuses all of them.  Operands, results
 * and the rules of kernels/schedule may let a larger set pass; the caller has looked through the candidates
 * for one. */
#include "identify_int.h"

struct identify_asker {
	struct arena *a;
	const struct identify_limits *lim;
	enum identify_mode mode;
	uint32_t n_dropped;
	struct groups groups;
	struct enum_order *order;
	struct enumerator enumerator;
	struct cand_set found; /* nobody reads it */
};

struct identify_asker *
identify_asker_new(struct arena *a, struct arena *found, const struct graph *g, enum identify_mode mode,
    const struct identify_limits *lim, uint32_t n_dropped)
{
	struct identify_asker *q = NEW(a, struct identify_asker);

	*q = (struct identify_asker){.a = a, .lim = lim, .mode = mode, .n_dropped = n_dropped};
	fusion_groups_make(a, g, mode == IDENTIFY_FULL ? MERGE_ALL : MERGE_NONE, &q->groups);
	q->order = enum_order_make(a, &q->groups);
	q->enumerator = (struct enumerator){.tmp = a, .g = g, .lim = lim};
	q->enumerator.c = cand_table_new(found, a, &q->groups, lim, &q->found);
	return q;
}

static struct group_set
groups_of(struct identify_asker *q, const struct bitset *nodes)
{
	struct group_set set = {.groups = NEW_ARRAY(q->a, uint32_t, q->groups.n_groups + 1)};
	struct bitset in = bitset_make(q->a, q->groups.n_groups + 1);

	BITSET_EACH(i, nodes)
	if (q->groups.group_of[i] != NO_NODE)
		bit_set(&in, q->groups.group_of[i]);
	BITSET_EACH(u, &in)
	set.groups[set.n++] = u;
	return set;
}

static bool
make_the_same(const struct group *x, const struct group *y)
{
	for (uint32_t i = 0; i < x->n_out; i++)
		for (uint32_t k = 0; k < y->n_out; k++)
			if (x->out[i].i == y->out[k].i)
				return true;
	return false;
}

static bool
reads_from(const struct group *reader, const struct group *maker)
{
	for (uint32_t i = 0; i < reader->n_in; i++)
		for (uint32_t k = 0; k < maker->n_out; k++)
			if (reader->in[i].i == maker->out[k].i)
				return true;
	return false;
}

/* Candidates are connected sets. */
static bool
is_connected(struct identify_asker *q, const struct group_set *set)
{
	bool *is_reached = NEW_ARRAY(q->a, bool, set->n);
	uint32_t n = 1;

	is_reached[0] = true;
	for (bool moved = true; moved;) {
		moved = false;
		for (uint32_t i = 0; i < set->n; i++)
			for (uint32_t k = 0; k < set->n && !is_reached[i]; k++) {
				const struct group *x = &q->groups.groups[set->groups[i]],
						   *y = &q->groups.groups[set->groups[k]];

				if (!is_reached[k] || (!reads_from(x, y) && !reads_from(y, x)))
					continue;
				is_reached[i] = moved = true;
				n++;
			}
	}
	return n == set->n;
}

/* Limits that hold for every larger set too; NULL: none. */
static const char *
limit_of(struct identify_asker *q, const struct group_set *set, uint32_t n_asked)
{
	const struct group *groups = q->groups.groups;
	uint32_t n_anchors = 0, n_reductions = 0;
	const char *between = set->n > n_asked
	    ? arena_printf(q->a, " (with the %u groups that lie between them)", set->n - n_asked)
	    : "";

	for (uint32_t i = 0; i < set->n; i++) {
		const struct group *m = &groups[set->groups[i]];

		n_anchors += m->n_anchors;
		n_reductions += m->n_reductions;
		if (m->alone && set->n > 1)
			return arena_printf(q->a, "%s: %s runs alone%s",
			    q->groups.is_cut[m->nodes[0]] ? "step" : "opaque",
			    prim_info[q->groups.g->nodes[m->nodes[0]].prim].name, between);
		for (uint32_t k = 0; k < i; k++)
			if (make_the_same(m, &groups[set->groups[k]]))
				return "forms: they belong to two forms of the same tensor";
	}
	if (n_reductions > q->lim->max_reductions)
		return arena_printf(
		    q->a, "reductions: %u, %u are allowed%s", n_reductions, q->lim->max_reductions, between);
	if (set->n > q->lim->max_nodes)
		return arena_printf(
		    q->a, "size: %u groups, %u are allowed%s", set->n, q->lim->max_nodes, between);
	if (n_anchors > q->lim->max_anchors + 1)
		return arena_printf(q->a, "anchors: %u, %u are allowed, 2 for pairs%s", n_anchors,
		    q->lim->max_anchors, between);
	return NULL;
}

static uint32_t
count_anchors(const struct identify_asker *q, const struct group_set *set)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n; i++)
		n += q->groups.groups[set->groups[i]].n_anchors;
	return n;
}

/* What writing the set down as a candidate says. */
static const char *
refusal_of(struct identify_asker *q, const struct group_set *set)
{
	uint32_t n_results;
	enum collected got = identify_add_set(&q->enumerator, &q->groups, set, &n_results);
	const char *refusal = cand_table_refusal(q->enumerator.c);

	if (got > COLLECT_KNOWN && n_results > q->lim->max_out)
		return arena_printf(
		    q->a, "results: %u are needed outside, %u are allowed", n_results, q->lim->max_out);
	if (got > COLLECT_KNOWN)
		return refusal ? refusal : "results: none is needed outside";
	if (q->mode != IDENTIFY_FULL)
		return q->mode == IDENTIFY_NONE ? "baseline: --fusion none makes each primitive a kernel"
						: "baseline: --fusion operator keeps operators apart";
	if (count_anchors(q, set) > q->lim->max_anchors)
		return "anchors: 2, and no row of pair.def fits: too little lies between them, or too many "
		       "such pairs were tried";
	if (q->n_dropped)
		return "dropped: too many sets lie there, larger ones were left out (max_candidates)";
	return "";
}

struct str
identify_why(struct identify_asker *q, const struct bitset *nodes)
{
	struct group_set asked = groups_of(q, nodes), set;
	const char *why;

	if (!asked.n)
		return STR("");
	if (!enum_hull(q->a, q->order, &asked, &set))
		return STR("block: they lie too far apart in a large model");
	if (!is_connected(q, &set))
		return STR("apart: in the plan's form of the model neither reads what the other makes");
	why = limit_of(q, &set, asked.n);
	return str_of(why ? why : refusal_of(q, &set));
}
