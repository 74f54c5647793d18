/* daemon/model/attr.c: attributes of a node. */
#include "model_int.h"

#include <string.h>

static struct str
str_of_data(ProtobufCBinaryData d)
{
	return (struct str){d.data ? (const char *)d.data : "", d.len};
}

/* Files of the first IR versions leave the type out. */
static int
kind_of(const Onnx__AttributeProto *p)
{
	if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
		return (int)p->type;
	if (p->has_f)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
	if (p->has_i)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
	if (p->has_s)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
	if (p->t)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
	if (p->n_floats)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
	if (p->n_ints)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
	if (p->n_strings)
		return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
	return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

static void
decode_lists(struct arena *a, const Onnx__AttributeProto *p, struct model_attr *out)
{
	switch (out->kind) {
	case MATTR_INTS:
		out->n = ck_u32(p->n_ints);
		out->ints = arena_dup(a, p->ints, p->n_ints * sizeof(*p->ints));
		break;
	case MATTR_FLOATS:
		out->n = ck_u32(p->n_floats);
		out->floats = arena_dup(a, p->floats, p->n_floats * sizeof(*p->floats));
		break;
	default: {
		struct str *s = NEW_ARRAY(a, struct str, p->n_strings);
		out->n = ck_u32(p->n_strings);
		for (uint32_t i = 0; i < out->n; i++)
			s[i] = str_of(str_dup(a, str_of_data(p->strings[i])));
		out->strings = s;
	}
	}
}

static bool
decode(struct arena *a, const Onnx__AttributeProto *p, struct tensor_source *src, struct model_attr *out,
    struct err *e)
{
	if (!p->name || !p->name[0])
		return err_set(e, ERR_MODEL, "an attribute has no name");
	out->name = str_dup(a, str_of(p->name));
	switch (kind_of(p)) {
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
		out->kind = MATTR_INT;
		out->i = p->i;
		return true;
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
		out->kind = MATTR_FLOAT;
		out->f = p->f;
		return true;
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
		out->kind = MATTR_STRING;
		out->s = str_of(str_dup(a, str_of_data(p->s)));
		return true;
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR: {
		struct model_tensor *t = NEW(a, struct model_tensor);
		out->kind = MATTR_TENSOR;
		out->t = t;
		if (!p->t)
			return err_set(e, ERR_MODEL, "attribute '%s' is a tensor without one", out->name);
		return tensor_decode(a, p->t, src, t, e) || err_in(e, "attribute '%s'", out->name);
	}
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
		out->kind = MATTR_INTS;
		break;
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
		out->kind = MATTR_FLOATS;
		break;
	case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
		out->kind = MATTR_STRINGS;
		break;
	default:
		out->kind = MATTR_OTHER;
		return true;
	}
	decode_lists(a, p, out);
	return true;
}

bool
attrs_decode(struct arena *a, Onnx__AttributeProto *const *p, uint32_t n, struct tensor_source *src,
    const struct model_attr **out, struct err *e)
{
	struct model_attr *at = NEW_ARRAY(a, struct model_attr, n);

	for (uint32_t i = 0; i < n; i++) {
		if (!decode(a, p[i], src, &at[i], e))
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(at[j].name, at[i].name) == 0)
				return err_set(e, ERR_MODEL, "attribute '%s' is given twice", at[i].name);
	}
	*out = at;
	return true;
}

const struct model_attr *
model_attr_find(const struct model_node *n, const char *name)
{
	for (uint32_t i = 0; i < n->n_attr; i++)
		if (strcmp(n->attr[i].name, name) == 0)
			return &n->attr[i];
	return NULL;
}
