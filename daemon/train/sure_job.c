/* daemon/train/sure_job.c: a made-up job, searched as daemon/planner does (search.c, costs.c). */
#include "sure.h"

#include <math.h>
#include <string.h>

/* ---- a program ------------------------------------------------------------------------ */
/* Operators in a row, with detours; a kernel is a stretch of at most so many. */
enum { MOST_OPS = 64, MOST_STRETCH = 4, NEAREST = 8 };

struct op {
	double flop_ns, bytes_ns; /* of its result */
	uint32_t back;            /* reads the result of so many before its own operand too; 0: does not */
	bool is_linear;
};
struct making {
	struct arena *a;
	struct rng *r;
	const struct sure_spec *rows;
	uint32_t n_rows;
	struct op op[MOST_OPS];
	uint32_t n_ops, n_block; /* operator i is like operator i + n_block */
	struct sure_job *job;
	uint32_t cap_kernels, cap_specs, cap_of;
	uint32_t *known; /* spec + 1 of a stretch of a block: by first operator and length */
};

static double
between(struct rng *r, double least, double most)
{
	return least * exp(rng_unit(r) * log(most / least));
}

static void
make_ops(struct making *m)
{
	uint32_t times = 1 + rng_below(m->r, 4);

	m->n_block = 4 + rng_below(m->r, 9);
	m->n_ops = m->n_block * times;
	for (uint32_t i = 0; i < m->n_ops; i++) {
		struct op *o = &m->op[i];

		if (i >= m->n_block) {
			*o = m->op[i - m->n_block];
			continue;
		}
		o->is_linear = rng_below(m->r, 5) < 2;
		o->flop_ns = between(m->r, 300, o->is_linear ? 1e6 : 3e4);
		o->bytes_ns = between(m->r, 300, 1e5);
		o->back = rng_below(m->r, 4) == 0 ? 1 + rng_below(m->r, 3) : 0;
	}
}

/* Operator i reads tensor i, and by its detour an earlier one; it makes tensor i + 1. */
static bool
reads(const struct making *m, uint32_t op, uint32_t tensor)
{
	return tensor == op || (m->op[op].back && tensor + m->op[op].back == op);
}

static bool
is_read_after(const struct making *m, uint32_t tensor, uint32_t last)
{
	bool is = tensor == m->n_ops;

	for (uint32_t i = last + 1; i < m->n_ops; i++)
		is |= reads(m, i, tensor);
	return is;
}

static bool
is_read_within(const struct making *m, uint32_t tensor, uint32_t first, uint32_t last)
{
	bool is = false;

	for (uint32_t i = first; i <= last; i++)
		is |= reads(m, i, tensor);
	return is;
}

static double
bytes_of(const struct making *m, const uint32_t *tensors, uint32_t n)
{
	double ns = 0;

	for (uint32_t i = 0; i < n; i++)
		ns += m->op[tensors[i] ? tensors[i] - 1 : 0].bytes_ns;
	return ns;
}

/* One of the rows whose bounds are nearest, of its kind where there are enough. */
static const struct sure_spec *
row_like(struct making *m, double bound_ns, bool is_linear)
{
	uint32_t near[NEAREST] = {0}, n = 0;
	double off[NEAREST];

	for (uint32_t i = 0; i < m->n_rows; i++) {
		double d =
		    fabs(log(m->rows[i].bound_ns / bound_ns)) + 3 * (m->rows[i].is_linear != is_linear);
		uint32_t at;

		if (n == NEAREST && d >= off[n - 1])
			continue;
		n += n < NEAREST;
		for (at = n - 1; at > 0 && off[at - 1] > d; at--) {
			off[at] = off[at - 1];
			near[at] = near[at - 1];
		}
		off[at] = d;
		near[at] = i;
	}
	return &m->rows[near[rng_below(m->r, n)]];
}

static uint32_t
add_spec(struct making *m, double bound_ns, bool is_linear)
{
	struct sure_job *j = m->job;
	struct sure_spec s = *row_like(m, bound_ns, is_linear);

	s.bound_ns = bound_ns;
	GROW(m->a, j->spec, j->n_specs, m->cap_specs);
	j->spec[j->n_specs] = s;
	return j->n_specs++;
}

/* Operators first..last as one kernel.  key: of its spec among those of equal stretches. */
static void
add_kernel(struct making *m, uint32_t first, uint32_t last, uint32_t key)
{
	struct sure_job *j = m->job;
	struct blp_kernel k = {.cost = 1};
	uint32_t *in = NEW_ARRAY(m->a, uint32_t, m->n_ops + 1),
		 *out = NEW_ARRAY(m->a, uint32_t, m->n_ops + 1);
	double flop_ns = 0;
	bool is_linear = false;

	for (uint32_t t = 0; t <= first; t++)
		if (is_read_within(m, t, first, last))
			in[k.n_in++] = t;
	for (uint32_t t = first + 1; t <= last + 1; t++)
		if (is_read_after(m, t, last))
			out[k.n_out++] = t;
	for (uint32_t i = first; i <= last; i++) {
		flop_ns += m->op[i].flop_ns;
		is_linear |= m->op[i].is_linear;
	}
	k.in = in;
	k.out = out;
	if (!m->known[key])
		m->known[key] = 1 +
		    add_spec(
			m, fmax(flop_ns, bytes_of(m, in, k.n_in) + bytes_of(m, out, k.n_out)), is_linear);
	GROW(m->a, j->spec_of, j->blp.n_kernels, m->cap_of);
	GROW(m->a, j->kernels, j->blp.n_kernels, m->cap_kernels);
	j->spec_of[j->blp.n_kernels] = m->known[key] - 1;
	j->kernels[j->blp.n_kernels++] = k;
}

static void
add_kernels(struct making *m)
{
	struct sure_job *j = m->job;

	m->known = NEW_ARRAY(m->a, uint32_t, (size_t)2 * m->n_block * MOST_STRETCH);
	j->single = NEW_ARRAY(m->a, uint32_t, m->n_ops);
	for (uint32_t i = 0; i < m->n_ops; i++) {
		uint32_t at = i % m->n_block * MOST_STRETCH;

		j->single[j->n_single++] = j->blp.n_kernels;
		for (uint32_t len = 0; len < MOST_STRETCH && i + len < m->n_ops; len++)
			add_kernel(m, i, i + len, at + len);
		if (i % m->n_block % 3 == 0) /* rewriting has another way */
			add_kernel(m, i, i, m->n_block * MOST_STRETCH + at);
	}
}

void
sure_job_make(struct arena *a, struct rng *r, const struct sure_spec *rows, uint32_t n, struct sure_job *out)
{
	struct making m = {.a = a, .r = r, .rows = rows, .n_rows = n, .job = out};
	uint32_t *ends = NEW_ARRAY(a, uint32_t, 2);

	*out = (struct sure_job){.noise = 0.01, .patience = UINT32_MAX};
	make_ops(&m);
	add_kernels(&m);
	ends[1] = m.n_ops;
	out->blp.n_tensors = m.n_ops + 1;
	out->blp.kernels = out->kernels;
	out->blp.given = &ends[0];
	out->blp.wanted = &ends[1];
	out->blp.n_given = out->blp.n_wanted = 1;
	if (rng_below(r, 2))
		out->patience = out->n_single + rng_below(r, out->n_specs);
}

/* ---- its search ------------------------------------------------------------------------ */
/* As in daemon/planner/search.c and costs.c. */
static const double hope = 0.5, worthwhile = 0.01;

struct run {
	struct arena *a;
	struct rng *r;
	const struct sure_job *job;
	struct blp_state *solver;
	struct sure_end *end;
	struct predict line;
	double best_ns;
	uint32_t *best, n_best;
};

static void
measure(struct run *x, uint32_t spec)
{
	const struct sure_spec *s = &x->job->spec[spec];

	if (x->end->measured_ns[spec] > 0 || x->end->n_measured >= x->job->patience)
		return;
	x->end->measured_ns[spec] = ceil(s->bound_ns * exp(s->truth + x->job->noise * rng_normal(x->r)));
	x->end->n_measured++;
}

static void
learn(struct run *x)
{
	struct arena tmp = {0};
	const struct sure_job *j = x->job;
	struct predict_row *rows = NEW_ARRAY(&tmp, struct predict_row, j->n_specs);
	uint32_t n = 0;

	for (uint32_t i = 0; i < j->n_specs; i++) {
		if (x->end->measured_ns[i] <= 0)
			continue;
		memcpy(rows[n].x, j->spec[i].line, sizeof(rows[n].x));
		rows[n++].left = log(x->end->measured_ns[i] / j->spec[i].bound_ns) - j->spec[i].before;
	}
	predict_fit(rows, n, predict_usual_sigma, &x->line);
	arena_fini(&tmp);
}

static double
expected(const struct run *x, uint32_t spec, double lean)
{
	const struct sure_spec *s = &x->job->spec[spec];

	return s->bound_ns * predict_ratio(&x->line, s->line, s->before, lean);
}

/* What every kernel costs by what its spec does; 0 stands for never. */
static int64_t *
costs(struct arena *a, const struct sure_job *j, const double *spec_ns)
{
	int64_t *out = NEW_ARRAY(a, int64_t, j->blp.n_kernels);

	for (uint32_t k = 0; k < j->blp.n_kernels; k++) {
		double ns = spec_ns[j->spec_of[k]];

		out[k] = ns <= 0 ? BLP_NEVER : (int64_t)fmax(ceil(ns), 1);
	}
	return out;
}

/* The best plan of what is measured. */
static bool
note_best(struct run *x, struct err *e)
{
	struct arena tmp = {0};
	struct blp_result r;
	bool ok = blp_solve_some(
	    &tmp, &x->job->blp, costs(&tmp, x->job, x->end->measured_ns), x->best, x->n_best, NULL, &r, e);

	if (ok) {
		x->best_ns = (double)r.cost;
		x->best = arena_dup(x->a, r.chosen, sizeof(*r.chosen) * r.n_chosen);
		x->n_best = r.n_chosen;
	}
	arena_fini(&tmp);
	return ok;
}

/* Chooses by what is expected, measures what is chosen.  *done: nothing new, or nothing worth it. */
static bool
round_of(struct run *x, bool *done, struct err *e)
{
	struct arena tmp = {0};
	const struct sure_job *j = x->job;
	double *ns = NEW_ARRAY(&tmp, double, j->n_specs);
	uint32_t before = x->end->n_measured;
	struct blp_result r;
	bool ok;

	learn(x);
	for (uint32_t i = 0; i < j->n_specs; i++)
		ns[i] = x->end->measured_ns[i] > 0 ? x->end->measured_ns[i] : expected(x, i, hope);
	ok = blp_solve_again(&tmp, x->solver, costs(&tmp, j, ns), x->best, x->n_best, &r, e);
	*done = !ok || (double)r.cost >= x->best_ns * (1 - worthwhile);
	for (uint32_t i = 0; ok && !*done && i < r.n_chosen; i++)
		measure(x, j->spec_of[r.chosen[i]]);
	*done |= x->end->n_measured == before;
	arena_fini(&tmp);
	return ok && note_best(x, e);
}

/* The claim is of true times: of the plan, and of the best that there is. */
static bool
judge(struct run *x, struct err *e)
{
	struct arena tmp = {0};
	const struct sure_job *j = x->job;
	double *ns = NEW_ARRAY(&tmp, double, j->n_specs), plan_ns = 0;
	struct blp_result r;
	bool ok;

	for (uint32_t i = 0; i < j->n_specs; i++)
		ns[i] = j->spec[i].bound_ns * exp(j->spec[i].truth);
	for (uint32_t i = 0; i < x->n_best; i++)
		plan_ns += ns[j->spec_of[x->best[i]]];
	ok = blp_solve_some(&tmp, &j->blp, costs(&tmp, j, ns), x->best, x->n_best, NULL, &r, e);
	x->end->plan_ns = x->best_ns;
	x->end->allowed_ns = ok ? (double)r.cost * x->best_ns / plan_ns : 0;
	arena_fini(&tmp);
	return ok;
}

bool
sure_job_run(struct arena *a, struct rng *r, const struct sure_job *job, struct sure_end *out, struct err *e)
{
	struct run x = {.a = a, .r = r, .job = job, .solver = blp_state_new(&job->blp, NULL), .end = out};
	bool done = false, ok;

	*out = (struct sure_end){.job = job,
	    .expected_ns = NEW_ARRAY(a, double, job->n_specs),
	    .measured_ns = NEW_ARRAY(a, double, job->n_specs)};
	for (uint32_t i = 0; i < job->n_single; i++)
		measure(&x, job->spec_of[job->single[i]]);
	ok = note_best(&x, e);
	while (ok && !done)
		ok = round_of(&x, &done, e);
	learn(&x);
	for (uint32_t i = 0; i < job->n_specs; i++)
		out->expected_ns[i] = expected(&x, i, 0);
	ok = ok && judge(&x, e);
	blp_state_free(x.solver);
	return ok;
}

/* ---- what is claimed ------------------------------------------------------------------- */
/* As daemon/planner/sure.c has it. */
static double
low_ns(const struct sure_end *x, const struct interval *v, double factor, uint32_t i)
{
	struct predictor p = {.sure = (float)factor, .head[HEAD_KERNEL].interval = *v};
	const struct sure_spec *s = &x->job->spec[i];

	if (x->measured_ns[i] > 0)
		return x->measured_ns[i] - predict_sure_errors * x->job->noise * x->measured_ns[i];
	return s->is_far ? s->bound_ns : predict_sure(&p, s->group, s->bound_ns, x->expected_ns[i]);
}

bool
sure_bound(const struct sure_end *x, const struct interval *v, double factor, double *bound_ns, struct err *e)
{
	struct arena tmp = {0};
	const struct sure_job *j = x->job;
	double *ns = NEW_ARRAY(&tmp, double, j->n_specs);
	struct blp_state *solver = blp_state_new(&j->blp, NULL);
	struct blp_result r;
	bool ok;

	for (uint32_t i = 0; i < j->n_specs; i++)
		ns[i] = low_ns(x, v, factor, i);
	ok = blp_solve_again(&tmp, solver, costs(&tmp, j, ns), NULL, 0, &r, e);
	*bound_ns = ok ? ceil(r.pi) : 0;
	blp_state_free(solver);
	arena_fini(&tmp);
	return ok;
}

bool
sure_claim(
    const struct sure_end *x, const struct interval *v, double factor, struct sure_claim *out, struct err *e)
{
	double ns;

	if (!sure_bound(x, v, factor, &ns, e))
		return false;
	*out = (struct sure_claim){.holds = ns <= x->allowed_ns, .within = x->plan_ns / ns - 1};
	return true;
}
