/* kernels/tir/expr.h: index expressions, tuples of them, and scalar expressions over reads.
 *
 * All three are hash-consed in one pool: equal expressions have equal numbers, and the builders
 * simplify, so a reshape of a reshape, or a slice of a pad, leaves no trace. */
#ifndef KORCH_EXPR_H
#define KORCH_EXPR_H

#include "../ir/ir.h"

/* ---- index expressions (64-bit integers) --------------------------------------------- */
typedef uint32_t ix_id;
typedef uint32_t ixv_id; /* of a tuple of index expressions */
typedef uint32_t ex_id;
typedef uint32_t axis_id;
#define IX_NONE UINT32_MAX
#define IXV_NONE UINT32_MAX
#define EX_NONE UINT32_MAX
#define AXIS_NONE UINT32_MAX

/* LIN: base + sum of coef * atom, atoms sorted and distinct, never LIN; an atom alone with
 * coefficient 1 and base 0 is the atom itself.  DIV and MOD are by a positive constant and
 * floor, so MOD is never negative. */
enum ix_kind { IX_LIN, IX_AXIS, IX_DIV, IX_MOD, IX_MIN, IX_MAX, IX_VALUE };
struct ix_term {
	int64_t coef;
	ix_id atom;
};
struct ix {
	enum ix_kind kind;
	int64_t lo, hi;              /* inclusive range of values */
	int64_t c;                   /* LIN: base; DIV, MOD: divisor */
	const struct ix_term *terms; /* LIN */
	uint32_t n_terms;
	uint32_t a, b; /* AXIS: axis; DIV, MOD: a; MIN, MAX: a and b; VALUE: expression */
	uint64_t axes; /* a bit an axis under it, axis_bit(); set by the pool */
	uint64_t bufs; /* a bit a buffer that values under it read, buf_bit(); set by the pool */
};

/* A loop variable.  It runs over lo..hi, and where from and limit are given over [from, limit) of
 * that; is_exact: [from, limit) never leaves lo..hi. */
enum axis_role {
	AXIS_PAR,   /* a place of a result */
	AXIS_RED,   /* an element that is joined */
	AXIS_OUTER, /* a loop, or a name of an index */
};
struct axis {
	enum axis_role role;
	int64_t lo, hi;
	ix_id from, limit; /* expressions over outer axes: one block of the axis; IX_NONE: all of it */
	bool is_exact;
};

/* ---- scalar expressions --------------------------------------------------------------- */
enum ex_kind {
	EX_CONST,   /* real or whole */
	EX_READ,    /* element `at` of buffer `tensor`: one index a dimension */
	EX_MAP,     /* primitive over args */
	EX_GUARD,   /* lo <= ix < hi ? arg[0] : arg[1]; only the chosen arm is evaluated */
	EX_INDEX,   /* the index itself, an i64 value */
	EX_SCRATCH, /* element ix of an array that the walker declared (number `tensor`) */
	EX_VAR,     /* the value that a let has named (number `tensor`) */
};
struct ex {
	enum ex_kind kind;
	enum dtype type;
	enum prim prim;  /* MAP */
	uint32_t tensor; /* READ, SCRATCH, VAR */
	ixv_id at;       /* READ; else IXV_NONE */
	ix_id ix;        /* GUARD, INDEX, SCRATCH; READ: its index where it has one, else IX_NONE */
	int64_t lo, hi;  /* GUARD */
	uint32_t n_arg;
	ex_id arg[3];
	double real;         /* CONST of a float type */
	int64_t whole;       /* CONST of any other type */
	float flops;         /* of one evaluation, arms and all */
	uint32_t size;       /* nodes as a tree, saturating */
	uint64_t axes, bufs; /* as of an ix */
};

/* Axes that share a bit are taken for one another: what lacks it lacks them all. */
static inline uint64_t
axis_bit(axis_id a)
{
	return (uint64_t)1 << a % 64;
}

/* Likewise. */
static inline uint64_t
buf_bit(uint32_t buf)
{
	return (uint64_t)1 << buf % 64;
}

/* Divisors are positive. */
static inline int64_t
floor_div(int64_t a, int64_t c)
{
	return a / c - (a % c < 0);
}

static inline int64_t
ceil_div(int64_t a, int64_t c)
{
	return a / c + (a % c > 0);
}

static inline int64_t
gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t t = a % b;

		a = b;
		b = t;
	}
	return a < 0 ? -a : a;
}

struct tx; /* the pool; ix.c, ex.c */
struct tx *tx_make(struct arena *a);
/* The sign of a zero matters: x + 0 stays, for x may be -0. */
void tx_set_strict(struct tx *x, bool strict);
bool tx_is_strict(const struct tx *x);
struct arena *tx_arena(const struct tx *x);
axis_id tx_axis(struct tx *x, enum axis_role role, int64_t lo, int64_t hi, ix_id limit);
axis_id tx_axis_like(struct tx *x, const struct axis *a);
const struct axis *tx_axis_get(const struct tx *x, axis_id a);
uint32_t tx_n_axes(const struct tx *x);
uint32_t tx_n_ix(const struct tx *x);
const struct ix *ix_get(const struct tx *x, ix_id i); /* valid until the next ix is made */
const struct ex *ex_get(const struct tx *x, ex_id e); /* likewise */
ix_id ix_const(struct tx *x, int64_t v);
ix_id ix_axis(struct tx *x, axis_id a);
ix_id ix_add(struct tx *x, ix_id a, ix_id b);
ix_id ix_addc(struct tx *x, ix_id a, int64_t c);
int64_t ix_base(const struct tx *x, ix_id i); /* what is added to all that changes in it */
ix_id ix_mulc(struct tx *x, ix_id a, int64_t c);
ix_id ix_div(struct tx *x, ix_id a, int64_t c); /* floor, c > 0 */
ix_id ix_mod(struct tx *x, ix_id a, int64_t c); /* 0 .. c-1 */
ix_id ix_min(struct tx *x, ix_id a, ix_id b);
ix_id ix_max(struct tx *x, ix_id a, ix_id b);
/* The smaller, or the largest, where their difference has a sign; else both in a min or max; region.c. */
ix_id ix_outer(struct tx *x, ix_id a, ix_id b, bool largest);
ix_id ix_value(struct tx *x, ex_id e, int64_t lo, int64_t hi); /* the caller clamps by min and max */
bool ix_is_const(const struct tx *x, ix_id i, int64_t *v);
/* Its value where axis[a] is that of axis a; fn gives that of an index out of a value. */
typedef int64_t ix_value_fn(void *self, ex_id e);
int64_t ix_eval(const struct tx *x, ix_id i, const int64_t *axis, ix_value_fn *fn, void *self);
/* The axis alone? */
bool ix_is_axis(const struct tx *x, ix_id i, axis_id *a);
/* Coefficient of `a` where i is affine in it; false where a stands inside div, mod, min, max or a value. */
bool ix_coef(const struct tx *x, ix_id i, axis_id a, int64_t *coef);
bool ix_has(const struct tx *x, ix_id i, axis_id a);
/* A tuple of n indices, n <= IXV_MAX; equal tuples have equal numbers. */
enum { IXV_MAX = 24, IX_MAX_TERMS = 48 /* of a sum */ };
struct ixv {
	uint32_t n;
	const ix_id *i;
};
ixv_id ixv_make(struct tx *x, uint32_t n, const ix_id *i);
struct ixv ixv_get(const struct tx *x, ixv_id v); /* stays valid */
bool ixv_has(const struct tx *x, ixv_id v, axis_id a);
ex_id ex_real(struct tx *x, enum dtype t, double v); /* constant of any type, from a double */
ex_id ex_whole(struct tx *x, enum dtype t, int64_t v);
ex_id ex_load(struct tx *x, enum dtype t, uint32_t buf, ixv_id at);
/* A read of a flat buffer: one index. */
ex_id ex_read(struct tx *x, enum dtype t, uint32_t tensor, ix_id at);
ex_id ex_var(struct tx *x, enum dtype t, uint32_t number);
ex_id ex_scratch(struct tx *x, enum dtype t, uint32_t number, ix_id at);
ex_id ex_map(struct tx *x, enum prim p, enum dtype t, uint32_t n, const ex_id *arg);
ex_id ex_guard(struct tx *x, ix_id i, int64_t lo, int64_t hi, ex_id yes, ex_id no);
ex_id ex_index(struct tx *x, ix_id i);
bool ex_has(const struct tx *x, ex_id e, axis_id a);

/* Replacement, memoised, simplifying again: each axis from `first` on, n of them, by what `to` has for it;
 * each READ by load(self, ...) where that is given, else by read(self, ...), for flat reads. */
struct tx_subst {
	const ix_id *to; /* of axis first + k: to[k]; IX_NONE: itself */
	axis_id first;
	uint32_t n;
	ex_id (*read)(void *self, struct tx *x, const struct ex *read, ix_id at);
	ex_id (*load)(void *self, struct tx *x, const struct ex *read, ixv_id at);
	void *self;
	uint64_t bufs; /* reads of what has none of these bits stay as they are; 0: all are replaced */
};
ix_id ix_subst(struct tx *x, const struct tx_subst *s, ix_id i);
ixv_id ixv_subst(struct tx *x, const struct tx_subst *s, ixv_id v);
ex_id ex_subst(struct tx *x, const struct tx_subst *s, ex_id e);
/* Calls fn for each READ under e once (reads inside index values too), operands first. */
void ex_reads(const struct tx *x, ex_id e, void (*fn)(void *self, const struct ex *read), void *self);
/* Calls fn for each index expression under e once, operands first. */
void ex_indices(const struct tx *x, ex_id e, void (*fn)(void *self, ix_id i), void *self);
/* The same under an index. */
void ix_reads(const struct tx *x, ix_id i, void (*fn)(void *self, const struct ex *read), void *self);
void ix_indices(const struct tx *x, ix_id i, void (*fn)(void *self, ix_id i), void *self);

#endif
