/* client/bindings.c: see bindings.h.  What an input's type is the planner knows; so words go as they are, and
 * a tensor from a file with its own type and shape. */
#include "bindings.h"
#include "host_tensor.h"

#include <string.h>

enum { MAX_VALUE_BYTES = 65536 }; /* msg.def */

static bool
read_shape(const char *text, struct m_kv *out, struct err *e)
{
	struct str value = str_of(text), name = value;

	/* Input names may hold '=': the last one separates. */
	while (name.n && name.p[name.n - 1] != '=')
		name.n--;
	if (name.n < 2)
		return err_set(e, ERR_USAGE, "--shape %s: it is INPUT=1x3x224x224 or SYMBOL=224", text);
	*out = (struct m_kv){.name = {name.p, name.n - 1}, .value = {value.p + name.n, value.n - name.n}};
	return true;
}

static struct str
shape_text(struct arena *a, const struct shape *s)
{
	struct strbuf sb;

	sb_init(&sb, a);
	for (int i = 0; i < s->rank; i++) {
		sb_addz(&sb, i ? "x" : "");
		sb_addi(&sb, s->dim[i]);
	}
	return sb_str(&sb);
}

static bool
read_file(struct arena *a, const char *path, struct m_value *out, struct err *e)
{
	struct host_tensor t;

	if (!host_tensor_read(a, path, &t, e))
		return false;
	if (t.n_bytes > MAX_VALUE_BYTES)
		return err_set(e, ERR_LIMIT, "%s: %zu bytes; a value has at most %d", path, t.n_bytes,
		    (int)MAX_VALUE_BYTES);
	out->is_tensor = true;
	out->type = str_of(dtype_name(t.type));
	out->shape = shape_text(a, &t.shape);
	out->data = (struct bytes){t.data, t.n_bytes};
	return true;
}

/* A file's name may hold '=', and a name that holds it is seldom an input's: the first one separates. */
static bool
read_value(struct arena *a, const char *text, struct m_value *out, struct err *e)
{
	const char *cut = strchr(text, '=');

	if (!cut || cut == text || !cut[1])
		return err_set(
		    e, ERR_USAGE, "--value %s: it is INPUT=16000, INPUT=1,2,3 or INPUT=@FILE.npy", text);
	*out = (struct m_value){.name = {text, (size_t)(cut - text)}, .words = str_of(cut + 1)};
	if (cut[1] == '@' && !read_file(a, cut + 2, out, e))
		return err_in(e, "--value %.*s", STR_ARG(out->name));
	return true;
}

bool
bindings_read(struct arena *a, const struct opts *o, struct m_options *out, struct err *e)
{
	out->n_shapes = opt_n(o, OPT_shape);
	out->shapes = NEW_ARRAY(a, struct m_kv, MAX_OF(out->n_shapes, 1u));
	out->n_values = opt_n(o, OPT_value);
	out->values = NEW_ARRAY(a, struct m_value, MAX_OF(out->n_values, 1u));
	for (uint32_t i = 0; i < out->n_shapes; i++)
		if (!read_shape(opt_at(o, OPT_shape, i), &out->shapes[i], e))
			return false;
	for (uint32_t i = 0; i < out->n_values; i++)
		if (!read_value(a, opt_at(o, OPT_value, i), &out->values[i], e))
			return false;
	return true;
}
