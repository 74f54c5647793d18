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

		if (m->p->host_of[operand] == result)
			m->is_guest[operand] = true;
		else
			m->is_guest[result] = true;
	}
}

void
views_settle(struct making *m)
{
	const struct blp *b = &m->p->blp;
	bool *is_made = NEW_ARRAY(m->a, bool, b->n_tensors);
	uint32_t n = 0;

	m->is_guest = NEW_ARRAY(m->a, bool, b->n_tensors);
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
guest_place(struct making *m, uint32_t class, uint32_t step)
{
	struct guest g = {.at = 0};
	uint32_t host = class;

	for (; m->is_guest[host]; host = m->p->host_of[host])
		g.at += m->p->at[host];
	if (m->place_of[host] == UINT32_MAX)
		m->place_of[host] = making_add_block(m, host, step);
	g.host = m->place_of[host];
	g.place = making_add_class(m, class, m->plan->places[g.host].kind, m->plan->places[g.host].index);
	GROW(m->a, m->guests, m->n_guests, m->cap_guests);
	m->guests[m->n_guests++] = g;
	return g.place;
}

uint32_t
host_place(const struct making *m, uint32_t place)
{
	for (uint32_t i = 0; i < m->n_guests; i++)
		if (m->guests[i].place == place)
			return m->guests[i].host;
	return place;
}

void
guests_place(struct making *m)
{
	for (uint32_t i = 0; i < m->n_guests; i++) {
		const struct guest *g = &m->guests[i];

		m->plan->places[g->place].offset = m->plan->places[g->host].offset + g->at;
	}
}
