/* kernels/fuse/bind.c: the last step of the tile program: outer axes merged and ordered, the block
 * of the last one chosen, scratch laid out, and every index rewritten to what the loops count. */
#include "anchor.h"
#include "lower_int.h"
#include "ring.h"

#include <string.h>

enum {
	STREAM_BLOCK = 2048,     /* elements of one step where nothing is kept between stages */
	KEPT_BLOCK = 32,         /* the same where stages hand rows on through scratch */
	LOCAL_TARGET = 12 << 10, /* bytes of scratch that one step should stay within */
	ALONG_BYTES = 128 << 10,
	ALONG_MOST = 64,
	VECTOR_LEAST = 16, /* elements of a block that runs along memory */
	RANGE_WANTED = 32, /* steps: enough for any number of threads that we plan for */
};
#define MAX_SHARED ((size_t)1 << 30)

/* ---- outer axes ------------------------------------------------------------------------------ */
/* The member that decides orders and blocks: the one that does most; of equals, that makes most. */
static const struct stage *
main_stage(const struct tile_prog *p, const struct tile_pass *tp)
{
	const struct stage *best = &p->stages[tp->row[0]];

	for (uint32_t m = 1; m < tp->n_row; m++) {
		const struct stage *s = &p->stages[tp->row[m]];
		double more = stage_work(s) - stage_work(best);

		if (more > 0 || (more == 0 && p->tensors[s->tensor].count > p->tensors[best->tensor].count))
			best = s;
	}
	return best;
}

static int
axis_of_outer(const struct stage *s, int u)
{
	for (uint32_t k = 0; k < s->n_par; k++)
		if (s->axis[k].outer == u)
			return (int)k;
	return -1;
}

static int64_t
outer_stride(const struct stage *s, int u)
{
	int k = axis_of_outer(s, u);

	return k < 0 ? 0 : s->axis[k].stride;
}

static void
swap_outer(struct tile_prog *p, struct tile_pass *tp, int u, int v)
{
	struct pass_outer t = tp->outer[u];

	tp->outer[u] = tp->outer[v];
	tp->outer[v] = t;
	for (uint32_t m = 0; m < tp->n_row; m++) {
		struct stage *s = &p->stages[tp->row[m]];
		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer == u || s->axis[k].outer == v)
				s->axis[k].outer = s->axis[k].outer == u ? v : u;
	}
}

static void
order_outer(struct tile_prog *p, struct tile_pass *tp)
{
	const struct stage *s = main_stage(p, tp);

	for (int u = 0; u < (int)tp->n_outer; u++)
		for (int v = u + 1; v < (int)tp->n_outer; v++)
			if (outer_stride(s, v) > outer_stride(s, u))
				swap_outer(p, tp, u, v);
}

/* Outer axis u becomes an axis of the stages again (to == -1) or takes number `to`. */
static void
rename_outer(struct tile_prog *p, struct tile_pass *tp, int u, int to)
{
	for (uint32_t m = 0; m < tp->n_row; m++) {
		struct stage *s = &p->stages[tp->row[m]];
		for (uint32_t k = 0; k < s->n_par; k++)
			if (s->axis[k].outer == u)
				s->axis[k].outer = to;
	}
}

static void
remove_outer(struct tile_prog *p, struct tile_pass *tp, int u)
{
	rename_outer(p, tp, u, -1);
	for (int v = u + 1; v < (int)tp->n_outer; v++) {
		tp->outer[v - 1] = tp->outer[v];
		rename_outer(p, tp, v, v - 1);
	}
	tp->n_outer--;
}

/* Outer axes u and u+1 as one in every member; false: nothing changed. */
static bool
merge_outer(struct tile_prog *p, struct tile_pass *tp, int u)
{
	struct stage *was = NEW_ARRAY(p->arena, struct stage, tp->n_row);
	bool ok = true;

	for (uint32_t m = 0; m < tp->n_row; m++)
		was[m] = p->stages[tp->row[m]];
	rename_outer(p, tp, u + 1, u);
	for (uint32_t m = 0; m < tp->n_row && ok; m++) {
		struct stage *s = &p->stages[tp->row[m]];
		int k = axis_of_outer(s, u);

		ok = k >= 0 && k + 1 < (int)s->n_par && s->axis[k + 1].outer == u &&
		    stage_merge_axes(p->tx, s, (uint32_t)k);
	}
	if (!ok) {
		for (uint32_t m = 0; m < tp->n_row; m++)
			p->stages[tp->row[m]] = was[m];
		return false;
	}
	tp->outer[u].extent *= tp->outer[u + 1].extent;
	for (int v = u + 2; v < (int)tp->n_outer; v++) {
		tp->outer[v - 1] = tp->outer[v];
		rename_outer(p, tp, v, v - 1);
	}
	tp->n_outer--;
	return true;
}

static void
merge_inner(struct tile_prog *p, struct stage *s)
{
	if (s->wino) /* its rows and taps are found by their axes */
		return;
	for (uint32_t k = 0; k + 1 < s->n_par + s->n_red;)
		if (s->axis[k].outer >= 0 || s->axis[k + 1].outer >= 0 || !stage_merge_axes(p->tx, s, k))
			k++;
}

/* ---- where tensors live ------------------------------------------------------------------------ */
static void
place_tensors(struct tile_prog *p)
{
	struct arena tmp = {0};

	for (uint32_t t = 0; t < p->n_tensors; t++) {
		struct tile_tensor *x = &p->tensors[t];
		if (x->stage == UINT32_MAX || x->at == AT_RESULT)
			continue;
		const struct stage *s = &p->stages[x->stage];
		bool whole = s->kind == STAGE_SCAN || s->kind == STAGE_TOPK || s->kind == STAGE_SCATTER;
		x->at = whole ? AT_SHARED : AT_LOCAL;
	}
	for (uint32_t i = 0; i < p->n_stages; i++) {
		struct stage_read *r;
		uint32_t n = stage_reads(p, &p->stages[i], &tmp, &r);

		for (uint32_t k = 0; k < n; k++) {
			struct tile_tensor *x = &p->tensors[r[k].tensor];
			const struct stage *maker = &p->stages[x->stage];

			if (x->at == AT_LOCAL && !maker->at_call &&
			    (p->stages[i].at_call || p->stages[i].pass != maker->pass))
				x->at = AT_SHARED;
			x->ring |= maker->level && maker->level != p->stages[i].level;
		}
	}
	arena_fini(&tmp);
}

/* Bytes of scratch that one value of the outer axes takes. */
static double
local_bytes(const struct tile_prog *p, const struct tile_pass *tp)
{
	double bytes = 0, steps = 1;

	for (uint32_t u = 0; u < tp->n_outer; u++)
		steps *= (double)tp->outer[u].extent;
	for (uint32_t m = 0; m < tp->n_row; m++) {
		const struct tile_tensor *t = &p->tensors[p->stages[tp->row[m]].tensor];
		if (t->at == AT_LOCAL)
			bytes += (double)t->count * (double)dtype_size(t->type) / steps;
	}
	return bytes;
}

/* ---- the block --------------------------------------------------------------------------------- */
/* A divisor of e near b (a multiple of `unit` where one is near), else b itself. */
static int64_t
near_divisor(int64_t e, int64_t b, int64_t unit)
{
	if (b >= e)
		return e;
	for (int64_t u = unit; u >= 1; u = u > 1 ? 1 : 0)
		for (int64_t d = b; d * 2 >= b; d--)
			if (d % u == 0 && e % d == 0)
				return d;
	return b;
}

static int64_t
choose_block(const struct tile_prog *p, const struct tile_pass *tp)
{
	const struct stage *s = main_stage(p, tp);
	int last = (int)tp->n_outer - 1;
	int64_t e = tp->outer[last].extent, others = 1, b;
	bool along = outer_stride(s, last) == 1;
	double inner = stage_work(s), bytes = local_bytes(p, tp);

	for (int u = 0; u <= last; u++) {
		inner /= (double)tp->outer[u].extent;
		others *= u < last ? tp->outer[u].extent : 1;
	}
	b = p->target->is_cuda || tp->by_columns ? 1 : sched_get(p->sched, KNOB_block, 0);
	if (!b)
		b = tp->n_rings ? ring_block(p, tp) : anchor_block(p, tp);
	if (b)
		return MIN_OF(b, e);
	b = MAX_OF((int64_t)((bytes > 0 ? KEPT_BLOCK : STREAM_BLOCK) / inner), (int64_t)1);
	int64_t least = along ? VECTOR_LEAST : 1;

	if (along) /* a row of vectors at a stride: the longer the better, within the second cache */
		least = MAX_OF(MIN_OF((int64_t)(ALONG_BYTES / MAX_OF(bytes, 1.0)), (int64_t)ALONG_MOST) /
			VECTOR_LEAST * VECTOR_LEAST,
		    least);
	while (b > least && (double)b * bytes > LOCAL_TARGET)
		b /= 2;
	while (b > least && (double)others * (double)e / (double)b < RANGE_WANTED)
		b /= 2;
	b = MAX_OF(b, least);
	return near_divisor(e, b, along ? VECTOR_LEAST : 1);
}

/* An outer axis that runs along memory is worth more as a stage's innermost loop, where the others
 * leave steps enough and a row's scratch stays small. */
static void
free_vector_axis(struct tile_prog *p, struct tile_pass *tp)
{
	const struct stage *s = main_stage(p, tp);
	int last = (int)tp->n_outer - 1;
	int64_t others = 1;

	if (last < 1 || outer_stride(s, last) != 1 || p->target->is_cuda)
		return;
	for (int u = 0; u < last; u++)
		others *= tp->outer[u].extent;
	if (others < RANGE_WANTED && (double)others * 4096 < stage_work(s))
		return;
	if (local_bytes(p, tp) * (double)tp->outer[last].extent > 8 * LOCAL_TARGET)
		return;
	remove_outer(p, tp, last);
}

static void
shape_pass(struct tile_prog *p, struct tile_pass *tp)
{
	if (!tp->n_rings) { /* else the last axis counts rows, and stays so */
		order_outer(p, tp);
		for (int u = 0; u + 1 < (int)tp->n_outer;)
			if (!merge_outer(p, tp, u))
				u++;
		free_vector_axis(p, tp);
	}
	for (uint32_t m = 0; m < tp->n_row; m++)
		merge_inner(p, &p->stages[tp->row[m]]);
	tp->block = 1;
	tp->range = 1;
	if (tp->n_outer)
		tp->block = choose_block(p, tp);
	for (uint32_t u = 0; u < tp->n_outer; u++) {
		bool last = u + 1 == tp->n_outer;
		int64_t n = last ? (tp->outer[u].extent + tp->block - 1) / tp->block : tp->outer[u].extent;

		tp->outer[u].id = tx_axis(p->tx, AXIS_OUTER, 0, n - 1, IX_NONE);
		tp->range *= n;
	}
	rings_shape(p, tp);
}

/* ---- scratch ------------------------------------------------------------------------------------ */
static size_t
take(size_t *used, int64_t n, enum dtype t)
{
	size_t at = *used, bytes = ck_mul(ck_size(n), dtype_size(t));

	*used = ck_add(at, (bytes + 63) / 64 * 64);
	return at;
}

/* Strides of a tensor's local part: what is left of its axes, densely. */
static void
local_strides(struct tile_prog *p, struct stage *s, int64_t *n_local)
{
	const struct tile_pass *tp = &p->pass[s->pass];
	struct tile_tensor *t = &p->tensors[s->tensor];
	int64_t stride = 1;

	if (t->ring)
		t->ring = ring_rows(p, s);
	for (int k = (int)s->n_par - 1; k >= 0; k--) {
		struct stage_axis *a = &s->axis[k];
		bool last = !s->at_call && a->outer >= 0 && a->outer == (int)tp->n_outer - 1;

		a->local = stride;
		if (a->outer < 0)
			stride *= a->extent;
		else if (last)
			stride *= ring_rows(p, s);
		else
			a->local = 0;
	}
	*n_local = stride;
}

static bool
lay_out(struct tile_prog *p, struct err *e)
{
	for (uint32_t t = 0; t < p->n_tensors; t++) {
		struct tile_tensor *x = &p->tensors[t];

		if (x->stage == UINT32_MAX)
			continue;
		if (x->at == AT_LOCAL) {
			local_strides(p, &p->stages[x->stage], &x->n_local);
			x->offset = take(&p->local_bytes, x->n_local, x->type);
		}
		if (x->at == AT_SHARED)
			x->offset = take(&p->shared_bytes, x->count, x->type);
	}
	if (p->local_bytes > TILE_MAX_LOCAL)
		return err_set(
		    e, ERR_INFEASIBLE, "scratch: one step needs %zu bytes a thread", p->local_bytes);
	if (p->shared_bytes > MAX_SHARED)
		return err_set(
		    e, ERR_INFEASIBLE, "scratch: it needs %zu bytes between its passes", p->shared_bytes);
	return true;
}

/* ---- final indices -------------------------------------------------------------------------------- */
struct unbound {
	struct tile_prog *p;
	/* as they were: a carried tensor's maker is bound before some of its readers */
	const struct stage *stages;
};

/* Flat index of a whole tensor to the index in its local part. */
static ex_id
local_read(void *self, struct tx *x, const struct ex *read, ix_id at)
{
	const struct unbound *u = self;
	struct tile_prog *p = u->p;

	if (read->tensor >= p->n_tensors) /* done by ring_reads */
		return ex_read(x, read->type, read->tensor - p->n_tensors, at);
	const struct tile_tensor *t = &p->tensors[read->tensor];

	if (t->at != AT_LOCAL || t->ring)
		return ex_read(x, read->type, read->tensor, at);
	const struct stage *s = &u->stages[t->stage];
	ix_id sum = ix_const(x, 0);

	for (uint32_t k = 0; k < s->n_par; k++) {
		const struct stage_axis *a = &s->axis[k];
		if (a->local == 0)
			continue;
		ix_id i = decode_axis(p, s, k, at);
		if (a->outer >= 0)
			i = ring_row(p, s, i);
		sum = ix_add(x, sum, ix_mulc(x, i, a->local));
	}
	return ex_read(x, read->type, read->tensor, sum);
}

static bool
has_anchor(const struct tile_prog *p, const struct tile_pass *tp)
{
	for (uint32_t m = 0; m < tp->n_row; m++)
		if (p->stages[tp->row[m]].kind == STAGE_LINEAR)
			return true;
	return false;
}

/* A loop over the block of the last outer axis, *r; returns that axis' index.  An index range of
 * its own (0 .. extent - 1) keeps guards at borders simple; anchors count within the block. */
static ix_id
block_axis(struct tile_prog *p, const struct tile_pass *tp, axis_id *r)
{
	struct tx *x = p->tx;
	const struct pass_outer *o = &tp->outer[tp->n_outer - 1];
	ix_id from = ix_mulc(x, ix_axis(x, o->id), tp->block), limit = IX_NONE;
	bool exact = o->extent % tp->block == 0;

	if (tp->block >= o->extent) { /* one block is all of it */
		*r = tx_axis(x, AXIS_PAR, 0, o->extent - 1, IX_NONE);
		return ix_axis(x, *r);
	}
	if (!has_anchor(p, tp)) {
		struct axis part = {.role = AXIS_PAR,
		    .lo = 0,
		    .hi = o->extent - 1,
		    .from = from,
		    .limit = ix_addc(x, from, tp->block),
		    .is_exact = exact};
		*r = tx_axis_like(x, &part);
		return ix_axis(x, *r);
	}
	if (!exact)
		limit = ix_addc(x, ix_mulc(x, from, -1), o->extent);
	*r = tx_axis(x, AXIS_PAR, 0, tp->block - 1, limit);
	return ix_add(x, from, ix_axis(x, *r));
}

/* The stage's axes that the pass binds become outer axes; the last one block * o + r. */
static void
bind_axes(struct tile_prog *p, struct stage *s, ix_id *to)
{
	const struct tile_pass *tp = &p->pass[s->pass];
	struct tx *x = p->tx;
	uint32_t n = 0;
	struct stage was = *s;

	for (uint32_t k = 0; k < was.n_par + was.n_red; k++) {
		struct stage_axis a = was.axis[k];
		if (a.outer < 0) {
			s->axis[n++] = a;
			continue;
		}
		const struct pass_outer *o = &tp->outer[a.outer];
		ix_id at = ix_axis(x, o->id);
		bool last = a.outer == (int)tp->n_outer - 1;

		s->n_par--;
		axis_id r = AXIS_NONE;

		if (last && s->level)
			at = ring_axis(p, s, has_anchor(p, tp), &r);
		else if (last && tp->block > 1)
			at = block_axis(p, tp, &r);
		if (r != AXIS_NONE) {
			s->axis[n++] = (struct stage_axis){.id = r,
			    .extent = ring_rows(p, s),
			    .stride = a.stride,
			    .outer = a.outer,
			    .local = a.local};
			s->n_par++;
		}
		to[a.id] = at;
	}
}

static void
bind_stage(struct tile_prog *p, struct stage *s, struct unbound *was)
{
	struct tx *x = p->tx;
	const struct tile_tensor *t = &p->tensors[s->tensor];
	ix_id out = ix_const(x, 0);

	if (t->at == AT_LOCAL) {
		for (uint32_t k = 0; k < s->n_par; k++) {
			const struct stage_axis *a = &s->axis[k];
			ix_id i = ix_axis(x, a->id);
			if (a->outer >= 0 && a->local)
				i = ring_row(p, s, i);
			out = ix_add(x, out, ix_mulc(x, i, a->local));
		}
	} else if (s->target != IX_NONE) {
		out = s->target;
	} else {
		for (uint32_t k = 0; k < s->n_par; k++)
			out = ix_add(x, out, ix_mulc(x, ix_axis(x, s->axis[k].id), s->axis[k].stride));
	}
	ring_reads(p, s);
	stage_subst(x, s, &(struct tx_subst){.read = local_read, .self = was});
	s->out = out;
	if (s->at_call)
		return;
	ix_id *to = NEW_ARRAY(p->arena, ix_id, tx_n_axes(x));
	uint32_t n = tx_n_axes(x);

	for (uint32_t i = 0; i < n; i++)
		to[i] = IX_NONE;
	bind_axes(p, s, to);
	stage_subst(x, s, &(struct tx_subst){.to = to, .n = n});
	s->out = ix_subst(x, &(struct tx_subst){.to = to, .n = n}, out);
}

bool
passes_bind(struct tile_prog *p, struct err *e)
{
	place_tensors(p);
	for (uint32_t q = 0; q < p->n_passes; q++)
		shape_pass(p, &p->pass[q]);
	for (uint32_t i = 0; i < p->n_stages; i++)
		if (p->stages[i].at_call)
			merge_inner(p, &p->stages[i]);
	if (!lay_out(p, e))
		return false;
	struct unbound was = {.p = p};

	if (p->n_stages)
		was.stages = arena_dup(p->arena, p->stages, p->n_stages * sizeof *p->stages);
	/* Readers decode by their makers' axes: the last stage is bound first. */
	for (uint32_t i = p->n_stages; i-- > 0;)
		bind_stage(p, &p->stages[i], &was);
	return true;
}
