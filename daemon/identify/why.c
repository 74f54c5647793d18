/* daemon/identify/why.c: why no candidate holds some primitives together.
 *
 * The smallest convex set with them is what every larger one contains, and the limits on units, anchors
 * and reductions only get tighter as sets grow: what refuses it refuses all of them.  Operands, results
 * and the fusion module may let a larger set pass; the caller has looked through the candidates for one. */
#include "identify_int.h"

struct identify_asker {
	struct arena *a;
	const struct identify_limits *lim;
	enum identify_mode mode;
	uint32_t n_dropped;
	struct units units;
	struct enum_order *order;
	struct finder finder;
	struct cand_set found; /* nobody reads it */
};

struct identify_asker *
identify_asker_new(struct arena *a, struct arena *found, const struct graph *g, enum identify_mode mode,
    const struct identify_limits *lim, uint32_t n_dropped)
{
	struct identify_asker *q = NEW(a, struct identify_asker);

	*q = (struct identify_asker){.a = a, .lim = lim, .mode = mode, .n_dropped = n_dropped};
	units_make(a, g, mode == IDENTIFY_FULL ? MERGE_ALL : MERGE_NONE, &q->units);
	q->order = enum_order_make(a, &q->units);
	q->finder = (struct finder){.tmp = a, .g = g, .lim = lim};
	q->finder.c = collector_new(found, a, &q->units, lim, &q->found);
	return q;
}

static struct unit_set
units_of(struct identify_asker *q, const struct bitset *nodes)
{
	struct unit_set set = {.units = NEW_ARRAY(q->a, uint32_t, q->units.n_units + 1)};
	struct bitset in = bitset_make(q->a, q->units.n_units + 1);

	BITSET_EACH(i, nodes)
	if (q->units.unit_of[i] != NO_NODE)
		bit_set(&in, q->units.unit_of[i]);
	BITSET_EACH(u, &in)
	set.units[set.n++] = u;
	return set;
}

static bool
make_the_same(const struct unit *x, const struct unit *y)
{
	for (uint32_t i = 0; i < x->n_out; i++)
		for (uint32_t k = 0; k < y->n_out; k++)
			if (x->out[i].i == y->out[k].i)
				return true;
	return false;
}

static bool
reads_from(const struct unit *reader, const struct unit *maker)
{
	for (uint32_t i = 0; i < reader->n_in; i++)
		for (uint32_t k = 0; k < maker->n_out; k++)
			if (reader->in[i].i == maker->out[k].i)
				return true;
	return false;
}

/* Candidates are connected sets. */
static bool
is_connected(struct identify_asker *q, const struct unit_set *set)
{
	bool *is_reached = NEW_ARRAY(q->a, bool, set->n);
	uint32_t n = 1;

	is_reached[0] = true;
	for (bool moved = true; moved;) {
		moved = false;
		for (uint32_t i = 0; i < set->n; i++)
			for (uint32_t k = 0; k < set->n && !is_reached[i]; k++) {
				const struct unit *x = &q->units.units[set->units[i]],
						  *y = &q->units.units[set->units[k]];

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
limit_of(struct identify_asker *q, const struct unit_set *set, uint32_t n_asked)
{
	const struct unit *units = q->units.units;
	uint32_t n_anchors = 0, n_reductions = 0;
	const char *between = set->n > n_asked
	    ? arena_printf(q->a, " (with the %u units that lie between them)", set->n - n_asked)
	    : "";

	for (uint32_t i = 0; i < set->n; i++) {
		const struct unit *m = &units[set->units[i]];

		n_anchors += m->n_anchors;
		n_reductions += m->n_reductions;
		if (m->alone && set->n > 1)
			return arena_printf(q->a, "opaque: %s runs alone%s",
			    prim_info[q->units.g->nodes[m->nodes[0]].prim].name, between);
		for (uint32_t k = 0; k < i; k++)
			if (make_the_same(m, &units[set->units[k]]))
				return "forms: they belong to two forms of the same tensor";
	}
	if (n_reductions > q->lim->max_reductions)
		return arena_printf(
		    q->a, "reductions: %u, %u are allowed%s", n_reductions, q->lim->max_reductions, between);
	if (set->n > q->lim->max_nodes)
		return arena_printf(
		    q->a, "size: %u units, %u are allowed%s", set->n, q->lim->max_nodes, between);
	if (n_anchors > q->lim->max_anchors + 1)
		return arena_printf(q->a, "anchors: %u, %u are allowed, 2 for pairs%s", n_anchors,
		    q->lim->max_anchors, between);
	return NULL;
}

static uint32_t
count_anchors(const struct identify_asker *q, const struct unit_set *set)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n; i++)
		n += q->units.units[set->units[i]].n_anchors;
	return n;
}

/* What writing the set down as a candidate says. */
static const char *
refusal_of(struct identify_asker *q, const struct unit_set *set)
{
	uint32_t n_results;
	enum collected got = identify_add_set(&q->finder, &q->units, set, &n_results);
	const char *refusal = collector_refusal(q->finder.c);

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
	struct unit_set asked = units_of(q, nodes), set;
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
