/* What went through a pipe, and what the clock said, comes from the tape again; where a run becomes another
 * one, it is counted as such; a tape that is cut off anywhere, as by a process that died, plays up to there.
 * memory: yes */
#include "../../proto/pipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[OS_PATH_MAX];

static int
make_dir(void **state)
{
	struct err e = {0};

	(void)state;
	return os_temp_dir("tape-test", dir, &e) ? 0 : -1;
}

static int
drop_dir(void **state)
{
	(void)state;
	os_remove_tree(dir);
	return 0;
}

/* A clock of ours, so that a played one is told from the real one. */
static int64_t
steps(void *self)
{
	return *(int64_t *)self += 1000000007;
}

static bool
read_words(void *self, struct arena *a, const char *path, size_t max_bytes, struct bytes *out, struct err *e)
{
	(void)self;
	(void)max_bytes;
	(void)e;
	*out = (struct bytes){arena_dup(a, path, strlen(path)), strlen(path)};
	return true;
}

/* One life: asks the clock, hears up to two messages and a silence, reads a file, says `word`; what it met,
 * as text. */
static void
live(struct arena *a, struct pipe *p, const struct os *os, const char *word, struct strbuf *seen)
{
	struct msg m, say = {.type = MSG_failed};
	struct bytes b;
	struct err e = {0};

	sb_addf(seen, "t=%lld", (long long)os->mono_ns(os->self));
	for (int i = 0; i < 3; i++) {
		enum pipe_got got = pipe_recv(p, a, i == 2 ? 0 : -1, &m, &e);

		sb_addf(seen, " got %d", (int)got);
		if (got == PIPE_MSG)
			sb_addf(seen, "=%.*s", STR_ARG(m.finish.reason));
	}
	sb_addf(seen, " wall=%lld", (long long)os->wall_ns(os->self));
	assert_true(os->read_file(os->self, a, "/elsewhere", 100, &b, &e));
	sb_addf(seen, " file=%.*s t=%lld", (int)b.n, (const char *)b.p, (long long)os->mono_ns(os->self));
	say.failed.text = str_of(word);
	assert_true(pipe_send(p, &say, &e));
}

static const char *
record(struct arena *a)
{
	int64_t now = 5, wall = 77;
	struct os os = {.self = &now, .mono_ns = steps, .wall_ns = steps, .read_file = read_words};
	struct pipe here, there;
	struct strbuf seen;
	int fd[2];
	struct err e = {0};

	(void)wall;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pipe_init(&here, fd[0], fd[0]);
	pipe_init(&there, fd[1], fd[1]);
	for (int i = 0; i < 2; i++) {
		struct msg m = {.type = MSG_finish};

		m.finish.reason = str_of(i ? "two" : "one");
		assert_true(pipe_send(&there, &m, &e));
	}
	here.tape = tape_record(arena_printf(a, "%s/tape", dir), dir);
	assert_non_null(here.tape);
	sb_init(&seen, a);
	live(a, &here, tape_os(here.tape, &os), "bye", &seen);
	tape_close(here.tape);
	pipe_fini(&here);
	pipe_fini(&there);
	return seen.p;
}

static struct tape_counts
play(struct arena *a, const char *word, struct strbuf *seen)
{
	struct pipe p = {.in = -1, .out = -1};
	struct tape_counts c;
	struct err e = {0};

	assert_true(tape_play(&p.tape, arena_printf(a, "%s/tape", dir), &e));
	sb_init(seen, a);
	live(a, &p, tape_os(p.tape, os_real()), word, seen);
	c = tape_counts(p.tape);
	tape_close(p.tape);
	return c;
}

static void
the_same_again(void **state)
{
	struct arena a = {0};
	const char *was = record(&a);
	struct strbuf now;
	struct tape_counts c = play(&a, "bye", &now);

	(void)state;
	assert_string_equal(now.p, was);
	assert_non_null(strstr(was, "got 0=one got 0=two got 1"));
	assert_non_null(strstr(was, "file=/elsewhere"));
	assert_false(c.is_other);
	assert_int_equal(c.n_in, 2);
	assert_int_equal(c.n_out, 1);
	arena_fini(&a);
}

static void
another_run_is_told(void **state)
{
	struct arena a = {0};
	struct strbuf now;

	(void)state;
	(void)record(&a);
	assert_true(play(&a, "another word", &now).is_other);
	arena_fini(&a);
}

static void
cut_anywhere(void **state)
{
	struct arena a = {0};
	const char *was = record(&a), *path = arena_printf(&a, "%s/tape", dir);
	struct bytes whole;
	struct err e = {0};

	(void)state;
	assert_true(os_read_file(os_real(), &a, path, 1 << 20, &whole, &e));
	for (size_t n = 13; n < whole.n; n++) {
		struct strbuf now;

		assert_true(os_write_file(os_real(), path, (struct bytes){whole.p, n}, &e));
		/* a file that is not on the tape is the real one's, which is not there */
		struct pipe p = {.in = -1, .out = -1};
		struct msg m;

		sb_init(&now, &a);
		assert_true(tape_play(&p.tape, path, &e));
		const struct os *os = tape_os(p.tape, os_real());
		sb_addf(&now, "t=%lld", (long long)os->mono_ns(os->self));
		while (pipe_recv(&p, &a, -1, &m, &e) == PIPE_MSG)
			assert_non_null(strstr(was, str_dup(&a, m.finish.reason)));
		assert_false(tape_counts(p.tape).n_in > 2);
		tape_close(p.tape);
	}
	assert_true(os_write_file(os_real(), path, (struct bytes){whole.p, 12}, &e));
	struct tape *t;
	assert_false(tape_play(&t, path, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	arena_fini(&a);
}

/* The file of a tape may be a link to something that must not change. */
static void
links_are_left_alone(void **state)
{
	struct arena a = {0};
	char *path = arena_printf(&a, "%s/tape", dir), *other = arena_printf(&a, "%s/other", dir);
	struct bytes b;
	struct err e = {0};

	(void)state;
	assert_true(os_write_file(os_real(), other, (struct bytes){(const uint8_t *)"precious", 8}, &e));
	assert_int_equal(link(other, path), 0);
	(void)record(&a);
	assert_true(os_read_file(os_real(), &a, other, 100, &b, &e));
	assert_int_equal(b.n, 8);
	assert_null(tape_record(arena_printf(&a, "%s/none/tape", dir), dir));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(the_same_again, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(another_run_is_told, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(cut_anywhere, make_dir, drop_dir),
	    cmocka_unit_test_setup_teardown(links_are_left_alone, make_dir, drop_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
