/* tests/unit/code_test.c: what the machine code of known kernels is made of.  label: gpu
 * tests/golden/sass/code.txt: the golden cubins, to the digit.  tests/golden/sass/today.txt: the same kernels
 * from the generator as it is, by this host's NVRTC, where it is the version that the table names: what is
 * worse than the table fails, what is better asks for the table to be lowered (KORCH_BLESS=1 writes both). */
#include "../harness/code_figures.h"
#include "../harness/gold.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER KORCH_SOURCE_DIR "/tests/golden/sass/"
enum { FIGURES = 11, ROWS = 192 };

/* Of the hot loop, but for the first two.  Bytes are of the narrowest; none is as good as the widest. */
static const struct figure {
	const char *name, *words;
	int worse; /* 1: more is, -1: less is */
	double by; /* a difference that is none */
} figures[FIGURES] = {
    {"registers", "registers of a thread", 1, 0},
    {"blocks", "blocks on a multiprocessor", -1, 0},
    {"/mma", "instructions to one on tensor cores, or to an FFMA", 1, .02},
    {"copy", "bytes of the narrowest LDGSTS", -1, 0},
    {"load", "bytes of the narrowest LDG", -1, 0},
    {"word", "bytes of the narrowest LDS", -1, 0},
    {"ldsm", "LDSM", -1, 0},
    {"cvt", "F2F", 1, 0},
    {"call", "CALL", 1, 0},
    {"stl", "STL", 1, 0},
    {"bar", "BAR", 1, 0},
};
struct row {
	char name[32], arch[8], kernel[32];
	double v[FIGURES];
};

static double
bytes_or_none(uint32_t n)
{
	return n ? n : 99;
}

static void
take(const struct code_figures *f, double v[FIGURES])
{
	const double all[FIGURES] = {f->registers, f->blocks, round(f->per_mma * 100) / 100,
	    bytes_or_none(f->copy_bytes), bytes_or_none(f->load_bytes), bytes_or_none(f->word_bytes),
	    f->n_ldsm, f->n_cvt, f->n_call, f->n_stl, f->n_bar};

	memcpy(v, all, sizeof(all));
}

/* The rows of a cubin's kernels. */
static uint32_t
rows_of(struct arena *a, const struct gold *k, struct bytes bytes, struct row *out)
{
	struct cubin *c = NEW(a, struct cubin);
	struct err e = {0};

	if (!cubin_read(bytes, c, &e))
		fail_msg("%s: %s", gold_file(a, k), e.msg);
	for (uint32_t i = 0; i < c->n_kernels; i++) {
		struct code_figures f;

		if (!code_figures(a, bytes, &c->kernel[i], k->sm, 0, k->dynamic_bytes, k->conflict, &f, &e))
			fail_msg("%s: %s", gold_file(a, k), e.msg);
		(void)snprintf(out[i].name, sizeof(out[i].name), "%s", k->name);
		(void)snprintf(out[i].arch, sizeof(out[i].arch), "%s", k->arch);
		(void)snprintf(out[i].kernel, sizeof(out[i].kernel), "%s", c->kernel[i].name);
		take(&f, out[i].v);
	}
	return c->n_kernels;
}

/* ---- tables --------------------------------------------------------------------------------------- */
static bool
read_row(const char *line, struct row *r)
{
	int at = 0, n = 0;

	if (sscanf(line, "%31s %7s %31s%n", r->name, r->arch, r->kernel, &at) != 3)
		return false;
	for (int i = 0; i < FIGURES; i++, at += n)
		if (sscanf(line + at, "%lf%n", &r->v[i], &n) != 1)
			return false;
	return true;
}

static uint32_t
read_table(struct arena *a, const char *file, struct row *rows, char *versions, size_t cap)
{
	struct err e = {0};
	struct bytes b;
	struct str rest;
	uint32_t n = 0;

	*versions = 0;
	if (!os_read_file(os_real(), a, arena_printf(a, FOLDER "%s", file), 1 << 20, &b, &e))
		return 0;
	for (rest = (struct str){(const char *)b.p, b.n}; rest.n;) {
		const struct str line = str_trim(str_cut(&rest, '\n'));

		if (str_starts(line, "nvrtc"))
			(void)snprintf(versions, cap, "%.*s", STR_ARG(line));
		else if (line.n && line.p[0] != '#' && (n == ROWS || !read_row(str_dup(a, line), &rows[n++])))
			fail_msg("%s: %.*s", file, STR_ARG(line));
	}
	return n;
}

static void
write_table(struct arena *a, const char *file, const char *versions, const struct row *rows, uint32_t n)
{
	struct err e = {0};
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "# Written by tests/unit/code_test.c: kernel, and of its main loop:\n#");
	for (int i = 0; i < FIGURES; i++)
		sb_addf(&sb, "%s %s: %s", i ? "," : "", figures[i].name, figures[i].words);
	sb_addf(&sb, "; 99 bytes: there is none.\n%s%s", versions, *versions ? "\n" : "");
	for (uint32_t i = 0; i < n; i++) {
		sb_addf(&sb, "%-15s %-4s %-5s", rows[i].name, rows[i].arch, rows[i].kernel);
		for (int q = 0; q < FIGURES; q++)
			sb_addf(&sb, " %g", rows[i].v[q]);
		sb_addz(&sb, "\n");
	}
	if (!os_write_file(os_real(), arena_printf(a, FOLDER "%s", file),
		(struct bytes){(const uint8_t *)sb.p, sb.n}, &e))
		fail_msg("%s", e.msg);
}

static const struct row *
find(const struct row *rows, uint32_t n, const struct row *like)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(rows[i].name, like->name) == 0 && strcmp(rows[i].arch, like->arch) == 0 &&
		    strcmp(rows[i].kernel, like->kernel) == 0)
			return &rows[i];
	return NULL;
}

/* How many figures are worse, each said; better ones are said too. */
static uint32_t
judge(const struct row *have, const struct row *want, bool exact)
{
	uint32_t worse = 0;

	for (int i = 0; i < FIGURES; i++) {
		const double d = (have->v[i] - want->v[i]) * figures[i].worse;

		if (fabs(d) <= (exact ? 0 : figures[i].by * want->v[i]))
			continue;
		print_message("%s sm_%s %s: %s %g, the table says %g%s\n", have->name, have->arch,
		    have->kernel, figures[i].words, have->v[i], want->v[i],
		    d < 0 && !exact ? ": lower the figure (KORCH_BLESS=1)" : "");
		worse += d > 0 || exact;
	}
	return worse;
}

/* ---- tests ----------------------------------------------------------------------------------------------
 */
static uint32_t
golden_rows(struct arena *a, struct row *rows)
{
	struct gold *list = NEW_ARRAY(a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(a, list);
	uint32_t n_rows = 0;

	for (uint32_t i = 0; i < n; i++)
		n_rows += rows_of(a, &list[i], gold_cubin(a, &list[i]), &rows[n_rows]);
	return n_rows;
}

static void
test_golden(void **state)
{
	struct arena a = {0};
	struct row *have = NEW_ARRAY(&a, struct row, ROWS), *want = NEW_ARRAY(&a, struct row, ROWS);
	char versions[64];
	const uint32_t n = golden_rows(&a, have), n_want = read_table(&a, "code.txt", want, versions, 64);
	uint32_t wrong = 0;

	(void)state;
	if (getenv("KORCH_BLESS"))
		write_table(&a, "code.txt", "", have, n);
	for (uint32_t i = 0; i < n && !getenv("KORCH_BLESS"); i++) {
		const struct row *w = find(want, n_want, &have[i]);

		if (!w)
			fail_msg("code.txt has no %s sm_%s", have[i].name, have[i].arch);
		wrong += judge(&have[i], w, true);
	}
	assert_int_equal(wrong, 0);
	arena_fini(&a);
}

/* Made by one of the versions that the table names; said as a part that is skipped where not. */
static bool
is_made_here(const struct gpu *host, const struct gold *k, const char *versions)
{
	struct gpu table = *host, *g = &table;
	char word[32];
	int major = 0, minor = 0;
	struct err e = {0};

	if (!g->has[GPU_NVRTC] || !gpu_rtc_choose(g, k->sm, &e)) {
		printf("SKIP: 1 part: %s sm_%s by NVRTC: %s\n", k->name, k->arch,
		    g->has[GPU_NVRTC] ? e.msg : g->why[GPU_NVRTC]);
		return false;
	}
	(void)g->rtc.version(&major, &minor);
	(void)snprintf(word, sizeof(word), " %d.%d", major, minor);
	if (strstr(versions, word) || getenv("KORCH_BLESS"))
		return true;
	printf("SKIP: 1 part: %s sm_%s: the figures are not of NVRTC%s\n", k->name, k->arch, word);
	return false;
}

static void
test_today(void **state)
{
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	struct row *want = NEW_ARRAY(&a, struct row, ROWS), *out = NEW_ARRAY(&a, struct row, 2 * ROWS);
	char versions[64];
	const uint32_t n = gold_list(&a, list), n_want = read_table(&a, "today.txt", want, versions, 64);
	uint32_t worse = 0, n_out = 0;
	struct gpu g;

	(void)state;
	if (!getenv("KORCH_CUDA_LIB"))
		(void)setenv("KORCH_CUDA_LIB", "/usr/local/cuda/lib64", 1);
	gpu_open(&g);
	for (uint32_t i = 0; i < n; i++) {
		struct row *have = &out[n_out];
		struct bytes cubin;
		struct err e = {0};

		if (list[i].is_text || list[i].is_old || !is_made_here(&g, &list[i], versions))
			continue;
		if (!gold_compile(&a, &g, &list[i], &cubin, &e))
			fail_msg("%s: %s", gold_file(&a, &list[i]), e.msg);
		n_out += rows_of(&a, &list[i], cubin, have);
		for (; have < &out[n_out]; have++) {
			const struct row *w = find(want, n_want, have);

			if (!w && !getenv("KORCH_BLESS"))
				fail_msg(
				    "today.txt has no %s sm_%s %s", have->name, have->arch, have->kernel);
			worse += w ? judge(have, w, false) : 0;
		}
	}
	gpu_close(&g);
	if (getenv("KORCH_BLESS")) {
		for (uint32_t i = 0; i < n_want; i++) /* those that this host cannot make stay */
			if (!find(out, n_out, &want[i]))
				out[n_out++] = want[i];
		write_table(&a, "today.txt", "nvrtc 13.0 12.4", out, n_out);
	} else
		assert_int_equal(worse, 0);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_golden),
	    cmocka_unit_test(test_today),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
