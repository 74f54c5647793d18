/* kernels/run/plan_check.c: is a plan from outside consistent in itself?  After this every
 * index, offset and size can be used without a further look.  That the plan computes the model
 * is certify.c's question; that its machine code is honest is nobody's (D31). */
#include "exec.h"

#include "../base/heat.h"

#include <math.h>

enum { MAX_ITEMS = 1 << 22, MAX_OPERANDS = 4096 };

static bool
refuse(struct err *e, const char *what, uint32_t i, const char *why)
{
	return err_set(e, ERR_FORMAT, "the plan is damaged: %s %u %s", what, i, why);
}

static bool
check_tensor(enum dtype type, const struct shape *s, size_t *n_bytes)
{
	if (type < 0 || type >= DT_COUNT || s->rank < 0 || s->rank > MAX_RANK)
		return false;
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] < 0)
			return false;
	return shape_bytes(s, type, n_bytes) && *n_bytes < SIZE_MAX / 8;
}

static bool
check_ios(const char *what, const struct plan_io *io, uint32_t n, struct err *e)
{
	size_t n_bytes;

	for (uint32_t i = 0; i < n; i++)
		if (!check_tensor(io[i].type, &io[i].shape, &n_bytes))
			return refuse(e, what, i, "has no possible shape");
	return true;
}

/* Bytes of the region that a place lies in. */
static bool
region_bytes(const struct plan *p, const struct place *at, size_t *out)
{
	const struct plan_io *io = at->kind == PLACE_INPUT ? p->inputs : p->outputs;

	switch (at->kind) {
	case PLACE_WORK:
		*out = p->work_bytes;
		return true;
	case PLACE_CONST:
		*out = p->constants.n;
		return true;
	case PLACE_INPUT:
	case PLACE_OUTPUT:
		if (at->index >= (at->kind == PLACE_INPUT ? p->n_inputs : p->n_outputs))
			return false;
		return shape_bytes(&io[at->index].shape, io[at->index].type, out);
	}
	return false;
}

static bool
check_place(const struct plan *p, uint32_t i, struct err *e)
{
	const struct place *at = &p->places[i];
	size_t need, region;

	if (!check_tensor(at->type, &at->shape, &need))
		return refuse(e, "place", i, "has no possible shape");
	if (!region_bytes(p, at, &region))
		return refuse(e, "place", i, "is in no region");
	if (at->offset > region || at->n_bytes > region - at->offset)
		return refuse(e, "place", i, "leaves its region");
	if (at->offset % dtype_size(at->type) != 0)
		return refuse(e, "place", i, "is not aligned");
	/* A packed weight has the form its kernel asked for; all others are dense. */
	if (at->kind != PLACE_CONST && at->n_bytes < need)
		return refuse(e, "place", i, "is smaller than its tensor");
	return true;
}

static bool
is_symbol(struct str s)
{
	if (!s.n || s.n > 128)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
			(i && c >= '0' && c <= '9')))
			return false;
	}
	return true;
}

static bool
check_kernel_row(const struct plan *p, uint32_t i, struct err *e)
{
	const struct plan_kernel *k = &p->kernels[i];

	if (k->n_passes > PLAN_MAX_PASSES)
		return refuse(e, "kernel", i, "has an impossible number of passes");
	if (!isfinite(k->error_ns) || k->error_ns < 0)
		return refuse(e, "kernel", i, "has an error that is no number");
	if (k->n_operands > MAX_OPERANDS || k->n_results < 1 || k->n_results > MAX_OPERANDS)
		return refuse(e, "kernel", i, "has an impossible number of operands");
	if (plan_kernel_is_view(k) && (k->n_passes || k->n_overlaps || k->n_results != 1))
		return refuse(e, "kernel", i, "is a view and says that it computes");
	if (!is_symbol(k->symbol))
		return refuse(e, "kernel", i, "has no usable symbol");
	for (uint32_t j = 0; j < k->n_passes; j++)
		if (k->range[j] < 0)
			return refuse(e, "kernel", i, "has a negative range");
	if (k->n_overlaps > k->n_operands * k->n_results)
		return refuse(e, "kernel", i, "has an impossible number of overlaps");
	for (uint32_t j = 0; j < k->n_overlaps; j++)
		if (k->overlaps[j].result >= k->n_results || k->overlaps[j].operand >= k->n_operands)
			return refuse(
			    e, "kernel", i, "overlaps an operand or a result that it does not have");
	if (k->shared_bytes > SIZE_MAX / 8 || k->local_bytes > SIZE_MAX / 8)
		return refuse(e, "kernel", i, "asks for an impossible amount of scratch");
	return true;
}

static bool
overlap(const struct place *a, const struct place *b)
{
	return a->kind == b->kind && (a->kind == PLACE_WORK || a->index == b->index) && a->n_bytes &&
	    b->n_bytes && a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

/* Operand j of the step is result r's very bytes, and the kernel may do with that. */
static bool
is_in_place(
    const struct plan_kernel *k, uint32_t r, uint32_t j, const struct place *to, const struct place *from)
{
	if (to->kind != PLACE_WORK || to->offset != from->offset || to->n_bytes != from->n_bytes ||
	    to->type != from->type)
		return false;
	for (uint32_t i = 0; i < k->n_overlaps; i++)
		if (k->overlaps[i].result == r && k->overlaps[i].operand == j)
			return true;
	return false;
}

static bool
check_step(const struct plan *p, uint32_t i, struct err *e)
{
	const struct plan_step *s = &p->steps[i];
	const struct plan_kernel *k;

	if (s->kernel >= p->n_kernels)
		return refuse(e, "step", i, "names a kernel that is not there");
	k = &p->kernels[s->kernel];
	if (s->n_places != k->n_operands + k->n_results)
		return refuse(e, "step", i, "does not fit its kernel");
	if (p->n_candidates && s->candidate >= p->n_candidates)
		return refuse(e, "step", i, "names a candidate that is not there");
	for (uint32_t j = 0; j < s->n_places; j++)
		if (s->places[j] >= p->n_places)
			return refuse(e, "step", i, "names a place that is not there");
	if (plan_kernel_is_view(k))
		return true; /* it writes nothing */
	for (uint32_t r = k->n_operands; r < s->n_places; r++) {
		const struct place *to = &p->places[s->places[r]];

		if (to->kind != PLACE_WORK && to->kind != PLACE_OUTPUT)
			return refuse(e, "step", i, "writes into an input or a constant");
		for (uint32_t j = 0; j < r; j++) {
			const struct place *at = &p->places[s->places[j]];

			if (overlap(to, at) &&
			    (j >= k->n_operands || !is_in_place(k, r - k->n_operands, j, to, at)))
				return refuse(e, "step", i, "writes over what it reads");
		}
	}
	return true;
}

/* A library reads its operands as the spec says, constants too: nothing that generated code was told of. */
static bool
check_call(const struct plan *p, uint32_t i, struct err *e)
{
	const struct plan_step *s = &p->steps[i];
	const struct plan_kernel *k = &p->kernels[s->kernel];
	struct arena tmp = {0};
	enum library library;
	int64_t version, algo;
	struct spec spec;
	bool ok = true;

	if (!library_of_schedule(k->schedule, &library, &version, &algo))
		return true;
	if (!spec_read(&tmp, k->spec, &spec, e))
		ok = err_in(e, "the plan is damaged: kernel %u", s->kernel);
	else if (spec.g.n_inputs != k->n_operands || spec.g.n_outputs != k->n_results)
		ok = refuse(e, "kernel", s->kernel, "does not fit its spec");
	for (uint32_t j = 0; ok && j < s->n_places; j++) {
		const struct tensor *t = graph_tensor(
		    &spec.g, j < k->n_operands ? spec.g.inputs[j] : spec.g.outputs[j - k->n_operands]);
		size_t need;

		if (!shape_bytes(&t->shape, t->type, &need) || p->places[s->places[j]].n_bytes < need)
			ok = refuse(e, "step", i, "has an operand that is smaller than its kernel reads");
	}
	arena_fini(&tmp);
	return ok;
}

static bool
check_copies(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_copies; i++) {
		const struct plan_copy *c = &p->copies[i];

		if (c->from >= p->n_places || c->to >= p->n_places)
			return refuse(e, "copy", i, "names a place that is not there");
		if (p->places[c->to].kind != PLACE_OUTPUT)
			return refuse(e, "copy", i, "does not end in an output");
		if (p->places[c->from].n_bytes < p->places[c->to].n_bytes)
			return refuse(e, "copy", i, "reads more than there is");
	}
	return true;
}

static bool
check_evidence(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_candidates; i++)
		if (p->candidates[i].n_makes == 0 || !isfinite(p->candidates[i].reduced_cost))
			return refuse(e, "candidate", i, "makes nothing or has no reduced cost");
	for (uint32_t i = 0; i < p->n_rows; i++) {
		const struct plan_row *r = &p->rows[i];

		if (!isfinite(r->dual))
			return refuse(e, "row", i, "has no finite dual");
		for (uint32_t j = 0; j < r->n_candidates; j++)
			if (r->candidates[j] >= p->n_candidates)
				return refuse(e, "row", i, "names a candidate that is not there");
	}
	return true;
}

/* ---- what explain reads ---------------------------------------------------------------------- */
static bool
is_below(const uint32_t *list, uint32_t n, uint32_t limit)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] >= limit)
			return false;
	return true;
}

static bool
is_below_or_none(uint32_t i, uint32_t n)
{
	return i < n || i == PLAN_NONE;
}

static bool
check_rivals(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_rivals; i++) {
		const struct plan_rival *r = &p->rivals[i];

		if (!is_below_or_none(r->candidate, p->n_candidates))
			return refuse(e, "rival", i, "names a candidate that is not there");
		if (!isfinite(r->error_ns) || r->error_ns < 0)
			return refuse(e, "rival", i, "has an error that is no number");
		if (r->cost_ns < 0 || r->spread_ns < 0 || r->bound_ns < 0 || r->expected_ns < 0)
			return refuse(e, "rival", i, "has a negative cost");
		if (r->nodes.n > PLAN_MAX_WORDS || r->cause.n > PLAN_MAX_WORDS)
			return refuse(e, "rival", i, "has too many words");
	}
	for (uint32_t i = 0; i < p->n_exchanges; i++) {
		const struct plan_exchange *x = &p->exchanges[i];

		if (!is_below(x->steps, x->n_steps, p->n_steps) ||
		    !is_below(x->rivals, x->n_rivals, p->n_rivals))
			return refuse(e, "exchange", i, "names a step or a rival that is not there");
	}
	return true;
}

static bool
check_perturbed(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_perturbed; i++) {
		const struct plan_perturbed *x = &p->perturbed[i];

		if (x->kernel >= p->n_kernels)
			return refuse(e, "perturbed kernel", i, "names what is not there");
		if (!(x->ratio > 0 && isfinite(x->ratio) && x->low <= x->ratio && x->ratio <= x->high &&
			isfinite(x->low) && isfinite(x->high) && x->expected >= 0 && isfinite(x->expected)))
			return refuse(e, "perturbed kernel", i, "has a gain that is no number");
		if (x->pairs < 0 || x->compared < 0 || x->tried < 0 || x->failed < 0 || x->moves < 0)
			return refuse(e, "perturbed kernel", i, "has a negative count");
	}
	return true;
}

static bool
check_heats(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_heats; i++)
		if (p->heats[i].kernel >= p->n_kernels || !p->heats[i].word.n ||
		    !heat_is_word(p->heats[i].word) ||
		    (i > 0 && p->heats[i].kernel <= p->heats[i - 1].kernel))
			return refuse(e, "heat", i, "is of no kernel, or makes no sense");
	return true;
}

/* What of it is true, certify.c looks at. */
static bool
check_sure(const struct plan *p, struct err *e)
{
	if (p->n_sures > 1)
		return refuse(e, "confidence", 1, "is one too many");
	for (uint32_t i = 0; i < p->n_sures; i++)
		if (!(p->sures[i].confidence > 0 && p->sures[i].confidence < 1))
			return refuse(e, "confidence", i, "is no share of jobs");
	for (uint32_t i = 0; i < p->n_sure_costs; i++)
		if (p->sure_costs[i].candidate >= p->n_candidates || p->sure_costs[i].cost_ns < 1 ||
		    (i > 0 && p->sure_costs[i].candidate <= p->sure_costs[i - 1].candidate))
			return refuse(e, "cost of a confidence", i, "is of no candidate, or none");
	for (uint32_t i = 0; i < p->n_sure_rows; i++) {
		const struct plan_row *r = &p->sure_rows[i];

		if (!is_below(r->candidates, r->n_candidates, p->n_candidates) || !isfinite(r->dual))
			return refuse(e, "row of a confidence", i, "makes no sense");
	}
	return true;
}

static bool
check_expected(const struct plan *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_expected; i++) {
		const struct plan_expected *x = &p->expected[i];

		if (x->kernel >= p->n_kernels || (i > 0 && x->kernel <= p->expected[i - 1].kernel) ||
		    x->low_ns < 0 || x->low_ns > x->ns || x->ns > x->high_ns)
			return refuse(e, "expected time", i, "is of no kernel, or makes no sense");
	}
	return true;
}

static bool
check_account(const struct plan *p, struct err *e)
{
	const uint32_t counts[] = {
	    p->n_rivals, p->n_exchanges, p->n_aparts, p->n_nodes, p->n_perturbed, p->n_heats, p->n_expected};

	for (size_t i = 0; i < COUNT_OF(counts); i++)
		if (counts[i] > PLAN_MAX_ACCOUNT)
			return err_set(e, ERR_LIMIT, "the plan is too large: %u items of a kind", counts[i]);
	if (p->n_exchanges && p->n_exchanges < p->n_steps)
		return err_set(e, ERR_FORMAT, "the plan is damaged: some of its steps have no exchange");
	for (uint32_t i = 0; i < p->n_aparts; i++) {
		const struct plan_apart *x = &p->aparts[i];
		uint32_t n = x->of_steps ? p->n_steps : p->n_nodes;

		if (x->a >= n || x->b >= n || !is_below_or_none(x->measured, p->n_rivals) ||
		    !is_below_or_none(x->open, p->n_rivals) || !is_below_or_none(x->failed, p->n_rivals) ||
		    !is_below_or_none(x->exchange, p->n_exchanges) || x->rule.n > PLAN_MAX_WORDS)
			return refuse(e, "reason", i, "names what is not there");
	}
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		const struct plan_node *n = &p->nodes[i];

		if (n->fate < 0 || n->fate >= FATE_COUNT || !is_below(n->reads, n->n_reads, p->n_nodes) ||
		    !is_below(n->steps, n->n_steps, p->n_steps) || n->name.n > PLAN_MAX_WORDS ||
		    n->op.n > PLAN_MAX_WORDS)
			return refuse(e, "node", i, "names what is not there");
	}
	return check_rivals(p, e) && check_perturbed(p, e) && check_heats(p, e) && check_expected(p, e) &&
	    check_sure(p, e);
}

bool
plan_check(const struct plan *p, struct err *e)
{
	const uint32_t counts[] = {p->n_kernels, p->n_places, p->n_steps, p->n_copies, p->n_inputs,
	    p->n_outputs, p->n_candidates, p->n_rows, p->n_sure_costs, p->n_sure_rows};

	for (size_t i = 0; i < COUNT_OF(counts); i++)
		if (counts[i] > MAX_ITEMS)
			return err_set(e, ERR_LIMIT, "the plan is too large: %u items of a kind", counts[i]);
	if (p->work_bytes > SIZE_MAX / 8 || p->n_threads < 1)
		return err_set(e, ERR_FORMAT, "the plan is damaged: its memory or its threads make no sense");
	if (!check_ios("input", p->inputs, p->n_inputs, e) ||
	    !check_ios("output", p->outputs, p->n_outputs, e))
		return false;
	for (uint32_t i = 0; i < p->n_places; i++)
		if (!check_place(p, i, e))
			return false;
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (!check_kernel_row(p, i, e))
			return false;
	for (uint32_t i = 0; i < p->n_steps; i++)
		if (!check_step(p, i, e) || !check_call(p, i, e))
			return false;
	return check_copies(p, e) && check_evidence(p, e) && check_account(p, e);
}
