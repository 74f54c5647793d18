/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program. */
#include "fuse.h"

enum traced_class {
#define TRACED_CLASS(N, RATIO, WORDS) TRACED_##N,
#include "traced.def"
#undef TRACED_CLASS
	TRACED_CLASSES
};

static const double ratio[TRACED_CLASSES] = {
#define TRACED_CLASS(N, RATIO, WORDS) RATIO,
#include "traced.def"
#undef TRACED_CLASS
};

/* The class of a kernel of that primitive alone; TRACED_CLASSES: none. */
static enum traced_class
class_of_prim(enum prim p)
{
	switch (prim_info[p].class) {
	case CLASS_REDUCE:
		return prim_info[p].shape == SHAPE_WINDOW ? TRACED_pooling : TRACED_rows;
	case CLASS_MAP:
		return TRACED_map;
	case CLASS_LAYOUT:
	case CLASS_BCAST:
		return TRACED_layout;
	case CLASS_LINEAR:
	case CLASS_OPAQUE:
		break;
	}
	return TRACED_CLASSES;
}

static enum traced_class
class_of(const struct spec *s)
{
	enum traced_class first = TRACED_layout, c;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		c = class_of_prim(s->g.nodes[i].prim);
		if (c == TRACED_CLASSES)
			return c;
		first = MIN_OF(first, c);
	}
	return first;
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	if (t->is_cuda || t->strict)
		return false;
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	return class_of(s) != TRACED_CLASSES;
}

double
fuse_traced_ratio(const struct spec *s)
{
	const enum traced_class c = class_of(s);

	return c == TRACED_CLASSES ? 1 : ratio[c];
}
