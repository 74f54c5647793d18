/* kernels/codegen/bases.c: addresses that a body's accesses share but for a constant have a name:
 *
 *   r2[0] = r2[0] + a * K_ROW8(x1[8*i4 + 960*i5]);         const float *const p0 = &x1[8*i4 + 960*i5];
 *   r2[1] = r2[1] + a * K_ROW8(x1[8*i4 + 960*i5 + 8]);  -> r2[0] = r2[0] + a * K_ROW8(p0[0]);
 *   ..                                                     r2[1] = r2[1] + a * K_ROW8(p0[8]);
 *
 * A compiler asks each index for itself what it has in common with others, in pass after pass: a fifth of its
 * time. */
#include "codegen_int.h"

/* Fewer are read more easily as they are. */
enum { LEAST_USES = 3 };

struct finding {
	const struct tir *p;
	struct bases *out;
	struct accesses l;
	struct { /* of the statement that is asked */
		st_id by;
		const struct tx_subst *lane; /* NULL: it stands in no loop that goes by vectors */
		uint32_t times;              /* its text is there */
	} at;
};

struct base *
find_base(const struct bases *l, struct tx *x, buf_id b, ix_id i)
{
	const ix_id at = ix_addc(x, i, -ix_base(x, i));

	for (uint32_t k = 0; k < l->n; k++)
		if (l->at[k].buf == b && l->at[k].at == at)
			return &l->at[k];
	return NULL;
}

/* (An index that reads may stand where it must not be asked: in an arm.) */
static void
note(struct finding *f, buf_id b, ixv_id place)
{
	struct tx *x = f->p->tx;
	const ix_id whole = ixv_get(x, place).i[0], i = f->at.lane ? ix_subst(x, f->at.lane, whole) : whole;
	struct base *known;
	int64_t c;

	if (in_register(&f->p->buf[b]) || f->p->buf[b].role == BUF_TABLE || ix_get(x, i)->bufs ||
	    ix_is_const(x, i, NULL))
		return;
	known = find_base(f->out, x, b, i);
	if (known) {
		known->uses += f->at.times;
		return;
	}
	c = ix_base(x, i);
	GROW(f->p->arena, f->out->at, f->out->n, f->out->cap);
	f->out->at[f->out->n++] =
	    (struct base){.buf = b, .at = ix_addc(x, i, -c), .first = c, .by = f->at.by, .uses = f->at.times};
}

static void
note_statement(struct finding *f, st_id i)
{
	const enum st_op op = f->p->st[i].op;

	if (op != ST_store && op != ST_let && op != ST_call)
		return;
	list_accesses(f->p, i, &f->l);
	for (uint32_t k = 0; k < f->l.n; k++)
		note(f, f->l.at[k].buf, f->l.at[k].place);
}

/* Its statements are the body's own, once a vector. */
static void
note_vectors(struct finding *f, st_id loop, uint32_t lanes)
{
	struct tx *x = f->p->tx;
	const struct st *s = &f->p->st[loop];
	const struct tx_subst lane = {.to = &s->from, .first = s->axis, .n = 1};
	int64_t from = 0, end = 0;

	if (!ix_is_const(x, s->from, &from) || !ix_is_const(x, s->to, &end))
		bug("vectors of a loop without constant bounds");
	if (end - from > WIDE_AS_TEXT) /* a body of its own */
		return;
	f->at.lane = &lane;
	f->at.times = wide_parts(end - from, lanes);
	for (st_id k = loop + 1; k < s->end; k++)
		note_statement(f, k);
}

void
find_bases(const struct tir *p, const struct wide *w, st_id first, st_id end, struct bases *out)
{
	struct finding f = {.p = p, .out = out};
	uint32_t n = 0;

	out->n = 0;
	for (st_id i = first; i < end; i = p->st[i].end) {
		f.at.by = i;
		f.at.lane = NULL;
		f.at.times = 1;
		if (p->st[i].op == ST_for && w->loop[i])
			note_vectors(&f, i, w->loop[i]);
		else
			note_statement(&f, i);
	}
	for (uint32_t k = 0; k < out->n; k++)
		if (out->at[k].uses >= LEAST_USES)
			out->at[n++] = out->at[k];
	out->n = n;
}
