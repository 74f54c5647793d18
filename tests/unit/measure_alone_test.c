/* tests/unit/measure_alone_test.c: a measuring child that ends while it makes several references at a time
 * (worker/measure_parent.c).  This program is that child, too: where its stdin is a socket.  label: cpu */
#include "../../worker/measure_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_ITEMS = 3, CULPRIT = 1, ENDED = 9 };

/* ---- the child ---------------------------------------------------------------------------- */
static void
say(struct pipe *p, const struct msg *m)
{
	struct err e;

	if (!pipe_send(p, m, &e))
		_exit(ENDED + 1);
}

/* Item by item, or all at a time, until the one whose reference ends it. */
static void
serve(struct pipe *p, const struct m_batch_ask *q)
{
	struct msg end = {.type = MSG_batch_end};

	for (uint64_t i = 0; i < q->n_items; i++) {
		struct msg at = {.type = MSG_batch_at,
		    .batch_at = {.item = i, .is_reference = true, .n_items = q->alone ? 1 : q->n_items - i}};
		struct msg row = {.type = MSG_batch_row, .batch_row = {.item = i}};

		if (q->items[i].kernels[0].is_settled)
			continue;
		say(p, &at);
		if (!q->alone || i == CULPRIT)
			_exit(ENDED);
		say(p, &row);
	}
	say(p, &end);
}

static int
be_child(void)
{
	struct msg welcome = {.type = MSG_child_welcome, .child_welcome = measure_welcome()}, m;
	struct arena a = {0};
	struct pipe p;
	struct err e = {0};

	if (!pipe_stdio(&p, &e))
		return 1;
	while (pipe_recv(&p, &a, -1, &m, &e) == PIPE_MSG) {
		if (m.type == MSG_child_hello)
			say(&p, &welcome);
		else if (m.type == MSG_batch_ask)
			serve(&p, &m.batch_ask);
	}
	return 0;
}

/* ---- the test ----------------------------------------------------------------------------- */
static void
the_culprit_alone_pays(void **state)
{
	char self[OS_PATH_MAX] = {0};
	struct measure_opts o = {.program = self, .device = "fake", .n_threads = 1};
	struct arena a = {0};
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {1}}};
	struct measure_kernel k = {.schedule = STR(""), .symbol = STR("k"), .code = &code};
	struct measure_item item[N_ITEMS];
	struct calibration calibration = {.ref_ns = {1, 1}};
	struct measure_batch batch = {
	    .items = item, .n_items = N_ITEMS, .calibration = &calibration, .check_only = true};
	struct measure_child *c;
	struct m_measured *rows;
	struct spec s;
	struct err e = {0};

	(void)state;
	assert_int_equal(setenv("KORCH_SANDBOX", "off", 1), 0); /* a test's libraries are not in a jail */
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	if (!spec_read(&a, STR("spec 1\n%0 = input f32[4]\n%1 = relu %0 : f32[4]\noutput %1\n"), &s, &e) ||
	    !measure_open(&o, &c, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < N_ITEMS; i++)
		item[i] = (struct measure_item){.spec = &s, .kernels = &k, .n_kernels = 1};
	if (!measure_batch_run(c, &a, &batch, &rows, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < N_ITEMS; i++)
		assert_int_equal(err_of_wire(rows[i].row.fail), i == CULPRIT ? ERR_CRASH : ERR_NONE);
	measure_close(c);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_culprit_alone_pays)};
	struct stat st;

	if (fstat(STDIN_FILENO, &st) == 0 && S_ISSOCK(st.st_mode))
		return be_child();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
