/* kernels/codegen/threads.c: a GPU's loops: how many threads the block of a pass has, and what a printer
 * needs to hold of them. */
#include "codegen_int.h"

enum { MOST_THREADS = 1024, MOST_SHARED = 48 << 10 };

static int64_t
trips(const struct tir *p, const struct st *s)
{
	int64_t from, to;

	return ix_is_const(p->tx, s->from, &from) && ix_is_const(p->tx, s->to, &to) ? to - from : 0;
}

struct threads
threads_of(const struct tir *p, st_id first, st_id end)
{
	struct threads t = {1, 1};

	for (st_id i = first; i < end; i++) {
		if (!st_is_thread(&p->st[i]))
			continue;
		if (p->st[i].bind == BIND_warp)
			t.warps = trips(p, &p->st[i]);
		else
			t.lanes = trips(p, &p->st[i]);
	}
	return t;
}

/* ---- what holds ---------------------------------------------------------------------------------------- */
uint32_t
threads_around(const struct tir *p, st_id i, st_id *lane)
{
	st_id path[TIR_DEPTH];
	uint32_t n = 0;

	*lane = ST_NONE;
	for (uint32_t k = tir_path(p, i, path); k-- > 0;)
		if (st_is_thread(&p->st[path[k]]) && n++ == 0)
			*lane = path[k];
	return n;
}

static bool
check_loop(const struct tir *p, st_id first, st_id i, struct err *e)
{
	const struct st *s = &p->st[i];
	st_id lane;
	uint32_t around = threads_around(p, i, &lane);

	if (s->bind == BIND_parallel)
		return err_set(e, ERR_INFEASIBLE, "binding: no CUDA for %s", tir_bind_name[s->bind]);
	if (s->bind == BIND_block && i != first)
		return err_set(e, ERR_INFEASIBLE, "binding: blocks are no outermost loop");
	if (st_is_gpu_loop(s) && trips(p, s) == 0)
		return err_set(e, ERR_INFEASIBLE, "range: blocks and threads have no constant bounds");
	/* a thread is told by its number in all of them, or warps and lanes are in none */
	if (s->bind == BIND_lane && around == 0 && threads_of(p, first, p->st[first].end).warps > 1)
		return err_set(e, ERR_INFEASIBLE, "binding: lanes stand in warps, or no loop is of warps");
	return true;
}

/* Is the buffer read in the pass? */
static bool
is_read(const struct tir *p, st_id first, st_id end, buf_id buf)
{
	struct accesses l = {.n = 0};

	for (st_id i = first; i < end; i++) {
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++)
			if (l.at[k].buf == buf && !l.at[k].stores)
				return true;
	}
	return false;
}

/* Outside of loops over threads one of them stores: what the others read needs a loop over threads. */
static bool
check_store(const struct tir *p, st_id first, st_id i, struct err *e)
{
	const buf_id buf = p->st[i].ref;
	st_id lane;

	if (in_register(&p->buf[buf]) || p->buf[buf].scope == SCOPE_local || threads_around(p, i, &lane) > 0)
		return true;
	if (p->buf[buf].scope == SCOPE_global && !is_read(p, first, p->st[first].end, buf))
		return true;
	return err_set(e, ERR_INFEASIBLE, "scope: threads read what none of them stores as such");
}

static bool
check_shared(const struct tir *p, st_id first, st_id end, struct err *e)
{
	int64_t bytes = 0;

	for (st_id i = first; i < end; i++) {
		const struct tir_buf *b = &p->buf[p->st[i].ref];

		if (p->st[i].op == ST_alloc && b->scope == SCOPE_shared)
			bytes += b->dim[0] * (int64_t)dtype_size(b->type);
	}
	return bytes <= MOST_SHARED ||
	    err_set(e, ERR_INFEASIBLE, "shared: a block has at most %d bytes", MOST_SHARED);
}

bool
threads_check(const struct tir *p, struct err *e)
{
	for (st_id first = 0, end; first < p->n_st; first = end) {
		const struct threads t = threads_of(p, first, p->st[first].end);

		const bool has_threads = t.warps * t.lanes > 1;

		end = p->st[first].end;
		if (t.warps * t.lanes > MOST_THREADS)
			return err_set(e, ERR_INFEASIBLE, "threads: a block has at most %d", MOST_THREADS);
		if (!check_shared(p, first, end, e))
			return false;
		for (st_id i = first; i < end; i++)
			if ((p->st[i].op == ST_for && !check_loop(p, first, i, e)) ||
			    (p->st[i].op == ST_store && has_threads && !check_store(p, first, i, e)))
				return false;
	}
	return true;
}
