/* daemon/model/op.c: op.def as a table, and the look-up by name and opset. */
#include "op.h"

#include <string.h>

const struct op_info op_info[OP_COUNT] = {
#define OP(N, V, ...) [OP_##N##_##V] = {.name = #N, .since = V, __VA_ARGS__},
#include "op.def"
};

const struct op_info *
op_find(const char *name, int opset)
{
	const struct op_info *best = NULL;

	for (size_t i = 0; i < OP_COUNT; i++)
		if (strcmp(op_info[i].name, name) == 0 && op_info[i].since <= opset &&
		    (!best || op_info[i].since > best->since))
			best = &op_info[i];
	return best;
}

bool
op_is_known(const char *name)
{
	return op_find(name, MODEL_MAX_OPSET) != NULL;
}

const struct op_attr *
op_attr_find(const struct op_info *op, const char *name)
{
	for (const struct op_attr *at = op->attr; at->name; at++)
		if (strcmp(at->name, name) == 0)
			return at;
	return NULL;
}
