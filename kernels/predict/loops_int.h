/* kernels/predict/loops_int.h: the leaves of a loop program while they are made; the folder's own. */
#ifndef KORCH_PREDICT_LOOPS_INT_H
#define KORCH_PREDICT_LOOPS_INT_H

#include "program_int.h"

#include "../tir/tir.h"

/* Loops around a place, outermost first. */
struct around {
	axis_id axis[LEAF_LOOPS];
	struct leaf_loop loop[LEAF_LOOPS];
	uint32_t n;
	bool is_guess; /* some of them turn more or less often, by where others are */
};
struct place {
	buf_id buf;
	ix_id at;
};
struct reading {
	struct arena *tmp;
	const struct target *target;
	const struct tir *p;
	struct program *out;
	uint32_t pass;
	ix_id *to;            /* of an axis that names an index: that index; else IX_NONE */
	int64_t *middle;      /* of each axis, where its loop is half through */
	uint32_t *made_in;    /* of each buffer: loops around its alloc */
	enum leaf_kind *kind; /* ... of the primitive that makes it */
	bool *is_joined;      /* ... its elements are joined */
	bool *is_used;
	const struct around *
	    *moves_in; /* of what a let has named: loops in each of whose turns it is another */
	/* of the leaf that is being made */
	struct program_leaf *leaf;
	const struct around *around;
	struct place *place; /* that it touches, each once */
	uint32_t n_places, cap_places;
	struct place first[LEAF_ACCESSES]; /* of each access */
	struct place last;                 /* where it stores; BUF_NONE: nowhere */
	struct before {                    /* the leaf before it */
		struct around around;
		struct place first[LEAF_ACCESSES];
		uint32_t row_loop; /* that its rows became; LEAF_LOOPS: none */
	} before;
};

/* loops_leaf.c: an index over loops alone; a leaf of statements first .. end - 1; a call that turns rows. */
ix_id loops_resolve(const struct reading *r, ix_id i);
void loops_add_leaf(struct reading *r, const struct around *around, st_id first, st_id end);
void loops_add_turn(struct reading *r, const struct around *around, const struct st *call);
/* Which buffers are joined: by a store of what it reads there, by a call. */
void loops_find_joined(struct reading *r);
/* loops_rows.c: the leaf that is made does what the one before it does, at other places: it becomes a turn of
 * that one's rows.  False: it is another. */
bool loops_is_row(struct reading *r);
/* What a product in registers is to a sample: a tile. */
void loops_tile(const struct reading *r, struct program_leaf *l);

#endif
