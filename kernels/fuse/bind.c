/* kernels/fuse/bind.c: the last step of the tile program: outer axes merged and ordered, scratch laid out,
 * and every index rewritten to what the loops count. */
#include "lower_int.h"

#include <string.h>

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
		}
	}
	arena_fini(&tmp);
}

static void
shape_pass(struct tile_prog *p, struct tile_pass *tp)
{
	order_outer(p, tp);
	for (int u = 0; u + 1 < (int)tp->n_outer;)
		if (!merge_outer(p, tp, u))
			u++;
	for (uint32_t m = 0; m < tp->n_row; m++)
		merge_inner(p, &p->stages[tp->row[m]]);
	tp->range = 1;
	for (uint32_t u = 0; u < tp->n_outer; u++) {
		tp->outer[u].id = tx_axis(p->tx, AXIS_OUTER, 0, tp->outer[u].extent - 1, IX_NONE);
		tp->range *= tp->outer[u].extent;
	}
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
local_strides(struct stage *s, int64_t *n_local)
{
	int64_t stride = 1;

	for (int k = (int)s->n_par - 1; k >= 0; k--) {
		struct stage_axis *a = &s->axis[k];

		a->local = a->outer < 0 ? stride : 0;
		stride *= a->outer < 0 ? a->extent : 1;
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
			local_strides(&p->stages[x->stage], &x->n_local);
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

	const struct tile_tensor *t = &p->tensors[read->tensor];

	if (t->at != AT_LOCAL)
		return ex_read(x, read->type, read->tensor, at);
	const struct stage *s = &u->stages[t->stage];
	ix_id sum = ix_const(x, 0);

	for (uint32_t k = 0; k < s->n_par; k++) {
		const struct stage_axis *a = &s->axis[k];
		if (a->local)
			sum = ix_add(x, sum, ix_mulc(x, decode_axis(p, s, k, at), a->local));
	}
	return ex_read(x, read->type, read->tensor, sum);
}

/* The stage's axes that the pass binds become outer axes. */
static void
bind_axes(struct tile_prog *p, struct stage *s, ix_id *to)
{
	const struct tile_pass *tp = &p->pass[s->pass];
	struct stage was = *s;
	uint32_t n = 0;

	for (uint32_t k = 0; k < was.n_par + was.n_red; k++) {
		const struct stage_axis a = was.axis[k];

		if (a.outer < 0) {
			s->axis[n++] = a;
			continue;
		}
		to[a.id] = ix_axis(p->tx, tp->outer[a.outer].id);
		s->n_par--;
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

			out = ix_add(x, out, ix_mulc(x, ix_axis(x, a->id), a->local));
		}
	} else if (s->target != IX_NONE) {
		out = s->target;
	} else {
		for (uint32_t k = 0; k < s->n_par; k++)
			out = ix_add(x, out, ix_mulc(x, ix_axis(x, s->axis[k].id), s->axis[k].stride));
	}
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
