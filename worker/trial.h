/* worker/trial.h: a kernel run once on buffers that show what it should not do: guards on both sides, results
 * that start as NaN, so that what is not written shows, operands that are looked at again.  For this folder
 * alone. */
#ifndef KORCH_TRIAL_H
#define KORCH_TRIAL_H

#include "measure_int.h"

struct guarded { /* a buffer between two guards, and its image where the host can look */
	const struct dev *dev;
	char *base, *image;
	size_t n_bytes;
};
struct trial {               /* one kernel, one input set */
	struct guarded *buf; /* operands, then results */
	void **ptr;          /* the host's view of them */
	void **at;           /* the kernel's */
	void **before;       /* operands as given, to see that they were only read */
	uint32_t n_in, n;
};
bool trial_make(const struct spec *s, void *const *operands, const struct dev *d,
    const struct kernel_code *code, struct arena *tmp, struct trial *t, struct err *e) MUST_CHECK;
/* Runs it once; false where the device found a fault. */
bool trial_run(const struct dev *d, const struct dev_kernel *k, struct trial *t, struct err *e) MUST_CHECK;
/* ERR_WRONG: it wrote where it should not. */
bool trial_is_clean(const struct trial *t, struct err *e) MUST_CHECK;
/* Its outputs, an array of t->n - t->n_in in `a`, each the caller's to drop; the trial has none any more. */
struct guarded *trial_give_outputs(struct trial *t, struct arena *a);
const void *guarded_host(const struct guarded *g);
void guarded_drop(struct guarded *g);
void trial_drop(struct trial *t);

#endif
