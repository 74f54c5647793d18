/* kernels/schedule/share.c: share BUFFER: what one iteration of a loop bound `block` has of a buffer is there
 * once for all of its threads, and barriers stand between those that store and those that read. */
#include "step_int.h"

bool
step_share(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	st_id path[TIR_DEPTH];
	buf_id buf = BUF_NONE;
	bool is_of_block = false;

	const struct str name = {s->name[0].p + 1, s->name[0].n - 1};

	for (buf_id b = 0; b < p->n_buf && s->name[0].n && s->name[0].p[0] == '%'; b++)
		if (str_is(name, p->buf[b].name))
			buf = b;
	if (buf == BUF_NONE)
		return refuse(e, s, "name", "no such buffer");
	if (p->buf[buf].scope != SCOPE_local)
		return refuse(e, s, "scope", "not a buffer of a loop's iteration");
	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_alloc || p->st[i].ref != buf)
			continue;
		for (uint32_t k = tir_path(p, i, path); k-- > 0;) {
			const struct st *l = &p->st[path[k]];

			is_of_block |= l->op == ST_for && l->bind == BIND_block;
			if (l->op == ST_for && l->bind != BIND_block &&
			    (is_of_threads(l) || l->bind == BIND_vector))
				return refuse(e, s, "threads", "it is made by each thread for itself");
		}
	}
	if (!is_of_block)
		return refuse(e, s, "block", "no loop around it is bound to blocks");
	tir_rewrite(out, p, NULL, NULL);
	out->buf[buf].scope = SCOPE_shared;
	return true;
}
