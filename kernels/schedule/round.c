/* kernels/schedule/round.c: round BUFFER TYPE: elements of a temp are rounded to a shorter type as they are
 * stored, and read as numbers of the one that they had:
 *
 *   round %2'a's f16      t2'a's: %2'a's[i, k] = cast.f16(%0[..])       t2'm: .. cast.f32(%2'a's[i, k]) * ..
 *
 * The only step that changes what is computed, by half of the shorter type's last place: for whoever allows
 * products of such factors, and has the kernel checked against that. */
#include "step_int.h"

struct rounding {
	buf_id buf;
	enum dtype was, to;
};

static ex_id
read_back(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct rounding *r = self;
	ex_id e;

	if (read->tensor != r->buf)
		return ex_load(x, read->type, read->tensor, at);
	e = ex_load(x, r->to, r->buf, at);
	return ex_map(x, PRIM_cast, r->was, 1, &e);
}

/* A temp that plain blocks make, of one result each. */
static bool
may_round(const struct tir *p, const struct step *s, const struct rounding *r, struct err *e)
{
	if (p->buf[r->buf].role != BUF_TEMP || r->was != DT_f32 || (r->to != DT_f16 && r->to != DT_bf16))
		return refuse(e, s, "type", "no temp of f32, or not to f16 or bf16");
	for (blk_id b = 0; b < p->n_blk; b++)
		if (blk_stores_buf(&p->blk[b], r->buf) &&
		    (p->blk[b].comb != COMB_NONE || p->blk[b].n_out != 1))
			return refuse(e, s, "sum", "what is joined there would be rounded each time");
	return !tx_is_strict(p->tx) ||
	    refuse(e, s, "strict", "what is computed strictly is rounded as it is said");
}

bool
step_round(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct rounding r = {.to = s->type};
	struct tx_subst sub = {.load = read_back, .self = &r};

	if (!find_buf(p, s, 0, &r.buf, e))
		return false;
	r.was = p->buf[r.buf].type;
	if (!may_round(p, s, &r, e))
		return false;
	tir_rewrite(out, p, NULL, NULL);
	out->buf[r.buf].type = r.to;
	for (blk_id b = 0; b < out->n_blk; b++) {
		struct tir_block *k = &out->blk[b];

		for (uint32_t o = 0; o < k->n_out; o++) {
			if (blk_reads_buf(p, &p->blk[b], r.buf))
				k->value[o] = ex_subst(out->tx, &sub, k->value[o]);
			if (k->out[o] == r.buf)
				k->value[o] = ex_map(out->tx, PRIM_cast, r.to, 1, &k->value[o]);
		}
	}
	return true;
}
