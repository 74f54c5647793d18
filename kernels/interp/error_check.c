/* kernels/interp/error_check.c: see judge.h. */
#include "error_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHAKES = 8,     /* of an element, at most: by 1, 1, 2, 2, 4, 4, 8, 8 last places */
	MULTIPLE = 4,   /* of the largest move: sums of other orders err more than one shake shows */
	CHUNK = 24,     /* elements shaken together by their cones: a wrong kernel shows in the first */
	FEW = 65536,    /* elements that may all be off; of more a fourth */
	PICKS = 1000,   /* of an output, to know its usual magnitude */
	ABOVE_USUAL = 8 /* times what nine of ten stay below: a normal distribution never gets there */
};
static const double wild = 1e-2; /* of the scale: an element that may be off so far shows little */

double
error_of(double have, double want)
{
	if (isnan(want) || fabs(want) > 1e30)
		return isnan(have) || fabs(have) > 1e29 ? 0 : INFINITY;
	return isfinite(have) ? fabs(have - want) : INFINITY;
}

/* ---- what errors are measured against ----------------------------------------------------------- */
static double
value_of(const struct tensor *t, const void *p, int64_t at)
{
	return dtype_is_float(t->type) ? elem_get(t->type, p, at) : (double)elem_get_int(t->type, p, at);
}

static double
magnitude(const struct tensor *t, const struct wanted *w, int64_t k)
{
	double v = fabs(w->dense ? value_of(t, w->dense, k) : w->value[k]);

	return isfinite(v) && v < 1e30 ? v : 0;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
wanted_scale(const struct tensor *t, const struct wanted *w)
{
	int64_t n = w->dense ? shape_count(&t->shape) : w->n;
	double most = 0, pick[PICKS], usual;
	uint32_t n_picks = 0;

	for (int64_t k = 0; k < n; k++)
		most = fmax(most, magnitude(t, w, k));
	for (; n > 0 && n_picks < PICKS; n_picks++)
		pick[n_picks] =
		    magnitude(t, w, n <= PICKS ? n_picks % n : (int64_t)(mix64(n_picks) % (uint64_t)n));
	qsort(pick, n_picks, sizeof(*pick), by_size);
	usual = n_picks ? pick[n_picks * 9 / 10] : 0;
	return usual > 0 ? fmin(most, ABOVE_USUAL * usual) : most;
}

/* ---- one result, looked at -------------------------------------------------------------------- */
struct look {
	struct error_check *j;
	uint32_t output;
	const struct tensor *t;
	struct wanted *w;
	const void *have;
	double tolerance, scale;
	int64_t n;    /* elements that are compared */
	int64_t *off; /* indices among them, outside the tolerance */
	int64_t n_off, room;
	struct verdict v;
};

static int64_t
place(const struct look *l, int64_t k)
{
	return l->w->dense ? k : l->w->at[k];
}

static double
wanted_value(const struct look *l, int64_t k)
{
	return l->w->dense ? value_of(l->t, l->w->dense, k) : l->w->value[k];
}

static double
error_at(const struct look *l, int64_t k)
{
	return error_of(value_of(l->t, l->have, place(l, k)), wanted_value(l, k));
}

/* What element k may be off by is a share of this. */
static double
scale_at(const struct look *l, int64_t k)
{
	double want = fabs(wanted_value(l, k));

	return want > l->scale && want < 1e30 && dtype_is_float(l->t->type) ? want : l->scale;
}

static double
relative(const struct look *l, int64_t k)
{
	double err = error_at(l, k), scale = scale_at(l, k);

	return err == 0 ? 0 : scale > 0 ? err / scale : INFINITY;
}

static void
is_wrong(struct look *l, int64_t k)
{
	double rel = relative(l, k);

	if (rel > l->v.worst || l->v.n_off == 0) {
		l->v.at = place(l, k);
		l->v.have = value_of(l->t, l->have, l->v.at);
		l->v.want = wanted_value(l, k);
	}
	l->v.worst = fmax(l->v.worst, rel);
	l->v.n_off++;
}

static void
add_off(struct look *l, int64_t k)
{
	if (l->n_off == l->room) {
		l->room = MAX_OF(2 * l->room, (int64_t)64);
		l->off = heap_resize(l->off, ck_mul((size_t)l->room, sizeof(*l->off)));
	}
	l->off[l->n_off++] = k;
}

/* Which elements are outside the tolerance; false: too many for any excuse. */
static bool
compare(struct look *l)
{
	int64_t most = MAX_OF((int64_t)FEW, l->n / 4);

	for (int64_t k = 0; k < l->n; k++) {
		double rel = relative(l, k);

		if (rel <= l->tolerance)
			l->v.worst = fmax(l->v.worst, rel);
		else if (l->n_off < most)
			add_off(l, k);
		else
			return false;
	}
	return true;
}

/* ---- shaking ------------------------------------------------------------------------------------ */
static struct shake
shake_number(const struct error_check *j, uint32_t n)
{
	return (struct shake){mix64(j->seed * 31 + n), MAX_OF(j->grain, 1u) << n / 2};
}

static void
need_moves(struct error_check *j, uint32_t output)
{
	struct wanted *w = &j->want[output];
	int64_t n = w->dense ? shape_count(&graph_tensor(j->g, j->g->outputs[output])->shape) : w->n;

	if (w->moved)
		return;
	w->moved = NEW_ARRAY(j->arena, float, (size_t)n);
	w->shakes = w->dense ? NULL : NEW_ARRAY(j->arena, uint8_t, (size_t)n);
}

static void
note_move(struct wanted *w, int64_t k, double shaken, double want)
{
	w->moved[k] = fmaxf(w->moved[k], (float)error_of(shaken, want));
}

/* The graph in full once more; what it shows is kept for all outputs. */
static bool
shake_all(struct error_check *j)
{
	const struct graph *g = j->g;
	struct shake s = shake_number(j, j->n_shakes++);
	struct arena tmp = {0};
	void **out = NEW_ARRAY(&tmp, void *, g->n_outputs);
	struct err e = {0};
	bool ok = reference_run(&tmp, g, j->inputs, &s, out, &e);

	for (uint32_t i = 0; ok && i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		struct wanted *w = &j->want[i];
		int64_t n = w->dense ? shape_count(&t->shape) : w->n;

		need_moves(j, i);
		for (int64_t k = 0; k < n; k++)
			note_move(w, k, value_of(t, out[i], w->dense ? k : w->at[k]),
			    w->dense ? value_of(t, w->dense, k) : w->value[k]);
	}
	arena_fini(&tmp);
	return ok;
}

/* Some elements once more, each by its own next shake (they have all had equally many); false where their
 * cones are too large. */
static bool
shake_some(const struct look *l, const int64_t *list, uint32_t n)
{
	struct error_check *j = l->j;
	int64_t at[CHUNK];
	double value[CHUNK];
	struct shake s = shake_number(j, l->w->shakes[list[0]]);
	struct arena tmp = {0};
	struct err e = {0};
	bool ok;

	for (uint32_t i = 0; i < n; i++)
		at[i] = place(l, list[i]);
	ok =
	    interp_sample(&tmp, j->g, j->inputs, j->g->outputs[l->output], at, n, j->max_cone, &s, value, &e);
	for (uint32_t i = 0; ok && i < n; i++) {
		note_move(l->w, list[i], value[i], wanted_value(l, list[i]));
		l->w->shakes[list[i]]++;
	}
	arena_fini(&tmp);
	return ok;
}

static bool
is_excused(const struct look *l, int64_t k)
{
	return error_at(l, k) <= l->tolerance * scale_at(l, k) + MULTIPLE * (double)l->w->moved[k];
}

/* Moves what is excused out of list[0..n), returns how many remain. */
static int64_t
weed(struct look *l, int64_t *list, int64_t n)
{
	int64_t left = 0;

	for (int64_t i = 0; i < n; i++) {
		if (!is_excused(l, list[i]))
			list[left++] = list[i];
		else
			l->v.n_excused++;
	}
	return left;
}

static int64_t
excuse_all(struct look *l, int64_t *list, int64_t n)
{
	need_moves(l->j, l->output);
	n = weed(l, list, n);
	while (n && l->j->n_shakes < SHAKES && shake_all(l->j))
		n = weed(l, list, n);
	return n;
}

static uint32_t
fewest_shakes(const struct look *l, const int64_t *list, int64_t n)
{
	uint32_t least = SHAKES;

	for (int64_t i = 0; i < n; i++)
		least = MIN_OF(least, (uint32_t)l->w->shakes[list[i]]);
	return least;
}

/* A shake of those of the list that have had the fewest; false: none has one left, or their cones are too
 * large. */
static bool
shake_next(const struct look *l, const int64_t *list, int64_t n)
{
	uint32_t least = fewest_shakes(l, list, n), n_now = 0;
	int64_t now[CHUNK];

	for (int64_t i = 0; i < n; i++)
		if (l->w->shakes[list[i]] == least)
			now[n_now++] = list[i];
	return least < SHAKES && shake_some(l, now, n_now);
}

static int64_t
excuse_chunk(struct look *l, int64_t *list, int64_t n)
{
	need_moves(l->j, l->output);
	n = weed(l, list, n);
	while (n && shake_next(l, list, n))
		n = weed(l, list, n);
	if (n && fewest_shakes(l, list, n) < SHAKES) /* cones without end */
		n = excuse_all(l, list, n);
	return n;
}

/* An element that anything may excuse shows nothing; there may be some, not many. */
static bool
shows_enough(const struct look *l)
{
	int64_t n_wild = 0;

	for (int64_t i = 0; i < l->n_off; i++)
		n_wild += relative(l, l->off[i]) > wild;
	return l->j->may_be_wild || n_wild <= 1 + l->n / 8;
}

static void
excuse(struct look *l)
{
	int64_t *list = heap_alloc(ck_mul((size_t)l->n_off, sizeof(*list)));
	int64_t step = l->j->max_cone ? CHUNK : l->n_off, left = 0;

	memcpy(list, l->off, (size_t)l->n_off * sizeof(*list));
	for (int64_t i = 0; i < l->n_off && !left; i += step) {
		int64_t n = MIN_OF(step, l->n_off - i);

		left = l->j->max_cone ? excuse_chunk(l, list + i, n) : excuse_all(l, list + i, n);
		for (int64_t k = 0; k < left; k++)
			is_wrong(l, list[i + k]);
	}
	free(list);
}

struct verdict
check_error(struct error_check *j, uint32_t output, double tolerance, const void *have)
{
	const struct tensor *t = graph_tensor(j->g, j->g->outputs[output]);
	bool is_float = dtype_is_float(t->type);
	struct look l = {.j = j,
	    .output = output,
	    .t = t,
	    .w = &j->want[output],
	    .have = have,
	    .tolerance = is_float ? tolerance : 0,
	    .scale = is_float ? j->want[output].scale : 1};
	bool is_hopeless;

	l.n = l.w->dense ? shape_count(&t->shape) : l.w->n;
	is_hopeless = !compare(&l) || !shows_enough(&l);
	if (l.n_off && !is_hopeless)
		excuse(&l);
	for (int64_t i = 0; i < l.n_off && is_hopeless; i++)
		is_wrong(&l, l.off[i]);
	free(l.off);
	return l.v;
}
