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

void
codegen_pass(enum codegen_pass pass, const struct tir *p, struct tir *out)
{
	passes[pass].run(p, out);
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
	return true;
}

/* Fused loops leave borders to digits of an index: what is not proved of these when buffers are flat has no
 * text, nor what no barrier would part then. */
static bool
is_sound_flat(const struct tir *p, struct err *e)
{
	struct err why = {0};
	struct tir flat, parted;

	codegen_flatten(p, &flat);
	if (!tir_proved(&flat, &why))
		return err_set(e, ERR_INFEASIBLE, "%s", why.msg);
	return tir_sync(&flat, &parted) ||
	    err_set(e, ERR_INFEASIBLE, "barrier: threads meet where none parts them");
}

/* A GPU's program behind a pass, its barriers anew; false: the pass is left out. */
static bool
settle(const struct tir *made, int pass, struct tir *out)
{
	struct err none = {0};

	return (pass >= CODEGEN_flatten || is_sound_flat(made, &none)) && tir_sync(made, out);
}

bool
codegen_run(const struct tir *flat, const struct codegen_watch *w, struct tir *out, struct err *e)
{
	const bool gpu = is_for_gpu(flat);
	struct tir p = *flat, made;

	if (flat->level != TIR_FLAT)
		bug("a program with blocks has no text");
	if (!is_taken(flat, gpu, e) || (gpu && !is_sound_flat(flat, e)))
		return false;
	for (int i = 0; i < CODEGEN_PASSES; i++) {
		if (passes[i].where == (gpu ? CPU : GPU))
			continue;
		passes[i].run(&p, &made);
		if (!gpu)
			*out = made;
		else if (!settle(&made, i, out))
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
	return !gpu || threads_check(out, e);
}
