/* kernels/ir/ir.h: tensors, shapes, the table of primitives, the primitive graph with
 * alternatives, its text form, and the canonical kernel spec with its hashes. */
#ifndef KORCH_IR_H
#define KORCH_IR_H

#include "../base/base.h"

/* ---- types and shapes --------------------------------------------------------------- */
/* Names as in the text form; numbers go to disk and wire. */
#define DTYPES(X) /* name, C type, bytes, ONNX number */                                                     \
	X(f32, float, 4, 1)                                                                                  \
	X(u8, uint8_t, 1, 2)                                                                                 \
	X(i8, int8_t, 1, 3)                                                                                  \
	X(u16, uint16_t, 2, 4)                                                                               \
	X(i16, int16_t, 2, 5)                                                                                \
	X(i32, int32_t, 4, 6)                                                                                \
	X(i64, int64_t, 8, 7)                                                                                \
	X(bool, uint8_t, 1, 9)                                                                               \
	X(f16, uint16_t, 2, 10)                                                                              \
	X(f64, double, 8, 11)                                                                                \
	X(u32, uint32_t, 4, 12)                                                                              \
	X(u64, uint64_t, 8, 13)                                                                              \
	X(bf16, uint16_t, 2, 16)
enum dtype {
#define X(N, C, BYTES, ONNX) DT_##N,
	DTYPES(X)
#undef X
	    DT_COUNT
};
size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t);
bool dtype_of_name(struct str s, enum dtype *out);
bool dtype_of_onnx(int number, enum dtype *out);
int dtype_onnx(enum dtype t);
bool dtype_is_float(enum dtype t);
bool dtype_is_signed(enum dtype t);

enum { MAX_RANK = 8 };
struct shape {
	int rank;
	int64_t dim[MAX_RANK];
};
struct shape shape_make(int rank, const int64_t *dim);
bool shape_eq(const struct shape *a, const struct shape *b);
/* Elements; a bug where that overflows (graph_add has refused such shapes). */
int64_t shape_count(const struct shape *s);
/* Bytes of a dense tensor; false where that does not fit. */
bool shape_bytes(const struct shape *s, enum dtype t, size_t *out);
void shape_print(struct strbuf *sb, const struct shape *s); /* "[2,3]" */

/* Element i of a dense array as double (64-bit integers beyond 2^53 lose digits) and back: to
 * floats rounded to nearest even, to integers by real_to_int. */
double elem_get(enum dtype t, const void *p, int64_t i);
void elem_set(enum dtype t, void *p, int64_t i, double v);
/* The same for integer types and bool; u64 as its bits; writing wraps (bool: v != 0). */
int64_t elem_get_int(enum dtype t, const void *p, int64_t i);
void elem_set_int(enum dtype t, void *p, int64_t i, int64_t v);
/* Towards zero, saturating, NaN gives 0; bool: v != 0. */
int64_t real_to_int(enum dtype t, double v);
float half_to_float(uint16_t h);
uint16_t float_to_half(float f);
float bf16_to_float(uint16_t h);
uint16_t float_to_bf16(float f);

/* ---- primitives --------------------------------------------------------------------- */
/* Attribute keys; KIND: LIST of integers, INT, or REAL. */
#define ATTRS(X)                                                                                             \
	X(perm, LIST)                                                                                        \
	X(shape, LIST)                                                                                       \
	X(start, LIST)                                                                                       \
	X(step, LIST)                                                                                        \
	X(lo, LIST)                                                                                          \
	X(hi, LIST)                                                                                          \
	X(kernel, LIST)                                                                                      \
	X(stride, LIST)                                                                                      \
	X(dilation, LIST)                                                                                    \
	X(ldil, LIST)                                                                                        \
	X(axes, LIST)                                                                                        \
	X(axis, INT)                                                                                         \
	X(group, INT)                                                                                        \
	X(mode, INT)                                                                                         \
	X(to, INT)                                                                                           \
	X(last, INT)                                                                                         \
	X(exclusive, INT)                                                                                    \
	X(reverse, INT)                                                                                      \
	X(k, INT)                                                                                            \
	X(largest, INT)                                                                                      \
	X(value, REAL)
enum attr_key {
#define X(N, KIND) ATTR_##N,
	ATTRS(X)
#undef X
	    ATTR_COUNT
};
enum attr_kind { ATTR_LIST, ATTR_INT, ATTR_REAL };
#define ATTR_BIT(N) (1u << ATTR_##N)
#define ATTR_WINDOW (ATTR_BIT(kernel) | ATTR_BIT(stride) | ATTR_BIT(dilation) | ATTR_BIT(lo) | ATTR_BIT(hi))
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct attr {
	enum attr_key key;
	int n; /* of a LIST; 1 for INT; 0 for REAL */
	int64_t i[MAX_RANK];
	double real;
};
enum { MAX_ATTRS = 6 };
/* Attributes in the order of their keys.  Built with at_list() and friends. */
struct attrs {
	int n;
	struct attr a[MAX_ATTRS];
};
void at_list(struct attrs *at, enum attr_key key, int n, const int64_t *v);
void at_int(struct attrs *at, enum attr_key key, int64_t v);
void at_real(struct attrs *at, enum attr_key key, double v);
/* NULL when absent. */
const struct attr *at_find(const struct attrs *at, enum attr_key key);
/* Must be there (the primitive's row says so). */
const int64_t *at_ints(const struct attrs *at, enum attr_key key);
int64_t at_get(const struct attrs *at, enum attr_key key);
double at_get_real(const struct attrs *at, enum attr_key key);
bool attrs_eq(const struct attrs *a, const struct attrs *b);
const char *attr_name(enum attr_key key);
enum attr_kind attr_kind_of(enum attr_key key);

enum prim_class { CLASS_MAP, CLASS_REDUCE, CLASS_BCAST, CLASS_LAYOUT, CLASS_LINEAR, CLASS_OPAQUE };
enum shape_rule {
	SHAPE_SAME,
	SHAPE_REDUCE,
	SHAPE_WINDOW,
	SHAPE_ATTR,
	SHAPE_RESHAPE,
	SHAPE_PERM,
	SHAPE_SLICE,
	SHAPE_PAD,
	SHAPE_CONCAT,
	SHAPE_GATHER,
	SHAPE_GATHER_ELEM,
	SHAPE_MATMUL,
	SHAPE_CONV,
	SHAPE_TOPK,
	SHAPE_SAME_AS_FIRST,
	SHAPE_GATHER_ND
};
enum type_rule { TYPE_SAME, TYPE_BOOL, TYPE_TO, TYPE_FIRST, TYPE_SECOND, TYPE_I64 };
enum prim {
#define PRIM(N, CLASS, N_IN, SHAPE, TYPE, AT, FLOPS, TEXT) PRIM_##N,
#include "prim.def"
#undef PRIM
	PRIM_COUNT
};
struct prim_info {
	const char *name;
	enum prim_class class;
	int n_in; /* -1: one or more */
	enum shape_rule shape;
	enum type_rule type;
	uint32_t attrs; /* ATTR_BIT mask, all required */
	int flops;
	const char *text;
};
extern const struct prim_info prim_info[PRIM_COUNT];
bool prim_of_name(struct str s, enum prim *out);
/* Two operands that may change places without changing the result. */
bool prim_is_commutative(enum prim p);
uint32_t prim_n_out(enum prim p); /* results: 1, topk 2 */

/* ---- graphs ------------------------------------------------------------------------- */
typedef struct {
	uint32_t i;
} tensor_id;
#define NO_TENSOR ((tensor_id){UINT32_MAX})
#define NO_NODE UINT32_MAX

/* How a producer's numbers relate to those of the operator it stands for. */
enum numeric { NUM_EXACT, NUM_REASSOC, NUM_PRECISION };

enum tensor_role {
	ROLE_INNER,  /* made by a node */
	ROLE_INPUT,  /* given at each run; its place in graph.inputs is its number */
	ROLE_CONST,  /* a scalar or small table made by fission or rewriting; data is here */
	ROLE_WEIGHT, /* a model constant; data may be absent (NULL) in a spec */
};
struct tensor {
	enum tensor_role role;
	enum dtype type;
	struct shape shape;
	const void *data; /* dense, row-major, ROLE_CONST and ROLE_WEIGHT; not owned by the graph */
	const char *name; /* of a model's input, output or weight, else NULL */
};
struct node {
	enum prim prim;
	enum numeric num;
	uint32_t n_in, n_out;
	tensor_id *in;
	tensor_id *out; /* n_out is 1 but for some opaque primitives */
	struct attrs at;
	uint32_t origin; /* number of the ONNX node it came from; NO_NODE if none */
};

/* A DAG of tensors and nodes in flat arrays.  Invariants (graph_verify):
 *  1. nodes are in topological order: all producers of an operand stand before its readers
 *     (after graph_add_alt: once graph_sort has run);
 *  2. every ROLE_INNER tensor has at least one producer; several are *alternatives*: any one
 *     of them makes the tensor; the union over all alternatives has no circle;
 *  3. shape and type of each result follow from the primitive's row;
 *  4. append-only: a pass writes a new graph. */
struct graph {
	struct arena *arena;
	struct tensor *tensors;
	uint32_t n_tensors, cap_tensors;
	struct node *nodes;
	uint32_t n_nodes, cap_nodes;
	tensor_id *inputs, *outputs;
	uint32_t n_inputs, cap_inputs, n_outputs, cap_outputs;
	const char **output_names; /* beside outputs; entries may be NULL */
};
void graph_init(struct graph *g, struct arena *a);
/* Of an empty graph: so many fit without growing. */
void graph_room(struct graph *g, uint32_t n_tensors, uint32_t n_nodes);
static inline struct tensor *
graph_tensor(const struct graph *g, tensor_id t)
{
	return &g->tensors[t.i];
}
tensor_id graph_input(struct graph *g, enum dtype t, const struct shape *s, const char *name);
/* `data` stays with the caller and must live as long as the graph; may be NULL for a weight. */
tensor_id graph_const(struct graph *g, enum tensor_role role, enum dtype t, const struct shape *s,
    const void *data, const char *name);
void graph_output(struct graph *g, tensor_id t, const char *name);
/* Adds a node; checks arity, attributes, types and computes shapes.  out[] receives as many
 * tensors as the primitive makes (1; topk: 2).  Errors: ERR_MODEL naming primitive and cause. */
bool graph_add(struct graph *g, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    uint32_t origin, tensor_id *out, struct err *e) MUST_CHECK;
/* Adds another producer of `out` (single-result primitives only).  Refused (false, ERR_MODEL)
 * when shape or type differ or when it would close a circle; the caller counts and goes on.
 * The node is appended; graph_sort() restores the topological order afterwards. */
bool graph_add_alt(struct graph *g, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    uint32_t origin, enum numeric num, tensor_id out, struct err *e) MUST_CHECK;
/* Result type and shape of a primitive over operands, without adding it. */
bool prim_result(enum prim p, const struct tensor *const *in, uint32_t n_in, const struct attrs *at,
    struct tensor *out, struct err *e) MUST_CHECK;
/* A copy in topological order without what no output needs; equal graphs give equal copies.
 * map[old tensor] (may be NULL) receives the new id or NO_TENSOR. */
void graph_sort(struct graph *to, struct arena *a, const struct graph *g, tensor_id *map);
/* Aborts with the broken invariant. */
void graph_verify(const struct graph *g);
/* Arithmetic of one node (multiply and add count as two), from shapes. */
double node_flops(const struct graph *g, const struct node *n);
/* linear primitives with enough arithmetic per byte to be an anchor; a depthwise convolution is
 * 'cheap linear' and counts as a reduction */
bool node_is_anchor(const struct graph *g, const struct node *n);
/* Result is the operand's memory seen through another shape (reshape). */
bool node_is_view(const struct graph *g, const struct node *n);
/* Producers of each tensor: list[first[t] .. first[t+1]) are node numbers; readers likewise. */
struct graph_index {
	uint32_t *maker_first, *maker, *reader_first, *reader;
};
struct graph_index graph_index_make(struct arena *a, const struct graph *g);

/* ---- text form ---------------------------------------------------------------------- */
/* One line an item; numbers are tensor ids; print -> read -> print is identical.
 *   %0 = input f32[1,4,4,3] "x"
 *   %1 = weight f32[3,3,3,8] "conv1.w"          (data is not printed)
 *   %2 = const f32[] 0x1p-1
 *   %3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1 : f32[1,4,4,8]
 *   %3 = ... !reassoc                            (a second producer: an alternative)
 *   output %3 "y"
 * Constants print all their elements (floats as hex floats); at most 4,096 of them. */
void graph_print(struct strbuf *sb, const struct graph *g);
/* From outside: 1 MiB of text, GRAPH_READ_NODES lines, MAX_RANK, sizes that fit.  Errors name the
 * line.  Numbers in the text need not be dense; "# ..." lines, blank lines and a missing ": type"
 * are allowed.  The graph is not sorted and keeps what no output needs. */
enum { GRAPH_READ_BYTES = 1 << 20, GRAPH_READ_NODES = 1 << 14, GRAPH_READ_OPERANDS = 1 << 10 };
bool graph_read(struct graph *g, struct arena *a, struct str text, struct err *e) MUST_CHECK;
/* The form of a plan: "@12" behind a node is the ONNX node it came from.  Candidates hang on it: an operator
 * is one however large.  Read within graph_read's limits. */
void graph_print_origins(struct strbuf *sb, const struct graph *g);
bool graph_read_origins(struct graph *g, struct arena *a, struct str text, struct err *e) MUST_CHECK;
/* The form of a dump, from this host: so too, and "~9f0c..." behind a weight stands for its values: equal for
 * equal ones, and read as values made up of it.  Of any length. */
void graph_print_dump(struct strbuf *sb, const struct graph *g);
bool graph_read_dump(struct graph *g, struct arena *a, struct str text, struct err *e) MUST_CHECK;

/* ---- kernel spec -------------------------------------------------------------------- */
/* A candidate in canonical form: no names, no model, tensors and nodes in an order that
 * depends on the computation alone.  `text` is the text form of `g` behind a line "spec 1";
 * it is what travels and what is stored.  Tensors 0..n_inputs-1 of g are the external
 * operands (ROLE_INPUT, or ROLE_WEIGHT without data for model constants); g.inputs lists both. */
struct spec {
	struct graph g;
	struct str text;
	struct hash hash;      /* of text */
	struct hash structure; /* of the same without extents (D6) */
};
enum { SPEC_MAX_NODES = 64, SPEC_MAX_CONST = 4096 };
/* Makes the spec of the nodes in `members` exporting `exports` (made by members).
 * operands[i] / results[i] receive the graph's tensor behind the spec's i-th operand / output,
 * in arena memory.  Constants are taken over by value (D5), larger ones and weights by shape. */
struct spec_binding {
	tensor_id *operands, *results;
	uint32_t n_operands, n_results;
};
void spec_make(struct arena *a, const struct graph *g, const struct bitset *members, const tensor_id *exports,
    uint32_t n_exports, struct spec *out, struct spec_binding *bind);
/* A whole graph as one spec. */
void spec_of_graph(struct arena *a, const struct graph *g, struct spec *out);
/* A kernel's result that may lie on the very bytes of one of its operands (kernels/generate). */
struct overlap {
	uint32_t result, operand;
};
/* A stretch of a result's bytes that is a stretch of an operand's. */
struct spec_piece {
	uint32_t operand;
	size_t to, from, n_bytes; /* to: in the result; from: in the operand */
};
/* Of a slice: does it take one stretch of its operand's memory, and which?  In bytes. */
bool slice_stretch(const struct graph *g, const struct node *n, size_t *from, size_t *n_bytes);
/* At which multiples a stretch must begin to be as fast as memory of its own: what libraries on GPUs ask for,
 * and kernels that move words (vector=). */
enum { STRETCH_ALIGN = 16 };
/* Does the spec, of one result, only move stretches of memory (reshape, slice, concat, no transpose)?  Then
 * *out are the result's bytes from first to last, without a gap. */
bool spec_pieces(struct arena *a, const struct spec *s, struct spec_piece **out, uint32_t *n);
/* Does the spec hold a convolution that Winograd's form may suit?  By its attributes: every one that
 * has the form with some schedule is among them.  Then what is measured depends on target.winograd. */
bool spec_winograd(const struct spec *s);
bool node_winograd(const struct graph *g, const struct node *n);
/* Has the generator that form of it: as many channels as make up for its maps, and columns in whole vectors?
 */
enum { WINOGRAD_CHANNELS = 8 };
bool node_fills_winograd(const struct graph *g, const struct node *n, int64_t lanes);
/* From outside: verified, and refused unless it is in canonical form. */
bool spec_read(struct arena *a, struct str text, struct spec *out, struct err *e) MUST_CHECK;

#endif
