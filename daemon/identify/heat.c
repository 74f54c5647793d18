/* daemon/identify/heat.c: are a candidate's operands hot when it runs?
 *
 * That is asked before any plan is known, so it is answered from the graph: its nodes in topological order
 * are the plan's run, of several makers of a tensor the first one is the plan's, and of the tensors those
 * count that a plan which fuses what it can would keep in memory: not what one map alone reads, and no
 * broadcast or layout with a single reader.  Then, with half of a core's own last cache for room; of several
 * cores that run the plan together each has its part of an activation, the same from kernel to kernel, so
 * that their rooms add up, and all of a weight:
 *
 * An activation is hot where it and all that is touched between its maker and the start of the candidate
 * (behind the last maker of its operands; the candidate's own nodes do not count) fit into that room.
 *
 * An input of the model was last touched a whole run ago: it is hot where all of a run fits.
 *
 * A result lies in work memory that others have used: it is hot where what is live while it is made fits, as
 * a plan takes the place of what died last.  A result of the model is as an input.
 *
 * A weight is hot where all weights and the most that is live fit into the room, near where they fit into two
 * thirds of the last cache (some forms of a weight are larger than it, and a cache that is nearly full keeps
 * nothing of what comes round): between two uses of it the whole plan has run, and with it what it moves
 * through the last cache counts, too: activations that have left the core's own caches when they are read,
 * each time that they are (a last cache drops what is not asked for at random, or nearly: 36 MB of a Xeon's
 * 96 came back at its rate with nothing between, and at memory's with 3 MB written again and again).  One
 * that the run has used before (a recurrent net's, at each step) is near or hot where it and all that was
 * touched since fit.
 *
 * Candidates of equal specs stand at several places; most of them decide, letter by letter, so that a spec
 * has one word in a job. */
#include "heat.h"

struct run { /* the graph as a run */
	const struct graph *g;
	const struct heat_caches *caches;
	uint32_t *root;  /* per tensor: of those that are views of each other */
	uint32_t *maker; /* per root: its node; NO_NODE: it is given */
	bool *is_kept;   /* per root: it lies in memory between two kernels */
	size_t *touched; /* per node: bytes that it is the first to touch */
	size_t *before;  /* per node: those of all nodes before it; one more behind the last */
	size_t *live_at; /* per node: bytes that are live while it runs */
	size_t *moved;   /* per node: bytes that it makes, and of weights and inputs that it reads */
	uint32_t *uses;  /* per weight: nodes of the run that read it */
	size_t weights, live, all;
	size_t flow; /* what its readers find beyond the core's own caches */
};

static size_t
bytes_of(const struct graph *g, uint32_t t)
{
	size_t n;

	return shape_bytes(&g->tensors[t].shape, g->tensors[t].type, &n) ? n : SIZE_MAX / 4;
}

/* Sums of what a graph holds may be larger than any memory. */
static size_t
plus(size_t a, size_t b)
{
	return a > SIZE_MAX / 2 - MIN_OF(b, SIZE_MAX / 2) ? SIZE_MAX / 2 : a + b;
}

static bool
is_given(const struct graph *g, uint32_t t)
{
	return g->tensors[t].role != ROLE_INNER;
}

static bool
is_weight(const struct graph *g, uint32_t t)
{
	return g->tensors[t].role == ROLE_WEIGHT || g->tensors[t].role == ROLE_CONST;
}

/* ---- the run ------------------------------------------------------------------------------------ */
static void
find_roots(struct arena *a, struct run *r)
{
	const struct graph *g = r->g;

	r->root = NEW_ARRAY(a, uint32_t, g->n_tensors);
	r->maker = NEW_ARRAY(a, uint32_t, g->n_tensors);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		r->root[t] = t;
		r->maker[t] = NO_NODE;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (node_is_view(g, &g->nodes[i]))
			sets_join(r->root, g->nodes[i].in[0].i, g->nodes[i].out[0].i);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		r->root[t] = sets_root(r->root, t);
	for (uint32_t i = g->n_nodes; i-- > 0;)
		for (uint32_t o = 0; o < g->nodes[i].n_out; o++)
			if (!node_is_view(g, &g->nodes[i]))
				r->maker[r->root[g->nodes[i].out[o].i]] = i;
}

static bool
makes(const struct run *r, uint32_t node, uint32_t root)
{
	return r->maker[root] == node;
}

static bool
is_in_run(const struct run *r, const bool *is_needed, uint32_t node)
{
	const struct node *n = &r->g->nodes[node];

	for (uint32_t o = 0; o < n->n_out; o++)
		if (is_needed[r->root[n->out[o].i]] && makes(r, node, r->root[n->out[o].i]))
			return true;
	return false;
}

/* Nodes that the outputs need, by the chosen makers. */
static bool *
find_nodes(struct arena *a, const struct run *r)
{
	const struct graph *g = r->g;
	bool *is_needed = NEW_ARRAY(a, bool, g->n_tensors),
	     *is_run = NEW_ARRAY(a, bool, MAX_OF(g->n_nodes, 1u));

	for (uint32_t i = 0; i < g->n_outputs; i++)
		is_needed[r->root[g->outputs[i].i]] = true;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		is_run[i] = is_in_run(r, is_needed, i);
		for (uint32_t k = 0; is_run[i] && k < g->nodes[i].n_in; k++)
			is_needed[r->root[g->nodes[i].in[k].i]] = true;
	}
	return is_run;
}

/* What its single reader takes in passing is no memory. */
static bool
passes_by(const struct graph *g, uint32_t maker, uint32_t reader)
{
	enum prim_class made = prim_info[g->nodes[maker].prim].class;

	return made == CLASS_BCAST || made == CLASS_LAYOUT ||
	    prim_info[g->nodes[reader].prim].class == CLASS_MAP;
}

static void
find_kept(struct arena *a, struct run *r, const bool *is_run, uint32_t *last)
{
	const struct graph *g = r->g;
	uint32_t *n_readers = NEW_ARRAY(a, uint32_t, g->n_tensors);

	r->is_kept = NEW_ARRAY(a, bool, g->n_tensors);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; is_run[i] && !node_is_view(g, &g->nodes[i]) && k < g->nodes[i].n_in;
		     k++) {
			uint32_t t = r->root[g->nodes[i].in[k].i];

			n_readers[t] += n_readers[t] == 0 || last[t] != i;
			last[t] = i;
		}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		n_readers[r->root[g->outputs[i].i]] += 2; /* it is memory whoever reads it */
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t m = r->maker[t];

		if (r->root[t] == t && m != NO_NODE && is_run[m] && n_readers[t])
			r->is_kept[t] = n_readers[t] > 1 || !passes_by(g, m, last[t]);
	}
}

/* Each byte by its first toucher: results by their maker, weights and inputs by their first reader. */
static void
find_touched(struct arena *a, struct run *r, const bool *is_run)
{
	const struct graph *g = r->g;
	bool *is_seen = NEW_ARRAY(a, bool, g->n_tensors);

	r->touched = NEW_ARRAY(a, size_t, MAX_OF(g->n_nodes, 1u));
	r->moved = NEW_ARRAY(a, size_t, MAX_OF(g->n_nodes, 1u));
	r->uses = NEW_ARRAY(a, uint32_t, g->n_tensors);
	r->before = NEW_ARRAY(a, size_t, g->n_nodes + 1);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		for (uint32_t k = 0; is_run[i] && k < n->n_in; k++) {
			const uint32_t t = n->in[k].i;

			if (!is_given(g, t))
				continue;
			r->moved[i] = plus(r->moved[i], bytes_of(g, t));
			r->uses[t]++;
			if (is_seen[t])
				continue;
			is_seen[t] = true;
			r->touched[i] = plus(r->touched[i], bytes_of(g, t));
			if (is_weight(g, t))
				r->weights = plus(r->weights, bytes_of(g, t));
		}
		for (uint32_t o = 0; is_run[i] && o < n->n_out; o++) {
			uint32_t t = r->root[n->out[o].i];

			if (!r->is_kept[t] || !makes(r, i, t))
				continue;
			r->touched[i] = plus(r->touched[i], bytes_of(g, n->out[o].i));
			r->moved[i] = plus(r->moved[i], bytes_of(g, n->out[o].i));
		}
		r->before[i + 1] = plus(r->before[i], r->touched[i]);
	}
	r->all = r->before[g->n_nodes];
}

/* What is live at a time, and the most of it. */
static void
find_live(struct arena *a, struct run *r, const bool *is_run, const uint32_t *last)
{
	const struct graph *g = r->g;
	size_t *dies = NEW_ARRAY(a, size_t, g->n_nodes + 1), now = 0;

	r->live_at = NEW_ARRAY(a, size_t, MAX_OF(g->n_nodes, 1u));
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		for (uint32_t o = 0; is_run[i] && o < g->nodes[i].n_out; o++) {
			uint32_t t = r->root[g->nodes[i].out[o].i];

			if (!r->is_kept[t] || !makes(r, i, t))
				continue;
			now = plus(now, bytes_of(g, t));
			dies[MAX_OF(last[t], i)] = plus(dies[MAX_OF(last[t], i)], bytes_of(g, t));
		}
		r->live_at[i] = now;
		r->live = MAX_OF(r->live, now);
		now -= MIN_OF(now, dies[i]);
	}
}

static bool
fits_core(const struct run *r, size_t bytes)
{
	return r->caches->own > 0 && bytes <= r->caches->own / 2;
}

/* What the cores share out among them. */
static bool
fits(const struct run *r, size_t bytes)
{
	return fits_core(r, bytes / MAX_OF(r->caches->n_cores, 1u));
}

/* Activations that have left the core's own caches when a reader comes: they pass through the last one, each
 * time. */
static void
find_flow(struct run *r, const bool *is_run)
{
	const struct graph *g = r->g;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; is_run[i] && k < g->nodes[i].n_in; k++) {
			const uint32_t t = r->root[g->nodes[i].in[k].i], m = r->maker[t];
			const size_t n = bytes_of(g, g->nodes[i].in[k].i);

			if (r->is_kept[t] && m != NO_NODE && m < i && !node_is_view(g, &g->nodes[i]) &&
			    !fits(r, plus(n, r->before[i] - r->before[m + 1])))
				r->flow = plus(r->flow, n);
		}
}

/* ---- one candidate --------------------------------------------------------------------------------- */
static bool
is_near(const struct run *r, size_t bytes)
{
	return r->caches->last > 0 && bytes <= r->caches->last / 3 * 2;
}

static bool
reads(const struct graph *g, uint32_t node, uint32_t t)
{
	for (uint32_t k = 0; k < g->nodes[node].n_in; k++)
		if (g->nodes[node].in[k].i == t)
			return true;
	return false;
}

/* Bytes of the weight and of what is touched between its use before the candidate and the candidate's own, as
 * far as the last cache goes; more than that: there is no such use. */
static size_t
since_last_use(const struct run *r, const struct cand *c, uint32_t t)
{
	size_t n = bytes_of(r->g, t);
	uint32_t at = 0;

	BITSET_EACH(i, &c->members)
	{
		at = i;
		if (reads(r->g, i, t))
			break;
	}
	while (at-- > 0 && n <= r->caches->last) {
		if (r->moved[at] > 0 && reads(r->g, at, t)) /* (another maker is not run) */
			return n;
		n = plus(n, r->moved[at]);
	}
	return SIZE_MAX / 2;
}

static enum heat
heat_of_weight(const struct run *r, const struct cand *c, uint32_t t)
{
	size_t since = r->uses[t] > 1 ? since_last_use(r, c, t) : SIZE_MAX / 2;

	if (fits_core(r, MIN_OF(plus(r->weights, r->live), since)))
		return HEAT_HOT;
	return is_near(r, MIN_OF(plus(r->weights, r->flow), since)) ? HEAT_NEAR : HEAT_COLD;
}

/* Bytes touched behind node `from` up to node `to`, other than by the candidate's own nodes. */
static size_t
touched_between(const struct run *r, const struct cand *c, uint32_t from, uint32_t to)
{
	size_t n = r->before[to + 1] - r->before[from + 1];

	BITSET_EACH(i, &c->members)
	{
		if (i > from && i <= to)
			n -= MIN_OF(n, r->touched[i]);
	}
	return n;
}

/* The last maker of what it reads; NO_NODE: all of that is given. */
static uint32_t
start_of(const struct run *r, const struct cand *c)
{
	uint32_t at = NO_NODE;

	for (uint32_t i = 0; i < c->n_in; i++) {
		uint32_t m = r->maker[r->root[c->in[i].i]];

		if (m != NO_NODE && (at == NO_NODE || m > at))
			at = m;
	}
	return at;
}

static enum heat
heat_of_operand(const struct run *r, const struct cand *c, tensor_id t, uint32_t start)
{
	uint32_t m = r->maker[r->root[t.i]];

	if (is_weight(r->g, r->root[t.i]))
		return heat_of_weight(r, c, r->root[t.i]);
	if (m == NO_NODE || m > start)
		return fits(r, r->all) ? HEAT_HOT : HEAT_COLD;
	return fits(r, plus(bytes_of(r->g, t.i), touched_between(r, c, m, start))) ? HEAT_HOT : HEAT_COLD;
}

static enum heat
heat_of_result(const struct run *r, tensor_id t)
{
	uint32_t m;

	for (uint32_t i = 0; i < r->g->n_outputs; i++)
		if (r->root[r->g->outputs[i].i] == r->root[t.i])
			return fits(r, r->all) ? HEAT_HOT : HEAT_COLD;
	m = r->maker[r->root[t.i]];
	return m != NO_NODE && fits(r, MAX_OF(r->live_at[m], bytes_of(r->g, t.i))) ? HEAT_HOT : HEAT_COLD;
}

/* ---- words ---------------------------------------------------------------------------------------- */
struct votes { /* of a spec's places */
	uint32_t n_letters, n;
	uint32_t (*of)[HEAT_HOT + 1]; /* per letter and heat */
};

static void
vote(struct arena *a, const struct run *r, const struct cand *c, struct votes *v)
{
	const struct spec_binding *b = &c->bind;
	uint32_t start = start_of(r, c);

	if (v->n++ == 0) {
		v->n_letters = b->n_operands + b->n_results;
		v->of = arena_alloc(a, sizeof(*v->of) * MAX_OF(v->n_letters, 1u));
	}
	for (uint32_t i = 0; i < v->n_letters; i++)
		v->of[i][i < b->n_operands ? heat_of_operand(r, c, b->operands[i], start)
					   : heat_of_result(r, b->results[i - b->n_operands])]++;
}

/* More than half of the places: else it is cold. */
static struct str
word_of(struct arena *a, const struct votes *v)
{
	char *p = arena_alloc(a, v->n_letters + 1);
	bool is_warm = false;

	for (uint32_t i = 0; i < v->n_letters; i++) {
		enum heat h = HEAT_COLD;
		for (int k = HEAT_NEAR; k <= HEAT_HOT; k++)
			if (2 * v->of[i][k] > v->n)
				h = (enum heat)k;
		p[i] = heat_letter(h);
		is_warm |= h != HEAT_COLD;
	}
	return is_warm && v->n_letters <= HEAT_MAX ? (struct str){p, v->n_letters} : STR("");
}

struct str *
heats_decide(
    struct arena *a, const struct graph *g, const struct cand_set *c, const struct heat_caches *caches)
{
	struct arena tmp = {0};
	struct run r = {.g = g, .caches = caches};
	struct votes *v = NEW_ARRAY(&tmp, struct votes, MAX_OF(c->n_specs, 1u));
	struct str *words = NEW_ARRAY(a, struct str, MAX_OF(c->n_specs, 1u));
	uint32_t *last = NEW_ARRAY(&tmp, uint32_t, MAX_OF(g->n_tensors, 1u));
	bool *is_run;

	find_roots(&tmp, &r);
	is_run = find_nodes(&tmp, &r);
	find_kept(&tmp, &r, is_run, last);
	find_touched(&tmp, &r, is_run);
	find_live(&tmp, &r, is_run, last);
	find_flow(&r, is_run);
	for (uint32_t k = 0; k < c->n_cands; k++)
		vote(&tmp, &r, &c->cands[k], &v[c->cands[k].spec]);
	for (uint32_t s = 0; s < c->n_specs; s++)
		words[s] = v[s].n ? word_of(a, &v[s]) : STR("");
	arena_fini(&tmp);
	return words;
}
