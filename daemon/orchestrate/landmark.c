/* daemon/orchestrate/landmark.c: the rows of the covering program.
 *
 * For a set T of tensors that holds a wanted one let ext(T) be the kernels that make some of T and
 * read none of it.  The first kernel of a plan that makes anything of T is in ext(T), so every
 * plan holds one of them: sum of x over ext(T) >= 1.  Only what kernels read and make enters, so
 * rows hold with alternatives and forbid circular waiting.
 *
 * T is grown from T(v): node v's tensor and all that cannot be made without it, by the nodes alone
 * (the hints).  ext(T(v)) are the kernels that compute v: the coverage row.  Bits of v are numbers
 * of the struct blp ("landmarks"), bits of T are tensors of the struct prog. */
#include "landmark_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MARKS = 1 << 15 };

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
	uint64_t *all = NEW_ARRAY(tmp, uint64_t, (size_t)words * g->n_landmarks);
	uint64_t *one = NEW_ARRAY(tmp, uint64_t, words);
	uint32_t *count = NEW_ARRAY(tmp, uint32_t, (size_t)g->n_landmarks + 1), *number;
	struct adjacency nodes;

	number = NEW_ARRAY(tmp, uint32_t, g->n_landmarks);
	memset(number, 0xff, sizeof(*number) * g->n_landmarks);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		number[g->tensor_of[t]] = t;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->node_tensor[i] != NONE)
			count[g->node_tensor[i]]++;
	nodes = adjacency_make(tmp, g->n_landmarks, count);
	memset(count, 0, sizeof(*count) * g->n_landmarks);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->node_tensor[i] != NONE)
			nodes.item[nodes.first[g->node_tensor[i]] + count[g->node_tensor[i]]++] = i;
	for (uint32_t t = 0; t < g->n_landmarks; t++) {
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
	struct adjacency of = {NEW_ARRAY(&m->arena, uint32_t, (size_t)g->n_kernels + 1), NULL};

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
	m->computing = adjacency_invert(&m->arena, g->n_kernels, g->n_landmarks, of);
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
	m->words_v = g->n_landmarks <= MAX_MARKS ? (g->n_landmarks + 63) / 64 : 0;
	m->words_t = (g->n_tensors + 63) / 64;
	m->above = NEW_ARRAY(&m->arena, uint64_t, (size_t)m->words_v * g->n_tensors);
	m->below = NEW_ARRAY(&m->arena, uint64_t, m->words_v ? (size_t)m->words_t * g->n_landmarks : 0);
	m->is_landmark = NEW_ARRAY(&m->arena, bool, g->n_landmarks);
	if (m->words_v) {
		all = find_above(&tmp, g, m->words_v);
		for (uint32_t t = 0; t < g->n_tensors; t++) {
			uint64_t *up = row_of(m->above, m->words_v, t);

			memcpy(up, row_of(all, m->words_v, g->tensor_of[t]), sizeof(*up) * m->words_v);
			for (uint32_t v = 0; v < g->n_landmarks; v++)
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

const struct adjacency *
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

bool
landmarks_add_row(struct landmarks *m, uint32_t *kernels, uint32_t n)
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

/* The rows of the nodes, those of the wanted tensors, so that every program has a bound, and the given ones.
 */
uint32_t
landmarks_add_coverage(struct landmarks *m)
{
	const struct prog *g = m->g;
	struct arena tmp = {0};
	uint32_t *row = NEW_ARRAY(&tmp, uint32_t, g->n_kernels), before = m->n_rows;

	for (uint32_t v = 0; v < g->n_landmarks; v++) {
		uint32_t n = m->computing.first[v + 1] - m->computing.first[v];

		if (!m->is_landmark[v] || n == 0)
			continue;
		memcpy(row, m->computing.item + m->computing.first[v], sizeof(*row) * n);
		landmarks_add_row(m, row, n);
	}
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t n = g->makers.first[t + 1] - g->makers.first[t];

		if (!g->is_wanted[t])
			continue;
		memcpy(row, g->makers.item + g->makers.first[t], sizeof(*row) * n);
		landmarks_add_row(m, row, n);
	}
	for (uint32_t i = 0; i < g->n_rows; i++) {
		uint32_t n = g->row.first[i + 1] - g->row.first[i];

		memcpy(row, g->row.item + g->row.first[i], sizeof(*row) * n);
		landmarks_add_row(m, row, n);
	}
	arena_fini(&tmp);
	return m->n_rows - before;
}
