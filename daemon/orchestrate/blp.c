/* daemon/orchestrate/blp.c: the solver's front: cleans once, keeps the covering program between
 * solutions, and puts the result into the caller's numbers. */
#include "blp_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct blp_state {
	struct arena arena;
	struct blp_limits limits; /* no zeros */
	struct prog prog;
	struct cover *cover;
	struct err broken;      /* the program itself was refused */
	uint32_t *last, n_last; /* the plan of the last solution, in numbers of the prog */
	struct arena lp_arena;  /* of `lp` */
	struct cover_result lp; /* of the last solution */
	uint32_t *wanted;       /* as given, for words */
};

bool
blp_solver_read(struct str name, enum blp_solver *out, struct err *e)
{
	*out = str_is(name, "lp_solve") ? BLP_LP_SOLVE : BLP_CLP;
	return *out == BLP_LP_SOLVE || name.n == 0 || str_is(name, "clp") ||
	    err_set(e, ERR_USAGE, "--solver %.*s: it is clp or lp_solve", STR_ARG(name));
}

static struct blp_limits
with_defaults(const struct blp_limits *lim)
{
	struct blp_limits l = lim ? *lim : (struct blp_limits){0};

	if (l.beam_width == 0)
		l.beam_width = 6400;
	if (l.max_states == 0)
		l.max_states = 8u * 1000 * 1000;
	if (l.max_rounds == 0)
		l.max_rounds = 80;
	if (l.max_work == 0)
		l.max_work = (uint64_t)4000 * 1000 * 1000;
	return l;
}

struct blp_state *
blp_state_new(const struct blp *p, const struct blp_limits *lim)
{
	struct blp_state *s = heap_alloc(sizeof(*s));

	s->limits = with_defaults(lim);
	if (!prog_make(&s->arena, p, &s->prog, &s->broken))
		return s;
	for (uint32_t i = 0; i < p->n_wanted; i++) {
		uint32_t t = 0;
		bool is_given = false;

		for (uint32_t j = 0; j < p->n_given; j++)
			is_given |= p->given[j] == p->wanted[i];
		while (t < s->prog.n_tensors && s->prog.tensor_of[t] != p->wanted[i])
			t++;
		if (!is_given &&
		    (t == s->prog.n_tensors || s->prog.makers.first[t] == s->prog.makers.first[t + 1])) {
			err_set(&s->broken, ERR_MODEL, "no kernels make the wanted tensor %u", p->wanted[i]);
			return s;
		}
	}
	if (s->prog.n_tensors)
		s->cover = cover_new(&s->prog);
	s->last = NEW_ARRAY(&s->arena, uint32_t, s->prog.n_kernels);
	return s;
}

void
blp_state_free(struct blp_state *s)
{
	if (!s)
		return;
	cover_free(s->cover);
	arena_fini(&s->lp_arena);
	arena_fini(&s->arena);
	free(s);
}

/* Takes a set of kernels as the plan to beat, if it is one and is cheaper. */
static void
offer(struct search *s, const uint32_t *set, uint32_t n)
{
	uint32_t *copy = arena_dup(s->a, set, sizeof(*set) * n);
	int64_t cost;

	if (prog_cost_of(s->g, copy, n) == BLP_NEVER || !prog_schedule(s->a, s->g, copy, n, NULL, NULL))
		return;
	greedy_trim(s->a, s->g, copy, &n);
	cost = prog_cost_of(s->g, copy, n);
	if (cost >= s->cost)
		return;
	s->set = copy;
	s->n_set = n;
	s->cost = cost;
}

static void
offer_start(struct search *s, const uint32_t *start, uint32_t n)
{
	uint32_t *set = NEW_ARRAY(s->a, uint32_t, n), m = 0;
	bool *is_in = NEW_ARRAY(s->a, bool, s->g->n_kernels);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = start[i] < s->g->n_source ? s->g->kernel_of[start[i]] : NONE;

		if (k == NONE || is_in[k])
			continue;
		is_in[k] = true;
		set[m++] = k;
	}
	offer(s, set, m);
}

/* Rows with a dual, over all kernels of the struct blp. */
static void
write_rows(struct arena *a, const struct search *s, struct blp_result *out)
{
	uint32_t n_all = s->lp.n_rows;

	for (uint32_t r = 0; r < n_all; r++)
		out->n_rows += s->lp.dual[r] > 0;
	out->rows = NEW_ARRAY(a, struct blp_row, out->n_rows);
	out->n_rows = 0;
	for (uint32_t r = 0; r < n_all; r++) {
		struct blp_row *row = &out->rows[out->n_rows];
		uint32_t n;
		const uint32_t *kernels = cover_row(s->cover, r, &n);

		if (s->lp.dual[r] == 0)
			continue;
		out->n_rows++;
		row->dual = (double)s->lp.dual[r] / (double)FIXED_ONE;
		for (uint32_t i = 0; i < n; i++)
			row->n += s->g->duplicates.first[kernels[i] + 1] - s->g->duplicates.first[kernels[i]];
		row->kernels = NEW_ARRAY(a, uint32_t, row->n);
		row->n = 0;
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = s->g->duplicates.first[kernels[i]];
			     j < s->g->duplicates.first[kernels[i] + 1]; j++)
				row->kernels[row->n++] = s->g->duplicates.item[j];
	}
}

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

static void
write_result(struct arena *a, const struct search *s, const int64_t *cost, struct blp_result *out)
{
	const struct prog *g = s->g;

	out->chosen = NEW_ARRAY(a, uint32_t, s->n_set);
	out->n_chosen = s->n_set;
	for (uint32_t i = 0; i < s->n_set; i++)
		out->chosen[i] = g->best[s->set[i]];
	out->cost = s->cost;
	out->bound = s->bound;
	out->proved = s->bound >= s->cost;
	out->pi = (double)s->lp.pi / (double)FIXED_ONE;
	out->reduced = NEW_ARRAY(a, double, g->n_source);
	for (uint32_t j = 0; j < g->n_source; j++) {
		uint32_t k = g->kernel_of[j];

		if (cost[j] == BLP_NEVER)
			out->reduced[j] = HUGE_VAL;
		else if (k == NONE)
			out->reduced[j] = (double)cost[j];
		else
			out->reduced[j] =
			    (double)s->lp.reduced[k] / (double)FIXED_ONE + (double)(cost[j] - g->cost[k]);
	}
	write_rows(a, s, out);
	for (uint32_t r = 0; r < out->n_rows; r++)
		qsort(out->rows[r].kernels, out->rows[r].n, sizeof(uint32_t), by_number);
	out->n_states = s->n_states;
	out->n_made = s->n_made;
	out->n_simplex = s->lp.n_simplex;
	out->n_columns = s->lp.n_columns;
	out->n_rows_made = s->lp.n_rows;
	out->n_branches = s->n_branches;
}

void
blp_state_limit(struct blp_state *s, const struct blp_limits *lim)
{
	s->limits = with_defaults(lim);
}

/* Takes the costs and finds the plan to beat. */
static bool
begin(struct blp_state *st, struct search *s, const int64_t *cost, const uint32_t *start, uint32_t n_start,
    struct err *e)
{
	uint32_t *set, n, missing;

	if (st->broken.code != ERR_NONE) {
		*e = st->broken;
		return false;
	}
	for (uint32_t k = 0; k < st->prog.n_source; k++)
		if (cost[k] != BLP_NEVER && (cost[k] < 1 || cost[k] > BLP_MAX_COST))
			return err_set(e, ERR_MODEL, "kernel %u costs %lld ns; 1 to 2^40 are allowed", k,
			    (long long)cost[k]);
	prog_set_costs(&st->prog, cost);
	if (!greedy_plan(s->a, &st->prog, &set, &n, &missing))
		return err_set(e, ERR_MODEL, "no usable kernels make tensor %u, which every plan left needs",
		    st->prog.tensor_of[missing]);
	offer(s, set, n);
	if (start)
		offer_start(s, start, n_start);
	offer(s, st->last, st->n_last);
	return true;
}

static void
solve_cover(struct blp_state *st)
{
	arena_fini(&st->lp_arena);
	st->lp = (struct cover_result){0};
	cover_solve(&st->lp_arena, st->cover, &st->limits, &st->lp);
}

/* The plan is kept for the next time only where it came from a program of its own: one without most
 * kernels is no start for the whole. */
static bool
solve(struct arena *a, struct blp_state *st, const int64_t *cost, const uint32_t *start, uint32_t n_start,
    bool has_duals, struct blp_result *out, struct err *e)
{
	struct arena tmp = {0};
	struct search s = {
	    .a = &tmp, .g = &st->prog, .cover = st->cover, .limits = &st->limits, .cost = BLP_NEVER};
	bool ok;

	*out = (struct blp_result){0};
	ok = begin(st, &s, cost, start, n_start, e);
	if (ok && st->cover) {
		if (!has_duals)
			solve_cover(st);
		s.lp = st->lp;
		if (!has_duals && st->limits.solver == BLP_LP_SOLVE)
			ok = search_direct(&s, e);
		else
			(has_duals ? search_plan : search_run)(&s);
	}
	if (ok && !has_duals) {
		memcpy(st->last, s.set, sizeof(*s.set) * s.n_set);
		st->n_last = s.n_set;
	}
	if (ok)
		write_result(a, &s, cost, out);
	out->solver = has_duals ? BLP_CLP : st->limits.solver;
	arena_fini(&tmp);
	return ok;
}

bool
blp_solve_again(struct arena *a, struct blp_state *st, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, struct blp_result *out, struct err *e)
{
	return solve(a, st, cost, start, n_start, false, out, e);
}

bool
blp_plan_again(struct arena *a, struct blp_state *st, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, struct blp_result *out, struct err *e)
{
	return solve(a, st, cost, start, n_start, true, out, e);
}

bool
blp_solve(struct arena *a, const struct blp *p, const uint32_t *start, uint32_t n_start,
    const struct blp_limits *lim, struct blp_result *out, struct err *e)
{
	struct blp_state *s = blp_state_new(p, lim);
	int64_t *cost = heap_alloc(sizeof(*cost) * p->n_kernels);
	bool ok;

	for (uint32_t k = 0; k < p->n_kernels; k++)
		cost[k] = p->kernels[k].cost;
	ok = blp_solve_again(a, s, cost, start, n_start, out, e);
	free(cost);
	blp_state_free(s);
	return ok;
}
