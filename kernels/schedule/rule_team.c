/* kernels/schedule/rule_team.c: on a GPU, nests that share a row's loop, or a long sum along memory: a block
 * takes a row, its threads neighbouring elements; sums are partial results of each thread, joined by all
 * together. */
#include "rule_int.h"

#include <string.h>

/* WARP_ROW, SMALL_ROW: elements up to which a warp, or four, are enough for a row; ONE_ROW: a block. */
enum { LONG_SUM = 64, WARP_ROW = 256, SMALL_ROW = 1024, ONE_ROW = 1 << 14, MOST_NESTS = 64 };

static st_id
loop_named(const struct proposing *q, const char *name)
{
	return tir_find_loop(&q->p, str_of(name));
}

/* Elements that a block joins for one point of the loops up to `outer`, and points that it makes there. */
static int64_t
size_below(const struct tir *p, st_id outer, st_id instance, bool elements)
{
	st_id path[TIR_DEPTH];
	int64_t n = 1;

	for (uint32_t k = tir_path(p, instance, path); k-- > 0 && path[k] != outer;)
		if (p->st[path[k]].op == ST_for &&
		    binds_kind(p, &p->st[instance], p->st[path[k]].axis, ITER_REDUCE) == elements)
			n *= MIN_OF(loop_trips(p, path[k]), INT64_MAX >> 32);
	return n;
}

/* ---- which rows ------------------------------------------------------------------------------------------
 */
/* The loop along memory counts elements of a long sum in some nest of the row: threads that take neighbours
 * read neighbours. */
static bool
has_long_sum(const struct tir *p, st_id row)
{
	for (st_id i = row; i < p->st[row].end; i++) {
		const struct st *s = &p->st[i];
		st_id along;

		if (s->op != ST_block || !blk_joins_rows(p, s->ref) ||
		    size_below(p, row, i, true) < LONG_SUM || size_below(p, row, i, false) > 1)
			continue;
		along = loop_along_memory(p, s->ref);
		if (along != ST_NONE && binds_kind(p, s, p->st[along].axis, ITER_REDUCE))
			return true;
	}
	return false;
}

/* As many as the row's longest nest keeps busy, and its shortest that is dealt out at all. */
static int64_t
threads_for(const struct tir *p, st_id row, int64_t warp)
{
	int64_t most = 0, least = INT64_MAX, t;

	for (st_id i = row; i < p->st[row].end; i++) {
		if (p->st[i].op != ST_block)
			continue;
		int64_t elements = size_below(p, row, i, true), points = size_below(p, row, i, false),
			n = points > 1 ? points : elements;

		most = MAX_OF(most, n);
		if (n >= warp)
			least = MIN_OF(least, n);
	}
	t = most <= WARP_ROW ? warp : most <= SMALL_ROW ? 4 * warp : 8 * warp;
	while (t > least)
		t /= 2;
	return MAX_OF(t, warp);
}

/* ---- a nest of the row ------------------------------------------------------------------------------------
 */
/* The loops of the nest that count elements (or places), as one; NULL: there is none. */
static const char *
fuse_kind(struct proposing *q, const char *first, bool places)
{
	const char *name = first;

	for (;;) {
		st_id i = loop_named(q, name), in = i + 1;

		if (in == q->p.n_st || q->p.st[in].op != ST_for || q->p.st[in].end != q->p.st[i].end ||
		    loop_counts_places(&q->p, in) != places ||
		    !propose(q, "fuse %s %s", name, q->p.st[in].name))
			return name;
		name = q->p.st[i].name;
	}
}

/* What threads store for each other is shared. */
static void
share(struct proposing *q, blk_id b)
{
	const struct tir_buf *f = &q->p.buf[q->p.blk[b].out[0]];

	if (f->scope == SCOPE_local)
		(void)propose(q, "share %%%s", f->name);
}

/* Its points, every so many-th to a thread. */
static bool
deal_points(struct proposing *q, const char *loop, int64_t threads)
{
	const blk_id b = q->p.st[q->p.st[loop_named(q, loop)].end - 1].ref;
	const char *name = fuse_kind(q, loop, true);
	const int64_t n = loop_trips(&q->p, loop_named(q, name));

	if (n < threads)
		return true; /* all threads make all of them */
	share(q, b);
	if (n == threads)
		return propose(q, "bind %s lane", name);
	return propose(q, "split %s %lld", name, (long long)threads) && propose(q, "bind %s.i lane", name);
}

/* Its elements likewise: a partial result a thread. */
static bool
deal_elements(struct proposing *q, const char *loop, int64_t threads)
{
	const blk_id b = q->p.st[q->p.st[loop_named(q, loop)].end - 1].ref, part = q->p.n_blk;
	const char *name = fuse_kind(q, loop, false), *lane, *turn;
	const int64_t n = loop_trips(&q->p, loop_named(q, name));
	st_id at, path[TIR_DEPTH];
	uint32_t depth;

	(void)b;
	if (n < threads)
		return true;
	if (n > threads && !propose(q, "split %s %lld guard", name, (long long)threads))
		return false;
	if (!propose(q, n > threads ? "rfactor %s.i" : "rfactor %s", name))
		return false;
	share(q, part);
	at = blk_instance(&q->p, part);
	depth = tir_path(&q->p, at, path);
	lane = q->p.st[path[depth - 1]].name;
	if (n > threads) {
		turn = q->p.st[path[depth - 2]].name;
		if (!propose(q, "reorder %s %s", lane, turn))
			return false;
	}
	return propose(q, "bind %s lane", lane);
}

static bool
is_nest_of_one(const struct tir *p, st_id i)
{
	for (; p->st[i].op == ST_for; i++)
		if (p->st[i].end != p->st[i + 1].end)
			return false;
	return p->st[i].op == ST_block;
}

/* ---- a row ------------------------------------------------------------------------------------------------
 */
/* Does what stands outside of loops over threads store only what each of them has, or nobody of the row
 * reads? */
static bool
is_dealt(const struct tir *p, st_id row)
{
	st_id path[TIR_DEPTH];

	for (st_id i = row; i < p->st[row].end; i++) {
		bool of_thread = false;
		const struct tir_block *b = &p->blk[p->st[i].ref];

		if (p->st[i].op != ST_block)
			continue;
		for (uint32_t k = tir_path(p, i, path); k-- > 0;)
			of_thread |= p->st[path[k]].bind == BIND_lane && p->st[path[k]].op == ST_for;
		for (uint32_t o = 0; o < b->n_out && !of_thread; o++) {
			if (p->buf[b->out[o]].scope == SCOPE_shared ||
			    (p->buf[b->out[o]].scope == SCOPE_global && b->comb != COMB_NONE &&
				size_below(p, row, i, false) > 1))
				return false;
			for (st_id r = row; r < p->st[row].end && p->buf[b->out[o]].scope == SCOPE_global;
			     r++)
				if (p->st[r].op == ST_block && r != i &&
				    blk_reads_buf(p, &p->blk[p->st[r].ref], b->out[o]))
					return false;
		}
	}
	return true;
}

static bool
deal_row(struct proposing *q, const char *row)
{
	const int64_t threads = threads_for(&q->p, loop_named(q, row), q->target->warp);
	const char *nest[MOST_NESTS];
	uint32_t n = 0;
	st_id root;

	if (!propose(q, "bind %s block", row))
		return false;
	root = loop_named(q, row);
	for (st_id i = root + 1; i < q->p.st[root].end; i = q->p.st[i].end) {
		if (q->p.st[i].op != ST_for)
			continue;
		if (!is_nest_of_one(&q->p, i) || n == MOST_NESTS)
			return false;
		nest[n++] = q->p.st[i].name;
	}
	for (uint32_t k = 0; k < n; k++)
		if (!(loop_counts_places(&q->p, loop_named(q, nest[k])) ? deal_points : deal_elements)(
			q, nest[k], threads))
			return false;
	return is_dealt(&q->p, loop_named(q, row));
}

/* The loops over rows as one, as far as they are each other's only child: those around the long sum, and
 * inside of them what has one itself. */
static const char *
fuse_rows(struct proposing *q, const char *root)
{
	const char *name = root;

	for (;;) {
		st_id i = loop_named(q, name), in = i + 1;

		if (q->p.st[in].op != ST_for || q->p.st[in].end != q->p.st[i].end ||
		    !loop_counts_places(&q->p, in) || (has_long_sum(&q->p, i) && !has_long_sum(&q->p, in)) ||
		    !propose(q, "fuse %s %s", name, q->p.st[in].name))
			return name;
		name = q->p.st[i].name;
	}
}

/* (Steps leave the number of outermost nests.) */
void
rule_team(struct proposing *q)
{
	uint32_t n_roots = 0;

	for (st_id i = 0; i < q->p.n_st; i = q->p.st[i].end)
		n_roots++;
	for (uint32_t k = 0; k < n_roots; k++) {
		const struct tir was = q->p;
		const size_t n_trace = q->trace->n;
		st_id root = 0;

		for (uint32_t n = 0; n < k; n++)
			root = q->p.st[root].end;
		if (q->p.st[root].op != ST_for || q->p.st[root].bind == BIND_block ||
		    !loop_counts_places(&q->p, root))
			continue;
		const char *row = fuse_rows(q, q->p.st[root].name);

		if (!has_long_sum(&q->p, loop_named(q, row)) || !deal_row(q, row))
			take_back(q, &was, n_trace);
	}
}

/* ---- one row --------------------------------------------------------------------------------------------
 */
/* Elements of all that the nest of statement i does. */
static int64_t
work_below(const struct tir *p, st_id root)
{
	int64_t all = 0;

	for (st_id i = root; i < p->st[root].end; i++)
		if (p->st[i].op == ST_block)
			all += size_below(p, ST_NONE, i, true) * size_below(p, ST_NONE, i, false);
	return all;
}

/* A long sum of everything, and nothing that more than a block would be for. */
void
rule_one(struct proposing *q)
{
	const struct tir *p = &q->p;
	blk_id first = BLK_NONE, last = BLK_NONE;
	bool any = false;

	for (st_id root = 0; root < p->n_st; root = p->st[root].end) {
		if (work_below(p, root) > ONE_ROW)
			return;
		for (st_id i = root; i < p->st[root].end; i++) {
			if (p->st[i].op != ST_block)
				continue;
			if (first == BLK_NONE)
				first = p->st[i].ref;
			last = p->st[i].ref;
			any |= blk_joins_rows(p, last) && size_below(p, ST_NONE, i, false) == 1 &&
			    size_below(p, ST_NONE, i, true) >= LONG_SUM;
		}
	}
	const struct tir was = *p;
	const size_t n_trace = q->trace->n;

	if (any && propose(q, "enclose %s %s", p->blk[first].name, p->blk[last].name) &&
	    !deal_row(q, q->p.st[0].name))
		take_back(q, &was, n_trace);
}
