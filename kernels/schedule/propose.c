/* kernels/schedule/propose.c: a trace by the rules of rule.def. */
#include "rule_int.h"

#include <stdarg.h>

enum where { ANY, CPU, GPU };
static const struct {
	void (*run)(struct proposing *q);
	enum where where;
} rules[] = {
#define RULE(N, WHERE, WORDS) {rule_##N, WHERE},
#include "rule.def"
#undef RULE
};

bool
propose(struct proposing *q, const char *fmt, ...)
{
	struct strbuf line;
	struct step s;
	struct tir next;
	struct err e = {0};
	va_list ap;

	sb_init(&line, q->p.arena);
	va_start(ap, fmt);
	sb_vaddf(&line, fmt, ap);
	va_end(ap);
	if (!step_read(sb_str(&line), &s, &e))
		bug("a rule proposes '%.*s': %s", STR_ARG(sb_str(&line)), e.msg);
	if (!(q->proves ? step_apply : step_make)(&q->p, &s, &next, &e))
		return false;
	q->p = next;
	sb_addf(q->trace, "%.*s\n", STR_ARG(sb_str(&line)));
	return true;
}

void
take_back(struct proposing *q, const struct tir *p, size_t n_trace)
{
	q->p = *p;
	q->trace->n = n_trace;
	if (q->trace->p)
		q->trace->p[n_trace] = 0;
}

static void
run_rules(struct proposing *q, const struct tir *nest, bool proves)
{
	q->p = *nest;
	q->proves = proves;
	for (size_t k = 0; k < COUNT_OF(rules); k++)
		if (rules[k].where != (q->target->threads ? CPU : GPU))
			rules[k].run(q);
}

/* What rules propose is proved once, where they are through.  What cannot be is proposed again, step by step:
 * a step that nobody can prove is left out.  So is a GPU's, where steps ask what barriers there are. */
void
schedule_propose(
    const struct tir *nest, const struct schedule_target *t, struct strbuf *trace, struct tir *out)
{
	struct proposing q = {.target = t, .trace = trace};
	const size_t n_trace = trace->n;
	struct tir flat;
	struct err unproved = {0};

	run_rules(&q, nest, t->threads > 0);
	if (!q.proves && !nest_is_proved(nest, &q.p, &flat, &unproved)) {
		take_back(&q, nest, n_trace);
		run_rules(&q, nest, true);
	}
	q.p.is_proved = true;
	*out = q.p;
}

/* ---- what rules ask --------------------------------------------------------------------------------- */
st_id
only_instance(const struct tir *p, blk_id b)
{
	st_id at = ST_NONE;

	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b) {
			if (at != ST_NONE)
				return ST_NONE;
			at = i;
		}
	return at;
}

/* The iterator that the instance binds to the axis, and nothing else. */
static axis_id
iterator_of(const struct tir *p, const struct st *instance, axis_id a)
{
	const struct tir_block *b = &p->blk[instance->ref];
	struct ixv at = ixv_get(p->tx, instance->at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (at.i[k] == ix_axis(p->tx, a))
			return p->iter[b->iter0 + k].id;
	return AXIS_NONE;
}

bool
find_nest_of(const struct tir *p, blk_id b, struct nest *out)
{
	st_id path[TIR_DEPTH], at = only_instance(p, b);
	uint32_t n = at == ST_NONE ? 0 : tir_path(p, at, path), first = n;

	out->n = 0;
	out->is_whole = false;
	if (n == 0 || p->st[at].n_guard)
		return false;
	while (first > 0 && p->st[path[first - 1]].op == ST_for &&
	    p->st[path[first - 1]].bind == BIND_serial && p->st[path[first - 1]].end == at + 1 &&
	    path[first - 1] + (n - first) + 1 == at &&
	    iterator_of(p, &p->st[at], p->st[path[first - 1]].axis) != AXIS_NONE)
		first--;
	for (uint32_t k = first; k < n; k++) {
		out->loop[out->n] = p->st[path[k]];
		out->iter[out->n++] = iterator_of(p, &p->st[at], p->st[path[k]].axis);
	}
	out->is_whole = first == 0;
	return out->n > 0;
}

ix_id
flat_place(const struct tir *p, buf_id b, ixv_id at)
{
	struct ixv v = ixv_get(p->tx, at);
	ix_id i = ix_const(p->tx, 0);

	for (uint32_t d = 0; d < v.n; d++)
		i = ix_add(p->tx, ix_mulc(p->tx, i, p->buf[b].dim[d]), v.i[d]);
	return i;
}

int64_t
loop_trips(const struct tir *p, st_id loop)
{
	int64_t from, extent;

	if (loop == ST_NONE)
		return 1;
	return const_extent(p, &p->st[loop], &from, &extent) ? extent : INT64_MAX;
}

bool
loop_counts_places(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_block &&
		    (binds_kind(p, &p->st[i], p->st[loop].axis, ITER_REDUCE) ||
			binds_kind(p, &p->st[i], p->st[loop].axis, ITER_CARRIED)))
			return false;
	return true;
}

st_id
blk_instance(const struct tir *p, blk_id b)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b)
			return i;
	return ST_NONE;
}

bool
blk_stands(const struct tir *p, blk_id b)
{
	return blk_instance(p, b) != ST_NONE;
}

bool
blk_is_tiled(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, blk_instance(p, b), path);

	for (uint32_t k = 0; k < n; k++)
		if (p->st[path[k]].op == ST_for && p->st[path[k]].bind == BIND_vector)
			return true;
	return false;
}

bool
blk_reduces(const struct tir *p, blk_id b)
{
	for (uint32_t k = 0; k < p->blk[b].n_iter; k++)
		if (p->iter[p->blk[b].iter0 + k].kind == ITER_REDUCE)
			return blk_stands(p, b);
	return false;
}

int64_t
blk_points(const struct tir *p, blk_id b)
{
	int64_t n = 1;

	for (uint32_t k = 0; k < p->blk[b].n_iter; k++)
		n *= tx_axis_get(p->tx, p->iter[p->blk[b].iter0 + k].id)->hi + 1;
	return n;
}

blk_id
blk_only_reader(const struct tir *p, buf_id buf)
{
	blk_id found = BLK_NONE;

	for (blk_id b = 0; b < p->n_blk; b++) {
		if (!blk_stands(p, b) || !blk_reads_buf(p, &p->blk[b], buf))
			continue;
		if (found != BLK_NONE)
			return BLK_NONE;
		found = b;
	}
	return found;
}

struct sizes {
	const struct tir *p;
	int64_t most; /* elements of the largest buffer that is read */
};

static void
note_size(void *self, const struct ex *read)
{
	struct sizes *l = self;
	const struct tir_buf *b = &l->p->buf[read->tensor];
	int64_t n = 1;

	for (int d = 0; d < b->rank; d++)
		n *= b->dim[d];
	l->most = MAX_OF(l->most, n);
}

bool
blk_joins_rows(const struct tir *p, blk_id b)
{
	struct sizes l = {.p = p};

	if (!blk_reduces(p, b) || p->blk[b].n_out != 1)
		return false;
	blk_reads(p, &p->blk[b], note_size, &l);
	return blk_points(p, b) <= l.most;
}

/* Has a rule given its nest to a GPU's blocks? */
static bool
is_dealt_to_blocks(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH];
	const st_id at = blk_instance(p, b);

	return at != ST_NONE && tir_path(p, at, path) && p->st[path[0]].bind == BIND_block;
}

bool
joins_rows_only(const struct tir *p)
{
	bool any = false;

	for (blk_id b = 0; b < p->n_blk; b++) {
		if (is_dealt_to_blocks(p, b))
			continue;
		if (blk_reduces(p, b) && !blk_joins_rows(p, b))
			return false;
		any |= blk_joins_rows(p, b);
	}
	return any;
}
