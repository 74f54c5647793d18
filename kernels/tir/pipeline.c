/* kernels/tir/pipeline.c: what of a loop's body may run ahead.  From the begin of the body on, what stores
 * into buffers of the iteration alone, that nothing else stores into, and reads what the loop does not store.
 */
#include "pipeline.h"
#include "verify_int.h"

#include <string.h>

struct finding {
	const struct tir *p;
	st_id loop, child;  /* a statement of the body */
	uint32_t *n_allocs; /* of each buffer, in the program */
	st_id *alloc;       /* in the body: by that statement of it; ST_NONE */
	st_id *maker;       /* the statement of the body that stores into it; ST_NONE; the loop: several */
	bool ok;
};

static void
note_maker(void *self, const struct touch *t)
{
	struct finding *f = self;

	if (t->stores)
		f->maker[t->buf] =
		    f->maker[t->buf] == ST_NONE || f->maker[t->buf] == f->child ? f->child : f->loop;
}

static void
note_all(struct finding *f)
{
	const struct tir *p = f->p;

	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_alloc)
			f->n_allocs[p->st[i].ref]++;
	for (f->child = f->loop + 1; f->child < p->st[f->loop].end; f->child = p->st[f->child].end)
		for (st_id i = f->child; i < p->st[f->child].end; i++) {
			if (p->st[i].op == ST_alloc)
				f->alloc[p->st[i].ref] = f->child;
			tir_touches(p, i, note_maker, f);
		}
}

/* Of the iteration: allocated by a statement of the body itself, there alone. */
static bool
is_own(const struct finding *f, buf_id b)
{
	return f->alloc[b] != ST_NONE && f->p->st[f->alloc[b]].op == ST_alloc && f->n_allocs[b] == 1;
}

static void
look(void *self, const struct touch *t)
{
	struct finding *f = self;
	const struct tir_buf *b = &f->p->buf[t->buf];

	if (f->alloc[t->buf] == f->child) /* allocated inside */
		return;
	if (t->stores)
		f->ok &= is_own(f, t->buf) && f->maker[t->buf] == f->child && b->rank < MAX_RANK &&
		    !b->fold && b->layout == IXV_NONE;
	else
		f->ok &= f->alloc[t->buf] == ST_NONE && f->maker[t->buf] == ST_NONE;
}

/* May the statement of the body run ahead?  What joins stays: it is the work to do meanwhile. */
static bool
runs_ahead(struct finding *f, st_id child)
{
	const struct tir *p = f->p;

	f->child = child;
	f->ok = true;
	for (st_id i = child; i < p->st[child].end && f->ok; i++) {
		f->ok &= p->st[i].op != ST_let && p->st[i].op != ST_sync &&
		    (p->st[i].op != ST_block || p->blk[p->st[i].ref].comb == COMB_NONE);
		tir_touches(p, i, look, f);
	}
	return f->ok;
}

static void
take_made(void *self, const struct touch *t)
{
	struct pipeline *l = self;

	l->staged[t->buf] |= t->stores;
}

static void
take(const struct finding *f, st_id child, struct pipeline *out)
{
	for (st_id i = child; i < f->p->st[child].end; i++)
		tir_touches(f->p, i, take_made, out);
	for (buf_id b = 0; b < f->p->n_buf; b++) {
		out->staged[b] &= f->alloc[b] != child;
		out->waits |= out->staged[b] && f->p->buf[b].scope == SCOPE_shared;
	}
}

static bool
differs(const char **rule, const char **why, const char *r, const char *w)
{
	*rule = r;
	*why = w;
	return false;
}

bool
pipeline_find(const struct tir *p, st_id loop, struct pipeline *out, const char **rule, const char **why)
{
	const struct st *l = &p->st[loop];
	struct finding f = {.p = p, .loop = loop};
	uint32_t n_ahead = 0, n_rest = 0;
	int64_t from, to;

	if (!ix_is_const(p->tx, l->from, &from) || !ix_is_const(p->tx, l->to, &to))
		return differs(rule, why, "extent", "the loop's bounds hang on another loop");
	if (l->depth < 2 || to - from < l->depth)
		return differs(rule, why, "depth", "not between two and the loop's iterations");
	f.n_allocs = NEW_ARRAY(p->arena, uint32_t, p->n_buf + 1);
	f.alloc = NEW_ARRAY(p->arena, st_id, p->n_buf + 1);
	f.maker = NEW_ARRAY(p->arena, st_id, p->n_buf + 1);
	memset(f.alloc, 0xff, p->n_buf * sizeof(*f.alloc));
	memset(f.maker, 0xff, p->n_buf * sizeof(*f.maker));
	note_all(&f);
	*out = (struct pipeline){.staged = NEW_ARRAY(p->arena, bool, p->n_buf + 1), .rest = loop + 1};
	for (; out->rest < l->end; out->rest = p->st[out->rest].end) {
		const enum st_op op = p->st[out->rest].op;

		if (op == ST_alloc || op == ST_sync)
			continue;
		if (!runs_ahead(&f, out->rest))
			break;
		take(&f, out->rest, out);
		n_ahead++;
	}
	for (st_id i = out->rest; i < l->end; i = p->st[i].end)
		n_rest += p->st[i].op != ST_alloc && p->st[i].op != ST_sync;
	if (n_ahead == 0)
		return differs(
		    rule, why, "copies", "nothing at the begin of the body may run ahead of the rest");
	return n_rest > 0 || differs(rule, why, "rest", "nothing stays that would run meanwhile");
}

bool
pipelines_hold(const struct tir *p, struct err *e)
{
	struct pipeline l;
	const char *rule, *why;

	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_for && p->st[i].bind == BIND_pipeline &&
		    !pipeline_find(p, i, &l, &rule, &why))
			return broken(e, rule, p, i, why);
	return true;
}
