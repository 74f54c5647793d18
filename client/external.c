/* client/external.c: walks ModelProto.graph.{initializer, node.attribute.t}.external_data. */
#include "external.h"

#include "wire.h"

enum {
	MODEL_GRAPH = 7,
	GRAPH_NODE = 1,
	GRAPH_INITIALIZER = 5,
	NODE_ATTRIBUTE = 5,
	ATTRIBUTE_TENSOR = 5,
	TENSOR_EXTERNAL = 13,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2,
	MAX_FILES = 4096
};

struct list {
	struct arena *arena;
	struct str *v;
	uint32_t n, cap;
};

static void
add(struct list *l, struct str location)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], location))
			return;
	if (l->n == MAX_FILES)
		return;
	GROW(l->arena, l->v, l->n, l->cap);
	l->v[l->n++] = (struct str){str_dup(l->arena, location), location.n};
}

static struct str
text(const struct wire_field *f)
{
	return (struct str){(const char *)f->bytes.p, f->bytes.n};
}

static void
read_entry(struct list *l, struct bytes b)
{
	struct wire r = wire_make(b);
	struct str key = {0}, value = {0};
	struct wire_field f;

	while (wire_next(&r, &f)) {
		if (f.number == ENTRY_KEY && f.wire == WIRE_BYTES)
			key = text(&f);
		if (f.number == ENTRY_VALUE && f.wire == WIRE_BYTES)
			value = text(&f);
	}
	if (str_is(key, "location") && value.n)
		add(l, value);
}

/* The way down to the tensors: at each level the field to follow, then what reads it. */
struct step {
	uint32_t number;
	const struct step *below; /* NULL: an entry of external_data */
};
static const struct step tensor_steps[] = {{TENSOR_EXTERNAL, NULL}, {0}};
static const struct step attribute_steps[] = {{ATTRIBUTE_TENSOR, tensor_steps}, {0}};
static const struct step node_steps[] = {{NODE_ATTRIBUTE, attribute_steps}, {0}};
static const struct step graph_steps[] = {{GRAPH_NODE, node_steps}, {GRAPH_INITIALIZER, tensor_steps}, {0}};
static const struct step model_steps[] = {{MODEL_GRAPH, graph_steps}, {0}};

/* Depth is that of the table above, whatever the bytes say. */
static void
walk(struct list *l, struct bytes b, const struct step *steps)
{
	struct wire r = wire_make(b);
	struct wire_field f;

	while (wire_next(&r, &f)) {
		if (f.wire != WIRE_BYTES)
			continue;
		for (const struct step *s = steps; s->number; s++) {
			if (s->number != f.number)
				continue;
			if (s->below)
				walk(l, f.bytes, s->below);
			else
				read_entry(l, f.bytes);
		}
	}
}

void
external_list(struct arena *a, struct bytes onnx, struct str **out, uint32_t *n)
{
	struct list l = {.arena = a};

	walk(&l, onnx, model_steps);
	*out = l.v;
	*n = l.n;
}
