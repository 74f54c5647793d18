/* kernels/run/cpu_library.c: a CPU's kernels that a library has: from spec and schedule to a call. */
#include "cpu_library.h"

#include <stdlib.h>
#include <string.h>

struct dev_library {
	const struct cpu_library *of;
	enum library number;
	struct arena arena; /* the spec: constants by value are in it */
	struct library_call call;
	void *kernel;
};

const struct cpu_library *
cpu_library(enum library l)
{
#ifdef KORCH_ONEDNN
	if (l == LIBRARY_onednn)
		return &cpu_onednn;
#endif
	(void)l;
	return NULL;
}

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
	for (int i = 0; i < LIBRARY_COUNT; i++) {
		const struct cpu_library *c = cpu_library((enum library)i);

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

bool
cpu_library_bind(struct str spec, struct str schedule, struct dev_kernel *k, struct err *e)
{
	struct dev_library *l = heap_alloc(sizeof(*l));
	struct spec s;
	int64_t algo;

	if (!choose(schedule, l, &algo, e) || !spec_read(&l->arena, spec, &s, e) ||
	    !library_call_of(&s, &l->call, e) ||
	    !l->of->bind(&l->call, algo, &l->kernel, &k->shared_bytes, e)) {
		arena_fini(&l->arena);
		free(l);
		return false;
	}
	k->library = l;
	k->n_passes = 1;
	k->range[0] = 1;
	k->local_bytes = 0;
	return true;
}

void
cpu_library_unbind(struct dev_kernel *k)
{
	struct dev_library *l = k->library;

	l->of->unbind(l->kernel);
	arena_fini(&l->arena);
	free(l);
}

bool
cpu_library_prepare(const struct cpu_libraries *all, struct dev_launch *to, struct err *e)
{
	const struct dev_library *l = to->kernel->library;

	return l->of->prepare(l->kernel, all->store[l->number], to->buf, &to->kept, e);
}

void
cpu_library_release(const struct cpu_libraries *all, struct dev_launch *of)
{
	const struct dev_library *l = of->kernel->library;

	if (of->kept)
		l->of->release(l->kernel, all->store[l->number], of->kept);
}

bool
cpu_library_reads(const struct dev_kernel *k, uint32_t operand)
{
	return k->library->of->reads(k->library->kernel, operand);
}

void
cpu_library_run(const struct dev_launch *l, char *scratch)
{
	const struct dev_library *lib = l->kernel->library;

	lib->of->run(lib->kernel, l->buf, l->kept, scratch);
}
