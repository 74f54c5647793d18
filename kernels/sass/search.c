/* kernels/sass/search.c: a search for a faster schedule: what is tried, what it costs, which were the best.
 */
#include "search_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct method {
	const char *name;
	void (*hunt)(struct sass_hunt *h);
} methods[SASS_METHODS] = {
    {"anneal", sass_hunt_anneal}, {"greedy", sass_hunt_greedy}, {"genetic", sass_hunt_genetic}};

const char *
sass_method_name(enum sass_method m)
{
	return methods[m].name;
}

bool
sass_method_read(struct str text, enum sass_method *out)
{
	for (uint32_t n = 0; n < SASS_METHODS; n++)
		if (str_is(text, methods[n].name)) {
			*out = (enum sass_method)n;
			return true;
		}
	return false;
}

/* ---- steps
 * ------------------------------------------------------------------------------------------------- */
enum { STEP_MEMORY, STEP_NEIGHBOUR, STEP_LOWER, STEP_RAISE, STEP_YIELD };
/* Of 16: what moves most in SIP is memory; the model does not see the yield bit. */
static const uint8_t mix[16] = {STEP_MEMORY, STEP_MEMORY, STEP_MEMORY, STEP_MEMORY, STEP_MEMORY, STEP_MEMORY,
    STEP_MEMORY, STEP_NEIGHBOUR, STEP_NEIGHBOUR, STEP_NEIGHBOUR, STEP_NEIGHBOUR, STEP_LOWER, STEP_LOWER,
    STEP_LOWER, STEP_RAISE, STEP_YIELD};

struct sass_attempt
sass_attempt_any(struct sass_hunt *h)
{
	const uint32_t n = h->loop.last - h->loop.first, far = 1 + rng_below(&h->rng, SASS_REACH);
	struct sass_attempt step = {.kind = mix[rng_below(&h->rng, h->how->price ? 16 : 15)]};
	const bool is_down = rng_below(&h->rng, 2);

	step.who = h->s->who[h->loop.first + rng_below(&h->rng, n)];
	if (step.kind == STEP_MEMORY && h->n_memory)
		step.who = h->memory[rng_below(&h->rng, h->n_memory)];
	step.by = (int16_t)(step.kind == STEP_MEMORY ? (is_down ? (int)far : -(int)far)
		: step.kind == STEP_NEIGHBOUR        ? (is_down ? 1 : -1)
		: step.kind == STEP_LOWER            ? -1
						     : 1);
	return step;
}

/* As far as the order allows, at most so many places; then distances are mended or all is taken back. */
static enum sass_rule
carry(struct sass_hunt *h, uint32_t at, int by)
{
	const int step = by > 0 ? 1 : -1;
	uint32_t to = at;
	enum sass_rule r = SASS_RULE_block;

	while (by != 0) {
		const uint32_t next = to + (uint32_t)step;

		if (next < h->loop.first || next > h->loop.last)
			break;
		r = sass_order(h->s, step > 0 ? to : next);
		if (r != SASS_LEGAL)
			break;
		sass_do_exchange(h->s, step > 0 ? to : next);
		to = next;
		by -= step;
	}
	return to == at ? r : sass_settle(h->s, MIN_OF(at, to), MAX_OF(at, to), true);
}

enum sass_rule
sass_attempt_do(struct sass_hunt *h, const struct sass_attempt *step)
{
	const uint32_t at = h->s->place[step->who], mark = h->s->n_log;
	const struct sass_instr *i = &h->s->instr[at];
	enum sass_rule r;

	if (step->kind == STEP_MEMORY || step->kind == STEP_NEIGHBOUR) {
		r = carry(h, at, step->by);
		if (r != SASS_LEGAL)
			sass_sched_undo(h->s, mark);
	} else if (step->kind == STEP_YIELD)
		r = sass_set_yield(h->s, at, !i->yields);
	else
		r = sass_set_stall(h->s, at, i->stall + (uint32_t)step->by);
	return r;
}

enum sass_rule
sass_attempt_count(struct sass_hunt *h, const struct sass_attempt *step)
{
	const enum sass_rule r = sass_attempt_do(h, step);

	h->out->tries++;
	h->out->refused[r] += r != SASS_LEGAL;
	return r;
}

/* ---- prices
 * ------------------------------------------------------------------------------------------------ */
static uint64_t
key_of(const struct sass_hunt *h)
{
	uint64_t key = 1;

	for (uint32_t at = h->loop.first; at <= h->loop.last; at++) {
		const struct sass_instr *i = &h->s->instr[at];

		if (h->s->who[at] != at || i->stall != h->k.instr[at].stall ||
		    i->yields != h->k.instr[at].yields)
			key += mix64((uint64_t)at << 32 | (uint64_t)h->s->who[at] << 8 |
			    (uint64_t)i->stall << 1 | i->yields);
	}
	return key ? key : 1;
}

static struct sass_known *
recall(struct sass_hunt *h, uint64_t key)
{
	struct sass_known *k = &h->known[key % SASS_REMEMBERED];

	for (uint32_t n = 0; n < 8; n++) {
		struct sass_known *x = &h->known[(key + n) % SASS_REMEMBERED];

		if (x->key == key || x->key == 0)
			return x;
	}
	return k; /* the oldest thing there is forgotten */
}

static void
list_moves(struct sass_hunt *h, struct arena *a, struct sass_moves *out)
{
	const struct sass_sched *one = h->s;

	sass_moves_of(a, h->base, &one, 1, out);
}

/* A cubin's digest is asked for once: it is the same for all. */
static double
ask(struct sass_hunt *h, double limit)
{
	struct arena a = {0};
	struct sass_moves m;
	double price;

	h->out->priced++;
	if (!h->how->price)
		return sass_price_near(h->model, h->s->instr, limit);
	list_moves(h, &a, &m);
	sass_sched_write(h->s, h->edited);
	price = h->how->price(h->how->self, (struct bytes){h->edited, h->base.n}, &m, limit);
	h->is_over = isnan(price);
	arena_fini(&a);
	return h->is_over ? INFINITY : price;
}

/* ---- the best
 * ---------------------------------------------------------------------------------------------- */
static void
note_best(struct sass_hunt *h, uint64_t key, double price)
{
	struct sass_found *out = h->out;
	uint32_t at = out->n_best;

	if (price >= out->base_price || (at == SASS_BEST && price >= h->slot[at - 1].c.price))
		return;
	for (uint32_t n = 0; n < out->n_best; n++)
		if (h->slot[n].key == key)
			return;
	if (at < SASS_BEST)
		out->n_best++;
	else
		at--;
	struct sass_record s = h->slot[at];

	arena_reset(&s.a, (struct arena_mark){NULL, 0, 0});
	s.c.price = price;
	s.key = key;
	list_moves(h, &s.a, &s.c.moves);
	for (; at && h->slot[at - 1].c.price > price; at--)
		h->slot[at] = h->slot[at - 1];
	h->slot[at] = s;
}

/* The search goes by quick prices; of what is as cheap by them as anything yet, some are asked of the whole
 * model, and that is the price that counts. */
static void
note(struct sass_hunt *h, uint64_t key, double price)
{
	if (h->model) {
		if (price > h->least || h->asked > h->out->tries / OF_ALL)
			return;
		h->least = price;
		h->asked++;
		price = sass_price_loop(h->model, h->s->instr, INFINITY);
	}
	note_best(h, key, price);
}

double
sass_hunt_price(struct sass_hunt *h, double limit)
{
	const uint64_t key = key_of(h);
	struct sass_known *k = recall(h, key);

	if (k->key != key || (k->is_least && k->price < limit)) {
		const double price = ask(h, limit);

		*k = (struct sass_known){key, isinf(price) ? limit : price, isinf(price)};
		if (!k->is_least)
			note(h, key, price);
	}
	return k->is_least || k->price >= limit ? INFINITY : k->price;
}

void
sass_hunt_take(struct sass_hunt *h)
{
	h->out->accepted++;
	if (h->model)
		sass_price_take(h->model, h->s->instr);
}

void
sass_hunt_to_best(struct sass_hunt *h)
{
	sass_sched_reset(h->s);
	if (h->out->n_best)
		sass_moves_do(h->s, &h->slot[0].c.moves.kernel[0]);
	if (h->model)
		sass_price_take(h->model, h->s->instr);
}

/* ---- beginning and end
 * --------------------------------------------------------------------------------------- */
static bool
make_model(struct sass_hunt *h, struct err *e)
{
	const struct sass_search *how = h->how;
	const struct sass_load load = {.warps = MAX_OF(how->warps, 1U),
	    .blocks = MAX_OF(how->blocks, 1U),
	    .load = how->load,
	    .matrix = how->matrix,
	    .store = how->store,
	    .copy = how->copy};

	if (how->price)
		return true;
	if (!sass_price_knows(h->k.sm))
		return err_set(e, ERR_INFEASIBLE, "search: the model has no rates for sm_%d", h->k.sm);
	if (load.warps > SASS_PRICE_WARPS || load.blocks > load.warps)
		return err_set(e, ERR_USAGE,
		    "search: %u warps of %u blocks: at most %d warps, and a block has one", load.warps,
		    load.blocks, SASS_PRICE_WARPS);
	h->model = sass_price_make(&h->tmp, &h->k, &h->loop, &load);
	h->out->base_price = sass_price_loop(h->model, h->k.instr, INFINITY);
	sass_price_hurry(h->model, &h->tmp, h->k.instr);
	return true;
}

static void
find_memory(struct sass_hunt *h)
{
	h->memory = NEW_ARRAY(&h->tmp, uint32_t, h->loop.last - h->loop.first + 1);
	for (uint32_t at = h->loop.first; at <= h->loop.last; at++)
		if ((h->k.instr[at].flags & (SASS_LOAD | SASS_STORE)) && h->s->g.fixed[at] == 0)
			h->memory[h->n_memory++] = at;
}

static bool
begin(struct sass_hunt *h, const char *kernel, struct err *e)
{
	const struct sass_loop *hot;

	if (!sass_read(&h->tmp, h->base, kernel, &h->k, e))
		return false;
	hot = sass_hot(&h->k);
	if (!hot)
		return err_set(e, ERR_INFEASIBLE, "search: kernel '%.64s' has no loop", kernel);
	h->loop = *hot;
	h->s = sass_sched_make(&h->tmp, &h->k);
	h->rng.s = h->how->seed;
	h->known = heap_alloc(sizeof(*h->known) * SASS_REMEMBERED);
	h->edited = arena_dup(&h->tmp, h->base.p, h->base.n);
	find_memory(h);
	return make_model(h, e);
}

static void
end(struct sass_hunt *h, struct arena *a)
{
	for (uint32_t n = 0; n < SASS_BEST; n++) {
		if (n < h->out->n_best) {
			struct sass_moves m;
			struct err e = {0};

			if (!sass_moves_read(a, sass_moves_print(a, &h->slot[n].c.moves), &m, &e))
				bug("%s", e.msg);
			h->out->best[n] = (struct sass_candidate){m, h->slot[n].c.price};
		}
		arena_fini(&h->slot[n].a);
	}
}

bool
sass_search(struct arena *a, struct bytes base, const char *kernel, const struct sass_search *how,
    struct sass_found *out, struct err *e)
{
	struct sass_hunt *h = heap_alloc(sizeof(*h));
	bool ok;

	*out = (struct sass_found){.n_best = 0};
	*h = (struct sass_hunt){.how = how, .base = base, .out = out};
	ok = begin(h, kernel, e);
	if (ok) {
		h->base_price = h->least = sass_hunt_price(h, INFINITY);
		if (!h->model)
			out->base_price = h->base_price;
		if (!h->is_over)
			methods[how->method].hunt(h);
		end(h, a);
	}
	free(h->known);
	arena_fini(&h->tmp);
	free(h);
	return ok;
}
