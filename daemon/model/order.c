/* daemon/model/order.c: topological order.  Depth first in the file's order, so a file that is
 * sorted (as ONNX asks) stays as it is. */
#include "model_int.h"

#include <string.h>

enum colour { NEW_NODE, OPEN, DONE };

struct order {
	const struct model *m;
	const uint32_t *maker; /* value -> node, NO_VALUE where none */
	uint8_t *colour;
	uint32_t *stack, *next_in;
	uint32_t n_stack;
	struct model_node *out;
	uint32_t n_out;
};

static void
push(struct order *o, uint32_t node)
{
	o->colour[node] = OPEN;
	o->next_in[o->n_stack] = 0;
	o->stack[o->n_stack++] = node;
}

static bool
circle(const struct order *o, uint32_t node, struct err *e)
{
	char names[300] = "";
	size_t n = 0;
	uint32_t from = o->n_stack;

	while (from > 0 && o->stack[from - 1] != node)
		from--;
	for (uint32_t i = from > 0 ? from - 1 : 0; i < o->n_stack; i++) {
		const char *name = o->m->nodes[o->stack[i]].name;
		size_t room = sizeof(names) - n, len = strnlen(name, 60);
		if (len + 10 > room)
			break;
		memcpy(names + n, n ? ", '" : "'", n ? 3 : 1);
		n += n ? 3 : 1;
		memcpy(names + n, name, len);
		n += len;
		names[n++] = '\'';
	}
	names[n] = '\0';
	return err_set(e, ERR_MODEL, "%s: the graph has a circle through the nodes %s", o->m->file, names);
}

/* One step on the top of the stack: enter the next producer, or finish the node. */
static bool
step(struct order *o, struct err *e)
{
	uint32_t node = o->stack[o->n_stack - 1];
	const struct model_node *n = &o->m->nodes[node];
	uint32_t *k = &o->next_in[o->n_stack - 1];

	while (*k < n->n_in) {
		uint32_t v = n->in[(*k)++];
		if (v == NO_VALUE || o->maker[v] == NO_VALUE || o->colour[o->maker[v]] == DONE)
			continue;
		if (o->colour[o->maker[v]] == OPEN)
			return circle(o, o->maker[v], e);
		push(o, o->maker[v]);
		return true;
	}
	o->colour[node] = DONE;
	o->out[o->n_out++] = *n;
	o->n_stack--;
	return true;
}

bool
order_nodes(struct arena *a, struct model *m, struct err *e)
{
	uint32_t *maker = NEW_ARRAY(a, uint32_t, m->n_values);
	struct order o = {.m = m, .maker = maker};

	memset(maker, 0xff, m->n_values * sizeof(*maker));
	for (uint32_t i = 0; i < m->n_nodes; i++)
		for (uint32_t k = 0; k < m->nodes[i].n_out; k++)
			if (m->nodes[i].out[k] != NO_VALUE)
				maker[m->nodes[i].out[k]] = i;
	o.colour = NEW_ARRAY(a, uint8_t, m->n_nodes);
	o.stack = NEW_ARRAY(a, uint32_t, m->n_nodes);
	o.next_in = NEW_ARRAY(a, uint32_t, m->n_nodes);
	o.out = NEW_ARRAY(a, struct model_node, m->n_nodes);
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (o.colour[i] == NEW_NODE)
			push(&o, i);
		while (o.n_stack > 0)
			if (!step(&o, e))
				return false;
	}
	m->nodes = o.out;
	return true;
}
