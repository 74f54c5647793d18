/* kernels/fuse/form_int.h: passes while stages are dealt out to them; pass.c and ring.c. */
#ifndef KORCH_FORM_INT_H
#define KORCH_FORM_INT_H

#include "lower_int.h"

/* An outer axis of a pass under construction: which axis of each member it is. */
struct form_outer {
	int64_t extent;
	uint32_t *axis; /* of each stage of the program: its axis number */
};
/* For row y of the reader rows step * y + lo .. step * y + hi of what member `maker` makes. */
struct form_edge {
	uint32_t reader, maker; /* stages */
	int64_t step, lo, hi;
};
struct form_rows {
	int64_t scale, lo, hi; /* row y of the pass needs rows scale * y + lo .. scale * y + hi */
};
struct form_pass {
	struct form_outer outer[PASS_OUTER + STAGE_AXES];
	uint32_t n_outer;
	uint32_t member[PASS_STEPS];
	uint32_t n_member;
	double work;
	bool by_columns;                   /* an outer axis counts blocks of columns */
	bool has_ring;                     /* then the last outer axis counts rows, each member's own */
	struct form_rows need[PASS_STEPS]; /* has_ring: of each member */
	struct form_edge *edge;
	uint32_t n_edge, cap_edge;
};
struct form {
	struct tile_prog *p;
	struct arena tmp;
	struct form_pass pass[TILE_PASSES];
	uint32_t n_pass;
	double most_work;   /* of one stage */
	uint32_t *min_pass; /* of each stage: the first pass that may read it across a barrier or in a call */
	bool *late;         /* of each stage: it waits for a reduction of its pass */
	bool *whole;        /* of each stage: somebody else needs all of it, so it is in no ring */
};

/* columns.c: are blocks of the stage's columns counted by an axis that it shares with the pass? */
bool form_keeps_blocks(const struct form_pass *fp, const struct stage *s, const int *match);
/* Stage i becomes a member of pass q, which keeps the outer axes with match[u] >= 0. */
void form_join(struct form *f, uint32_t i, uint32_t q, const int *match);
/* Splits the pass's outer axis u where index i along it is f * a + rest; false: it is not. */
bool form_split(struct form *f, uint32_t q, uint32_t u, ix_id i);
/* Makes stage i a member of pass q with rings of rows between them, or with all rows in a step where that is
 * better; false: nothing changed.
 * overlap: only where the windows of neighbouring rows share rows. */
bool ring_join(struct form *f, uint32_t i, uint32_t q, bool overlap);
/* Stage i's windows lie over two axes that the pass counts as one: splits that. */
bool ring_refine(struct form *f, uint32_t i, uint32_t q);
/* The rings of a formed pass and the level of each member. */
bool rings_write(const struct form *f, uint32_t q, struct err *e);

#endif
