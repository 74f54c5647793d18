/* kernels/schedule/runs.c: a buffer and its dimensions as a step names them: in any order, neighbours as one.
 */
#include "step_int.h"

bool
find_buf(const struct tir *p, const struct step *s, uint32_t k, buf_id *out, struct err *e)
{
	struct str name = s->name[k];

	for (buf_id b = 0; b < p->n_buf && name.n && name.p[0] == '%'; b++)
		if (str_is((struct str){name.p + 1, name.n - 1}, p->buf[b].name)) {
			*out = b;
			return true;
		}
	return refuse(e, s, "name", "no such buffer");
}

/* The dimensions as they are, but those of one element. */
static void
default_runs(const struct tir_buf *b, struct runs *r)
{
	for (int d = 0; d < b->rank; d++)
		if (b->dim[d] > 1)
			r->run[r->n++] = (struct step_run){d, d};
}

bool
find_runs(const struct tir *p, const struct step *s, buf_id buf, struct runs *r, struct err *e)
{
	const struct tir_buf *b = &p->buf[buf];
	bool named[MAX_RANK] = {false};

	*r = (struct runs){.buf = buf, .n = s->n_run};
	for (uint32_t k = 0; k < s->n_run; k++)
		r->run[k] = s->run[k];
	if (r->n == 0)
		default_runs(b, r);
	for (uint32_t k = 0; k < r->n; k++) {
		r->extent[k] = 1;
		for (int d = r->run[k].first; d <= r->run[k].last; d++) {
			if (d >= b->rank || named[d])
				return refuse(e, s, "dimensions", "one that is not there, or twice");
			named[d] = true;
			r->extent[k] *= b->dim[d];
		}
		if (r->extent[k] == 1)
			return refuse(e, s, "dimensions", "one of a single element");
	}
	for (int d = 0; d < b->rank; d++)
		if (!named[d] && b->dim[d] > 1)
			return refuse(e, s, "dimensions", "one of several elements is left out");
	return r->n > 0 || refuse(e, s, "dimensions", "a buffer of one element");
}

ixv_id
runs_place(const struct tir *p, const struct runs *r, const ix_id *number)
{
	struct tx *x = p->tx;
	const struct tir_buf *b = &p->buf[r->buf];
	ix_id at[MAX_RANK];

	for (int d = 0; d < b->rank; d++)
		at[d] = ix_const(x, 0);
	for (uint32_t k = 0; k < r->n; k++) {
		ix_id left = number[k];

		for (int d = r->run[k].last; d > r->run[k].first; d--) {
			at[d] = ix_mod(x, left, b->dim[d]);
			left = ix_div(x, left, b->dim[d]);
		}
		at[r->run[k].first] = left;
	}
	return ixv_make(x, (uint32_t)b->rank, at);
}

void
runs_numbers(const struct tir *p, const struct runs *r, ixv_id place, ix_id *number)
{
	struct tx *x = p->tx;
	const struct tir_buf *b = &p->buf[r->buf];
	const struct ixv at = ixv_get(x, place);

	for (uint32_t k = 0; k < r->n; k++) {
		number[k] = ix_const(x, 0);
		for (int d = r->run[k].first; d <= r->run[k].last; d++)
			number[k] = ix_add(x, ix_mulc(x, number[k], b->dim[d]), at.i[d]);
	}
}
