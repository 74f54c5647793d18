/* kernels/schedule/rule_points.c: on a GPU, a nest over points: all its loops over places as one, in blocks
 * of threads, so that neighbouring threads touch neighbouring elements of what is stored. */
#include "rule_int.h"

/* The loops over places stand outermost, carried orders and elements inside of them. */
static void
sort_loops(struct proposing *q, blk_id b)
{
	struct strbuf was, now;
	struct nest n;

	if (!find_nest_of(&q->p, b, &n))
		return;
	sb_init(&was, q->p.arena);
	sb_init(&now, q->p.arena);
	for (int places = 1; places >= 0; places--)
		for (uint32_t k = 0; k < n.n; k++) {
			const char *name = n.loop[k].name;

			if (loop_counts_places(&q->p, tir_find_loop(&q->p, str_of(name))) == places)
				sb_addf(&now, " %s", name);
			if (places)
				sb_addf(&was, " %s", name);
		}
	if (!str_eq(sb_str(&was), sb_str(&now)))
		(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&now)));
}

/* A loop and its only children as far as all count places: as one; its name. */
static const char *
fuse_places(struct proposing *q, const char *name)
{
	for (;;) {
		const st_id i = tir_find_loop(&q->p, str_of(name)), in = i + 1;

		if (in == q->p.n_st || q->p.st[in].op != ST_for || q->p.st[in].end != q->p.st[i].end ||
		    !loop_counts_places(&q->p, in) || !propose(q, "fuse %s %s", name, q->p.st[in].name))
			return name;
		name = q->p.st[i].name;
	}
}

/* Loops of a nest of one block. */
static void
sort_nest(struct proposing *q, st_id root)
{
	const st_id at = q->p.st[root].end - 1;

	if (q->p.st[at].op == ST_block)
		sort_loops(q, q->p.st[at].ref);
}

/* So many neighbours to a thread, where that leaves nothing over: what the loop over threads is then. */
static const char *
take_neighbours(struct proposing *q, const char *name)
{
	const int64_t n = loop_trips(&q->p, tir_find_loop(&q->p, str_of(name))), v = q->target->chosen.vector;
	const struct tir was = q->p;
	const size_t n_trace = q->trace->n;

	if (v < 2 || n <= v || n % v || !propose(q, "split %s %lld", name, (long long)v))
		return name;
	if (propose(q, "bind %s.i vector", name))
		return arena_printf(q->p.arena, "%s.o", name);
	take_back(q, &was, n_trace);
	return name;
}

/* Whole warps of a block: as many as is asked for, or the target's. */
static int64_t
threads_of_points(const struct proposing *q)
{
	const int64_t asked = q->target->chosen.threads;

	return asked ? asked / q->target->warp * q->target->warp : q->target->threads;
}

/* false: nothing is done.  (Threads alone, in no loop over blocks, would be no kernel of their own.) */
static bool
deal_out(struct proposing *q, const char *all)
{
	const struct tir was = q->p;
	const size_t n_trace = q->trace->n;
	const char *name = take_neighbours(q, all);
	const int64_t n = loop_trips(&q->p, tir_find_loop(&q->p, str_of(name))),
		      threads = threads_of_points(q);

	if (n <= threads ? propose(q, "bind %s lane", name)
			 : propose(q, "split %s %lld", name, (long long)threads) &&
		    propose(q, "bind %s.o block", name) && propose(q, "bind %s.i lane", name))
		return true;
	take_back(q, &was, n_trace);
	return false;
}

/* Nests behind it that go through as many points: all at once.  The name of the loop. */
static const char *
unite_next(struct proposing *q, const char *name)
{
	const st_id i = tir_find_loop(&q->p, str_of(name));

	for (;;) {
		const st_id next = q->p.st[i].end;

		if (next >= q->p.n_st || q->p.st[next].op != ST_for || q->p.st[next].bind != BIND_serial ||
		    !loop_counts_places(&q->p, next))
			return q->p.st[i].name;
		const struct tir was = q->p;
		const size_t n_trace = q->trace->n;

		sort_nest(q, next);
		if (!propose(q, "unite %s %s", q->p.st[i].name, fuse_places(q, q->p.st[next].name))) {
			take_back(q, &was, n_trace);
			return q->p.st[i].name;
		}
	}
}

/* (Only nests behind the k-th become fewer.) */
void
rule_points(struct proposing *q)
{
	for (uint32_t k = 0;; k++) {
		const char *name;
		st_id root = 0;

		for (uint32_t n = 0; n < k && root < q->p.n_st; n++)
			root = q->p.st[root].end;
		if (root == q->p.n_st)
			return;
		if (q->p.st[root].op != ST_for || q->p.st[root].bind != BIND_serial)
			continue;
		sort_nest(q, root);
		if (!loop_counts_places(&q->p, root))
			continue;
		name = fuse_places(q, q->p.st[root].name);
		const struct tir apart = q->p;
		const size_t n_trace = q->trace->n;

		if (deal_out(q, unite_next(q, name)))
			continue;
		take_back(q, &apart, n_trace);
		(void)deal_out(q, name);
	}
}

/* ---- beside ---------------------------------------------------------------------------------------------
 */
static bool
is_of_blocks(const struct tir *p, st_id i)
{
	return i < p->n_st && p->st[i].op == ST_for && p->st[i].bind == BIND_block;
}

void
rule_beside(struct proposing *q)
{
	for (st_id i = 0; i < q->p.n_st;) {
		const st_id next = q->p.st[i].end;

		if (!is_of_blocks(&q->p, i) || !is_of_blocks(&q->p, next) ||
		    !propose(q, "join %s %s", q->p.st[i].name, q->p.st[next].name))
			i = next;
	}
}

/* ---- near -----------------------------------------------------------------------------------------------
 */
/* The innermost loop over places of the block's nest, where that is all of it; NULL. */
static const char *
point_loop(const struct tir *p, blk_id b)
{
	struct nest n;

	if (!find_nest_of(p, b, &n) || !n.is_whole)
		return NULL;
	for (uint32_t k = n.n; k-- > 0;)
		if (loop_counts_places(p, tir_find_loop(p, str_of(n.loop[k].name))))
			return n.loop[k].name;
	return NULL;
}

/* Moves the block into the loop, where that makes one point of it. */
static void
move_point(struct proposing *q, blk_id b, const char *loop)
{
	const struct tir was = q->p;
	const size_t n_trace = q->trace->n;
	st_id path[TIR_DEPTH];
	uint32_t n;

	if (!move_into(q, b, loop, 1))
		return;
	n = tir_path(&q->p, blk_instance(&q->p, b), path);
	if (path[n - 1] != tir_find_loop(&q->p, str_of(loop)))
		take_back(q, &was, n_trace);
}

/* From the last on: what has moved takes along what it reads itself.  (A reduction stays: it would be made by
 * one thread.) */
void
rule_near_points(struct proposing *q)
{
	for (blk_id b = q->p.n_blk; b-- > 0;)
		for (blk_id r = q->p.n_blk; r-- > 0;) {
			const char *loop = blk_stands(&q->p, r) ? point_loop(&q->p, r) : NULL;

			if (r != b && loop && blk_stands(&q->p, b) && q->p.blk[b].comb == COMB_NONE &&
			    blk_reads_buf(&q->p, &q->p.blk[r], q->p.blk[b].out[0]))
				move_point(q, b, loop);
		}
}
