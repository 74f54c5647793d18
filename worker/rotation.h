/* worker/rotation.h: the copies of operands and results that a race's kernels go round, so that none finds
 * its buffers where the last call left them.  On a CPU and on a GPU alike; for this folder alone. */
#ifndef KORCH_ROTATION_H
#define KORCH_ROTATION_H

#include "measure_int.h"

struct rotation {
	const struct race *race;
	void **buf;        /* per launch of the ring: operands, then results; a buffer's copies repeat */
	size_t *buf_bytes; /* per buffer */
	uint32_t *n_of;    /* per buffer: its copies */
	uint32_t n_bufs;
	uint32_t n_walk; /* launches that meet every copy of an operand or result */
	uint32_t n;      /* launches that meet every copy of a weight too */
	bool is_cold;    /* most bytes are cold weights, more than the second-level cache holds */
	bool is_hot;     /* some operand or result is: one copy of it, touched before each sample */
	size_t n_bytes;  /* of all, what kernels have of their own among them */
	size_t warm_bytes, cold_bytes, most; /* what copies of an operand, of a weight are to fill; and not to
	                                        pass, where two fit into it */
};
/* By the heat of each (struct race): what is hot has one copy.  Cold operands and results, and near weights:
 * together more than several second-level caches and than `least` bytes.  A model's cold weights: more than
 * the last cache, as the whole plan lies between two uses of them.  Neither more than `most`, where two
 * copies fit into that. */
bool rotation_open(struct arena *a, const struct race *r, size_t least, size_t most, struct rotation *out,
    struct err *e) MUST_CHECK;
void rotation_close(struct rotation *c);

struct lap { /* one kernel's way round: a launch a copy */
	struct dev_launch *launch;
	void **own; /* packed weights */
	size_t *own_bytes;
	uint32_t n_own, n;
};
bool lap_open(struct arena *a, struct rotation *c, const struct dev_kernel *k, const struct kernel_code *code,
    struct lap *out, struct err *e) MUST_CHECK;
void lap_close(const struct rotation *c, struct lap *l);

size_t tensor_bytes(const struct graph *g, tensor_id t);
/* Are most bytes of a call cold weights, more than the second-level cache holds? */
bool rotation_is_cold(const struct spec *s, struct str heat, const struct calibration *c);

#endif
