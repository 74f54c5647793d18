/* kernels/run/certify.c: does a plan keep what it says?
 *
 * The order is checked twice: on the candidates (what each reads and makes, the facts that the bound
 * rests on), and on memory, where every write makes what it overlaps stale and every read must
 * find the tensor that the step's candidate names.  A place's tensor is the first of its class of
 * aliases, so that the two agree by number. */
#include "certify.h"

#include <math.h>

/* ---- facts ---------------------------------------------------------------------------------- */
static uint32_t
largest_tensor(const struct plan *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_places; i++)
		n = MAX_OF(n, p->places[i].tensor);
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		for (uint32_t j = 0; j < c->n_reads; j++)
			n = MAX_OF(n, c->reads[j]);
		for (uint32_t j = 0; j < c->n_makes; j++)
			n = MAX_OF(n, c->makes[j]);
	}
	return n;
}

enum { MAX_TENSORS = 1 << 24 };

/* Is the place an input or an output, and no part of it that a view sees? */
static bool
is_whole(const struct plan *p, uint32_t place)
{
	for (uint32_t i = 0; i < place; i++)
		if (p->places[i].kind == p->places[place].kind &&
		    p->places[i].index == p->places[place].index)
			return false;
	return true;
}

/* Given: what lies in inputs and constants.  Wanted: what lies in outputs. */
static bool
gather_facts(struct arena *a, const struct plan *p, struct choice_facts *f, struct err *e)
{
	uint32_t *given = NEW_ARRAY(a, uint32_t, p->n_places), *wanted = NEW_ARRAY(a, uint32_t, p->n_places);

	*f = (struct choice_facts){.candidates = p->candidates,
	    .n_candidates = p->n_candidates,
	    .n_tensors = largest_tensor(p) + 1,
	    .given = given,
	    .wanted = wanted};
	if (f->n_tensors > MAX_TENSORS)
		return err_set(e, ERR_LIMIT, "the plan names a tensor beyond %d", MAX_TENSORS);
	for (uint32_t i = 0; i < p->n_places; i++) {
		const struct place *at = &p->places[i];

		if (at->kind == PLACE_CONST || (at->kind == PLACE_INPUT && is_whole(p, i)))
			given[f->n_given++] = at->tensor;
		if (at->kind == PLACE_OUTPUT && is_whole(p, i))
			wanted[f->n_wanted++] = at->tensor;
	}
	return true;
}

/* ---- steps are the chosen candidates ---------------------------------------------------------- */
static bool
check_sums(const struct plan *p, struct certificate *out, struct err *e)
{
	struct arena tmp = {0};
	uint32_t *n_steps = NEW_ARRAY(&tmp, uint32_t, p->n_candidates);
	int64_t sum = 0;
	bool ok = true;

	for (uint32_t i = 0; i < p->n_steps && ok; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
		const struct plan_candidate *c;

		if (p->steps[i].candidate >= p->n_candidates) {
			ok = err_set(e, ERR_FORMAT, "step %u names a candidate that is not there", i);
			break;
		}
		c = &p->candidates[p->steps[i].candidate];
		n_steps[p->steps[i].candidate]++;
		out->n_measured += c->is_measured;
		if (k->cost_ns != c->cost_ns || k->is_measured != c->is_measured)
			ok = err_set(e, ERR_WRONG, "step %u: its kernel costs %lld ns, its candidate %lld", i,
			    (long long)k->cost_ns, (long long)c->cost_ns);
		if (c->cost_ns < 1 || !try_add_i64(sum, c->cost_ns, &sum))
			ok = err_set(e, ERR_WRONG, "step %u has an impossible cost", i);
	}
	for (uint32_t i = 0; i < p->n_candidates && ok; i++) {
		out->n_chosen += p->candidates[i].is_chosen;
		if (n_steps[i] != p->candidates[i].is_chosen)
			ok = err_set(e, ERR_WRONG, "candidate %u is %s and has %u steps", i,
			    p->candidates[i].is_chosen ? "chosen" : "not chosen", n_steps[i]);
	}
	if (ok && sum != p->latency_ns)
		ok = err_set(e, ERR_WRONG, "the steps cost %lld ns, the plan says %lld", (long long)sum,
		    (long long)p->latency_ns);
	arena_fini(&tmp);
	return ok;
}

static bool
is_listed(uint32_t t, const uint32_t *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] == t)
			return true;
	return false;
}

/* A step's places hold the tensors that its candidate reads and makes: no more, no fewer. */
static bool
check_tensors(const struct plan *p, uint32_t i, struct err *e)
{
	const struct plan_step *s = &p->steps[i];
	const struct plan_candidate *c = &p->candidates[s->candidate];
	uint32_t n_operands = p->kernels[s->kernel].n_operands;

	for (uint32_t j = 0; j < s->n_places; j++) {
		const struct place *at = &p->places[s->places[j]];
		bool is_result = j >= n_operands;

		if (at->kind == PLACE_CONST && !is_result)
			continue;
		if (!is_listed(
			at->tensor, is_result ? c->makes : c->reads, is_result ? c->n_makes : c->n_reads))
			return err_set(e, ERR_WRONG, "step %u %s tensor %u, its candidate does not", i,
			    is_result ? "makes" : "reads", at->tensor);
	}
	for (uint32_t j = 0; j < c->n_reads + c->n_makes; j++) {
		bool is_make = j >= c->n_reads, found = false;
		uint32_t t = is_make ? c->makes[j - c->n_reads] : c->reads[j];

		for (uint32_t q = is_make ? n_operands : 0; q < (is_make ? s->n_places : n_operands); q++)
			found |= p->places[s->places[q]].tensor == t;
		if (!found)
			return err_set(e, ERR_WRONG, "step %u does not %s tensor %u, its candidate does", i,
			    is_make ? "make" : "read", t);
	}
	return true;
}

/* ---- memory ------------------------------------------------------------------------------------ */
static bool
overlap(const struct place *a, const struct place *b)
{
	return a->kind == b->kind && (a->kind == PLACE_WORK || a->index == b->index) && a->n_bytes &&
	    b->n_bytes && a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

/* Writing a place makes all that it overlaps stale. */
static void
write_place(const struct plan *p, bool *is_good, uint32_t to)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		if (overlap(&p->places[i], &p->places[to]))
			is_good[i] = false;
	is_good[to] = true;
}

/* A view makes its result without writing where each stretch of it is the operand's that its spec names. */
static bool
check_view(const struct plan *p, uint32_t step, struct err *e)
{
	const struct plan_step *s = &p->steps[step];
	const struct plan_kernel *k = &p->kernels[s->kernel];
	const struct place *to = &p->places[s->places[k->n_operands]];
	struct arena tmp = {0};
	struct spec_piece *piece;
	struct spec spec;
	uint32_t n;
	bool ok = spec_read(&tmp, k->spec, &spec, e) || err_in(e, "kernel %u", s->kernel);

	if (ok && (spec.g.n_inputs != k->n_operands || !spec_pieces(&tmp, &spec, &piece, &n)))
		ok = err_set(e, ERR_WRONG, "step %u is called a view, its kernel's spec does more", step);
	for (uint32_t i = 0; ok && i < n; i++) {
		uint32_t operand = s->places[piece[i].operand];
		const struct place *from = &p->places[operand];

		if (from->kind != to->kind || (to->kind != PLACE_WORK && from->index != to->index) ||
		    to->offset + piece[i].to != from->offset + piece[i].from)
			ok = err_set(e, ERR_WRONG,
			    "step %u is a view, but byte %zu of place %u is not byte %zu of place %u, as its "
			    "spec says",
			    step, piece[i].to, s->places[k->n_operands], piece[i].from, operand);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
check_memory(const struct plan *p, struct err *e)
{
	struct arena tmp = {0};
	bool *is_good = NEW_ARRAY(&tmp, bool, p->n_places), ok = true;

	for (uint32_t i = 0; i < p->n_places; i++)
		is_good[i] =
		    p->places[i].kind == PLACE_CONST || (p->places[i].kind == PLACE_INPUT && is_whole(p, i));
	for (uint32_t i = 0; i < p->n_steps && ok; i++) {
		const struct plan_step *s = &p->steps[i];
		uint32_t n_operands = p->kernels[s->kernel].n_operands;

		for (uint32_t j = 0; j < n_operands && ok; j++)
			if (!is_good[s->places[j]])
				ok = err_set(e, ERR_WRONG,
				    "step %u reads place %u, which does not hold tensor %u then", i,
				    s->places[j], p->places[s->places[j]].tensor);
		if (ok && plan_kernel_is_view(&p->kernels[s->kernel])) {
			ok = check_view(p, i, e);
			is_good[s->places[n_operands]] = true;
			continue;
		}
		for (uint32_t j = n_operands; j < s->n_places; j++)
			write_place(p, is_good, s->places[j]);
		for (uint32_t j = n_operands; j < s->n_places && ok; j++)
			if (!is_good[s->places[j]])
				ok = err_set(e, ERR_WRONG, "step %u writes two results to one place", i);
	}
	for (uint32_t i = 0; i < p->n_copies && ok; i++) {
		const struct plan_copy *c = &p->copies[i];

		if (!is_good[c->from] || p->places[c->from].tensor != p->places[c->to].tensor)
			ok = err_set(e, ERR_WRONG,
			    "copy %u takes place %u, which does not hold tensor %u then", i, c->from,
			    p->places[c->to].tensor);
		write_place(p, is_good, c->to);
	}
	for (uint32_t i = 0; i < p->n_places && ok; i++)
		if (p->places[i].kind == PLACE_OUTPUT && is_whole(p, i) && !is_good[i])
			ok = err_set(
			    e, ERR_WRONG, "output %u is not written, or written over", p->places[i].index);
	arena_fini(&tmp);
	return ok;
}

static bool
check_outputs_placed(const struct plan *p, struct err *e)
{
	for (uint32_t o = 0; o < p->n_outputs; o++) {
		bool found = false;

		for (uint32_t i = 0; i < p->n_places; i++)
			found |= p->places[i].kind == PLACE_OUTPUT && p->places[i].index == o;
		if (!found)
			return err_set(e, ERR_WRONG, "output %u has no place", o);
	}
	return true;
}

/* ---- sizes against specs ------------------------------------------------------------------------- */
static bool
check_place_size(const struct plan *p, uint32_t step, uint32_t place, const struct tensor *t, struct err *e)
{
	const struct place *at = &p->places[place];
	size_t want;

	if (!shape_bytes(&t->shape, t->type, &want) || at->type != t->type ||
	    (at->kind != PLACE_CONST && at->n_bytes != want))
		return err_set(e, ERR_WRONG,
		    "step %u: place %u has %zu bytes of %s, its kernel's spec says %zu of %s", step, place,
		    at->n_bytes, dtype_name(at->type), want, dtype_name(t->type));
	return true;
}

static bool
check_sizes(const struct plan *p, struct err *e)
{
	struct arena tmp = {0};
	struct spec *spec = NEW_ARRAY(&tmp, struct spec, p->n_kernels);
	bool ok = true;

	for (uint32_t k = 0; k < p->n_kernels && ok; k++) {
		ok = spec_read(&tmp, p->kernels[k].spec, &spec[k], e) || err_in(e, "kernel %u", k);
		if (ok &&
		    (spec[k].g.n_outputs != p->kernels[k].n_results ||
			p->kernels[k].n_operands > spec[k].g.n_tensors))
			ok =
			    err_set(e, ERR_WRONG, "kernel %u has other operands or results than its spec", k);
	}
	for (uint32_t i = 0; i < p->n_steps && ok; i++) {
		const struct plan_step *s = &p->steps[i];
		const struct graph *g = &spec[s->kernel].g;
		uint32_t n_operands = p->kernels[s->kernel].n_operands;

		for (uint32_t j = 0; j < s->n_places && ok; j++)
			ok = check_place_size(p, i, s->places[j],
			    j < n_operands ? &g->tensors[j] : graph_tensor(g, g->outputs[j - n_operands]), e);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
check_steps(const struct plan *p, const struct choice_facts *f, struct err *e)
{
	struct arena tmp = {0};
	uint32_t *order = NEW_ARRAY(&tmp, uint32_t, p->n_steps);
	bool ok = true;

	for (uint32_t i = 0; i < p->n_steps && ok; i++) {
		order[i] = p->steps[i].candidate;
		ok = check_tensors(p, i, e);
	}
	ok = ok && certify_order(f, order, p->n_steps, e);
	arena_fini(&tmp);
	return ok;
}

static bool
check_claims(const struct plan *p, const struct certificate *c, struct err *e)
{
	if (p->bound_ns > p->latency_ns)
		return err_set(e, ERR_WRONG, "the plan's bound of %lld ns is above its cost of %lld",
		    (long long)p->bound_ns, (long long)p->latency_ns);
	if (p->proved && (p->bound_ns != p->latency_ns || c->n_measured != p->n_steps))
		return err_set(
		    e, ERR_WRONG, "the plan calls itself proved, with a gap or unmeasured kernels");
	if (c->dual_bound > (double)p->latency_ns)
		return err_set(
		    e, ERR_WRONG, "the duals prove %.3f ns, more than the plan costs", c->dual_bound);
	return true;
}

/* ---- the confidence ----------------------------------------------------------------------------- */
/* Candidates with the costs of its program: nothing stands below a bound, nothing above a measurement. */
static bool
sure_candidates(struct arena *a, const struct plan *p, struct plan_candidate **out, struct err *e)
{
	struct plan_candidate *c = arena_dup(a, p->candidates, sizeof(*c) * p->n_candidates);

	for (uint32_t i = 0; i < p->n_sure_costs; i++) {
		const struct plan_sure_cost *x = &p->sure_costs[i];

		if (c[x->candidate].is_measured ? x->cost_ns > c[x->candidate].cost_ns
						: x->cost_ns < c[x->candidate].cost_ns)
			return err_set(e, ERR_WRONG,
			    "the confidence has candidate %u at %lld ns, which is %s of %lld", x->candidate,
			    (long long)x->cost_ns,
			    c[x->candidate].is_measured ? "above its measured time" : "below its bound",
			    (long long)c[x->candidate].cost_ns);
		c[x->candidate].cost_ns = x->cost_ns;
	}
	*out = c;
	return true;
}

/* It stands beside a proof that is not there, and its sum is right. */
static bool
check_sure_claim(const struct plan *p, const struct certificate *c, struct err *e)
{
	const struct plan_sure *s = &p->sures[0];

	if (p->proved || c->n_measured != p->n_steps)
		return err_set(e, ERR_WRONG,
		    "the plan claims a confidence, and %s: it is for plans of measured kernels without a "
		    "proof",
		    p->proved ? "calls itself proved" : "rests on kernels that were not measured");
	if (s->least_ns <= p->bound_ns || s->least_ns > p->latency_ns)
		return err_set(e, ERR_WRONG,
		    "the confidence is of %lld ns, which is not between the bound %lld and the cost %lld",
		    (long long)s->least_ns, (long long)p->bound_ns, (long long)p->latency_ns);
	if ((double)s->least_ns > ceil(c->sure_bound))
		return err_set(e, ERR_WRONG, "the confidence is of %lld ns, its duals' sum is %.3f",
		    (long long)s->least_ns, c->sure_bound);
	return true;
}

static bool
check_sure(const struct plan *p, const struct choice_facts *all, struct certificate *out, struct err *e)
{
	struct arena tmp = {0};
	struct choice_facts f = *all;
	struct plan_candidate *candidates;
	bool ok = true;

	if (p->n_sures > 0) {
		ok = sure_candidates(&tmp, p, &candidates, e);
		f.candidates = ok ? candidates : NULL;
		ok = ok && certify_bound(&f, p->sure_rows, p->n_sure_rows, &out->sure_bound, e) &&
		    check_sure_claim(p, out, e);
	}
	arena_fini(&tmp);
	return ok;
}

bool
plan_certify(const struct plan *p, struct certificate *out, struct err *e)
{
	struct arena tmp = {0};
	struct choice_facts f;
	bool ok;

	*out = (struct certificate){0};
	ok = gather_facts(&tmp, p, &f, e) && check_sums(p, out, e) && check_steps(p, &f, e) &&
	    check_memory(p, e) && check_outputs_placed(p, e) && check_sizes(p, e) &&
	    certify_bound(&f, p->rows, p->n_rows, &out->dual_bound, e) && check_claims(p, out, e) &&
	    check_sure(p, &f, out, e);
	/* Costs are whole: a bound of 9.2 ns says 10. */
	out->is_by_duals = ok && (int64_t)ceil(out->dual_bound) >= p->bound_ns;
	arena_fini(&tmp);
	return ok;
}
