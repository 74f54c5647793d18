/* tests/unit/sass_test.c: kernels of cubins read: every word is there again, ptxas's own code waits for what
 * is under way, pins and relocations; cubins that lie about themselves. */
#include "../../kernels/base/base.h"
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/sass.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- the golden cubins --------------------------------------------------------------------------- */
typedef void check_fn(const struct sass_kernel *k, struct bytes cubin, struct arena *a, const char *what);

static void
each_kernel(const char *file, check_fn *check, uint32_t *n)
{
	struct arena a = {0};
	struct cubin c;
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), &a, file, 1 << 20, &b, &e) || !cubin_read(b, &c, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < c.n_kernels; i++) {
		struct sass_kernel k;

		if (!sass_read(&a, b, c.kernel[i].name, &k, &e))
			fail_msg("%s: %s", file, e.msg);
		assert_int_equal(k.n_instr, c.kernel[i].n_instructions);
		check(&k, b, &a, file);
		++*n;
	}
	arena_fini(&a);
}

static void
each_golden(check_fn *check)
{
	DIR *d = opendir(KORCH_SOURCE_DIR "/tests/golden/sass");
	uint32_t n = 0;

	assert_non_null(d);
	for (struct dirent *f; (f = readdir(d));) {
		char path[OS_PATH_MAX];

		(void)snprintf(path, sizeof(path), KORCH_SOURCE_DIR "/tests/golden/sass/%s", f->d_name);
		if (strlen(f->d_name) > 6 && strcmp(f->d_name + strlen(f->d_name) - 6, ".cubin") == 0)
			each_kernel(path, check, &n);
	}
	(void)closedir(d);
	assert_true(n >= 20);
}

static void
check_words(const struct sass_kernel *k, struct bytes cubin, struct arena *a, const char *what)
{
	(void)a;
	(void)what;
	for (uint32_t i = 0; i < k->n_instr; i++) {
		const uint64_t word[2] = {k->instr[i].lo, k->instr[i].hi};

		assert_true(k->at + (uint64_t)(i + 1) * SASS_BYTES <= cubin.n);
		assert_memory_equal(word, cubin.p + k->at + (uint64_t)i * SASS_BYTES, SASS_BYTES);
	}
}

static void
test_words_are_those_of_the_file(void **state)
{
	(void)state;
	each_golden(check_words);
}

static void
check_known(const struct sass_kernel *k, struct bytes cubin, struct arena *a, const char *what)
{
	(void)cubin;
	(void)a;
	for (uint32_t i = 0; i < k->n_instr; i++)
		if (k->instr[i].flags & SASS_UNKNOWN)
			fail_msg("%s: %s: instruction %u is not in sass_op.def", what, k->name, i);
}

static void
test_nothing_is_unknown_there(void **state)
{
	(void)state;
	each_golden(check_known);
}

static bool
has(const uint64_t *words, int at)
{
	return words[at >> 6] >> (at & 63) & 1;
}

/* Of one register file: everything that it touches and a load will still write it has waited for. */
static bool
has_waited(
    const uint8_t *guard, const uint64_t *defs, const uint64_t *uses, int n, const struct sass_instr *i)
{
	for (int r = 0; r < n; r++)
		if ((has(defs, r) || has(uses, r)) && guard[r] & ~i->wait)
			return false;
	return true;
}

static void
check_waits(const struct sass_kernel *k, struct bytes cubin, struct arena *a, const char *what)
{
	const struct sass_flow *f = sass_flow(a, k);

	(void)cubin;
	for (uint32_t at = 0; at < k->n_instr; at++) {
		const struct sass_instr *i = &k->instr[at];
		const uint64_t p = i->defs.p, q = i->uses.p;
		struct sass_guards g;

		sass_guards_before(f, at, &g);
		if (strcmp(i->op->name, "CALL") != 0 &&
		    !(has_waited(g.writes, i->defs.r, i->uses.r, 255, i) &&
			has_waited(g.uniform_writes, &i->defs.u, &i->uses.u, 63, i) &&
			has_waited(g.predicate_writes, &p, &q, 7, i)))
			fail_msg("%s: %s: instruction %u (%s) touches what is under way", what, k->name, at,
			    i->op->name);
	}
}

static void
test_ptxas_waits_for_results(void **state)
{
	(void)state;
	each_golden(check_waits);
}

/* ---- a cubin made by hand --------------------------------------------------------------------------- */
enum {
	HEADER = 64,
	SECTION = 64,
	N_SECTIONS = 5,
	CODE = 512,
	NAMES = 640,
	INFO = 768,
	RELA = 832,
	ALL = 1280,
	N = 6
};
static const char names[] = "\0.text.k\0.nv.info.k\0.rela.text.k\0.shstrtab";

static void
put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void
put_section(uint8_t *file, int i, uint32_t name, uint32_t type, uint64_t at, uint64_t size)
{
	uint8_t *s = file + HEADER + i * SECTION;

	put(s, name, 4);
	put(s + 4, type, 4);
	put(s + 24, at, 8);
	put(s + 32, size, 8);
}

/* Six instructions of sm_80; .nv.info.k pins number 1, as an exit; a relocation is at number 3, a branch. */
static void
make_cubin(uint8_t file[ALL])
{
	static const uint64_t words[N][2] = {{0x00005e0005047a02, 0x000fe40000000f00},
	    {0x000000000000894d, 0x000fea0003800000}, {0x0000000000027919, 0x000e2e0000002100},
	    {0xffffffe000007947, 0x000fea000383ffff}, {0x000000000000794d, 0x000fea0003800000},
	    {0x0000000000007918, 0x000fc00000000000}};

	memset(file, 0, ALL);
	memcpy(file, "\177ELF\2\1\1\x33\7", 9);
	put(file + 18, 190, 2);
	put(file + 40, HEADER, 8);
	put(file + 48, 0x500550, 4);
	put(file + 58, SECTION, 2);
	put(file + 60, N_SECTIONS, 2);
	put(file + 62, 4, 2);
	put_section(file, 1, 1, 1, CODE, N * 16);
	put_section(file, 2, 9, 0x70000000, INFO, 8);
	put_section(file, 3, 20, 4, RELA, 24);
	put_section(file, 4, 33, 3, NAMES, sizeof(names));
	memcpy(file + NAMES, names, sizeof(names));
	for (int i = 0; i < N; i++) {
		put(file + CODE + 16 * i, words[i][0], 8);
		put(file + CODE + 16 * i + 8, words[i][1], 8);
	}
	put(file + INFO, 0x41c04, 4);
	put(file + INFO + 4, 16, 4);
	put(file + RELA, 3 * 16, 8);
}

static bool
read_made(struct arena *a, const uint8_t file[ALL], const char *name, struct sass_kernel *k, struct err *e)
{
	return sass_read(a, (struct bytes){file, ALL}, name, k, e);
}

static void
test_pins(void **state)
{
	struct arena a = {0};
	struct sass_kernel k;
	struct err e = {0};
	uint8_t file[ALL];

	(void)state;
	make_cubin(file);
	if (!read_made(&a, file, "k", &k, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(k.n_instr, N);
	assert_int_equal(k.sm, 80);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(k.instr[i].is_pinned, i == 1 || i == 3);
	/* where a branch goes that the loader writes is not known */
	assert_int_equal(k.instr[3].target, -1);
	assert_true(k.instr[3].flags & SASS_WALL);
	assert_true(sass_block_of(&k, 3)->leaves_unknown);
	put(file + RELA, 4 * 16, 8);
	assert_true(read_made(&a, file, "k", &k, &e));
	assert_int_equal(k.instr[3].target, 2);
	assert_int_equal(k.n_loops, 1);
	arena_fini(&a);
}

static const struct {
	uint32_t at; /* in the file: */
	uint64_t value;
	int n;
	const char *name, *says;
} lies[] = {
    {0, 0x46, 1, "k", "not a 64-bit ELF"},
    {18, 62, 2, "k", "not made for an NVIDIA GPU"},
    {0, 0x7f, 1, "other", "it holds no kernel 'other'"},
    {48, 0x3d003d, 4, "k", "sm_61"},
    {HEADER + SECTION + 32, 40, 8, "k", "40 bytes"},
    {HEADER + SECTION + 32, 0, 8, "k", "0 bytes"},
    {HEADER + SECTION + 32, UINT64_MAX, 8, "k", "outside the file"},
    {HEADER + SECTION + 24, UINT64_MAX - 15, 8, "k", "outside the file"},
    {HEADER + SECTION + 4, 8, 4, "k", "it holds no kernel"},
    {INFO + 2, 600, 2, "k", "longer than its section"},
    {HEADER + 2 * SECTION + 32, 2, 8, "k", "cut off"},
    {60, 9999, 2, "k", "9999 sections"},
    {60, 40, 2, "k", "outside the file"},
    {62, 77, 2, "k", "section 77 is not there"},
    {40, UINT64_MAX - 3, 8, "k", "is not there"},
};

static void
test_lies(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(lies); i++) {
		struct arena a = {0};
		struct sass_kernel k;
		struct err e = {0};
		uint8_t file[ALL];

		make_cubin(file);
		put(file + lies[i].at, lies[i].value, lies[i].n);
		if (read_made(&a, file, lies[i].name, &k, &e))
			fail_msg("%u: read, where '%s' was to be said", i, lies[i].says);
		assert_int_equal(e.code, ERR_FORMAT);
		if (!strstr(e.msg, lies[i].says))
			fail_msg("%u: '%s' does not say '%s'", i, e.msg, lies[i].says);
		arena_fini(&a);
	}
}

/* Relocations and pins that point nowhere do no harm. */
static void
test_far_offsets(void **state)
{
	struct arena a = {0};
	struct sass_kernel k;
	struct err e = {0};
	uint8_t file[ALL];

	(void)state;
	make_cubin(file);
	put(file + RELA, UINT64_MAX, 8);
	put(file + INFO + 4, UINT32_MAX, 4);
	assert_true(read_made(&a, file, "k", &k, &e));
	for (uint32_t i = 0; i < N; i++)
		assert_false(k.instr[i].is_pinned);
	arena_fini(&a);
}

/* ---- sets, control bits ---------------------------------------------------------------------------------
 */
static void
test_sets(void **state)
{
	struct sass_set a = {.r = {0, 0, 1}}, b = {.r = {0, 0, 2}, .up = 1}, none = {.u = 0};

	(void)state;
	assert_false(sass_set_meets(&a, &b));
	sass_set_join(&a, &b);
	assert_true(sass_set_meets(&a, &b));
	assert_true(a.r[2] == 3 && a.up == 1);
	assert_true(sass_set_is_empty(&none));
	assert_false(sass_set_is_empty(&b));
	assert_false(sass_set_meets(&none, &a));
}

static void
test_control_is_printed(void **state)
{
	struct sass_instr i;
	char out[32];
	const uint64_t control = 2 | 2 << 5 | 5 << 8 | 1 << 13; /* stall, write and read barrier, waits */

	(void)state;
	sass_decode(0x0000001004047981, 0x0c1e9b00 | control << 41, 80, 0, 1, &i);
	sass_print_control(out, &i);
	assert_string_equal(out, "B--2--- R5 W2 Y S02");
	assert_int_equal(i.stall, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words_are_those_of_the_file),
	    cmocka_unit_test(test_nothing_is_unknown_there),
	    cmocka_unit_test(test_ptxas_waits_for_results),
	    cmocka_unit_test(test_pins),
	    cmocka_unit_test(test_lies),
	    cmocka_unit_test(test_far_offsets),
	    cmocka_unit_test(test_sets),
	    cmocka_unit_test(test_control_is_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
