/* tests/harness/library.c: see library.h. */
#include "library.h"

char *
library_schedule(struct arena *a, uint32_t algo)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "lib=");
	library_print(&sb, LIBRARY_onednn, dev_cpu_library(LIBRARY_onednn));
	if (algo)
		sb_addf(&sb, " algo=%u", algo);
	return sb.p;
}

bool
library_open(const struct dev *d, const struct test_kernel *k, struct test_library *out, struct err *e)
{
	const struct kernel_name name = {STR("k"), k->spec.text, k->schedule};

	*out = (struct test_library){.dev = d,
	    .kernel = {.n_bufs = k->spec.g.n_inputs + k->spec.g.n_outputs},
	    .launch = {.buf = k->buf}};
	out->launch.kernel = &out->kernel;
	if (!dev_find(d, NULL, &name, &out->kernel, e))
		return false;
	if (d->reserve(d->self, out->kernel.shared_bytes, out->kernel.local_bytes, e) &&
	    dev_prepare(d, &out->launch, e))
		return true;
	dev_lose(d, &out->kernel);
	return false;
}

void
library_run(const struct test_library *l)
{
	l->dev->run(l->dev->self, &l->launch, 1, NULL);
}

void
library_close(struct test_library *l)
{
	dev_release(l->dev, &l->launch);
	dev_lose(l->dev, &l->kernel);
}
