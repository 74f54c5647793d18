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

/* ---- how near two kernels are --------------------------------------------------------- */
/* Extents of weights tell what a layer is, those of the rest how much of it there is. */
static const double of_weights = 4, of_heat = 0.1;

static double
extents_apart(const struct shape *a, const struct shape *b)
{
	double sum = 0;

	for (int i = 0; i < a->rank && i < b->rank; i++)
		if (a->dim[i] != b->dim[i])
			sum += fabs(log((double)MAX_OF(a->dim[i], (int64_t)1)) -
			    log((double)MAX_OF(b->dim[i], (int64_t)1)));
	return sum;
}

static double
heats_apart(struct str a, struct str b, uint32_t n)
{
	uint32_t differ = 0;

	for (uint32_t i = 0; i < n; i++)
		differ += heat_at(a, i) != heat_at(b, i);
	return n ? of_heat * differ / n : 0;
}

/* Of two specs of one structure: 0 for equal ones, about 1.4 where height and width are twice the other's. */
static double
specs_apart(const struct spec *a, struct str a_heat, const struct spec *b, struct str b_heat)
{
	double weights = 0, others = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->g.n_tensors && i < b->g.n_tensors; i++) {
		const struct tensor *t = &a->g.tensors[i];
		double d = extents_apart(&t->shape, &b->g.tensors[i].shape);

		weights += t->role == ROLE_WEIGHT ? d : 0;
		others += t->role == ROLE_WEIGHT ? 0 : d;
		n += t->role != ROLE_WEIGHT;
	}
	return of_weights * weights + others / MAX_OF(n, 1u) +
	    heats_apart(a_heat, b_heat, a->g.n_inputs + a->g.n_outputs);
}

struct near { /* of a spec: what the store knows that is nearest to it */
	uint32_t row;
	double apart;
};
enum { NONE = UINT32_MAX };

static void
offer(const struct tune *t, const struct seat *p, uint32_t n, const struct spec *s, const struct m_sibling *m,
    uint32_t row, struct near *near)
{
	for (uint32_t i = first_seat(p, n, &s->structure); i < n && hash_eq(&p[i].structure, &s->structure);
	     i++) {
		struct near *x = &near[p[i].spec];
		double apart =
		    specs_apart(&t->front.cands.specs[p[i].spec], t->cost[p[i].spec].heat, s, m->heat);

		if (x->row == NONE || apart < x->apart)
			*x = (struct near){row, apart};
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

struct source { /* what is read of a row */
	struct arena arena;
	struct spec spec;
};

static bool
read_row(
    const struct tune *t, const struct seat *p, uint32_t n, const struct m_sibling *m, struct source *out)
{
	struct err none = {0};

	*out = (struct source){0};
	return m->median_ns > 0 && heat_is_word(m->heat) &&
	    spec_read(&out->arena, m->spec, &out->spec, &none) &&
	    first_seat(p, n, &out->spec.structure) < n && !is_of_this_job(t, p, n, &out->spec);
}

/* For each spec the nearest of them. */
static void
find_nearest(const struct tune *t, const struct seat *p, uint32_t n, const struct m_sibling *m,
    uint32_t n_siblings, struct near *near)
{
	for (uint32_t s = 0; s < t->front.cands.n_specs; s++)
		near[s] = (struct near){NONE, 0};
	for (uint32_t i = 0; i < n_siblings; i++) {
		struct source x;

		if (read_row(t, p, n, &m[i], &x))
			offer(t, p, n, &x.spec, &m[i], i, near);
		arena_fini(&x.arena);
	}
}

static int
by_near_row(const void *x, const void *y)
{
	const struct near *const *a = x, *const *b = y;

	if ((*a)->row != (*b)->row)
		return (*a)->row < (*b)->row ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

static const struct m_tried *
keep_tried(struct tune *t, const struct m_sibling *m)
{
	struct m_tried *out = NEW_ARRAY(t->arena, struct m_tried, MAX_OF(m->n_tried, 1u));

	for (uint32_t i = 0; i < m->n_tried; i++) {
		out[i].schedule =
		    (struct str){str_dup(t->arena, m->tried[i].schedule), m->tried[i].schedule.n};
		out[i].median_ns = m->tried[i].median_ns;
	}
	return out;
}

/* One row tells all whose nearest it is: what it was fastest by, and what it took. */
static void
tell_row(struct tune *t, const struct seat *p, uint32_t n, const struct m_sibling *m,
    const struct near *const *to, uint32_t n_to, const struct near *near)
{
	struct source x;

	if (read_row(t, p, n, m, &x)) {
		struct str schedule = {str_dup(t->arena, m->schedule), m->schedule.n};

		const struct m_tried *tried = keep_tried(t, m);
		const struct told *told =
		    expect_sibling(t, &x.spec, m->heat, m->median_ns, (uint32_t)(to[0] - near));

		for (uint32_t i = 0; i < n_to; i++) {
			uint32_t s = (uint32_t)(to[i] - near);

			t->cost[s].sibling = schedule;
			t->cost[s].tried = tried;
			t->cost[s].n_tried = m->n_tried;
			expect_near(t, s, told, to[i]->apart);
		}
	}
	arena_fini(&x.arena);
}

void
siblings_take(struct tune *t, const struct m_sibling *m, uint32_t n_siblings)
{
	struct arena tmp = {0};
	uint32_t n, n_specs = t->front.cands.n_specs, n_to = 0, end;
	const struct seat *p = seats(t, &tmp, &n);
	struct near *near = NEW_ARRAY(&tmp, struct near, MAX_OF(n_specs, 1u));
	const struct near **to = NEW_ARRAY(&tmp, const struct near *, MAX_OF(n_specs, 1u));

	expect_room(t, n_specs);
	/* where nothing is open nobody asks what they say */
	find_nearest(t, p, n, m, has_open(t) ? n_siblings : 0, near);
	for (uint32_t s = 0; s < n_specs; s++)
		if (near[s].row != NONE)
			to[n_to++] = &near[s];
	qsort(to, n_to, sizeof(*to), by_near_row);
	for (uint32_t i = 0; i < n_to; i = end) {
		for (end = i + 1; end < n_to && to[end]->row == to[i]->row; end++)
			;
		tell_row(t, p, n, &m[to[i]->row], to + i, end - i, near);
	}
	arena_fini(&tmp);
}
