/* kernels/run/cpu_library.c: a CPU's kernels that a library has: from spec and schedule to a call. */
#include "cpu_library.h"

#include <stdlib.h>
#include <string.h>

struct dev_library {
	const struct cpu_library *of;
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

/* Versions of one major number have one interface; what was timed with another is still right. */
static bool
choose(struct str schedule, const struct cpu_library **out, int64_t *algo, struct err *e)
{
	enum library l;
	int64_t asked;

	if (!library_of_schedule(schedule, &l, &asked, algo))
		return err_set(e, ERR_FORMAT, "schedule '%.*s' names no library", STR_ARG(schedule));
	*out = cpu_library(l);
	if (!*out)
		return err_set(e, ERR_HOST, "it is a call of %s, which this program was built without%s",
		    library_name(l), l == LIBRARY_onednn ? " (cmake -DKORCH_ONEDNN=ON)" : "");
	if ((*out)->version() / 10000 != asked / 10000)
		return err_set(e, ERR_HOST, "it is a call of %s %lld.x, and here is %lld.x", library_name(l),
		    (long long)(asked / 10000), (long long)((*out)->version() / 10000));
	return true;
}

bool
cpu_bind(void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e)
{
	struct dev_library *l = heap_alloc(sizeof(*l));
	struct spec s;
	int64_t algo;

	(void)self;
	if (!choose(schedule, &l->of, &algo, e) || !spec_read(&l->arena, spec, &s, e) ||
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
cpu_unbind(void *self, struct dev_kernel *k)
{
	struct dev_library *l = k->library;

	(void)self;
	l->of->unbind(l->kernel);
	arena_fini(&l->arena);
	free(l);
}

bool
cpu_prepare(void *self, struct dev_launch *l, struct err *e)
{
	(void)self;
	return l->kernel->library->of->prepare(l->kernel->library->kernel, l->buf, &l->kept, e);
}

void
cpu_release(void *self, struct dev_launch *l)
{
	(void)self;
	if (l->kept)
		l->kernel->library->of->release(l->kept);
}

void
cpu_library_run(const struct dev_launch *l, char *scratch)
{
	const struct dev_library *lib = l->kernel->library;

	lib->of->run(lib->kernel, l->buf, l->kept, scratch);
}
