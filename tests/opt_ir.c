/* tests/opt_ir.c: passes over the primitive graph itself. */
#include "opt.h"
#include "../kernels/interp/interp.h"

bool
opt_read_graph(const struct opt_call *c, struct str text, struct graph *g, struct err *e)
{
	return opt_arg(c, "--dump", NULL) ? graph_read_dump(g, c->a, text, e) : graph_read(g, c->a, text, e);
}

void
opt_print_graph(const struct opt_call *c, const struct graph *g)
{
	if (opt_arg(c, "--dump", NULL))
		graph_print_dump(c->out, g);
	else
		graph_print(c->out, g);
}

bool
opt_print(struct opt_call *c, struct err *e)
{
	struct graph g;

	if (!opt_read_graph(c, c->text, &g, e))
		return false;
	opt_print_graph(c, &g);
	return true;
}

bool
opt_sort(struct opt_call *c, struct err *e)
{
	struct graph g, to;

	if (!opt_read_graph(c, c->text, &g, e))
		return false;
	graph_sort(&to, c->a, &g, NULL);
	graph_verify(&to);
	opt_print_graph(c, &to);
	return true;
}

/* Of items behind lines "# spec N HASH" the one that --only names; without it there may be one alone. */
static bool
choose_spec(struct opt_call *c, struct str *out, struct err *e)
{
	const char *only = opt_arg(c, "--only", NULL);
	struct str rest = c->text;
	uint32_t n = 0;

	*out = c->text;
	while (rest.n) {
		const char *from = rest.p;
		struct str line = str_cut(&rest, '\n'), number;

		if (!str_starts(line, "# spec "))
			continue;
		n++;
		if (only && out->p != c->text.p) { /* the one before was it */
			out->n = (size_t)(from - out->p);
			return true;
		}
		line = (struct str){line.p + 7, line.n - 7};
		number = str_cut(&line, ' ');
		if (only && (str_is(number, only) || (str_of(only).n > 3 && str_starts(line, only))))
			*out = rest;
	}
	if (only && out->p == c->text.p)
		return err_set(e, ERR_USAGE, "--only=%s: the file has no such spec", only);
	return only || n < 2 ||
	    err_set(e, ERR_USAGE, "the file has %u specs: choose one by --only=N or its hash", n);
}

bool
opt_read_spec(struct opt_call *c, struct spec *s, struct err *e)
{
	struct graph g;
	struct str text;

	if (!choose_spec(c, &text, e))
		return false;
	if (str_starts(text, "spec 1\n")) /* its head */
		(void)str_cut(&text, '\n');
	if (!graph_read(&g, c->a, text, e))
		return false;
	if (g.n_outputs == 0)
		return err_set(e, ERR_USAGE, "the graph has no output");
	spec_of_graph(c->a, &g, s);
	return true;
}

bool
opt_spec(struct opt_call *c, struct err *e)
{
	struct spec s, again;
	char hex[65];

	if (!opt_read_spec(c, &s, e))
		return false;
	sb_add(c->out, s.text);
	hash_hex(&s.hash, hex);
	sb_addf(c->out, "# hash %s\n", hex);
	hash_hex(&s.structure, hex);
	sb_addf(c->out, "# structure %s\n", hex);
	return spec_read(c->a, s.text, &again, e);
}

/* Values of "# input %N v v v" lines; random normal (small integers) where there is none. */
static bool
input_values(struct opt_call *c, const struct graph *g, uint32_t i, void *data, struct err *e)
{
	const struct tensor *t = graph_tensor(g, g->inputs[i]);
	struct str rest = c->text, line;
	struct rng r = {i + 1};
	int64_t n = shape_count(&t->shape);
	char *head = arena_printf(c->a, "# input %%%u ", g->inputs[i].i);
	double v;

	while (rest.n && !str_starts(line = str_cut(&rest, '\n'), head))
		line.n = 0;
	if (!rest.n && !str_starts(line, head)) {
		for (int64_t k = 0; k < n; k++)
			elem_set(
			    t->type, data, k, dtype_is_float(t->type) ? rng_normal(&r) : rng_below(&r, 5));
		return true;
	}
	line = str_trim((struct str){line.p + str_of(head).n, line.n - str_of(head).n});
	for (int64_t k = 0; k < n; k++) {
		if (!str_to_f64(str_cut(&line, ' '), &v))
			return err_set(e, ERR_FORMAT, "input %%%u: value %lld is no number", g->inputs[i].i,
			    (long long)k);
		elem_set(t->type, data, k, v);
	}
	return line.n ? err_set(e, ERR_FORMAT, "input %%%u: too many values", g->inputs[i].i) : true;
}

static void
print_output(struct strbuf *sb, const struct tensor *t, uint32_t id, const void *data)
{
	int64_t n = shape_count(&t->shape);

	sb_addf(sb, "%%%u %s", id, dtype_name(t->type));
	shape_print(sb, &t->shape);
	for (int64_t k = 0; k < n; k++) {
		if (dtype_is_float(t->type))
			sb_addf(sb, " %.6g", elem_get(t->type, data, k));
		else
			sb_addf(sb, " %lld", (long long)elem_get_int(t->type, data, k));
	}
	sb_addc(sb, '\n');
}

bool
opt_interp(struct opt_call *c, struct err *e)
{
	struct graph g, to;
	const void **in;
	void **out;
	size_t bytes;

	if (!graph_read(&g, c->a, c->text, e))
		return false;
	graph_sort(&to, c->a, &g, NULL);
	in = NEW_ARRAY(c->a, const void *, g.n_inputs);
	out = NEW_ARRAY(c->a, void *, g.n_outputs);
	for (uint32_t i = 0; i < g.n_inputs; i++) {
		const struct tensor *t = graph_tensor(&g, g.inputs[i]);
		void *data;

		if (!shape_bytes(&t->shape, t->type, &bytes) || bytes > 1 << 26)
			return err_set(e, ERR_LIMIT, "input %%%u is too large", g.inputs[i].i);
		data = arena_alloc(c->a, bytes);
		if (!input_values(c, &g, i, data, e))
			return false;
		in[i] = data;
	}
	if (!interp_run(c->a, &to, in, NULL, out, e))
		return false;
	for (uint32_t i = 0; i < g.n_outputs; i++)
		print_output(c->out, graph_tensor(&g, g.outputs[i]), g.outputs[i].i, out[i]);
	return true;
}
