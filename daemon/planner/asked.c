/* daemon/planner/asked.c: what a job's options say of its model: shapes and values, from words of the wire.
 */
#include "front.h"

static bool
read_shape(struct str text, struct shape *out)
{
	*out = (struct shape){0};
	while (text.n) {
		int64_t d;

		if (out->rank == MAX_RANK || !str_to_i64(str_cut(&text, 'x'), &d) || d < 0)
			return false;
		out->dim[out->rank++] = d;
	}
	return true;
}

static bool
read_value(const struct m_value *v, struct model_given *out, struct err *e)
{
	size_t n;

	*out = (struct model_given){.name = v->name, .from = v->words};
	if (!v->is_tensor)
		return true;
	if (!dtype_of_name(v->type, &out->type) || !read_shape(v->shape, &out->shape) ||
	    !shape_bytes(&out->shape, out->type, &n) || n != v->data.n)
		return err_set(e, ERR_FORMAT,
		    "--value %.*s: the tensor's bytes do not fit its type and shape",
		    (int)MIN_OF(v->name.n, (size_t)60), v->name.p);
	out->data = v->data;
	out->is_tensor = true;
	return true;
}

bool
front_asked(struct arena *a, const struct m_options *from, struct front_opts *out, struct err *e)
{
	struct str *shapes = NEW_ARRAY(a, struct str, MAX_OF(from->n_shapes, 1u));
	struct model_given *values = NEW_ARRAY(a, struct model_given, MAX_OF(from->n_values, 1u));

	for (uint32_t i = 0; i < from->n_shapes; i++)
		shapes[i] = str_of(arena_printf(
		    a, "%.*s=%.*s", STR_ARG(from->shapes[i].name), STR_ARG(from->shapes[i].value)));
	for (uint32_t i = 0; i < from->n_values; i++)
		if (!read_value(&from->values[i], &values[i], e))
			return false;
	out->shapes = shapes;
	out->n_shapes = from->n_shapes;
	out->values = values;
	out->n_values = from->n_values;
	out->open_extent = (int64_t)MIN_OF(from->open_extent, (uint64_t)INT32_MAX);
	return true;
}
