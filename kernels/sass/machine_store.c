/* kernels/sass/machine_store.c: memory without an end: words that nobody wrote are a hash of their address.
 */
#include "machine_int.h"

static uint32_t
fresh(const struct store *m, uint64_t key)
{
	const uint32_t v = (uint32_t)mix64(key ^ m->seed);

	return m->loaded_mask ? v & (uint32_t)m->loaded_mask : v;
}

/* The cell of a key, or the empty one where it belongs. */
static struct cell *
cell_of(const struct store *m, uint64_t key)
{
	uint32_t i = (uint32_t)mix64(key) & (m->cap_cells - 1);

	while (m->cell[i].used && m->cell[i].key != key)
		i = (i + 1) & (m->cap_cells - 1);
	return &m->cell[i];
}

uint32_t
store_word(const struct store *m, uint64_t key)
{
	if (!m->cap_cells)
		return fresh(m, key);
	const struct cell *c = cell_of(m, key);

	return c->used ? c->value : fresh(m, key);
}

static void
grow(struct store *m)
{
	const struct store old = *m;

	m->cap_cells = MAX_OF(1024u, 2 * old.cap_cells);
	m->cell = NEW_ARRAY(m->a, struct cell, m->cap_cells);
	for (uint32_t i = 0; i < old.cap_cells; i++)
		if (old.cell[i].used)
			*cell_of(m, old.cell[i].key) = old.cell[i];
}

void
store_put(struct store *m, uint64_t key, uint32_t value)
{
	if (m->n_cells == CELLS_MAX) {
		m->full = true;
		return;
	}
	if (2 * m->n_cells >= m->cap_cells)
		grow(m);
	struct cell *c = cell_of(m, key);

	m->n_cells += !c->used;
	*c = (struct cell){.key = key, .value = value, .used = true};
}

uint8_t
store_shared_fresh(const struct store *m, uint32_t at)
{
	return (uint8_t)(mix64((at >> 2) ^ m->seed ^ 0x5ed0ull << 48) >> 8 * (at & 3));
}

struct shared_byte *
store_shared(struct store *m, uint32_t at)
{
	struct shared_byte **page = &m->page[at / PAGE_BYTES % COUNT_OF(m->page)];

	if (!*page)
		*page = NEW_ARRAY(m->a, struct shared_byte, PAGE_BYTES);
	return &(*page)[at % PAGE_BYTES];
}

uint64_t
store_digest(const struct store *m)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < m->cap_cells; i++)
		if (m->cell[i].used)
			sum += mix64(m->cell[i].key ^ mix64(m->cell[i].value));
	for (uint32_t p = 0; p < COUNT_OF(m->page); p++)
		for (uint32_t i = 0; m->page[p] && i < PAGE_BYTES; i++)
			if (m->page[p][i].written)
				sum += mix64(1ull << 60 | (p * PAGE_BYTES + i) << 8 | m->page[p][i].value);
	return sum;
}
