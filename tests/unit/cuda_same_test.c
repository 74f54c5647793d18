/* Of a task's kernels that are the same machine code, launched alike, one is timed; the others' rows name it.
 */
#include "../../kernels/device/gpu.h"
#include "../../worker/cuda_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40 };
struct rig {
	struct arena a;
	struct m_outcome out;
	struct m_row row[MOST];
	struct measure_kernel kernel[MOST];
	struct kernel_code code[MOST];
	struct cuda_made made[MOST];
	struct unit u;
};

static void
rig_open(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	r->out.rows = r->row;
	r->u = (struct unit){.out = &r->out, .kernels = r->kernel, .codes = r->code, .made = r->made};
}

static void
add(struct rig *r, struct str schedule, struct bytes cubin, const struct kernel_code *code)
{
	uint32_t i = r->u.n++;

	assert_true(i < MOST);
	r->code[i] = *code;
	r->made[i].cubin = cubin;
	r->kernel[i] = (struct measure_kernel){.schedule = schedule, .symbol = STR("k"), .code = &r->code[i]};
}

/* ---- cubins that are made up ---- */
static const struct row {
	const char *schedule, *cubin;
	uint32_t threads;
	bool persists, is_library;
	const char *twin; /* NULL: it stays */
} rows[] = {
    {"", "one", 128, false, false, NULL},
    {"stages=3", "one", 128, false, false, "the same machine code as the default schedule"},
    {"threads=64", "one", 64, false, false, NULL}, /* launched otherwise */
    {"lib=cublaslt-13.0.0", "", 128, false, true, NULL},
    {"lib=cublaslt-13.0.0 algo=1", "", 128, false, true, NULL}, /* without code they are not the same */
    {"tm=2", "two", 128, false, false, NULL},
    {"tm=4", "two!", 128, false, false, NULL},
    {"persist=1", "two", 128, true, false, NULL},
    {"tm=8", "two", 128, false, false, "the same machine code as schedule tm=2"},
    {"tm=8 tn=8", "one", 64, false, false, "the same machine code as schedule threads=64"},
};

static void
test_made_up(void **state)
{
	struct rig r;
	uint32_t at = 0, row = 0;

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct kernel_code code = {.desc = {.n_passes = 1, .is_library = rows[i].is_library}};

		code.desc.launch[0] = (struct launch){
		    .grid = {1, 1, 1}, .block = {rows[i].threads, 1, 1}, .persists = rows[i].persists};
		add(&r, str_of(rows[i].schedule),
		    (struct bytes){(const uint8_t *)rows[i].cubin, strlen(rows[i].cubin)}, &code);
	}
	cuda_drop_same(&r.a, &r.u);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (rows[i].twin) {
			assert_true(str_is(r.row[row].schedule, rows[i].schedule));
			assert_true(str_is(r.row[row].cause, rows[i].twin));
			assert_int_equal(err_of_wire(r.row[row++].fail), ERR_INFEASIBLE);
			continue;
		}
		assert_true(at < r.u.n && str_is(r.kernel[at].schedule, rows[i].schedule));
		assert_ptr_equal(r.kernel[at].code, &r.code[at]);
		assert_int_equal(r.made[at].cubin.n, strlen(rows[i].cubin));
		at++;
	}
	assert_int_equal(at, r.u.n);
	assert_int_equal(row, r.out.n_rows);
	arena_fini(&r.a);
}

/* ---- NVRTC's: texts that differ and come to the same code ---- */
static const char twice_read[] =
    "%0 = input f32[64,1000]\n%1 = sigmoid %0\n%2 = mul %0 %1\n%3 = relu %2\n%4 = mul %2 %3\noutput %4\n";

static void
compile(struct rig *r, const struct gpu *g, struct str schedule, const struct spec *s, const struct target *t)
{
	struct kernel_code *code = NEW(&r->a, struct kernel_code);
	struct strbuf sb;
	struct bytes cubin;
	struct err e = {0};

	sb_init(&sb, &r->a);
	sb_add(&sb, prelude_cuda(&r->a, false));
	if (!generate_kernel(&r->a, s, schedule, t, "k", code, &e))
		fail_msg("%s", e.msg);
	sb_add(&sb, code->text);
	if (!gpu_compile(g, &r->a, sb_str(&sb), t->sm, false, &cubin, &e))
		fail_msg("%s", e.msg);
	add(r, schedule, cubin, code);
}

static void
test_nvrtc(void **state)
{
	struct rig r;
	struct gpu g;
	struct graph *graph;
	struct spec s;
	struct target t = target_cuda;
	struct str *list;
	uint32_t n;
	struct err e = {0};

	(void)state;
	gpu_open(&g);
	t.sm = 80;
	rig_open(&r);
	if (!gpu_rtc_choose(&g, t.sm, &e)) {
		printf("SKIP: 1 part: no NVRTC: %s\n", e.msg);
		gpu_close(&g);
		return;
	}
	graph = NEW(&r.a, struct graph);
	assert_true(graph_read(graph, &r.a, str_of(twice_read), &e));
	spec_of_graph(&r.a, graph, &s);
	space_list(&r.a, &s, &t, MOST - 1, text_outcome, &list, &n);
	for (uint32_t i = 0; i < n; i++)
		compile(&r, &g, list[i], &s, &t);
	compile(&r, &g, STR(""), &s, &t); /* by another name, as a planner of before may ask for it */
	n++;
	cuda_drop_same(&r.a, &r.u);
	printf("%u texts, %u of them another's machine code\n", n, r.out.n_rows);
	for (uint32_t i = 0; i < r.out.n_rows; i++)
		printf("'%.*s': %.*s\n", STR_ARG(r.row[i].schedule), STR_ARG(r.row[i].cause));
	assert_int_equal(r.u.n + r.out.n_rows, n);
	assert_true(r.out.n_rows > 0);
	arena_fini(&r.a);
	gpu_close(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_made_up),
	    cmocka_unit_test(test_nvrtc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
