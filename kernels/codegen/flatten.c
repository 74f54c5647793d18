/* kernels/codegen/flatten.c: buffers get one dimension, reads and stores one index.  The last pass that sees
 * dimensions: what lies where is decided, and nothing behind it asks for rows. */
#include "codegen_int.h"

static bool
is_ring(const struct tir_buf *b, int d)
{
	return b->fold && (uint32_t)d == b->fold_dim;
}

/* Of a ring `fold` rows are there, and each lies at its number modulo that. */
static int64_t
extent(const struct tir_buf *b, int d)
{
	return is_ring(b, d) ? b->fold : b->dim[d];
}

static ix_id
flat_index(struct tx *x, const struct tir_buf *b, ixv_id at)
{
	struct ixv v = ixv_get(x, at);
	ix_id i = ix_const(x, 0);

	for (int d = 0; d < b->rank; d++)
		i = ix_add(
		    x, ix_mulc(x, i, extent(b, d)), is_ring(b, d) ? ix_mod(x, v.i[d], b->fold) : v.i[d]);
	return i;
}

static ex_id
flat_load(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	const struct tir *p = self;

	return ex_read(x, read->type, read->tensor, flat_index(x, &p->buf[read->tensor], at));
}

struct flattening {
	const struct tir *p;
	struct tx_subst sub;
};

static bool
flatten(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct flattening *f = self;
	struct st s = p->st[i];

	if (s.op == ST_alloc)
		return false;
	if (s.op == ST_call) {
		tir_copy(out, p, i, &f->sub);
		return true;
	}
	if (s.op != ST_store && s.op != ST_let && !st_has(s.op, 'F') && s.op != ST_if)
		return false;
	if (st_info[s.op].body) /* indices hold reads of index tensors: bounds and guards are copied below */
		return false;
	if (s.op == ST_store) {
		ix_id at = ix_subst(p->tx, &f->sub, flat_index(p->tx, &p->buf[s.ref], s.at));

		s.at = ixv_make(p->tx, 1, &at);
	}
	s.value = ex_subst(p->tx, &f->sub, s.value);
	tir_add(out, s);
	return true;
}

void
codegen_flatten(const struct tir *p, struct tir *out)
{
	struct tir *was = arena_dup(p->arena, p, sizeof(*p));
	struct flattening f = {.p = was, .sub = {.load = flat_load, .self = was}};

	tir_rewrite(out, p, flatten, &f);
	for (buf_id b = 0; b < out->n_buf; b++) {
		int64_t n = 1;

		for (int d = 0; d < out->buf[b].rank; d++)
			n *= extent(&out->buf[b], d);
		out->buf[b].fold = 0;
		out->buf[b].rank = 1;
		out->buf[b].dim[0] = n;
	}
	/* guards and bounds may read too */
	for (uint32_t k = 0; k < out->n_guard; k++)
		out->guard[k].i = ix_subst(p->tx, &f.sub, out->guard[k].i);
	for (st_id i = 0; i < out->n_st; i++)
		if (out->st[i].op == ST_for) {
			out->st[i].from = ix_subst(p->tx, &f.sub, out->st[i].from);
			out->st[i].to = ix_subst(p->tx, &f.sub, out->st[i].to);
		}
}
