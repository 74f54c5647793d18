/* daemon/model/op.h: the table of operators (op.def), as rows to look at. */
#ifndef KORCH_OP_H
#define KORCH_OP_H

#include "model.h"

enum { OP_MAX_ATTRS = 14 };

struct op_attr {
	const char *name; /* NULL ends the list */
	enum model_attr_kind kind;
	double num;       /* default of INT and FLOAT */
	const char *text; /* default of STRING; NULL is "" */
};
struct op_info {
	const char *name;
	int since;      /* first opset the row describes */
	uint32_t in[2]; /* least and most operands */
	uint32_t out;   /* most results; 0 means 1 */
	struct op_attr attr[OP_MAX_ATTRS + 1];
};
enum op_row {
#define OP(N, V, ...) OP_##N##_##V,
#include "op.def"
	OP_COUNT
};
extern const struct op_info op_info[OP_COUNT];

/* The row that describes an ai.onnx operator at `opset`, or NULL. */
const struct op_info *op_find(const char *name, int opset);
/* Whether any row has the name, whatever the opset. */
bool op_is_known(const char *name);
const struct op_attr *op_attr_find(const struct op_info *op, const char *name);

#endif
