/* worker/check.c: is a compiled kernel right?  The interpreter is the meaning.
 *
 * Three ways, by size (D10):
 *   full     small specs: every element, on every input set;
 *   sampled  big ones: elements evaluated on demand, at borders, tile edges, tails and random
 *            places; where one needs much, fewer of them, and side by side, as neighbours
 *            share it.  The kernels of one spec are compared with each other in full, so that
 *            one that errs elsewhere stands out and is sampled there;
 *   composed where one element needs too much (norms): every element, node by node.
 * Whether a difference is rounding's, kernels/interp/error_check.h says.
 * It runs on buffers that show what it should not do (trial.h). */
#include "trial.h"

#include "../kernels/interp/error_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_SETS = 4,
	N_SAMPLES = 320,
	MIN_SAMPLES = 48,
	FEWEST_SAMPLES = 16,
	NEIGHBOURS = 8,
	MAY_SHARE = 2, /* cones of so many elements may come to one's */
	MAX_DISPUTED = 24
};
/* Evaluations of a check that is not composed: a part of a second. */
static const uint64_t default_max_full = 3000000, max_cone = 4000000;
static const double default_tolerance = 1e-4;
/* An element on demand takes so long, about, and references in full that take less are no burden. */
static const double evaluation_ns = 60, light_ns = 1e8;

struct set {
	enum input_set kind;
	void **operands;
	struct wanted *want; /* per output */
	struct error_check judge;
};
struct check {
	struct arena arena;
	const struct spec *spec;
	struct check_opts o;
	struct set sets[MAX_SETS];
	uint32_t n_sets;
	bool is_small, is_sampled;
	uint32_t n_samples;   /* of an output, at most */
	uint32_t n_beside;    /* of them so many differ in the last coordinate alone */
	double dense_ns;      /* all elements, about */
	struct guarded *peer; /* outputs of the first right kernel on set 0, while sampled */
};

static const struct tensor *
output(const struct check *c, uint32_t i)
{
	return graph_tensor(&c->spec->g, c->spec->g.outputs[i]);
}

/* ---- what is wanted --------------------------------------------------------------------- */
static double
scalar_work(const struct graph *g)
{
	double sum = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		sum += node_flops(g, n) + (double)shape_count(&graph_tensor(g, n->out[0])->shape);
	}
	return sum;
}

/* How long all elements take, about: plain loops for products and convolutions, a call an operation else. */
static double
dense_ns(const struct graph *g)
{
	static const double in_a_loop = 0.2, by_call = 8;
	double sum = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		sum += node_flops(g, n) * (reference_has_loop(g, n) ? in_a_loop : by_call) +
		    by_call * (double)shape_count(&graph_tensor(g, n->out[0])->shape);
	}
	return sum;
}

static bool
want_dense(struct check *c, struct set *s, struct err *e)
{
	const struct graph *g = &c->spec->g;
	void **out = NEW_ARRAY(&c->arena, void *, g->n_outputs);
	const void *const *in = (const void *const *)s->operands;
	bool ok = c->is_small ? interp_run(&c->arena, g, in, NULL, out, e)
			      : reference_run(&c->arena, g, in, NULL, out, e);

	if (!ok)
		return false;
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		s->want[i].dense = out[i];
		s->want[i].scale = wanted_scale(output(c, i), &s->want[i]);
	}
	return true;
}

/* A coordinate worth looking at: ends, neighbours of tile edges, or anywhere. */
static int64_t
telling_place(struct rng *r, int64_t extent)
{
	static const int tiles[] = {6, 8, 14, 16, 32, 48, 64, 96};
	int64_t tile = tiles[rng_below(r, COUNT_OF(tiles))], at;

	switch (rng_below(r, 4)) {
	case 0:
		return rng_below(r, 2) ? 0 : extent - 1;
	case 1:
		at = (extent / tile) * tile - (int64_t)rng_below(r, 2);
		break;
	case 2:
		at = (int64_t)rng_below(r, (uint32_t)MIN_OF(extent / tile + 1, (int64_t)UINT32_MAX)) * tile -
		    rng_below(r, 2);
		break;
	default:
		at = (int64_t)(rng_unit(r) * (double)extent);
	}
	return MAX_OF(MIN_OF(at, extent - 1), (int64_t)0);
}

/* The i-th place in a row of so many: a telling one, or of several in the row one in each part of it. */
static int64_t
place_in_row(const struct check *c, struct rng *r, uint32_t i, int64_t extent)
{
	uint32_t part = i % c->n_beside;

	if (part == 0)
		return telling_place(r, extent);
	return (int64_t)(((double)part + rng_unit(r)) / c->n_beside * (double)extent);
}

static void
choose_samples(struct check *c, const struct tensor *t, struct wanted *w, struct rng *r)
{
	int64_t count = shape_count(&t->shape), row = 0;
	int last = t->shape.rank - 1;

	w->n = (uint32_t)MIN_OF(count, (int64_t)c->n_samples);
	w->at = NEW_ARRAY(&c->arena, int64_t, w->n);
	w->value = NEW_ARRAY(&c->arena, double, w->n);
	for (uint32_t i = 0; i < w->n; i++) {
		if (count <= c->n_samples) {
			w->at[i] = i;
			continue;
		}
		if (i % c->n_beside == 0) {
			row = 0;
			for (int d = 0; d < last; d++)
				row = row * t->shape.dim[d] + telling_place(r, t->shape.dim[d]);
		}
		w->at[i] = row * t->shape.dim[last] + place_in_row(c, r, i, t->shape.dim[last]);
	}
}

static bool
evaluate_samples(struct check *c, struct set *s, struct err *e)
{
	const struct graph *g = &c->spec->g;
	struct rng r = {mix64(c->o.seed + 77)};

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		struct wanted *w = &s->want[i];

		choose_samples(c, output(c, i), w, &r);
		if (!interp_sample(&c->arena, g, (const void *const *)s->operands, g->outputs[i], w->at, w->n,
			max_cone, NULL, w->value, e))
			return false;
		w->scale = wanted_scale(output(c, i), w);
	}
	return true;
}

/* As many samples as one element's cone leaves room for.  False: not even the fewest, or all elements come
 * cheaper by plain loops (ERR_LIMIT); a norm's element takes all of its row. */
static bool
fit_samples(struct check *c, const struct set *s, struct err *e)
{
	const struct graph *g = &c->spec->g;
	const uint64_t n_apart = FEWEST_SAMPLES / NEIGHBOURS;
	/* beyond this the fewest cost more than all elements, so nobody need count further */
	uint64_t limit = (uint64_t)MIN_OF(
		     (double)(max_cone / n_apart), c->dense_ns / (2 * evaluation_ns * (double)n_apart) + 1),
		 most = 1;

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		int64_t count = shape_count(&output(c, i)->shape);
		uint64_t n;

		if (count == 0)
			continue;
		if (!interp_cone(g, (const void *const *)s->operands, g->outputs[i], count / 2, limit, &n, e))
			return false;
		most = MAX_OF(most, n);
	}
	if (c->n_samples * most > MAY_SHARE * max_cone) {
		c->n_samples =
		    (uint32_t)MIN_OF(MAY_SHARE * max_cone / most * NEIGHBOURS, (uint64_t)c->n_samples / 2);
		c->n_samples = MAX_OF(c->n_samples, (uint32_t)FEWEST_SAMPLES);
		c->n_beside = NEIGHBOURS;
	}
	return 2 * evaluation_ns * (double)(c->n_samples / c->n_beside * most) < c->dense_ns ||
	    err_set(e, ERR_LIMIT, "samples take longer than all of it");
}

/* Convolutions in a row need for one element a field of all channels, which those beside it need, too. */
static bool
want_samples(struct check *c, struct set *s, struct err *e)
{
	if (c->n_sets == 0 && !fit_samples(c, s, e))
		return false;
	while (!evaluate_samples(c, s, e)) {
		if (e->code != ERR_LIMIT || c->n_samples / 2 < FEWEST_SAMPLES)
			return false;
		*e = (struct err){0};
		c->n_samples /= 2;
		c->n_beside = NEIGHBOURS;
	}
	return true;
}

/* More than half of the values are NaN or infinite: this set says little about the kernel. */
static bool
is_mute(const struct check *c, const struct set *s)
{
	int64_t n = 0, silent = 0;

	for (uint32_t i = 0; i < c->spec->g.n_outputs; i++) {
		const struct wanted *w = &s->want[i];
		const struct tensor *t = output(c, i);
		int64_t count = w->dense ? shape_count(&t->shape) : w->n;

		for (int64_t k = 0; k < count; k++)
			silent += !isfinite(w->dense ? elem_get(t->type, w->dense, k) : w->value[k]);
		n += count;
	}
	return silent * 2 > n;
}

static bool
add_set(struct check *c, enum input_set kind, struct err *e)
{
	struct set *s = &c->sets[c->n_sets];
	struct err small = {0};
	bool ok;

	s->kind = kind;
	s->operands = make_operands(&c->arena, c->spec);
	s->want = NEW_ARRAY(&c->arena, struct wanted, c->spec->g.n_outputs);
	fill_operands(c->spec, kind, c->o.seed, s->operands);
	ok = c->is_sampled ? want_samples(c, s, &small) : want_dense(c, s, &small);
	if (!ok && small.code == ERR_LIMIT && c->is_sampled) {
		c->is_sampled = false;
		small = (struct err){0};
		ok = want_dense(c, s, &small);
	}
	if (!ok) {
		*e = small;
		return err_in(e, "the reference of the spec");
	}
	c->n_sets++;
	return true;
}

/* Errors of a later set count against the typical output too: sums that cancel to zero do so
 * only up to rounding. */
static void
share_scales(struct check *c)
{
	for (uint32_t s = 1; s < c->n_sets; s++)
		for (uint32_t i = 0; i < c->spec->g.n_outputs; i++)
			c->sets[s].want[i].scale = fmax(c->sets[s].want[i].scale, c->sets[0].want[i].scale);
}

static bool
make_sets(struct check *c, struct err *e)
{
	if (!add_set(c, SET_NORMAL, e))
		return false;
	if (is_mute(c, &c->sets[0])) {
		c->n_sets = 0;
		if (!add_set(c, SET_POSITIVE, e))
			return false;
	}
	/* Big references in full are dear: one set of them; else another, which shows overflow. */
	if (!c->is_small && !c->is_sampled && c->dense_ns > light_ns)
		return true;
	if (!add_set(c, SET_LARGE, e) ||
	    (c->is_small && (!add_set(c, SET_ZEROS, e) || !add_set(c, SET_NEGATIVE, e))))
		return false;
	share_scales(c);
	return true;
}

/* As many as the cones allow: an element of a layer with many channels is dear. */
static uint32_t
samples_for(const struct graph *g, double work)
{
	double made = 1, n;

	for (uint32_t i = 0; i < g->n_outputs; i++)
		made += (double)shape_count(&graph_tensor(g, g->outputs[i])->shape);
	n = (double)max_cone / 2 / (work / made + 1);
	return n < MIN_SAMPLES ? MIN_SAMPLES : n > N_SAMPLES ? N_SAMPLES : (uint32_t)n;
}

/* Of the graph on one input set; `want` may be other places than the set's own. */
static struct error_check
judge_of(struct check *c, uint32_t set, struct wanted *want)
{
	return (struct error_check){.arena = &c->arena,
	    .g = &c->spec->g,
	    .inputs = (const void *const *)c->sets[set].operands,
	    .want = want,
	    .seed = c->o.seed,
	    .max_cone = c->is_sampled ? max_cone : 0,
	    .may_be_wild = set > 0};
}

bool
check_open(const struct spec *s, const struct check_opts *o, struct check **out, struct err *e)
{
	struct check *c = heap_alloc(sizeof(*c));
	double work = scalar_work(&s->g);

	c->spec = s;
	c->o = *o;
	c->o.tolerance = o->tolerance > 0 ? o->tolerance : default_tolerance;
	c->o.max_full = o->max_full ? o->max_full : default_max_full;
	c->dense_ns = o->dense_ns > 0 ? o->dense_ns : dense_ns(&s->g);
	c->is_small = work <= (double)c->o.max_full;
	c->is_sampled = !c->is_small;
	c->n_samples = samples_for(&s->g, work);
	c->n_beside = 1;
	if (!make_sets(c, e)) {
		check_close(c);
		return false;
	}
	for (uint32_t i = 0; i < c->n_sets; i++)
		c->sets[i].judge = judge_of(c, i, c->sets[i].want);
	*out = c;
	return true;
}

void
check_close(struct check *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; c->peer && i < c->spec->g.n_outputs; i++)
		guarded_drop(&c->peer[i]);
	arena_fini(&c->arena);
	free(c);
}

/* ---- comparing -------------------------------------------------------------------------- */
/* Half precision rounds coarser than any reordering does. */
static double
tolerance_for(const struct check *c, enum dtype t)
{
	switch (t) {
	case DT_f16:
		return fmax(c->o.tolerance, 4e-3);
	case DT_bf16:
		return fmax(c->o.tolerance, 3e-2);
	default:
		return c->o.tolerance;
	}
}

static bool
wrong(const struct check *c, uint32_t set, uint32_t out, const struct verdict *v, struct err *e)
{
	static const char *const names[SET_COUNT] = {[SET_NORMAL] = "normal",
	    [SET_ZEROS] = "zero",
	    [SET_LARGE] = "large",
	    [SET_NEGATIVE] = "negative",
	    [SET_POSITIVE] = "positive"};

	return err_set(e, ERR_WRONG,
	    "output %u, element %" PRId64 " is %.9g, and the reference says %.9g (%" PRId64
	    " elements are off, error %.3g of the largest magnitude, %s inputs)",
	    out, v->at, v->have, v->want, v->n_off, v->worst, names[c->sets[set].kind]);
}

/* ---- running ---------------------------------------------------------------------------- */
/* Some of the places where two results differ by more than `most`, picked among all alike. */
static void
find_disputed(
    struct check *c, const struct tensor *t, const void *x, const void *y, double most, struct wanted *w)
{
	struct rng r = {mix64(c->o.seed + 78)};
	int64_t n = shape_count(&t->shape);
	uint32_t n_seen = 0;

	for (int64_t k = 0; k < n; k++) {
		uint32_t to;

		if (error_of(elem_get(t->type, x, k), elem_get(t->type, y, k)) <= most ||
		    n_seen == UINT32_MAX)
			continue;
		to = n_seen++ < MAX_DISPUTED ? w->n++ : rng_below(&r, n_seen);
		if (to < MAX_DISPUTED)
			w->at[to] = k;
	}
}

/* Where a sampled kernel differs from the first right one, the interpreter is asked. */
static bool
settle_dispute(struct check *c, const struct trial *t, double *error, struct err *e)
{
	const struct graph *g = &c->spec->g;
	struct wanted *want = NEW_ARRAY(&c->arena, struct wanted, g->n_outputs);
	struct error_check j = judge_of(c, 0, want);

	j.max_cone = 20 * max_cone;
	j.may_be_wild = true; /* what is disputed is not of the usual kind */
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *x = output(c, i);
		const void *have = t->ptr[t->n_in + i];
		struct wanted *w = &want[i];
		struct verdict v;

		*w = (struct wanted){.at = NEW_ARRAY(&c->arena, int64_t, MAX_DISPUTED),
		    .value = NEW_ARRAY(&c->arena, double, MAX_DISPUTED),
		    .scale = c->sets[0].want[i].scale};
		find_disputed(c, x, have, guarded_host(&c->peer[i]),
		    dtype_is_float(x->type) ? 2 * tolerance_for(c, x->type) * w->scale : 0, w);
		if (!w->n)
			continue;
		if (!interp_sample(
			&c->arena, g, j.inputs, g->outputs[i], w->at, w->n, j.max_cone, NULL, w->value, e))
			return err_in(e, "the reference of the spec");
		v = check_error(&j, i, tolerance_for(c, x->type), have);
		*error = fmax(*error, v.worst);
		if (v.n_off)
			return wrong(c, 0, i, &v, e);
	}
	return true;
}

static bool
is_right(struct check *c, uint32_t set, struct trial *t, double *error, struct err *e)
{
	if (!trial_is_clean(t, e))
		return false;
	for (uint32_t i = 0; i < c->spec->g.n_outputs; i++) {
		struct verdict v = check_error(
		    &c->sets[set].judge, i, tolerance_for(c, output(c, i)->type), t->ptr[t->n_in + i]);

		if (v.n_off)
			return wrong(c, set, i, &v, e);
		*error = fmax(*error, v.worst);
	}
	if (!c->is_sampled || set != 0)
		return true;
	if (c->peer)
		return settle_dispute(c, t, error, e);
	c->peer = trial_give_outputs(t, &c->arena);
	return true;
}

bool
check_kernel(struct check *c, const struct dev *d, const struct dev_kernel *k, const struct kernel_code *code,
    double *error, struct err *e)
{
	bool ok = d->reserve(d->self, k->shared_bytes, k->local_bytes, e);

	*error = 0;
	for (uint32_t s = 0; ok && s < c->n_sets; s++) {
		struct arena tmp = {0};
		struct trial t;

		ok = trial_make(c->spec, c->sets[s].operands, d, code, &tmp, &t, e) &&
		    trial_run(d, k, &t, e) && is_right(c, s, &t, error, e);
		trial_drop(&t);
		arena_fini(&tmp);
	}
	return ok;
}
