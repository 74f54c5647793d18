/* What the three kinds of jailed programs can do, tried from inside: as a kernel that korch-measure runs, as
 * the compiler that it is told to use, as the planner of a job.  What is allowed is compared with the rows of
 * kernels/jail/jail.def: each thing without a row must be denied, each with one must work.  label: fault */
#include "../../kernels/jail/jail_int.h"
#include "../../worker/measure.h"
#include "farm_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { COMPILE, MEASURE, PLAN, KINDS, INHERITED = 200, NUMBERS = 1024 };
static const enum jail jail_of[KINDS] = {JAIL_COMPILE, JAIL_MEASURE, JAIL_PLAN};
static const struct {
	const char *name, *words, *row[KINDS];
} probes[] = {
#define PROBE(ID, WORDS, C, M, P) {#ID, WORDS, {C, M, P}},
#define DENIED(ID, WORDS) {#ID, WORDS, {"", "", ""}},
#include "probe.def"
    {"sweep", "calls what no row allows", {"", "", ""}},
};
enum { N = sizeof(probes) / sizeof(probes[0]) };

/* The mechanisms that the expectations of probe.def are made for. */
struct yard {
	struct arena a;
	struct farm_proc farm;
	char dir[96], library[OS_PATH_MAX];
	pid_t other;
	struct jail_survey holds;
};

/* ---- the table -------------------------------------------------------------------------------- */
static bool
has_row(enum jail j, const char *name)
{
	for (uint32_t i = 0; i < jail_n_calls; i++)
		if (jail_calls[i].jails & 1u << j && jail_calls[i].verdict == VERDICT_ALLOW &&
		    strcmp(jail_calls[i].name, name) == 0)
			return true;
	for (uint32_t i = 0; i < jail_n_paths; i++)
		if (jail_paths[i].jails & 1u << j && strcmp(jail_paths[i].path, name) == 0)
			return true;
	return false;
}

/* All calls that no row allows with arguments of -1, but those that end the process. */
static void
put_swept(struct strbuf *sb, enum jail j)
{
	const uint64_t args[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

	for (uint32_t nr = 0; nr < NUMBERS; nr++) {
		const struct jail_call *row = jail_decide(j, nr, args, 1);

		if (!row || row->verdict == VERDICT_REFUSE || row->verdict == VERDICT_LACK ||
		    row->verdict == VERDICT_NONE)
			sb_addf(sb, "%u,", nr);
	}
}

/* ---- compiling the probe ---------------------------------------------------------------------- */
static void
compile_probe(struct yard *y, int kind, const char *out, const char *flags)
{
	struct strbuf sb;

	sb_init(&sb, &y->a);
	sb_addf(&sb,
	    "cc -w -O1 -D_GNU_SOURCE -DOTHER=%d -DINHERITED=%d '-DTOKENS=\"%s/tokens\"' "
	    "'-DSTORE=\"%s/data\"' "
	    "'-DSOCKET=\"%s/sock\"' '-DABSTRACT=\"korch-probe\"' '-DLIBRARY=\"%s\"' "
	    "'-DMODEL_NAME=\"model.onnx\"' "
	    "'-DDISK=\"/dev/vda\"' '-DSWEPT=",
	    (int)y->other, INHERITED, y->dir, y->dir, y->dir, y->library);
	put_swept(&sb, jail_of[kind]);
	sb_addf(
	    &sb, "' -o '%s/%s' %s '%s/tests/fault'/probe*.c -lpthread", y->dir, out, flags, KORCH_SOURCE_DIR);
	if (system(sb.p) != 0)
		fail_msg("the probe does not compile");
}

/* ---- verdicts ---------------------------------------------------------------------------------- */
static uint32_t
judge(int kind, uint32_t i, bool is_allowed, const char *how)
{
	const char *row = probes[i].row[kind];

	if (*row && !has_row(jail_of[kind], row)) {
		print_error("%s: probe.def names the row %s, and the jail %s has none\n", probes[i].name, row,
		    jail_name(jail_of[kind]));
		return 1;
	}
	if (is_allowed == (*row != '\0'))
		return 0;
	print_error("%s: the jail %s %s it (%s; row: %s): %s\n", probes[i].name, jail_name(jail_of[kind]),
	    is_allowed ? "allows" : "denies", how, *row ? row : "none", probes[i].words);
	return 1;
}

/* ---- as generated code -------------------------------------------------------------------------- */
static void
as_generated_code(void **state)
{
	struct yard *y = *state;
	struct measure_opts o = {
	    .program = KORCH_BINARY_DIR "/bin/korch-measure", .n_threads = 1, .kernel_ns = 20000000000};
	struct calibration cal = {.hw = {.level_bytes = {32768, 524288, 1 << 24}}, .ref_ns = {20000, 20000}};
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {1000}}};
	struct measure_kernel k[N];
	struct spec spec;
	struct measure_item item = {.spec = &spec, .kernels = k, .n_kernels = N};
	struct measure_batch b = {
	    .items = &item, .n_items = 1, .calibration = &cal, .check_only = true, .seed = 3};
	struct measure_child *child;
	struct m_measured *rows;
	struct err e = {0};
	uint32_t n_bad = 0;

	compile_probe(y, MEASURE, "probe.so", "-DAS_KERNELS -shared -fPIC -nostartfiles");
	for (uint32_t i = 0; i < N; i++)
		k[i] = (struct measure_kernel){
		    .schedule = str_of(probes[i].name), .symbol = str_of(probes[i].name), .code = &code};
	if (!spec_read(&y->a, STR("spec 1\n%0 = input f32[1000]\n%1 = relu %0 : f32[1000]\noutput %1\n"),
		&spec, &e) ||
	    !os_read_file(
		os_real(), &y->a, arena_printf(&y->a, "%s/probe.so", y->dir), 1 << 24, &b.module, &e) ||
	    !measure_open(&o, &child, &e) || !measure_batch_run(child, &y->a, &b, &rows, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < N; i++) {
		enum err_code fail = err_of_wire(rows[i].row.fail);
		const char *cause = str_dup(&y->a, rows[i].row.cause);

		if (fail != ERR_NONE && fail != ERR_WRONG && fail != ERR_CRASH)
			fail_msg("%s: %s", probes[i].name, cause);
		n_bad += judge(MEASURE, i, fail == ERR_NONE, cause);
	}
	measure_close(child);
	assert_int_equal(n_bad, 0);
}

/* ---- as the compiler ------------------------------------------------------------------------------ */
static bool
has_line(struct bytes said, const char *name)
{
	struct str rest = {(const char *)said.p, said.n};

	while (rest.n)
		if (str_is(str_cut(&rest, '\n'), name))
			return true;
	return false;
}

static void
as_the_compiler(void **state)
{
	struct yard *y = *state;
	struct compile_opts o = {.cpu_ns = 60000000000};
	struct bytes said;
	struct err e = {0};
	uint32_t n_bad = 0;

	compile_probe(y, COMPILE, "bin/probe-cc", "");
	assert_int_equal(setenv("KORCH_CC", arena_printf(&y->a, "%s/bin/probe-cc", y->dir), 1), 0);
	if (!compile_c(&y->a, STR("int x;\n"), &o, &said, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(unsetenv("KORCH_CC"), 0);
	assert_true(has_line(said, "whole"));
	for (uint32_t i = 0; i < N; i++)
		n_bad += judge(COMPILE, i, has_line(said, probes[i].name), "as the compiler");
	assert_int_equal(n_bad, 0);
}

/* ---- as the planner -------------------------------------------------------------------------------- */
static bool
reason_of(struct client *c, uint64_t job, struct arena *a, const char **reason)
{
	struct msg ask = {.type = MSG_job_watch}, m;
	struct err e = {0};

	ask.job_watch.job = job;
	ask.job_watch.wait_ns = 5000000000;
	for (;;) {
		if (!client_call(c, a, &ask, 10000000000, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			ask.job_watch.after = m.job_events.events[i].seq;
			*reason = str_dup(a, m.job_events.events[i].reason);
		}
		if (m.job_events.is_final)
			return strstr(*reason, "probe allowed") != NULL;
	}
}

static void
as_the_planner(void **state)
{
	struct yard *y = *state;
	struct m_options o = {.device = STR("fake"),
	    .threads = 1,
	    .budget_ns = 1000000000,
	    .tolerance = 1e-3,
	    .fusion = STR("full")};
	struct client *c;
	uint32_t n_bad = 0;

	compile_probe(y, PLAN, "bin/probe-planner", "");
	y->farm.planner = arena_printf(&y->a, "%s/bin/probe-planner", y->dir);
	farm_proc_daemon(&y->farm, 0);
	farm_proc_worker(&y->farm, 0);
	c = farm_proc_client(&y->farm, NULL, NULL);
	for (uint32_t i = 0; i < N; i++) {
		char *model = arena_printf(&y->a, "%s/p%u.onnx", y->dir, i);
		const char *reason = "";
		struct err e = {0};
		uint64_t job;
		bool is_allowed;

		if (!os_write_file(
			os_real(), model, (struct bytes){(const uint8_t *)model, strlen(model)}, &e) ||
		    !client_submit(c, model, NULL, 0, &o, &job, &e))
			fail_msg("%s", e.msg);
		is_allowed = reason_of(c, job, &y->a, &reason);
		if (!is_allowed && !strstr(reason, "probe denied") && !strstr(reason, "ended by signal"))
			fail_msg("%s: %s", probes[i].name, reason);
		n_bad += judge(PLAN, i, is_allowed, reason);
	}
	client_close(c);
	assert_int_equal(n_bad, 0);
}

/* ---- the yard ----------------------------------------------------------------------------------------- */
static int
find_library(struct dl_phdr_info *info, size_t size, void *out)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	(void)snprintf(out, OS_PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

/* A process of this user's that has nothing to hide. */
static pid_t
start_other(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	return pid;
}

static void
write_secret(const char *path)
{
	struct err e = {0};

	if (!os_write_file(os_real(), path, (struct bytes){(const uint8_t *)"secret", 6}, &e))
		fail_msg("%s", e.msg);
}

static bool
holds_all(struct yard *y)
{
	struct err e = {0};

	if (!jail_look(&y->holds, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < JAIL_HOLDS; i++)
		if (y->holds.lacks[i][0]) {
			print_message("SKIP: the table's whole promise needs a %s: %s\n", jail_hold_names[i],
			    y->holds.lacks[i]);
			return false;
		}
	return true;
}

static int
setup(void **state)
{
	struct yard *y = heap_alloc(sizeof(*y));
	struct err e = {0};
	int fd;

	*state = y;
	if (setenv("KORCH_LIBEXEC", KORCH_BINARY_DIR "/bin", 1) != 0 || !holds_all(y))
		return 0;
	farm_proc_init(&y->farm, "fake:seed=5");
	(void)snprintf(y->dir, sizeof(y->dir), "%s", y->farm.dir);
	if (!os_make_dirs(arena_printf(&y->a, "%s/data/jobs/9999/model", y->dir), &e) ||
	    !os_make_dirs(arena_printf(&y->a, "%s/bin", y->dir), &e))
		fail_msg("%s", e.msg);
	write_secret(arena_printf(&y->a, "%s/tokens", y->dir));
	write_secret(arena_printf(&y->a, "%s/data/jobs/9999/model/secret", y->dir));
	y->other = start_other();
	(void)dl_iterate_phdr(find_library, y->library);
	/* what a careless parent leaves to what it starts */
	fd = open(arena_printf(&y->a, "%s/tokens", y->dir), O_RDONLY | O_CLOEXEC);
	if (dup2(fd, INHERITED) != INHERITED || setenv("PROBE_SECRET", "1", 1) != 0 ||
	    setenv("KORCH_PROBE_SECRET", "1", 1) != 0)
		return -1;
	return close(fd);
}

static int
teardown(void **state)
{
	struct yard *y = *state;

	if (y->other) {
		(void)kill(y->other, SIGKILL);
		(void)waitpid(y->other, NULL, 0);
		farm_proc_fini(&y->farm);
	}
	arena_fini(&y->a);
	free(y);
	return 0;
}

/* Each by itself where all holds; elsewhere the others' tests say what is left. */
#define WHERE_ALL_HOLDS(NAME)                                                                                \
	static void NAME##_where_all_holds(void **state)                                                     \
	{                                                                                                    \
		if (!((struct yard *)*state)->other)                                                         \
			skip();                                                                              \
		NAME(state);                                                                                 \
	}
WHERE_ALL_HOLDS(as_generated_code)
WHERE_ALL_HOLDS(as_the_compiler)
WHERE_ALL_HOLDS(as_the_planner)

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_generated_code_where_all_holds),
	    cmocka_unit_test(as_the_compiler_where_all_holds),
	    cmocka_unit_test(as_the_planner_where_all_holds)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
