/* daemon/model/bind.c: --shape.  "INPUT=1x3x224x224" is the shape of an input that the file leaves open;
 * "SYMBOL=224" is an extent with a name, wherever that stands.  A name that is both is the input's. */
#include "model.h"

#include <string.h>

static bool
parse_dims(struct str text, struct shape *s)
{
	s->rank = 0;
	while (text.n > 0) {
		int64_t d;
		if (s->rank == MAX_RANK || !str_to_i64(str_cut(&text, 'x'), &d) || d < 0)
			return false;
		s->dim[s->rank++] = d;
	}
	return true;
}

struct model_value *
model_find_input(const struct model *m, struct str name)
{
	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (str_is(name, m->values[m->inputs[i]].name))
			return &m->values[m->inputs[i]];
	return NULL;
}

static void
add_name(struct strbuf *sb, const char *name)
{
	if (sb->n < 300)
		sb_addf(sb, "%s%s", sb->n ? " " : "", name);
}

static bool
is_listed(const struct model *m, uint32_t input, int dim)
{
	const struct model_value *at = &m->values[m->inputs[input]];

	for (uint32_t i = 0; i <= input; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		for (int k = 0; v->has_shape && k < (i == input ? dim : v->shape.rank); k++)
			if (v->dim_param[k] && strcmp(v->dim_param[k], at->dim_param[dim]) == 0)
				return true;
	}
	return false;
}

bool
model_no_input(const struct model *m, const char *option, struct str name, bool symbols, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf inputs, open;

	sb_init(&inputs, &tmp);
	sb_init(&open, &tmp);
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		add_name(&inputs, v->name);
		for (int k = 0; symbols && v->has_shape && k < v->shape.rank; k++)
			if (v->dim_param[k] && !is_listed(m, i, k))
				add_name(&open, v->dim_param[k]);
	}
	(void)err_set(e, ERR_USAGE, "%s %.*s: the model has no such input%s; its inputs are: %.200s%s%.150s",
	    option, (int)MIN_OF(name.n, (size_t)60), name.p, symbols ? " or named extent" : "",
	    inputs.n ? inputs.p : "none", open.n ? "; its named extents: " : "", open.n ? open.p : "");
	arena_fini(&tmp);
	return false;
}

/* The same symbol means the same number everywhere.  How many extents it is. */
static uint32_t
bind_symbol(struct model *m, struct str symbol, int64_t dim, const char *by)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_inputs; i++) {
		struct model_value *v = &m->values[m->inputs[i]];
		for (int k = 0; v->has_shape && k < v->shape.rank; k++) {
			if (!v->dim_param[k] || !str_is(symbol, v->dim_param[k]))
				continue;
			n++;
			if (v->shape.dim[k] < 0) {
				v->shape.dim[k] = dim;
				v->shape_by = by;
			}
		}
	}
	return n;
}

/* Where the symbol has another number already. */
static const struct model_value *
contradicted(const struct model *m, struct str symbol, int64_t dim, int *at)
{
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		for (int k = 0; v->has_shape && k < v->shape.rank; k++)
			if (v->dim_param[k] && str_is(symbol, v->dim_param[k]) && v->shape.dim[k] >= 0 &&
			    v->shape.dim[k] != dim) {
				*at = k;
				return v;
			}
	}
	return NULL;
}

static bool
check_symbol(const struct model *m, struct str symbol, int64_t dim, const char *by, struct err *e)
{
	int at;
	const struct model_value *v = contradicted(m, symbol, dim, &at);

	return !v ||
	    err_set(e, ERR_USAGE, "%s: <%.*s> of the input '%s' is already %lld, by %s", by,
		(int)MIN_OF(symbol.n, (size_t)60), symbol.p, v->name, (long long)v->shape.dim[at],
		v->shape_by ? v->shape_by : "the file");
}

static bool
check_shape(
    const struct model *m, const struct model_value *v, const struct shape *s, const char *by, struct err *e)
{
	size_t n_bytes;

	if (!shape_bytes(s, v->type, &n_bytes))
		return err_set(e, ERR_USAGE, "%s: a tensor of that size does not fit", by);
	if (v->has_shape && v->shape.rank != s->rank)
		return err_set(e, ERR_USAGE, "%s: the file gives this input %d dimensions: %s", by,
		    v->shape.rank, model_shape_text(m, v));
	for (int i = 0; v->has_shape && i < s->rank; i++) {
		if (v->shape.dim[i] >= 0 && v->shape.dim[i] != s->dim[i])
			return err_set(e, ERR_USAGE, "%s: dimension %d of this input is already %lld, by %s",
			    by, i, (long long)v->shape.dim[i], v->shape_by ? v->shape_by : "the file");
		if (v->dim_param[i] && !check_symbol(m, str_of(v->dim_param[i]), s->dim[i], by, e))
			return false;
	}
	return true;
}

static bool
bind_input(struct model *m, struct model_value *v, const struct shape *s, const char *by, struct err *e)
{
	if (!check_shape(m, v, s, by, e))
		return false;
	for (int i = 0; v->has_shape && i < s->rank; i++)
		if (v->dim_param[i])
			(void)bind_symbol(m, str_of(v->dim_param[i]), s->dim[i], by);
	v->has_shape = true;
	v->shape = *s;
	v->shape_by = by;
	return true;
}

bool
model_bind(struct model *m, struct str binding, struct err *e)
{
	const char *by = arena_printf(m->arena, "--shape %.*s", STR_ARG(binding));
	/* A name may hold '=': the shape stands behind the last one. */
	size_t cut = binding.n;
	while (cut > 0 && binding.p[cut - 1] != '=')
		cut--;
	if (cut == 0)
		return err_set(e, ERR_USAGE, "%s: write INPUT=1x3x224x224, or SYMBOL=224", by);
	struct str name = {binding.p, cut - 1}, dims = {binding.p + cut, binding.n - cut};
	struct model_value *v = model_find_input(m, name);
	struct shape s = {0};

	if (!parse_dims(dims, &s))
		return err_set(e, ERR_USAGE,
		    "%s: '%.*s' is no shape; write it as 1x3x224x224 (at most %d numbers)", by, STR_ARG(dims),
		    MAX_RANK);
	if (v)
		return bind_input(m, v, &s, by, e);
	if (s.rank == 1 && !check_symbol(m, name, s.dim[0], by, e))
		return false;
	if (s.rank == 1 && bind_symbol(m, name, s.dim[0], by) > 0)
		return true;
	return model_no_input(m, "--shape", name, true, e);
}

/* ---- what nobody closed ------------------------------------------------------------------------ */
static void
assume(
    struct model *m, struct model_value *v, struct model_assumed x, struct model_assumed *list, uint32_t *n)
{
	v->shape_by =
	    arena_printf(m->arena, "%s=%s, assumed; give it by --shape", *x.name ? x.name : x.input, x.value);
	list[(*n)++] = x;
}

static void
assume_input(struct model *m, struct model_value *v, int64_t extent, struct model_assumed *list, uint32_t *n)
{
	const char *one = arena_printf(m->arena, "%lld", (long long)extent);
	bool is_nameless = false;

	for (int k = 0; v->has_shape && k < v->shape.rank; k++) {
		if (v->shape.dim[k] >= 0)
			continue;
		if (v->dim_param[k]) {
			struct model_assumed x = {v->name, v->dim_param[k], one};

			assume(m, v, x, list, n);
			(void)bind_symbol(m, str_of(v->dim_param[k]), extent, v->shape_by);
		} else {
			v->shape.dim[k] = extent;
			is_nameless = true;
		}
	}
	if (is_nameless)
		assume(m, v, (struct model_assumed){v->name, "", model_shape_text(m, v)}, list, n);
}

uint32_t
model_assume(struct model *m, int64_t extent, struct model_assumed **out)
{
	uint32_t n = 0;

	/* each input: an entry a name, and one for extents without */
	*out = NEW_ARRAY(m->arena, struct model_assumed, (size_t)m->n_inputs * (MAX_RANK + 1));
	for (uint32_t i = 0; i < m->n_inputs; i++)
		assume_input(m, &m->values[m->inputs[i]], extent, *out, &n);
	return n;
}
