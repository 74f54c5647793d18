/* kernels/ir/spec.c: candidates in canonical form.
 *
 * The text of a spec must depend on the computation alone.  Every tensor gets a colour: a hash of
 * how it is made from its operands (upward), then of who reads it (downward), repeated until the
 * colours stop splitting.  The spec is then written depth first from its outputs; colours decide
 * where the graph itself does not: between outputs, and between operands of commutative
 * primitives.  Tensors that share a colour are nearly always images of each other, and any order
 * gives the same text; to be sure, each of a tied pair is made special in turn and the least text
 * wins (individualisation and refinement), within SEARCH_LEAVES texts.
 *
 * Two colours are kept: one without extents decides first, so that computations that differ in
 * sizes only are numbered alike and share their structure hash. */
#include "spec_int.h"

#include <stdlib.h>
#include <string.h>

enum { SEARCH_LEAVES = 64 };

/* ---- the candidate as local arrays -------------------------------------------------- */

/* Equal constants are one. */
static bool
same_value(const struct tensor *x, const struct tensor *y)
{
	if (x->type != y->type || !shape_eq(&x->shape, &y->shape))
		return false;
	for (int64_t i = 0; i < shape_count(&x->shape); i++)
		if (const_bits(x, i) != const_bits(y, i))
			return false;
	return true;
}

static uint32_t
part_of(struct canon *c, tensor_id t)
{
	const struct tensor *x = graph_tensor(c->g, t);

	for (uint32_t i = 0; i < c->n_parts; i++) {
		struct part *p = &c->parts[i];

		if (p->t.i == t.i ||
		    (const_by_value(x) && const_by_value(p->x) && p->maker == NO_NODE && same_value(x, p->x)))
			return i;
	}
	c->parts[c->n_parts] = (struct part){.t = t, .x = x, .maker = NO_NODE};
	return c->n_parts++;
}

static void
gather(struct canon *c, const struct bitset *members, const tensor_id *exports, uint32_t n_exports)
{
	size_t n_parts = n_exports;

	c->nodes = NEW_ARRAY(&c->tmp, struct member, bitset_count(members));
	BITSET_EACH(i, members)
	n_parts += c->g->nodes[i].n_in + c->g->nodes[i].n_out;
	c->parts = NEW_ARRAY(&c->tmp, struct part, n_parts);
	c->exports = NEW_ARRAY(&c->tmp, uint32_t, n_exports);
	BITSET_EACH(i, members)
	{
		const struct node *n = &c->g->nodes[i];
		struct member *m = &c->nodes[c->n_nodes];

		*m = (struct member){.n = n};
		m->in = NEW_ARRAY(&c->tmp, uint32_t, n->n_in);
		m->out = NEW_ARRAY(&c->tmp, uint32_t, n->n_out);
		for (uint32_t k = 0; k < n->n_in; k++)
			m->in[k] = part_of(c, n->in[k]);
		for (uint32_t k = 0; k < n->n_out; k++) {
			m->out[k] = part_of(c, n->out[k]);
			if (c->parts[m->out[k]].maker != NO_NODE)
				bug("two members of a candidate make %%%u", n->out[k].i);
			c->parts[m->out[k]].maker = c->n_nodes;
		}
		c->n_nodes++;
	}
	for (uint32_t i = 0; i < n_exports; i++) {
		uint32_t p = part_of(c, exports[i]);

		if (c->parts[p].maker == NO_NODE)
			bug("a candidate exports %%%u, which no member makes", exports[i].i);
		if (c->parts[p].n_exports++)
			continue; /* named twice: one output */
		c->exports[c->n_exports++] = p;
	}
}

/* ---- writing ------------------------------------------------------------------------ */

/* Parts in the order of a walk from the outputs. */
struct walk {
	struct canon *c;
	uint32_t *order, n_order; /* parts: leaves when first read, results when done */
	uint32_t *outputs;
	unsigned char *done;
};

static void
sort_parts(const struct canon *c, uint32_t *p, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && colour_cmp(c->parts[p[k]].c, c->parts[p[k - 1]].c) < 0; k--) {
			uint32_t t = p[k];

			p[k] = p[k - 1];
			p[k - 1] = t;
		}
}

/* Operands of a member in canonical order. */
static uint32_t *
operands_of(struct canon *c, const struct member *m)
{
	uint32_t *in = arena_dup(&c->tmp, m->in, m->n->n_in * sizeof(*in));

	if (prim_is_commutative(m->n->prim))
		sort_parts(c, in, m->n->n_in);
	return in;
}

static void
visit(struct walk *w, uint32_t part)
{
	const struct part *p = &w->c->parts[part];
	const struct member *m;
	uint32_t *in;

	if (w->done[part])
		return;
	w->done[part] = 1;
	if (p->maker == NO_NODE) {
		w->order[w->n_order++] = part;
		return;
	}
	m = &w->c->nodes[p->maker];
	in = operands_of(w->c, m);
	for (uint32_t k = 0; k < m->n->n_in; k++)
		visit(w, in[k]);
	for (uint32_t k = 0; k < m->n->n_out; k++) {
		w->done[m->out[k]] = 1;
		w->order[w->n_order++] = m->out[k];
	}
}

/* Operands come first in a spec's graph, whatever reads them. */
static void
write_operands(
    struct canon *c, const struct walk *w, struct graph *to, tensor_id *map, struct spec_binding *bind)
{
	bind->operands = NEW_ARRAY(c->a, tensor_id, c->n_parts);
	for (uint32_t i = 0; i < w->n_order; i++) {
		const struct part *p = &c->parts[w->order[i]];
		const struct tensor *x = p->x;

		if (p->maker != NO_NODE || const_by_value(x))
			continue;
		if (x->role == ROLE_WEIGHT || x->role == ROLE_CONST) {
			map[w->order[i]] = graph_const(to, ROLE_WEIGHT, x->type, &x->shape, NULL, NULL);
			GROW(to->arena, to->inputs, to->n_inputs, to->cap_inputs);
			to->inputs[to->n_inputs++] = map[w->order[i]];
		} else {
			map[w->order[i]] = graph_input(to, x->type, &x->shape, NULL);
		}
		bind->operands[bind->n_operands++] = p->t;
	}
}

static void
write_const(const struct canon *c, struct graph *to, const struct tensor *x, tensor_id *out)
{
	size_t n = 0;
	void *data;

	if (!shape_bytes(&x->shape, x->type, &n))
		bug("a constant too large");
	data = arena_alloc(c->a, MAX_OF(n, (size_t)1));
	if (n)
		memcpy(data, x->data, n);
	*out = graph_const(to, ROLE_CONST, x->type, &x->shape, data, NULL);
}

static void
write_node(struct canon *c, struct graph *to, const struct member *m, tensor_id *map)
{
	uint32_t *in = operands_of(c, m);
	tensor_id *args = NEW_ARRAY(&c->tmp, tensor_id, m->n->n_in), out[2];
	struct err e = {0};

	for (uint32_t k = 0; k < m->n->n_in; k++)
		args[k] = map[in[k]];
	if (!graph_add(to, m->n->prim, args, m->n->n_in, &m->n->at, NO_NODE, out, &e))
		bug("a member of a candidate is not valid: %s", e.msg);
	for (uint32_t k = 0; k < m->n->n_out; k++)
		map[m->out[k]] = out[k];
}

/* The text of the present colours; kept when it is the least so far. */
static void
write_leaf(struct canon *c)
{
	struct walk w = {.c = c};
	struct arena_mark mark = arena_mark(c->a);
	tensor_id *map = NEW_ARRAY(&c->tmp, tensor_id, c->n_parts);
	struct spec_binding bind = {0};
	struct graph to;
	struct strbuf sb;

	w.order = NEW_ARRAY(&c->tmp, uint32_t, c->n_parts);
	w.done = NEW_ARRAY(&c->tmp, unsigned char, c->n_parts);
	w.outputs = arena_dup(&c->tmp, c->exports, c->n_exports * sizeof(*w.outputs));
	sort_parts(c, w.outputs, c->n_exports);
	for (uint32_t i = 0; i < c->n_exports; i++)
		visit(&w, w.outputs[i]);
	graph_init(&to, c->a);
	graph_room(&to, w.n_order, c->n_nodes);
	write_operands(c, &w, &to, map, &bind);
	for (uint32_t i = 0; i < w.n_order; i++) {
		const struct part *p = &c->parts[w.order[i]];

		if (p->maker != NO_NODE) {
			if (c->nodes[p->maker].out[0] == w.order[i])
				write_node(c, &to, &c->nodes[p->maker], map);
		} else if (const_by_value(p->x)) {
			write_const(c, &to, p->x, &map[w.order[i]]);
		}
	}
	bind.results = NEW_ARRAY(c->a, tensor_id, c->n_exports);
	for (uint32_t i = 0; i < c->n_exports; i++) {
		bind.results[bind.n_results++] = c->parts[w.outputs[i]].t;
		graph_output(&to, map[w.outputs[i]], NULL);
	}
	sb_init(&sb, &c->tmp);
	sb_addz(&sb, "spec 1\n");
	graph_print(&sb, &to);
	c->leaves++;
	if (c->found && str_cmp(sb_str(&sb), c->text) >= 0) {
		arena_reset(c->a, mark);
		return;
	}
	c->found = true;
	c->best = to;
	c->text = (struct str){str_dup(c->a, sb_str(&sb)), sb_str(&sb).n};
	c->bind = bind;
}

/* ---- search ------------------------------------------------------------------------- */

static void
search(struct canon *c)
{
	struct colour tie, *saved;
	bool first = true;

	if (colours_refine(c) == c->n_parts || !colours_tied(c, &tie)) {
		write_leaf(c);
		return;
	}
	saved = NEW_ARRAY(&c->tmp, struct colour, c->n_parts);
	for (uint32_t i = 0; i < c->n_parts; i++)
		saved[i] = c->parts[i].c;
	for (uint32_t i = 0; i < c->n_parts; i++) {
		if (colour_cmp(saved[i], tie) != 0 || (!first && c->leaves >= SEARCH_LEAVES))
			continue;
		first = false;
		for (uint32_t k = 0; k < c->n_parts; k++)
			c->parts[k].c = saved[k];
		c->parts[i].c = colour_special(tie);
		search(c);
	}
}

/* Members that no output needs are left out. */
static uint32_t
mark_needed(struct canon *c, unsigned char *needed)
{
	uint32_t *stack = NEW_ARRAY(&c->tmp, uint32_t, c->n_nodes + c->n_exports), n = 0, count = 0;

	for (uint32_t i = 0; i < c->n_exports; i++)
		stack[n++] = c->parts[c->exports[i]].maker;
	for (uint32_t i = 0; i < n; i++)
		needed[stack[i]] = 1;
	while (n) {
		const struct member *m = &c->nodes[stack[--n]];

		for (uint32_t k = 0; k < m->n->n_in; k++) {
			uint32_t u = c->parts[m->in[k]].maker;

			if (u != NO_NODE && !needed[u]) {
				needed[u] = 1;
				stack[n++] = u;
			}
		}
	}
	for (uint32_t i = 0; i < c->n_nodes; i++)
		count += needed[i];
	return count;
}

/* Members may stand in any order in a graph with alternatives: operands first. */
static void
order_members(struct canon *c)
{
	unsigned char *needed = NEW_ARRAY(&c->tmp, unsigned char, c->n_nodes);
	unsigned char *placed = NEW_ARRAY(&c->tmp, unsigned char, c->n_nodes);
	uint32_t want = mark_needed(c, needed), n = 0;
	struct member *to = NEW_ARRAY(&c->tmp, struct member, want);

	while (n < want) {
		uint32_t before = n;

		for (uint32_t i = 0; i < c->n_nodes; i++) {
			bool ready = needed[i] && !placed[i];

			for (uint32_t k = 0; ready && k < c->nodes[i].n->n_in; k++) {
				uint32_t maker = c->parts[c->nodes[i].in[k]].maker;

				ready = maker == NO_NODE || placed[maker];
			}
			if (ready) {
				placed[i] = 1;
				to[n++] = c->nodes[i];
			}
		}
		if (n == before)
			bug("the members of a candidate wait for each other");
	}
	c->nodes = to;
	c->n_nodes = n;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < to[i].n->n_out; k++)
			c->parts[to[i].out[k]].maker = i;
}

void
spec_make(struct arena *a, const struct graph *g, const struct bitset *members, const tensor_id *exports,
    uint32_t n_exports, struct spec *out, struct spec_binding *bind)
{
	struct canon c = {.a = a, .g = g};
	struct strbuf sb;

	gather(&c, members, exports, n_exports);
	order_members(&c);
	colours_start(&c);
	search(&c);
	*out = (struct spec){.g = c.best, .text = c.text};
	out->hash = hash_bytes(out->text.p, out->text.n);
	sb_init(&sb, &c.tmp);
	graph_print_form(&sb, &out->g, FORM_STRUCTURE);
	out->structure = hash_bytes(sb.p, sb.n);
	if (bind)
		*bind = c.bind;
	arena_fini(&c.tmp);
}

/* ---- from outside ------------------------------------------------------------------- */

/* A spec has operands and small constants for leaves, no alternatives, no names. */
static bool
check_plain(const struct graph *g, struct err *e)
{
	struct arena tmp = {0};
	struct graph_index x = graph_index_make(&tmp, g);
	bool ok = true;

	for (uint32_t t = 0; ok && t < g->n_tensors; t++)
		ok = g->tensors[t].role != ROLE_INNER || x.maker_first[t + 1] - x.maker_first[t] == 1;
	arena_fini(&tmp);
	if (!ok)
		return err_set(e, ERR_FORMAT, "a spec with alternatives");
	if (g->n_nodes == 0 || g->n_nodes > SPEC_MAX_NODES)
		return err_set(
		    e, ERR_LIMIT, "a spec of %u nodes; 1 to %d are usable", g->n_nodes, SPEC_MAX_NODES);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (graph_tensor(g, g->outputs[i])->role != ROLE_INNER)
			return err_set(e, ERR_FORMAT, "output %u of a spec is an operand", i);
	return g->n_outputs ? true : err_set(e, ERR_FORMAT, "a spec without output");
}

void
spec_of_graph(struct arena *a, const struct graph *g, struct spec *out)
{
	struct bitset all = bitset_make(a, g->n_nodes);

	for (uint32_t i = 0; i < g->n_nodes; i++)
		bit_set(&all, i);
	spec_make(a, g, &all, g->outputs, g->n_outputs, out, NULL);
}

bool
spec_read(struct arena *a, struct str text, struct spec *out, struct err *e)
{
	struct arena tmp = {0};
	struct graph g;
	struct str rest = text;
	bool ok;

	ok = str_is(str_cut(&rest, '\n'), "spec 1")
	    ? true
	    : err_set(e, ERR_FORMAT, "it does not start with a line 'spec 1'");
	ok = ok && graph_read(&g, &tmp, rest, e) && check_plain(&g, e);
	if (ok) {
		spec_of_graph(a, &g, out);
		if (!str_eq(out->text, text))
			ok = err_set(e, ERR_FORMAT, "a spec that is not in canonical form");
	}
	arena_fini(&tmp);
	return ok ? true : err_in(e, "reading a kernel spec");
}
