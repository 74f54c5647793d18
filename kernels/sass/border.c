/* kernels/sass/border.c: distances over the border of blocks.  Who stands near the end of a block (p) and who
 * stands near the beginning of one behind it (c) are moved without knowing of each other, so each has its
 * share: p keeps the distance to its block's end that it had, or one that is enough by itself; c keeps what
 * is then left to be kept. */
#include "border.h"

#include <string.h>

enum { NOBODY = UINT32_MAX, CALL_ABS = 0x143, CALL = 0x144, RET = 0x150, BARRIERS_AT = SASS_RESOURCES };
enum { RESOURCES = SASS_RESOURCES + SASS_BARRIERS };

/* What a block behind uses: by register, or barrier. */
struct exposed {
	uint32_t who, next;
	uint32_t pass; /* cycles from the end of the block before to the beginning of its own */
	bool writes;
};
struct border {
	struct arena *tmp;
	const struct sass_kernel *k;
	struct sass_graph *g;
	struct exposed *exposed;
	uint32_t n, cap;
	uint32_t of[RESOURCES];
	uint32_t *pass; /* of a block in this walk; NOBODY: not come to */
	uint32_t *ahead;
	uint32_t n_ahead, cap_ahead;
	bool any; /* control may go anywhere */
};

/* ---- who is behind ----------------------------------------------------------------------------------------
 */
static void
expose(struct border *w, uint32_t r, uint32_t who, uint32_t pass, bool writes)
{
	GROW(w->tmp, w->exposed, w->n, w->cap);
	w->exposed[w->n] = (struct exposed){who, w->of[r], pass, writes};
	w->of[r] = w->n++;
}

static void
expose_instr(struct border *w, uint32_t at, uint32_t pass, const struct sass_set *written)
{
	const struct sass_instr *i = &w->k->instr[at];

	SASS_SET_EACH(r, &i->uses)
	{
		if (sass_set_next(written, r) != r)
			expose(w, r, at, pass, false);
	}
	SASS_SET_EACH(r, &i->defs)
	{
		if (sass_set_next(written, r) != r)
			expose(w, r, at, pass, true);
	}
	for (unsigned b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			expose(w, BARRIERS_AT + b, at, pass, false);
}

static void
come_to(struct border *w, uint32_t block, uint32_t pass)
{
	if (w->pass[block] != NOBODY && w->pass[block] <= pass)
		return;
	w->pass[block] = pass;
	GROW(w->tmp, w->ahead, w->n_ahead, w->cap_ahead);
	w->ahead[w->n_ahead++] = block;
}

static void
walk_block(struct border *w, uint32_t n, const struct sass_block *from)
{
	const struct sass_block *b = &w->k->block[n];
	const uint32_t pass = w->pass[n];
	struct sass_set written = {.u = 0};

	for (uint32_t at = b->first; at < b->end && pass + w->g->clock[at] < SASS_FAR; at++) {
		expose_instr(w, at, pass, &written);
		sass_set_join(&written, &w->k->instr[at].defs);
	}
	for (int q = 0; q < SASS_PIPES; q++) {
		struct sass_gate *g = &w->g->gate[n][q];
		const uint32_t last = w->g->gate[from - w->k->block][q].last + pass;

		g->before = (uint8_t)MIN_OF((uint32_t)g->before, last);
	}
	if (pass + w->g->length[n] < SASS_FAR)
		for (uint32_t q = 0; q < b->n_next; q++)
			come_to(w, b->next[q], pass + w->g->length[n]);
}

/* Blocks that are come to on a shorter way later are walked again; what is exposed twice does no harm. */
static void
walk_behind(struct border *w, const struct sass_block *b)
{
	memset(w->of, 0xff, sizeof(w->of));
	memset(w->pass, 0xff, w->k->n_blocks * sizeof(*w->pass));
	w->n = w->n_ahead = 0;
	for (uint32_t q = 0; q < b->n_next; q++)
		come_to(w, b->next[q], 0);
	for (uint32_t done = 0; done < w->n_ahead; done++)
		walk_block(w, w->ahead[done], b);
}

/* ---- shares -----------------------------------------------------------------------------------------------
 */
struct tie { /* p, and what it does to a register */
	uint32_t at;
	uint32_t resource;
	bool writes;
};

static uint32_t
known(const struct border *w, const struct tie *p, const struct exposed *c)
{
	const struct sass_instr *first = &w->k->instr[p->at], *second = &w->k->instr[c->who];
	const enum sass_lat_kind kind = !p->writes ? SASS_LAT_war : c->writes ? SASS_LAT_waw : SASS_LAT_raw;
	uint32_t seen;

	if (p->resource >= BARRIERS_AT)
		return SASS_SETTLE;
	seen = sass_lat(w->k->sm, first, second, kind, p->resource);
	return seen == SASS_UNSEEN ? SASS_FAR : seen;
}

static void
share(struct border *w, const struct tie *p, uint32_t to_end)
{
	uint32_t enough = 0, keeps;

	for (uint32_t q = w->of[p->resource]; q != NOBODY; q = w->exposed[q].next)
		if (p->writes || w->exposed[q].writes)
			enough = MAX_OF(enough, known(w, p, &w->exposed[q]));
	keeps = MIN_OF(to_end, enough);
	w->g->tail[p->at] = (uint16_t)MAX_OF(w->g->tail[p->at], keeps);
	for (uint32_t q = w->of[p->resource]; q != NOBODY; q = w->exposed[q].next) {
		const struct exposed *c = &w->exposed[q];
		const uint32_t base = to_end + c->pass + w->g->clock[c->who];

		if (!p->writes && !c->writes)
			continue;
		const uint32_t need = MIN_OF(known(w, p, c), base), has = keeps + c->pass;

		if (need > has)
			w->g->head[c->who] = (uint16_t)MAX_OF(w->g->head[c->who], need - has);
	}
}

static void
share_instr(struct border *w, uint32_t at, uint32_t to_end)
{
	const struct sass_instr *i = &w->k->instr[at];
	const unsigned sets[2] = {i->write_barrier, i->read_barrier};

	for (int n = 0; n < 2; n++)
		if (sets[n] < SASS_BARRIERS)
			share(w, &(struct tie){at, BARRIERS_AT + sets[n], true}, to_end);
	if (i->flags & SASS_VARIABLE)
		return;
	SASS_SET_EACH(r, &i->defs) share(w, &(struct tie){at, r, true}, to_end);
	SASS_SET_EACH(r, &i->uses) share(w, &(struct tie){at, r, false}, to_end);
}

static void
share_block(struct border *w, uint32_t n)
{
	const struct sass_block *b = &w->k->block[n];

	walk_behind(w, b);
	for (uint32_t at = b->first; at < b->end; at++) {
		const uint32_t to_end = MIN_OF(w->g->length[n] - w->g->clock[at], (uint32_t)SASS_FAR);

		if (b->leaves_unknown || w->any)
			w->g->tail[at] = (uint16_t)to_end;
		else
			share_instr(w, at, to_end);
	}
}

/* ---- beginnings that come from nowhere known ------------------------------------------------------------
 */
static bool
is_subroutine(const struct sass_instr *i)
{
	return i->op->code == CALL || i->op->code == CALL_ABS || i->op->code == RET;
}

static void
rely_on_all(struct border *w, uint32_t n)
{
	for (uint32_t at = w->k->block[n].first; at < w->k->block[n].end; at++)
		w->g->head[at] = (uint16_t)MIN_OF(w->g->clock[at], (uint32_t)SASS_FAR);
	for (int q = 0; q < SASS_PIPES; q++)
		w->g->gate[n][q].before = 0;
}

/* Behind a call, where a call goes to, and everywhere when a branch is indirect.  Padding behind the code
 * goes nowhere either, but no thread comes to it. */
static void
strangers(struct border *w)
{
	for (uint32_t n = 0; n < w->k->n_blocks; n++) {
		const struct sass_block *b = &w->k->block[n];
		const struct sass_instr *i = &w->k->instr[b->end - 1];

		if (!b->leaves_unknown)
			continue;
		w->any |= !is_subroutine(i) && (i->flags & (SASS_BRANCH | SASS_ENDS | SASS_UNKNOWN));
		if (n + 1 < w->k->n_blocks)
			rely_on_all(w, n + 1);
		if (i->target >= 0)
			rely_on_all(w, (uint32_t)(sass_block_of(w->k, (uint32_t)i->target) - w->k->block));
	}
	for (uint32_t n = 0; w->any && n < w->k->n_blocks; n++)
		rely_on_all(w, n);
}

static void
find_gates(struct border *w, uint32_t n)
{
	struct sass_gate *g = w->g->gate[n];

	for (int q = 0; q < SASS_PIPES; q++)
		g[q] =
		    (struct sass_gate){SASS_KEYS, SASS_KEYS, SASS_QUEUE_FAR, SASS_QUEUE_FAR, SASS_QUEUE_FAR};
	for (uint32_t at = w->k->block[n].first; at < w->k->block[n].end; at++) {
		struct sass_gate *x = &g[w->g->queue[at]];

		if (x->first_key == SASS_KEYS) {
			x->first_key = w->g->key[at];
			x->first = (uint8_t)MIN_OF(w->g->clock[at], (uint32_t)SASS_QUEUE_FAR);
		}
		x->last_key = w->g->key[at];
		x->last = (uint8_t)MIN_OF(w->g->length[n] - w->g->clock[at], (uint32_t)SASS_QUEUE_FAR);
	}
}

void
sass_border_make(struct arena *a, const struct sass_kernel *k, struct sass_graph *g)
{
	struct arena tmp = {0};
	struct border *w = NEW(&tmp, struct border);

	*w = (struct border){.tmp = &tmp, .k = k, .g = g};
	w->pass = NEW_ARRAY(&tmp, uint32_t, k->n_blocks);
	g->head = NEW_ARRAY(a, uint16_t, k->n_instr);
	g->tail = NEW_ARRAY(a, uint16_t, k->n_instr);
	g->gate = arena_alloc(a, ck_mul(sizeof(*g->gate), k->n_blocks));
	for (uint32_t n = 0; n < k->n_blocks; n++)
		find_gates(w, n);
	strangers(w);
	for (uint32_t n = 0; n < k->n_blocks; n++)
		share_block(w, n);
	arena_fini(&tmp);
}
