/* daemon/identify/beside.c: pairs of independent small candidates as one kernel, side by side.
 *
 * With several threads a small kernel splits badly and pays a barrier of its own; two of them in one kernel
 * share the threads out among them and pay one.  A pair is formed of
 *   - two candidates with one result around a *seed* each: a group with a linear primitive or reduction,
 * alone or with one or two groups of maps and layouts behind it; one candidate of a size, and equal sizes
 *     together, where both seeds have that size;
 *   - small ones: limits on the arithmetic and bytes of each;
 *   - independent ones: no path from one to the other over any producers, so that the union is convex
 *     whichever of them are chosen;
 *   - siblings: they read the same memory, one group reads results of both, both make outputs of the graph,
 *     or they are one computation at one depth (branches that repeat). */
#include "identify_int.h"

#include "../../kernels/cost/cost.h"

enum { FORMS = 3, MAX_SEEDS = 4096 };

struct seed {
	uint32_t group, depth;
	uint32_t form[FORMS]; /* the candidate of so many groups and one; NO_NODE: none */
	struct bitset after;  /* groups that are reached from the seed */
};
struct sides {
	const struct enumerator *f;
	const struct groups *u;
	const struct cand_set *cs; /* the cand_table's: it grows, and may move its candidates */
	uint32_t n_old;            /* candidates before there were pairs */
	uint32_t *seed_of;         /* per group: number of its seed, or NO_NODE */
	struct seed *seed;
	uint32_t n_seeds;
	uint32_t *depth; /* of each group: makers on the longest way to it */
	char *small;     /* of each spec: 0 not asked, 1 small, 2 not */
};

/* ---- seeds and what stands around them ---------------------------------------------------------- */
static void
find_depths(struct sides *s)
{
	const struct groups *u = s->u;

	for (uint32_t i = 0; i < u->n_groups; i++)
		for (uint32_t k = 0; k < u->groups[i].n_in; k++) {
			uint32_t t = u->groups[i].in[k].i;

			for (uint32_t m = u->maker_first[t]; m < u->maker_first[t + 1]; m++)
				s->depth[i] = MAX_OF(s->depth[i], s->depth[u->maker[m]] + 1);
		}
}

static bool
is_seed(const struct group *m)
{
	return !m->alone && m->n_anchors + m->n_reductions > 0;
}

static void
find_seeds(struct sides *s)
{
	for (uint32_t i = 0; i < s->u->n_groups; i++) {
		s->seed_of[i] = NO_NODE;
		if (!is_seed(&s->u->groups[i]) || s->n_seeds == MAX_SEEDS)
			continue;
		s->seed_of[i] = s->n_seeds;
		s->seed[s->n_seeds++] =
		    (struct seed){.group = i, .depth = s->depth[i], .form = {NO_NODE, NO_NODE, NO_NODE}};
	}
}

static bool
is_small(struct sides *s, uint32_t spec)
{
	struct cost_parts p;

	if (!s->small[spec]) {
		(void)cost_bound_ns(&s->cs->specs[spec], &hw_fastest, &p);
		s->small[spec] =
		    p.flops <= (double)s->f->lim->beside_flops && p.bytes <= (double)s->f->lim->beside_bytes
		    ? 1
		    : 2;
	}
	return s->small[spec] == 1;
}

/* Are the candidate's groups whole, and one of them a seed? */
static bool
groups_around(const struct sides *s, const struct cand *c, uint32_t *seed, uint32_t *n_groups)
{
	*seed = NO_NODE;
	*n_groups = 0;
	BITSET_EACH(i, &c->members)
	{
		uint32_t group = s->u->group_of[i];

		if (group == NO_NODE)
			continue;
		const struct group *m = &s->u->groups[group];

		for (uint32_t k = 0; k < m->n_nodes; k++)
			if (!bit_get(&c->members, m->nodes[k]))
				return false;
		if (m->nodes[0] != i) /* counted by its first node */
			continue;
		++*n_groups;
		if (is_seed(m) && *seed != NO_NODE)
			return false;
		if (is_seed(m))
			*seed = group;
	}
	return *seed != NO_NODE;
}

/* Does every group of the candidate but the seed come behind it? */
static bool
stand_behind(const struct sides *s, const struct cand *c, const struct seed *d)
{
	BITSET_EACH(i, &c->members)
	{
		uint32_t group = s->u->group_of[i];

		if (group != NO_NODE && group != d->group && !bit_get(&d->after, group))
			return false;
	}
	return true;
}

static void
find_reached(struct sides *s, struct seed *d)
{
	const struct groups *u = s->u;

	d->after = bitset_make(s->f->tmp, u->n_groups);
	for (uint32_t i = d->group; i < u->n_groups; i++) {
		const struct group *m = &u->groups[i];

		if (i != d->group && !bit_get(&d->after, i))
			continue;
		for (uint32_t k = 0; k < m->n_out; k++) {
			uint32_t t = m->out[k].i;

			for (uint32_t r = u->reader_first[t]; r < u->reader_first[t + 1]; r++)
				bit_set(&d->after, u->reader[r]);
		}
	}
}

static void
find_forms(struct sides *s)
{
	for (uint32_t i = 0; i < s->n_seeds; i++)
		find_reached(s, &s->seed[i]);
	for (uint32_t i = 0; i < s->n_old; i++) {
		const struct cand *c = &s->cs->cands[i];
		uint32_t seed, n;

		if (c->n_out != 1 || !groups_around(s, c, &seed, &n) || n > FORMS ||
		    s->seed_of[seed] == NO_NODE)
			continue;
		struct seed *d = &s->seed[s->seed_of[seed]];

		if (d->form[n - 1] == NO_NODE && stand_behind(s, c, d) && is_small(s, c->spec))
			d->form[n - 1] = i;
	}
}

/* ---- who may stand beside whom --------------------------------------------------------------------- */
static bool
reads_same(const struct cand *x, const struct cand *y)
{
	for (uint32_t i = 0; i < x->n_in; i++)
		for (uint32_t k = 0; k < y->n_in; k++)
			if (x->in[i].i == y->in[k].i)
				return true;
	return false;
}

static bool
is_read_with(const struct groups *u, uint32_t x, uint32_t y)
{
	if (u->is_output[x] && u->is_output[y])
		return true;
	for (uint32_t i = u->reader_first[x]; i < u->reader_first[x + 1]; i++)
		for (uint32_t k = u->reader_first[y]; k < u->reader_first[y + 1]; k++)
			if (u->reader[i] == u->reader[k])
				return true;
	return false;
}

static bool
are_siblings(const struct sides *s, const struct seed *a, const struct seed *b, const struct cand *x,
    const struct cand *y)
{
	return reads_same(x, y) || is_read_with(s->u, x->out[0].i, y->out[0].i) ||
	    (x->spec == y->spec && a->depth == b->depth);
}

/* All other groups of a candidate come behind its seed.  So a way from x to y leads from x's seed to a group
 * of y, and a group of both is behind both seeds. */
static bool
reaches(const struct sides *s, const struct seed *from, const struct cand *y)
{
	BITSET_EACH(i, &y->members)
	if (s->u->group_of[i] != NO_NODE && bit_get(&from->after, s->u->group_of[i]))
		return true;
	return false;
}

/* Two forms of the same tensor are never in one plan. */
static bool
make_the_same(const struct sides *s, const struct cand *x, const struct cand *y)
{
	BITSET_EACH(i, &x->members)
	for (uint32_t k = 0; k < s->u->g->nodes[i].n_out; k++) {
		uint32_t t = s->u->g->nodes[i].out[k].i;

		for (uint32_t m = s->u->ix.maker_first[t]; m < s->u->ix.maker_first[t + 1]; m++)
			if (s->u->ix.maker[m] != i && bit_get(&y->members, s->u->ix.maker[m]))
				return true;
	}
	return false;
}

static bool
may_pair(const struct sides *s, const struct seed *a, const struct seed *b, uint32_t size)
{
	if (a->form[size] == NO_NODE || b->form[size] == NO_NODE)
		return false;
	const struct cand *x = &s->cs->cands[a->form[size]], *y = &s->cs->cands[b->form[size]];

	return are_siblings(s, a, b, x, y) && !reaches(s, a, y) && !reaches(s, b, x) &&
	    !make_the_same(s, x, y);
}

/* ---- pairs --------------------------------------------------------------------------------------------- */
static enum collected
add_pair(const struct sides *s, const struct cand *x, const struct cand *y)
{
	uint32_t most = bitset_count(&x->members) + bitset_count(&y->members), n = 0;
	uint32_t *nodes = NEW_ARRAY(s->f->tmp, uint32_t, most);
	tensor_id exports[] = {x->out[0], y->out[0]};
	struct bitset both = bitset_make(s->f->tmp, s->u->g->n_nodes);

	bitset_copy(&both, &x->members);
	bitset_or(&both, &y->members);
	BITSET_EACH(i, &both)
	if (s->u->group_of[i] != NO_NODE)
		nodes[n++] = i;
	return cand_table_add(s->f->c, nodes, n, exports, COUNT_OF(exports), false);
}

/* Larger forms first: where there is one, it is more often what a plan takes. */
static void
add_pairs(const struct sides *s, struct beside_counts *n)
{
	for (uint32_t size = FORMS; size-- > 0;)
		for (uint32_t i = 0; i < s->n_seeds; i++)
			for (uint32_t k = i + 1; k < s->n_seeds; k++) {
				if (!may_pair(s, &s->seed[i], &s->seed[k], size))
					continue;
				if (n->n_made == s->f->lim->max_beside) {
					n->n_dropped++;
					continue;
				}
				n->n_made += add_pair(s, &s->cs->cands[s->seed[i].form[size]],
						 &s->cs->cands[s->seed[k].form[size]]) == COLLECT_NEW;
			}
}

struct beside_counts
beside_add(const struct enumerator *f, const struct groups *u, const struct cand_set *cs)
{
	struct sides s = {.f = f, .u = u, .cs = cs, .n_old = cs->n_cands};
	struct beside_counts n = {0};

	if (!f->lim->max_beside || f->lim->max_out < 2)
		return n;
	s.seed_of = NEW_ARRAY(f->tmp, uint32_t, u->n_groups + 1);
	s.seed = NEW_ARRAY(f->tmp, struct seed, MIN_OF(u->n_groups, (uint32_t)MAX_SEEDS) + 1);
	s.depth = NEW_ARRAY(f->tmp, uint32_t, u->n_groups + 1);
	s.small = NEW_ARRAY(f->tmp, char, cs->n_specs + 1);
	find_depths(&s);
	find_seeds(&s);
	find_forms(&s);
	add_pairs(&s, &n);
	return n;
}
