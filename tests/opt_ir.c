/* tests/opt_ir.c: passes over the primitive graph itself. */
#include "opt.h"
#include "../kernels/interp/interp.h"

bool
opt_print(struct opt_call *c, struct err *e)
{
	struct graph g;

	if (!graph_read(&g, c->a, c->text, e))
		return false;
	graph_print(c->out, &g);
	return true;
}

bool
opt_sort(struct opt_call *c, struct err *e)
{
	struct graph g, to;

	if (!graph_read(&g, c->a, c->text, e))
		return false;
	graph_sort(&to, c->a, &g, NULL);
	graph_verify(&to);
	graph_print(c->out, &to);
	return true;
}

bool
opt_read_spec(struct opt_call *c, struct spec *s, struct err *e)
{
	struct graph g;

	if (!graph_read(&g, c->a, c->text, e))
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
