/* tests/opt_model.c: passes over ONNX models. */
#include "opt.h"
#include "../daemon/fission/fission.h"
#include "../kernels/interp/interp.h"

#include <math.h>

/* Each --shape=NAME=..., then each --value=INPUT=... */
static bool
bind_all(struct opt_call *c, struct model *m, struct err *e)
{
	for (int i = 0; i < c->n_arg; i++) {
		const char *shape = opt_arg_at(c, i, "--shape");

		if (shape && !model_bind(m, str_of(shape), e))
			return false;
	}
	return true;
}

static bool
set_all(struct opt_call *c, struct model *m, struct err *e)
{
	for (int i = 0; i < c->n_arg; i++) {
		const char *value = opt_arg_at(c, i, "--value");
		struct str from = str_of(value ? value : ""), name;

		if (!value)
			continue;
		name = str_cut(&from, '=');
		if (!model_set(m, &(struct model_given){.name = name, .from = from}, e))
			return false;
	}
	return true;
}

/* --open=1: what is still open; each as a line. */
static void
assume_all(struct opt_call *c, struct model *m)
{
	struct model_assumed *list;
	int64_t extent = 0;
	uint32_t n = 0;

	if (str_to_i64(str_of(opt_arg(c, "--open", "0")), &extent) && extent > 0)
		n = model_assume(m, extent, &list);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "# assumed of %s: %s%s%s\n", list[i].input, list[i].name,
		    *list[i].name ? "=" : "", list[i].value);
}

static bool
is_text(struct str s)
{
	s = str_trim(s);
	return str_starts(s, "model") || str_starts(s, "#");
}

/* ONNX bytes, or the text form. */
static bool
read_model(struct opt_call *c, struct model *m, struct err *e)
{
	struct bytes b = {(const uint8_t *)c->text.p, c->text.n};
	const char *file = opt_arg(c, "--name", c->file);

	if (is_text(c->text)) {
		if (!model_text_read(c->a, c->text, file, m, e))
			return false;
	} else if (!model_read(c->a, b, file, NULL, NULL, m, e)) {
		return false;
	}
	if (!bind_all(c, m, e) || !set_all(c, m, e))
		return false;
	assume_all(c, m);
	return true;
}

static void
print_faults(struct opt_call *c, const struct model *m)
{
	struct fission_faults faults;
	struct graph g;

	fission_check(c->a, m, &g, &faults);
	for (uint32_t i = 0; i < faults.n; i++)
		sb_addf(c->out, "%s: %s\n", faults.list[i].node ? faults.list[i].node->name : "model",
		    faults.list[i].why);
	sb_addf(c->out, "# %u faults, %u primitives\n", faults.n, g.n_nodes);
}

bool
opt_fission(struct opt_call *c, struct err *e)
{
	struct model m;
	struct graph g;
	struct fission_stats st;

	if (!read_model(c, &m, e))
		return false;
	if (opt_arg(c, "--faults", NULL)) {
		print_faults(c, &m);
		return true;
	}
	if (!fission_run(c->a, &m, &g, &st, e))
		return false;
	graph_verify(&g);
	if (opt_arg(c, "--stats", NULL))
		sb_addf(c->out, "# operators %u folded %u primitives %u\n", st.n_operators, st.n_folded,
		    st.n_primitives);
	else
		opt_print_graph(c, &g);
	return true;
}

bool
opt_model(struct opt_call *c, struct err *e)
{
	struct model m;

	if (!read_model(c, &m, e))
		return false;
	model_text_print(c->out, &m);
	return true;
}

bool
opt_ops(struct opt_call *c, struct err *e)
{
	(void)e;
	fission_list_ops(c->out);
	return true;
}

/* Mean, deviation and extremes of one output. */
static void
print_figures(struct opt_call *c, const struct graph *g, uint32_t i, const void *data)
{
	const struct tensor *t = graph_tensor(g, g->outputs[i]);
	int64_t n = shape_count(&t->shape);
	double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;

	for (int64_t k = 0; k < n; k++) {
		double v = elem_get(t->type, data, k);
		sum += v;
		squares += v * v;
		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	double mean = n ? sum / (double)n : 0;
	sb_addf(c->out, "%s %s", g->output_names[i] ? g->output_names[i] : "?", dtype_name(t->type));
	shape_print(c->out, &t->shape);
	sb_addf(c->out, " mean %.4g deviation %.4g least %.4g most %.4g\n", mean,
	    n ? sqrt(fmax(squares / (double)n - mean * mean, 0)) : 0, least, most);
}

/* The model computed by the interpreter on seeded random inputs. */
bool
opt_eval(struct opt_call *c, struct err *e)
{
	struct model m;
	struct graph g;
	struct fission_stats st;
	double low = 0, high = 0;

	if (!read_model(c, &m, e) || !fission_run(c->a, &m, &g, &st, e))
		return false;
	if (!str_to_f64(str_of(opt_arg(c, "--high", "0")), &high) ||
	    !str_to_f64(str_of(opt_arg(c, "--low", "0")), &low))
		return err_set(e, ERR_USAGE, "--low and --high take numbers");
	const void **in = NEW_ARRAY(c->a, const void *, g.n_inputs);
	void **out = NEW_ARRAY(c->a, void *, g.n_outputs);
	for (uint32_t i = 0; i < g.n_inputs; i++) {
		const struct tensor *t = graph_tensor(&g, g.inputs[i]);
		struct rng r = {i + 1};
		int64_t n = shape_count(&t->shape);
		void *data = arena_alloc(c->a, ck_mul(ck_size(n), dtype_size(t->type)));
		for (int64_t k = 0; k < n; k++)
			elem_set(t->type, data, k,
			    high > low ? low + (high - low) * rng_unit(&r) : rng_normal(&r));
		in[i] = data;
	}
	if (!interp_run(c->a, &g, in, NULL, out, e))
		return false;
	for (uint32_t i = 0; i < g.n_outputs; i++)
		print_figures(c, &g, i, out[i]);
	return true;
}
