/* kernels/interp/shake.c: values moved by a few last places: what another order of operations might have made
 * of them.  Operands move, and what arithmetic rounds; what is copied, compared or chosen does not: equals
 * stay equal. */
#include "interp_int.h"

#include <math.h>

static const bool is_exact[PRIM_COUNT] = {[PRIM_neg] = true,
    [PRIM_abs] = true,
    [PRIM_floor] = true,
    [PRIM_ceil] = true,
    [PRIM_round] = true,
    [PRIM_sign] = true,
    [PRIM_relu] = true,
    [PRIM_min] = true,
    [PRIM_max] = true,
    [PRIM_select] = true,
    [PRIM_cast] = true,
    [PRIM_rmax] = true,
    [PRIM_rmin] = true,
    [PRIM_wmax] = true};

bool
prim_rounds(enum prim p)
{
	switch (prim_info[p].class) {
	case CLASS_MAP:
	case CLASS_REDUCE:
	case CLASS_LINEAR:
		return !is_exact[p];
	default:
		return false;
	}
}

/* A last place of numbers just above 1. */
static double
last_place(enum dtype t)
{
	switch (t) {
	case DT_f16:
		return 0x1p-10;
	case DT_bf16:
		return 0x1p-7;
	case DT_f64:
		return 0x1p-52;
	default:
		return 0x1p-23;
	}
}

double
shaken(const struct shake *s, enum dtype t, uint32_t tensor, int64_t at, double v)
{
	uint64_t h = mix64(s->seed ^ mix64((uint64_t)tensor << 48 ^ (uint64_t)at));
	double by = (double)(1 + (h >> 1) % s->places) * last_place(t);

	return v + (h & 1 ? by : -by) * v;
}

void
shake_dense(const struct shake *s, const struct tensor *t, uint32_t tensor, void *p)
{
	int64_t n = shape_count(&t->shape);

	if (dtype_is_float(t->type))
		for (int64_t i = 0; i < n; i++)
			elem_set(t->type, p, i, shaken(s, t->type, tensor, i, elem_get(t->type, p, i)));
}
