/* tests/prop/cand_values.c: see the header. */
#include "cand_values.h"

#include "../../kernels/interp/interp.h"
#include "random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

void **
values_of_all(struct arena *a, const struct graph *g, const void **in)
{
	struct graph wide = *g;
	void **out, **by_tensor = NEW_ARRAY(a, void *, g->n_tensors + 1);
	struct err e = {0};

	wide.outputs = NULL;
	wide.output_names = NULL;
	wide.n_outputs = wide.cap_outputs = 0;
	wide.arena = a;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			graph_output(&wide, g->nodes[i].out[k], NULL);
	out = NEW_ARRAY(a, void *, wide.n_outputs + 1);
	if (!interp_run(a, &wide, in, NULL, out, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < wide.n_outputs; i++)
		by_tensor[wide.outputs[i].i] = out[i];
	for (uint32_t i = 0; i < g->n_inputs; i++)
		by_tensor[g->inputs[i].i] = (void *)(uintptr_t)in[i];
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i].data)
			by_tensor[i] = (void *)(uintptr_t)g->tensors[i].data;
	return by_tensor;
}

void
candidate_computes(struct arena *a, const struct graph *g, const struct cand_set *cs, const struct cand *c,
    void *const *value)
{
	const struct spec *s = &cs->specs[c->spec];
	struct graph with = s->g;
	void **have = NEW_ARRAY(a, void *, s->g.n_outputs + 1);
	const void **in = NEW_ARRAY(a, const void *, s->g.n_tensors + 1);
	struct err e = {0};

	with.tensors = arena_dup(a, s->g.tensors, s->g.n_tensors * sizeof(*s->g.tensors));
	for (uint32_t i = 0; i < c->bind.n_operands; i++) {
		if (with.tensors[i].role == ROLE_WEIGHT)
			with.tensors[i].data = value[c->bind.operands[i].i];
		for (uint32_t k = 0; k < with.n_inputs; k++)
			if (with.inputs[k].i == i)
				in[k] = value[c->bind.operands[i].i];
	}
	if (!interp_run(a, &with, in, NULL, have, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < c->bind.n_results; i++) {
		const struct tensor *t = graph_tensor(g, c->bind.results[i]);

		if (values_distance(t->type, &t->shape, have[i], value[c->bind.results[i].i], 1) > 1e-6)
			fail_msg(
			    "candidate of spec %u computes something else:\n%.*s", c->spec, STR_ARG(s->text));
	}
}
