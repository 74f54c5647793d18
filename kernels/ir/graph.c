/* kernels/ir/graph.c: the primitive graph: building, sorting, indexing.  Arrays live in the
 * graph's arena and only grow; ids stay valid for the graph's life. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

void
graph_init(struct graph *g, struct arena *a)
{
	*g = (struct graph){.arena = a};
}

void
graph_room(struct graph *g, uint32_t n_tensors, uint32_t n_nodes)
{
	if (g->tensors || g->nodes)
		bug("room for a graph that has been begun");
	g->tensors = NEW_ARRAY(g->arena, struct tensor, n_tensors);
	g->nodes = NEW_ARRAY(g->arena, struct node, n_nodes);
	g->cap_tensors = n_tensors;
	g->cap_nodes = n_nodes;
}

static tensor_id
tensor_add(struct graph *g, const struct tensor *t)
{
	size_t bytes;

	if (!shape_bytes(&t->shape, t->type, &bytes))
		bug("a tensor whose size does not fit; check shapes where they come in");
	GROW(g->arena, g->tensors, g->n_tensors, g->cap_tensors);
	g->tensors[g->n_tensors] = *t;
	return (tensor_id){g->n_tensors++};
}

tensor_id
graph_input(struct graph *g, enum dtype t, const struct shape *s, const char *name)
{
	tensor_id id =
	    tensor_add(g, &(struct tensor){.role = ROLE_INPUT, .type = t, .shape = *s, .name = name});

	GROW(g->arena, g->inputs, g->n_inputs, g->cap_inputs);
	g->inputs[g->n_inputs++] = id;
	return id;
}

tensor_id
graph_const(struct graph *g, enum tensor_role role, enum dtype t, const struct shape *s, const void *data,
    const char *name)
{
	if (role != ROLE_CONST && role != ROLE_WEIGHT)
		bug("a constant of role %d", (int)role);
	if (role == ROLE_CONST && !data && shape_count(s) > 0)
		bug("a constant without data");
	return tensor_add(
	    g, &(struct tensor){.role = role, .type = t, .shape = *s, .data = data, .name = name});
}

void
graph_output(struct graph *g, tensor_id t, const char *name)
{
	uint32_t cap = g->cap_outputs;

	if (t.i >= g->n_tensors)
		bug("output of tensor %u of %u", t.i, g->n_tensors);
	GROW(g->arena, g->output_names, g->n_outputs, cap);
	GROW(g->arena, g->outputs, g->n_outputs, g->cap_outputs);
	g->output_names[g->n_outputs] = name;
	g->outputs[g->n_outputs++] = t;
}

static bool
result_of(const struct graph *g, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    struct tensor *out, struct err *e)
{
	const struct tensor *few[16] = {NULL}, **ts = few;
	bool ok;

	if (n_in > COUNT_OF(few))
		ts = heap_alloc(ck_mul(n_in, sizeof(*ts)));
	for (uint32_t i = 0; i < n_in; i++) {
		if (in[i].i >= g->n_tensors)
			bug("operand %u of primitive %s is tensor %u of %u", i, prim_info[p].name, in[i].i,
			    g->n_tensors);
		ts[i] = &g->tensors[in[i].i];
	}
	ok = prim_result(p, ts, n_in, at, out, e);
	if (ts != few)
		free(ts);
	return ok;
}

static void
node_push(
    struct graph *g, const struct node *n, const struct attrs *at, const tensor_id *in, const tensor_id *out)
{
	struct node *m;

	GROW(g->arena, g->nodes, g->n_nodes, g->cap_nodes);
	m = &g->nodes[g->n_nodes++];
	*m = *n;
	m->in = arena_dup(g->arena, in, n->n_in * sizeof(*in));
	m->out = arena_dup(g->arena, out, n->n_out * sizeof(*out));
	if (at)
		m->at = *at;
}

bool
graph_add(struct graph *g, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    uint32_t origin, tensor_id *out, struct err *e)
{
	struct tensor t;
	uint32_t n_out = prim_n_out(p);

	if (!result_of(g, p, in, n_in, at, &t, e))
		return false;
	for (uint32_t i = 0; i < n_out; i++) {
		if (i == 1)
			t.type = DT_i64; /* topk: values, then positions */
		out[i] = tensor_add(g, &t);
	}
	node_push(g, &(struct node){.prim = p, .n_in = n_in, .n_out = n_out, .origin = origin}, at, in, out);
	return true;
}

static bool
any_of(const struct bitset *set, const tensor_id *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (bit_get(set, t[i].i))
			return true;
	return false;
}

/* Does any producer, over all alternatives, lead from `from` to one of `to`?  Nodes stand nearly
 * in topological order, so the sweep seldom runs more than twice. */
static bool
leads_to(const struct graph *g, tensor_id from, const tensor_id *to, uint32_t n_to)
{
	struct bitset seen = {heap_alloc(((size_t)g->n_tensors + 63) / 64 * 8), g->n_tensors};
	bool more = true, found;

	bit_set(&seen, from.i);
	while (more) {
		more = false;
		for (uint32_t i = 0; i < g->n_nodes; i++) {
			const struct node *n = &g->nodes[i];

			if (!any_of(&seen, n->in, n->n_in))
				continue;
			for (uint32_t k = 0; k < n->n_out; k++) {
				more |= !bit_get(&seen, n->out[k].i);
				bit_set(&seen, n->out[k].i);
			}
		}
	}
	found = any_of(&seen, to, n_to);
	free(seen.w);
	return found;
}

bool
graph_add_alt(struct graph *g, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    uint32_t origin, enum numeric num, tensor_id out, struct err *e)
{
	const struct tensor *want = graph_tensor(g, out);
	struct tensor t;

	if (prim_n_out(p) != 1)
		return err_set(e, ERR_MODEL, "primitive %s: several results cannot be an alternative",
		    prim_info[p].name);
	if (want->role != ROLE_INNER)
		return err_set(
		    e, ERR_MODEL, "primitive %s: tensor %%%u is given, not made", prim_info[p].name, out.i);
	if (!result_of(g, p, in, n_in, at, &t, e))
		return false;
	if (t.type != want->type || !shape_eq(&t.shape, &want->shape))
		return err_set(e, ERR_MODEL,
		    "primitive %s: the alternative for %%%u has another type or shape", prim_info[p].name,
		    out.i);
	if (leads_to(g, out, in, n_in))
		return err_set(e, ERR_MODEL, "primitive %s: the alternative for %%%u would close a circle",
		    prim_info[p].name, out.i);
	node_push(g, &(struct node){.prim = p, .num = num, .n_in = n_in, .n_out = 1, .origin = origin}, at,
	    in, &out);
	return true;
}

/* Lists by tensor out of (tensor, node) pairs: counts, then places. */
static uint32_t *
csr(struct arena *a, const struct graph *g, bool readers, uint32_t **list)
{
	uint32_t *first = NEW_ARRAY(a, uint32_t, g->n_tensors + 2), total = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < g->n_nodes; i++) {
			const tensor_id *t = readers ? g->nodes[i].in : g->nodes[i].out;
			uint32_t n = readers ? g->nodes[i].n_in : g->nodes[i].n_out;

			for (uint32_t k = 0; k < n; k++) {
				bool again = false;

				for (uint32_t j = 0; j < k; j++)
					again |= t[j].i == t[k].i;
				if (again)
					continue;
				if (pass)
					(*list)[first[t[k].i + 1]++] = i;
				else
					first[t[k].i + 2]++;
			}
		}
		if (pass == 0) {
			for (uint32_t t = 2; t < g->n_tensors + 2; t++)
				first[t] = total += first[t];
			*list = NEW_ARRAY(a, uint32_t, total);
		}
	}
	return first;
}

struct graph_index
graph_index_make(struct arena *a, const struct graph *g)
{
	struct graph_index x;

	x.maker_first = csr(a, g, false, &x.maker);
	x.reader_first = csr(a, g, true, &x.reader);
	return x;
}

/* ---- sorting ------------------------------------------------------------------------ */

/* Copies a graph from its outputs upward: all producers of a tensor follow its operands.  The
 * driver walks nodes in their order, so that a sorted graph keeps it. */
struct sorter {
	const struct graph *g;
	struct graph *to;
	struct arena *a;
	struct graph_index x;
	struct bitset live; /* tensors that an output needs */
	tensor_id *map;
	unsigned char *state; /* of a tensor: 0 new, 1 on the stack, 2 done */
	uint32_t *stack, n_stack;
};

static void
mark_live(struct sorter *s)
{
	for (uint32_t i = 0; i < s->g->n_outputs; i++)
		s->stack[s->n_stack++] = s->g->outputs[i].i;
	while (s->n_stack) {
		uint32_t t = s->stack[--s->n_stack];

		if (bit_get(&s->live, t))
			continue;
		bit_set(&s->live, t);
		for (uint32_t m = s->x.maker_first[t]; m < s->x.maker_first[t + 1]; m++) {
			const struct node *n = &s->g->nodes[s->x.maker[m]];

			for (uint32_t k = 0; k < n->n_in; k++)
				if (!bit_get(&s->live, n->in[k].i))
					s->stack[s->n_stack++] = n->in[k].i;
		}
	}
}

static void
copy_node(struct sorter *s, const struct node *n)
{
	tensor_id *in = NEW_ARRAY(s->a, tensor_id, n->n_in), *out = NEW_ARRAY(s->a, tensor_id, n->n_out);

	for (uint32_t k = 0; k < n->n_in; k++)
		in[k] = s->map[n->in[k].i];
	for (uint32_t k = 0; k < n->n_out; k++) {
		tensor_id *to = &s->map[n->out[k].i];

		if (to->i == UINT32_MAX)
			*to = tensor_add(s->to, graph_tensor(s->g, n->out[k]));
		s->state[n->out[k].i] = 2;
		out[k] = *to;
	}
	node_push(s->to, n, &n->at, in, out);
}

/* Pushes what `t` still waits for; false when there is nothing. */
static bool
push_missing(struct sorter *s, uint32_t t)
{
	uint32_t before = s->n_stack;

	for (uint32_t m = s->x.maker_first[t]; m < s->x.maker_first[t + 1]; m++) {
		const struct node *n = &s->g->nodes[s->x.maker[m]];

		for (uint32_t k = n->n_in; k-- > 0;) {
			uint32_t u = n->in[k].i;

			if (s->state[u] == 1)
				bug("the graph has a circle through tensor %u", u);
			if (s->state[u] == 0)
				s->stack[s->n_stack++] = u;
		}
	}
	return s->n_stack > before;
}

/* An operand is copied when first needed or when its turn comes, whichever is sooner. */
static void
place(struct sorter *s, uint32_t root)
{
	s->stack[s->n_stack++] = root;
	while (s->n_stack) {
		uint32_t t = s->stack[s->n_stack - 1];
		const struct tensor *old = &s->g->tensors[t];

		if (s->state[t] == 2) {
			s->n_stack--;
			continue;
		}
		if (s->state[t] == 0) {
			if (old->role != ROLE_INNER) {
				s->map[t] = tensor_add(s->to, old);
				s->state[t] = 2;
				continue;
			}
			if (push_missing(s, t)) {
				/* Revisited once those above it are done; they cannot lead back here. */
				s->state[t] = 1;
				continue;
			}
		}
		s->state[t] = 1;
		for (uint32_t m = s->x.maker_first[t]; m < s->x.maker_first[t + 1]; m++)
			copy_node(s, &s->g->nodes[s->x.maker[m]]);
		s->state[t] = 2;
	}
}

static uint32_t
n_edges(const struct graph *g)
{
	size_t n = g->n_outputs;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n = ck_add(n, g->nodes[i].n_in);
	return ck_u32(n);
}

void
graph_sort(struct graph *to, struct arena *a, const struct graph *g, tensor_id *map)
{
	struct arena tmp = {0};
	struct sorter s = {.g = g, .to = to, .a = &tmp, .x = graph_index_make(&tmp, g)};

	s.live = bitset_make(&tmp, g->n_tensors);
	s.map = NEW_ARRAY(&tmp, tensor_id, g->n_tensors);
	s.state = NEW_ARRAY(&tmp, unsigned char, g->n_tensors);
	s.stack = NEW_ARRAY(&tmp, uint32_t, (size_t)n_edges(g) * 2 + 2);
	graph_init(to, a);
	memset(s.map, 0xff, ck_mul(g->n_tensors, sizeof(*s.map)));
	mark_live(&s);
	for (uint32_t i = 0; i < g->n_inputs; i++) { /* inputs stay, used or not */
		const struct tensor *t = graph_tensor(g, g->inputs[i]);

		s.map[g->inputs[i].i] = tensor_add(to, t);
		s.state[g->inputs[i].i] = 2;
		GROW(a, to->inputs, to->n_inputs, to->cap_inputs);
		to->inputs[to->n_inputs++] = s.map[g->inputs[i].i];
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			if (bit_get(&s.live, g->nodes[i].out[k].i))
				place(&s, g->nodes[i].out[k].i);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		place(&s, g->outputs[i].i);
		graph_output(to, s.map[g->outputs[i].i], g->output_names[i]);
	}
	if (map)
		memcpy(map, s.map, ck_mul(g->n_tensors, sizeof(*map)));
	arena_fini(&tmp);
}
