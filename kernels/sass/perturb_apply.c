/* kernels/sass/perturb_apply.c: moves done to a cubin, each of them proved legal; and the way from a base to
 * a schedule as moves. */
#include "perturb.h"
#include "sched_int.h"

#include <string.h>

/* ---- text to cubin ----------------------------------------------------------------------------------------
 */
static bool
refuse(const struct sass_kernel_moves *k, uint32_t n, enum sass_rule r, struct err *e)
{
	const struct sass_move *m = &k->move[n];

	return err_set(e, ERR_INFEASIBLE, "moves: kernel '%.64s': %c%u%c%u is not legal: %s: %s", k->kernel,
	    m->kind, m->at, m->kind == SASS_MOVE ? '>' : '=', m->to, sass_rule_name(r), sass_rule_text(r));
}

static bool
is_in(const struct sass_kernel *k, const struct sass_kernel_moves *m, uint32_t n, struct err *e)
{
	const struct sass_move *x = &m->move[n];

	if (x->at < k->n_instr && (x->kind != SASS_MOVE || x->to < k->n_instr))
		return true;
	return err_set(e, ERR_INFEASIBLE, "moves: kernel '%.64s': %c%u%c%u is out of its %u places",
	    m->kernel, x->kind, x->at, x->kind == SASS_MOVE ? '>' : '=', x->to, k->n_instr);
}

/* Order is judged move by move, distances and control bits at the end: one move may need the next. */
static enum sass_rule
do_move(struct sass_sched *s, const struct sass_move *m)
{
	if (m->kind == SASS_MOVE)
		return sass_shift(s, m->at, m->to);
	if (sass_is_wall(&s->instr[m->at]))
		return SASS_RULE_block;
	if (m->kind == SASS_STALL)
		sass_do_stall(s, m->at, m->to);
	else
		sass_do_yield(s, m->at, m->to);
	return SASS_LEGAL;
}

static bool
judge_controls(const struct sass_sched *s, uint32_t *at)
{
	for (*at = 0; *at < s->base->n_instr; ++*at)
		if (!sass_control_is_seen(s, *at, s->instr[*at].stall, s->instr[*at].yields))
			return false;
	return true;
}

static bool
judge_end(const struct sass_sched *s, struct err *e)
{
	struct sass_short x = {.rule = SASS_RULE_control};
	uint32_t at;

	if (judge_controls(s, &at) && sass_judge_all(s, &at, &x))
		return true;
	return err_set(e, ERR_INFEASIBLE, "moves: kernel '%.64s': place %u is not legal in the end: %s: %s",
	    s->base->name, at, sass_rule_name(x.rule), sass_rule_text(x.rule));
}

static bool
do_kernel(struct sass_sched *s, const struct sass_kernel_moves *m, struct err *e)
{
	for (uint32_t n = 0; n < m->n; n++) {
		if (!is_in(s->base, m, n, e))
			return false;
		const enum sass_rule r = do_move(s, &m->move[n]);

		if (r != SASS_LEGAL)
			return refuse(m, n, r, e);
	}
	return judge_end(s, e);
}

void
sass_moves_do(struct sass_sched *s, const struct sass_kernel_moves *m)
{
	for (uint32_t n = 0; n < m->n; n++)
		if (do_move(s, &m->move[n]) != SASS_LEGAL)
			bug("a move that was legal is not any more");
}

void
sass_sched_write(const struct sass_sched *s, uint8_t *cubin)
{
	for (uint32_t at = 0; at < s->base->n_instr; at++) {
		uint8_t *p = cubin + s->base->at + (size_t)at * SASS_BYTES;

		for (int n = 0; n < 8; n++) {
			p[n] = (uint8_t)(s->instr[at].lo >> 8 * n);
			p[8 + n] = (uint8_t)(s->instr[at].hi >> 8 * n);
		}
	}
}

bool
sass_moves_apply(
    struct arena *a, struct bytes base, const struct sass_moves *m, struct bytes *out, struct err *e)
{
	char digest[SASS_DIGEST + 1];
	uint8_t *p;

	sass_moves_digest(base, digest);
	if (strcmp(digest, m->digest) != 0)
		return err_set(e, ERR_FORMAT, "moves: they are of the cubin %s..., this one is %s...",
		    m->digest, digest);
	p = arena_dup(a, base.p, base.n);
	for (uint32_t n = 0; n < m->n_kernels; n++) {
		struct arena tmp = {0};
		struct sass_kernel k;
		struct sass_sched *s;
		const bool ok = sass_read(&tmp, base, m->kernel[n].kernel, &k, e) &&
		    (s = sass_sched_make(&tmp, &k), do_kernel(s, &m->kernel[n], e));

		if (ok)
			sass_sched_write(s, p);
		arena_fini(&tmp);
		if (!ok)
			return false;
	}
	*out = (struct bytes){p, base.n};
	return true;
}

/* ---- schedule to moves
 * -------------------------------------------------------------------------------------- */
struct way {
	struct arena *a;
	const struct sass_sched *s;
	uint32_t *now; /* the base's number at a place, on the way */
	struct sass_kernel_moves *out;
	uint32_t cap;
};

static void
add(struct way *w, enum sass_move_kind kind, uint32_t at, uint32_t to)
{
	GROW(w->a, w->out->move, w->out->n, w->cap);
	w->out->move[w->out->n++] = (struct sass_move){kind, at, to};
}

static void
carry(struct way *w, uint32_t from, uint32_t to)
{
	const uint32_t who = w->now[from];

	if (from > to)
		memmove(w->now + to + 1, w->now + to, (from - to) * sizeof(*w->now));
	else
		memmove(w->now + from, w->now + from + 1, (to - from) * sizeof(*w->now));
	w->now[to] = who;
	add(w, SASS_MOVE, from, to);
}

/* How far what stands at a place may sink past those that end up before it. */
static uint32_t
sinks_to(const struct way *w, uint32_t at, uint32_t end)
{
	const uint32_t mine = w->s->place[w->now[at]];
	uint32_t to = at;

	while (to + 1 < end && w->s->place[w->now[to + 1]] < mine)
		to++;
	return to;
}

/* Place by place what belongs there is brought up, or what stands there sinks, whichever goes farther: only
 * pairs change order that end up so, hence every step is legal. */
static void
find_order(struct way *w, const struct sass_block *b)
{
	for (uint32_t at = b->first; at < b->end; at++)
		while (w->now[at] != w->s->who[at]) {
			uint32_t from = at;

			while (w->now[from] != w->s->who[at])
				from++;
			const uint32_t to = sinks_to(w, at, b->end);

			if (to > at && to - at >= from - at)
				carry(w, at, to);
			else
				carry(w, from, at);
		}
}

static void
find_moves(struct way *w)
{
	const struct sass_sched *s = w->s;

	for (uint32_t at = 0; at < s->base->n_instr; at++)
		w->now[at] = at;
	for (uint32_t n = 0; n < s->base->n_blocks; n++)
		find_order(w, &s->base->block[n]);
	for (uint32_t at = 0; at < s->base->n_instr; at++)
		if (s->instr[at].stall != s->base->instr[s->who[at]].stall)
			add(w, SASS_STALL, at, s->instr[at].stall);
	for (uint32_t at = 0; at < s->base->n_instr; at++)
		if (s->instr[at].yields != s->base->instr[s->who[at]].yields)
			add(w, SASS_YIELD, at, s->instr[at].yields);
}

void
sass_moves_of(struct arena *a, struct bytes base, const struct sass_sched *const *sched, uint32_t n_sched,
    struct sass_moves *out)
{
	sass_moves_digest(base, out->digest);
	out->n_kernels = 0;
	out->kernel = NEW_ARRAY(a, struct sass_kernel_moves, n_sched);
	for (uint32_t n = 0; n < n_sched; n++) {
		struct sass_kernel_moves *k = &out->kernel[out->n_kernels];
		struct way w = {.a = a, .s = sched[n], .out = k};

		*k = (struct sass_kernel_moves){.kernel = str_dup(a, str_of(sched[n]->base->name))};
		w.now = NEW_ARRAY(a, uint32_t, sched[n]->base->n_instr);
		find_moves(&w);
		out->n_kernels += k->n != 0;
	}
}
