/* kernels/fuse/pass.c: stages go into passes.
 *
 * A stage joins the pass of what it reads when, for some outer axes, step o of the range needs only
 * what step o made: the index along that axis of every read must simplify to one axis of the
 * reader.  What cannot join needs a barrier: a pass of its own.  A small stage that cannot join is
 * made again at the start of every call of the passes that read it, which saves the barrier. */
#include "lower_int.h"

#include <string.h>

enum {
	SMALL_COUNT = 4096, /* elements of a stage made at the start of each call */
	SMALL_WORK = 131072,
	SMALL_SHARE = 8,       /* and at least so much less work than the largest stage */
	LOCAL_LIMIT = 1 << 18, /* bytes of per-thread scratch for one step */
	LONE_WORK = 1 << 15,   /* a pass of so little work may have a range of one */
	ENOUGH_STEPS = 4,
	A_VECTOR_ROW = 64,   /* elements along memory that make a step */
	TILE_EDGE = 128,     /* rows or columns of a GPU's tile, at most */
	ENOUGH_SWEEPS = 512, /* steps, where a block takes more than one tile */
	TILES_A_BLOCK = 2,   /* linear stages of a pass */
};

/* ---- passes while stages are dealt out to them -------------------------------------------------- */
/* An outer axis of a pass under construction: which axis of each member it is. */
struct form_outer {
	int64_t extent;
	uint32_t *axis; /* of each stage of the program: its axis number */
};
struct form_pass {
	struct form_outer outer[PASS_OUTER + STAGE_AXES];
	uint32_t n_outer;
	uint32_t member[PASS_STEPS];
	uint32_t n_member;
	double work;
};
struct form {
	struct tile_prog *p;
	struct arena tmp;
	struct form_pass pass[TILE_PASSES];
	uint32_t n_pass;
	double most_work;   /* of one stage */
	uint32_t *min_pass; /* of each stage: the first pass that may read it across a barrier or in a call */
	bool *late;         /* of each stage: it waits for a reduction of its pass */
};

/* ---- splitting axes of members -------------------------------------------------------------- */
/* Stage i's axis k is now k and k+1: axis numbers behind it move. */
static void
renumber(struct form_pass *fp, uint32_t i, uint32_t k)
{
	for (uint32_t u = 0; u < fp->n_outer; u++)
		if (fp->outer[u].axis[i] > k)
			fp->outer[u].axis[i]++;
}

static bool
has_room(const struct tile_prog *p, const struct form_pass *fp)
{
	for (uint32_t m = 0; m < fp->n_member; m++) {
		const struct stage *s = &p->stages[fp->member[m]];
		if (s->n_par + s->n_red == STAGE_AXES)
			return false;
	}
	return fp->n_outer < PASS_OUTER + STAGE_AXES;
}

/* Outer axis u of the pass becomes u (extent / f) and u+1 (f), in every member. */
static void
split_outer(struct form *f, struct form_pass *fp, uint32_t u, int64_t factor)
{
	struct tile_prog *p = f->p;

	memmove(&fp->outer[u + 1], &fp->outer[u], (fp->n_outer - u) * sizeof(fp->outer[0]));
	fp->n_outer++;
	fp->outer[u + 1].axis = NEW_ARRAY(&f->tmp, uint32_t, p->n_stages);
	memcpy(fp->outer[u + 1].axis, fp->outer[u].axis, p->n_stages * sizeof(uint32_t));
	fp->outer[u].extent /= factor;
	fp->outer[u + 1].extent = factor;
	for (uint32_t m = 0; m < fp->n_member; m++) {
		uint32_t i = fp->member[m], k = fp->outer[u].axis[i];

		stage_split_axis(p->tx, &p->stages[i], k, factor);
		renumber(fp, i, k);
		fp->outer[u + 1].axis[i] = k + 1;
	}
}

/* The index along outer axis u is f * a + rest: then the axis splits at f. */
static int64_t
outer_factor(const struct tx *x, ix_id i, int64_t extent)
{
	const struct ix *n = ix_get(x, i);
	int64_t f = 0;

	if (n->kind != IX_LIN)
		return 0;
	for (uint32_t t = 0; t < n->n_terms; t++)
		if (n->terms[t].coef > 1 && (f == 0 || n->terms[t].coef < f))
			f = n->terms[t].coef;
	return f > 1 && f < extent && extent % f == 0 ? f : 0;
}

/* Splits the pass's outer axis u where index i along it is f * a + rest; false: it is not. */
static bool
split_at(struct form *f, uint32_t q, uint32_t u, ix_id i)
{
	struct form_pass *fp = &f->pass[q];
	int64_t factor = outer_factor(f->p->tx, i, fp->outer[u].extent);

	if (!factor || !has_room(f->p, fp))
		return false;
	split_outer(f, fp, u, factor);
	return true;
}

/* ---- joining ----------------------------------------------------------------------------------- */
static uint32_t
pass_of(const struct form *f, uint32_t stage)
{
	return f->p->stages[stage].pass;
}

static bool
is_member_read(const struct form *f, uint32_t tensor, uint32_t q)
{
	const struct stage *m = &f->p->stages[f->p->tensors[tensor].stage];

	return !m->at_call && m->pass == q;
}

/* Axis of stage i that every read of members names for outer axis u; -1: none. */
static int
matching_axis(struct form *f, uint32_t i, uint32_t q, uint32_t u, const struct stage_read *r, uint32_t n)
{
	struct tile_prog *p = f->p;
	const struct stage *s = &p->stages[i];
	int found = -1;

	for (uint32_t k = 0; k < n; k++) {
		axis_id id;
		int a = -1;

		if (!is_member_read(f, r[k].tensor, q))
			continue;
		uint32_t maker = p->tensors[r[k].tensor].stage;
		ix_id d = decode_axis(p, &p->stages[maker], f->pass[q].outer[u].axis[maker], r[k].at);

		if (!ix_is_axis(p->tx, d, &id))
			return -1;
		for (uint32_t j = 0; j < s->n_par; j++)
			if (s->axis[j].id == id && s->axis[j].extent == f->pass[q].outer[u].extent)
				a = (int)j;
		if (a < 0 || (found >= 0 && found != a))
			return -1;
		found = a;
	}
	return found;
}

/* One split that brings the stage's axes and the pass's outer axes closer; false: none helps. */
static bool
refine(struct form *f, uint32_t i, uint32_t q, const struct stage_read *r, uint32_t n)
{
	struct tile_prog *p = f->p;
	struct form_pass *fp = &f->pass[q];

	for (uint32_t u = 0; u < fp->n_outer; u++) {
		for (uint32_t k = 0; k < n; k++) {
			if (!is_member_read(f, r[k].tensor, q))
				continue;
			uint32_t maker = p->tensors[r[k].tensor].stage;
			ix_id d = decode_axis(p, &p->stages[maker], fp->outer[u].axis[maker], r[k].at);

			if (split_at(f, q, u, d) || stage_split_for(p->tx, &p->stages[i], d))
				return true;
		}
	}
	return false;
}

/* Axes of a stage without reads of members, in order, by extent. */
static bool
match_by_extent(const struct form *f, uint32_t i, const struct form_pass *fp, int *match)
{
	const struct stage *s = &f->p->stages[i];
	uint32_t j = 0;

	for (uint32_t u = 0; u < fp->n_outer; u++) {
		while (j < s->n_par && s->axis[j].extent != fp->outer[u].extent)
			j++;
		if (j == s->n_par)
			return false;
		match[u] = (int)j++;
	}
	return fp->n_outer > 0;
}

/* Bytes of one step's scratch when the pass keeps the outer axes with match[u] >= 0. */
static double
local_bytes(const struct form *f, uint32_t q, const int *match)
{
	const struct form_pass *fp = &f->pass[q];
	double steps = 1, bytes = 0;

	for (uint32_t u = 0; u < fp->n_outer; u++)
		steps *= match[u] >= 0 ? (double)fp->outer[u].extent : 1;
	for (uint32_t m = 0; m < fp->n_member; m++) {
		const struct tile_tensor *t = &f->p->tensors[f->p->stages[fp->member[m]].tensor];

		if (t->at != AT_RESULT)
			bytes += (double)t->count * (double)dtype_size(t->type) / steps;
	}
	return bytes;
}

/* Steps that an outer axis is good for: one that runs along memory is worth its vectors. */
static double
steps_of(const struct form *f, uint32_t q, uint32_t u)
{
	const struct form_pass *fp = &f->pass[q];
	uint32_t most = fp->member[0];

	for (uint32_t m = 1; m < fp->n_member; m++)
		if (stage_work(&f->p->stages[fp->member[m]]) > stage_work(&f->p->stages[most]))
			most = fp->member[m];
	double n = (double)fp->outer[u].extent;
	bool along = f->p->stages[most].axis[fp->outer[u].axis[most]].stride == 1;

	return along ? MAX_OF(n / A_VECTOR_ROW, 1.0) : n;
}

/* ---- on a GPU ------------------------------------------------------------------------------------- */
/* What stage i reads waits for a reduction of the pass. */
static bool
is_late(const struct form *f, uint32_t q, const struct stage_read *r, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++) {
		uint32_t maker = f->p->tensors[r[k].tensor].stage;

		if (is_member_read(f, r[k].tensor, q) &&
		    (f->late[maker] || f->p->stages[maker].kind == STAGE_REDUCE))
			return true;
	}
	return false;
}

static bool
is_kept(const struct form *f, uint32_t q, const int *match, uint32_t stage, uint32_t axis)
{
	const struct form_pass *fp = &f->pass[q];

	for (uint32_t u = 0; u < fp->n_outer; u++)
		if (match[u] >= 0 && fp->outer[u].axis[stage] == axis)
			return true;
	return false;
}

/* What a step makes of the linear stage: rows and columns of one factor each, or a batch of such. */
static bool
steps_are_batches(const struct form *f, uint32_t q, const int *match, uint32_t linear)
{
	const struct stage *s = &f->p->stages[linear];

	for (uint32_t k = 0; k < s->n_par; k++)
		if (!is_kept(f, q, match, linear, k) && ex_has(f->p->tx, s->a, s->axis[k].id) &&
		    ex_has(f->p->tx, s->b, s->axis[k].id))
			return true;
	return false;
}

/* Does one tile hold all that the linear stage makes in a step? */
static bool
is_one_tile(const struct form *f, uint32_t q, const int *match, uint32_t linear)
{
	const struct stage *s = &f->p->stages[linear];
	int64_t rows = 1, columns = 1;

	for (uint32_t k = 0; k < s->n_par; k++) {
		if (is_kept(f, q, match, linear, k))
			continue;
		if (ex_has(f->p->tx, s->a, s->axis[k].id))
			rows *= s->axis[k].extent;
		else
			columns *= s->axis[k].extent;
	}
	return rows <= TILE_EDGE && columns <= TILE_EDGE;
}

static bool
has_own_axes(const struct form *f, uint32_t i, const struct form_pass *fp, const int *match)
{
	const struct stage *s = &f->p->stages[i];
	uint32_t bound = 0;

	for (uint32_t u = 0; u < fp->n_outer; u++)
		bound += match[u] >= 0;
	return s->n_par + s->n_red > bound;
}

/* A step of the range is a tile, or several that a block takes one after another: then nothing may be
 * left to do at their points when the last one is summed up, and steps must be enough. */
static bool
suits_tiles(
    const struct form *f, uint32_t i, uint32_t q, const int *match, const struct stage_read *r, uint32_t n)
{
	const struct form_pass *fp = &f->pass[q];
	double steps = 1;

	for (uint32_t u = 0; u < fp->n_outer; u++)
		steps *= match[u] >= 0 ? (double)fp->outer[u].extent : 1;
	uint32_t linear = f->p->stages[i].kind == STAGE_LINEAR;

	for (uint32_t m = 0; m < fp->n_member; m++) {
		if (f->p->stages[fp->member[m]].kind != STAGE_LINEAR)
			continue;
		if (++linear > TILES_A_BLOCK)
			return false;
		if (steps_are_batches(f, q, match, fp->member[m]))
			return false;
		if (is_one_tile(f, q, match, fp->member[m]))
			continue;
		if (steps < ENOUGH_SWEEPS || linear == TILES_A_BLOCK ||
		    (is_late(f, q, r, n) && has_own_axes(f, i, fp, match)))
			return false;
	}
	return true;
}

/* Would the smaller set of outer axes still be worth a common pass? */
static bool
is_enough(const struct form *f, uint32_t q, const int *match, double work)
{
	const struct form_pass *fp = &f->pass[q];
	double before = 1, after = 1;

	for (uint32_t u = 0; u < fp->n_outer; u++) {
		before *= steps_of(f, q, u);
		after *= match[u] >= 0 ? steps_of(f, q, u) : 1;
	}
	if (local_bytes(f, q, match) > LOCAL_LIMIT)
		return false;
	if (after >= MIN_OF(before, (double)ENOUGH_STEPS))
		return true;
	return fp->work + work <= LONE_WORK;
}

/* Stage i becomes a member of pass q, which keeps the outer axes with match[u] >= 0. */
static void
join(struct form *f, uint32_t i, uint32_t q, const int *match)
{
	struct form_pass *fp = &f->pass[q];
	uint32_t n = 0;

	for (uint32_t u = 0; u < fp->n_outer; u++) {
		if (match[u] < 0)
			continue;
		fp->outer[n] = fp->outer[u];
		fp->outer[n].axis[i] = (uint32_t)match[u];
		n++;
	}
	fp->n_outer = n;
	fp->member[fp->n_member++] = i;
	fp->work += stage_work(&f->p->stages[i]);
	f->p->stages[i].pass = q;
	f->min_pass[i] = q + 1;
}

/* Alone in its pass: updates run in order, and nothing else is meant to wait for them. */
static bool
is_loner(const struct stage *s)
{
	return s->kind == STAGE_SCATTER;
}

static bool
try_join(struct form *f, uint32_t i, uint32_t q)
{
	struct stage *s = &f->p->stages[i];
	struct form_pass *fp = &f->pass[q];
	struct stage_read *r;
	int match[PASS_OUTER + STAGE_AXES];
	bool reads_members = false;

	if (f->p->apart && f->p->apart[i])
		return false;
	if (is_loner(s) || is_loner(&f->p->stages[fp->member[0]]) || fp->n_member == PASS_STEPS)
		return false;
	for (int turn = 0; turn < 8; turn++) {
		uint32_t n = stage_reads(f->p, s, &f->tmp, &r);
		bool all = true;

		for (uint32_t k = 0; k < n; k++)
			reads_members |= is_member_read(f, r[k].tensor, q);
		if (!reads_members) {
			if (!match_by_extent(f, i, fp, match) || !is_enough(f, q, match, stage_work(s)))
				return false;
			break;
		}
		for (uint32_t u = 0; u < fp->n_outer; u++) {
			match[u] = matching_axis(f, i, q, u, r, n);
			all = all && match[u] >= 0;
		}
		if (all || !refine(f, i, q, r, n))
			break;
		s = &f->p->stages[i];
	}
	for (uint32_t u = 0; u < fp->n_outer; u++)
		for (uint32_t v = 0; v < u; v++)
			if (match[v] >= 0 && match[v] == match[u])
				match[u] = -1;
	if (reads_members && !is_enough(f, q, match, stage_work(s)))
		return false;
	uint32_t n = stage_reads(f->p, s, &f->tmp, &r);

	if (!suits_tiles(f, i, q, match, r, n))
		return false;
	f->late[i] = is_late(f, q, r, n);
	join(f, i, q, match);
	return true;
}

static bool
new_pass(struct form *f, uint32_t i, struct err *e)
{
	const struct stage *s = &f->p->stages[i];
	struct form_pass *fp = &f->pass[f->n_pass];
	int match[STAGE_AXES];

	if (f->n_pass == TILE_PASSES)
		return err_set(e, ERR_INFEASIBLE, "passes: it needs more than %d passes", TILE_PASSES);
	*fp = (struct form_pass){.n_outer = 0};
	for (uint32_t k = 0; k < s->n_par && !is_loner(s); k++) {
		fp->outer[fp->n_outer].extent = s->axis[k].extent;
		fp->outer[fp->n_outer].axis = NEW_ARRAY(&f->tmp, uint32_t, f->p->n_stages);
		match[fp->n_outer++] = (int)k;
	}
	join(f, i, f->n_pass++, match);
	return true;
}

static bool
is_small(const struct form *f, const struct stage *s)
{
	const struct tile_tensor *t = &f->p->tensors[s->tensor];

	return t->at != AT_RESULT && !s->adds_parts && !s->sweeps && t->count <= SMALL_COUNT &&
	    stage_work(s) <= SMALL_WORK && stage_work(s) * SMALL_SHARE <= f->most_work &&
	    (s->kind == STAGE_MAP || s->kind == STAGE_REDUCE || s->kind == STAGE_ARG);
}

static bool
place_stage(struct form *f, uint32_t i, struct err *e)
{
	struct stage *s = &f->p->stages[i];
	struct stage_read *r;
	uint32_t n = stage_reads(f->p, s, &f->tmp, &r), first = 0, barrier = 0;
	bool reads_pass = false;

	for (uint32_t k = 0; k < n; k++) {
		uint32_t maker = f->p->tensors[r[k].tensor].stage;
		bool call = f->p->stages[maker].at_call;

		reads_pass |= !call;
		first = MAX_OF(first, call ? f->min_pass[maker] : pass_of(f, maker));
		barrier = MAX_OF(barrier, f->min_pass[maker]);
	}
	if (is_small(f, s) && !reads_pass) {
		s->at_call = true;
		f->min_pass[i] = barrier;
		return true;
	}
	if (reads_pass && first < f->n_pass && try_join(f, i, first))
		return true;
	if (is_small(f, s)) {
		s->at_call = true;
		f->min_pass[i] = barrier;
		return true;
	}
	for (uint32_t q = reads_pass ? MAX_OF(first, barrier) : first; q < f->n_pass; q++)
		if (try_join(f, i, q))
			return true;
	return new_pass(f, i, e);
}

/* ---- the result ------------------------------------------------------------------------------ */
/* Small stages go, in order, to every pass that needs them. */
static void
spread_calls(struct form *f, uint32_t q, uint32_t stage, bool *taken)
{
	struct tile_prog *p = f->p;
	struct stage_read *r;
	uint32_t n = stage_reads(p, &p->stages[stage], &f->tmp, &r);

	for (uint32_t k = 0; k < n; k++) {
		uint32_t maker = p->tensors[r[k].tensor].stage;

		if (!p->stages[maker].at_call || taken[maker])
			continue;
		taken[maker] = true;
		spread_calls(f, q, maker, taken);
		p->pass[q].call[p->pass[q].n_call++] = maker;
	}
}

static bool
write_pass(struct form *f, uint32_t q, struct err *e)
{
	struct tile_prog *p = f->p;
	struct form_pass *fp = &f->pass[q];
	struct tile_pass *to = &p->pass[q];
	bool *taken = NEW_ARRAY(&f->tmp, bool, p->n_stages);

	if (fp->n_outer > PASS_OUTER)
		fp->n_outer = PASS_OUTER;
	to->n_outer = fp->n_outer;
	for (uint32_t u = 0; u < fp->n_outer; u++)
		to->outer[u] = (struct pass_outer){.id = AXIS_NONE, .extent = fp->outer[u].extent};
	for (uint32_t m = 0; m < fp->n_member; m++) {
		struct stage *s = &p->stages[fp->member[m]];

		to->row[to->n_row++] = fp->member[m];
		for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
			s->axis[k].outer = -1;
		for (uint32_t u = 0; u < fp->n_outer; u++)
			s->axis[fp->outer[u].axis[fp->member[m]]].outer = (int)u;
		spread_calls(f, q, fp->member[m], taken);
		if (to->n_call > PASS_STEPS / 2)
			return err_set(e, ERR_INFEASIBLE, "steps: a pass needs more than %d small steps",
			    PASS_STEPS / 2);
	}
	return true;
}

bool
passes_form(struct tile_prog *p, struct err *e)
{
	struct form *f = NEW(p->arena, struct form);
	bool ok = true;

	*f = (struct form){.p = p};
	for (uint32_t i = 0; i < p->n_stages; i++) {
		stage_split_divisions(p->tx, &p->stages[i]);
		for (uint32_t k = 0; k < p->stages[i].n_par + p->stages[i].n_red; k++)
			p->stages[i].axis[k].outer = -1;
		f->most_work = MAX_OF(f->most_work, stage_work(&p->stages[i]));
	}
	f->min_pass = NEW_ARRAY(p->arena, uint32_t, p->n_stages);
	f->late = NEW_ARRAY(p->arena, bool, p->n_stages);
	for (uint32_t i = 0; i < p->n_stages && ok; i++)
		ok = place_stage(f, i, e);
	for (uint32_t q = 0; q < f->n_pass && ok; q++)
		ok = write_pass(f, q, e);
	p->n_passes = f->n_pass;
	arena_fini(&f->tmp);
	return ok;
}
