/* kernels/device/dev_cpu.c: the CPU as a device: code from memory, passes split over the pool.
 *
 * Invariants: `turn` is held while a list of launches runs or scratch is replaced, so that
 * plans sharing the device take turns; scratch only grows. */
#include "cpu_memory.h"
#include "dev_cpu_library.h"
#include "evict.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void pass_fn(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi);

struct dev_module {
	void *dl;
	int fd; /* stays open: the loader knows a library by its path, which names this number */
};
struct cpu {
	struct pool *pool;
	struct cpu_libraries libraries;
	pthread_mutex_t turn;
	struct cpu_memory memory;
	pthread_mutex_t memory_turn;
	char *shared, *local;
	size_t shared_bytes, local_bytes; /* local: of one thread */
};

/* Threads that share a line of cache slow each other; threads a page apart do not. */
enum { LOCAL_STEP = 4096 };

static bool
cpu_describe(void *self, struct dev_info *out, struct err *e)
{
	(void)self;
	return dev_cpu_describe(out, e);
}

static bool
write_code(int fd, struct bytes code)
{
	while (code.n) {
		ssize_t n = write(fd, code.p, code.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		code.p += n;
		code.n -= (size_t)n;
	}
	return true;
}

static bool
cpu_load(void *self, struct bytes code, struct dev_module **out, struct err *e)
{
	struct dev_module *m;
	char path[64];
	void *dl;
	int fd;

	(void)self;
	if (code.n < 64 || memcmp(code.p, "\177ELF", 4) != 0)
		return err_set(e, ERR_FORMAT, "the kernels are no shared object for this CPU");
	fd = memfd_create("korch-kernels", MFD_CLOEXEC);
	if (fd < 0 || !write_code(fd, code)) {
		err_set(
		    e, ERR_HOST, "cannot keep %zu bytes of kernels in memory: %s", code.n, strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!dl) {
		const char *why = dlerror();

		(void)close(fd);
		return err_set(
		    e, ERR_LAUNCH, "the kernels cannot be loaded: %s", why ? why : "no reason given");
	}
	m = heap_alloc(sizeof(*m));
	*m = (struct dev_module){dl, fd};
	*out = m;
	return true;
}

static void
cpu_unload(void *self, struct dev_module *m)
{
	(void)self;
	if (!m)
		return;
	(void)dlclose(m->dl);
	(void)close(m->fd);
	free(m);
}

static bool
cpu_find(void *self, struct dev_module *m, const char *symbol, struct dev_kernel *k, struct err *e)
{
	char name[256];

	(void)self;
	if (k->n_passes > DEV_MAX_PASSES)
		return err_set(e, ERR_FORMAT, "kernel %s has %u passes; at most %d are possible", symbol,
		    k->n_passes, DEV_MAX_PASSES);
	for (uint32_t i = 0; i < k->n_passes; i++) {
		int n = snprintf(name, sizeof(name), "%s_p%u", symbol, i);

		if (n < 0 || (size_t)n >= sizeof(name))
			return err_set(e, ERR_FORMAT, "the name of a kernel is too long");
		k->pass[i] = dlsym(m->dl, name);
		if (!k->pass[i])
			return err_set(e, ERR_FORMAT, "the kernels hold no function %s", name);
	}
	return true;
}

static bool
cpu_bind(void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e)
{
	const struct cpu *c = self;

	return cpu_library_bind(spec, schedule, pool_threads(c->pool), k, e);
}

static void
cpu_unbind(void *self, struct dev_kernel *k)
{
	(void)self;
	cpu_library_unbind(k);
}

static bool
cpu_prepare(void *self, struct dev_launch *l, struct err *e)
{
	const struct cpu *c = self;

	return cpu_library_prepare(&c->libraries, l, e);
}

static void
cpu_release(void *self, struct dev_launch *l)
{
	const struct cpu *c = self;

	cpu_library_release(&c->libraries, l);
}

static bool
cpu_reads(void *self, const struct dev_kernel *k, uint32_t operand)
{
	(void)self;
	return cpu_library_reads(k, operand);
}

static size_t
cpu_kept_bytes(void *self)
{
	const struct cpu *c = self;

	return cpu_libraries_bytes(&c->libraries);
}

static void *
cpu_mem_new(void *self, size_t n_bytes)
{
	struct cpu *c = self;
	void *p;

	(void)pthread_mutex_lock(&c->memory_turn);
	p = cpu_memory_new(&c->memory, n_bytes);
	(void)pthread_mutex_unlock(&c->memory_turn);
	return p;
}

static void
cpu_mem_free(void *self, void *p, size_t n_bytes)
{
	struct cpu *c = self;

	(void)pthread_mutex_lock(&c->memory_turn);
	cpu_memory_free(&c->memory, p, n_bytes);
	(void)pthread_mutex_unlock(&c->memory_turn);
}

void
dev_cpu_keep(const struct dev *d, size_t most)
{
	struct cpu *c = d->self;

	c->memory.most = most;
}

static void
cpu_copy(void *self, void *to, const void *from, size_t n_bytes)
{
	(void)self;
	if (n_bytes)
		memcpy(to, from, n_bytes);
}

static bool
grow(char **p, size_t *have, size_t want)
{
	char *q;

	if (want <= *have)
		return true;
	q = aligned_alloc(LOCAL_STEP, want);
	if (!q)
		return false;
	memset(q, 0, want);
	free(*p);
	*p = q;
	*have = want;
	return true;
}

static bool
cpu_reserve(void *self, size_t shared_bytes, size_t local_bytes, struct err *e)
{
	struct cpu *c = self;
	size_t n = pool_threads(c->pool), locals, local_all = c->local_bytes * n;
	bool ok;

	if (shared_bytes > SIZE_MAX / 4 || local_bytes > SIZE_MAX / 4 / n)
		return err_set(
		    e, ERR_MEMORY, "a kernel asks for %zu + %zu bytes of scratch", shared_bytes, local_bytes);
	shared_bytes = (shared_bytes + LOCAL_STEP - 1) & ~(size_t)(LOCAL_STEP - 1);
	local_bytes = (local_bytes + LOCAL_STEP - 1) & ~(size_t)(LOCAL_STEP - 1);
	locals = local_bytes * n;
	(void)pthread_mutex_lock(&c->turn);
	ok = grow(&c->shared, &c->shared_bytes, shared_bytes) && grow(&c->local, &local_all, locals);
	c->local_bytes = local_all / n;
	(void)pthread_mutex_unlock(&c->turn);
	return ok || err_set(e, ERR_MEMORY, "no memory for %zu bytes of scratch", shared_bytes + locals);
}

static void
cpu_evict(void *self, const struct dev_launch *l, const size_t *n_bytes)
{
	(void)self;
	for (uint32_t b = 0; b < l->kernel->n_bufs; b++)
		if (n_bytes[b] && !(l->kernel->library && cpu_library_evict(l, b)))
			evict(l->buf[b], n_bytes[b]);
}

struct walk {
	const struct cpu *cpu;
	const struct dev_launch *launches;
	uint32_t n_launches;
	int64_t *ns;
};

static void
stamp(const struct walk *w, uint32_t at)
{
	const struct os *os;

	if (!w->ns)
		return;
	os = os_real();
	w->ns[at] = os->mono_ns(os->self);
}

/* item: the launch; part: how many of its passes have been begun. */
static bool
next_pass(void *arg, struct pool_pass *at)
{
	const struct walk *w = arg;

	while (at->item < w->n_launches && at->part == w->launches[at->item].kernel->n_passes) {
		at->part = 0;
		stamp(w, ++at->item);
	}
	if (at->item == w->n_launches)
		return false;
	at->n = w->launches[at->item].kernel->range[at->part++];
	return true;
}

static void
run_piece(void *arg, const struct pool_pass *at, uint32_t thread, int64_t lo, int64_t hi)
{
	const struct walk *w = arg;
	const struct dev_launch *l = &w->launches[at->item];
	pass_fn *fn;

	if (l->kernel->library) {
		cpu_library_run(l, w->cpu->shared, lo, hi);
		return;
	}
	memcpy(&fn, &l->kernel->pass[at->part - 1], sizeof(fn));
	fn(l->buf, w->cpu->shared, w->cpu->local + w->cpu->local_bytes * thread, lo, hi);
}

static void
cpu_run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	struct cpu *c = self;
	struct walk w = {.cpu = c, .launches = l, .n_launches = n, .ns = ns};
	const struct pool_work work = {next_pass, run_piece, &w};

	(void)pthread_mutex_lock(&c->turn);
	stamp(&w, 0);
	pool_run(c->pool, &work);
	(void)pthread_mutex_unlock(&c->turn);
}

static bool
cpu_is_short(void *self)
{
	const struct cpu *c = self;

	return pool_wanted(c->pool) < pool_threads(c->pool);
}

static void
cpu_gather(void *self)
{
	struct cpu *c = self;

	(void)pthread_mutex_lock(&c->turn);
	(void)pool_gather(c->pool); /* who gets no core has fewer threads, which is_short tells */
	(void)pthread_mutex_unlock(&c->turn);
}

static void
cpu_close(void *self)
{
	struct cpu *c = self;

	pool_close(c->pool);
	cpu_libraries_close(&c->libraries);
	cpu_memory_close(&c->memory);
	(void)pthread_mutex_destroy(&c->memory_turn);
	(void)pthread_mutex_destroy(&c->turn);
	free(c->shared);
	free(c->local);
	free(c);
}

bool
dev_cpu_open(uint32_t n_threads, bool pin, struct dev *out, struct err *e)
{
	struct cpu *c = heap_alloc(sizeof(*c));

	if (!pool_open(n_threads, pin, &c->pool, e)) {
		free(c);
		return false;
	}
	(void)pthread_mutex_init(&c->turn, NULL);
	(void)pthread_mutex_init(&c->memory_turn, NULL);
	cpu_libraries_open(&c->libraries);
	*out = (struct dev){
	    .self = c,
	    .name = "cpu",
	    .n_threads = n_threads,
	    .reads_host = true,
	    .describe = cpu_describe,
	    .load = cpu_load,
	    .unload = cpu_unload,
	    .find = cpu_find,
	    .bind = cpu_bind,
	    .unbind = cpu_unbind,
	    .prepare = cpu_prepare,
	    .release = cpu_release,
	    .reads = cpu_reads,
	    .kept_bytes = cpu_kept_bytes,
	    .mem_new = cpu_mem_new,
	    .mem_free = cpu_mem_free,
	    .put = cpu_copy,
	    .get = cpu_copy,
	    .reserve = cpu_reserve,
	    .evict = evict_is_here() ? cpu_evict : NULL,
	    .run = cpu_run,
	    .is_short = cpu_is_short,
	    .gather = cpu_gather,
	    .close = cpu_close,
	};
	return true;
}
