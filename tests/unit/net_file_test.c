/* A network's file reads back as it was written; what is cut, changed, or made by someone who can compute a
 * digest is refused with what is wrong. */
#include "../../kernels/predict/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct net_shape tiny = {
    .leaf = 3, .whole = 2, .width = 4, .heads = 2, .layers = 1, .inner = 4, .hidden = 3};
enum { DIGEST = 32, VERSION_AT = 8, SHAPE_AT = 12, NUMBERS_AT = 40 };

static struct bytes
written(struct arena *a)
{
	struct net n = net_new(a, &tiny, 1);
	struct strbuf sb;

	sb_init(&sb, a);
	net_write(&n, &sb);
	return (struct bytes){(uint8_t *)sb.p, sb.n};
}

static void
what_was_written_is_read(void **state)
{
	struct arena a = {0};
	struct bytes file = written(&a);
	struct net n;
	struct strbuf again;
	struct err e = {0};

	(void)state;
	assert_true(net_read(&a, file, &n, &e));
	sb_init(&again, &a);
	net_write(&n, &again);
	assert_int_equal(again.n, file.n);
	assert_memory_equal(again.p, file.p, file.n);
	arena_fini(&a);
}

static void
no_cut_or_changed_file_is_read(void **state)
{
	struct arena a = {0};
	struct bytes file = written(&a);
	struct net n;

	(void)state;
	for (size_t cut = 0; cut < file.n; cut++) {
		struct err e = {0};

		assert_false(net_read(&a, (struct bytes){file.p, cut}, &n, &e));
		assert_int_equal(e.code, ERR_FORMAT);
	}
	for (size_t at = 0; at < file.n; at++) {
		struct err e = {0};
		uint8_t *bad = arena_dup(&a, file.p, file.n);

		bad[at] ^= 0x41;
		assert_false(net_read(&a, (struct bytes){bad, file.n}, &n, &e));
		assert_true(e.msg[0] != 0);
	}
	arena_fini(&a);
}

/* With a digest that fits. */
static enum err_code
code_with(struct arena *a, size_t at, uint32_t value, const char *says)
{
	struct bytes file = written(a);
	uint8_t *bad = arena_dup(a, file.p, file.n);
	struct hash hash;
	struct err e = {0};
	struct net n;

	for (int i = 0; i < 4; i++)
		bad[at + (size_t)i] = (uint8_t)(value >> (8 * i));
	hash = hash_bytes(bad, file.n - DIGEST);
	memcpy(bad + file.n - DIGEST, hash.b, DIGEST);
	assert_false(net_read(a, (struct bytes){bad, file.n}, &n, &e));
	if (!strstr(e.msg, says))
		fail_msg("'%s' does not say '%s'", e.msg, says);
	return e.code;
}

static void
a_digest_that_fits_is_not_enough(void **state)
{
	struct arena a = {0};
	uint32_t nan_bits = 0x7fc00000, infinite = 0x7f800000;

	(void)state;
	assert_int_equal(code_with(&a, VERSION_AT, 2, "version 2"), ERR_NEWER);
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(code_with(&a, SHAPE_AT + 4 * i, 0, "extent"), ERR_FORMAT);
		assert_int_equal(code_with(&a, SHAPE_AT + 4 * i, UINT32_MAX, "extent"), ERR_FORMAT);
	}
	assert_int_equal(code_with(&a, SHAPE_AT, 4096, "its shape needs"), ERR_FORMAT);
	assert_int_equal(code_with(&a, SHAPE_AT + 12, 3, "heads"), ERR_FORMAT);
	assert_int_equal(code_with(&a, SHAPE_AT + 16, 17, "layers"), ERR_FORMAT);
	assert_int_equal(code_with(&a, NUMBERS_AT, nan_bits, "not finite"), ERR_FORMAT);
	assert_int_equal(code_with(&a, NUMBERS_AT + 400, infinite, "not finite"), ERR_FORMAT);
	assert_int_equal(code_with(&a, NUMBERS_AT + 8 * 5 + 4, 0, "no scale"), ERR_FORMAT);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_written_is_read),
	    cmocka_unit_test(no_cut_or_changed_file_is_read),
	    cmocka_unit_test(a_digest_that_fits_is_not_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
