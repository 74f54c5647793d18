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
	uint32_t
	    n_fresh;  /* launches in a row that meet no copy twice; hot ones, of which there is one, aside */
	bool is_cold; /* most bytes are cold weights, more than the second-level cache holds */
	bool is_hot;  /* some operand or result is: one copy of it, touched before each sample */
	size_t n_bytes;                      /* of all, what kernels have of their own among them */
	bool evicts;                         /* cold weights are put out of the caches: lap_chill() */
	size_t warm_bytes, cold_bytes, most; /* what copies of an operand, of a weight are to fill; and not to
	                                        pass, where two fit into it */
};
/* By the heat of each (struct race): what is hot has one copy.  Cold operands and results, and near weights:
 * together more than several second-level caches and than `least` bytes.  A model's cold weights are in
 * memory, as the whole plan lies between two uses of them: on a device that can evict them, copies for the
 * calls of a sample; else more than the last cache holds.  Neither more than `most`, where two copies fit
 * into that. */
bool rotation_open(struct arena *a, const struct race *r, size_t least, size_t most, struct rotation *out,
    struct err *e) MUST_CHECK;
void rotation_close(struct rotation *c);

struct lap { /* one kernel's way round: a launch a copy */
	struct dev_launch *launch;
	void **own; /* packed weights */
	size_t *own_bytes;
	uint32_t n_own, n;
	size_t *cold_bytes; /* per operand and result: of cold weights, as this kernel reads them; else 0 */
};
bool lap_open(struct arena *a, struct rotation *c, const struct dev_kernel *k, const struct kernel_code *code,
    struct lap *out, struct err *e) MUST_CHECK;
/* Cold weights of the next n launches from `at` on are in memory and nowhere else.  Nothing to do where the
 * ring itself sees to it. */
void lap_chill(const struct rotation *c, const struct lap *l, uint32_t at, uint32_t n);
void lap_close(const struct rotation *c, struct lap *l);

size_t tensor_bytes(const struct graph *g, tensor_id t);
/* Are most bytes of a call cold weights, more than the second-level cache holds? */
bool rotation_is_cold(const struct spec *s, struct str heat, const struct calibration *c);

#endif
