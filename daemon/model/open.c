/* daemon/model/open.c: what of the inputs the file leaves open: shapes for people, with open extents in angle
 * brackets, and one sentence about all open inputs, with a command that would close them. */
#include "model.h"

#include <string.h>

enum { LONGEST_EXAMPLE = 200 };

static void
add_shape(struct strbuf *sb, const struct model_value *v)
{
	if (!v->has_shape)
		sb_addz(sb, "<any shape>");
	else if (v->shape.rank == 0)
		sb_addz(sb, "scalar");
	for (int i = 0; v->has_shape && i < v->shape.rank; i++) {
		sb_addz(sb, i ? "x" : "");
		if (v->shape.dim[i] >= 0)
			sb_addi(sb, v->shape.dim[i]);
		else
			sb_addf(sb, "<%.60s>", v->dim_param[i] ? v->dim_param[i] : "?");
	}
}

const char *
model_shape_text(const struct model *m, const struct model_value *v)
{
	struct strbuf sb;

	sb_init(&sb, m->arena);
	add_shape(&sb, v);
	return sb.p;
}

bool
model_value_is_open(const struct model_value *v)
{
	for (int i = 0; v->has_shape && i < v->shape.rank; i++)
		if (v->shape.dim[i] < 0)
			return true;
	return !v->has_shape;
}

/* ---- an example ------------------------------------------------------------------------------ */
static bool
holds(const char *name, const char *part)
{
	size_t n = strlen(part);

	for (; *name; name++) {
		size_t i = 0;
		while (i < n && (name[i] | 32) == part[i])
			i++;
		if (i == n)
			return true;
	}
	return false;
}

/* A number that the extent may well have: by its name, else by its place. */
static int64_t
plausible(const struct model_value *v, int dim)
{
	static const struct {
		const char *part;
		int64_t n;
	} by_name[] = {{"batch", 1}, {"height", 224}, {"width", 224}, {"image", 224}, {"seq", 128},
	    {"token", 128}, {"len", 128}, {"time", 128}, {"frame", 128}, {"chan", 3}, {"sample", 16000},
	    {"num", 16}};

	for (size_t i = 0; v->has_shape && v->dim_param[dim] && i < COUNT_OF(by_name); i++)
		if (holds(v->dim_param[dim], by_name[i].part))
			return by_name[i].n;
	if (dim == 0)
		return 1;
	if (v->has_shape && v->shape.rank == 4)
		return dim == 1 ? 3 : 224;
	if (v->has_shape && v->shape.rank == 3 && dim == 1 && v->shape.dim[0] >= 0)
		return 1; /* layers x batch x width: a state */
	return dim == 1 ? 128 : 16;
}

/* In quotes where a shell would take it apart. */
static void
add_word(struct strbuf *sb, const char *word)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/@%+=-";

	if (word[strspn(word, plain)])
		sb_addf(sb, " '%s'", word);
	else
		sb_addf(sb, " %s", word);
}

/* "--shape image=1x3x224x224": each open input with all its extents. */
static void
by_inputs(struct strbuf *sb, const struct model *m)
{
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		struct strbuf word;

		if (!model_value_is_open(v))
			continue;
		sb_init(&word, m->arena);
		sb_addf(&word, "%s=", v->name);
		for (int k = 0; k < (v->has_shape ? v->shape.rank : 4); k++) {
			bool is_known = v->has_shape && v->shape.dim[k] >= 0;
			struct model_value as_image = {.has_shape = true, .shape = {.rank = 4}};

			sb_addz(&word, k ? "x" : "");
			sb_addi(
			    &word, is_known ? v->shape.dim[k] : plausible(v->has_shape ? v : &as_image, k));
		}
		sb_addz(sb, " --shape");
		add_word(sb, word.p);
	}
}

/* "--shape seq=128": each name once; false where an open extent has none. */
static bool
by_symbols(struct strbuf *sb, const struct model *m)
{
	const char *done[256];
	size_t n = 0;

	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		if (!v->has_shape)
			return false;
		for (int k = 0; k < v->shape.rank; k++) {
			size_t j = 0;
			if (v->shape.dim[k] >= 0)
				continue;
			if (!v->dim_param[k] || n == COUNT_OF(done))
				return false;
			while (j < n && strcmp(done[j], v->dim_param[k]) != 0)
				j++;
			if (j < n)
				continue;
			done[n++] = v->dim_param[k];
			sb_addz(sb, " --shape");
			add_word(sb,
			    arena_printf(m->arena, "%s=%lld", v->dim_param[k], (long long)plausible(v, k)));
		}
	}
	return true;
}

const char *
model_open_example(const struct model *m)
{
	struct strbuf inputs, symbols;

	sb_init(&inputs, m->arena);
	sb_init(&symbols, m->arena);
	by_inputs(&inputs, m);
	if (inputs.n > LONGEST_EXAMPLE && by_symbols(&symbols, m) && symbols.n < inputs.n)
		return symbols.p + 1;
	return inputs.n ? inputs.p + 1 : "";
}

bool
model_check_open(const struct model *m, struct err *e)
{
	struct strbuf list;
	uint32_t n = 0, n_said = 0;
	const char *example = model_open_example(m);

	sb_init(&list, m->arena);
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		const struct model_value *v = &m->values[m->inputs[i]];
		if (!model_value_is_open(v))
			continue;
		n++;
		if (list.n + strlen(v->name) < 140) {
			sb_addf(&list, "%s'%s' ", n > 1 ? ", " : "", v->name);
			add_shape(&list, v);
			n_said++;
		}
	}
	if (n_said < n)
		sb_addf(&list, " and %u more", n - n_said);
	return n == 0 ||
	    err_set(e, ERR_MODEL, "%.100s: %s open: %.200s; say how large, as in: korch-submit %.60s %s",
		m->file, n == 1 ? "an input is" : arena_printf(m->arena, "%u inputs are", n), list.p, m->file,
		example);
}
