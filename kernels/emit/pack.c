/* kernels/emit/pack.c: constant operands in the form that a kernel reads: blocks of columns, K
 * contiguous inside a block, perhaps mapped for Winograd's form.  Applied once, when a plan is made. */
#include "emit.h"

#include <string.h>

static int64_t
elements(const struct pack *p)
{
	int64_t n = 1;

	for (int i = 0; i < p->rank; i++)
		if (!try_mul_i64(n, p->dim[i], &n))
			bug("a packed operand's size does not fit");
	return n;
}

size_t
pack_bytes(const struct pack *p, enum dtype t)
{
	return ck_mul(ck_size(elements(p)), dtype_size(t));
}

static bool
same_map(const struct pack_map *a, const struct pack_map *b)
{
	if (a->dim != b->dim || a->n_taps != b->n_taps || a->step != b->step)
		return false;
	return memcmp(a->w, b->w, sizeof a->w) == 0;
}

bool
pack_same_form(const struct pack *a, const struct pack *b)
{
	if (!a || !b)
		return a == b;
	if (a->rank != b->rank || a->base != b->base || a->n_columns != b->n_columns || a->n_maps != b->n_maps)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i] || a->coef[i] != b->coef[i] || a->column[i] != b->column[i])
			return false;
	for (int i = 0; i < a->n_maps; i++)
		if (!same_map(&a->map[i], &b->map[i]))
			return false;
	return true;
}

/* ---- from outside -------------------------------------------------------------------------------- */
static bool
map_is_sane(const struct pack *p, const struct pack_map *m)
{
	return m->dim >= 0 && m->dim < p->rank && m->n_taps >= 1 && m->n_taps <= PACK_MAP_TAPS &&
	       p->dim[m->dim] <= PACK_MAP_ROWS && p->coef[m->dim] == 0;
}

/* The least and the greatest of a sum of steps; false where that does not fit. */
static bool
widen(int64_t step, int64_t n, int64_t *lo, int64_t *hi)
{
	int64_t far;

	return try_mul_i64(step, n - 1, &far) && !__builtin_add_overflow(far < 0 ? *lo : *hi, far, far < 0 ? lo : hi);
}

bool
pack_check(const struct pack *p, int64_t count, struct err *e)
{
	int64_t lo = p->base, hi = p->base, low = 0, high = 0, n = 1;
	bool ok = p->rank >= 0 && p->rank <= MAX_RANK && p->n_maps >= 0 && p->n_maps <= PACK_MAPS;

	for (int i = 0; ok && i < p->rank; i++)
		ok = p->dim[i] >= 1 && try_mul_i64(n, p->dim[i], &n) && n <= INT64_MAX / 8 &&
		     widen(p->coef[i], p->dim[i], &lo, &hi) && widen(p->column[i], p->dim[i], &low, &high);
	for (int i = 0; ok && i < p->n_maps; i++)
		ok = map_is_sane(p, &p->map[i]) && widen(p->map[i].step, p->map[i].n_taps, &lo, &hi);
	/* Columns behind the last are zeros: their elements are not looked at. */
	ok = ok && lo >= 0 && (hi < count || high >= p->n_columns);
	return ok || err_set(e, ERR_PROTO, "operand %u is to be packed in a form that does not fit it", p->operand);
}

/* ---- applying ------------------------------------------------------------------------------------- */
/* Where an element of the result comes from: `at` its index, `from` its first element, `column`. */
struct walk {
	const struct pack *p;
	int64_t at[MAX_RANK], from, column;
};

static void
step(struct walk *w)
{
	const struct pack *p = w->p;

	for (int d = p->rank; d-- > 0;) {
		w->from += p->coef[d];
		w->column += p->column[d];
		if (++w->at[d] < p->dim[d])
			return;
		w->from -= p->coef[d] * p->dim[d];
		w->column -= p->column[d] * p->dim[d];
		w->at[d] = 0;
	}
}

static double
mapped(const struct walk *w, const struct tensor *operand, const void *data, int64_t count)
{
	const struct pack_map none = {.n_taps = 1, .w = {{1}}};
	const struct pack_map *y = &w->p->map[0], *x = w->p->n_maps > 1 ? &w->p->map[1] : &none;
	const double *by = y->w[w->at[y->dim]], *bx = x == &none ? none.w[0] : x->w[w->at[x->dim]];
	double sum = 0;

	for (int i = 0; i < y->n_taps; i++)
		for (int j = 0; j < x->n_taps && by[i] != 0; j++) {
			int64_t from = w->from + i * y->step + j * x->step;

			if (from < 0 || from >= count)
				bug("packing reads element %lld of %lld", (long long)from, (long long)count);
			if (operand->type == DT_f32)
				sum += by[i] * bx[j] * (double)((const float *)data)[from];
			else
				sum += by[i] * bx[j] * elem_get(operand->type, data, from);
		}
	return sum;
}

void
pack_apply(const struct pack *p, const struct tensor *operand, const void *data, void *out)
{
	int64_t n = elements(p), count = shape_count(&operand->shape);
	size_t size = dtype_size(operand->type);
	struct walk w = {.p = p, .from = p->base};

	for (int64_t i = 0; i < n; i++, step(&w)) {
		char *to = (char *)out + (size_t)i * size;
		bool inside = w.column < p->n_columns;

		if (inside && (w.from < 0 || w.from >= count))
			bug("packing reads element %lld of %lld", (long long)w.from, (long long)count);
		if (!inside)
			memset(to, 0, size);
		else if (p->n_maps)
			elem_set(operand->type, out, i, mapped(&w, operand, data, count));
		else
			memcpy(to, (const char *)data + (size_t)w.from * size, size);
	}
}
