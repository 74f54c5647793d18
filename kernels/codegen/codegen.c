/* kernels/codegen/codegen.c: the list of passes. */
#include "codegen_int.h"

static const struct {
	const char *name;
	void (*run)(const struct tir *p, struct tir *out);
} passes[CODEGEN_PASSES] = {
#define PASS(N, WORDS) {#N, codegen_##N},
#include "pass.def"
#undef PASS
};

const char *
codegen_pass_name(enum codegen_pass pass)
{
	return passes[pass].name;
}

/* Forms that have a place in the loop program, and no pass or printer yet. */
static bool
is_taken(const struct tir *p, struct err *e)
{
	for (buf_id b = 0; b < p->n_buf; b++) {
		const struct tir_buf *f = &p->buf[b];

		if (f->layout != IXV_NONE || f->swizzle.bits || f->versions > 1 || f->alias != BUF_NONE)
			return err_set(e, ERR_INFEASIBLE,
			    "form: buffer %%%s is not row-major in bytes of its own", f->name);
	}
	for (st_id i = 0; i < p->n_st; i++) {
		const struct st *s = &p->st[i];

		if (s->op == ST_sync)
			return err_set(e, ERR_INFEASIBLE, "statement: no C for %s yet", st_info[s->op].name);
		if (s->op == ST_for && s->bind > BIND_unroll && s->bind != BIND_pipeline)
			return err_set(e, ERR_INFEASIBLE, "binding: no C for %s", tir_bind_name[s->bind]);
	}
	return true;
}

bool
codegen_run(const struct tir *flat, const struct codegen_watch *w, struct tir *out, struct err *e)
{
	struct tir p = *flat;

	if (flat->level != TIR_FLAT)
		bug("a program with blocks has no text");
	if (!is_taken(flat, e))
		return false;
	for (int i = 0; i < CODEGEN_PASSES; i++) {
		passes[i].run(&p, out);
#ifndef NDEBUG
		struct err wrong = {0};

		if (!tir_verify(out, &wrong))
			bug("after %s: %s", passes[i].name, wrong.msg);
#endif
		if (w && !w->after(w->self, passes[i].name, out, e))
			return false;
		p = *out;
	}
	return true;
}
