/* kernels/artefact/pack.c: constant operands in the form that a kernel reads: blocks of columns, K
 * contiguous inside a block, perhaps mapped for Winograd's form.  Applied once, when a plan is made. */
#include "artefact.h"

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
	if (a->rank != b->rank || a->base != b->base || a->n_columns != b->n_columns ||
	    a->n_maps != b->n_maps)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i] || a->coef[i] != b->coef[i] || a->column[i] != b->column[i])
			return false;
	for (int i = 0; i < a->n_maps; i++)
		if (!same_map(&a->map[i], &b->map[i]))
			return false;
	return true;
}

/* ---- a way through the result ------------------------------------------------------------------- */
/* Where an element of the result comes from: `at` its index, `from` its first element, `column`. */
struct walk {
	const struct pack *p;
	const struct tensor *operand;
	int64_t count; /* elements of the operand */
	int64_t at[MAX_RANK], from, column;
};

/* On by n elements along dimension d, or to the next of the dimensions before it. */
static void
step(struct walk *w, int d, int64_t n)
{
	const struct pack *p = w->p;

	for (; d >= 0; d--, n = 1) {
		w->from += n * p->coef[d];
		w->column += n * p->column[d];
		w->at[d] += n;
		if (w->at[d] < p->dim[d])
			return;
		w->from -= p->coef[d] * p->dim[d];
		w->column -= p->column[d] * p->dim[d];
		w->at[d] = 0;
	}
}

/* Of the elements of a row from here on, those of columns that are there. */
static int64_t
lanes_there(const struct walk *w, int64_t lanes)
{
	int64_t there = w->p->n_columns - w->column, each = w->p->column[w->p->rank - 1];

	return there <= 0 ? 0 : each > 0 ? MIN_OF((there - 1) / each + 1, lanes) : lanes;
}

/* ---- from outside -------------------------------------------------------------------------------- */
static bool
map_is_sane(const struct pack *p, const struct pack_map *m)
{
	return m->dim >= 0 && m->dim + 1 < p->rank && m->n_taps >= 1 && m->n_taps <= PACK_MAP_TAPS &&
	    p->dim[m->dim] <= PACK_MAP_ROWS && p->coef[m->dim] == 0;
}

/* The least and the greatest of a sum of steps; false where that does not fit. */
static bool
widen(int64_t step, int64_t n, int64_t *lo, int64_t *hi)
{
	int64_t far;

	return try_mul_i64(step, n - 1, &far) &&
	    !__builtin_add_overflow(far < 0 ? *lo : *hi, far, far < 0 ? lo : hi);
}

/* Columns behind the last are zeros, and their elements are not looked at.  Panel by panel: of dimensions
 * that have no part in the column the ends alone count, so that a form from outside costs no time of its
 * choice. lo, hi: by how much maps read further. */
enum { MOST_PANELS = 1 << 20 };
static bool
tail_fits(const struct pack *p, int64_t count, int64_t lo, int64_t hi)
{
	struct pack panels = *p;
	struct walk w = {.p = &panels, .count = count, .from = p->base};
	int64_t lanes = p->rank ? p->dim[p->rank - 1] : 1, n_panels;

	if (p->rank == 0)
		return p->n_columns <= 0;
	for (int i = 0; i + 1 < p->rank; i++)
		if (p->column[i] == 0) {
			if (!widen(p->coef[i], p->dim[i], &lo, &hi))
				return false;
			panels.dim[i] = 1;
		}
	n_panels = elements(&panels) / lanes;
	if (n_panels > MOST_PANELS)
		return false;
	for (int64_t i = 0; i < n_panels; i++, step(&w, p->rank - 1, lanes)) {
		int64_t there = lanes_there(&w, lanes), far = (there - 1) * p->coef[p->rank - 1];

		if (there > 0 &&
		    (w.from + MIN_OF(far, (int64_t)0) + lo < 0 ||
			w.from + MAX_OF(far, (int64_t)0) + hi >= count))
			return false;
	}
	return true;
}

static bool
is_step(int64_t v, int64_t most)
{
	return v >= -most && v <= most;
}

/* Panels are filled up to whole vectors, and Winograd's form has four times the taps. */
enum { PACK_GROWTH = 64, PACK_SMALL = 1 << 20 };

bool
pack_check(const struct pack *p, int64_t count, struct err *e)
{
	int64_t lo = 0, hi = 0, low = 0, high = 0, n = 1, map_lo = 0, map_hi = 0, most;
	bool ok = p->rank >= 0 && p->rank <= MAX_RANK && p->n_maps >= 0 && p->n_maps <= PACK_MAPS &&
	    p->n_columns >= 0 && p->base >= 0 && p->base < count && try_mul_i64(count, PACK_GROWTH, &most) &&
	    !__builtin_add_overflow(most, (int64_t)PACK_SMALL, &most);

	for (int i = 0; ok && i < p->rank; i++)
		ok = p->dim[i] >= 1 && try_mul_i64(n, p->dim[i], &n) && n <= most &&
		    is_step(p->coef[i], most) && widen(p->coef[i], p->dim[i], &lo, &hi) &&
		    p->column[i] >= 0 && is_step(p->column[i], most) &&
		    widen(p->column[i], p->dim[i], &low, &high);
	for (int i = 0; ok && i < p->n_maps; i++)
		ok = map_is_sane(p, &p->map[i]) && is_step(p->map[i].step, most) &&
		    widen(p->map[i].step, p->map[i].n_taps, &map_lo, &map_hi);
	ok = ok && !__builtin_add_overflow(lo, map_lo, &lo) && !__builtin_add_overflow(hi, map_hi, &hi) &&
	    !__builtin_add_overflow(hi, p->base, &hi);
	/* a walk goes one step beyond the last element before it turns */
	ok = ok && is_step(lo, INT64_MAX / 4) && is_step(hi, INT64_MAX / 4) && is_step(high, INT64_MAX / 4) &&
	    most <= INT64_MAX / 4;
	/* A column that is not there may be the one that leaves the operand. */
	ok = ok && ((lo + p->base >= 0 && hi < count) || tail_fits(p, count, map_lo, map_hi));
	return ok ||
	    err_set(e, ERR_PROTO, "operand %u is to be packed in a form that does not fit it", p->operand);
}

/* ---- applying ------------------------------------------------------------------------------------- */
enum { MOST_LANES = 64 }; /* of a row of the result that is mapped at once */

static void
check_place(const struct walk *w, int64_t from)
{
	if (from < 0 || from >= w->count)
		bug("packing reads element %lld of %lld", (long long)from, (long long)w->count);
}

static void
copy(struct walk *w, const void *data, char *out, int64_t n)
{
	size_t size = dtype_size(w->operand->type);

	for (int64_t i = 0; i < n; i++, step(w, w->p->rank - 1, 1)) {
		char *to = out + (size_t)i * size;

		if (w->column >= w->p->n_columns) {
			memset(to, 0, size);
			continue;
		}
		check_place(w, w->from);
		memcpy(to, (const char *)data + (size_t)w->from * size, size);
	}
}

/* One tap of n elements of a row. */
static void
add_tap(const struct walk *w, const void *data, double by, int64_t from, int64_t n, double *sum)
{
	int64_t coef = w->p->coef[w->p->rank - 1];
	const float *x = data;

	check_place(w, from);
	check_place(w, from + (n - 1) * coef);
	if (w->operand->type == DT_f32 && coef == 1)
		for (int64_t l = 0; l < n; l++)
			sum[l] += by * (double)x[from + l];
	else
		for (int64_t l = 0; l < n; l++)
			sum[l] += by * elem_get(w->operand->type, data, from + l * coef);
}

/* n elements of a row, all of columns that are there. */
static void
map_row(const struct walk *w, const void *data, int64_t n, double *sum)
{
	const struct pack_map none = {.n_taps = 1, .w = {{1}}};
	const struct pack_map *y = &w->p->map[0], *x = w->p->n_maps > 1 ? &w->p->map[1] : &none;
	const double *by = y->w[w->at[y->dim]], *bx = x == &none ? none.w[0] : x->w[w->at[x->dim]];

	for (int64_t l = 0; l < n; l++)
		sum[l] = 0;
	for (int i = 0; i < y->n_taps; i++)
		for (int j = 0; j < x->n_taps; j++)
			if (by[i] * bx[j] != 0)
				add_tap(w, data, by[i] * bx[j], w->from + i * y->step + j * x->step, n, sum);
}

static void
put_row(enum dtype t, const double *sum, int64_t n, void *out, int64_t at)
{
	if (t == DT_f32)
		for (int64_t l = 0; l < n; l++)
			((float *)out)[at + l] = (float)sum[l];
	else
		for (int64_t l = 0; l < n; l++)
			elem_set(t, out, at + l, sum[l]);
}

static void
map_all(struct walk *w, const void *data, void *out, int64_t n)
{
	const struct pack *p = w->p;
	int last = p->rank - 1;
	double sum[MOST_LANES];

	for (int64_t i = 0, lanes; i < n; i += lanes, step(w, last, lanes)) {
		int64_t there;

		lanes = MIN_OF(p->dim[last] - w->at[last], (int64_t)MOST_LANES);
		there = lanes_there(w, lanes);
		if (there)
			map_row(w, data, there, sum);
		for (int64_t l = there; l < lanes; l++)
			sum[l] = 0;
		put_row(w->operand->type, sum, lanes, out, i);
	}
}

void
pack_apply(const struct pack *p, const struct tensor *operand, const void *data, void *out)
{
	struct walk w = {.p = p, .operand = operand, .count = shape_count(&operand->shape), .from = p->base};

	if (p->n_maps)
		map_all(&w, data, out, elements(p));
	else
		copy(&w, data, out, elements(p));
}
