/* daemon/plan/account_apart.c: what became of each ONNX node, and for neighbours, nodes and steps,
 * why they do not share a kernel.
 *
 * Two nodes could share one where a candidate holds something of both that the plan computes; two steps,
 * where one holds all that both compute.  Of such candidates the nearest measured one is kept (with the
 * cheapest plan that has it), the nearest one never measured, else one that failed; where there is none,
 * the rule that refuses the smallest set.  "Nearest" is by reduced cost. */
#include "account_int.h"

#include <string.h>

struct nearest {
	double reduced; /* meaningful with a kernel */
	uint32_t kernel;
};

static void
take_nearer(struct nearest *n, uint32_t kernel, double reduced)
{
	if (n->kernel == PLAN_NONE || reduced < n->reduced)
		*n = (struct nearest){reduced, kernel};
}

/* What a candidate must hold: something of each, or all of both. */
struct couple {
	const struct bitset *a, *b;
	bool whole;
};

static bool
holds(const struct cand *c, const struct couple *two)
{
	if (two->whole)
		return bitset_within(two->a, &c->members) && bitset_within(two->b, &c->members);
	return bitset_meets(two->a, &c->members) && bitset_meets(two->b, &c->members);
}

/* Reduced costs in the program of measured kernels, where it was solved; else none is nearer. */
static double *
measured_reduced(struct account *x)
{
	double *r = NEW_ARRAY(x->tmp, double, MAX_OF(x->in->program->n_kernels, 1u));

	for (uint32_t j = 0; x->m.solver && j < x->m.n; j++)
		r[x->m.kernel_of[j]] = x->m.base.reduced[j];
	return r;
}

struct apartness {
	struct account *x;
	struct identify_asker *asker;
	const double *reduced; /* of measured kernels */
	const uint32_t *first,
	    *holder;        /* candidates with primitive i: holder[first[i]] to before holder[first[i + 1]] */
	struct bitset near; /* candidates that may hold what is asked for */
};

/* Of tens of thousands of candidates few have a primitive. */
static void
list_holders(struct apartness *y)
{
	const struct cand_set *c = y->x->in->cands;
	uint32_t n = y->x->in->graph->n_nodes, *first = NEW_ARRAY(y->x->tmp, uint32_t, n + 2), *holder, *at;

	for (uint32_t k = 0; k < c->n_cands; k++)
		BITSET_EACH(i, &c->cands[k].members)
	first[i + 1]++;
	for (uint32_t i = 0; i < n; i++)
		first[i + 1] += first[i];
	at = arena_dup(y->x->tmp, first, (n + 1) * sizeof(*first));
	holder = NEW_ARRAY(y->x->tmp, uint32_t, MAX_OF(first[n], 1u));
	for (uint32_t k = 0; k < c->n_cands; k++)
		BITSET_EACH(i, &c->cands[k].members)
	holder[at[i]++] = k;
	y->first = first;
	y->holder = holder;
	y->near = bitset_make(y->x->tmp, MAX_OF(c->n_cands, 1u));
}

static void
add_holders(struct apartness *y, uint32_t primitive)
{
	for (uint32_t i = y->first[primitive]; i < y->first[primitive + 1]; i++)
		bit_set(&y->near, y->holder[i]);
}

/* All that hold the couple are among these: of a whole one those with its rarest primitive, else those with
 * one of a's.  A step of views alone has none. */
static void
find_near(struct apartness *y, const struct couple *two)
{
	uint32_t rarest = PLAN_NONE;

	memset(y->near.w, 0, bitset_words(&y->near) * sizeof(*y->near.w));
	for (int side = 0; side < (two->whole ? 2 : 1); side++)
		BITSET_EACH(i, side ? two->b : two->a)
		{
			if (!two->whole)
				add_holders(y, i);
			else if (rarest == PLAN_NONE ||
			    y->first[i + 1] - y->first[i] < y->first[rarest + 1] - y->first[rarest])
				rarest = i;
		}
	if (rarest != PLAN_NONE)
		add_holders(y, rarest);
}

/* A primitive of b that reads what one of a makes, with that one; false: there is none. */
static bool
find_touching(const struct account *x, const struct couple *two, struct bitset *out)
{
	const struct graph *g = x->in->graph;
	const uint32_t *class_of = x->in->program->class_of;

	BITSET_EACH(q, two->b)
	for (uint32_t k = 0; k < g->nodes[q].n_in; k++)
		BITSET_EACH(p, two->a)
	for (uint32_t o = 0; o < g->nodes[p].n_out; o++)
		if (class_of[g->nodes[p].out[o].i] == class_of[g->nodes[q].in[k].i]) {
			bit_set(out, p);
			bit_set(out, q);
			return true;
		}
	return false;
}

/* The rule for the smallest set: two that touch, else all of both. */
static struct str
rule_for(struct apartness *y, const struct couple *two)
{
	struct account *x = y->x;
	struct bitset some = bitset_make(x->tmp, x->in->graph->n_nodes);
	struct str rule = STR("");

	if (!two->whole && find_touching(x, two, &some))
		rule = identify_why(y->asker, &some);
	if (!rule.n) {
		bitset_copy(&some, two->a);
		bitset_or(&some, two->b);
		rule = identify_why(y->asker, &some);
	}
	return account_words(x, rule);
}

static void
add_apart(struct apartness *y, bool of_steps, uint32_t a, uint32_t b, const struct couple *two)
{
	struct account *x = y->x;
	struct plan *p = x->plan;
	struct nearest measured = {.kernel = PLAN_NONE}, open = measured, failed = measured;
	uint32_t chosen = PLAN_NONE; /* a third step that computes both for itself */
	struct plan_apart out = {.of_steps = of_steps,
	    .a = a,
	    .b = b,
	    .measured = PLAN_NONE,
	    .exchange = PLAN_NONE,
	    .open = PLAN_NONE,
	    .failed = PLAN_NONE,
	    .rule = STR("")};

	if (p->n_aparts == PLAN_MAX_ACCOUNT || (!bitset_count(two->a) && !bitset_count(two->b)))
		return;
	find_near(y, two);
	BITSET_EACH(k, &y->near)
	{
		if (!holds(&x->in->cands->cands[k], two))
			continue;
		if (x->step_of[k] != PLAN_NONE)
			chosen = x->step_of[k];
		else if (x->in->cost[x->in->program->spec_of[k]].has_failed)
			take_nearer(&failed, k, 0);
		else if (account_is_measured(x, k))
			take_nearer(&measured, k, y->reduced[k]);
		else
			take_nearer(&open, k, x->in->choice->reduced[k]);
	}
	if (measured.kernel != PLAN_NONE) {
		out.measured = account_rival(x, measured.kernel);
		out.exchange = account_exchange_with(x, measured.kernel);
	}
	if (open.kernel != PLAN_NONE)
		out.open = account_rival(x, open.kernel);
	if (failed.kernel != PLAN_NONE)
		out.failed = account_rival(x, failed.kernel);
	if (measured.kernel == PLAN_NONE && open.kernel == PLAN_NONE && failed.kernel == PLAN_NONE)
		out.rule = chosen == PLAN_NONE
		    ? rule_for(y, two)
		    : account_words(x,
			  str_of(arena_printf(x->tmp,
			      "chosen: step %u computes both for itself, and others need what lies between",
			      chosen)));
	GROW(x->a, p->aparts, p->n_aparts, x->cap_aparts);
	p->aparts[p->n_aparts++] = out;
}

/* ---- steps ---------------------------------------------------------------------------------------- */
/* What a step computes: its members but views. */
static struct bitset *
step_members(struct account *x)
{
	const struct graph *g = x->in->graph;
	struct bitset *m = NEW_ARRAY(x->tmp, struct bitset, MAX_OF(x->plan->n_steps, 1u));

	for (uint32_t s = 0; s < x->plan->n_steps; s++) {
		m[s] = bitset_make(x->tmp, g->n_nodes);
		BITSET_EACH(i, &x->in->cands->cands[x->kernel_of_step[s]].members)
		if (!node_is_view(g, &g->nodes[i]))
			bit_set(&m[s], i);
	}
	return m;
}

static void
apart_steps(struct apartness *y, const struct bitset *members)
{
	struct account *x = y->x;
	const struct plan *p = x->plan;
	uint32_t n = x->in->program->blp.n_tensors, *maker = NEW_ARRAY(x->tmp, uint32_t, n);

	memset(maker, 0xff, sizeof(*maker) * n);
	for (uint32_t s = 0; s < p->n_steps; s++) {
		const struct blp_kernel *b = &x->in->program->kernels[x->kernel_of_step[s]];

		for (uint32_t i = 0; i < b->n_in; i++) {
			uint32_t from = maker[b->in[i]];
			bool again = from == PLAN_NONE;

			for (uint32_t j = 0; j < i && !again; j++)
				again = maker[b->in[j]] == from;
			if (!again)
				add_apart(
				    y, true, from, s, &(struct couple){&members[from], &members[s], true});
		}
		for (uint32_t i = 0; i < b->n_out; i++)
			if (maker[b->out[i]] == PLAN_NONE)
				maker[b->out[i]] = s;
	}
}

/* ---- nodes ---------------------------------------------------------------------------------------- */
/* Of each ONNX node the primitives that the plan computes. */
static struct bitset *
computed_of_nodes(struct account *x, const struct bitset *members)
{
	const struct graph *g = x->in->graph;
	struct bitset *m = NEW_ARRAY(x->tmp, struct bitset, MAX_OF(x->plan->n_nodes, 1u));

	for (uint32_t n = 0; n < x->plan->n_nodes; n++)
		m[n] = bitset_make(x->tmp, g->n_nodes);
	for (uint32_t s = 0; s < x->plan->n_steps; s++)
		BITSET_EACH(i, &members[s])
	if (g->nodes[i].origin < x->plan->n_nodes)
		bit_set(&m[g->nodes[i].origin], i);
	return m;
}

static void
place_member(struct account *x, uint32_t step, const struct node *member, uint32_t *cap)
{
	struct plan_node *n = member->origin < x->plan->n_nodes ? &x->plan->nodes[member->origin] : NULL;

	if (!n)
		return;
	if (!node_is_view(x->in->graph, member))
		n->fate = FATE_KERNEL;
	else if (n->fate != FATE_KERNEL)
		n->fate = FATE_VIEW;
	if (n->n_steps && n->steps[n->n_steps - 1] == step)
		return;
	GROW(x->a, n->steps, n->n_steps, cap[member->origin]);
	n->steps[n->n_steps++] = step;
}

/* Where each node is computed, and what became of those that are nowhere.  A node that is but a view may
 * be named by the kernels that read through it. */
static void
place_nodes(struct account *x)
{
	const struct graph *g = x->in->graph;
	struct plan *p = x->plan;
	uint32_t *cap = NEW_ARRAY(x->tmp, uint32_t, MAX_OF(p->n_nodes, 1u));

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i].origin < p->n_nodes && !node_is_view(g, &g->nodes[i]))
			p->nodes[g->nodes[i].origin].fate = FATE_REWRITTEN;
	for (uint32_t s = 0; s < p->n_steps; s++)
		BITSET_EACH(i, &x->in->cands->cands[x->kernel_of_step[s]].members)
	place_member(x, s, &g->nodes[i], cap);
}

static void
list_nodes(struct account *x)
{
	struct plan *p = x->plan;

	if (x->in->n_nodes > PLAN_MAX_ACCOUNT)
		return;
	p->nodes = NEW_ARRAY(x->a, struct plan_node, MAX_OF(x->in->n_nodes, 1u));
	p->n_nodes = x->in->n_nodes;
	for (uint32_t n = 0; n < p->n_nodes; n++) {
		const struct account_node *from = &x->in->nodes[n];

		p->nodes[n] = (struct plan_node){.name = account_words(x, str_of(from->name)),
		    .op = account_words(x, str_of(from->op)),
		    .fate = from->lost,
		    .reads = from->reads,
		    .n_reads = from->n_reads};
	}
	place_nodes(x);
}

static bool
share_step(const struct plan_node *a, const struct plan_node *b)
{
	for (uint32_t i = 0; i < a->n_steps; i++)
		for (uint32_t j = 0; j < b->n_steps; j++)
			if (a->steps[i] == b->steps[j])
				return true;
	return false;
}

static void
apart_nodes(struct apartness *y, const struct bitset *members)
{
	struct account *x = y->x;
	const struct plan *p = x->plan;
	const struct bitset *computed = computed_of_nodes(x, members);

	for (uint32_t b = 0; b < p->n_nodes; b++)
		for (uint32_t i = 0; i < p->nodes[b].n_reads; i++) {
			uint32_t a = p->nodes[b].reads[i];

			if (p->nodes[a].fate != FATE_KERNEL || p->nodes[b].fate != FATE_KERNEL ||
			    share_step(&p->nodes[a], &p->nodes[b]) || !bitset_count(&computed[a]) ||
			    !bitset_count(&computed[b]))
				continue;
			add_apart(y, false, a, b, &(struct couple){&computed[a], &computed[b], false});
		}
}

void
account_aparts(struct account *x)
{
	struct arena asking = {0}, found = {0};
	struct apartness y = {.x = x, .reduced = measured_reduced(x)};
	const struct bitset *members = step_members(x);

	y.asker = identify_asker_new(
	    &asking, &found, x->in->graph, x->in->mode, x->in->limits, x->in->cands->n_dropped);
	list_holders(&y);
	list_nodes(x);
	apart_steps(&y, members);
	apart_nodes(&y, members);
	arena_fini(&found);
	arena_fini(&asking);
}
