/* tests/prop/space_test.c: a space of schedules lists no kernel twice, by what is emitted: a knob that says
 * nothing to a spec is not measured; nothing is lost by it, and a longer list begins with the shorter one. */
#include "../../kernels/generate/generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const graphs[] = {
#include "cuda_cases.inc"
    /* rows */
    "%0 = input f32[500,1000]\n%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[500,1000]\n%3 = sub %0 %2\n%4 = "
    "exp %3\n"
    "%5 = sum %4 axes=[1]\n%6 = bcast %5 shape=[500,1000]\n%7 = div %4 %6\noutput %7\n",
    "%0 = input f32[5000,300]\n%1 = sum %0 axes=[1]\noutput %1\n",
    "%0 = input f32[200000]\n%1 = sum %0 axes=[0]\noutput %1\n",
    /* a square product, a depthwise convolution, a chain */
    "%0 = input f32[512,512]\n%1 = weight f32[512,512]\n%2 = matmul %0 %1\noutput %2\n",
    "%0 = input f32[1,28,28,64]\n%1 = weight f32[3,3,1,64]\n"
    "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=64\noutput %2\n",
    "%0 = input f32[64,1024]\n%1 = exp %0\n%2 = mul %1 %0\n%3 = sigmoid %2\n%4 = add %3 %1\noutput %4\n",
    "%0 = input f32[1,24,24,8]\n%1 = weight f32[3,3,8,8]\n"
    "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n%3 = relu %2\noutput "
    "%3\n",
};
static const char *const targets[] = {
    "avx2", "avx512", "cuda,sm=70", "cuda,sm=80", "cuda,sm=80,precision=tf32", "cuda,sm=90,precision=f16"};

enum { MOST = 64 };
struct made {
	struct str schedule, body;
	struct kernel_code code;
};

static void
read_spec(struct arena *a, const char *text, struct spec *s)
{
	struct graph *g = NEW(a, struct graph);
	struct err e = {0};

	if (!graph_read(g, a, str_of(text), &e))
		fail_msg("%s in\n%s", e.msg, text);
	spec_of_graph(a, g, s);
}

/* Behind the comment that names the schedule. */
static struct str
body_of(struct str text)
{
	const char *end = memmem(text.p, text.n, "*/", 2);

	assert_non_null(end);
	return (struct str){end, text.n - (size_t)(end - text.p)};
}

static void
make(struct arena *a, const struct spec *s, struct str schedule, const struct target *t, struct made *m)
{
	struct err e;

	m->schedule = schedule;
	if (!generate_kernel(a, s, schedule, t, "k", &m->code, &e))
		fail_msg("'%.*s' is listed, and not possible: %s", STR_ARG(schedule), e.msg);
	m->body = body_of(m->code.text);
}

/* The same text, started in the same way.  Text says which arrays are packed and how wide. */
static bool
is_same(const struct made *x, const struct made *y)
{
	if (!str_eq(x->body, y->body) || x->code.desc.n_passes != y->code.desc.n_passes)
		return false;
	for (uint32_t q = 0; q < x->code.desc.n_passes; q++) {
		const struct launch *l = &x->code.desc.launch[q], *m = &y->code.desc.launch[q];

		if (x->code.desc.range[q] != y->code.desc.range[q] || l->persists != m->persists ||
		    l->smem != m->smem || memcmp(l->grid, m->grid, sizeof(l->grid)) ||
		    memcmp(l->block, m->block, sizeof(l->block)))
			return false;
	}
	return true;
}

static uint32_t
check(struct arena *a, const char *graph, const char *target)
{
	struct spec s;
	struct target t;
	struct str *list, *fewer;
	struct made *made;
	struct err e = {0};
	uint32_t n, n_fewer, n_same = 0;

	if (!target_read(str_of(target), &t, &e))
		fail_msg("%s", e.msg);
	read_spec(a, graph, &s);
	space_list(a, &s, &t, MOST, text_outcome, &list, &n);
	space_list(a, &s, &t, 4, text_outcome, &fewer, &n_fewer);
	assert_true(n >= n_fewer && n > 0);
	for (uint32_t i = 0; i < n_fewer; i++)
		assert_true(str_eq(list[i], fewer[i]));
	made = NEW_ARRAY(a, struct made, n);
	for (uint32_t i = 0; i < n; i++) {
		make(a, &s, list[i], &t, &made[i]);
		for (uint32_t k = 0; k < i; k++) {
			if (!is_same(&made[i], &made[k]))
				continue;
			fprintf(stderr, "%s: '%.*s' and '%.*s' are one kernel of\n%s", target,
			    STR_ARG(list[k]), STR_ARG(list[i]), graph);
			n_same++;
		}
	}
	return n_same;
}

static void
test_no_kernel_twice(void **state)
{
	uint32_t n_same = 0;

	(void)state;
	for (size_t t = 0; t < COUNT_OF(targets); t++)
		for (size_t i = 0; i < COUNT_OF(graphs); i++) {
			struct arena a = {0};

			n_same += check(&a, graphs[i], targets[t]);
			arena_fini(&a);
		}
	assert_int_equal(n_same, 0);
}

/* Schedules that say nothing to a spec are told from those that do. */
static void
test_what_is_the_same(void **state)
{
	static const struct {
		const char *graph, *one, *other;
		bool is_same;
	} rows[] = {
	    {"%0 = input f32[512,512]\n%1 = weight f32[512,512]\n%2 = matmul %0 %1\noutput %2\n", "",
		"trace=1", true},
	    {"%0 = input f32[512,512]\n%1 = weight f32[512,512]\n%2 = matmul %0 %1\noutput %2\n", "",
		"tm=2 tn=2", false},
	    {"%0 = input f32[512,512]\n%1 = weight f32[512,512]\n%2 = matmul %0 %1\noutput %2\n", "splitk=1",
		"splitk=1 vector=4", true}, /* there are no points */
	    {"%0 = input f32[5000,300]\n%1 = relu %0\noutput %1\n", "", "vector=4", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct target t = target_cuda;
		struct spec s;
		uint64_t one, other;

		t.sm = 80;
		read_spec(&a, rows[i].graph, &s);
		assert_true(trace_outcome(&a, &s, str_of(rows[i].one), &t, &one));
		assert_true(trace_outcome(&a, &s, str_of(rows[i].other), &t, &other));
		if ((one == other) != rows[i].is_same)
			fail_msg("row %zu: '%s' and '%s'", i, rows[i].one, rows[i].other);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_no_kernel_twice),
	    cmocka_unit_test(test_what_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
