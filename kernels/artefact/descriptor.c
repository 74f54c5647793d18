/* kernels/artefact/descriptor.c: a descriptor checked, compared, printed. */
#include "artefact.h"

#include <math.h>
#include <string.h>

const struct pack *
descriptor_pack(const struct descriptor *d, uint32_t operand)
{
	for (uint32_t i = 0; i < d->n_packs; i++)
		if (d->packs[i].operand == operand)
			return &d->packs[i];
	return NULL;
}

/* ---- as a number --------------------------------------------------------------------------------- */
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
descriptor_hash(const struct descriptor *d)
{
	const uint64_t sizes[] = {d->n_passes, d->shared_bytes, d->local_bytes, d->n_packs, d->is_library};
	uint64_t h = 1;

	add(&h, sizes, sizeof(sizes));
	for (uint32_t q = 0; q < d->n_passes; q++) {
		const struct launch *l = &d->launch[q];
		const uint64_t start[] = {(uint64_t)d->range[q], l->smem, l->persists};

		add(&h, start, sizeof(start));
		add(&h, l->grid, sizeof(l->grid));
		add(&h, l->block, sizeof(l->block));
	}
	for (uint32_t i = 0; i < d->n_packs; i++)
		add_pack(&h, &d->packs[i]);
	return h;
}

/* ---- as text -------------------------------------------------------------------------------------- */
void
descriptor_print(struct strbuf *sb, const struct descriptor *d, bool is_cuda)
{
	for (uint32_t i = 0; i < d->n_passes; i++) {
		sb_addf(sb, "# pass %u range %lld", i, (long long)d->range[i]);
		if (is_cuda)
			sb_addf(sb, " grid %u block %u", d->launch[i].grid[0], d->launch[i].block[0]);
		sb_addc(sb, '\n');
	}
	sb_addf(sb, "# shared %zu local %zu packs %u\n", d->shared_bytes, d->local_bytes, d->n_packs);
}

/* ---- from outside --------------------------------------------------------------------------------- */
static bool
refuse(struct err *e, const char *what, uint32_t i, const char *why)
{
	return err_set(e, ERR_PROTO, "the descriptor of a kernel: %s %u %s", what, i, why);
}

static bool
has_empty_results(const struct spec *s)
{
	bool empty = true;

	for (uint32_t i = 0; i < s->g.n_outputs; i++)
		empty &= shape_count(&graph_tensor(&s->g, s->g.outputs[i])->shape) == 0;
	return empty;
}

static bool
check_passes(const struct descriptor *d, const struct spec *s, struct err *e)
{
	const size_t most = SIZE_MAX / 8; /* as a plan's (plan_check) */

	if (d->n_passes > KERNEL_MAX_PASSES || (d->n_passes == 0 && !has_empty_results(s)))
		return refuse(e, "passes:", d->n_passes, "are impossible");
	for (uint32_t q = 0; q < d->n_passes; q++)
		if (d->range[q] < 0 || d->launch[q].smem > most)
			return refuse(e, "pass", q, "has a negative range or impossible memory");
	if (d->shared_bytes > most || d->local_bytes > most)
		return refuse(e, "scratch of pass", 0, "is of an impossible size");
	return true;
}

static bool
is_finite(const struct pack *p)
{
	for (int i = 0; i < p->n_maps; i++)
		for (int r = 0; r < PACK_MAP_ROWS; r++)
			for (int t = 0; t < PACK_MAP_TAPS; t++)
				if (!isfinite(p->map[i].w[r][t]))
					return false;
	return true;
}

static bool
check_packs(const struct descriptor *d, const struct spec *s, struct err *e)
{
	for (uint32_t i = 0; i < d->n_packs; i++) {
		const struct pack *p = &d->packs[i];
		const struct tensor *t;

		if (p->operand >= s->g.n_inputs)
			return refuse(e, "pack", i, "is of an operand that there is not");
		t = graph_tensor(&s->g, s->g.inputs[p->operand]);
		if (t->role != ROLE_WEIGHT || descriptor_pack(d, p->operand) != p)
			return refuse(
			    e, "pack", i, "is of an operand that is no constant, or packed already");
		if (!pack_check(p, shape_count(&t->shape), e) || !is_finite(p))
			return refuse(e, "pack", i, "does not fit its operand");
	}
	return true;
}

static bool
check_overlaps(const struct descriptor *d, const struct spec *s, struct err *e)
{
	for (uint32_t i = 0; i < d->n_overlaps; i++) {
		const struct overlap *o = &d->overlaps[i];
		const struct tensor *from, *to;

		if (o->operand >= s->g.n_inputs || o->result >= s->g.n_outputs)
			return refuse(e, "overlap", i, "is of an operand or a result that there is not");
		from = graph_tensor(&s->g, s->g.inputs[o->operand]);
		to = graph_tensor(&s->g, s->g.outputs[o->result]);
		if (from->type != to->type || shape_count(&from->shape) != shape_count(&to->shape) ||
		    descriptor_pack(d, o->operand))
			return refuse(e, "overlap", i, "is of an operand of another size than the result");
		for (uint32_t j = 0; j < i; j++)
			if (d->overlaps[j].operand == o->operand && d->overlaps[j].result == o->result)
				return refuse(e, "overlap", i, "is told twice");
	}
	return true;
}

bool
descriptor_check(const struct descriptor *d, const struct spec *s, struct err *e)
{
	if (d->is_library && (d->n_passes != 1 || d->n_packs || d->n_overlaps))
		return refuse(e, "a library's call of", d->n_passes, "passes is none");
	return check_passes(d, s, e) && check_packs(d, s, e) && check_overlaps(d, s, e);
}
