/* kernels/device/find.c: a kernel on a device, whether its code is generated or a library's. */
#include "dev.h"

#include <stdio.h>

bool
dev_find(const struct dev *d, struct dev_module *m, const struct kernel_name *n, struct dev_kernel *k,
    struct err *e)
{
	enum library l;
	int64_t version, algo;
	char symbol[160];

	(void)snprintf(symbol, sizeof(symbol), "%.*s", STR_ARG(n->symbol));
	if (!library_of_schedule(n->schedule, &l, &version, &algo) ||
	    (m && d->holds && d->holds(d->self, m, symbol)))
		return d->find(d->self, m, symbol, k, e);
	if (!d->bind)
		return err_set(e, ERR_HOST, "a kernel is a call of %s, and device %s has no libraries here",
		    library_name(l), d->name);
	return d->bind(d->self, n->spec, n->schedule, k, e);
}

void
dev_lose(const struct dev *d, struct dev_kernel *k)
{
	if (k->library)
		d->unbind(d->self, k);
	k->library = NULL;
}

bool
dev_binds(const struct dev *d, const struct kernel_name *n, struct err *e)
{
	struct dev_kernel k = {.n_passes = 1};
	bool ok = dev_find(d, NULL, n, &k, e);

	dev_lose(d, &k);
	return ok;
}

bool
dev_prepare(const struct dev *d, struct dev_launch *l, struct err *e)
{
	return !l->kernel->library || d->prepare(d->self, l, e);
}

void
dev_release(const struct dev *d, struct dev_launch *l)
{
	if (l->kernel && l->kernel->library)
		d->release(d->self, l);
	l->kept = NULL;
}
