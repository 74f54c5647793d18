/* daemon/model/model.h: an ONNX file as a checked operator graph.  Types and shapes of inner
 * values are not inferred here: fission computes them from the primitives' own rules, so that
 * there is one home for shape rules. */
#ifndef KORCH_MODEL_H
#define KORCH_MODEL_H

#include "../../kernels/ir/ir.h"

/* Below opset 7 only those operators are read that have not changed since. */
enum { MODEL_MIN_OPSET = 1, MODEL_MAX_OPSET = 28 };
#define NO_VALUE UINT32_MAX /* an optional operand that is left out */

struct model_tensor { /* dense, row-major, decoded to host order */
	enum dtype type;
	struct shape shape;
	const void *data;
	size_t n_bytes;
};
enum model_attr_kind {
	MATTR_INT,
	MATTR_FLOAT,
	MATTR_STRING,
	MATTR_TENSOR,
	MATTR_INTS,
	MATTR_FLOATS,
	MATTR_STRINGS,
	MATTR_OTHER /* graphs, sparse tensors ...: present, not read */
};
struct model_attr {
	const char *name;
	enum model_attr_kind kind;
	int64_t i;
	float f;
	struct str s;
	const struct model_tensor *t;
	uint32_t n;
	const int64_t *ints;
	const float *floats;
	const struct str *strings;
};
struct model_value {
	const char *name;
	bool has_type, has_shape;
	enum dtype type;
	struct shape shape;              /* -1 where symbolic or unknown */
	const char *dim_param[MAX_RANK]; /* name of a symbolic dimension, or NULL */
	const char *shape_by;            /* the option that closed the shape, or NULL */
	const struct model_tensor *init; /* initializer, or NULL */
};
struct model_node {
	const char *name;        /* never NULL; "Conv_12" made up when the file has none */
	const char *op, *domain; /* domain "" for ai.onnx */
	int opset;               /* of ai.onnx; a function's body may have its own */
	/* Of a branch of an If: both branches stand among the nodes, and If itself has the operands
	 * condition, results of one branch, results of the other. */
	bool is_conditional;
	uint32_t n_in, n_out, n_attr;
	const uint32_t *in, *out; /* values; NO_VALUE where absent */
	const struct model_attr *attr;
};
/* What the file says of itself: ONNX's names of the fields, and metadata.KEY. */
struct model_word {
	const char *name, *value;
};
struct model {
	struct arena *arena;     /* of all that follows */
	const char *file;        /* for messages */
	size_t max_tensor_bytes; /* of constants read, and again of those folded */
	int opset;               /* of ai.onnx */
	struct model_value *values;
	uint32_t n_values;
	struct model_node *nodes; /* topological order; model-local functions are inlined */
	uint32_t n_nodes;
	const uint32_t *inputs, *outputs; /* inputs without initializers, in the file's order */
	uint32_t n_inputs, n_outputs;
	const struct model_word *about; /* no empty ones */
	uint32_t n_about;
};
struct model_limits {
	size_t max_file_bytes;   /* default 2 GiB */
	uint32_t max_nodes;      /* default 100,000 */
	size_t max_tensor_bytes; /* default 4 GiB, external data too; folding may need as much again */
};
extern const struct model_limits model_limits_default;

/* Reads ONNX bytes.  `file` names it in messages; external data is looked for in `dir` (NULL:
 * refused), never outside it.  All of the model lives in `a`; `onnx` is not needed afterwards.
 * Errors (ERR_MODEL) name file, node and field and say what is supported. */
bool model_read(struct arena *a, struct bytes onnx, const char *file, const char *dir,
    const struct model_limits *lim, struct model *out, struct err *e) MUST_CHECK;
/* "INPUT=1x3x224x224": the shape of an input.  "SYMBOL=224": an extent that the file names, wherever it
 * stands. ERR_USAGE names unknown inputs and contradictions. */
bool model_bind(struct model *m, struct str binding, struct err *e) MUST_CHECK;
/* What the file leaves open and nothing has closed becomes `extent`: one that the file names wherever it
 * stands. How many are in *out, in the order of inputs; an input of unknown rank stays open. */
struct model_assumed {
	const char *input, *name; /* name "": extents without one; value is the shape of the input */
	const char *value;        /* "1", "1x3x1x1" */
};
uint32_t model_assume(struct model *m, int64_t extent, struct model_assumed **out);
/* An input becomes a constant, and is no input any more: words ("16000", "1,2,3") read as the input's type,
 * or a tensor.  ERR_USAGE. */
struct model_given {
	struct str name, from; /* from: the words; or where the tensor is from */
	enum dtype type;
	struct shape shape;
	struct bytes data;
	bool is_tensor; /* type, shape and data count, not the words */
};
bool model_set(struct model *m, const struct model_given *g, struct err *e) MUST_CHECK;
struct model_value *model_find_input(const struct model *m, struct str name);
/* False: "--shape NAME: the model has no such input; its inputs are ...". */
bool model_no_input(
    const struct model *m, const char *option, struct str name, bool symbols, struct err *e) MUST_CHECK;
bool model_value_is_open(const struct model_value *v);
/* "1x3x<height>x<width>", in the model's arena. */
const char *model_shape_text(const struct model *m, const struct model_value *v);
/* "--shape x=1x3x224x224 ...": options that would close all inputs; "" where none is open. */
const char *model_open_example(const struct model *m);
/* ERR_MODEL: one sentence about all open inputs, with that example. */
bool model_check_open(const struct model *m, struct err *e) MUST_CHECK;
/* ---- operators that are not supported (support.c) ---- */
struct model_missing {
	const char *op, *domain;
	int opset, first_opset; /* that of its nodes; the first that has it, 0: none */
	uint32_t *nodes, n_nodes, cap_nodes;
	uint32_t n_conditional; /* nodes in branches: they matter only where the branch is taken */
};
/* One entry an operator, in the order of their first nodes; how many. */
uint32_t model_missing_ops(struct arena *a, const struct model *m, struct model_missing **out);
bool model_has_row(const struct model_node *n);
/* Who makes such nodes, and what to submit instead; NULL: not known. */
const char *model_domain_maker(const char *domain, const char **advice);
/* "operator 'X' is not supported": of a node without a row. */
const char *model_missing_why(struct arena *a, const struct model_node *n);
/* ERR_MODEL: one sentence about all of them that are not in branches. */
bool model_check_ops(const struct model *m, struct err *e) MUST_CHECK;
/* One tensor in the protobuf form of the ONNX test files (input_0.pb). */
bool model_tensor_read(struct arena *a, struct bytes pb, struct model_tensor *out, struct err *e) MUST_CHECK;
/* The text form of golden files and dumps (text.c). */
bool model_text_read(
    struct arena *a, struct str text, const char *file, struct model *out, struct err *e) MUST_CHECK;
void model_text_print(struct strbuf *sb, const struct model *m);
const struct model_attr *model_attr_find(const struct model_node *n, const char *name);

#endif
