/* kernels/predict/program.c: the leaves of a tile program. */
#include "program_int.h"

#include "../cost/box.h"
#include "../fuse/anchor.h"

#include <math.h>

struct walk {
	const struct tile_prog *p;
	const struct tile_pass *pass;
	const struct stage *stage;
	struct program_leaf *leaf;
	axis_id axis[LEAF_LOOPS];    /* that the loop counts */
	double block_of[LEAF_LOOPS]; /* the last outer axis: elements of a block; else 0 */
	axis_id inner[LEAF_LOOPS];   /* ... the stage's own axis that goes through the block */
};

static void
add_loop(struct walk *w, axis_id axis, double extent, enum leaf_bind bind, bool reduces)
{
	struct program_leaf *l = w->leaf;

	if (l->n_loops == LEAF_LOOPS)
		return;
	w->axis[l->n_loops] = axis;
	w->block_of[l->n_loops] = 0;
	w->inner[l->n_loops] = AXIS_NONE;
	l->loop[l->n_loops++] = (struct leaf_loop){MAX_OF(extent, 1.0), bind, reduces};
}

static void
add_outer_loops(struct walk *w)
{
	const struct tile_pass *p = w->pass;

	for (uint32_t k = 0; k < p->n_outer; k++) {
		bool is_last = k + 1 == p->n_outer;
		double block = is_last ? (double)MAX_OF(p->block, (int64_t)1) : 1;

		add_loop(w, p->outer[k].id, (double)p->outer[k].extent / block, BIND_PARALLEL, false);
		w->block_of[w->leaf->n_loops - 1] = is_last && block > 1 ? block : 0;
	}
}

/* What a step leaves of a stage's axis. */
static double
extent_in_step(struct walk *w, const struct stage_axis *x)
{
	const struct tile_pass *p = w->pass;
	uint32_t last = p->n_outer - 1;

	if (w->leaf->at_call || x->outer < 0 || p->n_outer == 0)
		return (double)x->extent;
	if ((uint32_t)x->outer < last || p->block <= 1)
		return 1;
	w->inner[last] = x->id;
	return (double)MIN_OF(p->block, x->extent);
}

static void
add_stage_loops(struct walk *w)
{
	const struct stage *s = w->stage;
	uint32_t n = s->n_par + s->n_red;

	for (uint32_t i = 0; i < n && i < STAGE_AXES; i++) {
		bool reduces = i >= s->n_par, is_lanes = i + 1 == s->n_par && s->axis[i].stride == 1;
		double extent = extent_in_step(w, &s->axis[i]);

		if (extent > 1)
			add_loop(w, s->axis[i].id, extent, is_lanes ? BIND_VECTOR : BIND_SERIAL, reduces);
	}
}

/* A micro-kernel's rows: of the loop before the lanes, as many as a register tile has are written out. */
static void
mark_tile(struct walk *w)
{
	struct program_leaf *l = w->leaf;
	double rows = w->stage->anchor ? w->stage->anchor->mr : 0;

	for (uint32_t i = l->n_loops; rows > 1 && i-- > 0;) {
		struct leaf_loop *x = &l->loop[i];

		if (x->bind == BIND_SERIAL && !x->reduces && x->extent >= rows) {
			x->bind = BIND_UNROLLED;
			return;
		}
	}
}

static struct leaf_tile
tile_of(const struct anchor *a)
{
	double rows = (double)MAX_OF(a->n_m, (int64_t)1), mr = MAX_OF(a->mr, 1),
	       columns = (double)MAX_OF(a->n_columns, (int64_t)1);

	return (struct leaf_tile){
	    .rows = rows / ceil(rows / mr),
	    .vectors = a->nv,
	    .depth = (double)a->n_k_total,
	    .columns = columns,
	    .waste = fmax((double)a->n_panels * a->nv * a->lanes / columns, 1),
	};
}

static enum leaf_home
home_of(const struct tile_tensor *t)
{
	switch (t->at) {
	case AT_OPERAND:
		return HOME_OPERAND;
	case AT_RESULT:
		return HOME_RESULT;
	case AT_SHARED:
		return HOME_SHARED;
	case AT_TABLE:
		return HOME_TABLE;
	case AT_LOCAL:
	case AT_NOWHERE:
		return HOME_LOCAL;
	}
	bug("a tensor is nowhere that is known");
}

/* How far a turn of loop i moves `at`. */
static float
stride_of(const struct walk *w, ix_id at, uint32_t i, bool *is_irregular)
{
	const struct tx *x = w->p->tx;
	int64_t c = 0;

	if (!ix_coef(x, at, w->axis[i], &c)) {
		*is_irregular = true;
		return 1;
	}
	if (c == 0 && w->inner[i] != AXIS_NONE && w->block_of[i] > 0) {
		if (!ix_coef(x, at, w->inner[i], &c)) {
			*is_irregular = true;
			return 1;
		}
		return (float)c * (float)w->block_of[i];
	}
	return (float)c;
}

static void
add_access(struct walk *w, uint32_t tensor, ix_id at, bool writes)
{
	const struct tile_tensor *t = &w->p->tensors[tensor];
	struct program_leaf *l = w->leaf;
	struct leaf_access *x = &l->access[l->n_accesses];

	if (l->n_accesses == LEAF_ACCESSES)
		return;
	*x = (struct leaf_access){
	    .home = home_of(t), .writes = writes, .times = 1, .element = (double)dtype_size(t->type)};
	x->whole = x->element * (double)(t->at == AT_LOCAL ? t->n_local : t->count);
	for (uint32_t i = 0; i < l->n_loops; i++)
		x->stride[i] = stride_of(w, at, i, &x->is_irregular);
	l->n_accesses++;
}

static void
take_read(void *self, const struct ex *read)
{
	add_access(self, read->tensor, read->ix, false);
}

static enum leaf_kind
kind_of(const struct stage *s)
{
	switch (s->kind) {
	case STAGE_MAP:
		return LEAF_MAP;
	case STAGE_REDUCE:
	case STAGE_ARG:
		return LEAF_REDUCE;
	case STAGE_LINEAR:
		return LEAF_LINEAR;
	case STAGE_SCAN:
	case STAGE_TOPK:
	case STAGE_SCATTER:
		return LEAF_OTHER;
	}
	bug("stage of no kind");
}

static bool
makes(const struct tile_prog *p, const struct stage *s, uint32_t tensor)
{
	bool makes = s->tensor == tensor;

	for (uint32_t k = 0; s->anchor && k < s->anchor->n_epilogue; k++)
		makes |= p->stages[s->anchor->epilogue[k].stage].tensor == tensor;
	return makes;
}

/* Does each step make this tensor? */
static bool
is_of_step(const struct walk *w, uint32_t tensor)
{
	for (uint32_t i = 0; i < w->pass->n_row; i++)
		if (makes(w->p, &w->p->stages[w->pass->row[i]], tensor))
			return w->p->tensors[tensor].at == AT_LOCAL;
	return false;
}

/* Does a step of outer loop i read something else?  Where it makes one row, the index does not say so. */
static bool
moves_by_step(const struct walk *w, const struct ex *read, uint32_t i)
{
	bool moves = is_of_step(w, read->tensor);
	int64_t c = 0;

	for (uint32_t k = 0; k < w->stage->n_par; k++)
		if (w->stage->axis[k].outer == (int)i)
			moves |= ix_coef(w->p->tx, read->ix, w->stage->axis[k].id, &c) && c != 0;
	return moves;
}

/* Does a read move by each loop?  Else what is computed of it may stay the same for some of them. */
static bool
moves(void *self, const struct ex *from)
{
	const struct walk *w = self;
	const struct program_leaf *l = w->leaf;
	uint32_t n_outer = l->at_call ? 0 : w->pass->n_outer;
	bool moves = from->kind == EX_READ, is_irregular = false;

	for (uint32_t i = 0; i < l->n_loops && moves; i++)
		moves &= l->loop[i].extent <= 1 || fabsf(stride_of(w, from->ix, i, &is_irregular)) > 0 ||
		    (i < n_outer && moves_by_step(w, from, i));
	return moves && !is_irregular;
}

/* Of a ring's stage: rows that some step needs are made once. */
static double
kept_results(const struct walk *w)
{
	const struct tile_pass *p = w->pass;
	const struct pass_ring *r;
	int64_t last, first;

	if (w->stage->level == 0)
		return 0;
	r = &p->ring[w->stage->level - 1];
	first = MAX_OF(r->lo, (int64_t)0);
	last = MIN_OF(r->scale * (p->outer[p->n_outer - 1].extent - 1) + r->hi, r->extent - 1);
	return (double)w->p->tensors[w->stage->tensor].count * (double)MAX_OF(last - first + 1, (int64_t)0) /
	    (double)MAX_OF(r->extent, (int64_t)1);
}

/* Of a convolution's products those whose taps lie within its operand, where its own border is all that it
 * can have in the kernel. */
static double
share_inside(const struct graph *g, uint32_t node)
{
	const struct node *n = &g->nodes[node];
	double share = 1, touched;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i].prim == PRIM_pad)
			return 0;
	for (int d = 1; n->prim == PRIM_conv && d < graph_tensor(g, n->out[0])->shape.rank - 1; d++) {
		struct window w = window_of(g, n, d);

		share *= window_taps(&w, 0, 1, w.out, &touched) / (double)(w.k * w.out);
	}
	return share;
}

static void
fill_leaf(struct walk *w)
{
	const struct stage *s = w->stage;
	struct program_leaf *l = w->leaf;

	l->kind = kind_of(s);
	l->is_tiled = s->anchor != NULL;
	l->winograd = s->wino ? s->wino->m : 0;
	l->once = kept_results(w);
	if (s->anchor) {
		l->tile = tile_of(s->anchor);
		l->inside = s->anchor->n_guard > 0 ? share_inside(&w->p->spec->g, s->node) : 1;
	}
	if (!l->at_call)
		add_outer_loops(w);
	add_stage_loops(w);
	mark_tile(w);
	add_access(w, s->tensor, s->out, true);
	if (s->body != EX_NONE) {
		program_count(w->p->tx, s->body, l->op);
		program_dear(w->p->tx, s->body, moves, w, l);
		ex_reads(w->p->tx, s->body, take_read, w);
	}
	if (l->kind == LEAF_LINEAR) {
		l->op[OP_PRODUCT] = 1;
		l->op[OP_CHEAP] = MAX_OF(l->op[OP_CHEAP] - 1, 0.0);
	} else if (s->n_red > 0) {
		l->op[OP_CHEAP]++;
	}
}

static void
add_leaf(struct program *out, const struct tile_prog *p, uint32_t pass, bool at_call,
    const struct stage *stage, bool is_taken)
{
	struct walk w = {.p = p, .pass = &p->pass[pass], .stage = stage};

	if (out->n_leaves == PROGRAM_MAX_LEAVES)
		return;
	w.leaf = &out->leaf[out->n_leaves++];
	w.leaf->pass = pass;
	w.leaf->at_call = at_call;
	w.leaf->is_taken = is_taken;
	fill_leaf(&w);
}

/* A tile's readers that take its values as they are ready stand behind it. */
static void
add_stages(struct program *out, const struct tile_prog *p, uint32_t pass, bool at_call)
{
	const struct tile_pass *x = &p->pass[pass];
	const uint32_t *list = at_call ? x->call : x->row;
	uint32_t n = at_call ? x->n_call : x->n_row;

	for (uint32_t i = 0; i < n; i++) {
		const struct stage *s = &p->stages[list[i]];

		add_leaf(out, p, pass, at_call, s, false);
		for (uint32_t k = 0; s->anchor && k < s->anchor->n_epilogue; k++)
			add_leaf(out, p, pass, at_call, &p->stages[s->anchor->epilogue[k].stage], true);
	}
}

static uint32_t
count_stages(const struct tile_prog *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_passes; i++)
		n += (p->pass[i].n_call + p->pass[i].n_row) * (1 + ANCHOR_EPILOGUES);
	return n;
}

bool
program_of_tile(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    struct program *out, struct err *e)
{
	struct arena tmp = {0};
	struct tile_prog *p = NEW(&tmp, struct tile_prog);
	struct sched sched;
	bool ok = sched_read(schedule, &sched, e);

	*out = (struct program){0};
	if (ok) {
		sched.v[KNOB_lib] = sched.v[KNOB_algo] = INT64_MIN;
		ok = tile_make(&tmp, s, &sched, t, p, e);
	}
	if (ok) {
		out->leaf =
		    NEW_ARRAY(a, struct program_leaf, MIN_OF(count_stages(p), (uint32_t)PROGRAM_MAX_LEAVES));
		for (uint32_t i = 0; i < p->n_passes; i++) {
			add_stages(out, p, i, true);
			add_stages(out, p, i, false);
		}
		out->n_passes = p->n_passes;
		out->n_barriers = p->n_groups;
		out->shared_bytes = (double)p->shared_bytes;
		out->local_bytes = (double)p->local_bytes;
	}
	arena_fini(&tmp);
	return ok;
}

bool
program_of_schedule(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    struct program *out, struct err *e)
{
	struct sched sched;
	struct choices chosen;

	*out = (struct program){0};
	if (!sched_read(schedule, &sched, e))
		return false;
	if (!sched_get(&sched, KNOB_trace, 0))
		return program_of_tile(a, s, schedule, t, out, e);
	return fuse_choices(s, schedule, t, &chosen, e) && program_of_loops(a, s, &chosen, t, out, e);
}
