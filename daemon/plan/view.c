/* daemon/plan/view.c: which candidates cost nothing, because memory can be laid out for them.
 *
 * A candidate that only moves whole stretches of memory (spec_pieces) is no work where what it reads and
 * makes lies in the right place to begin with: the parts of a concat inside its result, a slice inside what
 * it is cut from.  A class lies in one place, so each may have one *parent* at one offset, for all candidates
 * of the program together; what is fixed here holds whichever of them are chosen, and the program
 * sees the true price: 1 ns, the least that a candidate costs (D2).
 *
 * Not everything can lie elsewhere: inputs and constants lie where they are given, an output where it is
 * wanted, and a stretch that is not aligned would be slower to read and write than it was measured. */
#include "plan_make.h"

#include <stdlib.h>
#include <string.h>

enum class_flags { CLASS_GIVEN = 1, CLASS_FIXED = 2, CLASS_WANTED = 4 };

struct finding {
	struct arena *a;
	const struct graph *g;
	struct cand_set *c;
	struct program *p;
	uint8_t *flags;            /* class -> class_flags */
	size_t *n_bytes;           /* class */
	struct spec_piece **piece; /* spec -> pieces, NULL: it is work */
	uint32_t *n_pieces;
	uint32_t *view_of; /* spec -> the same as a view, UINT32_MAX */
};
struct mover {
	uint32_t cand, n_nodes;
	size_t n_bytes;
};
struct nesting { /* class `sub_buffer` in class `parent` */
	uint32_t sub_buffer, parent;
	size_t at;
};

/* Single primitives first: what they cannot have, a chain of them need not.  Then the largest. */
static int
first_served(const void *x, const void *y)
{
	const struct mover *a = x, *b = y;

	if (a->n_nodes != b->n_nodes)
		return a->n_nodes < b->n_nodes ? -1 : 1;
	if (a->n_bytes != b->n_bytes)
		return a->n_bytes > b->n_bytes ? -1 : 1;
	return (a->cand > b->cand) - (a->cand < b->cand);
}

static void
flag_classes(struct finding *f)
{
	const struct graph *g = f->g;

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t c = f->p->class_of[t];

		if (g->tensors[t].role != ROLE_INNER)
			f->flags[c] |=
			    g->tensors[t].role == ROLE_INPUT ? CLASS_GIVEN : CLASS_GIVEN | CLASS_FIXED;
		if (!shape_bytes(&g->tensors[t].shape, g->tensors[t].type, &f->n_bytes[c]))
			bug("a tensor of the graph has no size");
	}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		f->flags[f->p->class_of[g->outputs[i].i]] |= CLASS_WANTED;
}

static struct mover *
list_movers(struct finding *f, uint32_t *n)
{
	struct mover *list = NEW_ARRAY(f->a, struct mover, MAX_OF(f->c->n_cands, 1u));
	bool *was_seen = NEW_ARRAY(f->a, bool, MAX_OF(f->c->n_specs, 1u));

	*n = 0;
	for (uint32_t k = 0; k < f->c->n_cands; k++) {
		const struct cand *c = &f->c->cands[k];
		uint32_t s = c->spec;

		if (!was_seen[s] && !spec_pieces(f->a, &f->c->specs[s], &f->piece[s], &f->n_pieces[s]))
			f->piece[s] = NULL;
		was_seen[s] = true;
		if (f->piece[s])
			list[(*n)++] = (struct mover){
			    k, f->c->specs[s].g.n_nodes, f->n_bytes[f->p->class_of[c->bind.results[0].i]]};
	}
	qsort(list, *n, sizeof(*list), first_served);
	return list;
}

/* Does `c` lie in `parent`, at some remove? */
static bool
lies_in(const struct program *p, uint32_t c, uint32_t parent)
{
	while (c != UINT32_MAX && c != parent)
		c = p->parent_of[c];
	return c == parent;
}

static bool
may_lodge(const struct finding *f, const struct nesting *l)
{
	const struct program *p = f->p;

	if ((f->flags[l->sub_buffer] & (CLASS_GIVEN | CLASS_WANTED)) || (f->flags[l->parent] & CLASS_FIXED) ||
	    l->at % STRETCH_ALIGN || lies_in(p, l->parent, l->sub_buffer))
		return false;
	return p->parent_of[l->sub_buffer] == UINT32_MAX ||
	    (p->parent_of[l->sub_buffer] == l->parent && p->at[l->sub_buffer] == l->at);
}

/* What must lie where for candidate k to be a view: its only operand around its result, or all operands, each
 * whole and once, in it.  0: it cannot be one.  *out has room for its pieces. */
static uint32_t
lodgings_of(const struct finding *f, uint32_t k, struct nesting *out)
{
	const struct cand *c = &f->c->cands[k];
	const struct spec_piece *p = f->piece[c->spec];
	uint32_t n = f->n_pieces[c->spec], result = f->p->class_of[c->bind.results[0].i];

	if (n != c->bind.n_operands)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t operand = f->p->class_of[c->bind.operands[p[i].operand].i];

		out[i] = (struct nesting){operand, result, p[i].to};
		if (n == 1 && p->n_bytes < f->n_bytes[operand])
			out[i] = (struct nesting){result, operand, p->from};
		else if (p[i].n_bytes != f->n_bytes[operand] || (f->flags[result] & CLASS_GIVEN))
			return 0;
		for (uint32_t j = 0; j < i; j++)
			if (out[j].sub_buffer == out[i].sub_buffer)
				return 0;
		if (!may_lodge(f, &out[i]))
			return 0;
	}
	return n;
}

static uint32_t
view_spec(struct finding *f, uint32_t spec, struct spec *views)
{
	if (f->view_of[spec] == UINT32_MAX) {
		views[f->c->n_views] = f->c->specs[spec];
		f->view_of[spec] = f->c->n_specs + f->c->n_views++;
	}
	return f->view_of[spec];
}

/* Gives the candidates that are views a spec of their own behind the others. */
static void
serve(struct finding *f, const struct mover *list, uint32_t n, struct spec *views)
{
	for (uint32_t i = 0; i < n; i++) {
		struct cand *c = &f->c->cands[list[i].cand];
		struct nesting *l = NEW_ARRAY(f->a, struct nesting, f->n_pieces[c->spec]);
		uint32_t m = lodgings_of(f, list[i].cand, l);

		for (uint32_t j = 0; j < m; j++) {
			f->p->parent_of[l[j].sub_buffer] = l[j].parent;
			f->p->at[l[j].sub_buffer] = l[j].at;
		}
		if (m)
			c->spec = f->p->spec_of[list[i].cand] = view_spec(f, c->spec, views);
	}
}

void
views_find(struct arena *a, const struct graph *g, struct cand_set *c, struct program *p)
{
	struct arena tmp = {0};
	uint32_t n_classes = p->blp.n_tensors, n;
	struct finding f = {.a = &tmp,
	    .g = g,
	    .c = c,
	    .p = p,
	    .flags = NEW_ARRAY(&tmp, uint8_t, n_classes),
	    .n_bytes = NEW_ARRAY(&tmp, size_t, n_classes),
	    .piece = NEW_ARRAY(&tmp, struct spec_piece *, c->n_specs),
	    .n_pieces = NEW_ARRAY(&tmp, uint32_t, c->n_specs),
	    .view_of = NEW_ARRAY(&tmp, uint32_t, c->n_specs)};
	struct spec *views = NEW_ARRAY(&tmp, struct spec, c->n_specs), *all;
	const struct mover *list;

	memset(f.view_of, 0xff, sizeof(*f.view_of) * c->n_specs);
	flag_classes(&f);
	list = list_movers(&f, &n);
	serve(&f, list, n, views);
	if (c->n_views) {
		all = NEW_ARRAY(a, struct spec, (size_t)c->n_specs + c->n_views);
		memcpy(all, c->specs, sizeof(*all) * c->n_specs);
		memcpy(all + c->n_specs, views, sizeof(*all) * c->n_views);
		c->specs = all;
		c->n_specs += c->n_views;
	}
	arena_fini(&tmp);
}
