/* kernels/device/streams.c: dependencies between steps from the bytes that they share, and an
 * assignment to streams.  A step goes where it can start first by recorded costs, as if kernels side by side
 * did not slow each other down; whether they do is for whoever times it. */
#include "streams.h"

#include <string.h>

/* What starting behind another stream's step is reckoned at, so that no event is set for less.  Not measured.
 */
static const int64_t event_ns = 1000, longest_ns = 1000000000000;

/* ---- dependencies -------------------------------------------------------------------------------- */
static bool
meet(const struct step_use *a, const struct step_use *b)
{
	return a->region == b->region && a->from < b->to && b->from < a->to &&
	    (a->is_written || b->is_written);
}

static bool
in_conflict(const struct step_uses *u, uint32_t i, uint32_t j)
{
	for (uint32_t x = u->first[i]; x < u->first[i + 1]; x++)
		for (uint32_t y = u->first[j]; y < u->first[j + 1]; y++)
			if (meet(&u->use[x], &u->use[y]))
				return true;
	return false;
}

/* before: a row of bits a step, the steps that it comes behind through any others. */
void
streams_depend(struct arena *a, const struct step_uses *u, struct step_links *out)
{
	size_t words = ((size_t)u->n_steps + 63) / 64;
	uint64_t *before = NEW_ARRAY(a, uint64_t, ck_mul(words, u->n_steps));
	uint32_t n = 0, cap = 0;

	*out = (struct step_links){.first = NEW_ARRAY(a, uint32_t, (size_t)u->n_steps + 1)};
	for (uint32_t i = 0; i < u->n_steps; i++) {
		uint64_t *row = before + i * words;

		for (uint32_t j = i; j-- > 0;) {
			if (row[j / 64] >> j % 64 & 1 || !in_conflict(u, i, j))
				continue;
			GROW(a, out->item, n, cap);
			out->item[n++] = j;
			row[j / 64] |= (uint64_t)1 << j % 64;
			for (size_t w = 0; w <= j / 64; w++)
				row[w] |= before[j * words + w];
		}
		out->first[i + 1] = n;
	}
}

/* ---- streams --------------------------------------------------------------------------------------- */
struct lanes {
	const struct step_links *deps;
	struct streams *out;
	uint32_t max;
	int64_t *end_ns; /* of each step, reckoned */
	int64_t free_ns[STREAMS_MAX];
	uint32_t last[STREAMS_MAX]; /* step, counted from 1; 0: none */
	/* Of each stream: how far it knows each other one to be, as steps counted from 1; and the same behind
	 * each step. */
	uint32_t known[STREAMS_MAX][STREAMS_MAX], (*behind)[STREAMS_MAX];
};

static int64_t
start_on(const struct lanes *l, uint32_t i, uint32_t s)
{
	int64_t at = s < l->out->n_streams ? l->free_ns[s] : i ? event_ns : 0;

	for (uint32_t k = l->deps->first[i]; k < l->deps->first[i + 1]; k++) {
		uint32_t j = l->deps->item[k];

		at = MAX_OF(at, l->end_ns[j] + (l->out->stream[j] == s ? 0 : event_ns));
	}
	return at;
}

/* Does the step go on where the stream's last one ended? */
static bool
continues(const struct lanes *l, uint32_t i, uint32_t s)
{
	for (uint32_t k = l->deps->first[i]; k < l->deps->first[i + 1]; k++)
		if (l->last[s] == l->deps->item[k] + 1)
			return true;
	return false;
}

/* Where it starts first; where that is equal, behind what it reads, and then the lowest number. */
static uint32_t
choose(const struct lanes *l, uint32_t i, int64_t *start)
{
	uint32_t n = MIN_OF(l->out->n_streams + 1, l->max), best = 0;

	*start = start_on(l, i, 0);
	for (uint32_t s = 1; s < n; s++) {
		int64_t at = start_on(l, i, s);

		if (at > *start || (at == *start && (continues(l, i, best) || !continues(l, i, s))))
			continue;
		best = s;
		*start = at;
	}
	return best;
}

static void
learn(uint32_t *to, const uint32_t *from)
{
	for (uint32_t s = 0; s < STREAMS_MAX; s++)
		to[s] = MAX_OF(to[s], from[s]);
}

/* Behind which steps of other streams?  The latest come first, so what one of them implies is known by then.
 */
static void
wait_for(struct arena *a, struct lanes *l, uint32_t i, uint32_t s, uint32_t *cap)
{
	struct streams *o = l->out;

	for (uint32_t k = l->deps->first[i]; k < l->deps->first[i + 1]; k++) {
		uint32_t j = l->deps->item[k];

		if (l->known[s][o->stream[j]] > j)
			continue;
		learn(l->known[s], l->behind[j]);
		GROW(a, o->waits.item, o->n_waits, *cap);
		o->waits.item[o->n_waits++] = j;
		o->is_awaited[j] = true;
	}
	o->waits.first[i + 1] = o->n_waits;
}

static void
run_on(struct lanes *l, uint32_t i, uint32_t s, int64_t start, int64_t cost_ns)
{
	l->out->stream[i] = s;
	l->out->n_streams = MAX_OF(l->out->n_streams, s + 1);
	l->end_ns[i] = l->free_ns[s] = start + MIN_OF(MAX_OF(cost_ns, (int64_t)1), longest_ns);
	l->last[s] = l->known[s][s] = i + 1;
	memcpy(l->behind[i], l->known[s], sizeof(l->behind[i]));
}

void
streams_one(struct arena *a, uint32_t n_steps, struct streams *out)
{
	*out = (struct streams){.n_steps = n_steps,
	    .n_streams = 1,
	    .stream = NEW_ARRAY(a, uint32_t, n_steps),
	    .is_awaited = NEW_ARRAY(a, bool, n_steps)};
	out->waits.first = NEW_ARRAY(a, uint32_t, (size_t)n_steps + 1);
}

void
streams_assign(struct arena *a, const struct step_links *deps, const int64_t *cost_ns, uint32_t n_steps,
    uint32_t n_streams, struct streams *out)
{
	struct lanes l = {.deps = deps,
	    .out = out,
	    .max = MIN_OF(MAX_OF(n_streams, 1u), (uint32_t)STREAMS_MAX),
	    .end_ns = NEW_ARRAY(a, int64_t, n_steps)};
	uint32_t cap = 0;

	streams_one(a, n_steps, out);
	l.behind = arena_alloc(a, ck_mul(n_steps, sizeof(*l.behind)));
	for (uint32_t i = 0; i < n_steps; i++) {
		int64_t start;
		uint32_t s = choose(&l, i, &start);

		wait_for(a, &l, i, s, &cap);
		run_on(&l, i, s, start, cost_ns[i]);
	}
}
