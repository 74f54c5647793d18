/* kernels/vendor/call.c: recognises what one call of a library computes in a spec: the products, and
 * element by element what follows.  It walks from the result down to the linear primitive; the tensors
 * met on the way are seen in its coordinates at the end. */
#include "library_int.h"

#include <math.h>
#include <string.h>

struct walk {
	const struct graph *g;
	struct arena tmp;
	uint32_t *maker;          /* of a tensor; NO_NODE */
	bool *depends;            /* on the linear result */
	uint32_t linear;          /* node */
	struct library_call *out; /* steps stand in it last first until the end */
};

static bool
cannot(struct err *e, const char *what, const struct node *n)
{
	return err_set(e, ERR_INFEASIBLE, "library: %s '%s'", what, prim_info[n->prim].name);
}

static bool
find_linear(struct walk *w, struct err *e)
{
	const struct graph *g = w->g;

	w->linear = NO_NODE;
	w->maker = NEW_ARRAY(&w->tmp, uint32_t, g->n_tensors);
	w->depends = NEW_ARRAY(&w->tmp, bool, g->n_tensors);
	memset(w->maker, 0xff, sizeof(*w->maker) * g->n_tensors);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		bool is_linear = prim_info[n->prim].class == CLASS_LINEAR;

		if (is_linear && w->linear != NO_NODE)
			return err_set(e, ERR_INFEASIBLE, "library: two linear primitives");
		if (is_linear)
			w->linear = i;
		for (uint32_t k = 0; k < n->n_out; k++) {
			w->maker[n->out[k].i] = i;
			w->depends[n->out[k].i] = is_linear;
			for (uint32_t j = 0; j < n->n_in; j++)
				w->depends[n->out[k].i] |= w->depends[n->in[j].i];
		}
	}
	return w->linear != NO_NODE || err_set(e, ERR_INFEASIBLE, "library: no linear primitive");
}

/* ---- operands ------------------------------------------------------------------------------- */
static bool
operand_view(const struct walk *w, tensor_id t, struct call_view *v, struct err *e)
{
	const struct tensor *x = graph_tensor(w->g, t);

	if (x->role == ROLE_INNER) {
		const struct node *n = &w->g->nodes[w->maker[t.i]];
		enum prim_class class = prim_info[n->prim].class;

		if (class != CLASS_LAYOUT && class != CLASS_BCAST)
			return cannot(e, "an operand is computed by", n);
		return n->n_in == 1 ? operand_view(w, n->in[0], v, e) && view_through(v, w->g, n, e)
				    : cannot(e, "an operand is made by", n);
	}
	*v = (struct call_view){.source = x->role == ROLE_INPUT ? SOURCE_INPUT
		: x->role == ROLE_WEIGHT                        ? SOURCE_WEIGHT
								: SOURCE_CONST,
	    .number = x->role == ROLE_CONST ? 0 : t.i,
	    .data = x->role == ROLE_CONST ? x->data : NULL};
	view_dense(v, x);
	return true;
}

/* The one value that all elements have. */
static bool
scalar_of(const struct walk *w, tensor_id t, double *out)
{
	const struct tensor *x = graph_tensor(w->g, t);
	int64_t n = shape_count(&x->shape);

	if (x->role == ROLE_INNER) {
		const struct node *m = &w->g->nodes[w->maker[t.i]];

		return (m->prim == PRIM_bcast || m->prim == PRIM_reshape || m->prim == PRIM_transpose) &&
		    scalar_of(w, m->in[0], out);
	}
	if (x->role != ROLE_CONST || n == 0 || !dtype_is_float(x->type))
		return false;
	*out = elem_get(x->type, x->data, 0);
	for (int64_t i = 1; i < n; i++)
		if (elem_get(x->type, x->data, i) != *out)
			return false;
	return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */
static bool
add_step(struct walk *w, struct call_step s, struct err *e)
{
	if (w->out->n_steps == CALL_MAX_STEPS)
		return err_set(
		    e, ERR_INFEASIBLE, "library: more than %d steps after the products", CALL_MAX_STEPS);
	w->out->step[w->out->n_steps++] = s;
	return true;
}

static bool
affine(struct walk *w, double a, double b, struct err *e)
{
	return add_step(w, (struct call_step){.kind = STEP_affine, .a = a, .b = b}, e);
}

static bool
clip(struct walk *w, double least, double most, struct err *e)
{
	return add_step(w, (struct call_step){.kind = STEP_clip, .a = least, .b = most}, e);
}

/* value OP c, or c OP value. */
static bool
scalar_step(struct walk *w, const struct node *n, double c, bool value_first, struct err *e)
{
	switch (n->prim) {
	case PRIM_add:
		return affine(w, 1, c, e);
	case PRIM_sub:
		return value_first ? affine(w, 1, -c, e) : affine(w, -1, c, e);
	case PRIM_mul:
		return affine(w, c, 0, e);
	case PRIM_div:
		return value_first && c != 0 ? affine(w, 1 / c, 0, e)
					     : cannot(e, "after the products stands a quotient by", n);
	case PRIM_max:
		return clip(w, c, INFINITY, e);
	case PRIM_min:
		return clip(w, -INFINITY, c, e);
	default:
		return cannot(e, "after the products stands", n);
	}
}

static bool
tensor_step(struct walk *w, const struct node *n, tensor_id other, bool value_first, struct err *e)
{
	static const struct {
		enum prim prim;
		enum step_kind step;
		bool any_order;
	} kinds[] = {{PRIM_add, STEP_add, true}, {PRIM_sub, STEP_sub, false}, {PRIM_mul, STEP_mul, true},
	    {PRIM_div, STEP_div, false}, {PRIM_min, STEP_min, true}, {PRIM_max, STEP_max, true}};
	struct call_step s = {0};

	if (!operand_view(w, other, &s.operand, e))
		return false;
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		if (kinds[i].prim != n->prim)
			continue;
		s.kind = kinds[i].step;
		if (kinds[i].any_order || value_first)
			return add_step(w, s, e);
	}
	if (n->prim != PRIM_sub)
		return cannot(e, "after the products stands", n);
	s.kind = STEP_add; /* c - v = -v + c; steps stand last first */
	return add_step(w, s, e) && affine(w, -1, 0, e);
}

/* ---- functions of one variable ----------------------------------------------------------------- */
struct segment { /* tensor `to` as a function of tensor `from` */
	const struct walk *w;
	uint32_t from, to;
	double *value; /* of each tensor */
};

static bool
apply(enum prim p, double x, double y, double *out)
{
	switch (p) {
#define CASE(P, EXPR)                                                                                        \
	case PRIM_##P:                                                                                       \
		*out = EXPR;                                                                                 \
		return true
		CASE(neg, -x);
		CASE(abs, fabs(x));
		CASE(exp, exp(x));
		CASE(log, log(x));
		CASE(sqrt, sqrt(x));
		CASE(recip, 1 / x);
		CASE(tanh, tanh(x));
		CASE(erf, erf(x));
		CASE(sigmoid, 1 / (1 + exp(-x)));
		CASE(relu, fmax(x, 0));
		CASE(softplus, fmax(x, 0) + log1p(exp(-fabs(x))));
		CASE(add, x + y);
		CASE(sub, x - y);
		CASE(mul, x * y);
		CASE(div, x / y);
		CASE(min, fmin(x, y));
		CASE(max, fmax(x, y));
		CASE(pow, pow(x, y));
#undef CASE
	default:
		return false;
	}
}

static double
segment_value(const void *arg, double x)
{
	const struct segment *s = arg;
	const struct graph *g = s->w->g;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		double v[2] = {0, 0};

		for (uint32_t k = 0; k < n->n_in && k < 2; k++)
			if (n->in[k].i == s->from)
				v[k] = x;
			else if (!scalar_of(s->w, n->in[k], &v[k]))
				v[k] = s->value[n->in[k].i];
		if (!apply(n->prim, v[0], v[1], &s->value[n->out[0].i]))
			s->value[n->out[0].i] = NAN;
	}
	return s->value[s->to];
}

/* The last tensor that all ways from `to` down to the products pass, with maps of one variable between. */
static bool
find_from(struct walk *w, uint32_t to, uint32_t *from, struct err *e)
{
	struct bitset open = bitset_make(&w->tmp, w->g->n_nodes);
	uint32_t at = w->maker[to];

	for (;;) {
		const struct node *n = &w->g->nodes[at];

		if (prim_info[n->prim].class != CLASS_MAP)
			return cannot(e, "two ways lead from the products through", n);
		for (uint32_t k = 0; k < n->n_in; k++) {
			double unused;

			if (w->depends[n->in[k].i])
				bit_set(&open, w->maker[n->in[k].i]);
			else if (!scalar_of(w, n->in[k], &unused))
				return cannot(e, "two ways lead from the products to an operand of", n);
		}
		for (at = w->g->n_nodes; at-- > 0;)
			if (bit_get(&open, at))
				break;
		bit_clear(&open, at);
		if (bitset_count(&open) == 0) {
			*from = w->g->nodes[at].out[0].i;
			return true;
		}
	}
}

/* f, or c times f. */
static bool
function_step(struct walk *w, uint32_t *t, struct err *e)
{
	struct segment s = {.w = w, .to = *t, .value = NEW_ARRAY(&w->tmp, double, w->g->n_tensors)};
	struct call_step step;

	if (!find_from(w, *t, &s.from, e))
		return false;
	if (!function_of(segment_value, &s, &step))
		return err_set(e, ERR_INFEASIBLE,
		    "library: a function of the products that no library is known to have");
	*t = s.from;
	return (step.b == 1 || affine(w, step.b, 0, e)) &&
	    add_step(w, (struct call_step){.kind = step.kind, .a = step.a}, e);
}

static bool
unary_step(struct walk *w, const struct node *n, struct err *e)
{
	static const struct {
		enum prim prim;
		enum step_kind step;
	} kinds[] = {{PRIM_relu, STEP_relu}, {PRIM_tanh, STEP_tanh}, {PRIM_sigmoid, STEP_sigmoid},
	    {PRIM_exp, STEP_exp}, {PRIM_log, STEP_log}, {PRIM_abs, STEP_abs}, {PRIM_sqrt, STEP_sqrt},
	    {PRIM_softplus, STEP_softplus}};

	if (n->prim == PRIM_neg)
		return affine(w, -1, 0, e);
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		if (kinds[i].prim == n->prim)
			return add_step(w, (struct call_step){.kind = kinds[i].step}, e);
	return cannot(e, "after the products stands", n);
}

/* ---- the way down -------------------------------------------------------------------------------- */
static bool
all_back(struct walk *w, const struct node *n, struct err *e)
{
	if (!view_back(&w->out->result, w->g, n, e))
		return false;
	for (uint32_t i = 0; i < w->out->n_steps; i++)
		if (w->out->step[i].operand.shape.rank && !view_back(&w->out->step[i].operand, w->g, n, e))
			return false;
	return true;
}

static bool
map_down(struct walk *w, const struct node *n, uint32_t *t, struct err *e)
{
	bool first = n->n_in > 0 && w->depends[n->in[0].i], second = n->n_in > 1 && w->depends[n->in[1].i];
	tensor_id other;
	double c;

	if (n->n_in > 2)
		return cannot(e, "after the products stands", n);
	if (first && second)
		return function_step(w, t, e);
	*t = n->in[first ? 0 : 1].i;
	if (n->n_in == 1)
		return unary_step(w, n, e);
	other = n->in[first ? 1 : 0];
	return scalar_of(w, other, &c) ? scalar_step(w, n, c, first, e) : tensor_step(w, n, other, first, e);
}

static bool
walk_down(struct walk *w, struct err *e)
{
	uint32_t t = w->g->outputs[0].i;

	w->out->result = (struct call_view){.source = SOURCE_RESULT};
	view_dense(&w->out->result, graph_tensor(w->g, w->g->outputs[0]));
	while (w->maker[t] != w->linear) {
		const struct node *n = &w->g->nodes[w->maker[t]];
		enum prim_class class = prim_info[n->prim].class;

		if (class == CLASS_MAP) {
			if (!map_down(w, n, &t, e))
				return false;
		} else if (class == CLASS_LAYOUT && n->n_in == 1) {
			if (!all_back(w, n, e))
				return false;
			t = n->in[0].i;
		} else {
			return cannot(e, "after the products stands", n);
		}
	}
	return true;
}

/* Neighbours of one kind become one; what does nothing goes. */
static void
tidy(struct library_call *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_steps; i++) {
		struct call_step s = c->step[i], *last = n ? &c->step[n - 1] : NULL;

		if (s.kind == STEP_relu)
			s = (struct call_step){.kind = STEP_clip, .a = 0, .b = INFINITY};

		if (last && s.kind == STEP_affine && last->kind == STEP_affine) {
			*last = (struct call_step){
			    .kind = STEP_affine, .a = last->a * s.a, .b = last->b * s.a + s.b};
		} else if (last && s.kind == STEP_clip && last->kind == STEP_clip) {
			last->a = fmin(fmax(last->a, s.a), s.b);
			last->b = fmin(fmax(last->b, s.a), s.b);
		} else {
			c->step[n++] = s;
		}
		last = &c->step[n - 1];
		if (last->kind == STEP_affine && fabs(last->a - 1) < 1e-12 && last->b == 0)
			n--;
	}
	for (uint32_t i = 0; i < n; i++)
		if (c->step[i].kind == STEP_clip && c->step[i].a == 0 && isinf(c->step[i].b))
			c->step[i] = (struct call_step){.kind = STEP_relu};
	c->n_steps = n;
}

static void
reverse(struct library_call *c)
{
	for (uint32_t i = 0; i < c->n_steps / 2; i++) {
		struct call_step s = c->step[i];

		c->step[i] = c->step[c->n_steps - 1 - i];
		c->step[c->n_steps - 1 - i] = s;
	}
}

static bool
products(struct walk *w, struct err *e)
{
	const struct node *n = &w->g->nodes[w->linear];
	struct library_call *c = w->out;

	c->linear = n->prim == PRIM_matmul ? CALL_matmul : CALL_conv;
	if (!operand_view(w, n->in[0], &c->a, e) || !operand_view(w, n->in[1], &c->b, e))
		return false;
	if (c->linear == CALL_matmul)
		return true;
	c->n_spatial = c->a.shape.rank - 2;
	c->group = at_get(&n->at, ATTR_group);
	for (int i = 0; i < c->n_spatial; i++) {
		c->stride[i] = at_ints(&n->at, ATTR_stride)[i];
		c->dilation[i] = at_ints(&n->at, ATTR_dilation)[i];
		c->lo[i] = at_ints(&n->at, ATTR_lo)[i];
		c->hi[i] = at_ints(&n->at, ATTR_hi)[i];
		if (at_ints(&n->at, ATTR_ldil)[i] != 1)
			return err_set(e, ERR_INFEASIBLE, "library: a transposed convolution");
		if (c->lo[i] < 0 || c->hi[i] < 0)
			return err_set(e, ERR_INFEASIBLE, "library: a convolution that crops");
	}
	return true;
}

bool
library_call_of(const struct spec *s, struct library_call *out, struct err *e)
{
	struct walk w = {.g = &s->g, .out = out};
	bool ok;

	*out = (struct library_call){.n_operands = s->g.n_inputs};
	for (uint32_t t = 0; t < s->g.n_tensors; t++)
		if (shape_count(&s->g.tensors[t].shape) == 0)
			return err_set(e, ERR_INFEASIBLE, "library: a tensor is empty");
	ok = find_linear(&w, e);
	if (ok && s->g.n_outputs != 1)
		ok = err_set(e, ERR_INFEASIBLE, "library: %u results", s->g.n_outputs);
	if (ok && !w.depends[s->g.outputs[0].i])
		ok = err_set(e, ERR_INFEASIBLE, "library: the result has nothing of the products");
	ok = ok && products(&w, e) && walk_down(&w, e);
	if (ok) {
		reverse(out);
		tidy(out);
	}
	arena_fini(&w.tmp);
	return ok;
}
