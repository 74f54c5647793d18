/* daemon/planner/what_if.c: what a plan without some kernels, or with others, would cost; nothing is
 * measured for it.
 *
 * A kernel is named by the start of its spec's hash.  Forbidden, it counts nowhere.  Forced, it stands in
 * one place at least, and there it alone makes what it makes: all other kernels that compute one of its
 * results, even if only for themselves, are left out.  The place is the one of least reduced cost that
 * goes with the places of the other forced kernels.
 *
 * Where no plan of measured kernels is left, those that were never measured stand at what is expected of
 * them, and the answer says how many they are: a search that measures few kernels knows few plans.
 *
 * Candidates, bound and duals stay those of the program without conditions, and no kernel's cost becomes
 * less: its bound holds for every plan.  The plan alone changes, and no longer claims to be the optimum. */
#include "what_if.h"

#include "expect.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_DIGITS = 4, MOST_DIGITS = 64, SHOWN_DIGITS = 12, LISTED = 4, MAX_TRIES = 10000 };

struct wish {
	struct str name;
	bool is_force;
	uint32_t spec;
	uint32_t *places, n_places; /* force: kernels of the spec, the most promising first */
	uint32_t place;             /* force: the one taken */
};
struct what_if {
	struct tune *t;
	struct arena *a;
	struct wish *wishes;
	uint32_t n;
	struct bitset *makers; /* per wish: graph nodes that make a result of its place */
	uint32_t n_tries;
};

static const char *
flag_of(const struct wish *w)
{
	return w->is_force ? "--force" : "--forbid";
}

/* ---- names ---------------------------------------------------------------------------------- */
static bool
refuse_name(struct tune *t, const struct wish *w, uint32_t n, struct err *e)
{
	struct strbuf sb;
	uint32_t listed = 0, n_named = t->front.cands.n_specs - t->front.cands.n_views;

	if (!n)
		return err_set(e, ERR_USAGE,
		    "%s %.*s: none of this model's %u kernels has a hash that begins so; korch-plan "
		    "show and explain print them",
		    flag_of(w), STR_ARG(w->name), n_named);
	sb_init(&sb, t->arena);
	for (uint32_t s = 0; s < n_named && listed < LISTED; s++) {
		char hex[65];

		hash_hex(&t->front.cands.specs[s].hash, hex);
		if (memcmp(hex, w->name.p, w->name.n) == 0)
			sb_addf(&sb, "%s %.*s ('%.60s')", listed++ ? "," : "",
			    (int)MAX_OF(w->name.n + 2, (size_t)SHOWN_DIGITS), hex, spec_description(t, s));
	}
	return err_set(e, ERR_USAGE, "%s %.*s: the hashes of %u kernels begin so:%s%s; give more digits",
	    flag_of(w), STR_ARG(w->name), n, sb.p, n > listed ? ", ..." : "");
}

static bool
find_named(struct tune *t, struct wish *w, struct err *e)
{
	uint32_t n = 0;

	if (w->name.n < LEAST_DIGITS || w->name.n > MOST_DIGITS)
		return err_set(e, ERR_USAGE,
		    "%s %.*s: wanted the first %d to %d digits of a kernel's hash, as korch-plan show "
		    "prints it",
		    flag_of(w), (int)MIN_OF(w->name.n, (size_t)MOST_DIGITS), w->name.p, LEAST_DIGITS,
		    MOST_DIGITS);
	for (uint32_t s = 0; s < t->front.cands.n_specs; s++) {
		char hex[65];

		hash_hex(&t->front.cands.specs[s].hash, hex);
		if (memcmp(hex, w->name.p, w->name.n) != 0)
			continue;
		w->spec = s;
		n += !cand_is_view(&t->front.cands, s); /* a view is among the others, too */
	}
	return n == 1 || refuse_name(t, w, n, e);
}

/* Does candidate k have the named kernel, or is it the view in that kernel's place? */
static bool
is_named(const struct tune *t, uint32_t k, const struct wish *w)
{
	const struct spec *specs = t->front.cands.specs;

	return hash_eq(&specs[t->program.spec_of[k]].hash, &specs[w->spec].hash);
}

/* ---- places of forced kernels ----------------------------------------------------------------- */
static void
list_places(struct what_if *x, struct wish *w)
{
	const struct tune *t = x->t;
	const double *reduced = t->choice.reduced;

	w->places = NEW_ARRAY(x->a, uint32_t, t->program.n_kernels);
	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		uint32_t i = w->n_places;

		if (!is_named(t, k, w))
			continue;
		for (; i > 0 && reduced[w->places[i - 1]] > reduced[k]; i--)
			w->places[i] = w->places[i - 1];
		w->places[i] = k;
		w->n_places++;
	}
}

/* The graph's nodes that make what kernel k makes. */
static void
note_makers(const struct tune *t, uint32_t k, struct bitset *out)
{
	const struct graph *g = &t->front.graph;
	const struct blp_kernel *b = &t->program.kernels[k];

	memset(out->w, 0, bitset_words(out) * sizeof(*out->w));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t o = 0; o < g->nodes[i].n_out && !node_is_view(g, &g->nodes[i]); o++)
			for (uint32_t j = 0; j < b->n_out; j++)
				if (t->program.class_of[g->nodes[i].out[o].i] == b->out[j])
					bit_set(out, i);
}

static bool
exclude_each_other(const struct what_if *x, uint32_t i, uint32_t j)
{
	const struct cand *c = x->t->front.cands.cands;
	const struct wish *w = x->wishes;

	return w[i].place != w[j].place &&
	    (bitset_meets(&x->makers[i], &c[w[j].place].members) ||
		bitset_meets(&x->makers[j], &c[w[i].place].members));
}

/* Places for wishes i, i + 1, ... beside those before. */
static bool
place_from(struct what_if *x, uint32_t i)
{
	struct wish *w = &x->wishes[i];

	if (i == x->n)
		return true;
	if (!w->is_force)
		return place_from(x, i + 1);
	for (uint32_t p = 0; p < w->n_places && x->n_tries < MAX_TRIES; p++) {
		bool fits = true;

		x->n_tries++;
		w->place = w->places[p];
		note_makers(x->t, w->place, &x->makers[i]);
		for (uint32_t j = 0; j < i && fits; j++)
			fits = !x->wishes[j].is_force || !exclude_each_other(x, i, j);
		if (fits && place_from(x, i + 1))
			return true;
	}
	return false;
}

/* ---- the program with its conditions ---------------------------------------------------------- */
static bool
is_left_out(const struct what_if *x, uint32_t k)
{
	for (uint32_t i = 0; i < x->n; i++) {
		const struct wish *w = &x->wishes[i];

		if (!w->is_force && is_named(x->t, k, w))
			return true;
		if (w->is_force && k != w->place &&
		    bitset_meets(&x->makers[i], &x->t->front.cands.cands[k].members))
			return true;
	}
	return false;
}

/* "without 1a2b3c4d5e6f, with 6f5e4d3c2b1a" */
static struct str
words_of(const struct what_if *x)
{
	struct strbuf sb;

	sb_init(&sb, x->t->arena);
	for (uint32_t i = 0; i < x->n && i < LISTED; i++) {
		char hex[65];

		hash_hex(&x->t->front.cands.specs[x->wishes[i].spec].hash, hex);
		sb_addf(&sb, "%s%s %.*s", i ? ", " : "", x->wishes[i].is_force ? "with" : "without",
		    SHOWN_DIGITS, hex);
	}
	if (x->n > LISTED)
		sb_addz(&sb, " ...");
	return sb_str(&sb);
}

static bool
is_chosen(const struct blp_result *r, uint32_t k)
{
	for (uint32_t i = 0; i < r->n_chosen; i++)
		if (r->chosen[i] == k)
			return true;
	return false;
}

/* A plan may do without a tensor, by another way from what is before it to what is behind it. */
static bool
check_forced(const struct what_if *x, const struct blp_result *r, struct err *e)
{
	for (uint32_t i = 0; i < x->n; i++)
		if (x->wishes[i].is_force && !is_chosen(r, x->wishes[i].place))
			return err_set(e, ERR_USAGE,
			    "--force %.*s: no plan %s would read what it makes: a rewritten form of the "
			    "model (or another forced kernel) does without; korch-plan explain names the "
			    "kernels of that form, "
			    "forbid them too",
			    STR_ARG(x->wishes[i].name), x->t->progress.what_if.p);
	return true;
}

/* What kernel k costs here: where it was never measured BLP_NEVER, or what is expected of it. */
static int64_t
cost_of(const struct what_if *x, uint32_t k, bool by_expectation)
{
	const struct tune *t = x->t;
	const struct spec_cost *c = &t->cost[t->program.spec_of[k]];
	int64_t ns = t->program.kernels[k].cost;

	if (is_left_out(x, k) || c->state == LAZY_FAILED)
		return BLP_NEVER;
	if (cost_is_known(c))
		return ns;
	return by_expectation ? MAX_OF(ns, expect_ns(t, c, 0)) : BLP_NEVER;
}

static bool
solve_again(struct what_if *x, bool by_expectation, int64_t *cost, struct blp_result *r)
{
	struct tune *t = x->t;
	struct err none = {0};

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		cost[k] = cost_of(x, k, by_expectation);
	return blp_solve_again(t->arena, t->solver, cost, NULL, 0, r, &none);
}

static bool
choose(struct what_if *x, struct err *e)
{
	struct tune *t = x->t;
	int64_t *cost = NEW_ARRAY(x->a, int64_t, t->program.n_kernels), base = 0;
	struct blp_result r;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		base += t->program.kernels[t->choice.chosen[i]].cost;
	if (!solve_again(x, false, cost, &r) && !solve_again(x, true, cost, &r))
		return err_set(e, ERR_USAGE, "there is no plan %s: nothing else makes what that leaves out",
		    t->progress.what_if.p);
	if (!check_forced(x, &r, e))
		return false;
	for (uint32_t i = 0; i < r.n_chosen; i++)
		t->program.kernels[r.chosen[i]].cost = cost[r.chosen[i]];
	t->choice.proved = t->choice.proved && r.cost == base;
	t->choice.chosen = r.chosen;
	t->choice.n_chosen = r.n_chosen;
	t->choice.cost = r.cost;
	t->progress.what_if_base_ns = base;
	t->progress.latency_ns = r.cost;
	return true;
}

/* ---- the job's wishes -------------------------------------------------------------------------- */
static bool
read_wishes(struct what_if *x, struct err *e)
{
	const struct m_options *o = &x->t->start.options;

	x->wishes = NEW_ARRAY(x->a, struct wish, MAX_OF(o->n_extra, 1u));
	for (uint32_t i = 0; i < o->n_extra; i++) {
		bool is_force = str_is(o->extra[i].name, "force");
		struct wish *w = &x->wishes[x->n];

		if (!is_force && !str_is(o->extra[i].name, "forbid"))
			continue;
		*w = (struct wish){.name = o->extra[i].value, .is_force = is_force};
		if (!find_named(x->t, w, e))
			return false;
		for (uint32_t j = 0; j < x->n; j++)
			if (x->wishes[j].spec == w->spec && x->wishes[j].is_force != is_force)
				return err_set(e, ERR_USAGE,
				    "kernel %.*s cannot be both forced and forbidden", STR_ARG(w->name));
		x->n++;
	}
	return true;
}

static bool
place_forced(struct what_if *x, struct err *e)
{
	x->makers = NEW_ARRAY(x->a, struct bitset, MAX_OF(x->n, 1u));
	for (uint32_t i = 0; i < x->n; i++) {
		struct wish *w = &x->wishes[i];
		const struct spec_cost *c = &x->t->cost[w->spec];

		x->makers[i] = bitset_make(x->a, x->t->front.graph.n_nodes);
		if (!w->is_force)
			continue;
		if (c->state == LAZY_FAILED)
			return err_set(e, ERR_FAILED, "--force %.*s: that kernel failed here: %.*s",
			    STR_ARG(w->name), STR_ARG(c->cause));
		list_places(x, w);
	}
	return place_from(x, 0) ||
	    err_set(e, ERR_USAGE,
		"there is no plan %s: the forced kernels exclude each other, as one makes what another "
		"computes for itself",
		x->t->progress.what_if.p);
}

/* The plan that the price is a difference to must itself be known. */
static bool
check_base(const struct tune *t, struct err *e)
{
	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		if (!cost_is_known(&t->cost[t->program.spec_of[t->choice.chosen[i]]]))
			return err_set(e, ERR_OFFLINE,
			    "the cache knows no plan of measured kernels for this model and these options; "
			    "tune it once, then ask what-if");
	return true;
}

bool
what_if_asked(const struct tune *t)
{
	for (uint32_t i = 0; i < t->start.options.n_extra; i++)
		if (str_is(t->start.options.extra[i].name, "force") ||
		    str_is(t->start.options.extra[i].name, "forbid"))
			return true;
	return false;
}

bool
what_if_run(struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct what_if x = {.t = t, .a = &tmp};
	bool ok = read_wishes(&x, e);

	if (ok)
		t->progress.what_if = words_of(&x);
	costs_show_known(t);
	ok = ok && check_base(t, e) && place_forced(&x, e) && choose(&x, e);
	arena_fini(&tmp);
	return ok;
}
