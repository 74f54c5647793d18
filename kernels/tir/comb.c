/* kernels/tir/comb.c: what each row of comb.def starts from and how it joins, as expressions. */
#include "tir.h"

/* The value of a type that every other is at least (or at most). */
static ex_id
extreme(struct tx *x, enum dtype t, bool largest)
{
	int bits = (int)dtype_size(t) * 8;

	if (dtype_is_float(t))
		return ex_real(x, t, largest ? __builtin_inf() : -__builtin_inf());
	if (t == DT_bool)
		return ex_whole(x, t, largest);
	if (!dtype_is_signed(t))
		return ex_whole(x, t, !largest ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1);
	int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;

	return ex_whole(x, t, largest ? top : -top - 1);
}

static bool
finds_position(enum comb c)
{
	return comb_info[c].arity == 2;
}

ex_id
comb_identity(struct tx *x, enum comb c, uint32_t k, enum dtype t)
{
	switch (c) {
	case COMB_sum:
		return ex_real(x, t, 0);
	case COMB_prod:
		return ex_real(x, t, 1);
	case COMB_max:
		return extreme(x, t, false);
	case COMB_min:
		return extreme(x, t, true);
	case COMB_least:
		if (k == 0 && dtype_is_float(t))
			return ex_real(x, t, __builtin_nan(""));
		/* fall through */
	default:
		break;
	}
	/* No element is behind it: a position that loses against every other. */
	if (k == 1)
		return ex_whole(x, t, c == COMB_argmax_last || c == COMB_argmin_last ? -1 : INT64_MAX);
	return extreme(x, t, c != COMB_argmax && c != COMB_argmax_last);
}

static ex_id
map2(struct tx *x, enum prim p, enum dtype t, ex_id a, ex_id b)
{
	return ex_map(x, p, t, 2, (ex_id[]){a, b});
}

static ex_id
is_less(struct tx *x, ex_id a, ex_id b)
{
	return map2(x, PRIM_lt, DT_bool, a, b);
}

ex_id
comb_first(struct tx *x, enum comb c, const ex_id *held, const ex_id *elem)
{
	bool last = c == COMB_argmax_last || c == COMB_argmin_last;
	bool largest = c == COMB_argmax || c == COMB_argmax_last;
	ex_id v = elem[0], w = held[0];
	ex_id sooner = last ? is_less(x, held[1], elem[1]) : is_less(x, elem[1], held[1]);
	ex_id better = largest ? is_less(x, w, v) : is_less(x, v, w);
	ex_id worse = largest ? is_less(x, v, w) : is_less(x, w, v);

	if (dtype_is_float(ex_get(x, v)->type)) {
		ex_id nan_v = ex_map(x, PRIM_isnan, DT_bool, 1, &v),
		      nan_w = ex_map(x, PRIM_isnan, DT_bool, 1, &w);
		ex_id only_v = map2(x, PRIM_and, DT_bool, nan_v, ex_map(x, PRIM_not, DT_bool, 1, &nan_w));
		ex_id only_w = map2(x, PRIM_and, DT_bool, nan_w, ex_map(x, PRIM_not, DT_bool, 1, &nan_v));

		better = map2(x, PRIM_or, DT_bool, better, c == COMB_least ? only_w : only_v);
		worse = map2(x, PRIM_or, DT_bool, worse, c == COMB_least ? only_v : only_w);
	}
	ex_id equal = ex_map(x, PRIM_not, DT_bool, 1, &worse);

	return map2(x, PRIM_or, DT_bool, better, map2(x, PRIM_and, DT_bool, equal, sooner));
}

enum prim
comb_prim(enum comb c)
{
	static const enum prim joiner[] = {
	    [COMB_sum] = PRIM_add, [COMB_prod] = PRIM_mul, [COMB_max] = PRIM_max, [COMB_min] = PRIM_min};

	return finds_position(c) ? PRIM_COUNT : joiner[c];
}

void
comb_join(struct tx *x, enum comb c, const ex_id *state, const ex_id *value, ex_id *out)
{
	enum dtype t = ex_get(x, state[0])->type;

	if (!finds_position(c)) {
		out[0] = map2(x, comb_prim(c), t, state[0], value[0]);
		return;
	}
	ex_id first = comb_first(x, c, state, value);

	for (uint32_t k = 0; k < 2; k++)
		out[k] = ex_map(
		    x, PRIM_select, ex_get(x, value[k])->type, 3, (ex_id[]){first, value[k], state[k]});
}
