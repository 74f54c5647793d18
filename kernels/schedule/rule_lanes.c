/* kernels/schedule/rule_lanes.c: reductions run in lanes of a register: along memory by partial results of
 * every 32nd element, across it by neighbours that are joined side by side. */
#include "rule_int.h"

#include <string.h>

/* IN_CACHE: bytes of a plane of which a few columns at a time are joined; of a larger one whole rows. */
enum { LEAST_LANES = 8, MOST_LANES = 32, MOST_NEIGHBOURS = 64, IN_CACHE = 128 << 10, LONG_ROW = 1024 };

/* A reduction's nest: its instance, and the loops around it. */
struct reduction {
	const struct tir *p;
	st_id at, path[TIR_DEPTH];
	uint32_t n_path;
};

static struct reduction
reduction_of(const struct tir *p, blk_id b)
{
	struct reduction n = {.p = p, .at = blk_instance(p, b)};

	n.n_path = tir_path(p, n.at, n.path);
	return n;
}

/* Elements of memory between two iterations of the loop, at a place of a buffer; -1: that is not one number.
 */
static int64_t
stride(const struct reduction *n, st_id loop, buf_id buf, ixv_id place)
{
	struct tx *x = n->p->tx;
	struct ixv at = ixv_get(x, place);
	ix_id flat = ix_const(x, 0), lo, hi;
	int64_t coef;

	for (uint32_t d = 0; d < at.n; d++)
		flat = ix_add(x, ix_mulc(x, flat, n->p->buf[buf].dim[d]), at.i[d]);
	instance_region(n->p, n->at, n->at, flat, &lo, &hi);
	return ix_coef(x, lo, n->p->st[loop].axis, &coef) ? coef : -1;
}

/* Elements that an access touches in the whole nest, where the loop goes through them one by one; else 0. */
static double
touched(const struct reduction *n, st_id loop, buf_id buf, ixv_id place)
{
	double all = 1;

	if (stride(n, loop, buf, place) != 1)
		return 0;
	for (uint32_t k = 0; k < n->n_path; k++)
		if (n->p->st[n->path[k]].op == ST_for && stride(n, n->path[k], buf, place) != 0)
			all *= (double)loop_trips(n->p, n->path[k]);
	return all;
}

/* What reads and the store touch along the loop: a large array counts more than a column of results. */
static double
votes(const struct reduction *n, st_id loop)
{
	const struct tir_block *b = &n->p->blk[n->p->st[n->at].ref];
	double all = touched(n, loop, b->out[0], b->at[0]);

	for (buf_id k = 0; k < n->p->n_buf; k++) {
		uint32_t n_at;
		ixv_id *at = blk_places_read(n->p, b, k, &n_at);

		for (uint32_t i = 0; i < n_at; i++)
			all += touched(n, loop, k, at[i]);
	}
	return loop_trips(n->p, loop) < LEAST_LANES ? all / 4 : all;
}

/* Do both loops go through every place as one would? */
static bool
go_as_one(const struct reduction *n, st_id outer, st_id inner)
{
	const struct tir_block *b = &n->p->blk[n->p->st[n->at].ref];
	int64_t trips = loop_trips(n->p, inner);

	for (buf_id k = 0; k < n->p->n_buf; k++) {
		uint32_t n_at;
		ixv_id *at = blk_places_read(n->p, b, k, &n_at);

		for (uint32_t i = 0; i < n_at; i++) {
			int64_t by = stride(n, inner, k, at[i]);

			if (by < 0 || stride(n, outer, k, at[i]) != by * trips)
				return false;
		}
	}
	return true;
}

static bool
counts_elements(const struct reduction *n, st_id loop)
{
	return binds_kind(n->p, &n->p->st[n->at], n->p->st[loop].axis, ITER_REDUCE);
}

/* The loop along memory; ST_NONE: none. */
static st_id
vector_loop(const struct reduction *n)
{
	st_id best = ST_NONE;
	double most = 0;

	for (uint32_t k = 0; k < n->n_path; k++) {
		double v = n->p->st[n->path[k]].op == ST_for ? votes(n, n->path[k]) : 0;

		if (v > 0 && v >= most) {
			most = v;
			best = n->path[k];
		}
	}
	return best;
}

st_id
loop_along_memory(const struct tir *p, blk_id b)
{
	struct reduction n = reduction_of(p, b);

	return vector_loop(&n);
}

bool
loop_strides(const struct tir *p, blk_id b, st_id loop)
{
	const struct reduction n = reduction_of(p, b);

	for (buf_id k = 0; k < p->n_buf; k++) {
		uint32_t n_at;
		ixv_id *at = blk_places_read(p, &p->blk[b], k, &n_at);

		for (uint32_t i = 0; i < n_at; i++)
			if (stride(&n, loop, k, at[i]) < 0)
				return false;
	}
	return true;
}

bool
strides_in(const struct tir *p, blk_id b, const char *loop)
{
	const st_id l = tir_find_loop(p, str_of(loop));

	return blk_joins_rows(p, b) && loop_trips(p, l) >= LEAST_LANES / 2 && loop_along_memory(p, b) == l;
}

/* The innermost loop, and those around it that it continues, as one loop over elements. */
static void
fuse_elements(struct proposing *q, blk_id b)
{
	for (;;) {
		struct reduction n = reduction_of(&q->p, b);
		st_id v = vector_loop(&n), u = v - 1;

		if (v == ST_NONE || v == 0 || v != n.path[n.n_path - 1] || q->p.st[u].op != ST_for ||
		    q->p.st[u].end != q->p.st[v].end || !counts_elements(&n, u) || !counts_elements(&n, v) ||
		    !go_as_one(&n, u, v) || !propose(q, "fuse %s %s", q->p.st[u].name, q->p.st[v].name))
			return;
	}
}

/* ---- along ----------------------------------------------------------------------------------------------
 */
/* What is left over of whole rows of lanes stands apart, so that the others ask nothing. */
static void
cut_rest(struct proposing *q, const char *outer, int64_t whole)
{
	if (whole > 1)
		(void)propose(q, "split %s %lld cut", outer, (long long)whole);
	else
		(void)propose(q, "bind %s unroll", outer);
}

static void
bind_lanes(struct proposing *q, const char *loop)
{
	if (tir_find_loop(&q->p, str_of(loop)) != ST_NONE)
		(void)propose(q, "bind %s vector", loop);
}

static int64_t
lanes_of(const struct tir *p, blk_id b, int64_t trips)
{
	const size_t size = MAX_OF(dtype_size(p->buf[p->blk[b].out[0]].type), (size_t)4);
	int64_t lanes = 1;

	while (lanes * 2 <= MIN_OF(trips, MOST_LANES * 4 / (int64_t)size))
		lanes *= 2;
	return lanes;
}

static void
join_along(struct proposing *q, blk_id b, st_id v)
{
	const char *loop = q->p.st[v].name, *blk = q->p.blk[b].name, *tail, *o, *i;
	const int64_t trips = loop_trips(&q->p, v), lanes = lanes_of(&q->p, b, trips);
	const size_t n = strlen(blk), n_trace = q->trace->n;
	const struct tir was = q->p;

	if (trips < LEAST_LANES || trips == INT64_MAX || tx_is_strict(q->p.tx))
		return;
	tail = strncmp(loop, blk, n) == 0 ? loop + n + 1 : loop;
	o = arena_printf(q->p.arena, "%s'p.%s.o", blk, tail);
	i = arena_printf(q->p.arena, "%s'p.%s%s", blk, tail, trips > lanes ? ".i" : "");
	if (trips > lanes && !propose(q, "split %s %lld guard", loop, (long long)lanes))
		return;
	if (!(trips > lanes ? propose(q, "rfactor %s.i", loop) : propose(q, "rfactor %s", loop))) {
		take_back(q, &was, n_trace);
		return;
	}
	if (trips > lanes && trips % lanes)
		cut_rest(q, o, trips / lanes);
	bind_lanes(q, i);
	bind_lanes(q, arena_printf(q->p.arena, "%s't", i));
}

/* ---- across ---------------------------------------------------------------------------------------------
 */
/* The loop behind those over elements that stand in it. */
static void
put_last(struct proposing *q, blk_id b, const char *suffix, const char *loop)
{
	const struct reduction n = reduction_of(&q->p, b);
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	for (uint32_t k = 0; k < n.n_path; k++)
		if (counts_elements(&n, n.path[k]))
			sb_addf(&sb, " %s%s", q->p.st[n.path[k]].name, suffix);
	if (sb.n > 0 && tir_find_loop(&q->p, str_of(loop)) != ST_NONE)
		(void)propose(q, "reorder%.*s %s", STR_ARG(sb_str(&sb)), loop);
}

static void
join_across(struct proposing *q, blk_id b, st_id v)
{
	const struct tir_buf *f = &q->p.buf[q->p.blk[b].out[0]];
	const int64_t trips = loop_trips(&q->p, v);
	const bool fits = (double)blk_points(&q->p, b) * (double)dtype_size(f->type) <= IN_CACHE;
	const int64_t most = fits ? MOST_NEIGHBOURS : LONG_ROW;
	const char *loop = q->p.st[v].name;

	if (trips > most && !propose(q, "split %s %lld cut", loop, (long long)most))
		return;
	if (trips > most) {
		const char *i = arena_printf(q->p.arena, "%s.i", loop),
			   *t = arena_printf(q->p.arena, "%s.t.i", loop);

		put_last(q, b, "'t", t);
		put_last(q, b, "", i);
		bind_lanes(q, t);
		loop = i;
	} else {
		put_last(q, b, "", loop);
	}
	bind_lanes(q, loop);
}

/* Does it join what lanes hold (rfactor)? Their partial results are the last dimension of one that its own
 * results have not; a view of more dimensions, which it reads in several, is none. */
static bool
joins_lanes(const struct tir *p, const struct tir_block *b)
{
	const struct ex *v = ex_get(p->tx, b->value[0]);
	const int rank = p->buf[b->out[0]].rank;
	struct ixv at;
	const struct ix *last;

	if (b->comb == COMB_NONE || v->kind != EX_READ || p->buf[v->tensor].role != BUF_TEMP ||
	    p->buf[v->tensor].rank != rank + 1)
		return false;
	at = ixv_get(p->tx, v->at);
	last = ix_get(p->tx, at.i[rank]);
	for (int d = 0; d < rank; d++)
		if (last->kind == IX_AXIS && ix_has(p->tx, at.i[d], last->a))
			return false;
	return last->kind == IX_AXIS;
}

void
rule_lanes(struct proposing *q)
{
	const uint32_t n_blk = q->p.n_blk; /* rfactor adds blocks */

	for (blk_id b = 0; b < n_blk; b++) {
		struct reduction n;
		st_id v;

		if (!blk_joins_rows(&q->p, b) || blk_is_tiled(&q->p, b) || joins_lanes(&q->p, &q->p.blk[b]))
			continue;
		fuse_elements(q, b);
		n = reduction_of(&q->p, b);
		v = vector_loop(&n);
		if (v != ST_NONE && counts_elements(&n, v))
			join_along(q, b, v);
		else if (v != ST_NONE)
			join_across(q, b, v);
	}
}

bool
loop_is_of_lanes(const struct tir *p, st_id loop)
{
	const struct st *s = &p->st[loop + 1];

	for (st_id i = loop; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_for && p->st[i].bind == BIND_vector)
			return true;
	return p->st[loop].end == loop + 2 && s->op == ST_block && joins_lanes(p, &p->blk[s->ref]);
}
