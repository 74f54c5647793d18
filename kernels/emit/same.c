/* kernels/emit/same.c: which schedules make the same kernel: a knob that says nothing to a spec leaves the
 * text as it is, and what is equal is worth one measurement. */
#include "emit.h"

#include <string.h>

static void
add(uint64_t *h, const void *p, size_t n)
{
	*h = n ? hash64(p, n, *h) : mix64(*h);
}

static void
add_pack(uint64_t *h, const struct pack *p)
{
	const int64_t head[] = {p->operand, p->rank, p->base, p->n_columns, p->n_maps};
	const size_t n = (size_t)p->rank * sizeof(p->dim[0]);

	add(h, head, sizeof(head));
	add(h, p->dim, n);
	add(h, p->coef, n);
	add(h, p->column, n);
	for (int i = 0; i < p->n_maps; i++) {
		const int64_t map[] = {p->map[i].dim, p->map[i].n_taps, p->map[i].step};

		add(h, map, sizeof(map));
		add(h, p->map[i].w, sizeof(p->map[i].w));
	}
}

uint64_t
emit_launch_hash(const struct kernel_code *k)
{
	const uint64_t sizes[] = {k->n_passes, k->shared_bytes, k->local_bytes, k->n_packs, k->is_library};
	uint64_t h = 1;

	add(&h, sizes, sizeof(sizes));
	for (uint32_t q = 0; q < k->n_passes; q++) {
		const struct launch *l = &k->launch[q];
		const uint64_t start[] = {(uint64_t)k->range[q], l->smem, l->persists};

		add(&h, start, sizeof(start));
		add(&h, l->grid, sizeof(l->grid));
		add(&h, l->block, sizeof(l->block));
	}
	for (uint32_t i = 0; i < k->n_packs; i++)
		add_pack(&h, &k->packs[i]);
	return h;
}

uint64_t
emit_hash(const struct kernel_code *k)
{
	uint64_t h = emit_launch_hash(k);

	add(&h, k->text.p + k->head_bytes, k->text.n - k->head_bytes);
	return h;
}

bool
emit_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct kernel_code *k = NEW(tmp, struct kernel_code);
	struct err e;

	if (!(t->is_cuda ? emit_cuda : emit_c)(tmp, s, schedule, t, "k", k, &e))
		return false;
	*out = emit_hash(k);
	return true;
}
