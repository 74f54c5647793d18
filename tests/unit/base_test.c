/* The base library: arenas, strings, errors, checked numbers, hashes, bit sets, random numbers. */
#include "../../kernels/base/base.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void
arena_memory_is_zeroed_aligned_and_reset(void **state)
{
	struct arena a = {0};
	struct arena_mark m;
	char *first = arena_alloc(&a, 3), *p;

	(void)state;
	memset(first, 'x', 3);
	m = arena_mark(&a);
	for (size_t n = 1; n < 100000; n = n * 3 + 1) {
		p = arena_alloc(&a, n);
		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 1, n);
	}
	arena_reset(&a, m);
	assert_memory_equal(first, "xxx", 3);
	p = arena_alloc(&a, 64); /* used before: must be zero again */
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(p[i], 0);
	arena_fini(&a);
	assert_null(a.top);
	assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
	arena_fini(&a);
}

static void
arena_takes_what_another_holds(void **state)
{
	struct arena a = {0}, b = {0};
	struct arena_mark m;
	char *mine = arena_printf(&a, "mine"), *its;
	size_t total;

	(void)state;
	arena_join(&a, &b); /* nothing */
	m = arena_mark(&a);
	for (int i = 0; i < 1000; i++)
		its = arena_printf(&b, "its %d", i);
	total = a.total_bytes + b.total_bytes;
	arena_join(&a, &b);
	assert_null(b.top);
	assert_int_equal(a.total_bytes, total);
	memset(arena_alloc(&a, 100), 'x', 100);
	assert_string_equal(mine, "mine");
	assert_string_equal(its, "its 999");
	arena_reset(&a, m); /* what came by joining goes with what came after the mark */
	assert_string_equal(mine, "mine");
	assert_string_equal(arena_printf(&a, "again"), "again");
	arena_fini(&a);
	arena_fini(&b);
}

static void
arrays_grow_and_keep_their_content(void **state)
{
	struct arena a = {0};
	uint32_t n = 0, cap = 0, *v = NULL;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		GROW(&a, v, n, cap);
		v[n++] = i * 7;
	}
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(v[i], i * 7);
	arena_fini(&a);
}

static void
strings_are_cut_trimmed_and_compared(void **state)
{
	struct str rest = STR("a,,b"), part;

	(void)state;
	part = str_cut(&rest, ',');
	assert_true(str_is(part, "a"));
	part = str_cut(&rest, ',');
	assert_int_equal(part.n, 0);
	part = str_cut(&rest, ',');
	assert_true(str_is(part, "b"));
	assert_int_equal(rest.n, 0);
	part = str_cut(&rest, ',');
	assert_int_equal(part.n, 0);
	assert_true(str_is(str_trim(STR(" \t x y\r\n")), "x y"));
	assert_true(str_starts(STR("abc"), "ab"));
	assert_false(str_starts(STR("a"), "ab"));
	assert_true(str_cmp(STR("a"), STR("ab")) < 0);
	assert_true(str_cmp(STR("b"), STR("ab")) > 0);
	assert_true(str_eq(str_of(NULL), STR("")));
}

static void
numbers_are_read_whole_or_not_at_all(void **state)
{
	int64_t i = 5;
	double f;

	(void)state;
	assert_true(str_to_i64(STR("-9223372036854775808"), &i) && i == INT64_MIN);
	assert_false(str_to_i64(STR("9223372036854775808"), &i));
	assert_false(str_to_i64(STR(""), &i));
	assert_false(str_to_i64(STR(" 1"), &i));
	assert_false(str_to_i64(STR("1x"), &i));
	assert_false(str_to_i64(STR("0x1"), &i));
	assert_false(str_to_i64((struct str){"1\0", 2}, &i));
	assert_true(str_to_f64(STR("0x1.8p+1"), &f) && f == 3);
	assert_true(str_to_f64(STR("-inf"), &f) && f < 0);
	assert_true(str_to_f64(STR("nan"), &f) && f != f);
	assert_false(str_to_f64(STR("1,5"), &f));
}

static void
text_is_built(void **state)
{
	struct arena a = {0};
	struct strbuf sb;

	(void)state;
	sb_init(&sb, &a);
	sb_addi(&sb, INT64_MIN);
	sb_addc(&sb, ' ');
	sb_addi(&sb, 0);
	sb_addf(&sb, " %s", "end");
	assert_string_equal(sb.p, "-9223372036854775808 0 end");
	for (int i = 0; i < 5000; i++)
		sb_addz(&sb, "ab");
	assert_int_equal(sb.n, 26 + 10000);
	assert_int_equal(strlen(sb.p), sb.n);
	arena_fini(&a);
}

static void
numbers_are_printed_as_printf_prints_them(void **state)
{
	static const double special[] = {
	    0.0, -0.0, 1, -1.5, 0x1p-1022, 0x1p-1074, -0x1.8p-1030, 0x1.fffffffffffffp+1023, INFINITY};
	struct rng r = {5};
	struct arena a = {0};

	(void)state;
	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t bits = rng_next(&r) & ~(uint64_t)0 << rng_below(&r, 60);
		struct strbuf sb;
		char want[64];
		double v;

		memcpy(&v, &bits, sizeof(v));
		if (i < sizeof(special) / sizeof(*special))
			v = special[i];
		if (v != v)
			continue;
		sb_init(&sb, &a);
		sb_adda(&sb, v);
		(void)snprintf(want, sizeof(want), "%a", v);
		assert_string_equal(sb.p, want);
	}
	arena_fini(&a);
}

static void
errors_gain_context_and_never_overflow(void **state)
{
	struct err e = {0};
	char big[2000];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_false(err_set(&e, ERR_MODEL, "axis %d", 3));
	assert_false(err_in(&e, "node '%s'", "n"));
	assert_string_equal(e.msg, "node 'n': axis 3");
	assert_int_equal(e.code, ERR_MODEL);
	assert_false(err_in(&e, "%s", big));
	assert_true(strlen(e.msg) < sizeof(e.msg));
	assert_false(err_set(&e, ERR_IO, "%s", big));
	assert_true(strlen(e.msg) < sizeof(e.msg));
}

static void
error_numbers_are_unique_and_known(void **state)
{
	(void)state;
	for (int i = 0; i < ERR_COUNT; i++) {
		for (int k = 0; k < i; k++)
			assert_int_not_equal(err_wire((enum err_code)i), err_wire((enum err_code)k));
		assert_int_equal(err_of_wire((uint64_t)err_wire((enum err_code)i)), i);
		assert_true(err_exit_status((enum err_code)i) != 0 || i == ERR_NONE);
		assert_non_null(err_text((enum err_code)i));
	}
	assert_int_equal(err_of_wire(987654), ERR_FAILED);
	assert_int_equal(
	    err_of_wire(((uint64_t)1 << 32) + 3), ERR_FAILED); /* a number of a peer, of 64 bits */
}

/* Runs `body` in a child; does it abort? */
static bool
aborts(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stderr);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
mul_overflows(void)
{
	(void)ck_mul(SIZE_MAX / 2, 3);
}
static void
add_overflows(void)
{
	(void)ck_add(SIZE_MAX, 1);
}
static void
narrow_overflows(void)
{
	(void)ck_u32((size_t)1 << 32);
}
static void
negative_size(void)
{
	(void)ck_size(-1);
}
static void
fine(void)
{
	(void)ck_mul(SIZE_MAX / 2, 2);
}

static void
sizes_that_do_not_fit_abort(void **state)
{
	int64_t n;

	(void)state;
	assert_true(aborts(mul_overflows));
	assert_true(aborts(add_overflows));
	assert_true(aborts(narrow_overflows));
	assert_true(aborts(negative_size));
	assert_false(aborts(fine));
	assert_false(try_mul_i64(INT64_MAX, 2, &n));
	assert_false(try_add_i64(INT64_MIN, -1, &n));
	assert_true(try_mul_i64(-3, 4, &n) && n == -12);
}

static void
hashes_are_sha256(void **state)
{
	struct hash h = hash_bytes("abc", 3), back;
	char hex[65];

	(void)state;
	hash_hex(&h, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_true(hash_of_hex(str_of(hex), &back));
	assert_true(hash_eq(&h, &back));
	assert_false(hash_of_hex(STR("ba78"), &back));
	hex[3] = 'g';
	assert_false(hash_of_hex(str_of(hex), &back));
}

/* The digest of the digests of 300 texts, one of each length, as Python's hashlib finds it. */
static void
hashes_of_any_length(void **state)
{
	static struct hash all[300];
	uint8_t text[300];
	struct hash h;
	char hex[65];

	(void)state;
	for (uint32_t n = 0; n < 300; n++) {
		for (uint32_t i = 0; i < n; i++)
			text[i] = (uint8_t)(i * 7 + n);
		all[n] = hash_bytes(text, n);
	}
	h = hash_bytes(all, sizeof(all));
	hash_hex(&h, hex);
	assert_string_equal(hex, "d5238871a46ac4a1a75ac3fb19d645b0b3b9e5f35f5f720e2b240d605c6b694e");
}

static void
bit_sets(void **state)
{
	struct arena a = {0};
	struct bitset x = bitset_make(&a, 130), y = bitset_make(&a, 130);
	uint32_t n = 0, at[3];

	(void)state;
	assert_int_equal(bitset_next(&x, 0), 130);
	bit_set(&x, 0);
	bit_set(&x, 64);
	bit_set(&x, 129);
	BITSET_EACH(i, &x)
	at[n++] = i;
	assert_int_equal(n, 3);
	assert_int_equal(at[0], 0);
	assert_int_equal(at[1], 64);
	assert_int_equal(at[2], 129);
	assert_int_equal(bitset_count(&x), 3);
	assert_false(bitset_meets(&x, &y));
	assert_true(bitset_within(&y, &x));
	bitset_or(&y, &x);
	assert_true(bitset_equal(&x, &y));
	bit_clear(&x, 64);
	assert_true(bitset_within(&x, &y));
	assert_false(bitset_within(&y, &x));
	bitset_andnot(&y, &x);
	assert_int_equal(bitset_count(&y), 1);
	assert_true(bit_get(&y, 64));
	arena_fini(&a);
}

static void
random_numbers_are_the_same_everywhere(void **state)
{
	struct rng r = {1}, s = {1};
	double sum = 0, squares = 0, bell_sum = 0, bell_squares = 0;

	(void)state;
	assert_true(rng_next(&r) == 0x910a2dec89025cc1u);
	for (int i = 0; i < 100; i++) {
		assert_true(rng_below(&s, 7) < 7);
		assert_int_equal(rng_below(&s, 1), 0);
	}
	for (int i = 0; i < 20000; i++) {
		double v = rng_normal(&s), u = rng_unit(&s);

		assert_true(u >= 0 && u < 1);
		sum += v;
		squares += v * v;
	}
	assert_true(sum / 20000 < 0.05 && sum / 20000 > -0.05);
	assert_true(squares / 20000 < 1.05 && squares / 20000 > 0.95);
	for (int i = 0; i < 20000; i++) {
		double v = rng_bell(&s);

		assert_true(v >= -3.4642 && v <= 3.4642);
		bell_sum += v;
		bell_squares += v * v;
	}
	assert_true(bell_sum / 20000 < 0.05 && bell_sum / 20000 > -0.05);
	assert_true(bell_squares / 20000 < 1.05 && bell_squares / 20000 > 0.95);
}

static void
files_are_written_whole(void **state)
{
	struct arena a = {0};
	struct err e = {0};
	struct bytes b;
	char dir[] = "/tmp/korch-base-XXXXXX";
	char *path;

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = arena_printf(&a, "%s/deep/er", dir);
	assert_true(os_make_dirs(path, &e));
	path = arena_printf(&a, "%s/deep/er/file", dir);
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)"hello", 5}, &e));
	assert_true(os_read_file(os_real(), &a, path, 5, &b, &e));
	assert_int_equal(b.n, 5);
	assert_memory_equal(b.p, "hello", 5);
	assert_false(os_read_file(os_real(), &a, path, 4, &b, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	e = (struct err){0};
	assert_false(os_read_file(os_real(), &a, arena_printf(&a, "%s/none", dir), 4, &b, &e));
	assert_int_equal(e.code, ERR_IO);
	assert_false(
	    os_write_file(os_real(), arena_printf(&a, "%s/none/file", dir), (struct bytes){NULL, 0}, &e));
	(void)!system(arena_printf(&a, "rm -rf %s", dir));
	arena_fini(&a);
}

static void
disjoint_sets(void **state)
{
	uint32_t up[8];

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		up[i] = i;
	sets_join(up, 7, 5);
	sets_join(up, 2, 3);
	sets_join(up, 3, 7);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(sets_root(up, i), i == 3 || i == 5 || i == 7 ? 2 : i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(disjoint_sets),
	    cmocka_unit_test(arena_memory_is_zeroed_aligned_and_reset),
	    cmocka_unit_test(arena_takes_what_another_holds),
	    cmocka_unit_test(arrays_grow_and_keep_their_content),
	    cmocka_unit_test(strings_are_cut_trimmed_and_compared),
	    cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
	    cmocka_unit_test(text_is_built),
	    cmocka_unit_test(numbers_are_printed_as_printf_prints_them),
	    cmocka_unit_test(errors_gain_context_and_never_overflow),
	    cmocka_unit_test(error_numbers_are_unique_and_known),
	    cmocka_unit_test(sizes_that_do_not_fit_abort),
	    cmocka_unit_test(hashes_are_sha256),
	    cmocka_unit_test(hashes_of_any_length),
	    cmocka_unit_test(bit_sets),
	    cmocka_unit_test(random_numbers_are_the_same_everywhere),
	    cmocka_unit_test(files_are_written_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
