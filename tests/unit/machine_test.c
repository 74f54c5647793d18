/* tests/unit/machine_test.c: the interpreter of GPU machine code computes integers as the processor does,
 * runs all golden kernels to one trace twice, and gives an end to whatever it is given.  memory: yes */
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/machine.h"
#include "machine_cases.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { THREADS = 64, ROWS = 64 };

static struct bytes
read_file(struct arena *a, const char *path)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a, path, 1 << 24, &b, &e))
		fail_msg("%s", e.msg);
	return b;
}

static struct sass_kernel
kernel_of(struct arena *a, const char *path, const char *name)
{
	struct sass_kernel k;
	struct err e = {0};

	if (!sass_read(a, read_file(a, path), name, &k, &e))
		fail_msg("%s: %s", path, e.msg);
	return k;
}

/* ---- integers -------------------------------------------------------------------------------- */
struct table {
	uint32_t word[ROWS][THREADS];
	uint32_t n;
};

static void
note(void *self, uint64_t at, uint32_t value)
{
	struct table *t = self;

	if (at / 4 >= (uint64_t)ROWS * THREADS)
		fail_msg("a store to %llx", (unsigned long long)at);
	t->word[at / 4 / THREADS][at / 4 % THREADS] = value;
	t->n++;
}

static uint32_t
first_word(uint32_t t, uint32_t first)
{
	return t * 0x9e3779b9u + first;
}

/* What the kernel does behind the cases, with all threads in hand. */
static void
add_shuffled(struct table *w, uint32_t t, uint32_t first, uint32_t second)
{
	const uint32_t warp = t / 32 * 32;
	uint32_t sum = 0, odd = 0, n = w->n;

	for (uint32_t l = 0; l < 32; l++) {
		sum += first_word(warp + l, first);
		odd |= (first_word(warp + l, first) & 1) << l;
	}
	const uint32_t from = t % 16 >= 3 ? t - 3 : t;

	w->word[n++][t] = sum;
	w->word[n++][t] = ((from + 3) * 0x85ebca6bu ^ second) + first_word(warp + 5, first);
	w->word[n++][t] = first_word((t + 40) % 64, first) + first_word(63 - t, first);
	w->word[n][t] = odd;
}

static void
compute(struct table *w, uint32_t first, uint32_t second)
{
	for (uint32_t t = 0; t < THREADS; t++) {
		const u32 a = first_word(t, first), b = (t + 3) * 0x85ebca6bu ^ second;
		const int sa = (int)a, sb = (int)b;

		w->n = 0;
#define CASE(E) w->word[w->n++][t] = (u32)(E);
#include "machine_cases.inc"
#undef CASE
		add_shuffled(w, t, first, second);
	}
}

static void
compare(const struct sass_kernel *k, struct arena *a, uint32_t first, uint32_t second)
{
	const uint32_t param[] = {0, 0, first, second};
	struct table *is = NEW(a, struct table), *want = NEW(a, struct table);
	const struct machine_input in = {.seed = 7,
	    .param = param,
	    .n_param = COUNT_OF(param),
	    .threads = {THREADS, 1, 1},
	    .grid = {1, 1, 1},
	    .warp = {0, 1},
	    .n_warps = 2,
	    .turns = 1000,
	    .stored = note,
	    .self = is};
	struct machine_trace trace;

	machine_run(a, k, NULL, &in, &trace);
	if (trace.end != MACHINE_ENDED)
		fail_msg("sm_%d: ends at %u: %s", k->sm, trace.at, trace.why ? trace.why : "turns");
	assert_int_equal(trace.races, 0);
	compute(want, first, second);
	assert_int_equal(is->n, (want->n + 4) * THREADS);
	for (uint32_t n = 0; n < want->n + 4; n++)
		for (uint32_t t = 0; t < THREADS; t++)
			if (is->word[n][t] != want->word[n][t])
				fail_msg("sm_%d, row %u of machine_cases.inc, thread %u: %x, not %x", k->sm,
				    n, t, is->word[n][t], want->word[n][t]);
}

static void
test_integers_are_the_processors(void **state)
{
	static const uint32_t word[] = {0, 1, 7, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678, 0xfffffff9};
	static const int sm[] = {75, 80, 90};
	struct arena a = {0};

	(void)state;
	for (uint32_t s = 0; s < COUNT_OF(sm); s++) {
		const struct sass_kernel k = kernel_of(&a,
		    arena_printf(
			&a, "%s/tests/fuzz/corpus/machine/cases_sm%d.cubin", KORCH_SOURCE_DIR, sm[s]),
		    "k");

		for (uint32_t i = 0; i < COUNT_OF(word); i++)
			for (uint32_t j = 0; j < COUNT_OF(word); j++)
				compare(&k, &a, word[i], word[j]);
	}
	arena_fini(&a);
}

/* ---- golden kernels -------------------------------------------------------------------------- */
static void
runs_alike(struct arena *a, const char *file, const struct sass_kernel *k)
{
	enum { INPUTS = 4 };
	uint32_t most = 0;

	for (uint64_t n = 0; n < INPUTS; n++) {
		struct machine_input in;
		struct machine_trace x, y;

		machine_input_make(a, n, &in);
		machine_run(a, k, NULL, &in, &x);
		machine_run(a, k, NULL, &in, &y);
		if (x.end == MACHINE_UNKNOWN)
			fail_msg("%s, %s: instruction %u: %s", file, k->name, x.at, x.why);
		assert_true(machine_trace_equal(&x, &y));
		if (!in.leaves_loops && x.races)
			fail_msg("%s, %s: %u races, the first at %u", file, k->name, x.races, x.race_at);
		most = MAX_OF(most, x.visited);
	}
	/* A third of each at least: rows' kernels have the text for lengths that no input here has. */
	if (3 * most < k->n_instr)
		fail_msg("%s, %s: only %u of %u instructions were met", file, k->name, most, k->n_instr);
}

static void
test_golden_kernels_run(void **state)
{
	const char *folder = KORCH_SOURCE_DIR "/tests/golden/sass";
	DIR *d = opendir(folder);
	uint32_t n = 0;

	(void)state;
	assert_non_null(d);
	for (const struct dirent *f; (f = readdir(d));) {
		struct arena a = {0};
		struct err e = {0};

		if (!strstr(f->d_name, ".cubin"))
			continue;
		struct cubin *c = NEW(&a, struct cubin);
		const struct bytes b = read_file(&a, arena_printf(&a, "%s/%s", folder, f->d_name));

		assert_true(cubin_read(b, c, &e));
		for (uint32_t i = 0; i < c->n_kernels; i++, n++) {
			struct sass_kernel k;

			assert_true(sass_read(&a, b, c->kernel[i].name, &k, &e));
			runs_alike(&a, f->d_name, &k);
		}
		arena_fini(&a);
	}
	closedir(d);
	assert_true(n >= 40);
}

/* ---- whatever it is given -------------------------------------------------------------------- */
static void
test_nothing_to_run(void **state)
{
	const struct sass_kernel none = {.name = "none", .sm = 80};
	const struct machine_input in = {.n_warps = 9};
	struct machine_trace t;
	struct arena a = {0};

	(void)state;
	machine_run(&a, &none, NULL, &in, &t);
	assert_int_equal(t.end, MACHINE_UNKNOWN);
	assert_string_equal(t.why, "no code, or no warps");
	arena_fini(&a);
}

/* One parameter, one word of memory, one place that differs: other traces. */
static void
test_traces_tell_inputs_apart(void **state)
{
	struct arena a = {0};
	const struct sass_kernel k =
	    kernel_of(&a, KORCH_SOURCE_DIR "/tests/golden/sass/hand_v3_sm80.cubin", "k");
	struct machine_input in;
	struct machine_trace x, y;

	(void)state;
	machine_input_make(&a, 1, &in);
	machine_run(&a, &k, NULL, &in, &x);
	in.seed++;
	machine_run(&a, &k, NULL, &in, &y);
	assert_false(machine_trace_equal(&x, &y));
	in.seed--;
	in.block[0]++;
	machine_run(&a, &k, NULL, &in, &y);
	assert_false(machine_trace_equal(&x, &y));
	arena_fini(&a);
}

/* ---- what comes too early ---------------------------------------------------------------------- */
static struct machine_trace
run_hand(struct arena *a, const struct sass_kernel *k, const struct machine_hazards *h)
{
	struct machine_input in;
	struct machine_trace t;

	machine_input_make(a, 0, &in);
	machine_run(a, k, h, &in, &t);
	return t;
}

static uint32_t
edit_all(struct sass_kernel *k, const char *name, void (*edit)(struct sass_instr *i))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < k->n_instr; i++)
		if (strcmp(k->instr[i].op->name, name) == 0) {
			edit(&k->instr[i]);
			n++;
		}
	return n;
}

/* DEPBAR.LE SB0, 63: no copy needs to have landed. */
static void
wait_for_none(struct sass_instr *i)
{
	i->lo |= 0x3full << 38;
}

/* A NOP. */
static void
pass_by(struct sass_instr *i)
{
	i->lo = 0x7918;
}

/* The pipeline of copies as it is, without its waits, and without its barriers. */
static void
test_copies_that_are_not_waited_for_race(void **state)
{
	static const struct {
		const char *name;
		void (*edit)(struct sass_instr *i);
	} edits[] = {{"DEPBAR", wait_for_none}, {"BAR", pass_by}};
	struct arena a = {0};

	(void)state;
	for (uint32_t n = 0; n < COUNT_OF(edits); n++) {
		struct sass_kernel k =
		    kernel_of(&a, KORCH_SOURCE_DIR "/tests/golden/sass/gemm_f16_sm80.cubin", "k_p0");
		const struct machine_trace base = run_hand(&a, &k, NULL);

		assert_int_equal(base.races, 0);
		assert_true(edit_all(&k, edits[n].name, edits[n].edit) > 0);
		const struct machine_trace edited = run_hand(&a, &k, NULL);

		if (edited.races == 0)
			fail_msg("without %s nothing races", edits[n].name);
		assert_false(machine_trace_equal(&base, &edited));
	}
	arena_fini(&a);
}

/* An instruction with a hazard leaves poison, which is seen in what is stored. */
static void
test_hazards_poison_the_trace(void **state)
{
	struct arena a = {0};
	const struct sass_kernel k =
	    kernel_of(&a, KORCH_SOURCE_DIR "/tests/golden/sass/hand_v3_sm80.cubin", "k");
	uint8_t *poisoned = NEW_ARRAY(&a, uint8_t, k.n_instr);
	struct machine_hazards h = {.poisoned = poisoned};
	const struct machine_trace clean = run_hand(&a, &k, &h), plain = run_hand(&a, &k, NULL);

	(void)state;
	assert_true(machine_trace_equal(&clean, &plain));
	for (uint32_t n = 0; n < k.n_instr; n++)
		poisoned[n] = strcmp(k.instr[n].op->name, "LDSM") == 0;
	const struct machine_trace spoilt = run_hand(&a, &k, &h);

	assert_false(machine_trace_equal(&spoilt, &plain));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers_are_the_processors),
	    cmocka_unit_test(test_golden_kernels_run), cmocka_unit_test(test_nothing_to_run),
	    cmocka_unit_test(test_traces_tell_inputs_apart),
	    cmocka_unit_test(test_copies_that_are_not_waited_for_race),
	    cmocka_unit_test(test_hazards_poison_the_trace)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
