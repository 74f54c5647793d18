/* kernels/interp/program_race.c: two accesses to an element, one of them a store, that nothing orders. */
#include "program_int.h"

uint32_t
who_new(struct run_state *r, uint32_t up, uint32_t loop, uint32_t iteration, uint32_t n_threads)
{
	GROW(r->a, r->who, r->n_who, r->cap_who);
	r->who[r->n_who] = (struct who){.up = up,
	    .depth = r->n_who ? r->who[up].depth + 1 : 0,
	    .loop = loop,
	    .iteration = iteration,
	    .n_threads = n_threads};
	return r->n_who++;
}

/* Are they other threads?  A warp together is each of its threads. */
static bool
are_apart(const struct who *x, const struct who *y)
{
	const uint32_t least = MIN_OF(x->n_threads, y->n_threads);

	return x->iteration / (x->n_threads / least) != y->iteration / (y->n_threads / least);
}

/* Are the two unordered?  They part below the node that both are under.  What a block does outside of its
 * threads each of them does, in registers of its own: so that is in order with what they do to these. */
static bool
meets(const struct run_state *r, buf_id buf, struct stamp a, struct stamp b)
{
	const bool own = r->p->buf[buf].scope <= SCOPE_spread;
	uint32_t p = a.who, q = b.who, below_p = NOBODY, below_q = NOBODY;

	if (p == NOBODY || q == NOBODY)
		return false;
	while (p != q) {
		bool deeper = r->who[p].depth >= r->who[q].depth, both = r->who[p].depth == r->who[q].depth;

		if (!deeper || both) {
			below_q = q;
			q = r->who[q].up;
		}
		if (deeper) {
			below_p = p;
			p = r->who[p].up;
		}
	}
	const struct who *x = &r->who[below_p ? below_p : below_q], *y = &r->who[below_q ? below_q : below_p];

	if (x == y) /* one is around the other: in order, but for a block's threads */
		return (below_p || below_q) && x->n_threads && a.epoch == b.epoch && !own;
	if (x->n_threads && y->n_threads)
		return are_apart(x, y) && a.epoch == b.epoch;
	return x->loop == y->loop && x->iteration != y->iteration;
}

void
check_read(struct run_state *r, const struct thread *t, struct memory *m, buf_id b, int64_t at)
{
	struct stamp now = {t->who, r->epoch};

	if (meets(r, b, m->writer[at], now))
		run_fail(r, "race", "%%%s[%lld] is read, and stored by another iteration", r->p->buf[b].name,
		    (long long)at);
	if (m->reader[at].who != now.who)
		m->reader2[at] = m->reader[at];
	m->reader[at] = now;
}

void
check_write(struct run_state *r, const struct thread *t, struct memory *m, buf_id b, int64_t at)
{
	struct stamp now = {t->who, r->epoch};

	if (meets(r, b, m->writer[at], now) || meets(r, b, m->reader[at], now) ||
	    meets(r, b, m->reader2[at], now))
		run_fail(r, "race", "%%%s[%lld] is stored, and touched by another iteration",
		    r->p->buf[b].name, (long long)at);
	m->writer[at] = now;
}
