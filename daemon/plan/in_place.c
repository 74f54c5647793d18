/* daemon/plan/in_place.c: offsets in work memory, with results that take over an operand's
 * bytes.  Block y may become block x where y begins in the very step that reads x last, the step's
 * kernel declares the pair, and every other operand on x's bytes is declared for y as well.  Joined
 * blocks live longer, which may fit worse: the layout without them is kept where it is smaller.  A part of
 * a block (a view's operand or result) neither takes over bytes nor hands them on. */
#include "plan_int.h"

#include <string.h>

struct joining {
	struct making *m;
	uint32_t *block_of; /* place -> block that it is, or lies in; UINT32_MAX: not in work memory */
	bool *is_part;      /* place: it lies in a block with others */
	uint32_t *into;     /* block -> the one whose bytes it takes over, or itself */
	bool *is_taken;     /* block: its bytes have been taken over */
	const struct mem_order *order; /* NULL: steps run as they are numbered */
};

/* Is operand j of the kernel declared for result r? */
static bool
is_declared(const struct plan_kernel *k, uint32_t r, uint32_t j)
{
	for (uint32_t i = 0; i < k->n_overlaps; i++)
		if (k->overlaps[i].result == r && k->overlaps[i].operand == j)
			return true;
	return false;
}

/* Are all others that use the block over when step i begins? */
static bool
is_alone(const struct joining *g, const struct mem_block *b, uint32_t i)
{
	const struct mem_order *o = g->order;

	for (size_t w = 0; o && w < o->words; w++) {
		uint64_t self = w == i / 64 ? (uint64_t)1 << i % 64 : 0;

		if (b->users[w] & ~o->before[i * o->words + w] & ~self)
			return false;
	}
	return true;
}

/* May result r of step i be operand j's bytes?  *x: their block. */
static bool
may_take(const struct joining *g, uint32_t i, uint32_t r, uint32_t j, uint32_t *x)
{
	const struct plan *p = g->m->plan;
	const struct plan_step *s = &p->steps[i];
	const struct plan_kernel *k = &p->kernels[s->kernel];
	const struct place *from = &p->places[s->places[j]], *to = &p->places[s->places[k->n_operands + r]];

	*x = g->block_of[s->places[j]];
	if (*x == UINT32_MAX || g->is_part[s->places[j]] || g->is_taken[*x] || g->m->blocks[*x].last != i ||
	    from->n_bytes != to->n_bytes || from->type != to->type || from->n_bytes == 0 ||
	    !is_alone(g, &g->m->blocks[*x], i))
		return false;
	for (uint32_t q = 0; q < k->n_operands; q++)
		if (g->block_of[s->places[q]] == *x && (g->is_part[s->places[q]] || !is_declared(k, r, q)))
			return false;
	return true;
}

static void
join_step(struct joining *g, uint32_t i)
{
	const struct plan_step *s = &g->m->plan->steps[i];
	const struct plan_kernel *k = &g->m->plan->kernels[s->kernel];

	for (uint32_t r = 0; r < k->n_results; r++) {
		uint32_t y = g->block_of[s->places[k->n_operands + r]], x;

		if (y == UINT32_MAX || g->is_part[s->places[k->n_operands + r]] || g->m->blocks[y].first != i)
			continue;
		for (uint32_t j = 0; j < k->n_operands && g->into[y] == y; j++)
			if (is_declared(k, r, j) && may_take(g, i, r, j, &x)) {
				g->into[y] = x;
				g->is_taken[x] = true;
			}
	}
}

/* `to` gets users of its own: those of the single blocks stay as they are. */
static void
join_users(const struct joining *g, struct mem_block *to, const struct mem_block *b)
{
	to->last = MAX_OF(to->last, b->last);
	if (!g->order)
		return;
	to->users = arena_dup(g->m->a, to->users, sizeof(*to->users) * g->order->words);
	for (size_t w = 0; w < g->order->words; w++)
		to->users[w] |= b->users[w];
}

/* Places the blocks with those joined that are; returns the bytes needed. */
static size_t
place_joined(struct joining *g, struct mem_block *blocks)
{
	struct making *m = g->m;
	struct mem_block *root = NEW_ARRAY(m->a, struct mem_block, m->n_blocks);
	uint32_t *number = NEW_ARRAY(m->a, uint32_t, m->n_blocks), n = 0;
	size_t need;

	/* A block comes behind the one that it takes over from, as it begins later. */
	for (uint32_t b = 0; b < m->n_blocks; b++) {
		number[b] = g->into[b] == b ? n++ : number[g->into[b]];
		if (g->into[b] == b)
			root[number[b]] = blocks[b];
		else
			join_users(g, &root[number[b]], &blocks[b]);
	}
	need = mem_place(m->a, root, n, g->order);
	for (uint32_t b = 0; b < m->n_blocks; b++)
		blocks[b].offset = root[number[b]].offset;
	return need;
}

static struct joining
joining_make(struct making *m, const struct mem_order *order)
{
	struct joining g = {.m = m,
	    .order = order,
	    .block_of = NEW_ARRAY(m->a, uint32_t, m->plan->n_places),
	    .is_part = NEW_ARRAY(m->a, bool, m->plan->n_places),
	    .into = NEW_ARRAY(m->a, uint32_t, m->n_blocks),
	    .is_taken = NEW_ARRAY(m->a, bool, m->n_blocks)};

	memset(g.block_of, 0xff, sizeof(*g.block_of) * m->plan->n_places);
	for (uint32_t b = 0; b < m->n_blocks; b++) {
		g.block_of[m->block_place[b]] = b;
		g.into[b] = b;
	}
	for (uint32_t i = 0; i < m->n_sub_buffers; i++) {
		g.block_of[m->sub_buffers[i].place] = g.block_of[m->sub_buffers[i].parent];
		g.is_part[m->sub_buffers[i].place] = true;
	}
	return g;
}

static size_t
place_all(struct making *m, const struct mem_order *order)
{
	struct joining g = joining_make(m, order);
	struct mem_block *joined = arena_dup(m->a, m->blocks, sizeof(*joined) * m->n_blocks);
	size_t apart = mem_place(m->a, m->blocks, m->n_blocks, order), together;

	for (uint32_t i = 0; i < m->plan->n_steps; i++)
		join_step(&g, i);
	together = place_joined(&g, joined);
	for (uint32_t b = 0; b < m->n_blocks; b++)
		m->plan->places[m->block_place[b]].offset = (together < apart ? joined : m->blocks)[b].offset;
	return MIN_OF(apart, together);
}

/* Bytes that steps side by side share would put them in order again; a plan that would more than double for
 * it keeps its order. */
void
work_place(struct making *m)
{
	struct mem_order order;
	size_t tight = place_all(m, NULL);

	m->plan->work_bytes = tight;
	if (!side_order(m, &order))
		return;
	m->plan->work_bytes = place_all(m, &order);
	if (m->plan->work_bytes > 2 * tight)
		m->plan->work_bytes = place_all(m, NULL);
}
