/* kernels/predict/program.c: which program a schedule makes, and the leaves of a tile program, a GPU's. */
#include "program_int.h"

#include "../fuse/tile.h"

#include <math.h>

struct walk {
	const struct tile_prog *p;
	const struct tile_pass *pass;
	const struct stage *stage;
	struct program_leaf *leaf;
	axis_id axis[LEAF_LOOPS]; /* that the loop counts */
};

static void
add_loop(struct walk *w, axis_id axis, double extent, enum leaf_bind bind, bool reduces)
{
	struct program_leaf *l = w->leaf;

	if (l->n_loops == LEAF_LOOPS)
		return;
	w->axis[l->n_loops] = axis;
	l->loop[l->n_loops++] = (struct leaf_loop){MAX_OF(extent, 1.0), bind, reduces};
}

static void
add_outer_loops(struct walk *w)
{
	const struct tile_pass *p = w->pass;

	for (uint32_t k = 0; k < p->n_outer; k++)
		add_loop(w, p->outer[k].id, (double)p->outer[k].extent, BIND_PARALLEL, false);
}

static void
add_stage_loops(struct walk *w)
{
	const struct stage *s = w->stage;
	uint32_t n = s->n_par + s->n_red;

	for (uint32_t i = 0; i < n && i < STAGE_AXES; i++) {
		bool reduces = i >= s->n_par, is_lanes = i + 1 == s->n_par && s->axis[i].stride == 1;

		if (s->axis[i].extent > 1)
			add_loop(w, s->axis[i].id, (double)s->axis[i].extent,
			    is_lanes ? BIND_VECTOR : BIND_SERIAL, reduces);
	}
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
	int64_t c = 0;

	if (ix_coef(w->p->tx, at, w->axis[i], &c))
		return (float)c;
	*is_irregular = true;
	return 1;
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

/* Does each step make this tensor? */
static bool
is_of_step(const struct walk *w, uint32_t tensor)
{
	for (uint32_t i = 0; i < w->pass->n_row; i++)
		if (w->p->stages[w->pass->row[i]].tensor == tensor)
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

static void
fill_leaf(struct walk *w)
{
	const struct stage *s = w->stage;
	struct program_leaf *l = w->leaf;

	l->kind = kind_of(s);
	if (!l->at_call)
		add_outer_loops(w);
	add_stage_loops(w);
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
add_leaf(struct program *out, const struct tile_prog *p, uint32_t pass, bool at_call, uint32_t stage)
{
	struct walk w = {.p = p, .pass = &p->pass[pass], .stage = &p->stages[stage]};

	if (out->n_leaves == PROGRAM_MAX_LEAVES)
		return;
	w.leaf = &out->leaf[out->n_leaves++];
	w.leaf->pass = pass;
	w.leaf->at_call = at_call;
	fill_leaf(&w);
}

static void
add_pass(struct program *out, const struct tile_prog *p, uint32_t pass)
{
	for (uint32_t i = 0; i < p->pass[pass].n_call; i++)
		add_leaf(out, p, pass, true, p->pass[pass].call[i]);
	for (uint32_t i = 0; i < p->pass[pass].n_row; i++)
		add_leaf(out, p, pass, false, p->pass[pass].row[i]);
}

static uint32_t
count_steps(const struct tile_prog *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_passes; i++)
		n += p->pass[i].n_call + p->pass[i].n_row;
	return n;
}

static bool
program_of_tile(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    struct program *out, struct err *e)
{
	struct arena tmp = {0};
	struct tile_prog *p = NEW(&tmp, struct tile_prog);
	bool ok = tile_make(&tmp, s, sched, t, p, e);

	if (ok) {
		out->leaf =
		    NEW_ARRAY(a, struct program_leaf, MIN_OF(count_steps(p), (uint32_t)PROGRAM_MAX_LEAVES));
		for (uint32_t i = 0; i < p->n_passes; i++)
			add_pass(out, p, i);
		out->n_passes = out->n_barriers = p->n_passes;
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
	struct choices chosen = {.wino = 0};
	enum library library;
	int64_t version;
	struct sched sched;

	*out = (struct program){0};
	if (!sched_read(schedule, &sched, e))
		return false;
	if (sched_library(&sched, &library, &version))
		for (int k = 0; k < KNOB_COUNT; k++)
			sched.v[k] = INT64_MIN;
	else if (fuse_by_trace(&sched, t) && !fuse_choices(s, schedule, t, &chosen, e))
		return false;
	return fuse_by_trace(&sched, t) ? program_of_loops(a, s, &chosen, t, out, e)
					: program_of_tile(a, s, &sched, t, out, e);
}
