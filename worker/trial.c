/* worker/trial.c: see trial.h. */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };
static const unsigned char guard_byte = 0xa7;

static size_t
tensor_bytes_of(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a spec with a tensor that does not fit");
	return n;
}

/* What lies between the guards is the caller's to write. */
static bool
guarded_make(const struct dev *d, size_t n_bytes, struct guarded *out, struct err *e)
{
	*out = (struct guarded){d, d->mem_new(d->self, n_bytes + 2 * GUARD), NULL, n_bytes};
	if (!out->base)
		return err_set(e, ERR_MEMORY, "no memory for %zu bytes of a kernel's buffer", n_bytes);
	out->image = d->reads_host ? out->base : heap_alloc(n_bytes + 2 * GUARD);
	memset(out->image, guard_byte, GUARD);
	memset(out->image + GUARD + n_bytes, guard_byte, GUARD);
	return true;
}

void
guarded_drop(struct guarded *g)
{
	if (g->image != g->base)
		free(g->image);
	if (g->base)
		g->dev->mem_free(g->dev->self, g->base, g->n_bytes + 2 * GUARD);
	g->base = g->image = NULL;
}

/* The image to the device, or back; nothing where they are one. */
static void
guarded_move(struct guarded *g, bool back)
{
	size_t n = g->n_bytes + 2 * GUARD;

	if (g->image == g->base)
		return;
	if (back)
		g->dev->get(g->dev->self, g->image, g->base, n);
	else
		g->dev->put(g->dev->self, g->base, g->image, n);
}

static bool
guards_hold(const struct guarded *g)
{
	for (size_t i = 0; i < GUARD; i++)
		if ((unsigned char)g->image[i] != guard_byte ||
		    (unsigned char)g->image[GUARD + g->n_bytes + i] != guard_byte)
			return false;
	return true;
}

bool
trial_make(const struct spec *s, void *const *operands, const struct dev *d, const struct kernel_code *code,
    struct arena *tmp, struct trial *t, struct err *e)
{
	const struct graph *g = &s->g;

	*t = (struct trial){.n_in = g->n_inputs, .n = g->n_inputs + g->n_outputs};
	t->buf = NEW_ARRAY(tmp, struct guarded, t->n);
	t->ptr = NEW_ARRAY(tmp, void *, t->n);
	t->at = NEW_ARRAY(tmp, void *, t->n);
	t->before = NEW_ARRAY(tmp, void *, t->n);
	for (uint32_t i = 0; i < t->n; i++) {
		bool is_in = i < t->n_in;
		const struct tensor *x = graph_tensor(g, is_in ? g->inputs[i] : g->outputs[i - t->n_in]);
		const struct pack *p = is_in ? descriptor_pack(&code->desc, i) : NULL;
		size_t n = p ? pack_bytes(p, x->type) : tensor_bytes_of(x);

		if (!guarded_make(d, n, &t->buf[i], e))
			return false;
		t->ptr[i] = t->buf[i].image + GUARD;
		t->at[i] = t->buf[i].base + GUARD;
		if (!is_in) {
			memset(t->ptr[i], 0xff, n);
			continue;
		}
		t->before[i] = p ? arena_alloc(tmp, n) : operands[i];
		if (p)
			pack_apply(p, x, operands[i], t->before[i]);
		if (n)
			memcpy(t->ptr[i], t->before[i], n);
	}
	return true;
}

bool
trial_is_clean(const struct trial *t, struct err *e)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const char *what = i < t->n_in ? "operand" : "output";
		uint32_t number = i < t->n_in ? i : i - t->n_in;

		if (!guards_hold(&t->buf[i]))
			return err_set(e, ERR_WRONG, "it writes outside %s %u", what, number);
		if (i < t->n_in && t->buf[i].n_bytes &&
		    memcmp(t->ptr[i], t->before[i], t->buf[i].n_bytes) != 0)
			return err_set(e, ERR_WRONG, "it writes into operand %u", number);
	}
	return true;
}

bool
trial_run(const struct dev *d, const struct dev_kernel *k, struct trial *t, struct err *e)
{
	struct dev_launch l = {.kernel = k, .buf = t->at};
	bool is_lost;

	for (uint32_t i = 0; i < t->n; i++)
		guarded_move(&t->buf[i], false);
	if (!dev_prepare(d, &l, e))
		return false;
	d->run(d->self, &l, 1, NULL);
	dev_release(d, &l);
	for (uint32_t i = 0; i < t->n; i++)
		guarded_move(&t->buf[i], true);
	return !d->fault || d->fault(d->self, &is_lost, e);
}

struct guarded *
trial_give_outputs(struct trial *t, struct arena *a)
{
	struct guarded *of = NEW_ARRAY(a, struct guarded, t->n - t->n_in);

	for (uint32_t i = t->n_in; i < t->n; i++) {
		of[i - t->n_in] = t->buf[i];
		t->buf[i] = (struct guarded){0};
	}
	return of;
}

const void *
guarded_host(const struct guarded *g)
{
	return g->image + GUARD;
}

void
trial_drop(struct trial *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		guarded_drop(&t->buf[i]);
}
