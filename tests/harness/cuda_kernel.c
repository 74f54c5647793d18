/* tests/harness/cuda_kernel.c: see the header. */
#include "cuda_kernel.h"
#include "../../kernels/interp/interp.h"
#include "../prop/random_graph.h"
#include "agree.h"

#include <stdio.h>
#include <string.h>

static size_t
bytes_of(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a shape of the test is too large");
	return n;
}

void
cuda_case_read(struct arena *a, struct cuda_case *c, const char *text)
{
	struct graph *g = NEW(a, struct graph);
	struct err e = {0};

	if (!graph_read(g, a, str_of(text), &e))
		bug("%s in\n%s", e.msg, text);
	spec_of_graph(a, g, &c->spec);
}

void
cuda_case_make(struct arena *a, struct cuda_case *c, const struct target *t, uint32_t number)
{
	struct err e = {0};

	c->refused = !(c->make ? c->make : generate_kernel)(
	    a, &c->spec, str_of(c->schedule), t, arena_printf(a, "k%u", number), &c->code, &e);
	if (c->refused && e.code != ERR_INFEASIBLE)
		bug("%s", e.msg);
	if (c->refused)
		c->refusal = str_of(arena_printf(a, "%s", e.msg));
}

static void
say(const struct cuda_case *c, int order, const char *what)
{
	fprintf(stderr, "seed %llu schedule '%s' order %d: %s\n%.*s\n", (unsigned long long)c->seed,
	    c->schedule, order, what, STR_ARG(c->spec.text));
}

static bool
check_order(const struct cuda_case *c, void *lib, const char *symbol, const void *const *in, void **buf,
    void **want, int order)
{
	const struct graph *g = &c->spec.g;
	const char *fault;
	char what[96];
	double d;

	for (uint32_t i = 0; i < g->n_outputs; i++)
		memset(buf[g->n_inputs + i], 0xff, bytes_of(graph_tensor(g, g->outputs[i])));
	fault = cuda_host_run(lib, &c->code, symbol, buf, order);
	if (fault) {
		say(c, order, fault);
		return false;
	}
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		if (agrees(g, in, want, i, buf[g->n_inputs + i], c->by > 0 ? c->by : 1, &d))
			continue;
		snprintf(what, sizeof(what), "output %u is %g away", i, d);
		say(c, order, what);
		return false;
	}
	return true;
}

static bool
check_case(struct arena *a, const struct cuda_case *c, void *lib, uint32_t number)
{
	const struct graph *g = &c->spec.g;
	struct rng rng = {c->seed * 31 + 7};
	const void **in = random_inputs(a, &rng, g);
	void **want = NEW_ARRAY(a, void *, g->n_outputs),
	     **buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs);
	const char *symbol = arena_printf(a, "k%u", number);
	struct err e = {0};
	bool ok = true;

	if (!interp_run(a, g, in, NULL, want, &e)) {
		say(c, 0, e.msg);
		return false;
	}
	for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
		tensor_id t = i < g->n_inputs ? g->inputs[i] : g->outputs[i - g->n_inputs];

		buf[i] = guard_new(bytes_of(graph_tensor(g, t)));
		if (i < g->n_inputs)
			memcpy(buf[i], in[i], bytes_of(graph_tensor(g, t)));
	}
	for (int order = 0; order < CUDA_HOST_ORDERS && ok; order++)
		ok = check_order(c, lib, symbol, in, buf, want, order);
	for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++)
		guard_free(buf[i],
		    bytes_of(graph_tensor(g, i < g->n_inputs ? g->inputs[i] : g->outputs[i - g->n_inputs])));
	return ok;
}

uint32_t
cuda_cases_check(struct arena *a, struct cuda_case *list, uint32_t n)
{
	struct strbuf sb;
	uint32_t bad = 0;

	sb_init(&sb, a);
	for (uint32_t i = 0; i < n; i++)
		if (!list[i].refused)
			sb_add(&sb, list[i].code.text);
	void *lib = cuda_host_load(a, sb_str(&sb));

	if (!lib) {
		fprintf(stderr, "the batch from seed %llu on did not compile\n",
		    (unsigned long long)list[0].seed);
		return n;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct arena tmp = {0};

		bad += !list[i].refused && !check_case(&tmp, &list[i], lib, i);
		arena_fini(&tmp);
	}
	cuda_host_unload(lib);
	return bad;
}
