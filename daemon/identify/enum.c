/* daemon/identify/enum.c: connected convex sets of groups, each once.
 *
 * Group u *must* come before v when every way to make what v reads uses u.  Without alternatives
 * that is reachability; with them it is what is left of it when producers may be chosen.  "Must"
 * is transitive, so the convex hull of a set S is S and what lies after one of its members and
 * before another.
 *
 * For each group v as the lowest member: take a neighbour w of the set, close the set, and
 * enumerate all sets with it; then forbid w and go on.  A hull that meets a forbidden group has
 * no valid superset in this branch.  So every set is met once, and no table of sets is needed.
 * The limits on groups, anchors and reductions only get tighter as sets grow, and prune.
 *
 * Groups are taken in blocks that follow each other topologically.  A path between two groups of a
 * block stays in it, so order and hulls are the same as in the whole graph; only sets across two
 * blocks are missed.  That bounds memory, which goes with the square of a block. */
#include "identify_int.h"

#include <string.h>

enum { BLOCK = 4096 };

struct grower {
	const struct groups *u;
	uint32_t base, n_groups; /* the block; groups are numbered from its first on */
	const struct identify_limits *lim;
	const uint32_t *cluster;
	struct arena *a;
	uint32_t words;
	uint64_t *before, *after, *near; /* per group: rows of bits */
	uint64_t *stack;                 /* scratch rows, by depth */
	uint32_t lowest, max_groups, quota;
	struct enum_result *out;
	uint32_t n_found; /* with this lowest group */
	bool over;
};

static uint64_t *
row(uint64_t *rows, const struct grower *w, uint32_t i)
{
	return rows + (size_t)i * w->words;
}

static uint32_t
next_bit(const uint64_t *a, uint32_t words, uint32_t from)
{
	for (uint32_t i = from >> 6; i < words; i++) {
		uint64_t w = a[i];
		if (i == from >> 6)
			w &= ~(uint64_t)0 << (from & 63);
		if (w)
			return (i << 6) + (uint32_t)__builtin_ctzll(w);
	}
	return words << 6;
}

#define EACH_BIT(i, a, words)                                                                                \
	for (uint32_t i = next_bit((a), (words), 0); i < (words) << 6; i = next_bit((a), (words), i + 1))

static void
put(uint64_t *a, uint32_t i)
{
	a[i >> 6] |= (uint64_t)1 << (i & 63);
}

static bool
get(const uint64_t *a, uint32_t i)
{
	return a[i >> 6] >> (i & 63) & 1;
}

/* ---- the precedence ------------------------------------------------------------------------- */
static bool
in_block(const struct grower *w, uint32_t group)
{
	return group >= w->base && group - w->base < w->n_groups;
}

static const struct group *
group_at(const struct grower *w, uint32_t i)
{
	return &w->u->groups[w->base + i];
}

/* Groups of the block that every way to make t uses: the meet over its makers. */
static void
precedence_of(const struct grower *w, uint32_t t, uint64_t *out)
{
	const struct groups *u = w->u;
	uint32_t first = u->maker_first[t], last = u->maker_first[t + 1];
	bool outside = first == last;

	for (uint32_t m = first; m < last; m++)
		outside |= !in_block(w, u->maker[m]);
	for (uint32_t i = 0; i < w->words; i++)
		out[i] = outside ? 0 : ~(uint64_t)0;
	for (uint32_t m = first; m < last && !outside; m++) {
		uint32_t maker = u->maker[m] - w->base;
		for (uint32_t i = 0; i < w->words; i++) {
			uint64_t own = row(w->before, w, maker)[i];
			if (i == maker >> 6)
				own |= (uint64_t)1 << (maker & 63);
			out[i] &= own;
		}
	}
}

static void
make_order(struct grower *w)
{
	const struct groups *u = w->u;
	uint64_t *via = NEW_ARRAY(w->a, uint64_t, w->words);

	for (uint32_t v = 0; v < w->n_groups; v++) {
		const struct group *m = group_at(w, v);
		for (uint32_t k = 0; k < m->n_in; k++) {
			precedence_of(w, m->in[k].i, via);
			for (uint32_t i = 0; i < w->words; i++)
				row(w->before, w, v)[i] |= via[i];
			for (uint32_t p = u->maker_first[m->in[k].i]; p < u->maker_first[m->in[k].i + 1];
			     p++) {
				if (!in_block(w, u->maker[p]))
					continue;
				put(row(w->near, w, v), u->maker[p] - w->base);
				put(row(w->near, w, u->maker[p] - w->base), v);
			}
		}
		EACH_BIT(b, row(w->before, w, v), w->words)
		put(row(w->after, w, b), v);
	}
}

/* ---- growing ---------------------------------------------------------------------------------- */
struct tally {
	uint32_t groups, anchors, reductions;
};

static bool
tally_add(const struct grower *w, struct tally *t, uint32_t group)
{
	const struct group *m = group_at(w, group);

	t->groups++;
	t->anchors += m->n_anchors;
	t->reductions += m->n_reductions;
	return !m->alone && t->groups <= w->max_groups && t->anchors <= w->lim->max_anchors &&
	    t->reductions <= w->lim->max_reductions &&
	    (!w->cluster || w->cluster[w->base + group] == w->cluster[w->base + w->lowest]);
}

/* One producer a tensor: no two members make the same. */
static bool
one_maker(const struct grower *w, const uint64_t *set, uint32_t group)
{
	const struct groups *u = w->u;
	const struct group *m = group_at(w, group);

	for (uint32_t k = 0; k < m->n_out; k++)
		for (uint32_t i = u->maker_first[m->out[k].i]; i < u->maker_first[m->out[k].i + 1]; i++) {
			uint32_t other = u->maker[i] - w->base;
			if (in_block(w, u->maker[i]) && other != group && get(set, other))
				return false;
		}
	return true;
}

/* set + group, closed; before and after grown with it.  False where a limit is passed or the hull
 * meets what is forbidden. */
static bool
extend(const struct grower *w, uint64_t *set, uint64_t *before, uint64_t *after, const uint64_t *forbidden,
    struct tally *t, uint32_t group)
{
	bool ok = tally_add(w, t, group) && one_maker(w, set, group);

	put(set, group);
	for (uint32_t i = 0; i < w->words; i++) {
		before[i] |= row(w->before, w, group)[i];
		after[i] |= row(w->after, w, group)[i];
	}
	for (uint32_t i = 0; i < w->words && ok; i++) {
		uint64_t hull = before[i] & after[i] & ~set[i];
		if (hull & forbidden[i])
			return false;
		for (; hull && ok; hull &= hull - 1) {
			uint32_t h = (i << 6) + (uint32_t)__builtin_ctzll(hull);
			ok = tally_add(w, t, h) && one_maker(w, set, h);
			put(set, h);
		}
	}
	return ok;
}

static void
keep(struct grower *w, const uint64_t *set)
{
	struct enum_result *r = w->out;

	if (++w->n_found > w->quota) {
		w->over = true;
		return;
	}
	GROW(w->a, r->sets, r->n_sets, r->cap_sets);
	struct group_set *s = &r->sets[r->n_sets++];
	*s = (struct group_set){0};
	EACH_BIT(i, set, w->words)
	s->n++;
	s->groups = NEW_ARRAY(w->a, uint32_t, s->n);
	s->n = 0;
	EACH_BIT(i, set, w->words)
	s->groups[s->n++] = w->base + i;
}

/* Rows of scratch a level: set, before, after, forbidden, neighbours. */
static void
grow(struct grower *w, const uint64_t *state, struct tally tally, uint32_t depth)
{
	uint32_t n = w->words;
	const uint64_t *set = state, *before = state + n, *after = state + 2 * n;
	uint64_t *next = w->stack + (size_t)depth * 5 * n;
	uint64_t *forbidden = next + 3 * n, *near = next + 4 * n;

	keep(w, set);
	memcpy(forbidden, state + 3 * n, n * sizeof(*forbidden));
	memset(near, 0, n * sizeof(*near));
	EACH_BIT(i, set, n)
	for (uint32_t k = 0; k < n; k++)
		near[k] |= row(w->near, w, i)[k];
	for (uint32_t k = 0; k < n; k++)
		near[k] &= ~(set[k] | forbidden[k]);
	for (uint32_t v = next_bit(near, n, 0); v < n << 6 && !w->over; v = next_bit(near, n, v + 1)) {
		struct tally t = tally;
		if (get(forbidden, v))
			continue;
		memcpy(next, set, n * sizeof(*next));
		memcpy(next + n, before, n * sizeof(*next));
		memcpy(next + 2 * n, after, n * sizeof(*next));
		if (extend(w, next, next + n, next + 2 * n, forbidden, &t, v))
			grow(w, next, t, depth + 1);
		put(forbidden, v);
	}
}

/* All sets with this lowest group; over the quota: again with smaller sets. */
static void
grow_from(struct grower *w, uint32_t v)
{
	uint32_t n = w->words, kept = w->out->n_sets;
	uint64_t *state = w->stack; /* depth 0 */

	w->lowest = v;
	for (w->max_groups = w->lim->max_nodes; w->max_groups >= 1; w->max_groups--) {
		struct tally t = {0};
		memset(state, 0, 5 * n * sizeof(*state));
		for (uint32_t i = 0; i < v; i++)
			put(state + 3 * n, i);
		w->n_found = 0;
		w->over = false;
		w->out->n_sets = kept;
		bool single = group_at(w, v)->alone;
		if (single || extend(w, state, state + n, state + 2 * n, state + 3 * n, &t, v)) {
			if (single) {
				put(state, v);
				keep(w, state);
			} else {
				grow(w, state, t, 1);
			}
		}
		if (!w->over)
			return;
		w->out->n_dropped += w->n_found;
	}
}

static void
open_block(struct grower *w, const struct identify_limits *lim)
{
	w->words = (w->n_groups + 63) / 64;
	size_t rows = ck_mul((size_t)w->n_groups + 1, w->words);
	w->before = NEW_ARRAY(w->a, uint64_t, rows);
	w->after = NEW_ARRAY(w->a, uint64_t, rows);
	w->near = NEW_ARRAY(w->a, uint64_t, rows);
	w->stack = NEW_ARRAY(w->a, uint64_t, ck_mul((size_t)lim->max_nodes + 3, 5 * (size_t)w->words));
	make_order(w);
}

static void
enum_block(struct grower *w, const struct identify_limits *lim)
{
	open_block(w, lim);
	for (uint32_t v = 0; v < w->n_groups; v++)
		if (!w->cluster || w->cluster[w->base + v] != NO_NODE)
			grow_from(w, v);
}

void
enum_sets(struct arena *a, const struct groups *u, const struct identify_limits *lim, const uint32_t *cluster,
    struct enum_result *out)
{
	struct grower w = {.u = u, .lim = lim, .cluster = cluster, .a = a, .out = out};

	*out = (struct enum_result){0};
	/* A region that is dense locally may take four times its even share. */
	w.quota = MAX_OF(64u, 4 * (lim->max_candidates / MAX_OF(u->n_groups, 1u)));
	for (w.base = 0; w.base < u->n_groups; w.base += BLOCK) {
		w.n_groups = MIN_OF((uint32_t)BLOCK, u->n_groups - w.base);
		enum_block(&w, lim);
	}
}

/* ---- hulls ------------------------------------------------------------------------------------ */
struct enum_order {
	struct grower *blocks;
	uint32_t n_blocks;
};

struct enum_order *
enum_order_make(struct arena *a, const struct groups *u)
{
	struct enum_order *o = NEW(a, struct enum_order);

	o->n_blocks = (u->n_groups + BLOCK - 1) / BLOCK;
	o->blocks = NEW_ARRAY(a, struct grower, o->n_blocks);
	for (uint32_t b = 0; b < o->n_blocks; b++) {
		struct grower *w = &o->blocks[b];

		*w = (struct grower){.u = u, .lim = &identify_limits_default, .a = a, .base = b * BLOCK};
		w->n_groups = MIN_OF((uint32_t)BLOCK, u->n_groups - w->base);
		open_block(w, w->lim);
	}
	return o;
}

/* "Must" is transitive: what lies between two members brings nothing new. */
bool
enum_hull(struct arena *a, const struct enum_order *o, const struct group_set *set, struct group_set *hull)
{
	struct grower *w = &o->blocks[set->groups[0] / BLOCK];
	uint64_t *in = NEW_ARRAY(a, uint64_t, w->words), *before = NEW_ARRAY(a, uint64_t, w->words),
		 *after = NEW_ARRAY(a, uint64_t, w->words);

	for (uint32_t i = 0; i < set->n; i++) {
		if (!in_block(w, set->groups[i]))
			return false;
		put(in, set->groups[i] - w->base);
		for (uint32_t k = 0; k < w->words; k++) {
			before[k] |= row(w->before, w, set->groups[i] - w->base)[k];
			after[k] |= row(w->after, w, set->groups[i] - w->base)[k];
		}
	}
	for (uint32_t k = 0; k < w->words; k++)
		in[k] |= before[k] & after[k];
	*hull = (struct group_set){.groups = NEW_ARRAY(a, uint32_t, w->n_groups)};
	EACH_BIT(i, in, w->words)
	hull->groups[hull->n++] = w->base + i;
	return true;
}

/* ---- pairs ------------------------------------------------------------------------------------ */
enum { PAIR_BEFORE = 1, PAIR_BEHIND = 3, PAIR_WAY = 12, PAIR_ELEMENTS = 65536 };
/* What an anchor is, and what stands between two: more than one bit may hold. */
enum { IS_MATMUL = 1, IS_CONV = 2, IS_POINTWISE = 4 };
enum between { MAPS, WINDOWS, ROWS };
static const struct pair_row {
	int first;
	enum between between;
	int second;
} pair_rows[] = {
#define PAIR(FIRST, BETWEEN, SECOND) {FIRST, BETWEEN, SECOND},
#include "pair.def"
#undef PAIR
};

static const struct node *
anchor_of(const struct grower *w, uint32_t group)
{
	const struct group *m = group_at(w, group);

	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (node_is_anchor(w->u->g, &w->u->g->nodes[m->nodes[i]]))
			return &w->u->g->nodes[m->nodes[i]];
	return NULL;
}

static int
kind_of(const struct grower *w, const struct node *n)
{
	if (n->prim == PRIM_matmul)
		return IS_MATMUL;
	if (n->prim != PRIM_conv)
		return 0;
	const struct shape *k = &graph_tensor(w->u->g, n->in[1])->shape;

	for (int d = 0; d + 2 < k->rank; d++)
		if (k->dim[d] != 1)
			return IS_CONV;
	return IS_CONV | IS_POINTWISE;
}

/* The most that the set has beside its anchors: a reduction of whole rows; a window, which takes few of
 * what the first anchor makes at a time; or maps. */
static enum between
most_between(const struct grower *w, const uint64_t *set)
{
	enum between most = MAPS;

	EACH_BIT(v, set, w->words)
	{
		const struct group *m = group_at(w, v);

		for (uint32_t i = 0; i < m->n_nodes; i++) {
			const struct node *n = &w->u->g->nodes[m->nodes[i]];
			enum prim_class class = prim_info[n->prim].class;
			bool window = prim_info[n->prim].shape == SHAPE_WINDOW || n->prim == PRIM_conv;

			if (class == CLASS_REDUCE || (class == CLASS_LINEAR && !node_is_anchor(w->u->g, n)))
				most = MAX_OF(most, window ? WINDOWS : ROWS);
		}
	}
	return most;
}

/* Does a row of the table allow these two with that between them? */
static bool
in_table(const struct grower *w, uint32_t first, uint32_t second, enum between has)
{
	int a = kind_of(w, anchor_of(w, first)), b = kind_of(w, anchor_of(w, second));

	for (size_t i = 0; i < COUNT_OF(pair_rows); i++)
		if (pair_rows[i].first & a && pair_rows[i].second & b && pair_rows[i].between >= has)
			return true;
	return false;
}

/* What the first hands on is worth keeping near. */
static bool
is_large(const struct grower *w, uint32_t group)
{
	return shape_count(&graph_tensor(w->u->g, anchor_of(w, group)->out[0])->shape) >= PAIR_ELEMENTS;
}

struct pair_set {
	uint64_t *set, *before, *after; /* three rows, one after the other */
	struct tally tally;
};

static bool
pair_extend(const struct grower *w, struct pair_set *p, uint32_t group)
{
	static const uint64_t none[BLOCK / 64];
	struct tally t = p->tally;
	uint64_t *next = w->stack;

	memcpy(next, p->set, 3 * w->words * sizeof(*next));
	if (!extend(w, next, next + w->words, next + 2 * w->words, none, &t, group))
		return false;
	memcpy(p->set, next, 3 * w->words * sizeof(*next));
	p->tally = t;
	return true;
}

/* A neighbour of the set that comes before `of` or behind it, without an anchor. */
static bool
pair_grow(const struct grower *w, struct pair_set *p, uint32_t of, bool behind)
{
	EACH_BIT(i, p->set, w->words)
	EACH_BIT(v, row(w->near, w, i), w->words)
	{
		if (get(p->set, v) || group_at(w, v)->n_anchors ||
		    !get(row(behind ? w->after : w->before, w, of), v))
			continue;
		if (pair_extend(w, p, v))
			return true;
	}
	return false;
}

static void
keep_pair(struct grower *w, uint32_t first, uint32_t second)
{
	struct pair_set p = {.set = NEW_ARRAY(w->a, uint64_t, 3 * (size_t)w->words)}, q;
	uint64_t *copy = NEW_ARRAY(w->a, uint64_t, 3 * (size_t)w->words);

	p.before = p.set + w->words;
	p.after = p.before + w->words;
	if (!pair_extend(w, &p, first) || !pair_extend(w, &p, second) || p.tally.anchors != 2 ||
	    !in_table(w, first, second, most_between(w, p.set)))
		return;
	for (int i = 0; i <= PAIR_BEFORE; i++) {
		keep(w, p.set);
		q = p;
		q.set = copy;
		memcpy(copy, p.set, 3 * w->words * sizeof(*copy));
		for (int k = 0; k < PAIR_BEHIND && pair_grow(w, &q, second, true); k++)
			keep(w, q.set);
		if (!pair_grow(w, &p, first, false))
			return;
	}
}

/* Anchors that lead to `second` over groups without one, nearest first. */
static void
pairs_of(struct grower *w, uint32_t second)
{
	uint32_t way[PAIR_WAY] = {second}, n = 1;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < group_at(w, way[i])->n_in; k++) {
			uint32_t t = group_at(w, way[i])->in[k].i;
			for (uint32_t m = w->u->maker_first[t]; m < w->u->maker_first[t + 1]; m++) {
				uint32_t v = w->u->maker[m] - w->base, j = 0;
				while (j < n && way[j] != v)
					j++;
				if (!in_block(w, w->u->maker[m]) || j < n)
					continue;
				if (group_at(w, v)->n_anchors == 1 && is_large(w, v))
					keep_pair(w, v, second);
				else if (group_at(w, v)->n_anchors == 0 && n < PAIR_WAY)
					way[n++] = v;
			}
		}
}

void
enum_pairs(
    struct arena *a, const struct groups *u, const struct identify_limits *lim, struct enum_result *out)
{
	struct identify_limits two = *lim;
	struct grower w = {
	    .u = u, .lim = &two, .a = a, .out = out, .quota = lim->max_pairs, .max_groups = lim->max_nodes};

	*out = (struct enum_result){0};
	two.max_anchors = 2;
	for (w.base = 0; w.base < u->n_groups && lim->max_pairs; w.base += BLOCK) {
		w.n_groups = MIN_OF((uint32_t)BLOCK, u->n_groups - w.base);
		open_block(&w, lim);
		for (uint32_t v = 0; v < w.n_groups; v++)
			if (group_at(&w, v)->n_anchors == 1)
				pairs_of(&w, v);
	}
	out->n_dropped = w.n_found > w.quota ? w.n_found - w.quota : 0;
}
