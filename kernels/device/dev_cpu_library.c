/* kernels/device/dev_cpu_library.c: a CPU's kernels that a library has: from spec and schedule to a call. */
#include "dev_cpu_library.h"

#include "../vendor/cpu_library.h"
#include "evict.h"

#include <stdlib.h>
#include <string.h>

struct part { /* a block of the result's rows */
	struct library_call call;
	void *kernel;
};
struct dev_library {
	const struct cpu_library *of;
	enum library number;
	struct arena arena; /* the spec: constants by value are in it */
	struct library_call call;
	struct part *part;
	uint32_t n;
	size_t scratch; /* of a part */
};

int64_t
dev_cpu_library(enum library l)
{
	const struct cpu_library *c = cpu_library(l);
	const char *wanted = getenv("KORCH_LIBRARIES");

	return c && !(wanted && strcmp(wanted, "none") == 0) ? c->version() : 0;
}

/* ---- of a device ----------------------------------------------------------------------------------------
 */
void
cpu_libraries_open(struct cpu_libraries *l)
{
	enum isa isa;
	bool is_held = dev_cpu_is_held(&isa);

	for (int i = 0; i < LIBRARY_COUNT; i++) {
		const struct cpu_library *c = cpu_library((enum library)i);

		if (c && is_held)
			c->hold(isa);
		l->store[i] = c ? c->open() : NULL;
	}
}

void
cpu_libraries_close(struct cpu_libraries *l)
{
	for (int i = 0; i < LIBRARY_COUNT; i++)
		if (l->store[i])
			cpu_library((enum library)i)->close(l->store[i]);
}

size_t
cpu_libraries_bytes(const struct cpu_libraries *l)
{
	size_t n = 0;

	for (int i = 0; i < LIBRARY_COUNT; i++)
		if (l->store[i])
			n += cpu_library((enum library)i)->kept_bytes(l->store[i]);
	return n;
}

/* ---- of a kernel ----------------------------------------------------------------------------------------
 */
/* Versions of one major number have one interface; what was timed with another is still right. */
static bool
choose(struct str schedule, struct dev_library *out, int64_t *algo, struct err *e)
{
	int64_t asked;

	if (!library_of_schedule(schedule, &out->number, &asked, algo))
		return err_set(e, ERR_FORMAT, "schedule '%.*s' names no library", STR_ARG(schedule));
	out->of = cpu_library(out->number);
	if (!out->of)
		return err_set(e, ERR_HOST, "it is a call of %s, which this program was built without%s",
		    library_name(out->number),
		    out->number == LIBRARY_onednn ? " (cmake -DKORCH_ONEDNN=ON)" : "");
	if (out->of->version() / 10000 != asked / 10000)
		return err_set(e, ERR_HOST, "it is a call of %s %lld.x, and here is %lld.x",
		    library_name(out->number), (long long)(asked / 10000),
		    (long long)(out->of->version() / 10000));
	return true;
}

/* All parts or none; `part` is the first of n. */
static bool
bind_parts(struct dev_library *l, uint32_t n, int64_t algo, size_t *scratch, struct err *e)
{
	bool ok = true;

	*scratch = 0;
	for (l->n = 0; ok && l->n < n;) {
		struct part *p = &l->part[l->n];
		size_t each = 0;

		ok = library_call_part(&l->call, l->n, n, &p->call)
		    ? l->of->bind(&p->call, algo, &p->kernel, &each, e)
		    : err_set(e, ERR_INFEASIBLE, "library: its rows are no %u parts", n);
		l->n += ok;
		*scratch = MAX_OF(*scratch, each);
	}
	while (!ok && l->n)
		l->of->unbind(l->part[--l->n].kernel);
	return ok;
}

/* As many parts as there are threads; one where the library has no call for such parts. */
static bool
bind_all(struct dev_library *l, uint32_t n_threads, int64_t algo, struct err *e)
{
	struct err none = {0};

	l->part = NEW_ARRAY(&l->arena, struct part, n_threads);
	return (n_threads > 1 && bind_parts(l, n_threads, algo, &l->scratch, &none)) ||
	    bind_parts(l, 1, algo, &l->scratch, e);
}

bool
cpu_library_bind(
    struct str spec, struct str schedule, uint32_t n_threads, struct dev_kernel *k, struct err *e)
{
	struct dev_library *l = heap_alloc(sizeof(*l));
	struct spec s;
	int64_t algo;

	if (!choose(schedule, l, &algo, e) || !spec_read(&l->arena, spec, &s, e) ||
	    !library_call_of(&s, &l->call, e) || !bind_all(l, n_threads, algo, e)) {
		arena_fini(&l->arena);
		free(l);
		return false;
	}
	l->scratch = (l->scratch + CPU_LIBRARY_ALIGN - 1) & ~(size_t)(CPU_LIBRARY_ALIGN - 1);
	k->shared_bytes = ck_mul(l->scratch, l->n);
	k->library = l;
	k->n_passes = 1;
	k->range[0] = l->n;
	k->local_bytes = 0;
	return true;
}

void
cpu_library_unbind(struct dev_kernel *k)
{
	struct dev_library *l = k->library;

	for (uint32_t i = 0; i < l->n; i++)
		l->of->unbind(l->part[i].kernel);
	arena_fini(&l->arena);
	free(l);
}

static void
release_parts(const struct dev_library *l, void *store, void **kept)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (kept[i])
			l->of->release(l->part[i].kernel, store, kept[i]);
	free(kept);
}

bool
cpu_library_prepare(const struct cpu_libraries *all, struct dev_launch *to, struct err *e)
{
	const struct dev_library *l = to->kernel->library;
	void **kept = heap_alloc(sizeof(*kept) * l->n), *store = all->store[l->number];

	for (uint32_t i = 0; i < l->n; i++)
		if (!l->of->prepare(l->part[i].kernel, store, to->buf, &kept[i], e)) {
			release_parts(l, store, kept);
			return false;
		}
	to->kept = kept;
	return true;
}

void
cpu_library_release(const struct cpu_libraries *all, struct dev_launch *of)
{
	const struct dev_library *l = of->kernel->library;

	if (of->kept)
		release_parts(l, all->store[l->number], of->kept);
}

bool
cpu_library_reads(const struct dev_kernel *k, uint32_t operand)
{
	const struct dev_library *l = k->library;
	bool reads = false;

	for (uint32_t i = 0; i < l->n && !reads; i++)
		reads = l->of->reads(l->part[i].kernel, operand);
	return reads;
}

bool
cpu_library_evict(const struct dev_launch *launch, uint32_t operand)
{
	const struct dev_library *l = launch->kernel->library;
	void *const *kept = launch->kept;
	bool found = false;

	for (uint32_t i = 0; i < l->n; i++) {
		const void *at;
		size_t n;

		if (!l->of->kept_at(l->part[i].kernel, kept[i], operand, &at, &n))
			continue;
		found = true;
		evict(at, n);
	}
	return found;
}

void
cpu_library_run(const struct dev_launch *launch, char *scratch, int64_t lo, int64_t hi)
{
	const struct dev_library *l = launch->kernel->library;
	void *const *kept = launch->kept;

	for (int64_t i = lo; i < hi; i++)
		l->of->run(l->part[i].kernel, launch->buf, kept[i], scratch + l->scratch * (size_t)i);
}
