/* tests/unit/perturb_test.c: moves of finished kernels: as text, done to a cubin, taken back. */
#include "../harness/golden_cubins.h"
#include "../../kernels/sass/perturb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOVES = 300, FAR = 8 };

struct rig {
	struct arena a;
	struct golden_kernel *kernel;
	uint32_t n;
};

static int
set_up(void **state)
{
	struct rig *r = heap_alloc(sizeof(*r));
	struct err e = {0};

	r->kernel = golden_cubins(&r->a, &r->n, &e);
	if (r->n == 0)
		fail_msg("%s", e.msg);
	*state = r;
	return 0;
}

static int
tear_down(void **state)
{
	struct rig *r = *state;

	arena_fini(&r->a);
	free(r);
	return 0;
}

/* ---- random legal moves
 * ------------------------------------------------------------------------------------- */
static enum sass_rule
move_any(struct sass_sched *s, struct rng *r, uint32_t n)
{
	const uint32_t at = rng_below(r, n), far = rng_below(r, 2 * FAR + 1), kind = rng_below(r, 5);
	const struct sass_instr *i = &sass_sched_now(s)->instr[at];

	switch (kind) {
	case 0:
		return sass_exchange(s, at);
	case 1:
	case 2:
		return at + far < FAR ? SASS_RULE_block : sass_move(s, at, at + far - FAR, kind == 2);
	case 3:
		return sass_set_stall(s, at, i->stall + (rng_below(r, 3) ? -1U : 1U));
	default:
		return sass_set_yield(s, at, !i->yields);
	}
}

static void
move_often(struct sass_sched *s, struct rng *r, uint32_t n_moves)
{
	for (uint32_t q = 0, done = 0; q < 40 * n_moves && done < n_moves; q++)
		done += move_any(s, r, sass_sched_now(s)->n_instr) == SASS_LEGAL;
}

static bool
is_at_base(const struct sass_sched *s, const struct sass_kernel *base)
{
	const struct sass_kernel *now = sass_sched_now(s);

	for (uint32_t at = 0; at < base->n_instr; at++)
		if (sass_sched_who(s, at) != at || now->instr[at].lo != base->instr[at].lo ||
		    now->instr[at].hi != base->instr[at].hi)
			return false;
	return true;
}

static void
test_undo_gives_the_base(void **state)
{
	struct rig *r = *state;
	struct rng rng = {1};

	for (uint32_t n = 0; n < r->n; n++) {
		struct arena a = {0};
		struct sass_sched *s = sass_sched_make(&a, &r->kernel[n].k);
		const uint32_t mark = sass_sched_mark(s);

		move_often(s, &rng, MOVES);
		assert_false(is_at_base(s, &r->kernel[n].k));
		sass_sched_undo(s, mark);
		assert_true(is_at_base(s, &r->kernel[n].k));
		arena_fini(&a);
	}
}

/* Nothing outside of the kernel's code differs; there, what the schedule holds stands. */
static void
check_bytes(const struct golden_kernel *g, const struct sass_sched *s, struct bytes out)
{
	const struct sass_kernel *now = sass_sched_now(s);
	const size_t first = g->k.at, end = first + (size_t)g->k.n_instr * SASS_BYTES;

	assert_int_equal(out.n, g->cubin.n);
	assert_memory_equal(out.p, g->cubin.p, first);
	assert_memory_equal(out.p + end, g->cubin.p + end, out.n - end);
	for (uint32_t at = 0; at < now->n_instr; at++) {
		uint64_t lo, hi;

		memcpy(&lo, out.p + first + (size_t)at * SASS_BYTES, 8);
		memcpy(&hi, out.p + first + (size_t)at * SASS_BYTES + 8, 8);
		if (lo != now->instr[at].lo || hi != now->instr[at].hi)
			fail_msg("%s: %s: place %u", g->file, g->k.name, at);
	}
}

static void
test_a_schedule_as_text_gives_its_bytes(void **state)
{
	struct rig *r = *state;
	struct rng rng = {2};

	for (uint32_t n = 0; n < r->n; n++) {
		const struct golden_kernel *g = &r->kernel[n];
		struct arena a = {0};
		struct sass_sched *s = sass_sched_make(&a, &g->k);
		const struct sass_sched *one = s;
		struct sass_moves m, back;
		struct bytes out;
		struct err e = {0};

		move_often(s, &rng, MOVES);
		sass_moves_of(&a, g->cubin, &one, 1, &m);
		const struct str text = sass_moves_print(&a, &m);

		if (!sass_moves_read(&a, text, &back, &e) || !sass_moves_apply(&a, g->cubin, &back, &out, &e))
			fail_msg("%s: %s: %s\n%.*s", g->file, g->k.name, e.msg, STR_ARG(text));
		assert_true(str_eq(text, sass_moves_print(&a, &back)));
		check_bytes(g, s, out);
		arena_fini(&a);
	}
}

/* Two kernels of one cubin in one text; and there and back again is the base, reuse flags too. */
static void
test_there_and_back_is_the_base(void **state)
{
	struct rig *r = *state;
	uint32_t n_back = 0;

	for (uint32_t n = 0; n < r->n; n++) {
		const struct golden_kernel *g = &r->kernel[n];

		for (uint32_t at = 0; at + 1 < g->k.n_instr; at++) {
			struct arena a = {0};
			struct sass_sched *s = sass_sched_make(&a, &g->k);
			struct err e = {0};
			struct sass_moves m;
			struct bytes out;
			char digest[SASS_DIGEST + 1];

			while (at + 1 < g->k.n_instr && sass_exchange(s, at) != SASS_LEGAL)
				at++;
			sass_moves_digest(g->cubin, digest);
			const char *text = arena_printf(
			    &a, "%s:%s.m%u>%u.m%u>%u", digest, g->k.name, at, at + 1, at, at + 1);

			if (at + 1 < g->k.n_instr) {
				assert_true(sass_moves_read(&a, str_of(text), &m, &e));
				if (!sass_moves_apply(&a, g->cubin, &m, &out, &e))
					fail_msg("%s: %s", g->file, e.msg);
				assert_memory_equal(out.p, g->cubin.p, out.n);
				n_back++;
			}
			arena_fini(&a);
			at += 97;
		}
	}
	assert_true(n_back > 20);
}

/* ---- one move changes two lines
 * ------------------------------------------------------------------------------ */
/* Decoded again, every instruction but the two is as it was, reuse flags aside. */
static bool
same_but_reuse(const struct sass_instr *x, const struct sass_instr *y)
{
	const uint64_t reuse = UINT64_C(7) << (122 - 64);

	return x->lo == y->lo && (x->hi & ~reuse) == (y->hi & ~reuse);
}

static void
check_exchange(struct arena *a, const struct golden_kernel *g, struct sass_sched *s, uint32_t at)
{
	const struct sass_sched *one = s;
	struct sass_kernel again;
	struct sass_moves m;
	struct bytes out;
	struct err e = {0};

	sass_moves_of(a, g->cubin, &one, 1, &m);
	if (!sass_moves_apply(a, g->cubin, &m, &out, &e) || !sass_read(a, out, g->k.name, &again, &e))
		fail_msg("%s: %s: exchange at %u: %s", g->file, g->k.name, at, e.msg);
	for (uint32_t q = 0; q < again.n_instr; q++) {
		const uint32_t was = q == at ? at + 1 : q == at + 1 ? at : q;

		if (!same_but_reuse(&again.instr[q], &g->k.instr[was]))
			fail_msg("%s: %s: exchange at %u: place %u", g->file, g->k.name, at, q);
	}
}

static void
test_an_exchange_changes_its_two_lines(void **state)
{
	struct rig *r = *state;
	uint32_t n_legal = 0;

	for (uint32_t n = 0; n < r->n; n++) {
		struct arena a = {0};
		struct sass_sched *s = sass_sched_make(&a, &r->kernel[n].k);

		for (uint32_t at = 0; at + 1 < r->kernel[n].k.n_instr; at++) {
			const uint32_t mark = sass_sched_mark(s);

			if (sass_exchange(s, at) != SASS_LEGAL)
				continue;
			struct arena tmp = {0};

			if (n_legal++ % 16 == 0) /* all of them take minutes; nvdisasm sees others */
				check_exchange(&tmp, &r->kernel[n], s, at);
			arena_fini(&tmp);
			sass_sched_undo(s, mark);
		}
		arena_fini(&a);
	}
	assert_true(n_legal > 4000);
}

/* ---- as a disassembler sees it -------------------------------------------------------------------- */
enum { LINES = 1 << 14, LINE = 1 << 12 };
struct listing {
	char **line;
	uint32_t n;
};

/* An instruction's text without what is after it, reuse flags left out. */
static char *
instruction_of(struct arena *a, char *line)
{
	char *text = strstr(line, "*/"), *end = text ? strchr(text, ';') : NULL;

	if (strncmp(line, "        /*", 10) != 0 || !end)
		return NULL;
	*end = 0;
	text = str_dup(a, str_trim(str_of(text + 2)));
	for (char *reuse; (reuse = strstr(text, ".reuse")) != NULL;)
		memmove(reuse, reuse + 6, strlen(reuse + 6) + 1);
	return text;
}

/* Of all kernels, one after the other; n 0: the program cannot read it. */
static struct listing
disassemble(struct arena *a, const char *program, const char *folder, struct bytes cubin)
{
	struct listing l = {NEW_ARRAY(a, char *, LINES), 0};
	const char *path = arena_printf(a, "%s/x.cubin", folder);
	struct err e = {0};

	if (!os_write_file(os_real(), path, cubin, &e))
		fail_msg("%s", e.msg);
	FILE *f = popen(arena_printf(a, "'%s' -c '%s' 2>/dev/null", program, path), "r");
	char *line = arena_alloc(a, LINE);

	while (f && l.n < LINES && fgets(line, LINE, f)) {
		char *text = instruction_of(a, line);

		if (text)
			l.line[l.n++] = text;
	}
	if (f)
		(void)pclose(f);
	return l;
}

/* Neighbours exchanged here and there, each pair apart from the next. */
static void
exchange_pairs(struct sass_sched *s, uint32_t n)
{
	for (uint32_t at = 0; at + 1 < n; at++)
		at += sass_exchange(s, at) == SASS_LEGAL;
}

/* The moves; 0: of several kernels, or none that this program reads. */
static uint32_t
check_listing(struct arena *a, const char *program, const char *folder, const struct golden_kernel *g)
{
	struct sass_sched *s = sass_sched_make(a, &g->k);
	const struct sass_sched *one = s;
	struct sass_moves m;
	struct bytes out;
	struct err e = {0};

	exchange_pairs(s, g->k.n_instr);
	sass_moves_of(a, g->cubin, &one, 1, &m);
	if (!sass_moves_apply(a, g->cubin, &m, &out, &e))
		fail_msg("%s: %s", g->file, e.msg);
	const struct listing was = disassemble(a, program, folder, g->cubin);

	if (was.n != g->k.n_instr)
		return 0;
	const struct listing now = disassemble(a, program, folder, out);

	assert_int_equal(now.n, was.n);
	for (uint32_t at = 0; at < was.n; at++) {
		const char *want = was.line[sass_sched_who(s, at)];

		if (strcmp(now.line[at], want) != 0)
			fail_msg("%s: place %u: '%s', not '%s'", g->file, at, now.line[at], want);
	}
	return m.n_kernels ? m.kernel[0].n : 0;
}

static void
test_nvdisasm_sees_the_same_lines_exchanged(void **state)
{
	const char *program = getenv("KORCH_NVDISASM");
	struct rig *r = *state;
	char folder[OS_PATH_MAX];
	struct err e = {0};
	uint32_t n_moves = 0, n_cubins = 0;

	if (!program || strchr(program, ':')) {
		print_message("SKIP: KORCH_NVDISASM names no one disassembler\n");
		skip();
	}
	assert_true(os_temp_dir("perturb", folder, &e));
	for (uint32_t n = 0; n < r->n; n++) {
		struct arena a = {0};
		const uint32_t moves = check_listing(&a, program, folder, &r->kernel[n]);

		n_moves += moves;
		n_cubins += moves != 0;
		arena_fini(&a);
	}
	os_remove_tree(folder);
	print_message("%u exchanges in %u cubins\n", n_moves, n_cubins);
	assert_true(n_moves > 1000);
}

/* ---- bad text
 * ------------------------------------------------------------------------------------------------- */
static const struct bad {
	const char *text, *why;
} bads[] = {
    {"", "moves: they begin with 16 hex digits of the base's SHA-256 and a colon"},
    {"0123456789abcde:k.s1=2", "moves: they begin with 16 hex digits of the base's SHA-256 and a colon"},
    {"0123456789ABCDEF:k.s1=2", "moves: they begin with 16 hex digits of the base's SHA-256 and a colon"},
    {"0123456789abcdef", "moves: behind the digest '0123456789abcdef' a colon is to stand"},
    {"0123456789abcdef:k",
	"moves: a kernel's name, of letters, digits, _ and $, and a dot are to stand before ''"},
    {"0123456789abcdef:.m1>2",
	"moves: a kernel's name, of letters, digits, _ and $, and a dot are to stand before '.m1>2'"},
    {"0123456789abcdef:k.", "moves: kernel 'k': '' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.x1>2", "moves: kernel 'k': 'x1>2' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.s1=16", "moves: kernel 'k': 's1=16' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.y1=2", "moves: kernel 'k': 'y1=2' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.m1=2", "moves: kernel 'k': 'm1=2' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.m01>2", "moves: kernel 'k': 'm01>2' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.m4294967296>2",
	"moves: kernel 'k': 'm4294967296>2' is no move: m40>37, s41=0..15 or y12=0..1 is"},
    {"0123456789abcdef:k.m1>2;", "moves: kernel 'k': ';' follows a move: a dot, a comma or nothing is to"},
    {"0123456789abcdef:k.m1>2,k.m2>1", "moves: kernel 'k' stands there twice"},
};

static void
test_text_that_is_no_list_of_moves(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < COUNT_OF(bads); n++) {
		struct arena a = {0};
		struct sass_moves m;
		struct err e = {0};

		assert_false(sass_moves_read(&a, str_of(bads[n].text), &m, &e));
		assert_int_equal(e.code, ERR_FORMAT);
		assert_string_equal(e.msg, bads[n].why);
		arena_fini(&a);
	}
}

static void
test_text_over_its_limits(void **state)
{
	struct arena a = {0};
	struct strbuf sb;
	struct sass_moves m;
	struct err e = {0};

	(void)state;
	sb_init(&sb, &a);
	sb_addz(&sb, "0123456789abcdef:k");
	for (int n = 0; n <= SASS_MOVES_MAX; n++)
		sb_addz(&sb, ".s1=2");
	assert_false(sass_moves_read(&a, sb_str(&sb), &m, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "moves: kernel 'k': more than 65536");
	sb_init(&sb, &a);
	sb_addz(&sb, "0123456789abcdef:k.s1=2");
	for (int n = 0; n < SASS_MOVES_KERNELS; n++)
		sb_addf(&sb, ",k%d.s1=2", n);
	assert_false(sass_moves_read(&a, sb_str(&sb), &m, &e));
	assert_string_equal(e.msg, "moves: of more than 64 kernels");
	sb_init(&sb, &a);
	while (sb.n <= SASS_MOVES_TEXT)
		sb_addz(&sb, "0123456789abcdef0123456789abcdef");
	assert_false(sass_moves_read(&a, sb_str(&sb), &m, &e));
	assert_string_equal(e.msg, "moves: more than 1048576 bytes");
	arena_fini(&a);
}

/* Read, but not of this cubin, or not legal there. */
static const struct bad refused[] = {
    {"0123456789abcdef:k_p0.m1>2", "moves: they are of the cubin 0123456789abcdef..., this one is DIGEST..."},
    {"DIGEST:k_p9.m1>2", "cubin: it holds no kernel 'k_p9'"},
    {"DIGEST:k_p0.m1>100000", "moves: kernel 'k_p0': m1>100000 is out of its 904 places"},
    {"DIGEST:k_p0.s904=1", "moves: kernel 'k_p0': s904=1 is out of its 904 places"},
    {"DIGEST:k_p0.m903>900",
	"moves: kernel 'k_p0': m903>900 is not legal: L1: an instruction stays in its block and passes no "
	"wall: "
	"branch, barrier, synchronisation, unknown opcode"},
    {"DIGEST:k_p0.s400=0",
	"moves: kernel 'k_p0': place 400 is not legal in the end: L11: a stall count and yield bit that "
	"ptxas does "
	"not write together, or not for that opcode"},
};

static const struct golden_kernel *
find(const struct rig *r, const char *file)
{
	for (uint32_t n = 0; n < r->n; n++)
		if (strcmp(r->kernel[n].file, file) == 0)
			return &r->kernel[n];
	fail_msg("no %s", file);
	return NULL;
}

static const char *
with_digest(struct arena *a, const char *text, const char *digest)
{
	const char *at = strstr(text, "DIGEST");

	return at ? arena_printf(a, "%.*s%s%s", (int)(at - text), text, digest, at + 6) : text;
}

static void
test_moves_that_are_refused(void **state)
{
	const struct golden_kernel *g = find(*state, "gemm_f16_sm80.cubin");
	char digest[SASS_DIGEST + 1];

	sass_moves_digest(g->cubin, digest);
	for (uint32_t n = 0; n < COUNT_OF(refused); n++) {
		struct arena a = {0};
		struct sass_moves m;
		struct bytes out;
		struct err e = {0};

		assert_true(sass_moves_read(&a, str_of(with_digest(&a, refused[n].text, digest)), &m, &e));
		assert_false(sass_moves_apply(&a, g->cubin, &m, &out, &e));
		assert_string_equal(e.msg, with_digest(&a, refused[n].why, digest));
		arena_fini(&a);
	}
}

static void
test_no_moves_give_the_base(void **state)
{
	const struct golden_kernel *g = find(*state, "gemm_f16_sm80.cubin");
	struct arena a = {0};
	struct sass_moves m = {.n_kernels = 0};
	struct bytes out;
	struct err e = {0};

	sass_moves_digest(g->cubin, m.digest);
	assert_true(sass_moves_apply(&a, g->cubin, &m, &out, &e));
	assert_memory_equal(out.p, g->cubin.p, out.n);
	assert_true(str_is(sass_moves_print(&a, &m), arena_printf(&a, "%s:", m.digest)));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_undo_gives_the_base),
	    cmocka_unit_test(test_a_schedule_as_text_gives_its_bytes),
	    cmocka_unit_test(test_there_and_back_is_the_base),
	    cmocka_unit_test(test_an_exchange_changes_its_two_lines),
	    cmocka_unit_test(test_nvdisasm_sees_the_same_lines_exchanged),
	    cmocka_unit_test(test_text_that_is_no_list_of_moves),
	    cmocka_unit_test(test_text_over_its_limits),
	    cmocka_unit_test(test_moves_that_are_refused),
	    cmocka_unit_test(test_no_moves_give_the_base),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
