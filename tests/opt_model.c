/* tests/opt_model.c: passes over ONNX models. */
#include "opt.h"
#include "../daemon/fission/fission.h"

/* ONNX bytes, or the text form. */
static bool
read_model(struct opt_call *c, struct model *m, struct err *e)
{
	struct bytes b = {(const uint8_t *)c->text.p, c->text.n};
	const char *shape = opt_arg(c, "--shape", NULL), *file = opt_arg(c, "--name", c->file);

	if (str_starts(str_trim(c->text), "model") || str_starts(str_trim(c->text), "#")) {
		if (!model_text_read(c->a, c->text, file, m, e))
			return false;
	} else if (!model_read(c->a, b, file, NULL, NULL, m, e)) {
		return false;
	}
	return !shape || model_bind(m, str_of(shape), e);
}

bool
opt_fission(struct opt_call *c, struct err *e)
{
	struct model m;
	struct graph g;
	struct fission_stats st;

	if (!read_model(c, &m, e) || !fission_run(c->a, &m, &g, &st, e))
		return false;
	graph_verify(&g);
	if (opt_arg(c, "--stats", NULL))
		sb_addf(c->out, "# operators %u folded %u primitives %u\n", st.n_operators, st.n_folded, st.n_primitives);
	else
		graph_print(c->out, &g);
	return true;
}

bool
opt_ops(struct opt_call *c, struct err *e)
{
	(void)e;
	fission_list_ops(c->out);
	return true;
}
