/* Options: flag beats variable beats file beats default; a list of one source is not doubled;
 * what is wrong is named. */
#include "../../kernels/base/opt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char conf_path[] = "/tmp/korch-opt-XXXXXX";

static void
write_conf(const char *text)
{
	struct err e = {0};

	assert_true(
	    os_write_file(os_real(), conf_path, (struct bytes){(const uint8_t *)text, strlen(text)}, &e));
	assert_int_equal(setenv("KORCH_CONFIG", conf_path, 1), 0);
}

static bool
read_args(struct arena *a, enum program p, struct opts *o, struct err *e, const char *line)
{
	char *argv[32] = {(char *)(uintptr_t) "x"};
	int n = 1;
	struct str rest = str_of(line);

	while (rest.n)
		argv[n++] = str_dup(a, str_cut(&rest, ' '));
	return opts_read(a, p, n, argv, o, e);
}

static void
precedence(void **state)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};

	(void)state;
	write_conf("# mine\n budget = 5\nthreads=3\n\n repeat = 9\n");
	assert_int_equal(setenv("KORCH_THREADS", "4", 1), 0);
	assert_true(read_args(&a, PROG_SUBMIT, &o, &e, "m.onnx -o p --device fake"));
	assert_true(opt_real(&o, OPT_budget) == 5 && o.value[OPT_budget].source == FROM_FILE);
	assert_true(opt_int(&o, OPT_threads) == 4 && o.value[OPT_threads].source == FROM_ENV);
	assert_string_equal(opt_text(&o, OPT_device), "fake");
	assert_string_equal(opt_text(&o, OPT_output), "p");
	assert_string_equal(opt_text(&o, OPT_fusion), "full");
	assert_false(opt_given(&o, OPT_fusion));
	assert_true(o.n_args == 1 && strcmp(o.args[0], "m.onnx") == 0);
	assert_true(read_args(&a, PROG_SUBMIT, &o, &e, "--threads=7 -- --strict"));
	assert_int_equal(opt_int(&o, OPT_threads), 7);
	assert_true(o.n_args == 1 && !opt_flag(&o, OPT_strict));
	assert_int_equal(unsetenv("KORCH_THREADS"), 0);
	arena_fini(&a);
}

static void
lists(void **state)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};

	(void)state;
	write_conf("listen = ipc:///file\n");
	assert_true(read_args(&a, PROG_KORCHD, &o, &e, ""));
	assert_true(opt_n(&o, OPT_listen) == 1 && strcmp(opt_at(&o, OPT_listen, 0), "ipc:///file") == 0);
	assert_true(read_args(&a, PROG_KORCHD, &o, &e, "--listen a --listen=b"));
	assert_int_equal(opt_n(&o, OPT_listen), 2);
	assert_string_equal(opt_at(&o, OPT_listen, 1), "b");
	arena_fini(&a);
}

static void
wrong(void **state)
{
	static const struct {
		const char *line, *msg;
	} row[] = {
	    {"--budgte 3", "--budgte is not an option of korch-submit; see --help"},
	    {"--budget x", "'x' is not a value for budget; a number is wanted"},
	    {"--threads 1.5", "'1.5' is not a value for threads; a whole number is wanted"},
	    {"--strict=1", "--strict takes no value"},
	    {"--budget", "--budget wants a value: SECONDS"},
	    {"-z", "-z is not an option of korch-submit; see --help"},
	    {"--repeat 3", "--repeat is not an option of korch-submit; see --help"},
	};
	struct arena a = {0};
	struct opts o;
	struct err e = {0};

	(void)state;
	write_conf("");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		assert_false(read_args(&a, PROG_SUBMIT, &o, &e, row[i].line));
		assert_int_equal(e.code, ERR_USAGE);
		assert_string_equal(e.msg, row[i].msg);
	}
	write_conf("x\nnosuch = 1\n");
	assert_false(read_args(&a, PROG_SUBMIT, &o, &e, ""));
	assert_non_null(strstr(e.msg, ":1: 'x' is not a setting of any Korch program"));
	assert_true(read_args(&a, PROG_SUBMIT, &o, &e, "--help")); /* a broken file hides no help */
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(precedence),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(wrong),
	};
	int fd = mkstemp(conf_path), failed;

	if (fd < 0)
		return 1;
	(void)close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(conf_path);
	return failed;
}
