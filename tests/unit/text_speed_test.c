/* tests/unit/text_speed_test.c: what the speed of generated C rests on and no comparison of results would
 * miss: each is a word of the text, or of the machine code that the compiler makes of it
 * (kernels/generate/README.md, kernels/codegen/README.md: "Does not work", "Traps").  Whoever replaces the
 * generator takes these rows along. */
#include "../../kernels/device/dev.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define DEPTHWISE                                                                                            \
	"%0 = input f32[1,32,32,64]\n%1 = weight f32[3,3,1,64]\n"                                            \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=64\noutput %2\n"
#define CONV                                                                                                 \
	"%0 = input f32[1,28,28,64]\n%1 = weight f32[3,3,64,64]\n"                                           \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\noutput %2\n"
#define COLUMNS                                                                                              \
	"%0 = input f32[1,64,64,16]\n%1 = weight f32[3,3,16,3]\n"                                            \
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %2\n"
#define STREAMS                                                                                              \
	"%0 = input f32[4096,32]\n%1 = weight f32[32,128]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n"
#define SOFTMAX                                                                                              \
	"%0 = input f32[512,256]\n%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[512,256]\n%3 = sub %0 %2\n"    \
	"%4 = exp %3\n%5 = sum %4 axes=[1]\n%6 = bcast %5 shape=[512,256]\n%7 = div %4 %6\noutput %7\n"
#define RELU "%0 = input f32[4096,32]\n%1 = relu %0\noutput %1\n"
#define EXP "%0 = input f32[4096,32]\n%1 = exp %0\noutput %1\n"
#define TRANSPOSE "%0 = input f32[1,32,112,112]\n%1 = transpose %0 perm=[0,2,3,1]\noutput %1\n"
/* An image's quarters, one of them by each second pixel, channel by channel. */
#define INTERLEAVED                                                                                          \
	"%0 = input f32[1,3,208,208]\n%1 = input f32[1,3,208,208]\n%2 = input f32[1,3,208,208]\n"            \
	"%3 = input f32[1,3,416,416]\n"                                                                      \
	"%4 = slice %3 shape=[1,3,208,208] start=[0,0,1,1] step=[1,1,2,2]\n"                                 \
	"%5 = concat %0 %1 %2 %4 axis=1\n%6 = transpose %5 perm=[0,2,3,1]\noutput %6\n"
/* A result of another shape lies on no operand's bytes. */
#define BROADCAST "%0 = input f32[1,64]\n%1 = bcast %0 shape=[512,64]\n%2 = relu %1\noutput %2\n"

/* ---- the text ---------------------------------------------------------------------------------------- */
static const struct row {
	const char *why, *graph, *schedule, *has, *has_not;
} rows[] = {
    {"a tile's row of sums is vectors of its own", STREAMS, "", "k_v8 r12[2];", "float r"},
    {"a row that a few columns multiply is loaded once, and kept", COLUMNS, "", "K_HIDE(r", NULL},
    {"a pass's body is a function of its own, where restrict is believed", SOFTMAX, "",
	"static __attribute__((noinline)) void\nk_b0(", NULL},
    {"a loop whose result may lie on its operand is said to be independent", RELU, "", "K_INDEPENDENT\n",
	"restrict"},
    {"... and restrict says it where it cannot", BROADCAST, "", "float *restrict y0", "K_INDEPENDENT"},
    {"a sum along memory has 32 lanes", SOFTMAX, "", "k_v8 r6[4];", "[32]"},
    {"addresses that a tile's statements share have a name", DEPTHWISE, "", "*const p0 = &x0[", NULL},
    {"a loop over an array of variables is written out", INTERLEAVED, "", "K_WRITTEN_OUT\n", NULL},
    {"... where it moves them; sums of a row are none", SOFTMAX, "", "for (", "K_WRITTEN_OUT"},
    {"a transpose moves in blocks of eight rows", TRANSPOSE, "", "k_turn8(", NULL},
};

static struct str
text_of(struct arena *a, const char *graph, const char *schedule)
{
	struct target t = target_avx2;
	struct spec s;
	struct kernel_code k;
	struct err e = {0};

	t.winograd = true;
	if (!kernel_spec(a, graph, &s, &e) || !generate_kernel(a, &s, str_of(schedule), &t, "k", &k, &e))
		fail_msg("%s\n%s", e.msg, graph);
	return k.text;
}

static void
test_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		const char *text = str_dup(&a, text_of(&a, rows[i].graph, rows[i].schedule));

		if (!strstr(text, rows[i].has))
			fail_msg("%s: no '%s' in\n%s", rows[i].why, rows[i].has, text);
		if (rows[i].has_not && strstr(text, rows[i].has_not))
			fail_msg("%s: '%s' in\n%s", rows[i].why, rows[i].has_not, text);
		arena_fini(&a);
	}
}

/* gcc believes restrict of parameters alone (of rows that a tile only reads it does no harm); a header would
 * be most of a kernel's compile time. */
static void
test_no_restrict_inside(void **state)
{
	static const char *const graphs[] = {DEPTHWISE, CONV, STREAMS, SOFTMAX, RELU, TRANSPOSE};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(graphs); i++) {
		struct arena a = {0};
		struct str text = text_of(&a, graphs[i], "");

		while (text.n) {
			const char *line = str_dup(&a, str_trim(str_cut(&text, '\n')));

			if (strstr(line, "restrict") && strchr(line, '=') &&
			    !str_starts(str_of(line), "const "))
				fail_msg("restrict on what a loop stores to: %s", line);
			if (strstr(line, "#include"))
				fail_msg("a header: %s", line);
		}
		arena_fini(&a);
	}
}

static void
test_prelude(void **state)
{
	static const char *const has[] = {
	    "k_u32 u = k_bits(x) < 0xc2aeac50u ? k_bits(x) : 0xc2aeac50u;", /* a clamp without a branch */
	    "(x > y) | (x != x)", "#define K_INDEPENDENT _Pragma(\"GCC ivdep\")",
	    "K_FN static inline __attribute__((always_inline))"};
	struct arena a = {0};
	const char *text = str_dup(&a, prelude_c(&a, &target_avx2));

	(void)state;
	assert_null(strstr(text, "#include"));
	for (size_t i = 0; i < COUNT_OF(has); i++)
		if (!strstr(text, has[i]))
			fail_msg("no '%s' in the prelude", has[i]);
	arena_fini(&a);
}

static void
test_flags(void **state)
{
	static const char *const must[] = {"-O2", "-ftree-vectorize", "-fno-tree-pre",
	    "-fno-tree-loop-distribute-patterns", "-fno-math-errno", "-fwrapv"};
	static const char *const never[] = {"-O3", "-ffast-math", "-fno-thread-jumps", "-fassociative-math",
	    "-funroll-loops", "-fno-gcse", "-fno-tree-slp-vectorize", "-fno-peel-loops", "-fira-region=one"};

	(void)state;
	for (int isa = 0; isa < ISA_COUNT; isa++) {
		const char *const *flags = generate_c_flags(target_of_isa((enum isa)isa));

		for (size_t i = 0; i < COUNT_OF(must); i++) {
			bool there = false;

			for (const char *const *f = flags; *f; f++)
				there |= strcmp(*f, must[i]) == 0;
			if (!there)
				fail_msg("%s without %s", isa_info[isa].name, must[i]);
		}
		for (size_t i = 0; i < COUNT_OF(never); i++)
			for (const char *const *f = flags; *f; f++)
				assert_string_not_equal(*f, never[i]);
	}
}

/* ---- the machine code ---------------------------------------------------------------------------------- */
/* Objects are stripped of all but the passes' own functions. */
static const struct code_row {
	const char *why, *graph, *has, *has_not;
	bool pass; /* in k_p0; else in all */
} code_rows[] = {
    {"the body is not inlined: a pass's function has no loop of vectors", SOFTMAX, "", "ymm", true},
    {"the exponential is a loop of vectors, whose clamp compares bits", EXP, "vpmin", NULL, false},
    {"no sum is set to zero by a call", SOFTMAX, "ymm", "memset", false},
    {"a result on its operand's bytes is a loop of vectors", RELU, "ymm", NULL, false},
    {"products are multiply-adds", STREAMS, "vfmadd", NULL, false},
};

/* Lines of the disassembly that belong to the function. */
static const char *
code_of(struct arena *a, const char *listing, const char *function)
{
	const char *head = arena_printf(a, "<%s>:", function);
	struct str rest = str_of(listing);
	struct strbuf sb;
	bool on = false;

	sb_init(&sb, a);
	while (rest.n) {
		struct str line = str_cut(&rest, '\n');
		const char *z = str_dup(a, line);

		if (line.n > 2 && strcmp(z + line.n - 2, ">:") == 0)
			on = strstr(z, head) != NULL;
		else if (on)
			sb_addf(&sb, "%s\n", z);
	}
	return sb_str(&sb).p;
}

static const char *
disassembly(struct arena *a, const char *graph, const char *schedule)
{
	struct compile_opts o = {.flags = generate_c_flags(&target_avx2)};
	char path[] = "/tmp/emit_speed_XXXXXX";
	struct bytes object;
	struct strbuf sb;
	struct err e = {0};
	char line[512];

	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, &target_avx2));
	sb_add(&sb, text_of(a, graph, schedule));
	if (!compile_c(a, sb_str(&sb), &o, &object, &e))
		fail_msg("%s", e.msg);
	int fd = mkstemp(path);

	assert_true(fd >= 0 && write(fd, object.p, object.n) == (ssize_t)object.n);
	(void)close(fd);
	FILE *f = popen(arena_printf(a, "objdump -d --no-show-raw-insn %s", path), "r");

	sb_init(&sb, a);
	while (f && fgets(line, sizeof line, f))
		sb_addz(&sb, line);
	assert_true(f && pclose(f) == 0);
	(void)unlink(path);
	return sb_str(&sb).p;
}

static void
test_code(void **state)
{
	(void)state;
#ifndef __x86_64__
	skip();
#endif
	if (system("objdump --version >/dev/null 2>&1") != 0)
		skip();
	for (size_t i = 0; i < COUNT_OF(code_rows); i++) {
		const struct code_row *r = &code_rows[i];
		struct arena a = {0};
		const char *all = disassembly(&a, r->graph, ""),
			   *code = r->pass ? code_of(&a, all, "k_p0") : all;

		assert_true(strlen(code) > 0);
		if (!strstr(code, r->has))
			fail_msg("%s: no '%s'", r->why, r->has);
		if (r->has_not && strstr(code, r->has_not))
			fail_msg("%s: '%s' in\n%s", r->why, r->has_not, code);
		arena_fini(&a);
	}
}

/* Sums stay in registers: no vector is stored to the stack but what a tile hands on through its pointer. */
static void
test_tile_does_not_spill(void **state)
{
	struct arena a = {0};
	uint32_t spills = 0, products = 0;

	(void)state;
#ifndef __x86_64__
	skip();
#endif
	if (system("objdump --version >/dev/null 2>&1") != 0)
		skip();
	struct str rest = str_of(disassembly(&a, STREAMS, ""));

	while (rest.n) {
		const char *line = str_dup(&a, str_cut(&rest, '\n')), *vector = strstr(line, "%ymm");

		products += strstr(line, "vfmadd") != NULL;
		spills += strstr(line, "vmov") && vector && strstr(vector, "(%rsp)");
	}
	assert_int_equal(spills, 0);
	assert_true(products >= 12); /* of a tile of six rows */
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_words),
	    cmocka_unit_test(test_no_restrict_inside), cmocka_unit_test(test_prelude),
	    cmocka_unit_test(test_flags), cmocka_unit_test(test_code),
	    cmocka_unit_test(test_tile_does_not_spill)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
