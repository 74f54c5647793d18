/* kernels/predict/program.h: a lowered kernel as leaves with their loops: all that the predictor sees of what
 * lowering made: the loop program. */
#ifndef KORCH_PREDICT_PROGRAM_H
#define KORCH_PREDICT_PROGRAM_H

#include "../schedule/choices.h"
#include "../target/target.h"

enum { LEAF_LOOPS = 24, LEAF_ACCESSES = 16, PROGRAM_MAX_LEAVES = 128 };
enum leaf_bind {
	BIND_PARALLEL, /* dealt out to threads */
	BIND_SERIAL,
	BIND_VECTOR,   /* its turns are lanes of a vector */
	BIND_UNROLLED, /* written out: a register tile's rows */
};
struct leaf_loop {
	double extent; /* turns, at least 1 */
	enum leaf_bind bind;
	bool reduces; /* its turns add to one element */
};
enum leaf_home { HOME_OPERAND, HOME_RESULT, HOME_SHARED, HOME_LOCAL, HOME_TABLE };
struct leaf_access {
	enum leaf_home home;
	bool writes;
	bool is_irregular;        /* some loop moves it by no fixed step: a remainder, an index of data */
	double times;             /* elements a turn, side by side or in rows: what is written out */
	double element;           /* bytes of one */
	double whole;             /* bytes of the tensor */
	float stride[LEAF_LOOPS]; /* elements that a turn of each loop moves it by; 0: it stays */
};
enum leaf_op {
	OP_CHEAP,   /* one instruction: add, multiply, compare */
	OP_SOME,    /* a few: divide, square root */
	OP_DEAR,    /* a polynomial: exp, tanh, erf */
	OP_CALL,    /* of the C library, an element at a time: pow, sin */
	OP_GUARD,   /* a border: which of two is it */
	OP_INDEX,   /* a division or remainder in an index */
	OP_PRODUCT, /* multiply and add of a linear stage */
	OP_COUNT
};
enum leaf_kind { LEAF_MAP, LEAF_REDUCE, LEAF_LINEAR, LEAF_OTHER };
/* A register tile: what a turn of the micro-kernel's sum multiplies. */
struct leaf_tile {
	double rows, vectors; /* the rows of an average tile; vectors in each */
	double depth;         /* turns of the sum */
	double waste;         /* lanes over them, at least 1 */
};
/* A store with its loop nest. */
struct program_leaf {
	enum leaf_kind kind;
	uint32_t pass;
	bool at_call;                      /* made by each call anew, not by each step */
	bool is_tiled;                     /* LINEAR: a micro-kernel computes it, not a loop nest */
	bool is_chain;                     /* it joins elements one by one, not lanes of them */
	bool is_guess;                     /* of a loop program: its turns are not known, but about so many */
	struct leaf_tile tile;             /* of is_tiled */
	double op[OP_COUNT];               /* an iteration's */
	double exps, divs;                 /* ... each element's at least, in the generator's text */
	struct leaf_loop loop[LEAF_LOOPS]; /* outermost first */
	uint32_t n_loops;
	struct leaf_access access[LEAF_ACCESSES]; /* as they come */
	uint32_t n_accesses;                      /* what stays in registers is none */
};
/* Leaves in pre-order: passes as they run, in each what a call makes, then what a step makes. */
struct program {
	struct program_leaf *leaf;
	uint32_t n_leaves;
	double n_passes, n_barriers, shared_bytes, local_bytes;
};
/* What the schedule makes: ERR_INFEASIBLE: nothing.  Of one that names a library: what would be generated
 * without it. */
bool program_of_schedule(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    struct program *out, struct err *e) MUST_CHECK;
/* As it is before any schedule: a nest for each primitive that computes, one after the other.  A tenth of the
 * time of a program by the rules. */
void program_of_spec(struct arena *a, const struct spec *s, const struct target *t, struct program *out);
/* Of any spec, by what the rules propose who hear `chosen`. */
bool program_of_loops(struct arena *a, const struct spec *s, const struct choices *chosen,
    const struct target *t, struct program *out, struct err *e) MUST_CHECK;

#endif
