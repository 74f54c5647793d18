/* kernels/schedule/products.c: a block that sums up products with a weight, as the steps see it that make
 * another form of it: winograd.c, planes.c. */
#include "step_int.h"

static bool
is_zero(const struct tx *x, ex_id e)
{
	return ex_get(x, e)->kind == EX_CONST && ex_get(x, e)->real == 0;
}

bool
is_free_sum(const struct tir *p, const struct step *s, blk_id b, struct err *e)
{
	const struct tir_block *k = &p->blk[b];

	return (k->comb == COMB_sum && k->n_out == 1 && !tx_is_strict(p->tx) &&
		   p->buf[k->out[0]].type == DT_f32) ||
	    refuse(e, s, "sum", "no sum of f32 that may be rounded otherwise");
}

uint32_t
products_with_weight(const struct tir *p, blk_id b, struct weighted out[2])
{
	struct tx *x = p->tx;
	struct tir_guard guard[2 * MAX_RANK];
	uint32_t n = 0, found = 0;
	struct ex v = *ex_get(x, p->blk[b].value[0]);

	for (; v.kind == EX_GUARD && is_zero(x, v.arg[1]) && n < COUNT_OF(guard); v = *ex_get(x, v.arg[0]))
		guard[n++] = (struct tir_guard){v.ix, v.lo, v.hi};
	for (int k = 0; k < 2 && v.kind == EX_MAP && v.prim == PRIM_mul; k++) {
		const struct ex read = *ex_get(x, v.arg[!k]);
		ex_id factor = v.arg[k];

		if (read.kind != EX_READ || p->buf[read.tensor].scope != SCOPE_pack)
			continue;
		for (uint32_t i = n; i-- > 0;)
			factor =
			    ex_guard(x, guard[i].i, guard[i].lo, guard[i].hi, factor, ex_real(x, DT_f32, 0));
		out[found++] = (struct weighted){factor, v.arg[!k]};
	}
	return found;
}
