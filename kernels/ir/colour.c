/* kernels/ir/colour.c: colours of a candidate's tensors: hashes of how a tensor is made and of who
 * reads it, refined until they stop splitting.  They know nothing of names, ids or order. */
#include "spec_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 64 };

static uint64_t
mix2(uint64_t a, uint64_t b)
{
	return mix64(a ^ (b + 0x9e3779b97f4a7c15u + (a << 12) + (a >> 4)));
}

static struct colour
join(struct colour a, struct colour b)
{
	return (struct colour){mix2(a.form, b.form), mix2(a.full, b.full)};
}

static struct colour
plain(uint64_t v)
{
	return (struct colour){v, v};
}

int
colour_cmp(struct colour a, struct colour b)
{
	if (a.form != b.form)
		return a.form < b.form ? -1 : 1;
	return (a.full > b.full) - (a.full < b.full);
}

/* A constant that travels by value. */
bool
const_by_value(const struct tensor *x)
{
	return x->role == ROLE_CONST && shape_count(&x->shape) <= SPEC_MAX_CONST;
}

/* Bits of an element as its text has them: one NaN, no payloads. */
uint64_t
const_bits(const struct tensor *x, int64_t i)
{
	double v;
	uint64_t bits;

	if (!dtype_is_float(x->type))
		return (uint64_t)elem_get_int(x->type, x->data, i);
	v = elem_get(x->type, x->data, i);
	memcpy(&bits, &v, sizeof(bits));
	return v == v ? bits : UINT64_MAX;
}

static struct colour
leaf_colour(const struct part *p)
{
	const struct tensor *x = p->x;
	uint64_t kind = x->role == ROLE_WEIGHT || x->role == ROLE_CONST ? 1 : 0;
	struct colour c;

	if (const_by_value(x))
		kind = 2;
	c.form = c.full = mix2(kind, mix2((uint64_t)x->type, (uint64_t)x->shape.rank));
	c.full = mix2(c.full, hash64(x->shape.dim, (size_t)x->shape.rank * sizeof(x->shape.dim[0]), 1));
	for (int64_t i = 0; kind == 2 && i < shape_count(&x->shape); i++)
		c.full = mix2(c.full, const_bits(x, i));
	return c;
}

static struct colour
node_colour(const struct node *n)
{
	struct colour c = plain(mix2(3, (uint64_t)n->prim));

	for (int i = 0; i < n->at.n; i++) {
		const struct attr *a = &n->at.a[i];
		uint64_t h = hash64(a->i, (size_t)a->n * sizeof(a->i[0]), (uint64_t)a->key);
		double real = a->real != a->real ? 0.5 : a->real;

		h = mix2(h, hash64(&real, sizeof(real), (uint64_t)(a->real != a->real)));
		c.full = mix2(c.full, h);
		if (!attr_is_extent(a->key))
			c.form = mix2(c.form, h);
	}
	return c;
}

void
colours_start(struct canon *c)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		c->parts[i].c = c->parts[i].maker == NO_NODE ? leaf_colour(&c->parts[i])
							     : plain(5 + c->parts[i].n_exports);
	for (uint32_t i = 0; i < c->n_nodes; i++)
		c->nodes[i].c = node_colour(c->nodes[i].n);
}

/* A sum does not see the order of what it adds. */
static struct colour
plus(struct colour a, struct colour b)
{
	return (struct colour){a.form + mix64(b.form), a.full + mix64(b.full)};
}

/* A node's colour from its own and its operands'. */
static struct colour
from_operands(const struct canon *c, const struct member *m)
{
	struct colour h = m->c, all = plain(0);

	if (prim_is_commutative(m->n->prim)) {
		for (uint32_t k = 0; k < m->n->n_in; k++)
			all = plus(all, c->parts[m->in[k]].c);
		return join(h, all);
	}
	for (uint32_t k = 0; k < m->n->n_in; k++)
		h = join(h, c->parts[m->in[k]].c);
	return h;
}

/* One round: results from operands, in order; then operands from readers, backward. */
static void
refine_round(struct canon *c, struct colour *seen)
{
	for (uint32_t i = 0; i < c->n_nodes; i++) {
		const struct member *m = &c->nodes[i];
		struct colour h = from_operands(c, m);

		for (uint32_t k = 0; k < m->n->n_out; k++) {
			struct part *p = &c->parts[m->out[k]];

			p->c = join(p->c, join(h, plain(k)));
		}
	}
	for (uint32_t i = 0; i < c->n_parts; i++)
		seen[i] = plain(0);
	for (uint32_t i = c->n_nodes; i-- > 0;) {
		const struct member *m = &c->nodes[i];
		struct colour h = m->c;

		for (uint32_t k = 0; k < m->n->n_out; k++) {
			struct part *p = &c->parts[m->out[k]];

			p->c = join(p->c, seen[m->out[k]]);
			h = join(h, p->c);
		}
		for (uint32_t k = 0; k < m->n->n_in; k++)
			seen[m->in[k]] =
			    plus(seen[m->in[k]], join(h, plain(prim_is_commutative(m->n->prim) ? 0 : k + 1)));
	}
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].maker == NO_NODE)
			c->parts[i].c = join(c->parts[i].c, seen[i]);
}

static int
cmp_colour(const void *a, const void *b)
{
	return colour_cmp(*(const struct colour *)a, *(const struct colour *)b);
}

static uint32_t
n_distinct(const struct canon *c, struct colour *sorted)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_parts; i++)
		sorted[i] = c->parts[i].c;
	qsort(sorted, c->n_parts, sizeof(*sorted), cmp_colour);
	for (uint32_t i = 0; i < c->n_parts; i++)
		n += i == 0 || colour_cmp(sorted[i], sorted[i - 1]) != 0;
	return n;
}

/* Runs until no round splits a colour; the number of rounds is the same for equal candidates. */
uint32_t
colours_refine(struct canon *c)
{
	struct colour *tmp = NEW_ARRAY(&c->tmp, struct colour, c->n_parts);
	uint32_t have = 0, n;

	for (int round = 0; round < MAX_ROUNDS; round++) {
		refine_round(c, tmp);
		n = n_distinct(c, tmp);
		if (n == have || n == c->n_parts)
			return n;
		have = n;
	}
	return have;
}

/* The least colour that several tensors share; false when there is none. */
bool
colours_tied(struct canon *c, struct colour *out)
{
	struct colour *sorted = NEW_ARRAY(&c->tmp, struct colour, c->n_parts);

	(void)n_distinct(c, sorted);
	for (uint32_t i = 1; i < c->n_parts; i++)
		if (colour_cmp(sorted[i], sorted[i - 1]) == 0) {
			*out = sorted[i];
			return true;
		}
	return false;
}

struct colour
colour_special(struct colour c)
{
	return join(c, plain(7));
}
