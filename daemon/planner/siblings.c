/* daemon/planner/siblings.c: see siblings.h. */
#include "siblings.h"

#include "../../kernels/base/heat.h"
#include "expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct seat { /* of a spec, by its structure */
	struct hash structure;
	uint32_t spec;
};

static int
by_structure(const void *x, const void *y)
{
	const struct seat *a = x, *b = y;
	int c = hash_cmp(&a->structure, &b->structure);

	return c ? c : (a->spec > b->spec) - (a->spec < b->spec);
}

static struct seat *
seats(const struct tune *t, struct arena *a, uint32_t *n)
{
	const struct cand_set *c = &t->front.cands;
	struct seat *p = NEW_ARRAY(a, struct seat, MAX_OF(c->n_specs, 1u));

	*n = c->n_specs - c->n_views;
	for (uint32_t i = 0; i < *n; i++)
		p[i] = (struct seat){c->specs[i].structure, i};
	qsort(p, *n, sizeof(p[0]), by_structure);
	return p;
}

void
siblings_ask(struct tune *t, struct m_cost_ask *ask)
{
	struct arena tmp = {0};
	uint32_t n;
	const struct seat *p = seats(t, &tmp, &n);
	struct m_digest *d = NEW_ARRAY(t->arena, struct m_digest, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || !hash_eq(&p[i].structure, &p[i - 1].structure))
			d[ask->n_structures++] = (struct m_digest){.hash = p[i].structure};
	ask->structures = d;
	arena_fini(&tmp);
}

/* The first place of that structure; n: there is none. */
static uint32_t
first_seat(const struct seat *p, uint32_t n, const struct hash *structure)
{
	uint32_t lo = 0, hi = n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (hash_cmp(&p[mid].structure, structure) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && hash_eq(&p[lo].structure, structure) ? lo : n;
}

/* Its best schedule is the one to try for the kernels it is nearest to, by what they cannot beat. */
static void
offer_schedule(struct tune *t, const struct seat *p, uint32_t n, const struct spec *s,
    const struct m_sibling *m, double *apart)
{
	double ns = (double)cost_work_ns(s, &t->hw, m->heat, NULL);

	for (uint32_t i = first_seat(p, n, &s->structure); i < n && hash_eq(&p[i].structure, &s->structure);
	     i++) {
		struct spec_cost *c = &t->cost[p[i].spec];
		double d = fabs(log(ns / (double)c->work_ns));

		if (c->sibling.p && d >= apart[p[i].spec])
			continue;
		c->sibling = (struct str){str_dup(t->arena, m->schedule), m->schedule.n};
		apart[p[i].spec] = d;
	}
}

static bool
is_of_this_job(const struct tune *t, const struct seat *p, uint32_t n, const struct spec *s)
{
	for (uint32_t i = first_seat(p, n, &s->structure); i < n && hash_eq(&p[i].structure, &s->structure);
	     i++)
		if (hash_eq(&t->front.cands.specs[p[i].spec].hash, &s->hash))
			return true;
	return false;
}

/* Is there a kernel whose time is not known? */
static bool
has_open(const struct tune *t)
{
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++)
		if (t->cost[i].state == LAZY_OPEN)
			return true;
	return false;
}

void
siblings_take(struct tune *t, const struct m_sibling *m, uint32_t n_siblings)
{
	struct arena tmp = {0};
	uint32_t n;
	const struct seat *p = seats(t, &tmp, &n);
	double *apart = NEW_ARRAY(&tmp, double, MAX_OF(t->front.cands.n_specs, 1u));
	bool is_open = has_open(t); /* else nobody asks what they say */

	expect_room(t, n_siblings);
	for (uint32_t i = 0; i < n_siblings && is_open; i++) {
		struct arena own = {0};
		struct spec s;
		struct err none = {0};

		if (m[i].median_ns > 0 && heat_is_word(m[i].heat) && spec_read(&own, m[i].spec, &s, &none) &&
		    first_seat(p, n, &s.structure) < n && !is_of_this_job(t, p, n, &s)) {
			expect_sibling(
			    t, &s, m[i].heat, m[i].median_ns, p[first_seat(p, n, &s.structure)].spec);
			offer_schedule(t, p, n, &s, &m[i], apart);
		}
		arena_fini(&own);
	}
	arena_fini(&tmp);
}
