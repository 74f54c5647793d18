/* kernels/codegen/packs.c: the forms of constant operands as a plan maker applies them (kernels/artefact). */
#include "codegen_int.h"

#include <string.h>

_Static_assert((int)FORM_MAP_ROWS == PACK_MAP_ROWS && (int)FORM_MAP_TAPS == PACK_MAP_TAPS, "maps are copied");

/* An index that may leave its dimension, as a number of columns: i div c < n is i < c * n. */
static void
cut(const struct tx *x, ix_id i, int64_t extent, ix_id *column, int64_t *n_columns)
{
	for (; ix_get(x, i)->kind == IX_DIV; i = ix_get(x, i)->a)
		extent *= ix_get(x, i)->c;
	*column = i;
	*n_columns = extent;
}

/* The dense operand's element as one number; false: columns are not there in two dimensions. */
static bool
dense_number(const struct tir *p, const struct tir_form *f, ix_id *number, ix_id *column, int64_t *n_columns)
{
	const struct ixv at = ixv_get(p->tx, f->at);
	int n_cut = 0;

	*number = *column = ix_const(p->tx, 0);
	*n_columns = 1;
	for (int d = 0; d < f->from_rank; d++) {
		*number = ix_mulc(p->tx, *number, f->from_dim[d]);
		if (f->map[d] != MAP_none)
			continue;
		*number = ix_add(p->tx, *number, at.i[d]);
		if (ix_get(p->tx, at.i[d])->hi < f->from_dim[d])
			continue;
		cut(p->tx, at.i[d], f->from_dim[d], column, n_columns);
		n_cut++;
	}
	return n_cut <= 1;
}

/* Rows of maps are dimensions of the packed operand of their own; false: they are not. */
static bool
add_maps(const struct tir *p, const struct tir_form *f, struct pack *out)
{
	const struct ixv at = ixv_get(p->tx, f->at);
	int64_t step = 1;

	for (int d = f->from_rank; d-- > 0; step *= f->from_dim[d]) {
		const struct form_map_info *info = &form_map_info[f->map[d]];
		struct pack_map m = {.dim = 0, .n_taps = info->taps, .step = step};

		if (f->map[d] == MAP_none)
			continue;
		while (m.dim < f->rank && ix_axis(p->tx, f->place[m.dim]) != at.i[d])
			m.dim++;
		if (m.dim == f->rank || out->n_maps == PACK_MAPS)
			return false;
		memcpy(m.w, info->w, sizeof(m.w));
		out->map[out->n_maps++] = m;
	}
	return true;
}

static bool
make_pack(const struct tir *p, const struct tir_buf *b, struct pack *out)
{
	const struct tir_form *f = b->form;
	ix_id number, column, rest;

	*out = (struct pack){.operand = b->index, .rank = f->rank};
	if (!dense_number(p, f, &number, &column, &out->n_columns))
		return false;
	rest = number;
	for (int d = 0; d < f->rank; d++) {
		out->dim[d] = tx_axis_get(p->tx, f->place[d])->hi + 1;
		if (!ix_coef(p->tx, number, f->place[d], &out->coef[d]) ||
		    !ix_coef(p->tx, column, f->place[d], &out->column[d]))
			return false;
		rest = ix_add(p->tx, rest, ix_mulc(p->tx, ix_axis(p->tx, f->place[d]), -out->coef[d]));
	}
	return ix_is_const(p->tx, rest, &out->base) && add_maps(p, f, out);
}

bool
codegen_packs(struct arena *a, const struct tir *p, struct codegen_kernel *out, struct err *e)
{
	out->packs = NEW_ARRAY(a, struct pack, p->n_buf + 1);
	out->n_packs = 0;
	for (buf_id b = 0; b < p->n_buf; b++)
		if (p->buf[b].form && !make_pack(p, &p->buf[b], &out->packs[out->n_packs++]))
			return err_set(
			    e, ERR_INFEASIBLE, "form: %%%s is not packed by steps alone", p->buf[b].name);
	return true;
}
