/* daemon/plan/account.c: for each step the cheapest plan without its candidate, as an exchange of
 * kernels; its cost difference is a difference of recorded measurements (D37). */
#include "account_int.h"

#include <stdlib.h>
#include <string.h>

/* Questions to the program of measured kernels, and states that they make together: a large program is asked
 * less. */
enum {
	MAX_ASKS = 1000,
	MAX_STATES = 1000000,
	MAX_WORDS_BYTES = 1 << 20,
	NAMES_BYTES = 300,
	MAX_EXCHANGED = 64
};

/* ---- words and rivals ------------------------------------------------------------------------- */
struct str
account_words(struct account *x, struct str s)
{
	size_t n = MIN_OF(s.n, (size_t)PLAN_MAX_WORDS);

	while (n > 0 && n < s.n && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--; /* no half characters */
	if (!n || x->n_words + n > MAX_WORDS_BYTES)
		return STR("");
	x->n_words += n;
	return (struct str){str_dup(x->a, (struct str){s.p, n}), n};
}

/* Names of the ONNX nodes that a candidate covers, each once. */
static struct str
names_of(struct account *x, const struct cand *c)
{
	struct strbuf sb;
	struct bitset seen = bitset_make(x->tmp, MAX_OF(x->in->n_nodes, 1u));

	sb_init(&sb, x->tmp);
	BITSET_EACH(i, &c->members)
	{
		uint32_t origin = x->in->graph->nodes[i].origin;

		if (origin >= x->in->n_nodes || bit_get(&seen, origin))
			continue;
		bit_set(&seen, origin);
		if (sb.n + strlen(x->in->nodes[origin].name) > NAMES_BYTES) {
			sb_addz(&sb, sb.n ? ",..." : "...");
			break;
		}
		sb_addf(&sb, "%s%s", sb.n ? "," : "", x->in->nodes[origin].name);
	}
	return account_words(x, sb_str(&sb));
}

bool
account_is_measured(const struct account *x, uint32_t kernel)
{
	const struct account_cost *c = &x->in->cost[x->in->program->spec_of[kernel]];

	return !c->has_failed && c->measured_ns > 0;
}

uint32_t
account_rival(struct account *x, uint32_t kernel)
{
	uint32_t s = x->in->program->spec_of[kernel];
	const struct account_cost *c = &x->in->cost[s];
	struct plan *p = x->plan;

	if (x->rival_of[kernel] != PLAN_NONE || p->n_rivals == PLAN_MAX_ACCOUNT)
		return x->rival_of[kernel];
	GROW(x->a, p->rivals, p->n_rivals, x->cap_rivals);
	p->rivals[p->n_rivals] = (struct plan_rival){.spec = x->in->cands->specs[s].hash,
	    .nodes = names_of(x, &x->in->cands->cands[kernel]),
	    .cause = c->has_failed ? account_words(x, c->cause) : STR(""),
	    .candidate = x->candidate_of[kernel],
	    .is_measured = account_is_measured(x, kernel),
	    .bound_ns = c->bound_ns,
	    .expected_ns = c->expected_ns};
	if (account_is_measured(x, kernel)) {
		p->rivals[p->n_rivals].cost_ns = x->in->program->kernels[kernel].cost;
		p->rivals[p->n_rivals].spread_ns = c->spread_ns;
		p->rivals[p->n_rivals].error_ns = c->error_ns;
	}
	return x->rival_of[kernel] = p->n_rivals++;
}

/* ---- the program of measured kernels ------------------------------------------------------------ */
static const struct blp_limits limits = {.beam_width = 20, .max_states = 100000, .max_rounds = 10};

static void
open_program(struct account *x)
{
	const struct program *p = x->in->program;
	struct blp sub = p->blp;
	struct blp_kernel *kernels = NEW_ARRAY(x->tmp, struct blp_kernel, p->n_kernels);
	int64_t *cost = NEW_ARRAY(x->tmp, int64_t, p->n_kernels);
	uint32_t *start = NEW_ARRAY(x->tmp, uint32_t, x->plan->n_steps), n_start = 0;
	struct err none = {0};

	x->m.kernel_of = NEW_ARRAY(x->tmp, uint32_t, p->n_kernels);
	for (uint32_t i = 0; i < x->plan->n_steps; i++)
		if (!account_is_measured(x, x->kernel_of_step[i]))
			return;
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		if (p->kernels[k].cost == BLP_NEVER || !account_is_measured(x, k))
			continue;
		if (x->step_of[k] != PLAN_NONE)
			start[n_start++] = x->m.n;
		kernels[x->m.n] = p->kernels[k];
		cost[x->m.n] = p->kernels[k].cost;
		x->m.kernel_of[x->m.n++] = k;
	}
	sub.kernels = kernels;
	sub.n_kernels = x->m.n;
	x->m.solver = blp_state_new(&sub, &limits);
	if (blp_solve_again(x->tmp, x->m.solver, cost, start, n_start, &x->m.base, &none))
		return;
	blp_state_free(x->m.solver);
	x->m.solver = NULL;
}

/* Which of the plan's steps the found plan does without, and what it has instead; false: there is no room. */
static bool
make_exchange(struct account *x, const struct blp_result *r, struct plan_exchange *out)
{
	struct plan *p = x->plan;
	bool *stays = NEW_ARRAY(x->tmp, bool, MAX_OF(p->n_steps, 1u));

	*out = (struct plan_exchange){
	    .steps = NEW_ARRAY(x->a, uint32_t, p->n_steps), .rivals = NEW_ARRAY(x->a, uint32_t, r->n_chosen)};
	for (uint32_t i = 0; i < r->n_chosen; i++) {
		uint32_t k = x->m.kernel_of[r->chosen[i]], rival;

		if (x->step_of[k] != PLAN_NONE) {
			stays[x->step_of[k]] = true;
			continue;
		}
		rival = account_rival(x, k);
		if (rival == PLAN_NONE || out->n_rivals == MAX_EXCHANGED)
			return false;
		out->rivals[out->n_rivals++] = rival;
	}
	for (uint32_t i = 0; i < p->n_steps; i++)
		if (!stays[i])
			out->steps[out->n_steps++] = i;
	return true;
}

enum answer { NOT_ASKED, NO_PLAN, FOUND };

static bool
may_ask(const struct account *x)
{
	return x->m.solver && x->m.n_asks < MAX_ASKS && x->m.n_states <= MAX_STATES;
}

/* cost: of the measured kernels, BLP_NEVER for those that the condition leaves out. */
static enum answer
ask(struct account *x, const int64_t *cost, struct blp_result *r)
{
	struct err none = {0};

	if (!may_ask(x))
		return NOT_ASKED;
	x->m.n_asks++;
	*r = (struct blp_result){0};
	if (!blp_plan_again(x->tmp, x->m.solver, cost, x->m.base.chosen, x->m.base.n_chosen, r, &none))
		return NO_PLAN;
	x->m.n_states += r->n_made;
	return FOUND;
}

static int64_t *
measured_costs(struct account *x)
{
	int64_t *cost = NEW_ARRAY(x->tmp, int64_t, x->m.n);

	for (uint32_t j = 0; j < x->m.n; j++)
		cost[j] = x->in->program->kernels[x->m.kernel_of[j]].cost;
	return cost;
}

struct asked_step {
	uint32_t step;
	int64_t cost;
};

static int
dearest_first(const void *a, const void *b)
{
	const struct asked_step *x = a, *y = b;

	if (x->cost != y->cost)
		return x->cost < y->cost ? 1 : -1;
	return (x->step > y->step) - (x->step < y->step);
}

/* Without this step's candidate; the same kernel may stand elsewhere. */
static void
exchange_without(struct account *x, uint32_t step, struct plan_exchange *out)
{
	struct arena_mark mark = arena_mark(x->tmp);
	int64_t *cost = measured_costs(x);
	struct blp_result r;
	enum answer got;

	for (uint32_t j = 0; j < x->m.n; j++)
		if (x->m.kernel_of[j] == x->kernel_of_step[step])
			cost[j] = BLP_NEVER;
	got = ask(x, cost, &r);
	if (got == NO_PLAN)
		*out = (struct plan_exchange){.steps = arena_dup(x->a, &step, sizeof(step)), .n_steps = 1};
	else if (got == FOUND && !make_exchange(x, &r, out))
		*out = (struct plan_exchange){0};
	arena_reset(x->tmp, mark);
}

/* One for each step, the dearest asked about first. */
static void
exchange_steps(struct account *x)
{
	struct plan *p = x->plan;
	struct asked_step *list = NEW_ARRAY(x->tmp, struct asked_step, MAX_OF(p->n_steps, 1u));

	if (p->n_steps > PLAN_MAX_ACCOUNT / 2)
		return;
	for (uint32_t i = 0; i < p->n_steps; i++) {
		list[i] = (struct asked_step){i, x->in->program->kernels[x->kernel_of_step[i]].cost};
		GROW(x->a, p->exchanges, p->n_exchanges, x->cap_exchanges);
		p->exchanges[p->n_exchanges++] = (struct plan_exchange){0};
	}
	qsort(list, p->n_steps, sizeof(*list), dearest_first);
	for (uint32_t i = 0; i < p->n_steps && may_ask(x); i++)
		exchange_without(x, list[i].step, &p->exchanges[list[i].step]);
}

/* With this kernel; PLAN_NONE: there is no room. */
static uint32_t
add_exchange(struct account *x, const struct blp_result *r)
{
	struct plan *p = x->plan;
	struct plan_exchange e;

	if (p->n_exchanges == PLAN_MAX_ACCOUNT || !make_exchange(x, r, &e))
		return PLAN_NONE;
	GROW(x->a, p->exchanges, p->n_exchanges, x->cap_exchanges);
	p->exchanges[p->n_exchanges] = e;
	return p->n_exchanges++;
}

/* Members of kernels that make, or could make, what k makes. */
static struct bitset
makers_of(const struct account *x, uint32_t k)
{
	const struct graph *g = x->in->graph;
	const struct blp_kernel *b = &x->in->program->kernels[k];
	struct bitset m = bitset_make(x->tmp, g->n_nodes);

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t o = 0; o < g->nodes[i].n_out && !node_is_view(g, &g->nodes[i]); o++)
			for (uint32_t j = 0; j < b->n_out; j++)
				if (x->in->program->class_of[g->nodes[i].out[o].i] == b->out[j])
					bit_set(&m, i);
	return m;
}

uint32_t
account_exchange_with(struct account *x, uint32_t k)
{
	struct arena_mark mark = arena_mark(x->tmp);
	struct blp_result r = {0};
	bool is_in = false;

	if (may_ask(x) && !x->was_asked[k]) {
		int64_t *cost = measured_costs(x);
		struct bitset makers = makers_of(x, k);

		for (uint32_t j = 0; j < x->m.n; j++)
			if (x->m.kernel_of[j] != k &&
			    bitset_meets(&makers, &x->in->cands->cands[x->m.kernel_of[j]].members))
				cost[j] = BLP_NEVER;
		x->was_asked[k] = true;
		if (ask(x, cost, &r) == FOUND)
			for (uint32_t i = 0; i < r.n_chosen; i++)
				is_in |= x->m.kernel_of[r.chosen[i]] == k;
		if (is_in)
			x->exchange_of[k] = add_exchange(x, &r);
	}
	arena_reset(x->tmp, mark);
	return x->exchange_of[k];
}

/* ---- all of it ---------------------------------------------------------------------------------- */
static uint32_t *
none_of(struct account *x, uint32_t n)
{
	uint32_t *v = NEW_ARRAY(x->tmp, uint32_t, MAX_OF(n, 1u));

	memset(v, 0xff, sizeof(*v) * n);
	return v;
}

/* The plan lists the usable kernels in their order (plan_evidence.c). */
static void
number_kernels(struct account *x)
{
	const struct program *p = x->in->program;
	uint32_t *kernel_of = NEW_ARRAY(x->tmp, uint32_t, MAX_OF(x->plan->n_candidates, 1u)), n = 0;

	x->candidate_of = none_of(x, p->n_kernels);
	x->step_of = none_of(x, p->n_kernels);
	x->rival_of = none_of(x, p->n_kernels);
	x->exchange_of = none_of(x, p->n_kernels);
	x->was_asked = NEW_ARRAY(x->tmp, bool, MAX_OF(p->n_kernels, 1u));
	x->kernel_of_step = NEW_ARRAY(x->tmp, uint32_t, MAX_OF(x->plan->n_steps, 1u));
	for (uint32_t k = 0; k < p->n_kernels; k++)
		if (p->kernels[k].cost != BLP_NEVER) {
			kernel_of[n] = k;
			x->candidate_of[k] = n++;
		}
	for (uint32_t i = 0; i < x->plan->n_steps; i++) {
		uint32_t k = kernel_of[x->plan->steps[i].candidate];

		x->kernel_of_step[i] = k;
		x->step_of[k] = i;
	}
}

void
account_make(struct arena *a, const struct account_in *in, struct plan *plan)
{
	struct arena tmp = {0};
	struct account x = {.a = a, .tmp = &tmp, .in = in, .plan = plan};

	number_kernels(&x);
	for (uint32_t i = 0; i < plan->n_steps; i++) {
		const struct account_cost *c = &in->cost[in->program->spec_of[x.kernel_of_step[i]]];

		plan->kernels[plan->steps[i].kernel].spread_ns = c->spread_ns;
		plan->kernels[plan->steps[i].kernel].error_ns = c->error_ns;
	}
	open_program(&x);
	exchange_steps(&x);
	account_aparts(&x);
	if (x.m.solver)
		blp_state_free(x.m.solver);
	arena_fini(&tmp);
}
