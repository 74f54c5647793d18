/* daemon/plan/plan_consts.c: the constants region.  A weight is stored in the form that its
 * kernel reads; two operands with equal bytes and equal form share one stretch, whichever kernels
 * and layers they belong to. */
#include "plan_int.h"

#include <string.h>

static bool
same_stretch(const struct stretch *a, const struct stretch *b)
{
	if (a->hash != b->hash || a->n_data != b->n_data || a->tensor->type != b->tensor->type ||
	    !pack_same_form(a->pack, b->pack))
		return false;
	return a->data == b->data || a->n_data == 0 || memcmp(a->data, b->data, a->n_data) == 0;
}

static const struct stretch *
find_stretch(struct making *m, struct stretch want)
{
	struct stretches *c = &m->consts;

	for (uint32_t i = 0; i < c->n; i++)
		if (same_stretch(&c->s[i], &want))
			return &c->s[i];
	GROW(m->a, c->s, c->n, c->cap);
	want.offset = c->n_bytes;
	c->n_bytes = ck_add(c->n_bytes, ck_add(want.n_bytes, PLAN_ALIGN - 1) & ~(size_t)(PLAN_ALIGN - 1));
	c->s[c->n] = want;
	return &c->s[c->n++];
}

uint32_t
consts_place(struct making *m, const struct tensor *t, const void *data, const struct pack *pack,
    uint32_t graph_tensor)
{
	struct stretch want = {.data = data, .tensor = t, .pack = pack};
	const struct stretch *s;

	if (!shape_bytes(&t->shape, t->type, &want.n_data))
		bug("a weight of no size");
	want.hash = hash64(data, want.n_data, 0);
	want.n_bytes = pack ? pack_bytes(pack, t->type) : want.n_data;
	s = find_stretch(m, want);
	for (uint32_t i = 0; i < m->plan->n_places; i++) {
		const struct place *old = &m->plan->places[i];

		if (old->kind == PLACE_CONST && old->offset == s->offset && old->n_bytes == s->n_bytes &&
		    old->tensor == graph_tensor && shape_eq(&old->shape, &t->shape))
			return i;
	}
	return making_add_place(m,
	    (struct place){.kind = PLACE_CONST,
		.offset = s->offset,
		.n_bytes = s->n_bytes,
		.type = t->type,
		.shape = t->shape,
		.tensor = graph_tensor});
}

void
consts_fill(struct making *m)
{
	uint8_t *p = arena_alloc(m->a, m->consts.n_bytes);

	for (uint32_t i = 0; i < m->consts.n; i++) {
		const struct stretch *s = &m->consts.s[i];

		if (s->pack)
			pack_apply(s->pack, s->tensor, s->data, p + s->offset);
		else if (s->n_data)
			memcpy(p + s->offset, s->data, s->n_data);
	}
	m->plan->constants = (struct bytes){p, m->consts.n_bytes};
}
