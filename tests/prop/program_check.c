/* tests/prop/program_check.c: see the header. */
#include "program_check.h"
#include "../../kernels/codegen/codegen_int.h"
#include "../../kernels/interp/interp.h"
#include "../../kernels/interp/program.h"
#include "../harness/agree.h"
#include "random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static _Noreturn void
wrong(const struct checked *c, const struct tir *p, const char *what)
{
	struct strbuf sb;

	sb_init(&sb, c->a);
	tir_print(&sb, p);
	print_error("seed %llu%s: %s\n%.*s%s%s\n%s", (unsigned long long)c->seed, c->strict ? " strict" : "",
	    what, STR_ARG(c->spec->text), c->what ? "trace: " : "", c->what ? c->what : "", sb.p);
	fail();
	abort();
}

void
program_check_begin(struct checked *c, struct arena *a, const struct spec *s, bool strict, uint64_t seed)
{
	struct rng r = {seed * 31 + 7};
	struct err e = {0};

	*c = (struct checked){.a = a, .spec = s, .strict = strict, .exact = strict, .seed = seed};
	c->in = random_inputs(a, &r, &s->g);
	c->want = NEW_ARRAY(a, void *, s->g.n_outputs + 1);
	if (!interp_run(a, &s->g, c->in, NULL, c->want, &e))
		fail_msg("%s", e.msg);
	schedule_lower(a, s, strict, &c->p);
}

static bool
same_bits(const struct tensor *t, const void *have, const void *want)
{
	int64_t n = shape_count(&t->shape);
	size_t size = dtype_size(t->type);

	for (int64_t i = 0; i < n; i++) {
		double h, w;

		if (memcmp((const char *)have + (size_t)i * size, (const char *)want + (size_t)i * size,
			size) == 0)
			continue;
		if (!dtype_is_float(t->type))
			return false;
		h = elem_get(t->type, have, i);
		w = elem_get(t->type, want, i);
		if (h != w && !(h != h && w != w)) /* -0 is 0, a NaN is a NaN */
			return false;
	}
	return true;
}

static void
check_run(const struct checked *c, const struct tir *p, enum program_order order)
{
	const struct graph *g = &c->spec->g;
	struct arena a = {0};
	void **out = NEW_ARRAY(&a, void *, g->n_outputs + 1);
	struct err e = {0};
	size_t n;
	double d;

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);

		out[i] = arena_alloc(&a, shape_bytes(&t->shape, t->type, &n) ? n + 1 : 1);
	}
	if (!program_run(&a, p, c->in, out, &(struct program_opts){.order = order, .seed = c->seed}, &e))
		wrong(c, p, e.msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);

		if (c->exact ? !same_bits(t, out[i], c->want[i])
			     : !agrees(g, c->in, c->want, i, out[i], 1, &d))
			wrong(c, p, arena_printf(&a, "output %u differs", i));
	}
	arena_fini(&a);
}

static void
check_text(const struct checked *c, const struct tir *p)
{
	struct arena a = {0};
	struct strbuf one, two;
	struct err e = {0};
	struct tir q;

	sb_init(&one, &a);
	sb_init(&two, &a);
	tir_print(&one, p);
	if (!tir_read(&q, &a, sb_str(&one), &e))
		wrong(c, p, e.msg);
	tir_print(&two, &q);
	if (strcmp(one.p, two.p) != 0)
		wrong(c, &q, "reads back as another program");
	arena_fini(&a);
}

static bool
has_pipeline(const struct tir *p)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_for && p->st[i].bind == BIND_pipeline)
			return true;
	return false;
}

/* What runs ahead, on versions of what it makes. */
static void
check_pipelines(const struct checked *c, const struct tir *flat)
{
	struct tir small, piped;
	struct err e = {0};

	codegen_shrink(flat, &small);
	codegen_pipeline(&small, &piped);
	check_text(c, &piped);
	if (has_pipeline(&piped))
		wrong(c, &piped, "a pipeline stays");
	if (!tir_verify(&piped, &e))
		wrong(c, &piped, e.msg);
	check_run(c, &piped, (enum program_order)((c->seed + 2) % 3));
}

void
program_check_flat(const struct checked *c, const struct tir *p)
{
	struct err e = {0};

	if (!tir_verify(p, &e))
		wrong(c, p, e.msg);
	check_run(c, p, (enum program_order)(c->seed % 3));
}

void
program_check(const struct checked *c, const struct tir *p)
{
	struct err e = {0};
	struct tir flat;

	check_text(c, p);
	if (!tir_verify(p, &e))
		wrong(c, p, e.msg);
	schedule_flat(p, &flat);
	check_text(c, &flat);
	if (!tir_verify(&flat, &e))
		wrong(c, &flat, e.msg);
	check_run(c, p, (enum program_order)(c->seed % 3));
	check_run(c, &flat, (enum program_order)((c->seed + 1) % 3));
	if (has_pipeline(&flat))
		check_pipelines(c, &flat);
}
