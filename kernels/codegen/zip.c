/* kernels/codegen/zip.c: what a loop makes element by element, and loops behind it read so, is made in these:
 *
 *   for x in 0..40                               for o in 0..2
 *     store %1[x] = exp(%0[x])                     for i in 0..16
 *   for o in 0..2                                    store %1[16*o + i] = exp(%0[16*o + i])
 *     for i in 0..16                       ->        store %2[i] = add(%2[i], %1[16*o + i])
 *       store %2[i] = add(%2[i], %1[16*o + i])   for i in 0..8
 *   for i in 0..8                                  store %1[i + 32] = exp(%0[i + 32])
 *     store %2[i] = add(%2[i], %1[i + 32])         store %2[i] = add(%2[i], %1[i + 32])
 *
 * Together they come to each element once.  Then the compiler keeps it in a register. */
#include "codegen_int.h"

#include <string.h>

enum { MOST_PARTS = 8, MOST_ZIPS = 64 };

struct zip {
	const struct tir *p;
	st_id made; /* the loop; its one statement is behind it */
	buf_id buf;
	ixv_id at;
	axis_id axis;
	int dim; /* of the place: base + axis */
	ix_id base;
	int64_t from, to;
	/* Loops behind it that read the buffer so. */
	uint32_t n;
	st_id body[MOST_PARTS];                 /* the first statement in their innermost */
	ix_id index[MOST_PARTS];                /* what stands there for the axis */
	int64_t lo[MOST_PARTS], hi[MOST_PARTS]; /* elements lo .. hi - 1 */
	int64_t left;                           /* elements that no part has */
	bool changed;
};

static bool
has_constant_bounds(const struct tir *p, st_id i, int64_t *from, int64_t *to)
{
	return ix_is_const(p->tx, p->st[i].from, from) && ix_is_const(p->tx, p->st[i].to, to);
}

/* A loop of one store, at a place that counts with it, which reads nothing that it stores. */
static bool
is_made(struct zip *z, st_id i)
{
	const struct tir *p = z->p;
	const struct st *s = &p->st[i];
	struct accesses l = {.n = 0};
	struct ixv at;
	int64_t coef;

	if (s->op != ST_for || is_range(p, i) || s->end != i + 2 || p->st[i + 1].op != ST_store ||
	    !has_constant_bounds(p, i, &z->from, &z->to))
		return false;
	z->made = i;
	z->buf = p->st[i + 1].ref;
	z->at = p->st[i + 1].at;
	z->axis = s->axis;
	z->dim = -1;
	at = ixv_get(p->tx, z->at);
	for (uint32_t d = 0; d < at.n; d++) {
		if (!ix_has(p->tx, at.i[d], z->axis))
			continue;
		if (z->dim >= 0 || !ix_coef(p->tx, at.i[d], z->axis, &coef) || coef != 1)
			return false;
		z->dim = (int)d;
		z->base = ix_add(p->tx, at.i[d], ix_mulc(p->tx, ix_axis(p->tx, z->axis), -1));
	}
	list_accesses(p, i + 1, &l);
	for (uint32_t k = 0; k < l.n; k++)
		if (l.at[k].buf == z->buf && !l.at[k].stores)
			return false;
	return z->dim >= 0;
}

/* A chain of loops around stores that the innermost runs apart, all of one body: the first of these; ST_NONE:
 * it is none.  (A loop that joins lanes into one element is to become a fold.) */
static st_id
body_of(const struct tir *p, st_id i)
{
	st_id end = p->st[i].end, b = i;

	while (p->st[b].op == ST_for && !is_range(p, b) && p->st[b].end == end)
		b++;
	for (st_id k = b; k < end; k++)
		if (p->st[k].op != ST_store || (b > i && !ixv_has(p->tx, p->st[k].at, p->st[b - 1].axis)))
			return ST_NONE;
	return b < end ? b : ST_NONE;
}

/* Does the index come to each value of an interval once while the loops first .. body - 1 run?  They are its
 * digits: the next one counts by as much as those before it make. */
static bool
counts_once(const struct tir *p, ix_id i, st_id first, st_id body, int64_t *lo, int64_t *hi)
{
	int64_t coef[TIR_DEPTH], trips[TIR_DEPTH], next = 1, from, to;
	uint32_t n = body - first, left = n;

	for (uint32_t k = 0; k < n; k++) {
		axis_id a = p->st[first + k].axis;

		if (!has_constant_bounds(p, first + k, &from, &to) || !ix_coef(p->tx, i, a, &coef[k]))
			return false;
		trips[k] = to - from;
		i = ix_add(p->tx, i, ix_mulc(p->tx, ix_axis(p->tx, a), -coef[k]));
		i = ix_addc(p->tx, i, coef[k] * from);
	}
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t q = 0; q < n; q++)
			if (trips[q] > 0 && coef[q] == next) {
				next *= trips[q];
				trips[q] = 0;
				left--;
			}
	if (left > 0 || !ix_is_const(p->tx, i, lo))
		return false;
	*hi = *lo + next;
	return true;
}

/* ---- the readers ----------------------------------------------------------------------------------------
 */
/* Does statement i store what the element is made of? */
static bool
changes_operands(const struct zip *z, st_id i)
{
	struct accesses l = {.n = 0};

	list_accesses(z->p, z->made + 1, &l);
	for (uint32_t k = 0; k < l.n; k++)
		if (touches(z->p, i, z->p->st[i].end, l.at[k].buf, true))
			return true;
	return false;
}

/* The one place at which the stores first .. end - 1 read the buffer; IXV_NONE: several. */
static ixv_id
place_read(const struct zip *z, st_id first, st_id end)
{
	struct accesses l = {.n = 0};
	ixv_id at = IXV_NONE;

	for (st_id k = first; k < end; k++) {
		if (!may_touch(z->p, k, z->buf))
			continue;
		list_accesses(z->p, k, &l);
		for (uint32_t q = 0; q < l.n; q++) {
			if (l.at[q].buf != z->buf)
				continue;
			if (at != IXV_NONE && at != l.at[q].place)
				return IXV_NONE;
			at = l.at[q].place;
		}
	}
	return at;
}

/* Adds statement i, which reads the buffer, to the parts. */
static bool
add_part(struct zip *z, st_id i)
{
	const struct tir *p = z->p;
	st_id body = body_of(p, i);
	ixv_id at = body == ST_NONE ? IXV_NONE : place_read(z, body, p->st[i].end);
	struct ixv here, made = ixv_get(p->tx, z->at);
	uint32_t n = z->n;

	if (at == IXV_NONE || n == MOST_PARTS)
		return false;
	here = ixv_get(p->tx, at);
	for (uint32_t d = 0; d < made.n; d++)
		if ((int)d != z->dim && here.i[d] != made.i[d])
			return false;
	z->body[n] = body;
	z->index[n] = ix_add(p->tx, here.i[z->dim], ix_mulc(p->tx, z->base, -1));
	if (!counts_once(p, z->index[n], i, body, &z->lo[n], &z->hi[n]) || z->lo[n] < z->from ||
	    z->hi[n] > z->to)
		return false;
	for (uint32_t k = 0; k < n; k++)
		if (z->lo[n] < z->hi[k] && z->lo[k] < z->hi[n])
			return false;
	z->left -= z->hi[n] - z->lo[n];
	z->n++;
	return true;
}

/* Readers that stand behind the loop and together come to all that it makes, with nothing between that it
 * rests on. */
static bool
find_parts(struct zip *z)
{
	const struct tir *p = z->p;

	z->n = 0;
	z->left = z->to - z->from;
	for (st_id i = p->st[z->made].end; z->left > 0; i = p->st[i].end) {
		if (i >= p->n_st || !same_body(p, z->made, i) || changes_operands(z, i) || is_range(p, i))
			return false;
		if (touches(p, i, p->st[i].end, z->buf, false) && !add_part(z, i))
			return false;
	}
	return true;
}

/* ---- the walk -------------------------------------------------------------------------------------------
 */
/* The store again, where the part's index stands for the axis. */
static void
add_store(const struct zip *z, struct tir *out, uint32_t part)
{
	const struct tx_subst sub = {.to = &z->index[part], .first = z->axis, .n = 1};

	tir_copy(out, z->p, z->made + 1, &sub);
}

static bool
zip(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct zip *z = self;

	if (!z->changed && is_made(z, i) && find_parts(z))
		z->changed = true;
	if (!z->changed)
		return false;
	for (uint32_t k = 0; k < z->n; k++)
		if (z->body[k] == i) {
			add_store(z, out, k);
			tir_copy(out, p, i, NULL);
			return true;
		}
	return z->made == i;
}

void
codegen_zip(const struct tir *p, struct tir *out)
{
	struct tir was = *p;
	struct zip z = {.p = &was, .changed = true};

	for (int n = 0; n < MOST_ZIPS && z.changed; n++) {
		z.changed = false;
		tir_rewrite(out, &was, zip, &z);
		was = *out;
	}
}
