/* daemon/orchestrate/landmark.c: the rows of the covering program.
 *
 * For a set T of tensors that holds a wanted one let ext(T) be the kernels that make some of T and
 * read none of it.  The first kernel of a plan that makes anything of T is in ext(T), so every
 * plan holds one of them: sum of x over ext(T) >= 1.  Only what kernels read and make enters, so
 * rows hold with alternatives and forbid circular waiting.
 *
 * T is grown from T(v): node v's tensor and all that cannot be made without it, by the nodes alone
 * (the hints).  ext(T(v)) are the kernels that compute v: the coverage row.  Bits of v are numbers
 * of the struct blp ("marks"), bits of T are tensors of the struct prog. */
#include "blp_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MARKS = 1 << 15, RESTARTS = 12, MAX_CLIMB = 24 };

struct landmarks {
	struct arena arena;
	const struct prog *g;
	uint32_t words_v, words_t;
	uint64_t *above;        /* tensor -> bits of v with the tensor in T(v) */
	uint64_t *below;        /* v -> T(v) */
	bool *is_landmark;      /* v: T(v) holds a wanted tensor */
	struct lists computing; /* v -> kernels in ext(T(v)) */
	uint32_t *members;      /* kernel -> number of v it computes */
	struct lists nodes_of;  /* kernel -> v */
	uint32_t n_rows, cap_rows, n_items, cap_items;
	uint32_t *row_first, *row_item;
	uint64_t *row_hash;
	uint32_t *table, n_table; /* rows by hash; n_table is a power of two */
	struct separation *sep;
};

/* Scratch of one search for T. */
struct separation {
	double *x, *delta, weight;
	uint64_t *T;
	uint32_t *ext, n_ext, *touched, n_touched, *added, n_added;
	uint32_t *stamp, now; /* kernels seen */
	uint8_t *in_ext, *is_touched;
	struct lists active_of, active_makers; /* v -> kernels with x > 0; tensor -> likewise */
	struct rng rng;
	bool is_random;
	double noise;       /* a random search also takes steps up, less than this */
	double best_weight; /* the least weight met, after n_best tensors were added */
	uint32_t n_best;
};

static uint64_t *
row_of(uint64_t *m, uint32_t words, uint32_t i)
{
	return m + (size_t)words * i;
}

static bool
has(const uint64_t *w, uint32_t i)
{
	return w[i >> 6] >> (i & 63) & 1;
}

static void
put(uint64_t *w, uint32_t i)
{
	w[i >> 6] |= (uint64_t)1 << (i & 63);
}

/* Where a tensor has no node: the maker that reads the latest tensors stands for one.  In a
 * graph without alternatives that is the node itself, as fusing replaces an operand by earlier
 * ones. */
static uint32_t
latest_maker(const struct prog *g, uint32_t t)
{
	uint32_t best = NONE;

	for (uint32_t j = g->makers.first[t]; j < g->makers.first[t + 1]; j++) {
		uint32_t k = g->makers.item[j], i = g->in.first[k + 1];

		if (i > g->in.first[k] && g->in.item[i - 1] >= t)
			continue;
		if (best != NONE) {
			uint32_t b = g->in.first[best + 1];

			while (i > g->in.first[k] && b > g->in.first[best] &&
			       g->in.item[i - 1] == g->in.item[b - 1])
				i--, b--;
			if (i == g->in.first[k] ||
			    (b > g->in.first[best] && g->in.item[i - 1] < g->in.item[b - 1]))
				continue;
		}
		best = k;
	}
	return best;
}

/* Bits of v above tensor t through one node: those above any operand. */
static void
join_operand(uint64_t *to, const uint64_t *all, uint32_t words, uint32_t operand, uint32_t t)
{
	if (operand == NONE || operand >= t)
		return;
	for (uint32_t w = 0; w < words; w++)
		to[w] |= all[(size_t)words * operand + w];
}

/* all[mark] = bits above it; a tensor with several nodes depends on what all of them need. */
static uint64_t *
find_above(struct arena *tmp, const struct prog *g, uint32_t words)
{
	uint64_t *all = NEW_ARRAY(tmp, uint64_t, (size_t)words * g->n_marks);
	uint64_t *one = NEW_ARRAY(tmp, uint64_t, words);
	uint32_t *count = NEW_ARRAY(tmp, uint32_t, (size_t)g->n_marks + 1), *number;
	struct lists nodes;

	number = NEW_ARRAY(tmp, uint32_t, g->n_marks);
	memset(number, 0xff, sizeof(*number) * g->n_marks);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		number[g->tensor_of[t]] = t;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->node_tensor[i] != NONE)
			count[g->node_tensor[i]]++;
	nodes = lists_make(tmp, g->n_marks, count);
	memset(count, 0, sizeof(*count) * g->n_marks);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->node_tensor[i] != NONE)
			nodes.item[nodes.first[g->node_tensor[i]] + count[g->node_tensor[i]]++] = i;
	for (uint32_t t = 0; t < g->n_marks; t++) {
		uint64_t *to = row_of(all, words, t);
		uint32_t k = number[t] != NONE && count[t] == 0 ? latest_maker(g, number[t]) : NONE;

		for (uint32_t j = nodes.first[t]; j < nodes.first[t + 1]; j++) {
			uint32_t i = nodes.item[j];

			memset(one, 0, sizeof(*one) * words);
			for (uint32_t o = g->node_in.first[i]; o < g->node_in.first[i + 1]; o++)
				join_operand(one, all, words, g->node_in.item[o], t);
			for (uint32_t w = 0; w < words; w++)
				to[w] = j == nodes.first[t] ? one[w] : to[w] & one[w];
		}
		for (uint32_t o = k == NONE ? 0 : g->in.first[k]; k != NONE && o < g->in.first[k + 1]; o++)
			join_operand(to, all, words, g->tensor_of[g->in.item[o]], t);
		if (count[t] || number[t] != NONE)
			put(to, t);
	}
	return all;
}

/* Which kernels compute which v: v above an output and above no input. */
static void
find_members(struct landmarks *m, struct arena *tmp)
{
	const struct prog *g = m->g;
	uint64_t *set = NEW_ARRAY(tmp, uint64_t, m->words_v);
	uint32_t n = 0, cap = 0, *item = NULL;
	struct lists of = {NEW_ARRAY(&m->arena, uint32_t, (size_t)g->n_kernels + 1), NULL};

	m->members = NEW_ARRAY(&m->arena, uint32_t, g->n_kernels);
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		memset(set, 0, sizeof(*set) * m->words_v);
		for (uint32_t j = g->out.first[k]; j < g->out.first[k + 1]; j++)
			for (uint32_t w = 0; w < m->words_v; w++)
				set[w] |= row_of(m->above, m->words_v, g->out.item[j])[w];
		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
			for (uint32_t w = 0; w < m->words_v; w++)
				set[w] &= ~row_of(m->above, m->words_v, g->in.item[j])[w];
		of.first[k] = n;
		for (uint32_t w = 0; w < m->words_v; w++)
			for (uint64_t b = set[w]; b; b &= b - 1) {
				uint32_t v = w * 64 + (uint32_t)__builtin_ctzll(b);

				if (!m->is_landmark[v])
					continue;
				GROW(tmp, item, n, cap);
				item[n++] = v;
			}
		m->members[k] = n - of.first[k];
	}
	of.first[g->n_kernels] = n;
	of.item = arena_dup(&m->arena, item, sizeof(*item) * n);
	m->nodes_of = of;
	m->computing = lists_invert(&m->arena, g->n_kernels, g->n_marks, of);
}

static struct separation *
separation_new(struct arena *a, const struct prog *g, uint32_t words_t)
{
	struct separation *s = NEW(a, struct separation);

	s->x = NEW_ARRAY(a, double, g->n_kernels);
	s->delta = NEW_ARRAY(a, double, g->n_tensors);
	s->T = NEW_ARRAY(a, uint64_t, words_t);
	s->ext = NEW_ARRAY(a, uint32_t, g->n_kernels);
	s->touched = NEW_ARRAY(a, uint32_t, g->n_tensors);
	s->added = NEW_ARRAY(a, uint32_t, g->n_tensors);
	s->stamp = NEW_ARRAY(a, uint32_t, g->n_kernels);
	s->in_ext = NEW_ARRAY(a, uint8_t, g->n_kernels);
	s->is_touched = NEW_ARRAY(a, uint8_t, g->n_tensors);
	return s;
}

struct landmarks *
landmarks_new(const struct prog *g)
{
	struct landmarks *m = heap_alloc(sizeof(*m));
	struct arena tmp = {0};
	uint64_t *all;

	m->g = g;
	m->n_table = 1024;
	m->table = heap_alloc(sizeof(*m->table) * m->n_table);
	m->row_first = heap_alloc(sizeof(*m->row_first));
	m->words_v = g->n_marks <= MAX_MARKS ? (g->n_marks + 63) / 64 : 0;
	m->words_t = (g->n_tensors + 63) / 64;
	m->above = NEW_ARRAY(&m->arena, uint64_t, (size_t)m->words_v * g->n_tensors);
	m->below = NEW_ARRAY(&m->arena, uint64_t, m->words_v ? (size_t)m->words_t * g->n_marks : 0);
	m->is_landmark = NEW_ARRAY(&m->arena, bool, g->n_marks);
	if (m->words_v) {
		all = find_above(&tmp, g, m->words_v);
		for (uint32_t t = 0; t < g->n_tensors; t++) {
			uint64_t *up = row_of(m->above, m->words_v, t);

			memcpy(up, row_of(all, m->words_v, g->tensor_of[t]), sizeof(*up) * m->words_v);
			for (uint32_t v = 0; v < g->n_marks; v++)
				if (has(up, v)) {
					put(row_of(m->below, m->words_t, v), t);
					m->is_landmark[v] |= g->is_wanted[t];
				}
		}
	}
	find_members(m, &tmp);
	arena_fini(&tmp);
	m->sep = separation_new(&m->arena, g, m->words_t);
	return m;
}

void
landmarks_free(struct landmarks *m)
{
	if (!m)
		return;
	free(m->table);
	free(m->row_first);
	free(m->row_item);
	free(m->row_hash);
	arena_fini(&m->arena);
	free(m);
}

uint32_t
landmarks_count(const struct landmarks *m)
{
	return m->n_rows;
}

const uint32_t *
landmarks_row(const struct landmarks *m, uint32_t row, uint32_t *n)
{
	*n = m->row_first[row + 1] - m->row_first[row];
	return m->row_item + m->row_first[row];
}

const struct lists *
landmarks_nodes(const struct landmarks *m, const uint32_t **members)
{
	*members = m->members;
	return &m->computing;
}

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

static void
table_put(struct landmarks *m, uint32_t row)
{
	uint32_t i = (uint32_t)m->row_hash[row] & (m->n_table - 1);

	while (m->table[i])
		i = (i + 1) & (m->n_table - 1);
	m->table[i] = row + 1;
}

/* False when the row is there already. */
static bool
add_row(struct landmarks *m, uint32_t *kernels, uint32_t n)
{
	uint64_t hash;

	qsort(kernels, n, sizeof(*kernels), by_number);
	hash = hash64(kernels, sizeof(*kernels) * n, 7);
	for (uint32_t i = (uint32_t)hash & (m->n_table - 1); m->table[i]; i = (i + 1) & (m->n_table - 1)) {
		uint32_t r = m->table[i] - 1, len;
		const uint32_t *old = landmarks_row(m, r, &len);

		if (m->row_hash[r] == hash && len == n && memcmp(old, kernels, sizeof(*old) * n) == 0)
			return false;
	}
	if (m->n_rows == m->cap_rows) {
		m->cap_rows = MAX_OF(256u, m->cap_rows * 2);
		m->row_first = heap_resize(m->row_first, sizeof(*m->row_first) * ((size_t)m->cap_rows + 1));
		m->row_hash = heap_resize(m->row_hash, sizeof(*m->row_hash) * m->cap_rows);
	}
	if (n > m->cap_items - m->n_items) {
		m->cap_items = ck_u32(((size_t)m->n_items + n) * 2);
		m->row_item = heap_resize(m->row_item, sizeof(*m->row_item) * m->cap_items);
	}
	memcpy(m->row_item + m->n_items, kernels, sizeof(*kernels) * n);
	m->n_items += n;
	m->row_hash[m->n_rows] = hash;
	m->row_first[++m->n_rows] = m->n_items;
	if (m->n_rows * 2 > m->n_table) {
		free(m->table);
		m->n_table *= 4;
		m->table = heap_alloc(sizeof(*m->table) * m->n_table);
		for (uint32_t r = 0; r + 1 < m->n_rows; r++)
			table_put(m, r);
	}
	table_put(m, m->n_rows - 1);
	return true;
}

static bool
reads_any(const struct prog *g, uint32_t k, const uint64_t *T)
{
	for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
		if (has(T, g->in.item[j]))
			return true;
	return false;
}

/* The rows of the nodes and, so that every program has a bound, those of the wanted tensors. */
uint32_t
landmarks_add_coverage(struct landmarks *m)
{
	const struct prog *g = m->g;
	struct arena tmp = {0};
	uint32_t *row = NEW_ARRAY(&tmp, uint32_t, g->n_kernels), before = m->n_rows;

	for (uint32_t v = 0; v < g->n_marks; v++) {
		uint32_t n = m->computing.first[v + 1] - m->computing.first[v];

		if (!m->is_landmark[v] || n == 0)
			continue;
		memcpy(row, m->computing.item + m->computing.first[v], sizeof(*row) * n);
		add_row(m, row, n);
	}
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t n = g->makers.first[t + 1] - g->makers.first[t];

		if (!g->is_wanted[t])
			continue;
		memcpy(row, g->makers.item + g->makers.first[t], sizeof(*row) * n);
		add_row(m, row, n);
	}
	arena_fini(&tmp);
	return m->n_rows - before;
}

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

			if (s->delta[u] < -1e-7 && (best == NONE || s->delta[u] < s->delta[best] ||
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
	return n > 0 && add_row(m, row, n);
}

static struct lists
active_lists(
    struct arena *a, const struct separation *s, uint32_t n_from, uint32_t n_to, const struct lists *all)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, n_from);
	struct lists l;

	for (uint32_t k = 0; k < n_from; k++)
		count[k] = s->x[k] > 1e-9 ? all->first[k + 1] - all->first[k] : 0;
	l = lists_make(a, n_from, count);
	for (uint32_t k = 0; k < n_from; k++)
		if (count[k])
			memcpy(l.item + l.first[k], all->item + all->first[k], sizeof(uint32_t) * count[k]);
	return lists_invert(a, n_from, n_to, l);
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
		add_row(m, row, n);
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
	s->active_of = active_lists(&tmp, s, g->n_kernels, g->n_marks, &m->nodes_of);
	s->active_makers = active_lists(&tmp, s, g->n_kernels, g->n_tensors, &g->out);
	s->rng.s = seed;
	separate_by_reach(m, &tmp, deep ? RESTARTS : 3, row);
	s->is_random = deep;
	for (uint32_t v = 0; v < g->n_marks; v++) {
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
