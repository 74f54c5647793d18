/* kernels/sass/deps.c: pairs of instructions of a block whose distance matters. */
#include "latency.h"

#include <string.h>

enum { NOBODY = UINT32_MAX };

struct reader { /* since the last write, newest first */
	uint32_t who, next;
};
struct walk {
	const struct sass_kernel *k;
	sass_dep_fn *each;
	void *self;
	struct reader *reader;
	uint32_t n_readers;
	uint32_t *clock;
	uint32_t first;
	uint32_t writer[SASS_RESOURCES], readers[SASS_RESOURCES];
};

static void
tell(struct walk *w, uint32_t first, uint32_t second, enum sass_lat_kind kind, uint32_t resource, bool keeps)
{
	const struct sass_dep d = {
	    first, second, w->clock[second - w->first] - w->clock[first - w->first], kind, resource, keeps};

	w->each(w->self, &d);
}

static bool
keeps(const struct sass_instr *i, uint32_t r)
{
	return (i->guard != SASS_PT || i->guard_negated) && sass_set_next(&i->defs, r) == r;
}

static void
reads(struct walk *w, uint32_t at)
{
	const struct sass_instr *i = &w->k->instr[at];

	SASS_SET_EACH(r, &i->uses)
	{
		if (w->writer[r] != NOBODY)
			tell(w, w->writer[r], at, SASS_LAT_raw, r, keeps(i, r));
	}
}

static void
writes(struct walk *w, uint32_t at)
{
	const struct sass_instr *i = &w->k->instr[at];

	SASS_SET_EACH(r, &i->defs)
	{
		if (w->writer[r] != NOBODY)
			tell(w, w->writer[r], at, SASS_LAT_waw, r, false);
		for (uint32_t q = w->readers[r]; q != NOBODY; q = w->reader[q].next) {
			const struct sass_instr *reader = &w->k->instr[w->reader[q].who];

			tell(w, w->reader[q].who, at, SASS_LAT_war, r, keeps(reader, r));
		}
	}
}

static void
note(struct walk *w, uint32_t at)
{
	const struct sass_instr *i = &w->k->instr[at];

	SASS_SET_EACH(r, &i->defs)
	{
		w->writer[r] = at;
		w->readers[r] = NOBODY;
	}
	SASS_SET_EACH(r, &i->uses)
	{
		w->reader[w->n_readers] = (struct reader){at, w->readers[r]};
		w->readers[r] = w->n_readers++;
	}
}

static void
pipes(struct walk *w, const struct sass_block *b)
{
	uint32_t last[SASS_PIPES];

	for (int p = 0; p < SASS_PIPES; p++)
		last[p] = NOBODY;
	for (uint32_t at = b->first; at < b->end; at++) {
		const enum sass_pipe p = sass_queue(&w->k->instr[at]);

		if (p == SASS_NONE)
			continue;
		if (last[p] != NOBODY)
			tell(w, last[p], at, SASS_LAT_pipe, 0, false);
		last[p] = at;
	}
}

static uint32_t
count_uses(const struct sass_kernel *k, const struct sass_block *b)
{
	uint32_t n = 0;

	for (uint32_t at = b->first; at < b->end; at++)
		SASS_SET_EACH(r, &k->instr[at].uses) n++;
	return n;
}

void
sass_deps_each(const struct sass_kernel *k, const struct sass_block *b, sass_dep_fn *each, void *self)
{
	struct arena tmp = {0};
	struct walk w = {.k = k, .each = each, .self = self, .first = b->first};

	w.reader = NEW_ARRAY(&tmp, struct reader, count_uses(k, b) + 1);
	w.clock = NEW_ARRAY(&tmp, uint32_t, b->end - b->first + 1);
	memset(w.writer, 0xff, sizeof(w.writer));
	memset(w.readers, 0xff, sizeof(w.readers));
	for (uint32_t at = b->first; at < b->end; at++) {
		w.clock[at - b->first + 1] = w.clock[at - b->first] + sass_cycles(&k->instr[at]);
		reads(&w, at);
		writes(&w, at);
		note(&w, at);
	}
	pipes(&w, b);
	arena_fini(&tmp);
}
