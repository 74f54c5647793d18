/* kernels/interp/program_int.h: what the files of the loop programs' interpreter share. */
#ifndef KORCH_INTERP_PROGRAM_INT_H
#define KORCH_INTERP_PROGRAM_INT_H

#include "../tir/tensor.h"
#include "interp_int.h"
#include "program.h"

/* Who accesses: a leaf of a tree of iterations.  Children of a node that belong to one loop run at the same
 * time; those of different loops one after the other, except that all loops over a GPU's threads are one. */
struct who {
	uint32_t up, depth;
	uint32_t loop, iteration;
	uint32_t n_threads; /* of a block, so many: ordered by barriers alone; 0: no thread */
};
/* An access: by whom, and how many barriers there had been. */
struct stamp {
	uint32_t who, epoch;
};
enum { NOBODY = 0 };

struct memory { /* of a buffer, while it is there */
	void *data;
	uint8_t *defined;
	struct stamp *writer, *reader, *reader2; /* the last, and another before it */
	bool is_const;
};
struct thread {
	int64_t *axis;                   /* values, by axis */
	union val *var;                  /* by number; four more for a join */
	struct memory **mem;             /* by buffer; NULL: not allocated */
	uint32_t who, number, n_threads; /* which of a block's, of how many */
};
struct team { /* threads that run a statement together */
	struct thread **t;
	uint32_t n, whole; /* whole: threads of the block */
};

/* A block's comb as expressions over values n_var .. n_var + 3: state, then element. */
struct joiner {
	ex_id identity[TIR_OUTS], join[TIR_OUTS];
};
struct run_state {
	struct arena *a;
	struct arena tmp; /* lists and threads, while a statement runs */
	const struct tir *p;
	const struct program_opts *o;
	struct rng rng;
	struct joiner *join; /* by block */
	struct who *who;
	uint32_t n_who, cap_who, n_loops, epoch;
	uint64_t steps;
	st_id at; /* for messages */
	bool failed;
	struct err *e;
};

void run_fail(struct run_state *r, const char *rule, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* program_value.c */
struct memory *memory_new(struct run_state *r, const struct tir_buf *b, const void *data);
union val eval_ex(struct run_state *r, struct thread *t, ex_id e);
int64_t eval_ix(struct run_state *r, struct thread *t, ix_id i);
bool eval_guards(struct run_state *r, struct thread *t, const struct st *s);
union val load_at(struct run_state *r, struct thread *t, buf_id b, ixv_id at);
void store_at(struct run_state *r, struct thread *t, buf_id b, ixv_id at, union val v);
/* The number of the element in its buffer, row-major; -1: outside, said. */
int64_t place_of(struct run_state *r, struct thread *t, buf_id b, ixv_id at);
union val load_element(struct run_state *r, struct thread *t, buf_id b, int64_t i);
void store_element(struct run_state *r, struct thread *t, buf_id b, int64_t i, union val v);
union val val_rounded(enum dtype t, union val v); /* as a buffer of the type would keep it */
/* program_call.c: what an instruction of intrin.def does. */
void run_call(struct run_state *r, struct thread *t, const struct st *s);
/* program_race.c */
uint32_t who_new(struct run_state *r, uint32_t up, uint32_t loop, uint32_t iteration, uint32_t n_threads);
void check_read(struct run_state *r, const struct thread *t, struct memory *m, buf_id b, int64_t at);
void check_write(struct run_state *r, const struct thread *t, struct memory *m, buf_id b, int64_t at);

#endif
