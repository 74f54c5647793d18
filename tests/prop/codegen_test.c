/* tests/prop/codegen_test.c: what kernels/codegen makes of loop programs: the program behind each pass is
 * verified and computes the same, and so does the compiled text, in ranges cut anywhere, also with results on
 * operands' bytes where its descriptor says so.
 * KORCH_CODEGEN_GRAPHS=N tries N random graphs (default 120), KORCH_CODEGEN_SEED=N from there. */
#include "../../kernels/codegen/codegen.h"
#include "../../kernels/interp/interp.h"
#include "../../kernels/interp/program.h"
#include "../../kernels/schedule/schedule.h"
#include "../harness/agree.h"
#include "../harness/kernel.h"
#include "../harness/setting.h"
#include "every_prim.h"
#include "random_graph.h"
#include "random_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- passes ----------------------------------------------------------------------------------------------
 */
struct looking {
	struct arena *a;
	const struct spec *s;
	const void **in;
	void **want;
	uint64_t seed;
	bool strict; /* bits are equal */
	double by;   /* so much further off than sums in another order may results be */
};

static _Noreturn void
wrong(const struct looking *l, const char *pass, const struct tir *p, const char *what)
{
	struct strbuf sb;

	sb_init(&sb, l->a);
	tir_print(&sb, p);
	print_error("seed %llu after %s: %s\n%.*s%s", (unsigned long long)l->seed, pass, what,
	    STR_ARG(l->s->text), sb.p);
	fail();
	abort();
}

static bool
look(void *self, const char *pass, const struct tir *p, struct err *e)
{
	const struct looking *l = self;
	const struct graph *g = &l->s->g;
	struct arena a = {0};
	void **out = NEW_ARRAY(&a, void *, g->n_outputs + 1);
	size_t n;
	double d;

	if (!tir_verify(p, e))
		wrong(l, pass, p, e->msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);

		out[i] = arena_alloc(&a, shape_bytes(&t->shape, t->type, &n) ? n + 1 : 1);
	}
	if (!program_run(
		&a, p, l->in, out, &(struct program_opts){.order = (enum program_order)(l->seed % 3)}, e))
		wrong(l, pass, p, e->msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);

		if (!shape_bytes(&t->shape, t->type, &n))
			n = 0;
		if (l->strict ? memcmp(l->want[i], out[i], n) != 0
			      : !agrees(g, l->in, l->want, i, out[i], l->by, &d))
			wrong(l, pass, p, "an output differs");
	}
	arena_fini(&a);
	return true;
}

/* What the rules propose is proved once; applied as text, each step is. */
static void
check_replay(struct looking *l, const struct tir *nest, struct str trace, const struct tir *proposed)
{
	struct strbuf want, have;
	struct tir replayed;
	struct err e = {0};

	if (!trace_apply(nest, trace, &replayed, &e))
		wrong(l, "replay", proposed, e.msg);
	sb_init(&want, l->a);
	sb_init(&have, l->a);
	tir_print(&want, proposed);
	tir_print(&have, &replayed);
	if (!str_eq(sb_str(&want), sb_str(&have)))
		wrong(l, "replay", &replayed, "another program than was proposed");
}

/* A schedule that the rules hear, in place of a trace. */
static const char by_wino[] = "wino=4 trace=1";
enum { WINO_OFF = 5 /* its maps add numbers up to 25 times as large as what comes out */ };

/* Of some specs rules are told what they otherwise decide. */
static struct choices
random_choices(uint64_t seed)
{
	struct rng r = {seed * 17 + 3};
	struct choices c = {.wino = 0};

	if (seed % 2)
		return c;
	c.block = rng_below(&r, 5);
	c.mr = rng_below(&r, 7);
	c.nv = rng_below(&r, 5);
	c.field = rng_below(&r, 4);
	return c;
}

/* given: a trace; NULL: what the rules propose; by_wino: where they are asked for that form. */
static void
check_trace(const struct spec *s, const char *given, uint64_t seed)
{
	struct arena a = {0};
	struct looking l = {.a = &a,
	    .s = s,
	    .seed = seed,
	    .strict = !given && seed % 3 == 0,
	    .by = given == by_wino ? WINO_OFF : 1};
	const struct codegen_watch w = {look, &l};
	struct rng r = {seed * 31 + 7};
	struct schedule_target target = space_schedule_target(&target_avx2);
	struct tir nest, scheduled, flat, p;
	struct strbuf trace;
	struct err e = {0};

	target.chosen = random_choices(seed);
	if (seed % 8 == 0)
		target.l1_bytes = 1; /* all that nests hand on is more than lies near */
	l.in = random_inputs(&a, &r, &s->g);
	l.want = NEW_ARRAY(&a, void *, s->g.n_outputs + 1);
	if (!interp_run(&a, &s->g, l.in, NULL, l.want, &e))
		fail_msg("%s", e.msg);
	schedule_lower(&a, s, l.strict, &nest);
	sb_init(&trace, &a);
	if (given == by_wino) {
		target.chosen.wino = 4;
		given = NULL;
	}
	if (given && !trace_apply(&nest, str_of(given), &scheduled, &e))
		fail_msg("%s", e.msg);
	if (!given)
		schedule_propose(&nest, &target, &trace, &scheduled);
	if (!given)
		check_replay(&l, &nest, sb_str(&trace), &scheduled);
	if (!tir_verify(&scheduled, &e))
		wrong(&l, "schedule", &scheduled, e.msg);
	schedule_flat(&scheduled, &flat);
	if (!codegen_run(&flat, &w, &p, &e))
		wrong(&l, "all", &flat, e.msg);
	arena_fini(&a);
}

static void
check_passes(void *self, const struct spec *s, uint64_t seed)
{
	(void)self;
	check_trace(s, NULL, seed);
}

/* ---- text -------------------------------------------------------------------------------------------------
 */
enum { BATCH = 24 };
struct batch {
	struct arena a;
	struct test_kernel k[BATCH];
	uint32_t n;
	uint32_t kernels, refused, in_place;
};

static void
flush(struct batch *b)
{
	struct err e = {0};

	if (b->n && !kernel_compile(&b->a, b->k, b->n, &target_avx2, &e))
		fail_msg("%s\n%.*s", e.msg, STR_ARG(b->k[0].code.text));
	for (uint32_t i = 0; i < b->n; i++)
		if (!kernel_check(&b->a, &b->k[i], 1 + i % 3, 1e-4, &e) ||
		    !kernel_check_in_place(&b->a, &b->k[i], 1 + i % 3, 1e-4, &e))
			fail_msg(
			    "%s\n%.*s\n%.*s", e.msg, STR_ARG(b->k[i].spec.text), STR_ARG(b->k[i].code.text));
	for (uint32_t i = 0; i < b->n; i++)
		b->in_place += b->k[i].code.desc.n_overlaps;
	b->kernels += b->n;
	b->n = 0;
	arena_fini(&b->a);
}

/* The spec lives until the batch is run. */
static void
add_text(struct batch *b, const struct spec *s, struct str trace, uint64_t seed)
{
	struct rng r = {seed};
	struct test_kernel first;
	struct err why = {0};

	if (!kernel_make(&b->a, s, STR(""), &target_avx2, 0, &r, &first, &why))
		return; /* kernels/generate has none to take operands from */
	first.schedule = trace;
	if (kernel_make_beside(&b->a, &first, trace.p == by_wino ? generate_kernel : generate_by_trace,
		&target_avx2, b->n, &b->k[b->n], &why))
		b->n++;
	else if (why.code == ERR_INFEASIBLE)
		b->refused++;
	else
		fail_msg("%s\n%.*s", why.msg, STR_ARG(s->text));
	if (b->n == BATCH)
		flush(b);
}

/* The caller's spec goes before the batch is run. */
static void
check_text(void *self, const struct spec *s, uint64_t seed)
{
	struct batch *b = self;
	struct spec *kept = NEW(&b->a, struct spec);
	struct err e = {0};

	if (!spec_read(&b->a, str_of(str_dup(&b->a, s->text)), kept, &e))
		fail_msg("%s", e.msg);
	add_text(b, kept, STR(""), seed);
}

/* ---- specs
 * ------------------------------------------------------------------------------------------------- */
static void
test_passes_on_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_CODEGEN_GRAPHS", 120), seed = setting("KORCH_CODEGEN_SEED", 1);

	(void)state;
	each_random_spec(n, seed, check_passes, NULL);
}

static void
test_passes_on_every_primitive(void **state)
{
	(void)state;
	every_prim(check_passes, NULL);
}

static void
end_texts(struct batch *b)
{
	flush(b);
	if (b->kernels == 0 || b->refused > b->kernels / 20)
		fail_msg("%u kernels, %u refused", b->kernels, b->refused);
	print_message("%u kernels, %u results on operands' bytes\n", b->kernels, b->in_place);
	free(b);
}

static void
test_text_of_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_CODEGEN_GRAPHS", 120), seed = setting("KORCH_CODEGEN_SEED", 1);
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		struct rng r = {seed + i};
		struct spec *s = NEW(&b->a, struct spec);

		random_spec(&b->a, &r, s);
		add_text(b, s, STR(""), seed + i);
	}
	end_texts(b);
}

static void
test_text_of_every_primitive(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	every_prim(check_text, b);
	end_texts(b);
}

/* Graphs, each with a trace that no rule proposes; NULL: by the rules, at extents that random graphs lack. */
static const struct {
	const char *graph, *trace;
} traced[] = {
    /* nests that go through an image together: a window's rows stay, and what makes these makes new ones */
    {"%0 = input f32[1,40,40,4]\n%1 = weight f32[1,1,4,88]\n%2 = weight f32[3,3,1,88]\n"
     "%3 = weight f32[1,1,88,8]\n"
     "%4 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%5 = relu %4\n"
     "%6 = conv %5 %2 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=88\n%7 = relu %6\n"
     "%8 = conv %7 %3 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%9 = relu %8\n"
     "output %9\n",
	NULL},
    {"%0 = input f32[1,70,36,3]\n%1 = weight f32[1,1,3,56]\n%2 = weight f32[5,5,1,56]\n"
     "%3 = weight f32[1,1,56,56]\n"
     "%4 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%5 = relu %4\n"
     "%6 = conv %5 %3 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%7 = relu %6\n"
     "%8 = conv %7 %2 lo=[2,2] hi=[1,2] stride=[2,2] dilation=[1,1] ldil=[1,1] group=56\n%9 = relu %8\n"
     "output %9\n",
	NULL},
    {"%0 = input f32[1,12,7,3]\n%1 = exp %0\n"
     "%2 = wmax %1 kernel=[1,3,3,1] stride=[1,1,1,1] dilation=[1,1,1,1] lo=[0,1,1,0] hi=[0,1,1,0]\noutput "
     "%2\n",
	"compute_at t1 t2.i1; slide t1 t2.i1"},
    {"%0 = input f32[2,13,7,3]\n%1 = exp %0\n"
     "%2 = wmax %1 kernel=[1,3,1,1] stride=[1,1,1,1] dilation=[1,1,1,1] lo=[0,1,0,0] hi=[0,1,0,0]\n"
     "%3 = wmax %2 kernel=[1,3,2,1] stride=[1,2,1,1] dilation=[1,1,1,1] lo=[0,1,0,0] hi=[0,1,0,0]\noutput "
     "%3\n",
	"bind t3.i0 parallel; compute_at t2 t3.i1; compute_at t1 t3.i1; slide t1 t3.i1; slide t2 t3.i1"},
    {"%0 = input f32[1,12,9,3]\n%1 = exp %0\n"
     "%2 = wmax %1 kernel=[1,1,4,1] stride=[1,1,1,1] dilation=[1,1,1,1] lo=[0,0,0,0] hi=[0,0,0,0]\noutput "
     "%2\n",
	"bind t2.i1 parallel; compute_at t1 t2.i2; slide t1 t2.i2; split t2.i2 4 cut"},
    {"%0 = input f32[14,9]\n%1 = exp %0\n%2 = sum %0 axes=[0]\n%3 = rmax %0 axes=[1]\n"
     "output %1\noutput %2\noutput %3\n",
	"bind t1.i0 parallel; bind t2.i1 parallel; bind t3.i0 parallel; join t2.i1 t3.i0; join t1.i0 "
	"t2.i1_t3.i0"},
    {"%0 = input f32[13,20]\n%1 = weight f32[20,24]\n%2 = matmul %0 %1\n%3 = weight f32[1,24]\n"
     "%4 = bcast %3 shape=[13,24]\n%5 = add %2 %4\n%6 = relu %5\noutput %6\n",
	NULL},
    {"%0 = input f32[5,20]\n%1 = weight f32[20,29]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n",
	"bind t3.i0 parallel; compute_at t2 t3.i0; stage %1 t3.i0; split t2.i1 8 cut; reorder t2.i1.o t2.k0 "
	"t2.i1.i; tensorize t2.i1.i fma8_f32"},
    {"%0 = input f32[5,20]\n%1 = weight f32[20,29]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n",
	"split t2.k0 3 guard; reorder t2.k0.o t2.i0; stage %1 t2.k0.o; stage %0 t2.k0.o 1,0; pipeline "
	"t2.k0.o 3; "
	"bind t2.i1 vector"},
    {"%0 = input f32[1,9,11,5]\n%1 = exp %0\n"
     "%2 = wmax %1 kernel=[1,3,1,1] stride=[1,2,1,1] dilation=[1,1,1,1] lo=[0,1,0,0] hi=[0,1,0,0]\noutput "
     "%2\n",
	"bind t2.i2 parallel; reorder t2.i2 t2.i1; compute_at t1 t2.i1; pipeline t2.i1 2"},
    {"%0 = input i8[7,18]\n%1 = input i8[5,18]\n%2 = cast %0 to=i32\n%3 = cast %1 to=i32\n"
     "%4 = transpose %3 perm=[1,0]\n%5 = matmul %2 %4\noutput %5\n",
	"inline t2; inline t3; bind t5.i0 parallel; split t5.k0 4 cut; tensorize t5.k0.i dot4_i8"},
    {"%0 = input i8[7,18]\n%1 = input i8[18,5]\n%2 = cast %0 to=i32\n%3 = cast %1 to=i32\n"
     "%4 = matmul %2 %3\noutput %4\n",
	"inline t2; inline t3; bind t4.i0 parallel; stage %1 t4.i0 1,0; split t4.k0 4 cut; tensorize t4.k0.i "
	"dot4_i8"},
    {"%0 = input f32[14,9]\n%1 = weight f32[9,43]\n%2 = matmul %0 %1\noutput %2\n", NULL},
    {"%0 = input f32[14,9]\n%1 = weight f32[43,9]\n%2 = transpose %1 perm=[1,0]\n%3 = matmul %0 %2\n"
     "%4 = exp %1\noutput %3\noutput %4\n",
	NULL},
    {"%0 = input f32[3,14,9]\n%1 = weight f32[3,9,43]\n%2 = matmul %0 %1\noutput %2\n", NULL},
    {"%0 = input f32[14,9]\n%1 = weight f32[9,43]\n%2 = matmul %0 %1\noutput %2\n", "pack %1 50 0~1"},
    {"%0 = input f32[14,18]\n%1 = weight f32[9,2,43]\n%2 = reshape %1 shape=[18,43]\n%3 = matmul %0 %2\n"
     "output %3\n",
	"pack %1 7 2,0~1"},
    {"%0 = input f32[3,10,16]\n%1 = input f32[3,16,24]\n%2 = matmul %0 %1\n%3 = exp %2\noutput %3\n", NULL},
    {"%0 = input f32[4,17,16]\n%1 = input f32[20,4,16]\n%2 = transpose %1 perm=[1,2,0]\n"
     "%3 = matmul %0 %2\noutput %3\n",
	NULL},
    {"%0 = input f32[17,16]\n%1 = input f32[20,16]\n%2 = relu %1\n%3 = transpose %2 perm=[1,0]\n"
     "%4 = matmul %0 %3\n%5 = exp %4\noutput %5\n",
	NULL},
    {"%0 = input f32[17,16]\n%1 = weight f32[16,40]\n%2 = exp %0\n%3 = sum %2 axes=[1]\n"
     "%4 = bcast %3 shape=[17,16]\n%5 = div %2 %4\n%6 = matmul %5 %1\noutput %6\n",
	NULL},
    {"%0 = input f32[1,40]\n%1 = weight f32[40,25]\n%2 = matmul %0 %1\n%3 = exp %2\noutput %3\n", NULL},
    {"%0 = input f32[24,20]\n%1 = weight f32[20,64]\n%2 = matmul %0 %1\n%3 = reshape %2 shape=[24,2,32]\n"
     "%4 = transpose %3 perm=[1,0,2]\noutput %4\n",
	NULL},
    {"%0 = input f32[3,24,5]\n%1 = weight f32[15,4]\n%2 = transpose %0 perm=[1,0,2]\n"
     "%3 = reshape %2 shape=[24,15]\n%4 = matmul %3 %1\noutput %4\n",
	NULL},
    {"%0 = input f32[1,5,7,12]\n%1 = weight f32[1,1,4,48]\n"
     "%2 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=3\noutput %2\n",
	NULL},
    {"%0 = input f32[1,9,11,5]\n%1 = weight f32[3,3,5,16]\n"
     "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n"
     "%3 = relu %2\noutput %3\n",
	NULL},
    {"%0 = input f32[1,20,21,8]\n%1 = weight f32[3,3,8,16]\n"
     "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%3 = relu %2\noutput "
     "%3\n",
	by_wino},
    {"%0 = input f32[1,19,60,9]\n%1 = weight f32[3,3,9,24]\n"
     "%2 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\noutput %2\n",
	by_wino},
    {"%0 = input f32[2,13,13,130]\n%1 = weight f32[3,3,130,80]\n"
     "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%3 = tanh %2\n%4 = "
     "add %3 %2\noutput %4\n",
	by_wino},
    {"%0 = input f32[1,9,11,40]\n%1 = weight f32[3,3,40,20]\n"
     "%2 = conv %0 %1 lo=[1,0] hi=[0,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\n%3 = tanh %2\noutput "
     "%2\noutput %3\n",
	by_wino},
    {"%0 = input f32[1,24,24,8]\n%1 = weight f32[3,3,8,8]\n%2 = relu %0\n%3 = pad %2 lo=[0,1,1,0] "
     "hi=[0,1,1,0] "
     "mode=2 value=0x0p+0\n%4 = conv %3 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] "
     "group=1\n"
     "%5 = transpose %4 perm=[0,3,1,2]\noutput %5\n",
	by_wino},
    {"%0 = input f32[1,9,12,8]\n%1 = weight f32[3,3,8,40]\n"
     "%2 = conv %0 %1 lo=[0,1] hi=[1,0] stride=[2,2] dilation=[1,1] ldil=[1,1] group=1\noutput %2\n",
	NULL},
};

static void
test_traces(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(traced); i++) {
		struct spec *s = NEW(&b->a, struct spec);
		struct err e = {0};

		if (!kernel_spec(&b->a, traced[i].graph, s, &e))
			fail_msg("%s", e.msg);
		check_trace(s, traced[i].trace, i);
		add_text(b, s, traced[i].trace ? str_of(traced[i].trace) : STR(""), i);
	}
	/* results that are stored across: the rule takes its steps back */
	assert_int_equal(b->refused, 1);
	b->refused = 0;
	end_texts(b);
}

static void
test_text_of_every_map(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	every_map(check_text, b);
	end_texts(b);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_passes_on_random_graphs),
	    cmocka_unit_test(test_passes_on_every_primitive),
	    cmocka_unit_test(test_traces),
	    cmocka_unit_test(test_text_of_every_map),
	    cmocka_unit_test(test_text_of_every_primitive),
	    cmocka_unit_test(test_text_of_random_graphs),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
