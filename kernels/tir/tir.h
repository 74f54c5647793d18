/* kernels/tir/tir.h: the loop program: what a spec becomes on its way to text.
 *
 * Two levels in one form.  NEST: loops around *block instances*; a block is what one primitive
 * computes at one point of its own iterators, and an instance binds these to indices over the
 * loops, under guards.  So a schedule moves loops and bindings and never looks into a block.
 * FLAT: bindings are substituted, and statements store.  A program is a pre-order array: a pass
 * reads one and builds another, over the same expressions. */
#ifndef KORCH_TIR_H
#define KORCH_TIR_H

#include "form.h"

typedef uint32_t st_id;
typedef uint32_t buf_id;
typedef uint32_t blk_id;
#define ST_NONE UINT32_MAX
#define BUF_NONE UINT32_MAX
#define BLK_NONE UINT32_MAX
enum tir_level { TIR_NEST, TIR_FLAT };

/* Whose a buffer is.  reg, local: a thread's, in registers or not; spread: elements of each thread of a
 * block, others see them in instructions; shared: of these threads; pack: a constant; global. */
#define TIR_SCOPES(X) X(reg) X(local) X(spread) X(shared) X(pack) X(global)
enum tir_scope {
#define X(N) SCOPE_##N,
	TIR_SCOPES(X)
#undef X
	    SCOPE_COUNT
};

/* How a loop runs.  serial: in order; parallel: iterations by any thread in any order, joined at
 * the end; vector: lanes of a register; unroll: as text; block, warp, lane: a GPU's grid, warps of
 * a block, threads of a warp; pipeline: in order (pipeline.h); call: as one instruction (tensor.h). */
#define TIR_BINDS(X) X(serial) X(parallel) X(vector) X(unroll) X(block) X(warp) X(lane) X(pipeline) X(call)
enum tir_bind {
#define X(N) BIND_##N,
	TIR_BINDS(X)
#undef X
	    BIND_COUNT
};

enum st_op {
#define ST(N, LEVELS, BODY, TEXT) ST_##N,
#include "tir.def"
#undef ST
	ST_COUNT
};
enum comb {
#define COMB(N, ARITY, EXACT, HELP) COMB_##N,
#include "comb.def"
#undef COMB
	COMB_COUNT,
	COMB_NONE = COMB_COUNT /* a plain store */
};
enum intrin {
#define INTRIN(N, ARGS, COMB, TEXT, CUDA, HELP) INTRIN_##N,
#include "intrin.def"
#undef INTRIN
	INTRIN_COUNT
};

/* ---- buffers ---------------------------------------------------------------------------- */
enum buf_role {
	BUF_OPERAND, /* number `index` of the kernel */
	BUF_RESULT,  /* likewise */
	BUF_TABLE,   /* constants inside the text: `data` */
	BUF_TEMP,    /* made by an alloc; scope global: there from the start, shared by all passes */
};
struct tir_buf {
	const char *name; /* without '%'; "7": tensor 7 of the spec, "7'acc": made for it */
	enum dtype type;
	enum buf_role role;
	enum tir_scope scope;
	uint32_t index;
	const void *data;            /* TABLE: dense, row-major */
	const struct tir_form *form; /* OPERAND, pack: NULL: as it comes */
	int rank;
	int64_t dim[MAX_RANK]; /* logical extents, all > 0; no access leaves them */
	/* Where an element lies; no program's meaning hangs on it but through `fold` and `alias`. */
	ixv_id layout;           /* physical indices over the axes `place`; IXV_NONE: row-major */
	axis_id place[MAX_RANK]; /* one a dimension, 0 .. dim - 1; where there is a layout */
	struct {
		uint8_t bits, base, shift;
	} swizzle;         /* of the flat physical index: CuTe's three numbers; bits 0: none */
	uint32_t align;    /* bytes; 0: the element's */
	uint32_t versions; /* of a pipeline; 0 and 1: one */
	uint32_t fold_dim; /* a ring: */
	int64_t fold;      /* index fold_dim is taken modulo `fold`; 0: no ring */
	buf_id alias;      /* lies in that buffer's bytes, from `offset` on; BUF_NONE: in its own */
	int64_t offset;    /* bytes */
};

/* ---- blocks ------------------------------------------------------------------------------ */
enum iter_kind {
	ITER_SPACE,   /* a place in the result: any order */
	ITER_REDUCE,  /* joined by the block's comb: the first of all is 0 in each */
	ITER_CARRIED, /* in order: an instance may read what an earlier one wrote */
};
struct tir_iter {
	axis_id id; /* its range is 0 .. extent - 1 */
	enum iter_kind kind;
	const char *name; /* "i0" */
};
enum { TIR_OUTS = 2 };
/* out[k][at[k]] = value[k], or with a comb: joined with value[k], from the comb's identity on.
 * All values are taken before anything is stored.  Never edited; a pass adds another. */
struct tir_block {
	const char *name;       /* "t7": makes tensor 7 of the spec */
	uint32_t iter0, n_iter; /* in tir.iter */
	uint32_t n_out;
	buf_id out[TIR_OUTS];
	ixv_id at[TIR_OUTS];   /* over the iterators */
	ex_id value[TIR_OUTS]; /* likewise */
	enum comb comb;
};
/* lo <= i < hi */
struct tir_guard {
	ix_id i;
	int64_t lo, hi;
};

/* ---- statements --------------------------------------------------------------------------- */
struct st {
	enum st_op op;
	enum tir_bind bind;   /* FOR */
	uint32_t depth;       /* FOR, pipeline: its stages */
	uint8_t stage, order; /* of a statement in a pipeline's body */
	st_id end, up;        /* behind its subtree; whose body it stands in, or ST_NONE: tir_add sets both */
	const char *name;     /* FOR, INDEX: unique in the program: "t7.k0.o" */
	axis_id axis;         /* FOR, INDEX */
	ix_id from, to;       /* FOR, over outer axes, from < to; INDEX: from */
	uint32_t ref; /* BLOCK: blk_id; STORE, ALLOC: buf_id; LET: number; CALL, FOR: intrin; SYNC: scope */
	ixv_id at;    /* BLOCK: what the iterators are bound to; STORE */
	ex_id value;  /* STORE, LET */
	uint32_t guard0, n_guard; /* BLOCK, IF: in tir.guard */
	uint32_t arg0, n_arg;     /* CALL: in tir.arg; a place is a read */
};
enum { TIR_DEPTH = 64 };
struct tir {
	struct arena *arena;
	struct tx *tx;
	enum tir_level level;
	struct st *st;
	struct tir_buf *buf;
	struct tir_block *blk;
	struct tir_iter *iter;
	struct tir_guard *guard;
	ex_id *arg;
	uint32_t n_st, n_buf, n_blk, n_iter, n_guard, n_arg;
	uint32_t cap_st, cap_buf, cap_blk, cap_iter, cap_guard, cap_arg;
	uint32_t n_var, n_open; /* numbers that lets have used; of `open` */
	st_id open[TIR_DEPTH];  /* while it is built: statements whose body is not closed */
	bool is_proved;         /* by kernels/schedule: as it is, and flat */
};

/* ---- building ------------------------------------------------------------------------------ */
void tir_begin(struct tir *p, struct arena *a, struct tx *x, enum tir_level level);
void tir_like(struct tir *out, const struct tir *p); /* the same buffers and blocks, no statement */
/* Appends; a statement with a body takes all that follows until tir_close. */
st_id tir_add(struct tir *p, struct st s);
void tir_close(struct tir *p);
/* A loop over a fresh axis; its range follows from the bounds. */
axis_id tir_for(struct tir *p, const char *name, ix_id from, ix_id to, enum tir_bind bind);
void tir_call(struct tir *p, enum intrin what, uint32_t n, const ex_id *arg);
void tir_guards(struct tir *p, struct st *s, uint32_t n, const struct tir_guard *g);
buf_id tir_add_buf(struct tir *p, const struct tir_buf *b); /* `layout`, `alias`: as given */
struct tir_buf tir_buf_make(
    const char *name, enum dtype t, enum buf_role role, enum tir_scope scope, int rank, const int64_t *dim);
blk_id tir_add_blk(struct tir *p, const struct tir_block *b);
void tir_nest(struct tir *p, blk_id b); /* the block's one instance, in a loop for each iterator */
/* A fresh iterator of the block that is added next. */
axis_id tir_add_iter(struct tir *p, const char *name, enum iter_kind kind, int64_t extent);
/* Copies statement `i` of p with its subtree, axes replaced as `to` says (NULL: as they are). */
void tir_copy(struct tir *out, const struct tir *p, st_id i, const struct tx_subst *to);
/* Builds *out from p: fn adds what stands in place of a statement and returns true; false: it stays. */
typedef bool tir_fn(void *self, struct tir *out, const struct tir *p, st_id i);
void tir_rewrite(struct tir *out, const struct tir *p, tir_fn *fn, void *self);
/* ---- looking --------------------------------------------------------------------------------- */
extern const struct st_info {
	const char *name, *text;
	bool nest, flat, body;
} st_info[ST_COUNT];
extern const struct comb_info {
	const char *name;
	uint32_t arity;
	bool exact;
} comb_info[COMB_COUNT];
extern const struct intrin_info {
	const char *name, *args, *text, *cuda; /* NULL: there is none */
	enum comb comb;                        /* of a fold; COMB_NONE */
} intrin_info[INTRIN_COUNT];
int64_t intrin_moves(enum intrin what); /* bytes that it moves as one word; 0: it is none of these */
extern const char *const tir_scope_name[SCOPE_COUNT], *const tir_bind_name[BIND_COUNT];
bool st_has(enum st_op op, char field);                                  /* of NFTRAX in tir.def */
bool tir_arg_is(const struct st *call, uint32_t k, const char *letters); /* one of these, of intrin.def? */
/* A loop bound to an axis of a GPU, whose extent is the kernel's; of these, one over threads of a block. */
bool st_is_gpu_loop(const struct st *s), st_is_thread(const struct st *s);
/* Statements around `at`, outermost first; out holds TIR_DEPTH. */
uint32_t tir_path(const struct tir *p, st_id at, st_id *out);
st_id tir_find_loop(const struct tir *p, struct str name); /* ST_NONE */
blk_id tir_find_blk(const struct tir *p, struct str name);
/* Calls fn for each index (or tuple's index) and each value of a statement that it has of its own. */
void tir_each(const struct tir *p, const struct st *s, void (*on_ix)(void *self, ix_id i),
    void (*on_ex)(void *self, ex_id e), void *self);
enum prim comb_prim(enum comb c); /* that joins two elements; PRIM_COUNT: positions count too */
/* State k of a reduction before its first element, and all states after one more. */
ex_id comb_identity(struct tx *x, enum comb c, uint32_t k, enum dtype t);
void comb_join(struct tx *x, enum comb c, const ex_id *state, const ex_id *value, ex_id *out);
/* Of a comb with positions: does the element come before what is held, in the comb's total order?  bool. */
ex_id comb_first(struct tx *x, enum comb c, const ex_id *held, const ex_id *elem);

/* ---- what an index may be (region.c, prove.c) -------------------------------------------------- */
/* An axis and its values: [from, to) of outer axes. */
struct tir_range {
	axis_id axis;
	ix_id from, to;
};
/* Least and largest value of i while axes run over their ranges, the outermost first, over what is left.
 * *exact: both are reached, whatever the outer axes are. */
void ix_region(
    struct tx *x, uint32_t n, const struct tir_range *r, ix_id i, ix_id *lo, ix_id *hi, bool *exact);
/* The same for the loops below statement `at`, those around `below` (a statement in its subtree). */
void tir_region(const struct tir *p, st_id at, st_id below, ix_id i, ix_id *lo, ix_id *hi, bool *exact);
/* Is lo <= i < hi at statement `at`, by the loops and guards around it and its own?  false: not proved. */
bool tir_prove(const struct tir *p, st_id at, ix_id i, int64_t lo, int64_t hi);
struct tir_facts { /* at a place: ranges of axes, and guards that hold */
	struct tx *x;
	uint32_t n_range, n_guard;
	bool never;                            /* no point comes here: all is proved */
	struct tir_range range[2 * TIR_DEPTH]; /* outermost first */
	struct tir_guard guard[2 * TIR_DEPTH];
};
void tir_facts_at(const struct tir *p, st_id at, struct tir_facts *f);
void facts_bound(const struct tir_facts *f, ix_id i, int64_t *lo, int64_t *hi); /* lo <= i <= hi */
bool facts_hold(const struct tir_facts *f, ix_id i, int64_t lo, int64_t hi);    /* lo <= i < hi, sooner */
struct tir_guard guard_undivided(const struct tx *x, struct tir_guard g);       /* of what is no quotient */
/* The guard holds (yes) or not; where that says nothing of an interval, nothing is added. */
void facts_add(struct tir_facts *f, struct tir_guard g, bool yes);
/* ---- text and checks ---------------------------------------------------------------------------- */
void tir_print(struct strbuf *sb, const struct tir *p);
/* Bounded, and well-formed; not verified.  ERR_FORMAT and ERR_LIMIT name the line. */
enum { TIR_READ_BYTES = 1 << 20, TIR_READ_STATEMENTS = 1 << 13, TIR_READ_NODES = 1 << 16 };
bool tir_read(struct tir *p, struct arena *a, struct str text, struct err *e) MUST_CHECK;
/* ERR_FAILED: "RULE: line"; the second: accesses and bindings, of which what is right may be not proved. */
bool tir_verify(const struct tir *p, struct err *e) MUST_CHECK;
bool tir_proved(const struct tir *p, struct err *e) MUST_CHECK;
/* Barriers anew, where the verifier asks for them, as far out as will do; false: nowhere does.  None. */
bool tir_sync(const struct tir *p, struct tir *out) MUST_CHECK;
void tir_unsync(const struct tir *p, struct tir *out);
#endif
