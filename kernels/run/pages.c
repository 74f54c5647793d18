/* kernels/run/pages.c: a library keeps a constant in its own form, and reads the plan's bytes of it never
 * again: such pages are given back to the system as soon as the last step that packs them is prepared, so
 * that no two copies of all weights are in memory at any time. */
#include "pages.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static bool
reads(const struct dev *d, const struct dev_kernel *k, uint32_t operand)
{
	return !k->library || !d->reads || d->reads(d->self, k, operand);
}

/* The place's bytes are read in turn i, or for good. */
static void
note(const struct pages *g, const struct plan *p, const struct place *at, uint32_t i)
{
	const char *from = (const char *)p->constants.p + at->offset, *to = from + at->n_bytes;
	size_t lo, hi;

	if (at->kind != PLACE_CONST || !at->n_bytes || to <= g->first)
		return;
	lo = from <= g->first ? 0 : (size_t)(from - g->first) / g->size;
	hi = MIN_OF(((size_t)(to - g->first) + g->size - 1) / g->size, g->n);
	for (size_t k = lo; k < hi; k++)
		if (g->last[k] < i)
			g->last[k] = i;
}

struct turn {
	size_t at; /* of the largest constant that is packed */
	uint32_t step;
};

static int
by_constant(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->step > y->step) - (x->step < y->step);
}

static struct turn
turn_of(const struct dev *d, const struct plan *p, const struct dev_kernel *kernels, uint32_t step)
{
	const struct plan_step *s = &p->steps[step];
	struct turn t = {.step = step};
	size_t most = 0;

	for (uint32_t j = 0; j < p->kernels[s->kernel].n_operands; j++) {
		const struct place *at = &p->places[s->places[j]];

		if (at->kind != PLACE_CONST || at->n_bytes <= most || reads(d, &kernels[s->kernel], j))
			continue;
		most = at->n_bytes;
		t.at = at->offset;
	}
	return t;
}

static uint32_t *
order_of(struct arena *a, const struct dev *d, const struct plan *p, const struct dev_kernel *kernels)
{
	uint32_t *order = NEW_ARRAY(a, uint32_t, p->n_steps);
	struct arena tmp = {0};
	struct turn *t = NEW_ARRAY(&tmp, struct turn, p->n_steps);

	for (uint32_t i = 0; i < p->n_steps; i++)
		t[i] = turn_of(d, p, kernels, i);
	if (p->n_steps)
		qsort(t, p->n_steps, sizeof(*t), by_constant);
	for (uint32_t i = 0; i < p->n_steps; i++)
		order[i] = t[i].step;
	arena_fini(&tmp);
	return order;
}

void
pages_open(struct arena *a, const struct dev *d, const struct plan *p, const struct dev_kernel *kernels,
    bool drops, struct pages *out)
{
	long size = sysconf(_SC_PAGESIZE);
	size_t skipped;

	*out = (struct pages){.size = size > 0 ? (size_t)size : 4096, .order = order_of(a, d, p, kernels)};
	skipped = -(uintptr_t)p->constants.p & (out->size - 1);
	if (!drops || p->constants.n < skipped + out->size)
		return;
	out->first = (char *)(uintptr_t)(p->constants.p + skipped);
	out->n = (p->constants.n - skipped) / out->size;
	out->last = NEW_ARRAY(a, uint32_t, out->n);
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[out->order[i]];

		for (uint32_t j = 0; j < p->kernels[s->kernel].n_operands; j++)
			note(out, p, &p->places[s->places[j]],
			    reads(d, &kernels[s->kernel], j) ? PAGES_FOR_GOOD : i);
	}
	for (uint32_t i = 0; i < p->n_copies; i++)
		note(out, p, &p->places[p->copies[i].from], PAGES_FOR_GOOD);
}

/* Pages lo to hi read as zeros from now on; refused, they only stay. */
static void
give_back(const struct pages *g, size_t lo, size_t hi)
{
	if (lo < hi)
		(void)madvise(g->first + lo * g->size, (hi - lo) * g->size, MADV_DONTNEED);
}

void
pages_drop(const struct pages *g, uint32_t turn)
{
	size_t from = 0;

	for (size_t k = 0; k <= g->n; k++)
		if (k == g->n || g->last[k] != turn) {
			give_back(g, from, k);
			from = k + 1;
		}
}
