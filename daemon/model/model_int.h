/* daemon/model/model_int.h: what the files of this folder share.  Nothing else includes it. */
#ifndef KORCH_MODEL_INT_H
#define KORCH_MODEL_INT_H

#include "model.h"

#include <onnx.pb-c.h>

/* ---- skeleton.c ---------------------------------------------------------------------- */
/* In a skeleton every TensorProto.raw_data holds this instead of its bytes: where they lie in
 * the file.  So big weights are never copied by the protobuf library. */
struct raw_place {
	uint64_t at, n_bytes;
};
/* Rewrites a serialised message of type `d` into its skeleton, checking nesting and the number
 * of messages on the way: the protobuf library limits neither.  *out is heap memory of the
 * caller (free).  `what` names the file. */
bool skeleton_make(const ProtobufCMessageDescriptor *d, struct bytes in, const char *what, struct bytes *out,
    struct err *e) MUST_CHECK;
ProtobufCAllocator arena_allocator(struct arena *a);

/* ---- tensor.c ------------------------------------------------------------------------ */
/* Where tensor bytes may come from, and how many there may be. */
struct tensor_source {
	struct bytes file; /* the bytes the skeleton was made from */
	const char *dir;   /* of external data; NULL: none allowed */
	size_t max_bytes;
	size_t n_bytes; /* decoded so far, all tensors together */
	struct external_file *external;
};
bool tensor_decode(struct arena *a, const Onnx__TensorProto *p, struct tensor_source *src,
    struct model_tensor *out, struct err *e) MUST_CHECK;
const char *onnx_type_name(int type);

/* ---- names.c ------------------------------------------------------------------------- */
/* Names to numbers, open addressing, no removal. */
struct name_table {
	struct arena *a;
	const char **key;
	uint32_t *value;
	uint32_t n, cap;
};
void names_init(struct name_table *t, struct arena *a);
bool names_find(const struct name_table *t, const char *key, uint32_t *value);
/* False (and unchanged) when the name is there already. */
bool names_add(struct name_table *t, const char *key, uint32_t value);
/* protobuf's strings are NULL where the file has none; so is ONNX's own domain, or empty. */
const char *or_empty(const char *name);
bool is_onnx_domain(const char *domain);

/* ---- inline.c ------------------------------------------------------------------------ */
/* A node after inlining of model-local functions: names are the graph's. */
struct flat_node {
	const Onnx__NodeProto *p;
	const char *name;
	const char **in, **out; /* as many as p has */
	Onnx__AttributeProto **attr;
	uint32_t n_attr;
	int opset;
	bool is_conditional; /* inside a branch */
};
struct flat {
	struct flat_node *nodes;
	uint32_t n, cap;
};
bool inline_functions(struct arena *a, const Onnx__ModelProto *m, int opset, const struct model_limits *lim,
    struct flat *out, struct err *e) MUST_CHECK;

/* ---- attr.c -------------------------------------------------------------------------- */
bool attrs_decode(struct arena *a, Onnx__AttributeProto *const *p, uint32_t n, struct tensor_source *src,
    const struct model_attr **out, struct err *e) MUST_CHECK;

/* ---- about.c ------------------------------------------------------------------------- */
void read_about(const Onnx__ModelProto *p, struct model *m); /* m->about, in m->arena */

/* ---- order.c ------------------------------------------------------------------------- */
/* Nodes into topological order, keeping the file's order where it is one.  Errors name the
 * nodes of a circle. */
bool order_nodes(struct arena *a, struct model *m, struct err *e) MUST_CHECK;

#endif
