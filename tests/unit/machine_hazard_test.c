/* tests/unit/machine_hazard_test.c: what ptxas made has no hazard, in any golden kernel; the same code with
 * one control bit too few has one.  memory: yes */
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/decode.h"
#include "../../kernels/sass/machine.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bytes
golden(struct arena *a, const char *name)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a, arena_printf(a, "%s/tests/golden/sass/%s", KORCH_SOURCE_DIR, name),
		1 << 24, &b, &e))
		fail_msg("%s", e.msg);
	return b;
}

static struct sass_kernel
kernel_of(struct arena *a, const char *file, const char *name)
{
	struct sass_kernel k;
	struct err e = {0};

	if (!sass_read(a, golden(a, file), name, &k, &e))
		fail_msg("%s: %s", file, e.msg);
	return k;
}

/* ---- none in what was not edited ----------------------------------------------------------------- */
static void
judge_file(const char *file, uint32_t *n)
{
	struct arena a = {0};
	struct err e = {0};
	const struct bytes b = golden(&a, file);
	struct cubin *c = NEW(&a, struct cubin);

	assert_true(cubin_read(b, c, &e));
	for (uint32_t i = 0; i < c->n_kernels; i++, ++*n)
		if (machine_hazard(&a, b, c->kernel[i].name, &e))
			fail_msg("%s: %s", file, e.msg);
	arena_fini(&a);
}

static void
test_golden_kernels_have_none(void **state)
{
	DIR *d = opendir(KORCH_SOURCE_DIR "/tests/golden/sass");
	uint32_t n = 0;

	(void)state;
	assert_non_null(d);
	for (const struct dirent *f; (f = readdir(d));)
		if (strstr(f->d_name, ".cubin"))
			judge_file(f->d_name, &n);
	closedir(d);
	assert_true(n >= 40);
}

/* ---- one bit too few ------------------------------------------------------------------------------- */
/* Edits one instruction's control bits; false: there is nothing of the kind to edit. */
static bool
wait_less(struct sass_instr *i)
{
	const bool any = i->wait != 0;

	i->wait = 0;
	return any;
}

static bool
issue_at_once(struct sass_instr *i)
{
	const bool any = i->stall > 1;

	i->stall = 1;
	return any;
}

static bool
set_no_barrier(struct sass_instr *i)
{
	const bool any = i->write_barrier != SASS_NO_BARRIER;

	i->write_barrier = SASS_NO_BARRIER;
	return any;
}

static bool
guard_no_operands(struct sass_instr *i)
{
	const bool any = i->read_barrier != SASS_NO_BARRIER;

	i->read_barrier = SASS_NO_BARRIER;
	return any;
}

/* Of all edits of one kind, one at a time, how many are found; not all do harm: a wait may stand twice, a
 * stall be for a pipe's sake, a barrier wait for what another one covers. */
static const struct edit {
	const char *name;
	bool (*edit)(struct sass_instr *i);
	uint32_t least_percent;
} edits[] = {
    {"no wait", wait_less, 80},
    {"no stall", issue_at_once, 50},
    {"no barrier for the result", set_no_barrier, 60},
    {"no barrier for operands", guard_no_operands, 30},
};

static void
edit_one_by_one(const char *file, const char *name, const struct edit *e, uint32_t *done, uint32_t *seen)
{
	struct arena a = {0};
	struct sass_kernel k = kernel_of(&a, file, name);
	struct machine_flow *f = machine_flow(&a, &k);
	struct machine_hazard h;

	for (uint32_t n = 0; n < k.n_instr; n++) {
		const struct sass_instr old = k.instr[n];

		if (!e->edit(&k.instr[n]))
			continue;
		machine_flow_again(f);
		++*done;
		*seen += machine_flow_hazards(f, &h) != 0;
		k.instr[n] = old;
	}
	arena_fini(&a);
}

static void
test_a_bit_too_few_is_seen(void **state)
{
	static const char *const files[] = {
	    "hand_v3_sm80.cubin", "softmax_sm90.cubin", "depthwise_sm70.cubin", "chain_sm80.cubin"};

	(void)state;
	for (uint32_t e = 0; e < COUNT_OF(edits); e++) {
		uint32_t done = 0, seen = 0;

		for (uint32_t n = 0; n < COUNT_OF(files); n++)
			edit_one_by_one(
			    files[n], strstr(files[n], "hand") ? "k" : "k_p0", &edits[e], &done, &seen);
		print_message("%s: %u of %u are hazards\n", edits[e].name, seen, done);
		assert_true(done > 50);
		assert_true(100 * seen >= edits[e].least_percent * done);
	}
}

/* SEL R3; a wall of that control word; STG of R3, as CUTLASS's split convolutions end. */
static uint32_t
behind_a_wall(struct arena *a, uint64_t lo, uint64_t hi)
{
	const uint64_t word[][2] = {{0x000000ff03037207, 0x000fc80000000000}, {lo, hi},
	    {0x0000000354007986, 0x000fe2000c10f912}, {0x000000000000794d, 0x000fea0003800000}};
	enum { N = COUNT_OF(word) };
	struct sass_kernel k = {
	    .name = "k", .sm = 80, .instr = NEW_ARRAY(a, struct sass_instr, N), .n_instr = N};
	struct machine_hazards h;

	for (uint32_t i = 0; i < N; i++)
		sass_decode(word[i][0], word[i][1], k.sm, i, N, &k.instr[i]);
	sass_find_blocks(a, &k);
	machine_hazards(a, &k, &h);
	return h.n;
}

static void
test_a_stall_of_0_is_a_long_wait(void **state)
{
	enum { ERRBAR = 0x79ab, NOP = 0x7918 };
	struct arena a = {0};

	(void)state;
	assert_int_equal(behind_a_wall(&a, ERRBAR, 0x000fc00000000000), 0);
	assert_int_equal(behind_a_wall(&a, NOP, 0x000fc00000000000), 0);
	assert_int_equal(behind_a_wall(&a, NOP, 0x000fe20000000000), 0); /* 4 and 1 are 5 */
	assert_int_equal(behind_a_wall(&a, NOP, 0x000fe00000000000), 1); /* without the yield bit 0 is 0 */
	arena_fini(&a);
}

/* ---- what it says ----------------------------------------------------------------------------------- */
static void
test_the_first_is_named(void **state)
{
	struct arena a = {0};
	struct sass_kernel k = kernel_of(&a, "chain_sm80.cubin", "k_p0");
	struct machine_hazards h;
	char text[160];
	uint32_t n = 0;

	(void)state;
	while (strcmp(k.instr[n].op->name, "S2R") != 0)
		n++;
	k.instr[n].write_barrier = SASS_NO_BARRIER;
	machine_hazards(&a, &k, &h);
	assert_true(h.n > 0 && h.first.kind == MACHINE_READS_EARLY && h.first.of == n);
	assert_int_equal(h.poisoned[h.first.at], 1);
	machine_hazard_text(&k, &h.first, text);
	assert_non_null(strstr(text, "before it is there (S2R at"));
	arena_fini(&a);
}

static void
test_no_cubin_is_one(void **state)
{
	const struct bytes none = {(const uint8_t *)"no cubin", 8};
	struct arena a = {0};
	struct err e = {0};

	(void)state;
	assert_true(machine_hazard(&a, none, "k", &e));
	assert_int_equal(e.code, ERR_FORMAT);
	arena_fini(&a);
}

/* More blocks than are judged: said, not passed. */
static void
test_too_large_is_one(void **state)
{
	enum { N = 5000 };
	struct arena a = {0};
	struct sass_kernel k = {
	    .name = "k", .sm = 80, .instr = NEW_ARRAY(&a, struct sass_instr, N), .n_instr = N};
	struct machine_hazards h;
	char text[160];

	(void)state;
	k.block = NEW_ARRAY(&a, struct sass_block, N);
	k.n_blocks = N;
	machine_hazards(&a, &k, &h);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.first.kind, MACHINE_NOT_JUDGED);
	machine_hazard_text(&k, &h.first, text);
	assert_non_null(strstr(text, "5000 blocks"));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden_kernels_have_none),
	    cmocka_unit_test(test_a_bit_too_few_is_seen), cmocka_unit_test(test_a_stall_of_0_is_a_long_wait),
	    cmocka_unit_test(test_the_first_is_named), cmocka_unit_test(test_no_cubin_is_one),
	    cmocka_unit_test(test_too_large_is_one)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
