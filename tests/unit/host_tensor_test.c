/* tests/unit/host_tensor_test.c: tensors from files: what is right comes in whole, what is wrong
 * is refused before memory is taken; comparing two. */
#include "../../client/host_tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct bytes
npy(struct arena *a, int version, const char *header, const void *data, size_t n)
{
	struct strbuf sb;
	size_t len = strlen(header);

	sb_init(&sb, a);
	sb_add(&sb, (struct str){"\x93NUMPY", 6});
	sb_addc(&sb, (char)version);
	sb_addc(&sb, 0);
	sb_addc(&sb, (char)(len & 255));
	sb_addc(&sb, (char)(len >> 8));
	if (version > 1) {
		sb_addc(&sb, 0);
		sb_addc(&sb, 0);
	}
	sb_addz(&sb, header);
	sb_add(&sb, (struct str){data, n});
	return (struct bytes){(const uint8_t *)sb.p, sb.n};
}

static void
npy_orders_and_types(void **state)
{
	static const uint8_t big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
	static const int rows[] = {1, 3, 5, 2, 4, 6};
	struct arena a = {0};
	struct host_tensor t;
	struct err e = {0};

	(void)state;
	assert_true(npy_parse(
	    &a, npy(&a, 1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", big, 12), &t, &e));
	assert_int_equal(t.type, DT_i16);
	assert_int_equal(t.shape.rank, 2);
	/* columns first: 1 3 5 / 2 4 6 */
	for (int64_t i = 0; i < 6; i++)
		assert_int_equal(elem_get_int(DT_i16, t.data, i), rows[i]);
	assert_true(npy_parse(
	    &a, npy(&a, 2, "{'shape': (), \"descr\": '|b1', 'fortran_order': False}", "\1", 1), &t, &e));
	assert_int_equal(t.shape.rank, 0);
	assert_int_equal(t.type, DT_bool);
	assert_true(npy_parse(
	    &a, npy(&a, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", "", 0), &t, &e));
	assert_int_equal(t.n_bytes, 0);
	arena_fini(&a);
}

static void
npy_refuses(void **state)
{
	static const char *const headers[] = {
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }",
	    "{'descr': '<f4', 'fortran_order': False}",
	    "{'fortran_order': False, 'shape': (2,)}",
	    "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
	    "",
	};
	struct arena a = {0};
	struct host_tensor t;
	float two[2] = {1, 2};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(headers); i++) {
		struct err e = {0};

		assert_false(npy_parse(&a, npy(&a, 1, headers[i], two, sizeof(two)), &t, &e));
		assert_true(e.code == ERR_FORMAT || e.code == ERR_LIMIT);
	}
	struct bytes good =
	    npy(&a, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two, sizeof(two));

	for (size_t n = 0; n < good.n; n++) {
		struct err e = {0};

		assert_false(npy_parse(&a, (struct bytes){good.p, n}, &t, &e));
	}
	arena_fini(&a);
}

static void
npy_round_trip(void **state)
{
	char path[] = "/tmp/korch-npy-XXXXXX";
	int fd = mkstemp(path);
	struct arena a = {0};
	struct host_tensor t, u;
	struct rng r = {3};
	struct err e = {0};

	(void)state;
	assert_true(fd >= 0);
	(void)close(fd);
	for (int type = 0; type < DT_COUNT; type++) {
		struct shape s = shape_make(3, (const int64_t[]){2, 1, 5});

		if (type == DT_bf16)
			continue;
		assert_true(host_tensor_make(&a, (enum dtype)type, &s, &t, &e));
		host_tensor_random(&t, &r);
		assert_true(npy_write(path, &t, &e));
		if (!npy_read(&a, path, &u, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(u.type, type);
		assert_true(shape_eq(&u.shape, &s));
		assert_memory_equal(t.data, u.data, t.n_bytes);
	}
	(void)unlink(path);
	arena_fini(&a);
}

#define PB(...)                                                                                              \
	(struct bytes)                                                                                       \
	{                                                                                                    \
		(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                       \
	}

static void
pb_forms(void **state)
{
	struct arena a = {0};
	struct bytes good;
	struct host_tensor t;
	struct err e = {0};

	(void)state;
	/* dims 2 unpacked, f32, raw */
	good = PB(8, 2, 16, 1, 74, 8, 0, 0, 128, 63, 0, 0, 0, 64);
	assert_true(pb_parse(&a, good, &t, &e));
	assert_true(elem_get(DT_f32, t.data, 0) == 1 && elem_get(DT_f32, t.data, 1) == 2);
	/* dims packed [2], i8 in int32_data, packed, -1 as ten bytes */
	good = PB(10, 1, 2, 16, 3, 42, 11, 5, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1);
	assert_true(pb_parse(&a, good, &t, &e));
	assert_int_equal(elem_get_int(DT_i8, t.data, 1), -1);
	/* scalar f32 in float_data, unpacked */
	good = PB(16, 1, 37, 0, 0, 128, 63);
	assert_true(pb_parse(&a, good, &t, &e));
	assert_int_equal(t.shape.rank, 0);
	assert_true(elem_get(DT_f32, t.data, 0) == 1);
	/* f16 bits in int32_data */
	good = PB(8, 1, 16, 10, 40, 128, 120);
	assert_true(pb_parse(&a, good, &t, &e));
	assert_true(elem_get(DT_f16, t.data, 0) == 1);
	/* empty: a dimension of 0 and no data; name kept */
	good = PB(8, 0, 16, 7, 66, 1, 'x');
	assert_true(pb_parse(&a, good, &t, &e));
	assert_int_equal(t.n_bytes, 0);
	assert_true(str_is(t.name, "x"));
	arena_fini(&a);
}

static void
pb_refuses(void **state)
{
	const struct bytes bad[] = {
	    PB(8, 2, 16, 1, 74, 4, 0, 0, 128, 63),                      /* too few bytes */
	    PB(8, 2, 16, 1, 74, 8, 0, 0, 128, 63),                      /* cut short */
	    PB(8, 255, 255, 255, 255, 255, 255, 255, 127, 16, 1),       /* a huge dimension */
	    PB(8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1), /* an endless number */
	    PB(8, 1, 16, 8, 50, 1, 'x'),                                /* a string tensor */
	    PB(8, 1, 16, 1, 112, 1),                                    /* external */
	    PB(8, 1, 16, 99, 74, 1, 0),                                 /* no such type */
	    PB(11),                                                     /* a group */
	    PB(0, 1),                                                   /* field 0 */
	};
	struct arena a = {0};
	struct host_tensor t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct err e = {0};

		if (pb_parse(&a, bad[i], &t, &e))
			fail_msg("case %zu was taken", i);
		assert_true(e.code == ERR_FORMAT || e.code == ERR_LIMIT);
	}
	arena_fini(&a);
}

static struct host_tensor
floats(struct arena *a, int64_t n, const float *v)
{
	struct shape s = shape_make(1, &n);
	struct host_tensor t;
	struct err e = {0};

	assert_true(host_tensor_make(a, DT_f32, &s, &t, &e));
	memcpy(t.data, v, t.n_bytes);
	return t;
}

static void
comparing(void **state)
{
	struct arena a = {0};
	struct tolerance el = {1e-3, 1e-6, 0}, rel = {0, 0, 1e-3};
	struct host_tensor want = floats(&a, 4, (float[]){1000, 1, NAN, INFINITY});
	struct host_tensor near = floats(&a, 4, (float[]){1000.5f, 1.0005f, NAN, INFINITY});
	struct host_tensor far = floats(&a, 4, (float[]){1000.5f, 1.01f, NAN, INFINITY});
	struct host_tensor nan = floats(&a, 4, (float[]){1000, NAN, NAN, INFINITY});
	struct host_tensor inf = floats(&a, 4, (float[]){1000, 1, NAN, -INFINITY});
	struct host_tensor short_one = floats(&a, 3, (float[]){1000, 1, NAN});
	struct difference d;
	struct err e = {0};

	(void)state;
	assert_true(host_compare(&near, &want, &el, &d, &e));
	assert_false(host_compare(&far, &want, &el, &d, &e));
	assert_int_equal(d.at, 1);
	assert_int_equal(d.n_wrong, 1);
	assert_int_equal(e.code, ERR_WRONG);
	/* by the largest magnitude, 0.01 beside 1000 is nothing */
	assert_true(host_compare(&far, &want, &rel, &d, &e));
	assert_false(host_compare(&nan, &want, &rel, &d, &e));
	assert_false(host_compare(&inf, &want, &el, &d, &e));
	e = (struct err){0};
	assert_false(host_compare(&short_one, &want, &el, &d, &e));
	assert_string_equal(e.msg, "has shape [3], and [4] is wanted");
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(npy_orders_and_types),
	    cmocka_unit_test(npy_refuses),
	    cmocka_unit_test(npy_round_trip),
	    cmocka_unit_test(pb_forms),
	    cmocka_unit_test(pb_refuses),
	    cmocka_unit_test(comparing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
