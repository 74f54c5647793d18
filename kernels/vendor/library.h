/* kernels/vendor/library.h: kernels of libraries as implementations of a spec: which libraries there
 * are, what one call of such a library computes, how a schedule names one.  Knows no library's API. */
#ifndef KORCH_LIBRARY_H
#define KORCH_LIBRARY_H

#include "../ir/ir.h"

/* ---- libraries ------------------------------------------------------------------------------- */
enum library {
#define LIBRARY(ID, ...) LIBRARY_##ID,
#include "library.def"
	LIBRARY_COUNT
};
/* Of a version: 20603 is 2.6.3; 0: the library is not there. */
enum { LIBRARY_VERSION_MAX = 99999999 };
const char *library_id(enum library l);   /* "onednn" */
const char *library_name(enum library l); /* "oneDNN" */
bool library_is_cuda(enum library l);
uint32_t library_algos(enum library l);
/* "onednn-2.6.3" */
void library_print(struct strbuf *sb, enum library l, int64_t version);
bool library_read(struct str text, enum library *l, int64_t *version);
/* Does the schedule name a library, and which?  Its item is "lib=onednn-2.6.3"; *algo: the knob of that
 * name, 0 where there is none. */
bool library_of_schedule(struct str schedule, enum library *l, int64_t *version, int64_t *algo);

/* ---- calls ----------------------------------------------------------------------------------- */
enum call_linear { CALL_matmul, CALL_conv };
#define CALL_BIT(KIND) (1u << CALL_##KIND)
enum step_kind {
#define STEP(KIND, ...) STEP_##KIND,
#include "library.def"
	STEP_COUNT
};
#define STEP_BIT(KIND) (1u << STEP_##KIND)
const char *step_name(enum step_kind k);

/* A tensor in memory as the call sees it: element d stands at offset + sum stride[i] * d[i] (elements, none
 * negative; 0 where it is the same for all d[i], and where the extent is 1). */
enum call_source {
	SOURCE_INPUT,  /* operand `number` of the spec, given at each run */
	SOURCE_WEIGHT, /* operand `number`, a model's constant */
	SOURCE_CONST,  /* in `data`: the spec's own */
	SOURCE_RESULT, /* result `number` */
};
struct call_view {
	enum call_source source;
	uint32_t number;
	const void *data;
	enum dtype type;
	struct shape shape;
	int64_t offset, stride[MAX_RANK];
};
struct call_step {
	enum step_kind kind;
	double a, b;
	struct call_view operand; /* where the kind has one; of the products' shape */
};
enum { CALL_MAX_STEPS = 16 };
/* result = steps(linear(a, b)), element by element in the coordinates of the linear result:
 *   matmul  a[B..,M,K] b[B..,K,N] -> [B..,M,N]
 *   conv    a[N,S..,C] b[K..,C/group,Co] -> [N,So..,Co], zeros outside of a
 * Transposes, reshapes and broadcasts around it are in the views. */
struct library_call {
	enum call_linear linear;
	uint32_t n_operands; /* of the spec: result i is buffer n_operands + i */
	struct call_view a, b, result;
	int n_spatial; /* of a convolution; below: one number each */
	int64_t stride[MAX_RANK], dilation[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK], group;
	struct call_step step[CALL_MAX_STEPS];
	uint32_t n_steps;
};
/* ERR_INFEASIBLE with "library: why" where the spec is no such thing.  Cheap. */
bool library_call_of(const struct spec *s, struct library_call *out, struct err *e) MUST_CHECK;
/* Is it in what the table says of the library?  ERR_INFEASIBLE with why not. */
bool library_takes(enum library l, const struct library_call *c, struct err *e) MUST_CHECK;
/* A line for the products, one for each tensor, one for each step. */
void library_call_print(struct strbuf *sb, const struct library_call *c);
/* Block i of n of the result's rows as a call of its own; false: it cannot be had in so many. */
bool library_call_part(const struct library_call *c, uint32_t i, uint32_t n, struct library_call *out);
/* Does it differ along the last dimension only: a bias? */
bool view_is_row(const struct call_view *v);
/* Row-major, without gaps? */
bool view_is_dense(const struct call_view *v);

#endif
