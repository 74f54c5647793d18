/* What a worker or a daemon wrote moves no cursor: neither in the bar nor in plain lines. */
#include "../../client/job_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* A clear screen, a C1 control, a turned direction, a line of its own. */
#define HOSTILE "a\033[2Jb\302\233c\342\200\256d\ne"
#define PLAIN "a?[2Jb?c?d?e"

static struct m_event
event_of(const char *state, const char *phase)
{
	return (struct m_event){
	    .state = str_of(state), .reason = STR(HOSTILE), .progress = {.phase = str_of(phase)}};
}

/* What fn writes to stderr. */
static void
caught(struct job_view *v, const struct m_event *ev, char *out, size_t size)
{
	FILE *f = tmpfile();
	int kept = dup(STDERR_FILENO);
	size_t n;

	assert_true(f && kept >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	job_view_event(v, ev);
	(void)fflush(stderr);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	(void)close(kept);
	rewind(f);
	n = fread(out, 1, size - 1, f);
	out[n] = '\0';
	(void)fclose(f);
}

static void
words(void **state)
{
	struct arena a = {0};
	struct opts o;
	char *argv[] = {(char[]){"korch-submit"}, (char[]){"m.onnx"}, NULL};
	struct err e = {0};
	const struct {
		struct m_event event;
		const char *says;
	} rows[] = {
	    {event_of("queued", ""), "queued: " PLAIN "\n"},
	    {event_of("planning", HOSTILE), PLAIN ": " PLAIN "\n"},
	};

	(void)state;
	assert_true(opts_read(&a, PROG_SUBMIT, 2, argv, &o, &e));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct job_view v;
		struct strbuf bar;
		char said[512];

		job_view_init(&v, &o);
		v.is_terminal = false;
		caught(&v, &rows[i].event, said, sizeof(said));
		assert_string_equal(said, rows[i].says);
		job_view_fini(&v);
		sb_init(&bar, &a);
		job_bar(&bar, &rows[i].event, 60);
		assert_null(strpbrk(bar.p, "\033\n"));
	}
	arena_fini(&a);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(words)};

	return cmocka_run_group_tests_name("client/job_view.c", tests, NULL, NULL);
}
