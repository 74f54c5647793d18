/* daemon/planner/port.c: what a plan would take on a device of another class (korch-plan port).  Its graph
 * holds all that kernels can be cut from, so the class's own choice is made over the same candidates, and the
 * plan is held to that.  By duality the reduced costs of the plan's kernels add up to what it loses, but for
 * rows that it covers twice: each kernel's share of the loss. */
#include "away.h"
#include "expect.h"
#include "perturb.h"

#include "../../schema/plan_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 64 /* msg.def */, MOST_NODES = 1024 };

static bool
read_mode(struct tune *t, const struct plan *p, struct err *e)
{
	static const char *const name[] = {
	    [IDENTIFY_FULL] = "full", [IDENTIFY_OPERATOR] = "operator", [IDENTIFY_NONE] = "none"};

	for (size_t i = 0; i < COUNT_OF(name); i++)
		if (str_is(p->fusion, name[i])) {
			t->front.mode = (enum identify_mode)i;
			return true;
		}
	return err_set(e, ERR_FORMAT, "the plan is damaged: its fusion is \"%.*s\"", STR_ARG(p->fusion));
}

/* The front of a job, from the graph that the plan was cut from. */
static bool
read_front(struct tune *t, const struct plan *p, struct err *e)
{
	struct front *f = &t->front;

	*f = (struct front){.limits = identify_limits_default};
	return read_mode(t, p, e) &&
	    (graph_read_origins(&f->graph, t->arena, p->graph, e) || err_in(e, "the plan's graph")) &&
	    (identify_run(t->arena, &f->graph, f->mode, &f->limits, &f->cands, e) ||
		err_in(e, "identification"));
}

/* A cost that a program takes; the sums of many such still fit. */
static int64_t
whole_ns(double ns)
{
	return (int64_t)fmin(fmax(ns, 1), (double)BLP_MAX_COST);
}

static int64_t
expected_of(const struct tune *t, uint32_t s)
{
	const struct spec_cost *c = &t->cost[s];

	return c->state == LAZY_FAILED ? BLP_NEVER : whole_ns(expect_range(t, c).ns);
}

/* The class's own choice, by what is expected there. */
static bool
choose_own(struct tune *t, struct blp_result *out, struct err *e)
{
	int64_t *cost = kernel_costs(t, t->arena, expected_of);

	t->solver = blp_state_new(&t->program.blp, &(struct blp_limits){.solver = t->solver_asked});
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		t->program.kernels[k].cost = cost[k];
	return blp_solve_again(t->arena, t->solver, cost, NULL, 0, out, e) || err_in(e, "choosing kernels");
}

/* The program's kernel that computes what a step does, in its place where both programs are alike. */
static uint32_t
kernel_of(const struct tune *t, const struct plan *p, const struct plan_step *step, uint32_t s,
    const struct blp_result *own)
{
	uint32_t best = UINT32_MAX;

	if (p->n_candidates == t->program.n_kernels && t->program.spec_of[step->candidate] == s)
		return step->candidate;
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		if (t->program.spec_of[k] == s &&
		    (best == UINT32_MAX || own->reduced[k] < own->reduced[best]))
			best = k;
	return best;
}

static void
look_at(const struct tune *t, const struct plan *p, uint32_t i, const struct blp_result *own,
    struct m_ported *out)
{
	const struct plan_step *step = &p->steps[i];
	const struct plan_kernel *k = &p->kernels[step->kernel];
	struct expect_range r;
	uint32_t s, kernel;

	*out = (struct m_ported){.spec = hash_bytes(k->spec.p, k->spec.n),
	    .nodes = {step->nodes.p, MIN_OF(step->nodes.n, (size_t)MOST_NODES)},
	    .was_ns = whole_ns((double)k->cost_ns)};
	if (!cost_find(t, &out->spec, &s) || t->cost[s].state == LAZY_FAILED)
		return;
	r = expect_range(t, &t->cost[s]);
	out->ns = whole_ns(r.ns);
	out->low_ns = whole_ns(r.low_ns);
	out->high_ns = whole_ns(r.high_ns);
	out->is_measured = cost_is_known(&t->cost[s]);
	kernel = kernel_of(t, p, step, s, own);
	if (kernel != UINT32_MAX && isfinite(own->reduced[kernel]))
		out->loss_ns = (int64_t)fmin(fmax(own->reduced[kernel], 0), (double)BLP_MAX_COST);
}

static int
most_first(const void *px, const void *py)
{
	const struct m_ported *x = px, *y = py;

	if ((x->ns == 0) != (y->ns == 0))
		return x->ns == 0 ? -1 : 1;
	if (x->loss_ns != y->loss_ns)
		return x->loss_ns < y->loss_ns ? 1 : -1;
	return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : hash_cmp(&x->spec, &y->spec);
}

static void
tell(struct tune *t, const struct plan *p, const struct blp_result *own)
{
	struct m_progress *to = &t->progress;
	struct m_ported *list = NEW_ARRAY(t->arena, struct m_ported, MAX_OF(p->n_steps, 1u));
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		if (plan_kernel_is_view(&p->kernels[p->steps[i].kernel]))
			continue;
		look_at(t, p, i, own, &list[n]);
		to->latency_ns += list[n].was_ns;
		to->predicted_ns += list[n].ns;
		to->predicted_low_ns += list[n].low_ns;
		to->predicted_high_ns += list[n].high_ns;
		to->guessed += list[n].ns > 0 && !list[n].is_measured;
		to->failed += list[n++].ns == 0;
	}
	to->own_ns = own->cost;
	to->chosen = n;
	qsort(list, n, sizeof(*list), most_first);
	to->ported = list;
	to->n_ported = MIN_OF(n, (uint32_t)MOST_STEPS);
}

bool
port_run(struct tune *t, struct err *e)
{
	struct plan p;
	struct blp_result own;

	if (!plan_load(t->arena, str_dup(t->arena, t->start.model_path), &p, NULL, e) ||
	    !read_front(t, &p, e))
		return false;
	program_make(t->arena, &t->front.graph, &t->front.cands, &t->program);
	views_find(t->arena, &t->front.graph, &t->front.cands, &t->program);
	if (!costs_open(t, e))
		return false;
	expect_learn(t);
	if (!choose_own(t, &own, e))
		return false;
	tell(t, &p, &own);
	return finish_without_plan(t, e);
}
