/* schema/artefact.c: see artefact.h.  Lists in the record, arrays in the descriptor. */
#include "artefact.h"

#include <string.h>

enum { MAP_WEIGHTS = PACK_MAP_ROWS * PACK_MAP_TAPS };
/* Limits that stand as numbers in msg.def. */
_Static_assert(KERNEL_MAX_PASSES == 16 && MAX_RANK == 8 && PACK_MAPS == 2 && MAP_WEIGHTS == 18,
    "proto/msg.def has other limits");

/* ---- to the record -------------------------------------------------------------------------------- */
static struct m_pass
put_pass(const struct descriptor *d, uint32_t q)
{
	const struct launch *l = &d->launch[q];

	return (struct m_pass){.range = d->range[q],
	    .grid_x = l->grid[0],
	    .grid_y = l->grid[1],
	    .grid_z = l->grid[2],
	    .block_x = l->block[0],
	    .block_y = l->block[1],
	    .block_z = l->block[2],
	    .smem = l->smem,
	    .persists = l->persists};
}

void
packing_pack(struct arena *a, const struct pack *p, struct m_packing *out)
{
	struct m_pack_dim *dims = NEW_ARRAY(a, struct m_pack_dim, MAX_RANK);
	struct m_pack_map *maps = NEW_ARRAY(a, struct m_pack_map, PACK_MAPS);

	for (int i = 0; i < p->rank; i++)
		dims[i] = (struct m_pack_dim){p->dim[i], p->coef[i], p->column[i], 0};
	for (int i = 0; i < p->n_maps; i++)
		maps[i] = (struct m_pack_map){.dim = p->map[i].dim,
		    .n_taps = p->map[i].n_taps,
		    .step = p->map[i].step,
		    .w = arena_dup(a, p->map[i].w, sizeof(p->map[i].w)),
		    .n_w = MAP_WEIGHTS};
	*out = (struct m_packing){.operand = p->operand,
	    .dims = dims,
	    .n_dims = (uint32_t)p->rank,
	    .base = p->base,
	    .n_columns = p->n_columns,
	    .maps = maps,
	    .n_maps = (uint32_t)p->n_maps};
}

static struct m_described
put_kernel(struct arena *a, const struct artefact_kernel *k)
{
	const struct descriptor *d = &k->desc;
	struct m_described out = {.passes = NEW_ARRAY(a, struct m_pass, KERNEL_MAX_PASSES),
	    .n_passes = d->n_passes,
	    .shared_bytes = d->shared_bytes,
	    .local_bytes = d->local_bytes,
	    .packs = NEW_ARRAY(a, struct m_packing, MAX_OF(d->n_packs, 1u)),
	    .n_packs = d->n_packs,
	    .overlaps = NEW_ARRAY(a, struct m_overlap, MAX_OF(d->n_overlaps, 1u)),
	    .n_overlaps = d->n_overlaps,
	    .is_library = d->is_library,
	    .text = k->text.n ? k->text : STR("")};

	for (uint32_t q = 0; q < d->n_passes; q++)
		out.passes[q] = put_pass(d, q);
	for (uint32_t i = 0; i < d->n_packs; i++)
		packing_pack(a, &d->packs[i], &out.packs[i]);
	for (uint32_t i = 0; i < d->n_overlaps; i++)
		out.overlaps[i] = (struct m_overlap){d->overlaps[i].result, d->overlaps[i].operand, 0};
	return out;
}

bool
artefact_pack(struct arena *a, const struct artefact *in, struct bytes *out, struct err *e)
{
	struct m_artefact m = {.kernels = NEW_ARRAY(a, struct m_described, MAX_OF(in->n_kernels, 1u)),
	    .n_kernels = in->n_kernels,
	    .prelude = in->prelude.n ? in->prelude : STR("")};

	for (uint32_t i = 0; i < in->n_kernels; i++)
		m.kernels[i] = put_kernel(a, &in->kernels[i]);
	if (!rec_pack(a, "artefact", &m, out, e))
		return false;
	return out->n <= ARTEFACT_MAX_BYTES ||
	    err_set(e, ERR_LIMIT, "the texts of a build's kernels are %zu bytes; at most %d are possible",
		out->n, (int)ARTEFACT_MAX_BYTES);
}

/* ---- from the record ------------------------------------------------------------------------------ */
/* Its numbers are those of the spec's operands, a few; or none of them. */
static uint32_t
small(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static bool
take_pass(const struct m_pass *m, struct descriptor *d, uint32_t q)
{
	const uint64_t sizes[] = {m->grid_x, m->grid_y, m->grid_z, m->block_x, m->block_y, m->block_z};
	struct launch *l = &d->launch[q];

	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		if (sizes[i] > INT32_MAX)
			return false;
		(i < 3 ? l->grid : l->block)[i % 3] = (uint32_t)sizes[i];
	}
	d->range[q] = m->range;
	l->smem = m->smem;
	l->persists = m->persists;
	return true;
}

static bool
take_map(const struct m_pack_map *m, struct pack_map *to)
{
	if (m->dim < 0 || m->dim >= MAX_RANK || m->n_taps < 0 || m->n_taps > PACK_MAP_TAPS ||
	    m->n_w != MAP_WEIGHTS)
		return false;
	*to = (struct pack_map){.dim = (int)m->dim, .n_taps = (int)m->n_taps, .step = m->step};
	memcpy(to->w, m->w, sizeof(to->w));
	return true;
}

bool
packing_unpack(const struct m_packing *m, struct pack *out, struct err *e)
{
	bool ok = m->n_dims <= MAX_RANK && m->n_maps <= PACK_MAPS;

	*out = (struct pack){.operand = small(m->operand),
	    .rank = (int)m->n_dims,
	    .base = m->base,
	    .n_columns = m->n_columns,
	    .n_maps = (int)m->n_maps};
	for (uint32_t i = 0; ok && i < m->n_dims; i++) {
		out->dim[i] = m->dims[i].dim;
		out->coef[i] = m->dims[i].coef;
		out->column[i] = m->dims[i].column;
	}
	for (uint32_t i = 0; ok && i < m->n_maps; i++)
		ok = take_map(&m->maps[i], &out->map[i]);
	return ok || err_set(e, ERR_PROTO, "an operand is packed in a form that is none");
}

/* A text is shown to people: nothing in it steers a terminal. */
static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' && s.p[i] != '\n' && s.p[i] != '\t')
			return false;
	return true;
}

static bool
take_kernel(struct arena *a, const struct m_described *m, const struct spec *s, struct artefact_kernel *to,
    struct err *e)
{
	struct descriptor *d = &to->desc;
	bool ok = m->n_passes <= KERNEL_MAX_PASSES && m->n_packs <= s->g.n_inputs &&
	    m->n_overlaps <= (uint64_t)s->g.n_inputs * s->g.n_outputs && is_plain(m->text);

	if (!ok)
		return err_set(e, ERR_PROTO, "its descriptor is of no kernel of its spec");
	*to =
	    (struct artefact_kernel){.desc = {.n_passes = m->n_passes,
					 .shared_bytes = m->shared_bytes,
					 .local_bytes = m->local_bytes,
					 .packs = NEW_ARRAY(a, struct pack, MAX_OF(m->n_packs, 1u)),
					 .n_packs = m->n_packs,
					 .overlaps = NEW_ARRAY(a, struct overlap, MAX_OF(m->n_overlaps, 1u)),
					 .n_overlaps = m->n_overlaps,
					 .is_library = m->is_library},
		.text = m->text};
	for (uint32_t q = 0; ok && q < m->n_passes; q++)
		ok = take_pass(&m->passes[q], d, q);
	for (uint32_t i = 0; i < m->n_packs; i++)
		if (!packing_unpack(&m->packs[i], &d->packs[i], e))
			return false;
	for (uint32_t i = 0; i < m->n_overlaps; i++)
		d->overlaps[i] =
		    (struct overlap){small(m->overlaps[i].result), small(m->overlaps[i].operand)};
	return ok ? descriptor_check(d, s, e)
		  : err_set(e, ERR_PROTO, "its descriptor has numbers that are none");
}

bool
artefact_read(struct arena *a, struct bytes in, const struct spec *const *specs, uint32_t n,
    struct artefact *out, struct err *e)
{
	struct m_artefact m;

	if (in.n > ARTEFACT_MAX_BYTES)
		return err_set(e, ERR_PROTO, "what a build tells of its kernels is too long");
	if (!rec_unpack(a, "artefact", in, &m, e))
		return false;
	if (m.n_kernels != n || !is_plain(m.prelude))
		return err_set(e, ERR_PROTO, "a build of %u kernels describes %u", n, m.n_kernels);
	*out = (struct artefact){.kernels = NEW_ARRAY(a, struct artefact_kernel, MAX_OF(n, 1u)),
	    .n_kernels = n,
	    .prelude = m.prelude};
	for (uint32_t i = 0; i < n; i++)
		if (!take_kernel(a, &m.kernels[i], specs[i], &out->kernels[i], e))
			return err_in(e, "kernel %u of a build", i);
	return true;
}
