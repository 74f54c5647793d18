/* kernels/codegen/codegen.c: the list of passes. */
#include "codegen_int.h"

enum where { ANY, CPU, GPU };
static const struct {
	const char *name;
	enum where where;
	void (*run)(const struct tir *p, struct tir *out);
} passes[CODEGEN_PASSES] = {
#define PASS(N, WHERE, WORDS) {#N, WHERE, codegen_##N},
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
is_taken(const struct tir *p, bool gpu, struct err *e)
{
	for (buf_id b = 0; b < p->n_buf; b++) {
		const struct tir_buf *f = &p->buf[b];

		if (f->layout != IXV_NONE || f->swizzle.bits || f->versions > 1 || f->alias != BUF_NONE)
			return err_set(e, ERR_INFEASIBLE,
			    "form: buffer %%%s is not row-major in bytes of its own", f->name);
	}
	for (st_id i = 0; i < p->n_st; i++) {
		const struct st *s = &p->st[i];

		if (s->op == ST_sync && (!gpu || s->ref != SCOPE_shared))
			return err_set(e, ERR_INFEASIBLE, "statement: no C for %s yet", st_info[s->op].name);
	}
	return !gpu || threads_check(p, e);
}

/* Fused loops leave borders to digits of an index: what is not proved of these when buffers are flat has no
 * text.
 */
static bool
is_proved_flat(const struct tir *p, struct err *e)
{
	struct err why = {0};
	struct tir flat;

	codegen_flatten(p, &flat);
	return tir_proved(&flat, &why) || err_set(e, ERR_INFEASIBLE, "%s", why.msg);
}

bool
codegen_run(const struct tir *flat, const struct codegen_watch *w, struct tir *out, struct err *e)
{
	const bool gpu = is_for_gpu(flat);
	struct tir p = *flat;
	struct err none = {0};

	if (flat->level != TIR_FLAT)
		bug("a program with blocks has no text");
	if (!is_taken(flat, gpu, e) || (gpu && !is_proved_flat(flat, e)))
		return false;
	for (int i = 0; i < CODEGEN_PASSES; i++) {
		if (passes[i].where == (gpu ? CPU : GPU))
			continue;
		passes[i].run(&p, out);
		if (gpu && i < CODEGEN_flatten && !is_proved_flat(out, &none))
			*out = p;
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
