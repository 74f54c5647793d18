/* Each row of the jails' table has somebody who needs it: the programs are run as a user runs them, with
 * every system call seen.  A row that nothing needs, and a call that is in no row, fail; rows marked RARE are
 * those that no run here can show.  label: fault */
#include "../../kernels/jail/jail_int.h"
#include "../../worker/measure.h"
#include "gpu_rig.h"
#include "tracer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS = 512 };

struct seen {
	uint32_t *call, *path;              /* of each row: the jails that needed it */
	uint32_t denied[JAIL_COUNT][CALLS]; /* how often */
	char by[JAIL_COUNT][CALLS][64];     /* a program that tried */
};

/* The argument that is a path. */
static int
path_argument(uint32_t number)
{
	static const struct {
		uint32_t number;
		int at;
	} with[] = {
	    {SYS_openat, 1},
	    {SYS_newfstatat, 1},
	    {SYS_execve, 0},
#ifdef SYS_open
	    {SYS_open, 0},
	    {SYS_access, 0},
	    {SYS_readlink, 0},
#endif
	};

	for (size_t i = 0; i < COUNT_OF(with); i++)
		if (with[i].number == number)
			return with[i].at;
	return -1;
}

static bool
is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* By its name, and by where that leads: /lib may be /usr/lib. */
static void
see_path(struct seen *s, const struct traced *t, const char *path)
{
	char *real = realpath(path, NULL);

	for (uint32_t i = 0; i < jail_n_paths; i++)
		if (is_below(path, jail_paths[i].path) || (real && is_below(real, jail_paths[i].path)))
			s->path[i] |= 1u << t->jail;
	free(real);
}

static void
see(void *self, const struct traced *t, uint32_t number, const uint64_t args[6])
{
	struct seen *s = self;
	const struct jail_call *row;
	char text[512];

	if (!t->is_inside)
		return;
	row = jail_decide((enum jail)t->jail, number, args, (uint64_t)getpid());
	/* abort() names the process by its number inside, which is not known here */
	if (!row && number == SYS_tgkill)
		row = jail_decide((enum jail)t->jail, number, args, args[0]);
	if (row)
		s->call[row - jail_calls] |= 1u << t->jail;
	else if (number < CALLS) {
		s->denied[t->jail][number]++;
		(void)snprintf(s->by[t->jail][number], sizeof(s->by[0][0]), "%s", t->program);
	}
	if (path_argument(number) >= 0) {
		tracer_text(t, args[path_argument(number)], text, sizeof(text));
		see_path(s, t, text);
	}
}

/* ---- what is run --------------------------------------------------------------------------- */
struct run {
	const char *what;
	const char *argv[24];
};
#define BIN KORCH_BINARY_DIR "/bin/"
#define MODEL "@/candy_small/model.onnx"
static const struct run runs[] = {
    {"a model for the CPU, on two threads",
	{BIN "korch-submit", MODEL, "-o", "@/plan", "--budget", "10", "--threads", "2", "--dump", "choice",
	    "--dump-dir", "@/dump", "--quiet"}},
    /* a budget that is over may time no whole plan: this one ends by itself, on a korchd of its own */
    {"a search to its end",
	{BIN "korch-submit", MODEL, "-o", "@/plan", "--fusion", "operator", "--effort", "1", "--threads", "2",
	    "--data", "@/another", "--quiet"}},
    {"kernels on one thread of the CPU", {BIN "fault_jail_rows_test", "measure", "cpu"}},
    {"kernels on a GPU", {BIN "fault_jail_rows_test", "measure", "cuda-fake:gpu=a100,seed=1"}},
    {"a kernel that aborts", {BIN "fault_jail_rows_test", "abort", "seed=1,crash=1000000"}},
    {"clang",
	{BIN "korch-jail", "compile", "--scratch", "@", "--cpu", "60", "--", "/usr/bin/clang-14", "-O2",
	    "-shared", "-fPIC", "-nostartfiles", "-o", "k.so", "k.c", "-lm"}},
};

/* This program again, to be looked at: a few kernels on a device. */
static int
measure_some(const char *device)
{
	struct rig r;
	struct err e = {0};

	if (!rig_open(&r, device, &e)) {
		(void)fprintf(stderr, "%s: %s\n", device, e.msg);
		return 1;
	}
	rig_measure(&r, 1);
	rig_close(&r);
	return 0;
}

/* The child of the fake device does what it is told. */
static int
abort_some(const char *fake)
{
	struct measure_opts o = {.device = "fake", .fake = fake, .n_threads = 1};
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {8}}};
	struct measure_kernel k = {.schedule = STR("k"), .symbol = STR("k"), .code = &code};
	struct calibration cal = {.hw = hw_fastest, .ref_ns = {20000, 20000}};
	struct spec spec;
	struct measure_item item = {.spec = &spec, .kernels = &k, .n_kernels = 1};
	struct measure_batch b = {
	    .items = &item, .n_items = 1, .calibration = &cal, .budget_ns = 1000000, .seed = 3};
	struct measure_child *child = NULL;
	struct m_measured *rows = NULL;
	struct arena a = {0};
	struct err e = {0};
	bool ok =
	    spec_read(&a, STR("spec 1\n%0 = input f32[8]\n%1 = relu %0 : f32[8]\noutput %1\n"), &spec, &e) &&
	    measure_open(&o, &child, &e) && measure_batch_run(child, &a, &b, &rows, &e);

	if (ok && err_of_wire(rows[0].row.fail) != ERR_CRASH)
		ok = err_set(&e, ERR_FAILED, "%.*s", STR_ARG(rows[0].row.cause));
	if (!ok)
		(void)fprintf(stderr, "no crash: %s\n", e.msg);
	measure_close(child);
	arena_fini(&a);
	return ok ? 0 : 1;
}

static char dir[] = "/tmp/korch-rows-XXXXXX";

static char *
word(struct arena *a, const char *w)
{
	return w[0] == '@' ? arena_printf(a, "%s%s", dir, w + 1) : str_dup(a, str_of(w));
}

static void
run_one(const struct run *r, const struct tracer_calls *calls)
{
	struct arena a = {0};
	char *argv[COUNT_OF(r->argv) + 1] = {0};
	int status = 0;

	for (size_t i = 0; i < COUNT_OF(r->argv) && r->argv[i]; i++)
		argv[i] = word(&a, r->argv[i]);
	if (!tracer_run(argv, calls, &status)) {
		print_message("SKIP: nobody may trace here\n");
		skip();
	}
	if (status != 0)
		fail_msg("%s: ended with status %x", r->what, (unsigned)status);
	arena_fini(&a);
}

/* ---- what came of it ------------------------------------------------------------------------- */
static uint32_t
tell_unneeded(const char *name, uint32_t jails, uint32_t seen, const char *why)
{
	uint32_t n = 0;

	for (int j = 0; j < JAIL_COUNT; j++)
		if (jails & ~seen & (1u << j)) {
			print_error(
			    "%s (%s): nothing needs it in the jail %s\n", name, why, jail_name((enum jail)j));
			n++;
		}
	return n;
}

static void
every_row_is_needed(void **state)
{
	struct seen *s = *state;
	uint32_t n = 0;

	for (uint32_t i = 0; i < jail_n_calls; i++) {
		const struct jail_call *c = &jail_calls[i];

		if (c->verdict == VERDICT_ALLOW && !c->is_rare)
			n += tell_unneeded(c->name, c->jails, s->call[i], c->why);
	}
	for (uint32_t i = 0; i < jail_n_paths; i++)
		if (!jail_paths[i].is_rare && !(jail_paths[i].rights & PATH_EMPTY))
			n += tell_unneeded(
			    jail_paths[i].path, jail_paths[i].jails, s->path[i], jail_paths[i].why);
	assert_int_equal(n, 0);
}

static void
every_need_has_a_row(void **state)
{
	struct seen *s = *state;
	uint32_t n = 0;

	for (int j = 0; j < JAIL_COUNT; j++)
		for (uint32_t c = 0; c < CALLS; c++)
			if (s->denied[j][c]) {
				print_error(
				    "call %u: %s tried it %u times in the jail %s and no row allows it\n", c,
				    s->by[j][c], s->denied[j][c], jail_name((enum jail)j));
				n++;
			}
	assert_int_equal(n, 0);
}

static int
setup(void **state)
{
	struct seen *s = heap_alloc(sizeof(*s));
	const struct tracer_calls calls = {see, s};
	char cmd[512];

	*state = s;
	s->call = heap_alloc(jail_n_calls * sizeof(*s->call));
	s->path = heap_alloc(jail_n_paths * sizeof(*s->path));
	if (!mkdtemp(dir) || setenv("XDG_DATA_HOME", dir, 1) != 0 || setenv("XDG_CACHE_HOME", dir, 1) != 0 ||
	    setenv("KORCH_LIBEXEC", KORCH_BINARY_DIR "/bin", 1) != 0)
		return -1;
	(void)snprintf(cmd, sizeof(cmd),
	    "cd '%s' && tar -xJf '%s/tests/models/small.tar.xz' --strip-components=1 small/candy_small && "
	    "echo 'float f(float x) { return x * 2; }' >k.c",
	    dir, KORCH_SOURCE_DIR);
	if (system(cmd) != 0)
		return -1;
	for (size_t i = 0; i < COUNT_OF(runs); i++)
		if (strcmp(runs[i].what, "clang") != 0 || access("/usr/bin/clang-14", X_OK) == 0)
			run_one(&runs[i], &calls);
	return 0;
}

static int
teardown(void **state)
{
	struct seen *s = *state;

	os_remove_tree(dir);
	free(s->call);
	free(s->path);
	free(s);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "measure") == 0)
		return measure_some(argv[2]);
	if (argc == 3 && strcmp(argv[1], "abort") == 0)
		return abort_some(argv[2]);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	print_message("SKIP: the sanitizers' runtime calls what is in no row\n");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_row_is_needed), cmocka_unit_test(every_need_has_a_row)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
