/* kernels/interp/sample.c: single elements of a graph's tensors, computed on demand.  What was
 * computed is remembered, so that a shared cone is walked once: of a tensor of some size in an array of all
 * its elements, of a larger one by position.  Layouts and broadcasts only pass on and are not remembered, nor
 * is what just one map reads: that map is. */
#include "interp_int.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_DEPTH = 4096,   /* of recursion: a few hundred bytes of stack a step */
	MAX_FIELD = 1 << 20 /* elements; pages that nothing is kept in cost nothing */
};

/* What is known of a tensor's elements, each at its place. */
struct field {
	union val *v;
	uint64_t *is_known; /* a bit each */
};

struct slot {
	int64_t at;
	uint32_t tensor; /* + 1; 0 where free */
	union val v;
};

struct sampler {
	const struct graph *g;
	struct arena tmp;
	const void **data;     /* dense values by tensor: inputs, constants, opaque results */
	const uint32_t *maker; /* first producer by tensor */
	struct operand **ops;  /* by node, made at first use */
	bool *pass_on;         /* by tensor: not remembered */
	struct field *fields;  /* by tensor; NULL: none yet, or too large for one */
	struct slot *slots;    /* of tensors without a field */
	uint64_t n_slots, n_used;
	uint64_t left; /* evaluations */
	uint32_t depth;
	const struct shake *shake; /* NULL: none */
	struct err *e;
	bool failed;
};

/* A call and the node it is for. */
struct sample_call {
	struct call c;
	const struct node *n;
};

static bool
fail(struct sampler *s, const char *what)
{
	s->failed = true;
	return err_set(s->e, ERR_LIMIT, "sampling the reference takes more than the allowed %s", what);
}

static uint64_t
slot_of(const struct sampler *s, uint32_t tensor, int64_t at)
{
	/* Neighbours are asked for together: runs of 16 lie side by side. */
	uint64_t run = (uint64_t)at >> 4 ^ (uint64_t)tensor << 40,
		 i = (mix64(run) + ((uint64_t)at & 15)) & (s->n_slots - 1);

	while (s->slots[i].tensor && (s->slots[i].tensor != tensor + 1 || s->slots[i].at != at))
		i = (i + 1) & (s->n_slots - 1);
	return i;
}

static bool
recall(const struct sampler *s, uint32_t tensor, int64_t at, union val *v)
{
	const struct field *f = &s->fields[tensor];
	const struct slot *slot;

	if (f->v) {
		*v = f->v[at];
		return f->is_known[at >> 6] >> (at & 63) & 1;
	}
	slot = &s->slots[slot_of(s, tensor, at)];
	*v = slot->v;
	return slot->tensor != 0;
}

/* False: the tensor is too large for one. */
static bool
open_field(struct sampler *s, uint32_t tensor)
{
	size_t n = (size_t)shape_count(&s->g->tensors[tensor].shape);
	struct field *f = &s->fields[tensor];

	if (n > MAX_FIELD)
		return false;
	f->v = heap_alloc(n * sizeof(*f->v));
	f->is_known = heap_alloc((n / 64 + 1) * sizeof(*f->is_known));
	return true;
}

static void
remember(struct sampler *s, uint32_t tensor, int64_t at, union val v)
{
	struct field *f = &s->fields[tensor];

	if (f->v || open_field(s, tensor)) {
		f->v[at] = v;
		f->is_known[at >> 6] |= (uint64_t)1 << (at & 63);
		return;
	}
	if (s->n_used * 2 >= s->n_slots) {
		struct slot *old = s->slots;
		uint64_t n_old = s->n_slots;

		s->n_slots *= 2;
		s->slots = heap_alloc(ck_mul(s->n_slots, sizeof(*s->slots)));
		for (uint64_t i = 0; i < n_old; i++)
			if (old[i].tensor)
				s->slots[slot_of(s, old[i].tensor - 1, old[i].at)] = old[i];
		free(old);
	}
	s->slots[slot_of(s, tensor, at)] = (struct slot){at, tensor + 1, v};
	s->n_used++;
}

static union val sample(struct sampler *s, tensor_id t, int64_t at);

/* As it would be after a store and a load. */
static union val
rounded(enum dtype t, union val v)
{
	uint64_t room;

	if (t == DT_f32)
		return (union val){.f = (double)(float)v.f};
	val_store(t, &room, 0, v);
	return val_load(t, &room, 0);
}

/* An element of a tensor whose values lie there. */
static union val
load(const struct sampler *s, tensor_id t, const void *data, int64_t at)
{
	const struct tensor *x = graph_tensor(s->g, t);
	union val v = val_load(x->type, data, at);

	if (s->shake && dtype_is_float(x->type) && (x->role == ROLE_INPUT || x->role == ROLE_WEIGHT))
		v = rounded(x->type, (union val){.f = shaken(s->shake, x->type, t.i, at, v.f)});
	return v;
}

static union val
sample_get(struct call *c, uint32_t operand, int64_t flat)
{
	struct sampler *s = c->self;
	const struct node *n = ((struct sample_call *)(void *)c)->n;
	union val v = {0};

	if (c->in[operand].data)
		v = load(s, n->in[operand], c->in[operand].data, flat);
	else if (!s->failed)
		v = sample(s, n->in[operand], flat);
	if (s->left-- == 0)
		(void)fail(s, "number of evaluations");
	c->failed |= s->failed;
	return v;
}

static struct operand *
operands(struct sampler *s, uint32_t node)
{
	const struct node *n = &s->g->nodes[node];
	struct operand *ops = s->ops[node];

	if (ops)
		return ops;
	s->ops[node] = ops = NEW_ARRAY(&s->tmp, struct operand, n->n_in);
	for (uint32_t k = 0; k < n->n_in; k++) {
		ops[k] = (struct operand){.t = graph_tensor(s->g, n->in[k]), .data = s->data[n->in[k].i]};
		strides_of(&ops[k].t->shape, ops[k].stride);
	}
	return ops;
}

static void *
dense_new(struct sampler *s, const struct tensor *t)
{
	size_t n = 0;

	if (!shape_bytes(&t->shape, t->type, &n) || (uint64_t)shape_count(&t->shape) > s->left) {
		(void)fail(s, "number of evaluations");
		return NULL;
	}
	return arena_alloc(&s->tmp, MAX_OF(n, (size_t)1));
}

/* All of a tensor, for an opaque primitive that reads it. */
static const void *
dense(struct sampler *s, tensor_id t)
{
	const struct tensor *x = graph_tensor(s->g, t);
	int64_t n = shape_count(&x->shape);
	void *p;

	if (s->data[t.i] || !(p = dense_new(s, x)))
		return s->data[t.i];
	for (int64_t i = 0; i < n && !s->failed; i++) {
		val_store(x->type, p, i, sample(s, t, i));
		if (s->left-- == 0)
			(void)fail(s, "number of evaluations");
	}
	return p;
}

/* Results of an opaque node, all at once. */
static void
sample_whole(struct sampler *s, uint32_t node)
{
	const struct node *n = &s->g->nodes[node];
	struct operand *ops = operands(s, node);
	struct call c = {.p = n->prim,
	    .at = &n->at,
	    .n_in = n->n_in,
	    .in = ops,
	    .out = graph_tensor(s->g, n->out[0]),
	    .e = s->e};
	void *out[2] = {NULL, NULL};

	for (uint32_t k = 0; k < n->n_in && !s->failed; k++)
		ops[k].data = dense(s, n->in[k]);
	for (uint32_t k = 0; k < n->n_out && !s->failed; k++)
		out[k] = dense_new(s, graph_tensor(s->g, n->out[k]));
	if (s->failed)
		return;
	s->failed = !opaque_run(&c, out);
	for (uint32_t k = 0; k < n->n_out; k++)
		s->data[n->out[k].i] = out[k];
}

static union val
sample_node(struct sampler *s, uint32_t node, tensor_id t, int64_t at)
{
	const struct node *n = &s->g->nodes[node];
	const struct tensor *x = graph_tensor(s->g, t);
	struct sample_call sc = {.n = n};
	int64_t o[MAX_RANK];
	union val v;

	if (prim_is_whole(n->prim)) {
		sample_whole(s, node);
		return s->failed ? (union val){0} : val_load(x->type, s->data[t.i], at);
	}
	sc.c = (struct call){.p = n->prim,
	    .at = &n->at,
	    .n_in = n->n_in,
	    .in = operands(s, node),
	    .out = x,
	    .get = sample_get,
	    .self = s,
	    .e = s->e};
	if (prim_info[n->prim].class != CLASS_MAP) /* a map needs the flat position only */
		index_of(&x->shape, at, o);
	v = rounded(x->type, eval_elem(&sc.c, o, at));
	if (s->shake && dtype_is_float(x->type) && prim_rounds(n->prim))
		v = rounded(x->type, (union val){.f = shaken(s->shake, x->type, t.i, at, v.f)});
	s->failed |= sc.c.failed;
	return v;
}

static union val
sample(struct sampler *s, tensor_id t, int64_t at)
{
	uint32_t node = s->maker[t.i];
	union val v = {0};

	if (s->data[t.i])
		return load(s, t, s->data[t.i], at);
	if (node == NO_NODE) {
		s->failed =
		    !err_set(s->e, ERR_MODEL, "tensor %%%u has no value; weights need their data", t.i);
		return v;
	}
	if (!s->pass_on[t.i] && recall(s, t.i, at, &v))
		return v;
	if (++s->depth > MAX_DEPTH) {
		(void)fail(s, "depth");
		return v;
	}
	v = sample_node(s, node, t, at);
	s->depth--;
	if (!s->pass_on[t.i] && !s->failed)
		remember(s, t.i, at, v);
	return v;
}

static const uint32_t *
first_makers(struct arena *a, const struct graph *g)
{
	uint32_t *maker = NEW_ARRAY(a, uint32_t, g->n_tensors);

	memset(maker, 0xff, ck_mul(g->n_tensors, sizeof(*maker)));
	for (uint32_t i = g->n_nodes; i-- > 0;)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			maker[g->nodes[i].out[k].i] = i;
	return maker;
}

/* Which tensors need no entry: each of their elements is asked for once for each time that a
 * remembered one is computed. */
static bool *
find_pass_on(struct sampler *s, tensor_id wanted)
{
	struct graph_index x = graph_index_make(&s->tmp, s->g);
	bool *pass_on = NEW_ARRAY(&s->tmp, bool, s->g->n_tensors);

	for (uint32_t t = 0; t < s->g->n_tensors; t++) {
		uint32_t first = x.reader_first[t], uses = 0;
		const struct node *reader;
		enum prim_class class;

		if (s->maker[t] == NO_NODE || t == wanted.i)
			continue;
		class = prim_info[s->g->nodes[s->maker[t]].prim].class;
		if (class == CLASS_LAYOUT || class == CLASS_BCAST) {
			pass_on[t] = true;
		} else if (x.reader_first[t + 1] - first == 1) {
			reader = &s->g->nodes[x.reader[first]];
			for (uint32_t k = 0; k < reader->n_in; k++)
				uses += reader->in[k].i == t;
			pass_on[t] = uses == 1 && prim_info[reader->prim].class == CLASS_MAP;
		}
	}
	return pass_on;
}

static void
sampler_open(struct sampler *s, const void *const *inputs, tensor_id wanted)
{
	const struct graph *g = s->g;

	s->data = NEW_ARRAY(&s->tmp, const void *, g->n_tensors);
	s->maker = first_makers(&s->tmp, g);
	s->pass_on = find_pass_on(s, wanted);
	s->ops = NEW_ARRAY(&s->tmp, struct operand *, g->n_nodes);
	s->fields = NEW_ARRAY(&s->tmp, struct field, g->n_tensors);
	s->n_slots = 1024;
	s->slots = heap_alloc(s->n_slots * sizeof(*s->slots));
	for (uint32_t i = 0; i < g->n_tensors; i++)
		s->data[i] = g->tensors[i].data;
	for (uint32_t i = 0; i < g->n_inputs; i++)
		s->data[g->inputs[i].i] = inputs[i];
}

static void
sampler_close(struct sampler *s)
{
	for (uint32_t i = 0; i < s->g->n_tensors; i++) {
		free(s->fields[i].v);
		free(s->fields[i].is_known);
	}
	free(s->slots);
	arena_fini(&s->tmp);
}

bool
interp_sample(struct arena *a, const struct graph *g, const void *const *inputs, tensor_id t,
    const int64_t *at, uint32_t n_at, uint64_t max_elements, const struct shake *shake, double *out,
    struct err *e)
{
	struct sampler s = {.g = g, .left = max_elements, .shake = shake, .e = e};
	enum dtype type = graph_tensor(g, t)->type;

	(void)a;
	sampler_open(&s, inputs, t);
	for (uint32_t i = 0; i < n_at && !s.failed; i++) {
		union val v = sample(&s, t, at[i]);

		out[i] = dtype_is_float(type) ? v.f : type == DT_u64 ? (double)(uint64_t)v.i : (double)v.i;
	}
	sampler_close(&s);
	return !s.failed;
}

bool
interp_cone(const struct graph *g, const void *const *inputs, tensor_id t, int64_t at, uint64_t most,
    uint64_t *n, struct err *e)
{
	struct sampler s = {.g = g, .left = most, .e = e};

	sampler_open(&s, inputs, t);
	(void)sample(&s, t, at);
	*n = s.failed ? most : most - s.left;
	sampler_close(&s);
	return !s.failed;
}
