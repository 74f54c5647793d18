/* The log: what a stranger named himself stays one value of one line; levels, JSON, floods, a file that
 * is moved away. */
#include "../../kernels/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A clock in the test's hands, and a file. */
struct rig {
	int64_t mono_ns;
	struct os os;
	struct log *log;
	struct arena a;
	char dir[64], path[80];
};

static int64_t
mono(void *self)
{
	return ((struct rig *)self)->mono_ns;
}

static int64_t
wall(void *self)
{
	(void)self;
	return 1763847481123456789;
}

static void
rig_open(struct rig *r, enum log_level least, bool is_json)
{
	struct log_conf conf = {.os = &r->os, .least = least, .is_json = is_json, .path = r->path};
	struct err e = {0};

	*r =
	    (struct rig){.os = {.self = r, .mono_ns = mono, .wall_ns = wall}, .dir = "/tmp/korch-log-XXXXXX"};
	assert_non_null(mkdtemp(r->dir));
	(void)snprintf(r->path, sizeof(r->path), "%s/log", r->dir);
	assert_true(log_open(&r->log, &conf, &e));
}

static const char *
text_of(struct rig *r, const char *path)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), &r->a, path, 1 << 20, &b, &e))
		fail_msg("%s", e.msg);
	return str_dup(&r->a, (struct str){(const char *)b.p, b.n});
}

static void
rig_close(struct rig *r)
{
	log_close(r->log);
	arena_fini(&r->a);
	os_remove_tree(r->dir);
}

#define LIT(s)                                                                                               \
	{                                                                                                    \
		"" s, sizeof(s) - 1                                                                          \
	}
#define AT "2025-11-22T21:38:01.123Z "
/* Each name as a value of a line; the last column as a JSON string. */
static const struct {
	struct str name;
	const char *text, *json;
} names[] = {
    {LIT("w1.site-a:7/gpu"), "w1.site-a:7/gpu", "\"w1.site-a:7/gpu\""},
    {LIT("a\nready forged=1"), "\"a\\nready forged=1\"", "\"a\\nready forged=1\""},
    {LIT("a b"), "\"a b\"", "\"a b\""},
    {LIT("x=\"y\\"), "\"x=\\\"y\\\\\"", "\"x=\\\"y\\\\\""},
    {LIT("\x1b[31mred\r"), "\"\\u001b[31mred\\u000d\"", "\"\\u001b[31mred\\u000d\""},
    {LIT("\x7f"), "\"\\u007f\"", "\"\\u007f\""},
    {LIT("caf\xc3\xa9"), "\"caf\xc3\xa9\"", "\"caf\xc3\xa9\""},
    {LIT("\xc2\x9b"
	 "1A"),
	"\"\\u009b1A\"", "\"\\u009b1A\""},               /* CSI as one character */
    {LIT("\xe2\x80\xae"), "\"\\u202e\"", "\"\\u202e\""}, /* right to left */
    {LIT("\xff\xc0\x80"), "\"\\ufffd\\ufffd\\ufffd\"", "\"\\ufffd\\ufffd\\ufffd\""}, /* no UTF-8 */
    {LIT("\xe2\x82"), "\"\\ufffd\\ufffd\"", "\"\\ufffd\\ufffd\""},
    {LIT("\0z"), "\"\\u0000z\"", "\"\\u0000z\""},
};

static void
values(void **state)
{
	struct rig r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++)
		for (int is_json = 0; is_json < 2; is_json++) {
			char want[400];

			rig_open(&r, LEVEL_INFO, is_json);
			log_event(r.log, hello, KVZ("role", "worker"), KV("name", names[i].name),
			    KVZ("peer", ""), KVI("local", -1));
			(void)snprintf(want, sizeof(want),
			    is_json ? "{\"time\":\"2025-11-22T21:38:01.123Z\",\"level\":\"info\",\"event\":"
				      "\"hello\","
				      "\"role\":\"worker\",\"name\":%s,\"local\":-1}\n"
				    : AT "info hello role=worker name=%s local=-1\n",
			    is_json ? names[i].json : names[i].text);
			assert_string_equal(text_of(&r, r.path), want);
			rig_close(&r);
		}
}

/* Whatever the length, one whole line. */
static void
long_values(void **state)
{
	static char much[5000];
	struct rig r;

	(void)state;
	for (int fill = 0; fill < 2; fill++) {
		const char *text;
		struct str s = {much, sizeof(much)};

		memset(much, fill ? 'a' : '\1', sizeof(much));
		rig_open(&r, LEVEL_INFO, true);
		log_event(
		    r.log, job_move, KV("from", s), KV("to", s), KV("reason", s), KV("x", s), KV("y", s));
		text = text_of(&r, r.path);
		assert_true(strlen(text) > 5000 && strchr(text, '\n') == text + strlen(text) - 1);
		assert_string_equal(text + strlen(text) - 3, "\"}\n");
		rig_close(&r);
	}
}

static void
levels(void **state)
{
	struct rig r;

	(void)state;
	for (int least = 0; least < LEVEL_COUNT; least++) {
		rig_open(&r, (enum log_level)least, false);
		log_event(r.log, job_new, KVI("job", 1));
		log_event(r.log, late, KVI("ms", 3000));
		log_event(r.log, job_load_failed, KVZ("why", "x"));
		assert_int_equal(strstr(text_of(&r, r.path), "job.new") != NULL, least <= LEVEL_INFO);
		assert_int_equal(strstr(text_of(&r, r.path), "late") != NULL, least <= LEVEL_WARN);
		assert_non_null(strstr(text_of(&r, r.path), "error job.load_failed why=x\n"));
		rig_close(&r);
	}
}

/* A stranger who is refused a thousand times a second writes five lines, and the next second says how many
 * more there were. */
static void
floods(void **state)
{
	struct rig r;
	uint32_t n = 0;

	(void)state;
	rig_open(&r, LEVEL_INFO, false);
	r.mono_ns = 7000000000;
	for (int i = 0; i < 1000; i++)
		log_event(r.log, hello_refused, KVZ("role", "worker"));
	r.mono_ns += 1000000000;
	log_event(r.log, hello_refused, KVZ("role", "client"));
	for (const char *p = text_of(&r, r.path); (p = strchr(p, '\n')) != NULL; p++)
		n++;
	assert_int_equal(n, log_row(LOG_hello_refused)->per_second + 1);
	assert_non_null(strstr(text_of(&r, r.path), "role=client more=995\n"));
	rig_close(&r);
}

static void
reopened(void **state)
{
	struct rig r;
	struct err e = {0};
	char moved[96], moved_dir[96];

	(void)state;
	rig_open(&r, LEVEL_INFO, false);
	(void)snprintf(moved, sizeof(moved), "%s/log.1", r.dir);
	(void)snprintf(moved_dir, sizeof(moved_dir), "%s.moved", r.dir);
	log_event(r.log, job_new, KVI("job", 1));
	assert_int_equal(rename(r.path, moved), 0);
	log_event(r.log, job_new, KVI("job", 2));
	assert_true(log_reopen(r.log, &e));
	log_event(r.log, job_new, KVI("job", 3));
	assert_non_null(strstr(text_of(&r, moved), "job=2"));
	assert_null(strstr(text_of(&r, moved), "job=3"));
	assert_non_null(strstr(text_of(&r, r.path), "job=3"));
	assert_int_equal(unlink(r.path), 0);
	assert_int_equal(rename(r.dir, moved_dir), 0);
	assert_false(log_reopen(r.log, &e)); /* the old one stays, and is named */
	assert_non_null(strstr(e.msg, r.path));
	log_event(r.log, job_new, KVI("job", 4));
	assert_int_equal(rename(moved_dir, r.dir), 0);
	rig_close(&r);
}

static void
table(void **state)
{
	enum log_level l;

	(void)state;
	for (int i = 0; i < LOG_EVENTS; i++) {
		const struct log_row *row = log_row((enum log_event)i);

		assert_true(row->name[0] && row->text[0] && row->keys[0]);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(row->name, log_row((enum log_event)k)->name);
	}
	for (int i = 0; i < LEVEL_COUNT; i++) {
		assert_true(log_level_of(str_of(log_level_name((enum log_level)i)), &l));
		assert_int_equal(l, i);
	}
	assert_false(log_level_of(STR("loud"), &l));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),
	    cmocka_unit_test(long_values),
	    cmocka_unit_test(levels),
	    cmocka_unit_test(floods),
	    cmocka_unit_test(reopened),
	    cmocka_unit_test(table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
