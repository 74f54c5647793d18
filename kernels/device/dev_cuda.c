/* kernels/device/dev_cuda.c: one GPU behind the table of a device.
 *
 * Kernels run on one stream, in order: the barrier between passes costs nothing more.  Only a captured graph
 * (dev_cuda_graph.c) has others, each with scratch of its own.  The driver's
 * statuses come late (a kernel's illegal address shows at the next wait), so the first bad one is
 * kept and everything after it is left out until fault() has told it.  A sticky fault
 * has destroyed the context: only a new process brings the device back. */
#include "dev_cuda_int.h"

#include <stdlib.h>
#include <string.h>

enum { FUNC_DYNAMIC_SHARED = 8, SHARED_FREE = 48 << 10, STREAM_NON_BLOCKING = 1, TABLE_BYTES = 1 << 16 };
enum { POINTER_TYPE = 2, POINTER_NUMBER = 9, TYPE_HOST = 1, INVALID_VALUE = 1 };

struct dev_module {
	struct arena arena; /* the bytes too */
	struct cuda_kernel *kernels;
	uint32_t n;
};

/* ---- faults ------------------------------------------------------------------------------ */
bool
cuda_good(struct cuda *c, int status, const char *what)
{
	struct err e = {0};

	if (status == 0)
		return true;
	(void)gpu_ok(c->g, status, what, &e);
	if (c->fault.code == ERR_NONE)
		c->fault = e;
	c->is_sticky |= gpu_is_sticky(status);
	return false;
}

bool
cuda_is_well(const struct cuda *c)
{
	return c->fault.code == ERR_NONE;
}

static bool
cuda_fault(void *self, bool *is_lost, struct err *e)
{
	struct cuda *c = self;

	*is_lost = c->is_sticky;
	if (cuda_is_well(c))
		return true;
	*e = c->fault;
	c->fault = (struct err){0};
	return false;
}

const struct gpu_facts *
dev_cuda_facts(const struct dev *d)
{
	return &((const struct cuda *)d->self)->facts;
}

void
gpu_state(const struct dev *d, struct gpu_state *out)
{
	const struct cuda *c = d->self;

	gpu_look(c->g, c->facts.uuid, c->n_own, out);
}

/* ---- memory ------------------------------------------------------------------------------- */
uint64_t
cuda_bytes_new(struct cuda *c, size_t n)
{
	uint64_t p = 0;
	int status = c->is_sticky ? 1 : c->g->cu.mem_new(&p, MAX_OF(n, (size_t)1));

	return status == 0 ? p : 0;
}

static void *
cuda_mem_new(void *self, size_t n_bytes)
{
	struct cuda *c = self;
	uint64_t p = cuda_bytes_new(c, n_bytes);

	if (p)
		(void)cuda_good(
		    c, c->g->cu.fill(p, 0, MAX_OF(n_bytes, (size_t)1), c->lane[0].stream), "cuMemsetD8Async");
	return (void *)(uintptr_t)p;
}

static void
cuda_mem_free(void *self, void *p, size_t n_bytes)
{
	struct cuda *c = self;

	(void)n_bytes;
	if (p && !c->is_sticky)
		(void)cuda_good(c, c->g->cu.mem_free((uint64_t)(uintptr_t)p), "cuMemFree");
}

/* Any direction: the address says where it lives. */
void
cuda_move(struct cuda *c, void *to, const void *from, size_t n_bytes)
{
	if (n_bytes && cuda_is_well(c) &&
	    cuda_good(c,
		c->g->cu.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, n_bytes, c->lane[0].stream),
		"cuMemcpyAsync"))
		(void)cuda_good(c, c->g->cu.stream_sync(c->lane[0].stream), "copy");
}

static void
cuda_copy(void *self, void *to, const void *from, size_t n_bytes)
{
	cuda_move(self, to, from, n_bytes);
}

/* The old piece stays: a captured graph may still point to it.  Pieces double, so that few are kept. */
bool
cuda_widen(struct cuda *c, uint64_t *p, size_t *have, size_t want, const char *what, struct err *e)
{
	uint64_t larger;

	if (want <= *have)
		return true;
	larger = c->n_old < COUNT_OF(c->old) ? cuda_bytes_new(c, MAX_OF(want, 2 * *have)) : 0;
	if (!larger)
		return err_set(e, ERR_MEMORY, "the GPU has no %zu bytes for %s", want, what);
	if (*p)
		c->old[c->n_old++] = *p;
	*have = MAX_OF(want, 2 * *have);
	*p = larger;
	return true;
}

bool
cuda_widen_lane(struct cuda *c, uint32_t lane, size_t shared_bytes, size_t local_bytes, struct err *e)
{
	struct cuda_lane *l = &c->lane[lane];

	return cuda_widen(c, &l->shared, &l->shared_bytes, shared_bytes, "scratch between passes", e) &&
	    cuda_widen(c, &l->local, &l->local_bytes, local_bytes, "scratch of its blocks", e);
}

static bool
cuda_reserve(void *self, size_t shared_bytes, size_t local_bytes, struct err *e)
{
	(void)local_bytes; /* find() has seen to it: it depends on the grid */
	return cuda_widen_lane(self, 0, shared_bytes, 0, e);
}

bool
gpu_poison(const struct dev *d, int byte, struct err *e)
{
	struct cuda *c = d->self;
	const struct cuda_lane *l = &c->lane[0];

	if (l->shared && cuda_is_well(c))
		(void)cuda_good(c, c->g->cu.fill(l->shared, (unsigned char)byte, l->shared_bytes, l->stream),
		    "cuMemsetD8Async");
	if (l->local && cuda_is_well(c))
		(void)cuda_good(c, c->g->cu.fill(l->local, (unsigned char)byte, l->local_bytes, l->stream),
		    "cuMemsetD8Async");
	return cuda_is_well(c) || cuda_tell(c, e);
}

/* What the driver says of a pointer; 0 where it says nothing. */
static bool
ask(struct cuda *c, const void *at, int which, int *v)
{
	int status = c->g->cu.pointer(v, which, (uint64_t)(uintptr_t)at);

	*v = status ? 0 : *v;
	return status == INVALID_VALUE || cuda_good(c, status, "cuPointerGetAttribute");
}

bool
gpu_where(const struct dev *d, const void *at, int *number, struct err *e)
{
	struct cuda *c = d->self;
	int type = 0;

	*number = -1;
	if (!ask(c, at, POINTER_TYPE, &type) || (type > TYPE_HOST && !ask(c, at, POINTER_NUMBER, number)))
		return cuda_tell(c, e);
	return true;
}

/* ---- modules ------------------------------------------------------------------------------- */
static bool
cuda_load(void *self, struct bytes code, struct dev_module **out, struct err *e)
{
	struct cuda *c = self;
	struct dev_module *m = heap_alloc(sizeof(*m));
	struct bytes own = {arena_dup(&m->arena, code.p, MAX_OF(code.n, (size_t)1)), code.n};
	struct gpu_kernel *k;
	int sm;

	if (!gpu_module_read(&m->arena, own, &sm, &k, &m->n, e)) {
		arena_fini(&m->arena);
		free(m);
		return false;
	}
	if (sm / 10 != c->facts.sm / 10 || sm > c->facts.sm) {
		arena_fini(&m->arena);
		free(m);
		return err_set(e, ERR_DEVICE, "the code is for sm_%d, and this GPU (%s) is sm_%d", sm,
		    c->facts.name, c->facts.sm);
	}
	m->kernels = NEW_ARRAY(&m->arena, struct cuda_kernel, MAX_OF(m->n, 1u));
	for (uint32_t i = 0; i < m->n; i++)
		m->kernels[i].of = k[i];
	*out = m;
	return true;
}

static void
cuda_unload(void *self, struct dev_module *m)
{
	struct cuda *c = self;

	if (!m)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->kernels[i].module && !c->is_sticky)
			(void)cuda_good(c, c->g->cu.unload(m->kernels[i].module), "cuModuleUnload");
	arena_fini(&m->arena);
	free(m);
}

/* A status that concerns one kernel alone becomes its error; one that ends the context is kept too. */
static bool
mine(struct cuda *c, int status, const char *what, struct err *e)
{
	if (status == 0)
		return true;
	c->is_sticky |= gpu_is_sticky(status);
	return gpu_ok(c->g, status, what, e);
}

static bool
find_pass(struct cuda *c, struct cuda_kernel *k, uint32_t q, struct err *e)
{
	char name[16] = "k_p0";
	struct cuda_pass *p = &k->pass[q];

	if (q >= 10)
		name[3] = '1';
	name[q >= 10 ? 4 : 3] = (char)('0' + q % 10);
	p->how = k->of.pass[q];
	if (!mine(c, c->g->cu.function(&p->fn, k->module, name), "cuModuleGetFunction", e))
		return err_in(e, "pass %u", q);
	if (p->how.shared > (uint32_t)MAX_OF(c->facts.shared_per_block, (int)SHARED_FREE))
		return err_set(e, ERR_LAUNCH,
		    "it asks for %u bytes of shared memory, and a block of this GPU has %d", p->how.shared,
		    c->facts.shared_per_block);
	return p->how.shared <= SHARED_FREE ||
	    mine(c, c->g->cu.set_function(p->fn, FUNC_DYNAMIC_SHARED, (int)p->how.shared),
		"cuFuncSetAttribute", e);
}

/* From aligned memory, which a cubin inside a module need not be in. */
static bool
load_image(struct cuda *c, struct cuda_kernel *k, struct err *e)
{
	struct arena tmp = {0};
	const void *image = arena_dup(&tmp, k->of.cubin.p, MAX_OF(k->of.cubin.n, (size_t)1));
	bool ok = mine(c, c->g->cu.load(&k->module, image, 0, NULL, NULL), "cuModuleLoadDataEx", e);

	arena_fini(&tmp);
	return ok;
}

/* Scratch of the blocks of the largest grid among its passes. */
bool
cuda_local_bytes(const struct dev_kernel *k, size_t *n)
{
	uint64_t blocks = 1;

	for (uint32_t q = 0; q < k->n_passes && !k->library; q++) {
		const uint32_t *g = ((const struct cuda_pass *)k->pass[q])->how.grid;

		blocks = MAX_OF(blocks, (uint64_t)g[0] * g[1] * g[2]);
	}
	return !__builtin_mul_overflow((size_t)blocks, k->local_bytes, n);
}

static bool
need_local(struct cuda *c, const struct dev_kernel *k, struct err *e)
{
	size_t n;

	if (!cuda_local_bytes(k, &n) || n > c->facts.memory)
		return err_set(e, ERR_MEMORY,
		    "scratch of %zu bytes for each of its blocks is more than the GPU has", k->local_bytes);
	return cuda_widen_lane(c, 0, 0, n, e);
}

static struct cuda_kernel *
entry(struct dev_module *m, const char *symbol)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (str_is(m->kernels[i].of.symbol, symbol))
			return &m->kernels[i];
	return NULL;
}

static bool
cuda_holds(void *self, struct dev_module *m, const char *symbol)
{
	(void)self;
	return entry(m, symbol) != NULL;
}

static bool
cuda_find(void *self, struct dev_module *m, const char *symbol, struct dev_kernel *k, struct err *e)
{
	struct cuda *c = self;
	struct cuda_kernel *have = entry(m, symbol);

	if (!have || have->of.n_passes != k->n_passes)
		return err_set(
		    e, ERR_FORMAT, "the module has no kernel %s of %u passes", symbol, k->n_passes);
	if (vendor_is_packed(have->of.cubin))
		return cuda_library_kept(c, have->of.cubin, k, e);
	if (k->n_passes && !have->module && !load_image(c, have, e))
		return false;
	for (uint32_t q = 0; q < k->n_passes; q++) {
		if (!find_pass(c, have, q, e))
			return false;
		k->pass[q] = &have->pass[q];
	}
	return need_local(c, k, e);
}

/* ---- running -------------------------------------------------------------------------------- */
static bool
launch_pass(struct cuda *c, struct cuda_lane *at, const struct dev_kernel *k, uint32_t q, uint64_t table)
{
	const struct cuda_pass *p = k->pass[q];
	int64_t lo = 0, hi = k->range[q];
	void *params[] = {&table, &at->shared, &at->local, &lo, &hi};

	if (hi <= 0)
		return true;
	return cuda_good(c,
	    c->g->cu.launch(p->fn, p->how.grid[0], p->how.grid[1], p->how.grid[2], p->how.block[0],
		p->how.block[1], p->how.block[2], p->how.shared, at->stream, params, NULL),
	    "cuLaunchKernel");
}

bool
cuda_launch(struct cuda *c, uint32_t lane, const struct dev_launch *l, uint64_t table)
{
	const struct dev_kernel *k = l->kernel;
	struct cuda_lane *at = &c->lane[lane];

	if (k->library)
		return cuda_library_run(c, l, (void *)(uintptr_t)at->shared, at->stream);
	for (uint32_t q = 0; q < k->n_passes; q++)
		if (!launch_pass(c, at, k, q, table))
			return false;
	return true;
}

/* The launch's pointers in the device's memory; a region that comes round again is free by then. */
static uint64_t
put_table(struct cuda *c, const struct dev_launch *l)
{
	size_t n = MAX_OF(l->kernel->n_bufs, 1u) * sizeof(void *);
	uint64_t at;

	if (n > TABLE_BYTES) {
		(void)err_set(&c->fault, ERR_LIMIT, "a kernel with %u buffers", l->kernel->n_bufs);
		return 0;
	}
	if (c->table_at + n > TABLE_BYTES) {
		if (!cuda_good(c, c->g->cu.stream_sync(c->lane[0].stream), "cuStreamSynchronize"))
			return 0;
		c->table_at = 0;
	}
	at = c->tables + c->table_at;
	c->table_at += n;
	return cuda_good(
		   c, c->g->cu.copy(at, (uint64_t)(uintptr_t)l->buf, n, c->lane[0].stream), "cuMemcpyAsync")
	    ? at
	    : 0;
}

static void
cuda_run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	struct cuda *c = self;
	int64_t sum = 0;

	for (uint32_t i = 0; i <= n && ns; i++)
		ns[i] = 0;
	for (uint32_t i = 0; i < n && cuda_is_well(c); i++) {
		uint64_t table = l[i].kernel->n_passes ? put_table(c, &l[i]) : 0;
		float ms = 0;

		if (ns)
			ns[i + 1] = sum;
		if (!table ||
		    (ns &&
			!cuda_good(c, c->g->cu.event_record(c->from, c->lane[0].stream), "cuEventRecord")) ||
		    !cuda_launch(c, 0, &l[i], table) || !ns)
			continue;
		if (cuda_good(c, c->g->cu.event_record(c->to, c->lane[0].stream), "cuEventRecord") &&
		    cuda_good(c, c->g->cu.event_sync(c->to), "kernel") &&
		    cuda_good(c, c->g->cu.event_ms(&ms, c->from, c->to), "cuEventElapsedTime"))
			sum += (int64_t)((double)ms * 1e6);
		ns[i + 1] = sum;
	}
	if (cuda_is_well(c))
		(void)cuda_good(c, c->g->cu.stream_sync(c->lane[0].stream), "kernel");
}

/* ---- open, close ------------------------------------------------------------------------------ */
static bool
cuda_describe(void *self, struct dev_info *out, struct err *e)
{
	(void)e;
	gpu_describe(&((struct cuda *)self)->facts, out);
	return true;
}

static void
close_lane(struct cuda *c, const struct cuda_lane *l)
{
	if (l->shared)
		(void)c->g->cu.mem_free(l->shared);
	if (l->local)
		(void)c->g->cu.mem_free(l->local);
	if (l->stream)
		(void)c->g->cu.stream_free(l->stream);
}

bool
cuda_enter(struct cuda *c)
{
	return cuda_good(c, c->g->cu.set(c->ctx), "cuCtxSetCurrent");
}

bool
gpu_enter(const struct dev *d)
{
	return cuda_enter(d->self);
}

int
gpu_number(const struct dev *d)
{
	return ((const struct cuda *)d->self)->dev;
}

static void
cuda_close(void *self)
{
	struct cuda *c = self;
	const uint64_t memory[] = {c->flush, c->tables};

	if (c->ctx && !c->is_sticky)
		(void)cuda_enter(c);
	cuda_library_close(c); /* a handle is bound to a stream until then */
	for (size_t i = 0; i < COUNT_OF(memory) && !c->is_sticky; i++)
		if (memory[i])
			(void)c->g->cu.mem_free(memory[i]);
	for (uint32_t i = 0; i < c->n_old && !c->is_sticky; i++)
		(void)c->g->cu.mem_free(c->old[i]);
	if (!c->is_sticky) {
		if (c->from)
			(void)c->g->cu.event_free(c->from);
		if (c->to)
			(void)c->g->cu.event_free(c->to);
		for (size_t i = 0; i < COUNT_OF(c->lane); i++)
			close_lane(c, &c->lane[i]);
	}
	if (c->ctx)
		(void)c->g->cu.release(c->dev);
	free(c);
}

/* The primary context: cuBLASLt and cuDNN use it too. */
static bool
open_context(struct cuda *c, struct err *e)
{
	const struct gpu_cu *cu = &c->g->cu;
	uint32_t before, after;

	(void)gpu_processes(c->g, c->facts.uuid, &before);
	if (!gpu_ok(c->g, cu->retain(&c->ctx, c->dev), "cuDevicePrimaryCtxRetain", e) ||
	    !gpu_ok(c->g, cu->set(c->ctx), "cuCtxSetCurrent", e) ||
	    !gpu_ok(c->g, cu->stream_new(&c->lane[0].stream, STREAM_NON_BLOCKING), "cuStreamCreate", e) ||
	    !gpu_ok(c->g, cu->event_new(&c->from, 0), "cuEventCreate", e) ||
	    !gpu_ok(c->g, cu->event_new(&c->to, 0), "cuEventCreate", e) ||
	    !gpu_ok(c->g, cu->mem_new(&c->tables, TABLE_BYTES), "cuMemAlloc", e))
		return false;
	(void)gpu_processes(c->g, c->facts.uuid, &after);
	/* a container may hide our own number: we are the one that has come */
	c->n_own = after > before ? 1 : 0;
	/* our own context shows what a driver without the attribute does not say before */
	return !gpu_has_mps(c->g, c->facts.uuid) || gpu_refuse_mps(&c->facts, e);
}

bool
dev_cuda_open(const struct gpu *g, int number, struct dev *out, struct err *e)
{
	struct cuda *c;
	int n;

	if (!gpu_ready(g, false, &n, e))
		return false;
	if (number < 0 || number >= n)
		return err_set(e, ERR_HOST, "there is no GPU %d: the driver sees %d", number, n);
	c = heap_alloc(sizeof(*c));
	c->own = *g;
	c->g = &c->own;
	if (!gpu_facts(g, number, &c->facts, e) ||
	    !gpu_ok(g, g->cu.device(&c->dev, number), "cuDeviceGet", e) || !open_context(c, e)) {
		cuda_close(c);
		return err_in(e, "GPU %d", number);
	}
	*out = (struct dev){.self = c,
	    .name = "cuda",
	    .n_threads = 1,
	    .describe = cuda_describe,
	    .load = cuda_load,
	    .unload = cuda_unload,
	    .find = cuda_find,
	    .holds = cuda_holds,
	    .bind = cuda_library_bind,
	    .unbind = cuda_library_unbind,
	    .prepare = cuda_library_prepare,
	    .release = cuda_library_release,
	    .mem_new = cuda_mem_new,
	    .mem_free = cuda_mem_free,
	    .put = cuda_copy,
	    .get = cuda_copy,
	    .reserve = cuda_reserve,
	    .run = cuda_run,
	    .fault = cuda_fault,
	    .close = cuda_close};
	return true;
}
