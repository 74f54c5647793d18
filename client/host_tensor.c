/* client/host_tensor.c: tensors in host memory, random ones, and comparing two. */
#include "host_tensor.h"

#include <inttypes.h>
#include <math.h>

const size_t host_max_bytes = (size_t)16 << 30;

bool
host_tensor_make(struct arena *a, enum dtype t, const struct shape *s, struct host_tensor *out, struct err *e)
{
	size_t n_bytes;
	char *p;

	if (!shape_bytes(s, t, &n_bytes) || n_bytes > host_max_bytes)
		return err_set(e, ERR_LIMIT, "a tensor of more than %zu bytes", host_max_bytes);
	p = arena_alloc(a, n_bytes + HOST_ALIGN);
	p += -(uintptr_t)p % HOST_ALIGN;
	*out = (struct host_tensor){.type = t, .shape = *s, .data = p, .n_bytes = n_bytes};
	return true;
}

void
host_tensor_random(struct host_tensor *t, struct rng *r)
{
	int64_t n = shape_count(&t->shape);

	for (int64_t i = 0; i < n; i++) {
		double v;

		if (t->type == DT_bool)
			v = rng_below(r, 2);
		else if (!dtype_is_float(t->type))
			v = rng_below(r, 10);
		else
			do
				v = rng_bell(r);
			while (fabs(v) < 1e-4);
		elem_set(t->type, t->data, i, v);
	}
}

/* ---- comparing ----------------------------------------------------------------------- */
static bool
is_wide_int(enum dtype t)
{
	return t == DT_i64 || t == DT_u64;
}

/* Distance of two elements: 0 where both are NaN or the same infinity, infinite where only one
 * is.  64-bit integers keep their digits. */
static double
distance(enum dtype t, const void *have, const void *want, int64_t i)
{
	double h, w;

	if (is_wide_int(t)) {
		int64_t hi = elem_get_int(t, have, i), wi = elem_get_int(t, want, i);

		if (t == DT_u64)
			return (uint64_t)hi > (uint64_t)wi ? (double)((uint64_t)hi - (uint64_t)wi)
							   : (double)((uint64_t)wi - (uint64_t)hi);
		return hi > wi ? (double)((uint64_t)hi - (uint64_t)wi)
			       : (double)((uint64_t)wi - (uint64_t)hi);
	}
	h = elem_get(t, have, i);
	w = elem_get(t, want, i);
	if (isnan(h) || isnan(w))
		return isnan(h) && isnan(w) ? 0 : INFINITY;
	if (isinf(h) || isinf(w))
		return h == w ? 0 : INFINITY;
	return fabs(h - w);
}

static double
largest_magnitude(const struct host_tensor *t)
{
	int64_t n = shape_count(&t->shape);
	double top = 0;

	for (int64_t i = 0; i < n; i++) {
		double v = fabs(elem_get(t->type, t->data, i));

		if (isfinite(v) && v > top)
			top = v;
	}
	return top;
}

static void
look_at_all(const struct host_tensor *have, const struct host_tensor *want, const struct tolerance *tol,
    struct difference *d)
{
	int64_t n = shape_count(&want->shape);
	double worst = -1;

	for (int64_t i = 0; i < n; i++) {
		double far = distance(want->type, have->data, want->data, i);
		double w = elem_get(want->type, want->data, i);
		double room = tol->rel > 0 ? tol->rel * d->max_want : tol->atol + tol->rtol * fabs(w);

		if (far > d->max_error)
			d->max_error = far;
		/* An infinity may not hide behind the infinite room of the one it misses. */
		if (far == 0 || (isfinite(far) && far <= room))
			continue;
		d->n_wrong++;
		if (far - (isfinite(room) ? room : 0) <= worst)
			continue;
		worst = far - (isfinite(room) ? room : 0);
		d->at = i;
		d->have = elem_get(have->type, have->data, i);
		d->want = w;
	}
}

bool
host_compare(const struct host_tensor *have, const struct host_tensor *want, const struct tolerance *tol,
    struct difference *d, struct err *e)
{
	*d = (struct difference){0};
	if (have->type != want->type)
		return err_set(
		    e, ERR_WRONG, "is %s, and %s is wanted", dtype_name(have->type), dtype_name(want->type));
	if (!shape_eq(&have->shape, &want->shape)) {
		struct arena tmp = {0};
		struct strbuf sb;

		sb_init(&sb, &tmp);
		shape_print(&sb, &have->shape);
		sb_addz(&sb, ", and ");
		shape_print(&sb, &want->shape);
		err_set(e, ERR_WRONG, "has shape %s is wanted", sb.p);
		arena_fini(&tmp);
		return false;
	}
	d->max_want = largest_magnitude(want);
	look_at_all(have, want, tol, d);
	if (d->n_wrong == 0)
		return true;
	return err_set(e, ERR_WRONG,
	    "%" PRId64 " of %" PRId64 " elements differ; element %" PRId64 " is %.9g, and %.9g is wanted",
	    d->n_wrong, shape_count(&want->shape), d->at, d->have, d->want);
}
