/* daemon/orchestrate/separate.c: landmark rows that a solution of the covering program violates: grown
 * from nodes by local search, and from what the solution cannot reach. */
#include "landmark_int.h"

#include <string.h>

enum { RESTARTS = 12, MAX_CLIMB = 24 };

/* What adding tensor u to T changes: readers leave ext, makers that read nothing of T join. */
static void
weigh(struct landmarks *m)
{
	const struct prog *g = m->g;
	struct separation *s = m->sep;

	s->n_touched = 0;
	for (uint32_t i = 0; i < s->n_ext; i++) {
		uint32_t k = s->ext[i];

		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++) {
			uint32_t u = g->in.item[j];

			if (!s->is_touched[u]) {
				s->is_touched[u] = 1;
				s->delta[u] = 0;
				s->touched[s->n_touched++] = u;
			}
			s->delta[u] -= s->x[k];
		}
	}
	for (uint32_t i = 0; i < s->n_touched; i++) {
		uint32_t u = s->touched[i];

		s->is_touched[u] = 0;
		for (uint32_t j = s->active_makers.first[u]; j < s->active_makers.first[u + 1]; j++) {
			uint32_t k = s->active_makers.item[j];

			if (!s->in_ext[k] && !reads_any(g, k, s->T))
				s->delta[u] += s->x[k];
		}
		if (s->is_random)
			s->delta[u] -= s->noise * rng_unit(&s->rng);
	}
}

static void
take_tensor(struct landmarks *m, uint32_t u)
{
	const struct prog *g = m->g;
	struct separation *s = m->sep;
	uint32_t n = 0;

	put(s->T, u);
	s->added[s->n_added++] = u;
	for (uint32_t i = 0; i < s->n_ext; i++) {
		uint32_t k = s->ext[i];

		if (reads_any(g, k, s->T)) {
			s->in_ext[k] = 0;
			s->weight -= s->x[k];
		} else {
			s->ext[n++] = k;
		}
	}
	s->n_ext = n;
	for (uint32_t j = s->active_makers.first[u]; j < s->active_makers.first[u + 1]; j++) {
		uint32_t k = s->active_makers.item[j];

		if (s->in_ext[k] || reads_any(g, k, s->T))
			continue;
		s->in_ext[k] = 1;
		s->ext[s->n_ext++] = k;
		s->weight += s->x[k];
	}
}

/* Grows T from T(v) while that lowers the weight of ext(T); leaves the T of least weight. */
static void
grow(struct landmarks *m, uint32_t v)
{
	struct separation *s = m->sep;
	const uint64_t *base = row_of(m->below, m->words_t, v);

	memcpy(s->T, base, sizeof(*s->T) * m->words_t);
	s->n_ext = s->n_added = 0;
	s->weight = 0;
	for (uint32_t j = s->active_of.first[v]; j < s->active_of.first[v + 1]; j++) {
		uint32_t k = s->active_of.item[j];

		s->in_ext[k] = 1;
		s->ext[s->n_ext++] = k;
		s->weight += s->x[k];
	}
	s->best_weight = s->weight;
	s->n_best = 0;
	while (!s->is_random || s->n_added < s->n_best + MAX_CLIMB) {
		uint32_t best = NONE;

		weigh(m);
		for (uint32_t i = 0; i < s->n_touched; i++) {
			uint32_t u = s->touched[i];

			if (s->delta[u] < -1e-7 &&
			    (best == NONE || s->delta[u] < s->delta[best] ||
				(!(s->delta[u] > s->delta[best]) && u < best)))
				best = u;
		}
		if (best == NONE)
			break;
		take_tensor(m, best);
		if (s->weight < s->best_weight - 1e-7) {
			s->best_weight = s->weight;
			s->n_best = s->n_added;
		}
	}
	for (; s->n_added > s->n_best; s->n_added--) {
		uint32_t u = s->added[s->n_added - 1];

		if (!has(base, u))
			s->T[u >> 6] &= ~((uint64_t)1 << (u & 63));
	}
	for (uint32_t i = 0; i < s->n_ext; i++)
		s->in_ext[s->ext[i]] = 0;
}

/* The row of T over all kernels. */
static bool
add_grown(struct landmarks *m, uint32_t v, uint32_t *row)
{
	const struct prog *g = m->g;
	struct separation *s = m->sep;
	uint32_t n = 0;

	s->now++;
	for (uint32_t j = m->computing.first[v]; j < m->computing.first[v + 1]; j++) {
		uint32_t k = m->computing.item[j];

		if (reads_any(g, k, s->T))
			continue;
		s->stamp[k] = s->now;
		row[n++] = k;
	}
	for (uint32_t i = 0; i < s->n_added; i++) {
		uint32_t u = s->added[i];

		for (uint32_t j = g->makers.first[u]; j < g->makers.first[u + 1]; j++) {
			uint32_t k = g->makers.item[j];

			if (s->stamp[k] == s->now || reads_any(g, k, s->T))
				continue;
			s->stamp[k] = s->now;
			row[n++] = k;
		}
	}
	return n > 0 && landmarks_add_row(m, row, n);
}

static struct adjacency
active_lists(
    struct arena *a, const struct separation *s, uint32_t n_from, uint32_t n_to, const struct adjacency *all)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, n_from);
	struct adjacency l;

	for (uint32_t k = 0; k < n_from; k++)
		count[k] = s->x[k] > 1e-9 ? all->first[k + 1] - all->first[k] : 0;
	l = adjacency_make(a, n_from, count);
	for (uint32_t k = 0; k < n_from; k++)
		if (count[k])
			memcpy(l.item + l.first[k], all->item + all->first[k], sizeof(uint32_t) * count[k]);
	return adjacency_invert(a, n_from, n_to, l);
}

static bool
is_fractional(const struct separation *s, uint32_t v)
{
	for (uint32_t j = s->active_of.first[v]; j < s->active_of.first[v + 1]; j++)
		if (s->x[s->active_of.item[j]] < 0.999)
			return true;
	return false;
}

/* What kernels of weight above `least` make, each running as soon as it can. */
static void
simulate(const struct landmarks *m, struct arena *tmp, double least, uint8_t *made)
{
	const struct prog *g = m->g;
	uint32_t *set = NEW_ARRAY(tmp, uint32_t, g->n_kernels), n = 0;

	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (m->sep->x[k] > least)
			set[n++] = k;
	(void)prog_schedule(tmp, g, set, n, NULL, made);
}

/* T from a wanted tensor that `made` lacks, backwards: for each active maker one input that is
 * lacking too: the first, the last, or any, by `way`.  So no kernel above `least` is in ext(T): what local
 * search misses when the circle or the gap is far from where it starts. */
static void
add_unreached(
    struct landmarks *m, uint32_t wanted, double least, const uint8_t *made, uint32_t way, uint32_t *row)
{
	const struct prog *g = m->g;
	struct separation *s = m->sep;
	uint32_t n = 0;
	double weight = 0;

	memset(s->T, 0, sizeof(*s->T) * m->words_t);
	put(s->T, wanted);
	s->added[0] = wanted;
	s->n_added = 1;
	for (uint32_t q = 0; q < s->n_added; q++)
		for (uint32_t j = s->active_makers.first[s->added[q]];
		     j < s->active_makers.first[s->added[q] + 1]; j++) {
			uint32_t k = s->active_makers.item[j], lacking = NONE;

			if (s->x[k] <= least || reads_any(g, k, s->T))
				continue;
			for (uint32_t i = g->in.first[k]; i < g->in.first[k + 1]; i++)
				if (!made[g->in.item[i]] &&
				    (lacking == NONE || way == 1 || (way > 1 && rng_below(&s->rng, 2))))
					lacking = g->in.item[i];
			if (lacking == NONE)
				continue;
			put(s->T, lacking);
			s->added[s->n_added++] = lacking;
		}
	s->now++;
	for (uint32_t i = 0; i < s->n_added; i++)
		for (uint32_t j = g->makers.first[s->added[i]]; j < g->makers.first[s->added[i] + 1]; j++) {
			uint32_t k = g->makers.item[j];

			if (s->stamp[k] == s->now || reads_any(g, k, s->T))
				continue;
			s->stamp[k] = s->now;
			weight += s->x[k];
			row[n++] = k;
		}
	if (n && weight < 0.98)
		landmarks_add_row(m, row, n);
}

static void
separate_by_reach(struct landmarks *m, struct arena *tmp, uint32_t n_ways, uint32_t *row)
{
	static const double least[] = {1e-9, 0.2, 0.34, 0.51, 0.67, 0.8};
	uint8_t *made = NEW_ARRAY(tmp, uint8_t, m->g->n_tensors);

	for (size_t i = 0; i < COUNT_OF(least); i++) {
		simulate(m, tmp, least[i], made);
		for (uint32_t t = 0; t < m->g->n_tensors; t++)
			for (uint32_t way = 0; m->g->is_wanted[t] && !made[t] && way < n_ways; way++)
				add_unreached(m, t, least[i], made, way, row);
	}
}

uint32_t
landmarks_separate(struct landmarks *m, const double *x, bool deep, uint64_t seed)
{
	const struct prog *g = m->g;
	struct separation *s = m->sep;
	struct arena tmp = {0};
	uint32_t before = m->n_rows, *row = NEW_ARRAY(&tmp, uint32_t, g->n_kernels);

	memcpy(s->x, x, sizeof(*x) * g->n_kernels);
	s->active_of = active_lists(&tmp, s, g->n_kernels, g->n_landmarks, &m->nodes_of);
	s->active_makers = active_lists(&tmp, s, g->n_kernels, g->n_tensors, &g->out);
	s->rng.s = seed;
	separate_by_reach(m, &tmp, deep ? RESTARTS : 3, row);
	s->is_random = deep;
	for (uint32_t v = 0; v < g->n_landmarks; v++) {
		if (!m->is_landmark[v] || (deep && !is_fractional(s, v)))
			continue;
		for (int i = 0; i < (deep ? RESTARTS : 1); i++) {
			s->noise = 0.05 * (i + 1);
			grow(m, v);
			if (s->best_weight < (deep ? 0.99 : 0.98))
				add_grown(m, v, row);
		}
	}
	arena_fini(&tmp);
	return m->n_rows - before;
}
