/* kernels/sass/graph.c: the static graph of distances of a kernel: edges between instructions of a block, and
 * what each block may rely on at its beginning (border.c). */
#include "border.h"
#include "sched_int.h"

#include <string.h>

/* ---- indices --------------------------------------------------------------------------------------------
 */
/* Lists by instruction of what has the number `of(item)`. */
static void
index_make(struct arena *a, const uint32_t *of, uint32_t stride, uint32_t n_items, uint32_t n,
    struct sass_index *out)
{
	uint32_t *fill = NEW_ARRAY(a, uint32_t, n + 1);

	out->at = NEW_ARRAY(a, uint32_t, n + 1);
	out->list = NEW_ARRAY(a, uint32_t, n_items + 1);
	for (uint32_t i = 0; i < n_items; i++)
		out->at[of[(size_t)i * stride] + 1]++;
	for (uint32_t i = 0; i < n; i++)
		out->at[i + 1] += out->at[i];
	memcpy(fill, out->at, (n + 1) * sizeof(*fill));
	for (uint32_t i = 0; i < n_items; i++)
		out->list[fill[of[(size_t)i * stride]]++] = i;
}

/* ---- edges ------------------------------------------------------------------------------------------------
 */
struct edges {
	struct arena *a;
	const struct sass_kernel *k;
	const struct sass_graph *b;
	struct sass_edge *edge;
	uint32_t n, cap;
};

static void
add(struct edges *s, uint32_t first, uint32_t second, uint32_t need, uint8_t rule)
{
	if (need <= 1)
		return;
	GROW(s->a, s->edge, s->n, s->cap);
	s->edge[s->n++] = (struct sass_edge){first, second, (uint8_t)need, rule};
}

/* What is only kept is not read: that both write it says how far apart they are. */
static bool
is_kept(const struct sass_dep *d, const struct sass_instr *first, const struct sass_instr *second)
{
	struct sass_tie tie[SASS_TIES];

	return d->keeps && d->kind != SASS_LAT_waw &&
	    sass_ties(first, second, d->kind, d->resource, tie) == 1 && tie[0].slot == SASS_SLOT_d;
}

/* What a barrier guards is nobody's fixed latency; but a fixed one is waited for by whoever comes. */
static void
take(void *self, const struct sass_dep *d)
{
	struct edges *s = self;
	const struct sass_instr *first = &s->k->instr[d->first], *second = &s->k->instr[d->second];

	if (d->kind == SASS_LAT_pipe || (first->flags & SASS_VARIABLE) || is_kept(d, first, second))
		return;
	const uint32_t seen = sass_lat(s->k->sm, first, second, d->kind, d->resource);
	const uint32_t known = seen == SASS_UNSEEN ? SASS_FAR : seen;

	add(s, d->first, d->second, MIN_OF(known, d->cycles), 0);
}

static void
take_barriers(struct edges *s, const struct sass_block *b)
{
	uint32_t setter[SASS_BARRIERS];

	memset(setter, 0xff, sizeof(setter));
	for (uint32_t at = b->first; at < b->end; at++) {
		const struct sass_instr *i = &s->k->instr[at];

		for (unsigned x = 0; x < SASS_BARRIERS; x++)
			if ((i->wait >> x & 1) && setter[x] != UINT32_MAX)
				add(s, setter[x], at,
				    MIN_OF(s->b->clock[at] - s->b->clock[setter[x]], (uint32_t)SASS_SETTLE),
				    SASS_RULE_settles);
		if (i->write_barrier < SASS_BARRIERS)
			setter[i->write_barrier] = at;
		if (i->read_barrier < SASS_BARRIERS)
			setter[i->read_barrier] = at;
	}
}

static void
make_edges(struct arena *a, const struct sass_kernel *k, struct sass_graph *b)
{
	struct edges s = {.a = a, .k = k, .b = b};

	for (uint32_t n = 0; n < k->n_blocks; n++) {
		sass_deps_each(k, &k->block[n], take, &s);
		take_barriers(&s, &k->block[n]);
	}
	b->edge = s.edge;
	b->n_edges = s.n;
	if (s.n == 0)
		s.edge = NEW(a, struct sass_edge);
	index_make(a, &s.edge->first, sizeof(*s.edge) / 4, s.n, k->n_instr, &b->by_first);
	index_make(a, &s.edge->second, sizeof(*s.edge) / 4, s.n, k->n_instr, &b->by_second);
}

/* ---- pipes ------------------------------------------------------------------------------------------------
 */
static uint8_t
pipe_need(int sm, const struct sass_instr *first, const struct sass_instr *second)
{
	const uint32_t seen = sass_lat(sm, first, second, SASS_LAT_pipe, 0);

	return (uint8_t)(seen == SASS_UNSEEN ? SASS_QUEUE_FAR : MIN_OF(seen, (uint32_t)SASS_QUEUE_FAR));
}

/* Keys get small numbers; the last number is all that do not fit. */
static uint32_t
number_keys(
    const struct sass_kernel *k, struct sass_graph *b, uint32_t of[SASS_KEYS], uint8_t queue[SASS_KEYS])
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < k->n_instr; at++) {
		const uint16_t key = sass_lat_key(&k->instr[at]);
		uint32_t i = 0;

		b->queue[at] = (uint8_t)sass_queue(&k->instr[at]);
		while (i < n && sass_lat_key(&k->instr[of[i]]) != key)
			i++;
		if (i == n && n < SASS_KEYS - 1) {
			queue[n] = b->queue[at];
			of[n++] = at;
		}
		b->key[at] = (uint8_t)i;
	}
	return n;
}

static void
make_pipes(struct arena *a, const struct sass_kernel *k, struct sass_graph *b)
{
	uint32_t of[SASS_KEYS]; /* an instruction with that key */
	uint8_t queue[SASS_KEYS];

	b->key = NEW_ARRAY(a, uint8_t, k->n_instr);
	b->queue = NEW_ARRAY(a, uint8_t, k->n_instr);
	b->pipe = arena_alloc(a, sizeof(*b->pipe) * SASS_KEYS);
	const uint32_t n = number_keys(k, b, of, queue);

	memset(b->pipe, SASS_QUEUE_FAR, sizeof(*b->pipe) * SASS_KEYS);
	memset(b->hardest_in, SASS_QUEUE_FAR, sizeof(b->hardest_in));
	memset(b->hardest_out, SASS_QUEUE_FAR, sizeof(b->hardest_out));
	for (uint32_t i = 0; i < n; i++) {
		b->hardest_in[i] = b->hardest_out[i] = 0;
		for (uint32_t j = 0; j < n; j++)
			b->pipe[i][j] = pipe_need(k->sm, &k->instr[of[i]], &k->instr[of[j]]);
		for (uint32_t j = 0; j < n; j++)
			if (queue[j] == queue[i]) {
				b->hardest_out[i] = MAX_OF(b->hardest_out[i], b->pipe[i][j]);
				b->hardest_in[i] = MAX_OF(
				    b->hardest_in[i], pipe_need(k->sm, &k->instr[of[j]], &k->instr[of[i]]));
			}
	}
}

/* ---- reuse flags
 * -------------------------------------------------------------------------------------------- */
/* Followers up to the last one that may read what the flags keep: a register of the same number. */
static uint32_t
span_of(const struct sass_kernel *k, uint32_t at, uint32_t end)
{
	const struct sass_instr *i = &k->instr[at];
	const unsigned place[3] = {24, 32, 64};
	uint32_t span = 0;

	for (unsigned s = 0; s < 3; s++) {
		const uint64_t word = place[s] < 64 ? i->lo : i->hi;
		const uint32_t r = (uint32_t)(word >> (place[s] & 63) & 0xff);
		uint32_t n = 1;

		if (!(i->reuse >> s & 1))
			continue;
		while (at + n < end && n < SASS_REUSE_SPAN &&
		    !(r < SASS_RZ && k->instr[at + n].uses.r[r >> 6] >> (r & 63) & 1))
			n++;
		span = MAX_OF(span, n);
	}
	return MAX_OF(span, i->reuse ? 1U : 0U);
}

static void
make_clocks(struct arena *a, const struct sass_kernel *k, struct sass_graph *b)
{
	b->clock = NEW_ARRAY(a, uint32_t, k->n_instr);
	b->block = NEW_ARRAY(a, uint32_t, k->n_instr);
	b->fixed = NEW_ARRAY(a, uint32_t, k->n_instr);
	b->span = NEW_ARRAY(a, uint8_t, k->n_instr);
	b->length = NEW_ARRAY(a, uint32_t, k->n_blocks);
	for (uint32_t n = 0; n < k->n_blocks; n++)
		for (uint32_t at = k->block[n].first, clock = 0; at < k->block[n].end; at++) {
			b->clock[at] = clock;
			b->block[at] = n;
			b->fixed[at] = sass_fixed(&k->instr[at], k->sm);
			b->span[at] = (uint8_t)span_of(k, at, k->block[n].end);
			b->length[n] = clock += sass_cycles(&k->instr[at]);
		}
}

void
sass_graph_make(struct arena *a, const struct sass_kernel *k, struct sass_graph *b)
{
	uint32_t n_inherit = 0;

	*b = (struct sass_graph){0};
	make_clocks(a, k, b);
	make_edges(a, k, b);
	make_pipes(a, k, b);
	sass_border_make(a, k, b);
	struct sass_inherit *in = sass_inherits_make(a, k, b->fixed, &n_inherit);

	b->inherit = in;
	index_make(a, &in->second, sizeof(*in) / 4, n_inherit, k->n_instr, &b->inherits);
}
