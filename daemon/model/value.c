/* daemon/model/value.c: --value: an input becomes a constant (a sample rate, a mode).  It is an initializer
 * from there on, and no input any more. */
#include "model.h"

#include "../../kernels/interp/interp.h"

#include <math.h>
#include <string.h>

enum { MAX_WORDS = 4096 };

static bool
word_fits(enum dtype t, struct str word, double *v)
{
	int64_t i;

	if (t == DT_bool && (str_is(word, "true") || str_is(word, "false"))) {
		*v = str_is(word, "true");
		return true;
	}
	if (dtype_is_float(t))
		return str_to_f64(word, v);
	if (!str_to_i64(word, &i))
		return false;
	*v = (double)i;
	return true;
}

/* One element as the type holds it; false where it does not. */
static bool
store(enum dtype t, void *data, int64_t at, struct str word)
{
	double v;
	int64_t i;

	if (!word_fits(t, word, &v))
		return false;
	if ((t == DT_i64 || t == DT_u64) && str_to_i64(word, &i)) { /* a double would round the large ones */
		if (t == DT_u64 && i < 0)
			return false;
		memcpy((char *)data + 8 * at, &i, 8);
		return true;
	}
	elem_set(t, data, at, v);
	return dtype_is_float(t) ? isfinite(elem_get(t, data, at)) == isfinite(v)
				 : elem_get(t, data, at) == v;
}

/* Open extents from the number of elements: one for all that are open, or all of them 1. */
static bool
close_shape(const struct model_value *v, int64_t n, struct shape *s)
{
	int64_t known = 1;
	int open = -1, n_open = 0;

	if (!v->has_shape) {
		*s = n == 1 ? (struct shape){0} : (struct shape){.rank = 1, .dim = {n}};
		return true;
	}
	*s = v->shape;
	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] < 0) {
			open = i;
			n_open++;
			s->dim[i] = 1;
		} else if (!try_mul_i64(known, s->dim[i], &known)) {
			return false;
		}
	}
	if (n_open == 1 && known > 0 && n % known == 0)
		s->dim[open] = n / known;
	return true;
}

static bool
fail(const struct model_given *g, const struct model_value *v, const struct model *m, const char *why,
    struct err *e)
{
	return err_set(e, ERR_USAGE, "--value %.*s=%.*s: the input is %s (%s): %s",
	    (int)MIN_OF(g->name.n, (size_t)60), g->name.p, (int)MIN_OF(g->from.n, (size_t)100), g->from.p,
	    dtype_name(v->type), model_shape_text(m, v), why);
}

static bool
read_words(struct model *m, const struct model_given *g, const struct model_value *v, struct model_tensor *t,
    struct err *e)
{
	struct str rest = g->from, words[1];
	int64_t n = 1, at = 0, all;

	for (size_t i = 0; i < rest.n; i++)
		n += rest.p[i] == ',';
	if (n > MAX_WORDS)
		return fail(g, v, m, "that is too long a list; give it as @FILE.npy", e);
	if (!close_shape(v, n, &t->shape) || !shape_bytes(&t->shape, v->type, &t->n_bytes) ||
	    ((all = shape_count(&t->shape)) != n && n != 1) || all > MAX_WORDS)
		return fail(g, v, m, "the number of values does not fit", e);
	void *data = arena_alloc(m->arena, t->n_bytes);
	for (; at < all; at++) {
		*words = n == 1 ? g->from : str_cut(&rest, ',');
		if (!store(v->type, data, at, str_trim(*words)))
			return fail(g, v, m,
			    arena_printf(m->arena, "'%.*s' is no %s", (int)MIN_OF(words->n, (size_t)40),
				words->p, dtype_name(v->type)),
			    e);
	}
	t->data = data;
	return true;
}

/* A tensor from a file: the same type, and a shape that fits; a scalar may be a list of one. */
static bool
take_tensor(struct model *m, const struct model_given *g, const struct model_value *v, struct model_tensor *t,
    struct err *e)
{
	struct strbuf sb;
	bool fits = !v->has_shape || v->shape.rank == g->shape.rank;

	sb_init(&sb, m->arena);
	sb_addf(&sb, "the file holds %s", dtype_name(g->type));
	shape_print(&sb, &g->shape);
	for (int i = 0; fits && v->has_shape && i < v->shape.rank; i++)
		fits = v->shape.dim[i] < 0 || v->shape.dim[i] == g->shape.dim[i];
	t->shape = g->shape;
	if (!fits && !model_value_is_open(v) && shape_count(&v->shape) == 1 && shape_count(&g->shape) == 1) {
		t->shape = v->shape;
		fits = true;
	}
	if (!fits || g->type != v->type || !shape_bytes(&t->shape, v->type, &t->n_bytes) ||
	    t->n_bytes != g->data.n)
		return fail(g, v, m, sb.p, e);
	t->data = arena_dup(m->arena, g->data.p, g->data.n);
	return true;
}

static void
drop_input(struct model *m, const struct model_value *v)
{
	uint32_t *left = NEW_ARRAY(m->arena, uint32_t, m->n_inputs), n = 0;

	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (&m->values[m->inputs[i]] != v)
			left[n++] = m->inputs[i];
	m->inputs = left;
	m->n_inputs = n;
}

static bool
is_constant(const struct model *m, struct str name)
{
	for (uint32_t i = 0; i < m->n_values; i++)
		if (m->values[i].init && str_is(name, m->values[i].name))
			return true;
	return false;
}

bool
model_set(struct model *m, const struct model_given *g, struct err *e)
{
	struct model_value *v = model_find_input(m, g->name);
	struct model_tensor *t = NEW(m->arena, struct model_tensor);

	if (!v && is_constant(m, g->name))
		return err_set(e, ERR_USAGE, "--value %.*s: it is no input but a constant, or is given twice",
		    (int)MIN_OF(g->name.n, (size_t)60), g->name.p);
	if (!v)
		return model_no_input(m, "--value", g->name, false, e);
	t->type = v->type;
	if (!(g->is_tensor ? take_tensor(m, g, v, t, e) : read_words(m, g, v, t, e)))
		return false;
	drop_input(m, v);
	v->has_shape = true;
	v->shape = t->shape;
	v->init = t;
	return true;
}
