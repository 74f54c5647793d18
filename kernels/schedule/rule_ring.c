/* kernels/schedule/rule_ring.c: nests in tiles that read each other row by row, with more between them than
 * lies near, go through the image together, some rows of the result a step; rows of a window stay for the
 * next one:
 *
 *   for y: %1 row y                              for y.o: for y.i
 *   for y: %2 row y of %1 rows y .. y + 2   ->     rows of %1 that are new to the window
 *   for y: %3 row y of %2 row y                    %2 row y
 *                                                  %3 row y
 *
 * A step's first row makes all of its window, which a step before it has made, too: so it has several. */
#include "tile_int.h"

enum {
	NEAR = 16,       /* first caches: what two nests have between them and is less stays where it is */
	STEPS = 8,       /* of all rows at least, for threads */
	LEAST_ROWS = 16, /* of a step */
};

/* Does the block make a large temp, in a nest of its own? */
static bool
is_large(const struct proposing *q, blk_id b)
{
	const struct tir *p = &q->p;
	const struct tir_buf *f = &p->buf[p->blk[b].out[0]];

	return blk_stands(p, b) && p->blk[b].n_out == 1 && f->role == BUF_TEMP && f->scope == SCOPE_global &&
	    places_of(p, p->blk[b].out[0]) * (int64_t)dtype_size(f->type) >
	    NEAR * MAX_OF(q->target->l1_bytes, (int64_t)1);
}

/* The outermost loop around the block; ST_NONE: it has none, or counts no places alone. */
static st_id
root_of(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH], at = only_instance(p, b);

	if (at == ST_NONE || tir_path(p, at, path) == 0 || p->st[path[0]].op != ST_for ||
	    p->st[path[0]].bind != BIND_serial || !loop_counts_places(p, path[0]))
		return ST_NONE;
	return path[0];
}

/* A divisor, where there is one that is not far from what is wanted. */
static int64_t
rows_of_step(const struct proposing *q, int64_t rows)
{
	const int64_t chosen = q->target->chosen.block,
		      wanted = chosen ? chosen : MAX_OF(rows / STEPS, (int64_t)LEAST_ROWS);

	for (int64_t n = wanted; n > wanted / 2; n--)
		if (rows % n == 0)
			return n;
	return wanted;
}

struct stream {
	struct proposing *q;
	const char *loop;           /* over rows of a step */
	const char *row[TIR_DEPTH]; /* loops over rows that are new to a window, of nests that have moved */
	uint32_t n_row;
	uint32_t n_moved;
};

/* Moves the block's nest to the loop; trips: of the loop over its rows there, 1: there is none. */
static bool
move_to(struct stream *t, blk_id b, const char *loop, const char **rows, int64_t *trips)
{
	const struct tir *p = &t->q->p;
	const st_id root = root_of(p, b);

	if (root == ST_NONE)
		return false;
	*rows = p->st[root].name;
	if (!propose(t->q, "compute_at %s %s", p->blk[b].name, loop))
		return false;
	*trips = loop_trips(p, tir_find_loop(p, str_of(*rows)));
	return true;
}

/* A row is made where a window's new rows are, if it is what these read; else where the step's row is, and
 * what its window has of the one before stays. */
static void
move(struct stream *t, blk_id b)
{
	const struct tir before = t->q->p;
	const size_t n = t->q->trace->n;
	const char *rows;
	int64_t trips;

	for (uint32_t k = t->n_row; k-- > 0; take_back(t->q, &before, n))
		if (move_to(t, b, t->row[k], &rows, &trips) && trips == 1) {
			t->n_moved++;
			return;
		}
	if (move_to(t, b, t->loop, &rows, &trips) &&
	    (trips == 1 || propose(t->q, "slide %s %s", before.blk[b].name, t->loop))) {
		t->n_moved++;
		if (trips > 1 && t->n_row < TIR_DEPTH)
			t->row[t->n_row++] = rows;
		return;
	}
	take_back(t->q, &before, n);
}

/* All that the nest reads, and what that reads, into steps of rows of it. */
static void
stream(struct proposing *q, blk_id last, st_id root)
{
	const struct tir before = q->p;
	const size_t n = q->trace->n;
	const char *loop = q->p.st[root].name;
	const int64_t trips = loop_trips(&q->p, root), rows = rows_of_step(q, trips);
	struct stream t = {.q = q, .n_row = 0};

	if (trips < 2 * rows || !propose(q, "split %s %lld guard", loop, (long long)rows))
		return;
	t.loop = arena_printf(q->p.arena, "%s.i", loop);
	for (blk_id b = last; b-- > 0;)
		if (is_large(q, b))
			move(&t, b);
	if (t.n_moved == 0)
		take_back(q, &before, n);
}

/* The outermost loop is of the block's own rows: it has not gone to another one's. */
static bool
is_own(const struct tir *p, blk_id b, st_id root)
{
	const struct str name = str_of(p->blk[b].name);

	return str_starts(str_of(p->st[root].name), p->blk[b].name) && p->st[root].name[name.n] == '.';
}

void
rule_ring(struct proposing *q)
{
	for (blk_id b = q->p.n_blk; b-- > 0;) {
		const st_id root =
		    blk_stands(&q->p, b) && blk_is_tiled(&q->p, b) ? root_of(&q->p, b) : ST_NONE;

		if (root != ST_NONE && is_own(&q->p, b, root))
			stream(q, b, root);
	}
}
