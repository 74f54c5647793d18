/* Messages survive the way through bytes; broken bytes are refused; limits hold. */
#include "../../proto/msg.h"
#include "../../proto/pipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void
fill_submit(struct msg *m, struct m_kv *shapes, struct m_file *files)
{
	*m = (struct msg){.type = MSG_submit, .id = 7, .session = ~(uint64_t)0};
	m->submit.name = STR("candy \"x\"\n");
	m->submit.request = (struct bytes){(const uint8_t *)"0123456789abcdef", 16};
	m->submit.options.device = STR("cpu");
	m->submit.options.budget_ns = -5;
	m->submit.options.tolerance = 1e-3;
	m->submit.options.strict = true;
	shapes[0] = (struct m_kv){.name = STR("in"), .value = STR("1x3")};
	shapes[1] = (struct m_kv){.name = STR("b"), .value = STR("")};
	m->submit.options.shapes = shapes;
	m->submit.options.n_shapes = 2;
	files[0] = (struct m_file){.name = STR("m"), .digest = hash_bytes("x", 1), .bytes = 1ull << 40};
	m->submit.files = files;
	m->submit.n_files = 1;
}

static void
round_trip(void **state)
{
	struct arena a = {0};
	struct m_kv shapes[2];
	struct m_file files[1];
	struct msg m, back, own;
	struct bytes b, again;
	struct strbuf x, y;
	struct err e = {0};

	(void)state;
	fill_submit(&m, shapes, files);
	assert_true(msg_pack(&a, &m, MSG_MAX_BYTES, &b, &e));
	assert_true(msg_unpack(&a, b, &back, &e));
	assert_int_equal(back.type, MSG_submit);
	assert_true(back.id == 7 && back.session == ~(uint64_t)0);
	assert_true(back.submit.options.budget_ns == -5);
	assert_true(back.submit.files[0].bytes == 1ull << 40);
	assert_true(hash_eq(&back.submit.files[0].digest, &files[0].digest));
	msg_dup(&a, &back, &own);
	assert_true(msg_pack(&a, &own, MSG_MAX_BYTES, &again, &e));
	assert_true(again.n == b.n && memcmp(again.p, b.p, b.n) == 0);
	sb_init(&x, &a);
	sb_init(&y, &a);
	msg_json(&x, &m);
	msg_json(&y, &own);
	assert_string_equal(x.p, y.p);
	assert_non_null(strstr(x.p, "\"name\":\"candy \\\"x\\\"\\n\""));
	arena_fini(&a);
}

/* Every prefix and every changed byte is read without harm; no prefix is a whole message. */
static void
broken_bytes(void **state)
{
	struct arena a = {0};
	struct m_kv shapes[2];
	struct m_file files[1];
	struct msg m, back;
	struct bytes b;
	struct err e = {0};

	(void)state;
	fill_submit(&m, shapes, files);
	assert_true(msg_pack(&a, &m, MSG_MAX_BYTES, &b, &e));
	for (size_t n = 0; n < b.n; n++)
		assert_false(msg_unpack(&a, (struct bytes){b.p, n}, &back, &e));
	for (size_t i = 0; i < b.n; i++)
		for (unsigned v = 0; v < 256; v++) {
			struct arena tmp = {0};
			uint8_t *p = arena_dup(&tmp, b.p, b.n);

			p[i] = (uint8_t)v;
			if (msg_unpack(&tmp, (struct bytes){p, b.n}, &back, &e))
				assert_true(back.type != MSG_NONE);
			arena_fini(&tmp);
		}
	arena_fini(&a);
}

static void
unknown_things(void **state)
{
	/* [30, 1, 2, {99: [1, {2: 3}], 2: "n"}] and a fifth element, then message 9999 */
	static const uint8_t later[] = {0x95, 30, 1, 2, 0x82, 99, 0x92, 1, 0x81, 2, 3, 2, 0xa1, 'n', 0xc0};
	static const uint8_t unknown[] = {0x94, 0xcd, 0x27, 0x0f, 5, 6, 0x80};
	struct arena a = {0};
	struct msg m;
	struct err e = {0};

	(void)state;
	assert_true(msg_unpack(&a, (struct bytes){later, sizeof(later)}, &m, &e));
	assert_true(str_is(m.submit.name, "n"));
	assert_string_equal(m.submit.options.fusion.p, "");
	assert_false(msg_unpack(&a, (struct bytes){unknown, sizeof(unknown)}, &m, &e));
	assert_int_equal(e.code, ERR_PROTO);
	assert_true(m.id == 5 && m.session == 6);
	arena_fini(&a);
}

static void
limits(void **state)
{
	/* claims 2^32-1 list entries and 2^31 bytes of text */
	static const uint8_t many[] = {0x94, 30, 1, 2, 0x81, 4, 0xdd, 255, 255, 255, 255};
	static const uint8_t large[] = {0x94, 30, 1, 2, 0x81, 2, 0xdb, 0x80, 0, 0, 0};
	struct arena a = {0};
	struct msg m = {.type = MSG_error};
	struct bytes b;
	struct err e = {0};
	uint8_t deep[400];

	(void)state;
	assert_false(msg_unpack(&a, (struct bytes){many, sizeof(many)}, &m, &e));
	assert_string_equal(e.msg, "a broken message: submit.files: too many entries");
	assert_false(msg_unpack(&a, (struct bytes){large, sizeof(large)}, &m, &e));
	memset(deep, 0x91, sizeof(deep));
	memcpy(deep, "\x94\x1e\x01\x02\x81\x63", 6);
	assert_false(msg_unpack(&a, (struct bytes){deep, sizeof(deep)}, &m, &e));
	assert_string_equal(e.msg, "a broken message: nested too deeply");
	m = (struct msg){.type = MSG_error};
	m.error.text = (struct str){arena_alloc(&a, 600), 600};
	assert_false(msg_pack(&a, &m, MSG_MAX_BYTES, &b, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	m.error.text.n = 100;
	assert_false(msg_pack(&a, &m, 50, &b, &e));
	arena_fini(&a);
}

static void
over_a_pipe(void **state)
{
	struct arena a = {0};
	struct m_cost costs[300];
	struct msg m = {.type = MSG_cost_have}, back;
	struct err e = {0};
	struct pipe to, from;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pipe_init(&to, -1, fd[1]);
	pipe_init(&from, fd[0], -1);
	memset(costs, 0, sizeof(costs));
	for (int i = 0; i < 300; i++)
		costs[i].median_ns = i + 1;
	m.cost_have.costs = costs;
	m.cost_have.n_costs = 300;
	assert_int_equal(pipe_recv(&from, &a, 0, &back, &e), PIPE_TIMEOUT);
	assert_true(pipe_send(&to, &m, &e));
	m.cost_have.n_costs = 1;
	assert_true(pipe_send(&to, &m, &e));
	assert_int_equal(pipe_recv(&from, &a, -1, &back, &e), PIPE_MSG);
	assert_int_equal(back.cost_have.n_costs, 300);
	assert_true(back.cost_have.costs[299].median_ns == 300);
	assert_int_equal(pipe_recv(&from, &a, 0, &back, &e), PIPE_MSG);
	assert_int_equal(back.cost_have.n_costs, 1);
	pipe_fini(&to);
	assert_int_equal(pipe_recv(&from, &a, -1, &back, &e), PIPE_END);
	pipe_fini(&from);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trip),
	    cmocka_unit_test(broken_bytes),
	    cmocka_unit_test(unknown_things),
	    cmocka_unit_test(limits),
	    cmocka_unit_test(over_a_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
