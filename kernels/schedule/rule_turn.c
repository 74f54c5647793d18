/* kernels/schedule/rule_turn.c: a map that stores along one axis what it reads along another moves in square
 * blocks: both loops become tiles, and each such operand's block is staged with its rows turned, so that the
 * map runs along memory on both sides:
 *
 *   for h, for w, for c                          for h~w.o, for c.o
 *     %1[h, w, c] = f(%0[c, h, w])          ->     copy: %0's[h~w, c] = %0[c, h~w]
 *                                                  for h~w.i, for c.i
 *                                                    %1[h, w, c] = f(%0's[h~w, c])
 *
 * What only moves is not staged: its block is stored as it is turned (kernels/codegen/turn.c). */
#include "rule_int.h"

enum { TILE = 16, LEAST_EXTENT = 8, MOST_READS = 32, MOST_TURNED = 4, MOST_SIZE = 200 };

/* Loops that count through every buffer as one. */
struct group {
	uint32_t first, last; /* of the nest's loops */
	int64_t extent;
	int64_t out;              /* elements of the result from one iteration to the next */
	int64_t read[MOST_READS]; /* likewise */
	bool affine;              /* in all of these */
};
struct turn {
	struct proposing *q;
	blk_id blk;
	struct nest nest;
	struct ex read[MOST_READS];
	uint32_t n_read;
	struct group group[TIR_DEPTH];
	uint32_t n_group;
	uint32_t v, w; /* groups: contiguous in the result, and in operands that it reads across */
	buf_id turned[MOST_TURNED];
	uint32_t n_turned;
	bool fits;
};

/* ---- what stands there -------------------------------------------------------------------------------- */
static void
note_read(void *self, const struct ex *read)
{
	struct turn *t = self;

	if (t->n_read == MOST_READS) {
		t->fits = false;
		return;
	}
	t->read[t->n_read++] = *read;
}

/* ---- groups -------------------------------------------------------------------------------------------- */
static void
find_groups(struct turn *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->blk];

	for (uint32_t k = 0; k < t->nest.n; k++) {
		struct group *g = &t->group[t->n_group++];

		*g = (struct group){.first = k, .last = k};
		g->extent = tx_axis_get(p->tx, t->nest.iter[k])->hi + 1;
		g->affine = ix_coef(p->tx, flat_place(p, b->out[0], b->at[0]), t->nest.iter[k], &g->out);
		for (uint32_t r = 0; r < t->n_read; r++)
			g->affine &= ix_coef(p->tx, flat_place(p, t->read[r].tensor, t->read[r].at),
			    t->nest.iter[k], &g->read[r]);
	}
}

static bool
counts_as_one(const struct turn *t, const struct group *a, const struct group *b)
{
	if (!a->affine || !b->affine || a->out != b->extent * b->out)
		return false;
	for (uint32_t r = 0; r < t->n_read; r++)
		if (a->read[r] != b->extent * b->read[r])
			return false;
	return true;
}

static void
join_groups(struct turn *t)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < t->n_group; k++) {
		struct group g = t->group[k];

		if (n && counts_as_one(t, &t->group[n - 1], &g)) {
			g.first = t->group[n - 1].first;
			g.extent *= t->group[n - 1].extent;
			n--;
		}
		t->group[n++] = g;
	}
	t->n_group = n;
}

/* Which two axes, and which operands are read across. */
static bool
find_axes(struct turn *t)
{
	t->v = t->w = UINT32_MAX;
	for (uint32_t k = 0; k < t->n_group; k++)
		if (t->group[k].affine && t->group[k].out == 1 && t->group[k].extent >= LEAST_EXTENT)
			t->v = k;
	for (uint32_t k = 0; k < t->n_group && t->v != UINT32_MAX; k++)
		for (uint32_t r = 0; r < t->n_read && t->w == UINT32_MAX; r++)
			if (k != t->v && t->group[k].affine && t->group[k].extent >= LEAST_EXTENT &&
			    t->group[k].read[r] == 1 && t->group[t->v].read[r] > 1)
				t->w = k;
	for (uint32_t r = 0; r < t->n_read && t->w != UINT32_MAX; r++) {
		bool known = t->group[t->w].read[r] != 1 || t->group[t->v].read[r] <= 1;

		for (uint32_t k = 0; k < t->n_turned; k++)
			known |= t->turned[k] == t->read[r].tensor;
		if (known)
			continue;
		if (t->n_turned == MOST_TURNED)
			return false;
		t->turned[t->n_turned++] = t->read[r].tensor;
	}
	return t->n_turned > 0;
}

/* ---- steps -----------------------------------------------------------------------------------------------
 */
/* A group's loops become one, and that tiles of at most TILE; *outer: empty where one tile is all. */
static bool
tile(struct turn *t, const struct group *g, const char **outer, const char **inner)
{
	struct arena *a = t->q->p.arena;
	const char *name = t->nest.loop[g->first].name;

	for (uint32_t k = g->first + 1; k <= g->last; k++) {
		if (!propose(t->q, "fuse %s %s", name, t->nest.loop[k].name))
			return false;
		name = arena_printf(a, "%s~%s", name, t->nest.loop[k].name);
	}
	*outer = "";
	*inner = name;
	if (g->extent <= TILE)
		return true;
	*outer = arena_printf(a, " %s.o", name);
	*inner = arena_printf(a, "%s.i", name);
	return propose(t->q, "split %s %d", name, TILE);
}

/* Does a dimension of the read hang on a loop of the group? */
static bool
hangs_on(const struct turn *t, ix_id i, const struct group *g)
{
	for (uint32_t k = g->first; k <= g->last; k++)
		if (ix_has(t->q->p.tx, i, t->nest.iter[k]))
			return true;
	return false;
}

static uint32_t
group_of(const struct turn *t, ix_id i)
{
	return hangs_on(t, i, &t->group[t->w]) ? t->w : hangs_on(t, i, &t->group[t->v]) ? t->v : UINT32_MAX;
}

/* first < 0: there is none. */
static void
add_run(struct strbuf *sb, int first, int last)
{
	if (first < 0)
		return;
	sb_addf(sb, "%s%d", sb->n ? "," : "", first);
	if (last > first)
		sb_addf(sb, "~%d", last);
}

/* The copy's dimensions: what neither axis counts, then w as one, then v as one. */
static const char *
turned_view(const struct turn *t, buf_id buf)
{
	const struct tir_buf *b = &t->q->p.buf[buf];
	const uint32_t order[] = {UINT32_MAX, t->w, t->v};
	struct strbuf sb;
	ixv_id at = IXV_NONE;

	for (uint32_t r = 0; r < t->n_read; r++)
		if (t->read[r].tensor == buf)
			at = t->read[r].at;
	sb_init(&sb, t->q->p.arena);
	for (size_t k = 0; k < COUNT_OF(order); k++) {
		int first = -1, last = -1;

		for (int d = 0; d < b->rank; d++) {
			if (b->dim[d] == 1)
				continue;
			if (group_of(t, ixv_get(t->q->p.tx, at).i[d]) != order[k]) {
				add_run(&sb, first, last);
				first = last = -1;
				continue;
			}
			if (k == 0)
				add_run(&sb, d, d);
			else
				first = first < 0 ? d : first;
			last = d;
		}
		add_run(&sb, first, last);
	}
	return sb_str(&sb).p;
}

static bool
tile_block(struct turn *t)
{
	const char *vo, *vi, *wo, *wi;
	struct strbuf rest;

	if (t->nest.n > STEP_NAMES - 2)
		return false;
	sb_init(&rest, t->q->p.arena);
	for (uint32_t k = 0; k < t->n_group; k++)
		for (uint32_t l = t->group[k].first; l <= t->group[k].last && k != t->v && k != t->w; l++)
			sb_addf(&rest, " %s", t->nest.loop[l].name);
	if (!tile(t, &t->group[t->w], &wo, &wi) || !tile(t, &t->group[t->v], &vo, &vi))
		return false;
	return propose(t->q, "reorder%.*s%s%s %s %s", STR_ARG(sb_str(&rest)), wo, vo, wi, vi);
}

/* The loop around the blocks: the one that stands there now, around two loops and the instance. */
static const char *
loop_of_tiles(const struct turn *t)
{
	const struct tir *p = &t->q->p;
	st_id path[TIR_DEPTH];
	uint32_t n = 0;

	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == t->blk)
			n = tir_path(p, i, path);
	return n > 2 ? p->st[path[n - 3]].name : NULL;
}

/* Is a copy more than blocks of TILE by TILE?  A remainder in an operand's index hides which part is read. */
static bool
is_too_wide(const struct turn *t, const char *around)
{
	const struct tir *p = &t->q->p;
	const st_id at = tir_find_loop(p, str_of(around));

	for (st_id i = at + 1; i < p->st[at].end; i = p->st[i].end) {
		int64_t n = 1;

		for (st_id k = i; k < p->st[i].end; k++)
			n *= p->st[k].op == ST_for ? MIN_OF(loop_trips(p, k), (int64_t)1 << 20) : 1;
		if (n > TILE * TILE)
			return true;
	}
	return false;
}

static bool
turn_block(struct turn *t)
{
	const bool moves =
	    ex_get(t->q->p.tx, t->q->p.blk[t->blk].value[0])->kind == EX_READ && t->n_read == 1;
	const char *around;

	if (!tile_block(t))
		return false;
	around = loop_of_tiles(t);
	for (uint32_t k = 0; k < t->n_turned && !moves; k++)
		if (!around ||
		    !propose(t->q, "stage %%%s %s %s", t->q->p.buf[t->turned[k]].name, around,
			turned_view(t, t->turned[k])))
			return false;
	return moves || !is_too_wide(t, around);
}

void
turn_map(struct proposing *q, blk_id blk)
{
	const struct tir before = q->p;
	const size_t n = q->trace->n;
	const struct tir_block *b = &q->p.blk[blk];
	struct turn *t;

	if (b->comb != COMB_NONE || b->n_out != 1 || ex_get(q->p.tx, b->value[0])->size > MOST_SIZE)
		return;
	t = NEW(q->p.arena, struct turn);
	t->q = q;
	t->blk = blk;
	t->fits = true;
	if (!find_nest_of(&q->p, blk, &t->nest) || !t->nest.is_whole)
		return;
	ex_reads(q->p.tx, b->value[0], note_read, t);
	if (!t->fits)
		return;
	find_groups(t);
	join_groups(t);
	if (!find_axes(t) || turn_block(t))
		return;
	take_back(q, &before, n); /* all of it or nothing */
}

void
rule_turn(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk && !joins_rows_only(&q->p); b++)
		turn_map(q, b);
}
