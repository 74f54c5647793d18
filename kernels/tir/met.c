/* kernels/tir/met.c: what a walk has met: as much memory as it met nodes, however large the pool is. */
#include "tx_int.h"

#include <stdlib.h>
#include <string.h>

void
met_begin(struct met *m)
{
	m->entry = m->few;
	m->n = m->used = 0;
}

void
met_end(struct met *m)
{
	if (m->entry != m->few)
		free(m->entry);
}

/* The key's entry, or the free one where it goes. */
static struct met_entry *
find(const struct met *m, uint32_t key)
{
	uint32_t k = key * 0x9e3779b1u >> 7 & (m->n - 1);

	while (m->entry[k].key && m->entry[k].key != key)
		k = (k + 1) & (m->n - 1);
	return &m->entry[k];
}

static void
grow(struct met *m)
{
	struct met old = *m;

	if (old.entry == m->few)
		old.entry = old.few;
	m->n = old.n * 4;
	m->entry = heap_alloc(m->n * sizeof(*m->entry));
	for (uint32_t k = 0; k < old.n; k++)
		if (old.entry[k].key)
			*find(m, old.entry[k].key) = old.entry[k];
	if (old.entry != old.few)
		free(old.entry);
}

uint32_t *
met_at(struct met *m, uint32_t key)
{
	if (m->n == 0) {
		memset(m->few, 0, sizeof(m->few));
		m->n = MET_FEW;
	}
	struct met_entry *e = find(m, key + 1);

	if (e->key == 0 && m->used * 2 >= m->n) {
		grow(m);
		e = find(m, key + 1);
	}
	m->used += e->key == 0;
	e->key = key + 1;
	return &e->value;
}
