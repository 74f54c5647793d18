/* kernels/device/dev_cuda_int.h: a GPU's device from inside, for dev_cuda.c (kernels), dev_cuda_graph.c
 * (captured launches) and dev_cuda_library.c (kernels of libraries) alone. */
#ifndef KORCH_DEV_CUDA_INT_H
#define KORCH_DEV_CUDA_INT_H

#include "gpu.h"

/* Where launches go: kernels on different streams must not share scratch. */
struct cuda_lane {
	void *stream;
	uint64_t shared, local;
	size_t shared_bytes, local_bytes;
};
struct cuda_pass {
	void *fn;
	struct gpu_pass how;
};
struct cuda_kernel {
	struct gpu_kernel of;
	void *module; /* NULL: not loaded yet, or a library's kernel */
	struct cuda_pass pass[DEV_MAX_PASSES];
};
struct cuda {
	const struct gpu *g;
	struct gpu own;              /* what g points to: libraries may join it later */
	void *vendor[LIBRARY_COUNT]; /* libraries' handles; NULL: not made yet */
	struct cuda_list *list;      /* what a library listed last */
	struct gpu_facts facts;
	int dev;
	void *ctx, *from, *to;
	struct cuda_lane lane[STREAMS_MAX]; /* the first is there always, others when a graph needs them */
	uint64_t flush, tables;
	size_t flush_bytes, table_at;
	uint64_t old[256]; /* scratch that was too small, freed at the end */
	uint32_t n_old;
	uint32_t n_own; /* processes on this GPU that are we */
	struct err fault;
	bool is_sticky;
};

/* All functions of a library, by the names of its rows; false, with the sentence of the first that is missing
 * in g->why.  find: one of them, NULL where there is none of that name. */
typedef void *gpu_find(void *self, enum gpu_lib lib, const char *name);
bool gpu_fill(struct gpu *g, enum gpu_lib lib, const char *soname, gpu_find *find, void *self);

/* Keeps the first status that is not 0; `what` names the call. */
bool cuda_good(struct cuda *c, int status, const char *what);
bool cuda_is_well(const struct cuda *c);
/* The context becomes this thread's: the driver knows one for each thread, and a plan's callers may be
 * several. */
bool cuda_enter(struct cuda *c);
/* Hands the kept fault over; always false. */
bool cuda_tell(struct cuda *c, struct err *e);
/* 0 where there is none left. */
uint64_t cuda_bytes_new(struct cuda *c, size_t n);
/* Any direction, and waits. */
void cuda_move(struct cuda *c, void *to, const void *from, size_t n_bytes);
bool cuda_widen(struct cuda *c, uint64_t *p, size_t *have, size_t want, const char *what, struct err *e);
/* Scratch of a lane for kernels up to these sizes. */
bool cuda_widen_lane(struct cuda *c, uint32_t lane, size_t shared_bytes, size_t local_bytes, struct err *e);
/* What a kernel needs of it; false: more than can be said. */
bool cuda_local_bytes(const struct dev_kernel *k, size_t *n);
/* All passes of a kernel; `table` holds its buffers' pointers, in the device's memory. */
bool cuda_launch(struct cuda *c, uint32_t lane, const struct dev_launch *l, uint64_t table);

/* Kernels of libraries (dev_cuda_library.c): the device's functions, and those from a module's entry.  A
 * captured call keeps the pointers that it got. */
bool cuda_library_bind(
    void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e) MUST_CHECK;
bool cuda_library_kept(struct cuda *c, struct bytes code, struct dev_kernel *k, struct err *e) MUST_CHECK;
void cuda_library_unbind(void *self, struct dev_kernel *k);
bool cuda_library_prepare(void *self, struct dev_launch *l, struct err *e) MUST_CHECK;
void cuda_library_release(void *self, struct dev_launch *l);
bool cuda_library_run(struct cuda *c, const struct dev_launch *l, void *scratch, void *stream);
void cuda_library_close(struct cuda *c);

#endif
