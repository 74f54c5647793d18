/* daemon/model/bind.c: "INPUT=1x3x224x224", the shape of an input that the file leaves open. */
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

static struct model_value *
find_input(struct model *m, struct str name)
{
	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (str_is(name, m->values[m->inputs[i]].name))
			return &m->values[m->inputs[i]];
	return NULL;
}

static bool
unknown_input(const struct model *m, struct str name, struct err *e)
{
	char list[300] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const char *s = m->values[m->inputs[i]].name;
		size_t len = strlen(s);
		if (n + len + 3 > sizeof(list))
			break;
		memcpy(list + n, i ? " " : "", i ? 1 : 0);
		n += i ? 1 : 0;
		memcpy(list + n, s, len + 1);
		n += len;
	}
	return err_set(e, ERR_USAGE, "--shape %.*s: the model has no such input; its inputs are: %s",
	    STR_ARG(name), list);
}

/* The same symbol means the same number everywhere. */
static void
spread_symbol(struct model *m, const char *symbol, int64_t dim)
{
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		struct model_value *v = &m->values[m->inputs[i]];
		for (int k = 0; v->has_shape && k < v->shape.rank; k++)
			if (v->dim_param[k] && strcmp(v->dim_param[k], symbol) == 0 && v->shape.dim[k] < 0)
				v->shape.dim[k] = dim;
	}
}

bool
model_bind(struct model *m, struct str binding, struct err *e)
{
	/* A name may hold '=': the shape stands behind the last one. */
	size_t cut = binding.n;
	while (cut > 0 && binding.p[cut - 1] != '=')
		cut--;
	if (cut == 0)
		return err_set(e, ERR_USAGE, "--shape %.*s: write INPUT=1x3x224x224", STR_ARG(binding));
	struct str name = {binding.p, cut - 1}, dims = {binding.p + cut, binding.n - cut};
	struct model_value *v = find_input(m, name);
	struct shape s = {0};
	size_t n_bytes;

	if (!v)
		return unknown_input(m, name, e);
	if (!parse_dims(dims, &s))
		return err_set(e, ERR_USAGE,
		    "--shape %.*s: '%.*s' is no shape; write it as 1x3x224x224 (at most %d numbers)",
		    STR_ARG(binding), STR_ARG(dims), MAX_RANK);
	if (!shape_bytes(&s, v->type, &n_bytes))
		return err_set(
		    e, ERR_USAGE, "--shape %.*s: a tensor of that size does not fit", STR_ARG(binding));
	if (v->has_shape && v->shape.rank != s.rank)
		return err_set(e, ERR_USAGE, "--shape %.*s: the file gives this input %d dimensions",
		    STR_ARG(binding), v->shape.rank);
	for (int i = 0; v->has_shape && i < s.rank; i++)
		if (v->shape.dim[i] >= 0 && v->shape.dim[i] != s.dim[i])
			return err_set(e, ERR_USAGE,
			    "--shape %.*s: dimension %d of this input is already %lld", STR_ARG(binding), i,
			    (long long)v->shape.dim[i]);
	bool had_shape = v->has_shape;
	v->has_shape = true;
	v->shape = s;
	for (int i = 0; had_shape && i < s.rank; i++)
		if (v->dim_param[i])
			spread_symbol(m, v->dim_param[i], s.dim[i]);
	return true;
}
