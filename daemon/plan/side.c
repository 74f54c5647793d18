/* daemon/plan/side.c: the order that remains between a GPU's steps when they run on streams by what
 * they read alone, before any bytes are shared: memory that is laid out by it puts none of them in order
 * again. */
#include "plan_int.h"

#include "../../kernels/run/exec.h"
#include "../../kernels/device/streams.h"

/* Every place is a region of its own as yet. */
static void
list_uses(struct making *m, struct step_uses *u)
{
	const struct plan *p = m->plan;
	uint32_t n = 0, cap = 0;

	*u = (struct step_uses){
	    .first = NEW_ARRAY(m->a, uint32_t, (size_t)p->n_steps + 1), .n_steps = p->n_steps};
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];

		for (uint32_t j = 0; j < s->n_places; j++) {
			enum place_kind kind = p->places[s->places[j]].kind;

			if (kind != PLACE_WORK && kind != PLACE_OUTPUT)
				continue;
			GROW(m->a, u->use, n, cap);
			u->use[n++] = (struct step_use){.region = s->places[j],
			    .to = 1,
			    .is_written = j >= p->kernels[s->kernel].n_operands};
		}
		u->first[i + 1] = n;
	}
}

static void
take(uint64_t *before, size_t words, uint32_t i, uint32_t j)
{
	for (size_t w = 0; w < words; w++)
		before[i * words + w] |= before[j * words + w];
	before[i * words + j / 64] |= (uint64_t)1 << j % 64;
}

/* By streams and waits. */
static uint64_t *
close_order(struct arena *a, const struct streams *s, size_t words)
{
	uint64_t *before = NEW_ARRAY(a, uint64_t, ck_mul(words, s->n_steps));
	uint32_t last[STREAMS_MAX] = {0}; /* counted from 1 */

	for (uint32_t i = 0; i < s->n_steps; i++) {
		uint32_t *own = &last[s->stream[i]];

		if (*own)
			take(before, words, i, *own - 1);
		*own = i + 1;
		for (uint32_t k = s->waits.first[i]; k < s->waits.first[i + 1]; k++)
			take(before, words, i, s->waits.item[k]);
	}
	return before;
}

static void
list_users(struct making *m, const struct step_uses *u, size_t words)
{
	uint32_t *block_of = NEW_ARRAY(m->a, uint32_t, m->plan->n_places); /* counted from 1 */

	for (uint32_t b = 0; b < m->n_blocks; b++) {
		m->blocks[b].users = NEW_ARRAY(m->a, uint64_t, words);
		block_of[m->block_place[b]] = b + 1;
	}
	for (uint32_t i = 0; i < m->n_sub_buffers; i++)
		block_of[m->sub_buffers[i].place] = block_of[m->sub_buffers[i].parent];
	for (uint32_t i = 0; i < u->n_steps; i++)
		for (uint32_t k = u->first[i]; k < u->first[i + 1]; k++)
			if (block_of[u->use[k].region])
				m->blocks[block_of[u->use[k].region] - 1].users[i / 64] |= (uint64_t)1
				    << i % 64;
}

bool
side_order(struct making *m, struct mem_order *out)
{
	const struct plan *p = m->plan;
	size_t words = ((size_t)p->n_steps + 63) / 64;
	struct step_uses u;
	struct step_links deps;
	struct streams s;
	int64_t *cost_ns = NEW_ARRAY(m->a, int64_t, p->n_steps);

	if (!plan_wants_gpu(p) || p->n_steps > STREAMS_MAX_STEPS)
		return false;
	list_uses(m, &u);
	if (u.first[p->n_steps] > STREAMS_MAX_USES)
		return false;
	for (uint32_t i = 0; i < p->n_steps; i++)
		cost_ns[i] = p->kernels[p->steps[i].kernel].cost_ns;
	streams_depend(m->a, &u, &deps);
	streams_assign(m->a, &deps, cost_ns, p->n_steps, STREAMS_DEFAULT, &s);
	if (s.n_streams == 1)
		return false;
	*out = (struct mem_order){close_order(m->a, &s, words), words};
	list_users(m, &u, words);
	return true;
}
