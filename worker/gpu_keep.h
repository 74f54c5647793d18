/* worker/gpu_keep.h: a GPU for one worker at a time, and the measuring child that works on it, kept with its
 * context from batch to batch: a context takes up to half a second to open.
 *
 *   gpu-PCI            held while the GPU is used
 *   gpu-PCI-context    held as long as a child with a context lives, at work or idle
 *
 * Who has the first waits for the second, so two contexts of korch's never meet on a GPU, and none that idles
 * is a stranger to who measures.  A child that idles is watched over: as soon as somebody stands behind its
 * context, or after some seconds in which nobody asked for it, it is ended.  So it is after a fault, after so
 * many batches, and when it has grown by so much. */
#ifndef KORCH_WORKER_GPU_KEEP_H
#define KORCH_WORKER_GPU_KEEP_H

#include "../kernels/base/hostlock.h"
#include "measure.h"

enum { KEEP_BATCHES = 64 };

struct gpu_keep {
	struct measure_opts opts;
	struct host_lock lock, context;
	struct measure_child *child; /* NULL: none lives */
	pthread_mutex_t mutex;       /* of what the watcher sees: child, context, is_idle, is_over */
	pthread_cond_t changed;
	pthread_t watcher;
	bool has_watcher, is_idle, is_over, is_open;
	int64_t idle_since_ns;
	int64_t patience_ns;        /* how long it may idle */
	uint64_t most_growth_bytes; /* beyond what it had after its first batch */
	uint64_t first_bytes;
	uint32_t n_batches, n_starts; /* of this child */
};
/* Opens nothing yet.  pci: names the locks; what opts points to lives as long as `k`. */
void gpu_keep_init(
    struct gpu_keep *k, const struct measure_opts *opts, const struct lock_conf *conf, const char *pci);
/* The GPU is ours, with a child that answers: k->child.  gpu_keep_leave() is called whatever came of it. */
bool gpu_keep_take(struct gpu_keep *k, struct err *e) MUST_CHECK;
/* is_good: nothing went wrong with it, and the child may serve again. */
void gpu_keep_leave(struct gpu_keep *k, bool is_good);
void gpu_keep_close(struct gpu_keep *k);

#endif
