/* daemon/plan/plan_view.c: places of classes that lie in the bytes of others.
 *
 * Only what a chosen view needs is laid out so, and only where the view is the first to make its result:
 * a kernel that makes a concat's result reads its parts, and must not find them where it writes.  A view
 * whose result is there already is left out of the plan. */
#include "plan_int.h"

#include <string.h>

static bool
is_view(const struct making *m, uint32_t cand)
{
	return cand_is_view(m->in->cands, m->in->cands->cands[cand].spec);
}

/* What lies in the view's result, or its result in what it reads, does so in this plan. */
static void
settle(struct making *m, const struct cand *c)
{
	uint32_t result = m->p->class_of[c->bind.results[0].i];

	for (uint32_t i = 0; i < c->bind.n_operands; i++) {
		uint32_t operand = m->p->class_of[c->bind.operands[i].i];

		if (m->p->parent_of[operand] == result)
			m->is_sub_buffer[operand] = true;
		else
			m->is_sub_buffer[result] = true;
	}
}

void
views_settle(struct making *m)
{
	const struct blp *b = &m->p->blp;
	bool *is_made = NEW_ARRAY(m->a, bool, b->n_tensors);
	uint32_t n = 0;

	m->is_sub_buffer = NEW_ARRAY(m->a, bool, b->n_tensors);
	for (uint32_t i = 0; i < b->n_given; i++)
		is_made[b->given[i]] = true;
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t k = m->order[i];

		if (is_view(m, k) && is_made[b->kernels[k].out[0]])
			continue;
		if (is_view(m, k))
			settle(m, &m->in->cands->cands[k]);
		for (uint32_t j = 0; j < b->kernels[k].n_out; j++)
			is_made[b->kernels[k].out[j]] = true;
		m->order[n++] = k;
	}
	m->n = n;
}

uint32_t
sub_buffer_place(struct making *m, uint32_t class, uint32_t step)
{
	struct sub_buffer g = {.at = 0};
	uint32_t parent = class;

	for (; m->is_sub_buffer[parent]; parent = m->p->parent_of[parent])
		g.at += m->p->at[parent];
	if (m->place_of[parent] == UINT32_MAX)
		m->place_of[parent] = making_add_block(m, parent, step);
	g.parent = m->place_of[parent];
	g.place = making_add_class(m, class, m->plan->places[g.parent].kind, m->plan->places[g.parent].index);
	GROW(m->a, m->sub_buffers, m->n_sub_buffers, m->cap_sub_buffers);
	m->sub_buffers[m->n_sub_buffers++] = g;
	return g.place;
}

uint32_t
parent_place(const struct making *m, uint32_t place)
{
	for (uint32_t i = 0; i < m->n_sub_buffers; i++)
		if (m->sub_buffers[i].place == place)
			return m->sub_buffers[i].parent;
	return place;
}

void
sub_buffers_place(struct making *m)
{
	for (uint32_t i = 0; i < m->n_sub_buffers; i++) {
		const struct sub_buffer *g = &m->sub_buffers[i];

		m->plan->places[g->place].offset = m->plan->places[g->parent].offset + g->at;
	}
}
