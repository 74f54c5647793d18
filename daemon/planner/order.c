/* daemon/planner/order.c: see order.h. */
#include "order.h"
#include "expect.h"

#include "../../kernels/base/parallel.h"
#include "../../kernels/predict/first.h"
#include "../../kernels/space/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MOST = 64 };
/* A call may be so far behind generated code, as nothing is compiled for it. */
static const double beside = 0.1;
/* Of the plan's time: what is expected to gain less is not compiled. */
static const double worth = 0.001;
/* What the errors of two schedules of one kernel have not in common, of what one is off by: they are of the
 * same model, device and shape. */
static const double apart = 0.5;
/* ... and so many times as much where they are of two forms (a call of a library, Winograd's). */
static const double other_form = 2;

struct way {
	struct str schedule;
	double ns;
	uint32_t at;
};

static int
fastest_first(const void *x, const void *y)
{
	const struct way *a = x, *b = y;

	if (a->ns != b->ns)
		return a->ns < b->ns ? -1 : 1;
	return (a->at > b->at) - (a->at < b->at);
}

/* False: the schedule makes no program of this kernel.  It is far where nothing is trained. */
static bool
predict_way(const struct tune *t, uint32_t s, struct str schedule, struct prediction *out)
{
	struct arena tmp = {0};
	struct sample sample;
	struct err none = {0};
	bool ok = sample_make(
	    &tmp, &t->front.cands.specs[s], schedule, &t->target, &t->hw, t->cost[s].heat, &sample, &none);

	*out = (struct prediction){.is_far = true};
	if (ok && t->predictor)
		predict_sample(t->predictor, &sample, out);
	arena_fini(&tmp);
	return ok;
}

/* Puts the one at `from` at `to`, before it. */
static void
move_up(struct str *list, uint32_t from, uint32_t to)
{
	struct str s = list[from];

	for (; from > to; from--)
		list[from] = list[from - 1];
	list[to] = s;
}

/* What that schedule took with other extents, beside the fastest one there; 0: nobody tried. */
static double
tried_ratio(const struct spec_cost *c, struct str schedule)
{
	static const double failed = 10; /* it may work here, but that is the last thing to try */
	int64_t best = 0, its = 0;
	bool is_there = false;

	for (uint32_t i = 0; i < c->n_tried; i++) {
		if (str_eq(c->tried[i].schedule, c->sibling))
			best = c->tried[i].median_ns;
		if (!str_eq(c->tried[i].schedule, schedule))
			continue;
		is_there = true;
		its = c->tried[i].median_ns;
	}
	if (!is_there || best <= 0)
		return 0;
	return its > 0 ? fmax((double)its / (double)best, 1) : failed;
}

/* What a schedule is expected to take beside the one that was fastest with other extents, first_ns.  What was
 * tried there is known; the others were worth no look there, and stand behind. */
static double
beside_sibling(const struct spec_cost *c, struct str schedule, double ns, double first_ns)
{
	double ratio = tried_ratio(c, schedule);

	return ratio > 0 ? first_ns * ratio : fmax(ns, first_ns * (1 + beside));
}

/* What was fastest with other extents comes first: it is known by measuring, and the rest are not. */
static void
sibling_first(const struct spec_cost *c, struct order *o)
{
	struct arena tmp = {0};
	struct way *way = NEW_ARRAY(&tmp, struct way, MAX_OF(o->n, 1u));
	double first_ns = 0;

	for (uint32_t i = 0; i < o->n; i++)
		if (c->sibling.p && str_eq(o->schedule[i], c->sibling))
			first_ns = o->ns[i];
	for (uint32_t i = 0; i < o->n; i++) {
		bool is_first = first_ns > 0 && str_eq(o->schedule[i], c->sibling);

		way[i] = (struct way){
		    o->schedule[i], is_first ? 0 : beside_sibling(c, o->schedule[i], o->ns[i], first_ns), i};
	}
	if (first_ns > 0)
		qsort(way, o->n, sizeof(*way), fastest_first);
	for (uint32_t i = 0; i < o->n && first_ns > 0; i++) {
		o->schedule[i] = way[i].schedule;
		o->ns[i] = i > 0 ? way[i].ns : first_ns;
	}
	arena_fini(&tmp);
}

static void
fill(struct tune *t, const struct spec_cost *c, struct order *o, const struct str *list, const double *ns,
    uint32_t n, const struct prediction *p)
{
	const struct interval *v = &t->predictor->head[HEAD_SCHEDULE].interval;
	double sigma = apart * (interval_at(v, p->group, 0.84) - interval_at(v, p->group, 0.16)) / 2;
	uint32_t *order = NEW_ARRAY(t->arena, uint32_t, MAX_OF(n, 1u));

	predict_first(list, ns, n, order);
	o->n = n;
	o->n_first = 1;
	o->schedule = NEW_ARRAY(t->arena, struct str, MAX_OF(n, 1u));
	o->ns = NEW_ARRAY(t->arena, double, MAX_OF(n, 1u));
	o->sigma = NEW_ARRAY(t->arena, double, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		o->schedule[i] = list[order[i]];
		o->ns[i] = ns[order[i]];
	}
	if (c->n_tried != 1) /* else its only one is what was predicted there: no word on the others */
		sibling_first(c, o);
	for (uint32_t i = 0; i < n; i++)
		o->sigma[i] = sigma * (predict_are_alike(o->schedule[0], o->schedule[i]) ? 1 : other_form);
}

static bool
holds(const struct str *list, uint32_t n, struct str schedule)
{
	for (uint32_t i = 0; i < n; i++)
		if (str_eq(list[i], schedule))
			return true;
	return false;
}

/* A kernel's schedules and what is said of each, as they are made: of several kernels at once, so that each
 * has memory of its own. */
struct choice_of {
	uint32_t spec;
	struct order *order; /* to be */
	struct arena arena;
	struct str *list;
	uint32_t n;
	bool has_sibling; /* its sibling's is among them, which its space may not have thought of */
	struct prediction *said;
};
struct way_at {
	uint32_t kernel, way;
};
struct saying {
	const struct tune *t;
	struct choice_of *kernels;
	struct way_at *ways;
};

static void
list_ways(void *self, uint32_t hand, uint32_t i)
{
	const struct saying *x = self;
	struct choice_of *k = &x->kernels[i];
	struct str sibling = x->t->cost[k->spec].sibling, *list, *more;
	struct prediction p;

	(void)hand;
	space_list(&k->arena, &x->t->front.cands.specs[k->spec], &x->t->target,
	    (uint32_t)MIN_OF(x->t->effort, (uint64_t)NAMED_MOST / 2), trace_outcome, &list, &k->n);
	k->list = list;
	k->has_sibling = sibling.p && holds(list, k->n, sibling);
	if (!sibling.p || k->has_sibling || k->n >= NAMED_MOST || !predict_way(x->t, k->spec, sibling, &p))
		return;
	more = NEW_ARRAY(&k->arena, struct str, k->n + 1);
	memcpy(more, list, k->n * sizeof(more[0]));
	more[k->n++] = sibling;
	k->list = more;
	k->has_sibling = true;
}

static void
say_of_way(void *self, uint32_t hand, uint32_t i)
{
	const struct saying *x = self;
	struct choice_of *k = &x->kernels[x->ways[i].kernel];
	struct prediction *said = &k->said[x->ways[i].way];

	(void)hand;
	if (!predict_way(x->t, k->spec, k->list[x->ways[i].way], said))
		said->is_far = true;
}

/* Foreseen kernels, each way by itself. */
static void
say_of_all(struct saying *x, uint32_t n, struct arena *tmp)
{
	uint32_t n_ways = 0;

	for (uint32_t i = 0; i < n; i++)
		n_ways += x->kernels[i].n;
	x->ways = NEW_ARRAY(tmp, struct way_at, MAX_OF(n_ways, 1u));
	n_ways = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct choice_of *k = &x->kernels[i];

		if (!x->t->cost[k->spec].is_foreseen || k->n > NAMED_MOST)
			continue;
		k->said = NEW_ARRAY(&k->arena, struct prediction, MAX_OF(k->n, 1u));
		for (uint32_t w = 0; w < k->n; w++)
			x->ways[n_ways++] = (struct way_at){i, w};
	}
	parallel_for(n_ways, parallel_hands(PLANNER_HANDS), say_of_way, x);
}

/* False: one of them is unlike all that the predictor knows. */
static bool
make_foreseen(struct tune *t, const struct choice_of *k)
{
	double *ns = NEW_ARRAY(t->arena, double, MAX_OF(k->n, 1u));

	for (uint32_t i = 0; i < k->n; i++) {
		ns[i] = k->said[i].ns;
		if (k->said[i].is_far)
			return false;
	}
	if (k->n > 0)
		fill(t, &t->cost[k->spec], k->order, k->list, ns, k->n, &k->said[k->n - 1]);
	return k->n > 0;
}

/* The space's best guess first, then a library's call: which of the two is faster, nobody can say. */
static uint32_t
guesses_first(struct tune *t, uint32_t s, struct str *list, uint32_t n)
{
	struct str guess = space_guess(t->arena, &t->front.cands.specs[s], &t->target);
	uint32_t call = 0, at = 0;

	while (at < n && !str_eq(list[at], guess))
		at++;
	if (at < n)
		move_up(list, at, 0);
	while (call < n && !str_starts(list[call], "lib="))
		call++;
	if (call == n)
		return 1;
	move_up(list, call, MIN_OF(call, 1u));
	return MIN_OF(n, 2u);
}

/* Nothing is predicted of it, as it is unlike all that was trained on, or below a microsecond: what was
 * fastest with other extents, then the rest as they come. */
static void
make_unforeseen(struct tune *t, const struct choice_of *k)
{
	struct order *o = k->order;
	static const double sigma = 0.1; /* what the best of four gains over one, about */
	const struct spec_cost *c = &t->cost[k->spec];
	double ns = (double)expect_ns(t, c, 0);

	o->schedule = arena_dup(t->arena, k->list, MAX_OF(k->n, 1u) * sizeof(k->list[0]));
	o->n = k->n;
	o->ns = NEW_ARRAY(t->arena, double, MAX_OF(o->n, 1u));
	o->sigma = NEW_ARRAY(t->arena, double, MAX_OF(o->n, 1u));
	for (uint32_t i = 0; i < o->n; i++) {
		o->ns[i] = ns;
		o->sigma[i] = sigma;
	}
	o->n_first = 1;
	o->is_blind = !k->has_sibling;
	if (k->has_sibling)
		sibling_first(c, o);
	else
		o->n_first = guesses_first(t, k->spec, o->schedule, o->n);
}

void
orders_make(struct tune *t, const uint32_t *specs, uint32_t n)
{
	struct arena tmp = {0};
	struct saying x = {.t = t, .kernels = NEW_ARRAY(&tmp, struct choice_of, MAX_OF(n, 1u))};
	struct order *orders = NEW_ARRAY(t->arena, struct order, n);
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct spec_cost *c = &t->cost[specs[i]];

		if (c->order)
			continue;
		c->order = &orders[i];
		if (c->is_foreseen || order_is_there(t, c))
			x.kernels[m++] = (struct choice_of){.spec = specs[i], .order = &orders[i]};
	}
	parallel_for(m, parallel_hands(PLANNER_HANDS), list_ways, &x);
	say_of_all(&x, m, &tmp);
	for (uint32_t i = 0; i < m; i++) {
		struct choice_of *k = &x.kernels[i];

		for (uint32_t w = 0; w < k->n; w++)
			k->list[w] = str_of(str_dup(t->arena, k->list[w]));
		if (!(k->said && make_foreseen(t, k)) && order_is_there(t, &t->cost[k->spec]))
			make_unforeseen(t, k);
		arena_fini(&k->arena);
	}
	arena_fini(&tmp);
}

void
orders_make_open(struct tune *t, const uint32_t *specs, uint32_t n)
{
	struct arena tmp = {0};
	uint32_t *open = NEW_ARRAY(&tmp, uint32_t, MAX_OF(n, 1u)), m = 0;

	for (uint32_t i = 0; i < n; i++)
		if (t->cost[specs[i]].state == LAZY_OPEN && !t->is_strict)
			open[m++] = specs[i];
	orders_make(t, open, m);
	arena_fini(&tmp);
}

const struct order *
order_of(struct tune *t, uint32_t spec)
{
	if (!t->cost[spec].order)
		orders_make(t, &spec, 1);
	return t->cost[spec].order;
}

/* What is as many as the job's whole effort is all of them: the effort that is kept of a kernel tells whether
 * there is more to try. */
static uint32_t
whole(const struct tune *t, const struct order *o, uint32_t n)
{
	return n >= o->n || n >= t->effort ? o->n : n;
}

void
order_ask(struct tune *t, uint32_t spec, struct arena *a, struct m_spec_ask *ask)
{
	const struct order *o = t->is_strict ? NULL : order_of(t, spec);
	uint32_t n = o && o->n > 0 ? whole(t, o, MAX_OF(t->cost[spec].n_wanted, o->n_first)) : 0;

	if (n == 0)
		return;
	t->cost[spec].n_wanted = n;
	ask->effort = n == o->n ? t->effort : n;
	ask->named = NEW_ARRAY(a, struct m_other, n);
	for (ask->n_named = 0; ask->n_named < n; ask->n_named++)
		ask->named[ask->n_named].schedule = o->schedule[ask->n_named];
}

/* The first of the schedules that is a call, or is none, and its place; o->n: there is none. */
static uint32_t
first_of(const struct order *o, bool is_call)
{
	uint32_t i = 0;

	while (i < o->n && str_starts(o->schedule[i], "lib=") != is_call)
		i++;
	return i;
}

bool
order_guess(struct tune *t, uint32_t spec, struct str *first, struct str *generated)
{
	const struct order *o = order_of(t, spec);
	uint32_t call = first_of(o, true), other = first_of(o, false);

	*generated = other < o->n ? o->schedule[other] : STR("");
	*first = call < o->n && o->ns[call] <= o->ns[0] * (1 + beside) ? o->schedule[call] : *generated;
	return o->n > 0 && !o->is_blind;
}

/* What the predictor said of the best measured one tells how it is off with this kernel. */
static double
scale_of(const struct spec_cost *c)
{
	const struct order *o = c->order;
	uint32_t i = 0;

	while (i < o->n && !str_eq(o->schedule[i], c->schedule))
		i++;
	return (double)c->measured_ns / o->ns[i < o->n ? i : 0];
}

/* Of the kernel's schedules, as many as may pay; 0: no more than were tried.  uses: times that it is in the
 * plan; over_ns: what it would have to save before it is. */
static uint32_t
count_paying(struct tune *t, uint32_t s, double uses, double over_ns, double least_ns, double *gain)
{
	const struct spec_cost *c = &t->cost[s];
	const struct order *o = order_of(t, s);
	uint32_t n = (uint32_t)MIN_OF(MAX_OF(c->effort, (uint64_t)c->n_wanted), (uint64_t)o->n), from = n;
	double scale = o->n ? scale_of(c) : 1;

	*gain = 0;
	for (; n < o->n; n++) {
		double one =
		    uses * predict_gain((double)c->measured_ns - over_ns, o->ns[n] * scale, o->sigma[n]);

		if (one < least_ns)
			break;
		*gain += one;
	}
	return n > from ? whole(t, o, n) : 0;
}

struct more {
	double gain;
	uint32_t spec;
};

static int
most_first(const void *x, const void *y)
{
	const struct more *a = x, *b = y;

	if (a->gain != b->gain)
		return a->gain > b->gain ? -1 : 1;
	return (a->spec > b->spec) - (a->spec < b->spec);
}

struct standing { /* of a spec in the program */
	double uses, over_ns;
};

static struct standing *
standings(const struct tune *t, struct arena *tmp)
{
	uint32_t n = t->front.cands.n_specs;
	struct standing *p = NEW_ARRAY(tmp, struct standing, MAX_OF(n, 1u));

	for (uint32_t s = 0; s < n; s++)
		p[s].over_ns = HUGE_VAL;
	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		struct standing *x = &p[t->program.spec_of[k]];

		x->over_ns = fmin(x->over_ns, fmax(t->choice.reduced[k], 0));
	}
	for (uint32_t i = 0; i < t->n_measured_plan; i++) {
		struct standing *x = &p[t->program.spec_of[t->measured_plan[i]]];

		x->uses++;
		x->over_ns = 0;
	}
	return p;
}

uint32_t *
order_more(struct tune *t, struct arena *tmp, uint32_t *n)
{
	uint32_t n_specs = t->front.cands.n_specs, *out = NEW_ARRAY(tmp, uint32_t, MAX_OF(n_specs, 1u));
	struct more *list = NEW_ARRAY(tmp, struct more, MAX_OF(n_specs, 1u));
	const struct standing *p = standings(t, tmp);
	double least_ns = worth * (double)t->best_measured;

	*n = 0;
	for (uint32_t s = 0; s < n_specs && t->n_measured_plan > 0; s++) {
		struct spec_cost *c = &t->cost[s];
		uint32_t more;
		double gain;

		if (c->state != LAZY_MEASURED || !c->is_partly || !(p[s].over_ns < (double)c->measured_ns))
			continue;
		more = count_paying(t, s, fmax(p[s].uses, 1), p[s].over_ns, least_ns, &gain);
		if (more == 0)
			continue;
		c->n_wanted = more;
		c->state = LAZY_OPEN;
		list[(*n)++] = (struct more){gain, s};
	}
	qsort(list, *n, sizeof(*list), most_first);
	for (uint32_t i = 0; i < *n; i++)
		out[i] = list[i].spec;
	return out;
}

bool
order_waits(const struct tune *t)
{
	for (uint32_t s = 0; s < t->front.cands.n_specs; s++)
		if (t->cost[s].state == LAZY_WAITING && t->cost[s].measured_ns > 0)
			return true;
	return false;
}
