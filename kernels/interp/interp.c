/* kernels/interp/interp.c: primitives over dense arrays, and whole graphs. */
#include "interp_int.h"

#include <stdlib.h>
#include <string.h>

static union val
dense_get(struct call *c, uint32_t operand, int64_t flat)
{
	return val_load(c->in[operand].t->type, c->in[operand].data, flat);
}

union val
eval_elem(struct call *c, const int64_t *o, int64_t flat)
{
	union val x[3] = {{0}};
	enum dtype types[3];

	if (prim_info[c->p].class != CLASS_MAP)
		return element_value(c, o, flat);
	for (uint32_t k = 0; k < c->n_in; k++) {
		x[k] = c->get(c, k, flat);
		types[k] = c->in[k].t->type;
	}
	return map_scalar(c->p, types, c->out->type, x);
}

static bool
run_elements(struct call *c, void *out)
{
	const struct shape *s = &c->out->shape;
	int64_t n = shape_count(s), o[MAX_RANK] = {0};

	for (int64_t i = 0; i < n; i++) {
		val_store(c->out->type, out, i, eval_elem(c, o, i));
		if (c->failed)
			return false;
		for (int d = s->rank - 1; d >= 0 && ++o[d] == s->dim[d]; d--)
			o[d] = 0;
	}
	return true;
}

bool
interp_prim(enum prim p, const struct attrs *at, uint32_t n_in, const struct tensor *const *in,
    const void *const *in_data, uint32_t n_out, const struct tensor *const *out, void *const *out_data,
    struct err *e)
{
	struct operand few[4], *ops = few;
	struct call c = {.p = p, .at = at, .n_in = n_in, .out = out[0], .get = dense_get, .e = e};
	void *results[2] = {out_data[0], n_out > 1 ? out_data[1] : NULL};
	bool ok;

	if (n_in > COUNT_OF(few))
		ops = heap_alloc(ck_mul(n_in, sizeof(*ops)));
	for (uint32_t k = 0; k < n_in; k++) {
		ops[k] = (struct operand){.t = in[k], .data = in_data[k]};
		strides_of(&in[k]->shape, ops[k].stride);
	}
	c.in = ops;
	if (prim_is_whole(p))
		ok = opaque_run(&c, results);
	else
		ok = shortcut_run(&c, results[0]) || run_elements(&c, results[0]);
	if (ops != few)
		free(ops);
	return ok;
}

/* ---- graphs ------------------------------------------------------------------------- */

struct run {
	const struct graph *g;
	struct arena tmp;
	const uint32_t *pick;
	const void **data; /* by tensor; of inner ones while a reader is to come */
	bool *owned;
	uint32_t *waiting; /* readers to come, and one for an output */
	bool *needed;      /* nodes */
};

/* The producer of each tensor: the picked one, else the first. */
static uint32_t *
makers(struct run *r)
{
	uint32_t *maker = NEW_ARRAY(&r->tmp, uint32_t, r->g->n_tensors);

	for (uint32_t i = r->g->n_nodes; i-- > 0;)
		for (uint32_t k = 0; k < r->g->nodes[i].n_out; k++)
			maker[r->g->nodes[i].out[k].i] = i;
	for (uint32_t t = 0; r->pick && t < r->g->n_tensors; t++)
		if (r->g->tensors[t].role == ROLE_INNER && r->pick[t] != NO_NODE)
			maker[t] = r->pick[t];
	return maker;
}

static void
need(struct run *r, const uint32_t *maker, tensor_id t)
{
	r->waiting[t.i]++;
	if (graph_tensor(r->g, t)->role == ROLE_INNER)
		r->needed[maker[t.i]] = true;
}

static void
plan_run(struct run *r)
{
	const uint32_t *maker = makers(r);

	for (uint32_t i = 0; i < r->g->n_outputs; i++)
		need(r, maker, r->g->outputs[i]);
	/* Nodes stand in topological order of the union of alternatives. */
	for (uint32_t i = r->g->n_nodes; i-- > 0;)
		for (uint32_t k = 0; r->needed[i] && k < r->g->nodes[i].n_in; k++)
			need(r, maker, r->g->nodes[i].in[k]);
}

static void
release(struct run *r, tensor_id t)
{
	if (--r->waiting[t.i] || !r->owned[t.i])
		return;
	free((void *)(uintptr_t)r->data[t.i]);
	r->data[t.i] = NULL;
	r->owned[t.i] = false;
}

static size_t
bytes_of(const struct tensor *t)
{
	size_t n = 0;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a tensor whose size does not fit");
	return n;
}

static bool
run_node(struct run *r, const struct node *n, struct err *e)
{
	const struct tensor **in = NEW_ARRAY(&r->tmp, const struct tensor *, n->n_in), *out[2];
	const void **in_data = NEW_ARRAY(&r->tmp, const void *, n->n_in);
	void *out_data[2];

	for (uint32_t k = 0; k < n->n_in; k++) {
		in[k] = graph_tensor(r->g, n->in[k]);
		in_data[k] = r->data[n->in[k].i];
		if (!in_data[k] && bytes_of(in[k]))
			return err_set(
			    e, ERR_MODEL, "tensor %%%u has no value; weights need their data", n->in[k].i);
	}
	for (uint32_t k = 0; k < n->n_out; k++) {
		out[k] = graph_tensor(r->g, n->out[k]);
		out_data[k] = heap_alloc(bytes_of(out[k]));
		r->data[n->out[k].i] = out_data[k];
		r->owned[n->out[k].i] = true;
		r->waiting[n->out[k].i]++;
	}
	if (!interp_prim(n->prim, &n->at, n->n_in, in, in_data, n->n_out, out, out_data, e))
		return false;
	for (uint32_t k = 0; k < n->n_in; k++)
		release(r, n->in[k]);
	for (uint32_t k = 0; k < n->n_out; k++)
		release(r, n->out[k]);
	return true;
}

static bool
run_nodes(struct run *r, struct err *e)
{
	for (uint32_t i = 0; i < r->g->n_nodes; i++) {
		struct arena_mark m = arena_mark(&r->tmp);

		if (r->needed[i] && !run_node(r, &r->g->nodes[i], e))
			return false;
		arena_reset(&r->tmp, m);
	}
	return true;
}

static bool
collect(struct run *r, struct arena *a, void **outputs, struct err *e)
{
	for (uint32_t i = 0; i < r->g->n_outputs; i++) {
		uint32_t t = r->g->outputs[i].i;
		size_t n = bytes_of(&r->g->tensors[t]);

		if (!r->data[t] && n)
			return err_set(e, ERR_MODEL, "tensor %%%u has no value; weights need their data", t);
		outputs[i] = arena_dup(a, r->data[t], n);
	}
	return true;
}

bool
interp_run(struct arena *a, const struct graph *g, const void *const *inputs, const uint32_t *pick,
    void **outputs, struct err *e)
{
	struct run r = {.g = g, .pick = pick};
	bool ok;

	r.data = NEW_ARRAY(&r.tmp, const void *, g->n_tensors);
	r.owned = NEW_ARRAY(&r.tmp, bool, g->n_tensors);
	r.waiting = NEW_ARRAY(&r.tmp, uint32_t, g->n_tensors);
	r.needed = NEW_ARRAY(&r.tmp, bool, g->n_nodes);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		r.data[t] = g->tensors[t].data;
	for (uint32_t i = 0; i < g->n_inputs; i++)
		r.data[g->inputs[i].i] = inputs[i];
	plan_run(&r);
	ok = run_nodes(&r, e) && collect(&r, a, outputs, e);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (r.owned[t])
			free((void *)(uintptr_t)r.data[t]);
	arena_fini(&r.tmp);
	return ok;
}
