/* tests/harness/plan_path.c: see plan_path.h. */
#include "plan_path.h"
#include "../../kernels/generate/generate.h"
#include "../../kernels/interp/interp.h"

#include <string.h>

static void
set_costs(struct arena *a, struct program *p, const struct cand_set *c, struct rng *r)
{
	int64_t *cost = NEW_ARRAY(a, int64_t, c->n_specs);

	for (uint32_t s = 0; s < c->n_specs; s++)
		cost[s] = 1 + rng_below(r, 400 + 100 * MIN_OF(c->specs[s].g.n_nodes, 8u));
	program_set_costs(p, cost);
}

/* What the generator says of results on operands' bytes; nothing where there is no kernel. */
static void
note_overlaps(struct arena *a, const struct spec *s, struct descriptor *to)
{
	struct kernel_code code;
	struct err unused = {0};

	if (!generate_kernel(a, s, STR(""), &target_avx2, "k", &code, &unused))
		return;
	to->overlaps = code.desc.overlaps;
	to->n_overlaps = code.desc.n_overlaps;
}

static struct plan_code *
fake_codes(struct arena *a, const struct cand_set *c)
{
	struct plan_code *codes = NEW_ARRAY(a, struct plan_code, c->n_specs);

	for (uint32_t s = 0; s < c->n_specs; s++) {
		codes[s].is_ready = true;
		codes[s].symbol = str_of(arena_printf(a, "k%u", s));
		codes[s].desc.n_passes = 1;
		codes[s].desc.range[0] = 1;
		note_overlaps(a, &c->specs[s], &codes[s].desc);
	}
	return codes;
}

bool
plan_path_make(struct arena *a, const struct graph *g, uint64_t seed, struct plan_path *out, struct err *e)
{
	struct rng r = {seed};
	struct plan_parts parts = {.graph = g,
	    .cands = &out->cands,
	    .program = &out->program,
	    .choice = &out->choice,
	    .source = STR("")};
	int64_t *bound;
	bool *measured;

	if (!identify_run(a, g, IDENTIFY_FULL, &identify_limits_default, &out->cands, e))
		return false;
	program_make(a, g, &out->cands, &out->program);
	views_find(a, g, &out->cands, &out->program);
	set_costs(a, &out->program, &out->cands, &r);
	if (!blp_solve(a, &out->program.blp, NULL, 0, NULL, &out->choice, e))
		return false;
	bound = NEW_ARRAY(a, int64_t, out->cands.n_specs);
	measured = NEW_ARRAY(a, bool, out->cands.n_specs);
	memset(measured, 1, out->cands.n_specs);
	parts.codes = fake_codes(a, &out->cands);
	parts.bound_ns = bound;
	parts.is_measured = measured;
	out->plan = (struct plan){.run_compat = STR("test"), .n_threads = 1};
	return plan_make(a, &parts, &out->plan, e);
}

struct memory {
	char *work, **outputs;
	const void *const *inputs;
};

static void *
address(const struct plan *p, const struct memory *m, uint32_t place)
{
	const struct place *at = &p->places[place];

	switch (at->kind) {
	case PLACE_WORK:
		return m->work + at->offset;
	case PLACE_CONST:
		return (void *)(uintptr_t)(p->constants.p + at->offset);
	case PLACE_INPUT:
		return (char *)(uintptr_t)m->inputs[at->index] + at->offset;
	case PLACE_OUTPUT:
		return m->outputs[at->index] + at->offset;
	}
	bug("a place of no kind");
}

static bool
run_step(
    struct arena *a, const struct plan *p, const struct plan_step *s, const struct memory *m, struct err *e)
{
	const struct plan_kernel *k = &p->kernels[s->kernel];
	struct spec spec;
	const void **in;
	void **out;

	if (plan_kernel_is_view(k))
		return true; /* its result must be there as it is */
	if (!spec_read(a, k->spec, &spec, e))
		return false;
	in = NEW_ARRAY(a, const void *, spec.g.n_inputs);
	out = NEW_ARRAY(a, void *, spec.g.n_outputs);
	if (spec.g.n_inputs != k->n_operands)
		return err_set(
		    e, ERR_WRONG, "its spec has %u operands, the kernel %u", spec.g.n_inputs, k->n_operands);
	for (uint32_t i = 0; i < k->n_operands; i++)
		in[i] = address(p, m, s->places[i]);
	if (!interp_run(a, &spec.g, in, NULL, out, e))
		return false;
	for (uint32_t i = 0; i < k->n_results; i++)
		memcpy(address(p, m, s->places[k->n_operands + i]), out[i],
		    p->places[s->places[k->n_operands + i]].n_bytes);
	return true;
}

bool
plan_path_run(struct arena *a, const struct plan *p, const void *const *inputs, void **outputs, struct err *e)
{
	struct memory m = {arena_alloc(a, p->work_bytes), NEW_ARRAY(a, char *, p->n_outputs), inputs};

	/* Whatever is read without having been written shows. */
	memset(m.work, 0x7f, p->work_bytes);
	for (uint32_t i = 0; i < p->n_outputs; i++) {
		size_t n;

		if (!shape_bytes(&p->outputs[i].shape, p->outputs[i].type, &n))
			return err_set(e, ERR_WRONG, "output %u has no size", i);
		outputs[i] = m.outputs[i] = arena_alloc(a, n);
		memset(m.outputs[i], 0x7f, n);
	}
	for (uint32_t i = 0; i < p->n_steps; i++)
		if (!run_step(a, p, &p->steps[i], &m, e))
			return err_in(e, "step %u", i);
	for (uint32_t i = 0; i < p->n_copies; i++)
		memcpy(address(p, &m, p->copies[i].to), address(p, &m, p->copies[i].from),
		    p->places[p->copies[i].to].n_bytes);
	return true;
}
