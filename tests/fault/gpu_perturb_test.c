/* A GPU's worker perturbs the machine code of a kernel, on the fake driver: a better order is found, is
 * faster in pairs, and is built again from its schedule; one that crashes or gives other results costs itself
 * alone. memory: yes threads: yes */
#include "gpu_rig.h"

#include "../../kernels/device/gpu.h"
#include "../../proto/range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
enum { ROWS = 24 };
#define A100 "cuda-fake:gpu=a100,seed=3"
#define FIRST "trace=1" /* the schedule whose instructions are moved */

static struct m_task
task_of(struct rig *r, const char *schedule)
{
	return (struct m_task){.spec = str_of(arena_printf(&r->a, RIG_SPEC, ROWS, ROWS)),
	    .schedule = str_of(schedule),
	    .effort = 1,
	    .threads = 1,
	    .precision = STR("f32"),
	    .payload_path = STR("")};
}

/* False: the task failed as a whole. */
static bool
perturb(struct rig *r, struct m_outcome *o, struct err *e)
{
	struct m_task t = task_of(r, FIRST);
	struct m_perturb_ask ask = {
	    .threads = 1, .precision = STR("f32"), .each_ns = SECOND, .asked_ns = SECOND};

	*o = task_outcome(&t);
	o->perturbed = (struct m_perturbed){.spec = o->spec,
	    .base = STR(FIRST),
	    .schedule = STR(""),
	    .precision = STR(""),
	    .worker = STR(""),
	    .asked_ns = SECOND};
	return r->d.perturb(r->d.self, &r->a, &t, &ask, o, e);
}

static void
open_or_fail(struct rig *r, const char *device)
{
	struct err e = {0};

	if (!rig_open(r, device, &e))
		fail_msg("%s: %s", device, e.msg);
}

static void
perturb_or_fail(struct rig *r, struct m_outcome *o)
{
	struct err e = {0};

	if (!perturb(r, o, &e))
		fail_msg("%s", e.msg);
	if (!perturbed_check(&o->perturbed, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < o->n_rows; i++)
		if (!row_check(&o->rows[i], &e))
			fail_msg("%s", e.msg);
}

static const struct m_row *
row_of(const struct m_outcome *o, struct str schedule)
{
	for (uint32_t i = 0; i < o->n_rows; i++)
		if (str_eq(o->rows[i].schedule, schedule))
			return &o->rows[i];
	return NULL;
}

/* ---- found ---------------------------------------------------------------------------------- */
static void
finds(const char *device)
{
	struct rig r;
	struct m_outcome o, again;
	const struct m_perturbed *p = &o.perturbed;
	const struct m_row *base, *moved;

	open_or_fail(&r, device);
	perturb_or_fail(&r, &o);
	if (p->schedule.n == 0)
		fail_msg(
		    "%s: no gain in %u rows, %llu tried", device, o.n_rows, (unsigned long long)p->tried);
	base = row_of(&o, STR(FIRST));
	moved = row_of(&o, p->schedule);
	assert_true(base && moved && !base->fail && !moved->fail);
	assert_true(moved->median_ns < base->median_ns);
	assert_true(p->ratio < 1 && p->expected < 1 && p->n_moves > 0 && p->tried > 0 && p->failed == 0);
	/* four sets of inputs at least, of ROWS x 8 elements */
	assert_true(p->compared >= 4 * ROWS * 8);
	perturb_or_fail(&r, &again); /* the same search finds the same */
	assert_true(str_eq(again.perturbed.schedule, p->schedule));
	rig_close(&r);
}

static void
every_architecture(void **state)
{
	(void)state;
	finds("cuda-fake:gpu=v100,seed=3");
	finds(A100);
	finds("cuda-fake:gpu=h200,seed=3");
}

/* ---- built again ------------------------------------------------------------------------------ */
static bool
build(struct rig *r, const char *schedule, struct built *out, struct err *e)
{
	struct m_task t = task_of(r, schedule);
	struct m_kernel k = {.spec = t.spec, .schedule = t.schedule, .symbol = STR("k0")};
	struct m_build_ask ask = {.threads = 1, .precision = STR("f32"), .kernels = &k, .n_kernels = 1};

	return r->d.build(r->d.self, &r->a, &ask, out, e);
}

static void
replays(void **state)
{
	struct rig r;
	struct m_outcome o;
	struct built plain, moved, again;
	struct err e = {0};
	const char *schedule;
	char *other, *digit;

	(void)state;
	open_or_fail(&r, A100);
	perturb_or_fail(&r, &o);
	schedule = str_dup(&r.a, o.perturbed.schedule);
	assert_true(build(&r, FIRST, &plain, &e) && build(&r, schedule, &moved, &e) &&
	    build(&r, schedule, &again, &e));
	assert_int_equal(moved.object.n, plain.object.n);
	assert_memory_not_equal(moved.object.p, plain.object.p, plain.object.n);
	assert_memory_equal(moved.object.p, again.object.p, moved.object.n);
	/* of another base */
	other = str_dup(&r.a, str_of(schedule));
	digit = strstr(other, "sip=") + 4;
	*digit = *digit == '0' ? '1' : '0';
	assert_false(build(&r, other, &again, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	assert_non_null(strstr(e.msg, "k0: the moves of its instructions do not fit"));
	/* moves that nobody proved legal: an address is raised before it is read */
	e = (struct err){0};
	other =
	    arena_printf(&r.a, "%.*s:k_p0.m13>14", (int)(strstr(schedule, "sip=") + 20 - schedule), schedule);
	assert_false(build(&r, other, &again, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	rig_close(&r);
}

/* A task that names a schedule with moves measures that code: faster than its base. */
static void
is_measured_as_built(void **state)
{
	struct rig r;
	struct m_outcome o, out[2];
	struct m_task t[2];

	(void)state;
	open_or_fail(&r, A100);
	perturb_or_fail(&r, &o);
	t[0] = task_of(&r, FIRST);
	t[1] = task_of(&r, str_dup(&r.a, o.perturbed.schedule));
	for (int i = 0; i < 2; i++) {
		out[i] = task_outcome(&t[i]);
		r.d.measure(r.d.self, &r.a, &t[i], 1, &out[i]);
		if (out[i].fail || out[i].n_rows == 0 || out[i].rows[0].fail)
			fail_msg("%.*s", STR_ARG(out[i].cause));
	}
	assert_true(out[1].rows[0].median_ns < out[0].rows[0].median_ns);
	assert_true(str_eq(out[1].rows[0].schedule, o.perturbed.schedule));
	rig_close(&r);
}

/* ---- faults -------------------------------------------------------------------------------------- */
/* All orders fail so: each has its row, there is no gain, and the device goes on. */
static void
all_fail(const char *device, enum err_code as)
{
	struct rig r;
	struct m_outcome o;
	struct built b;
	struct err e = {0};
	uint32_t n = 0;

	open_or_fail(&r, device);
	perturb_or_fail(&r, &o);
	assert_int_equal(o.perturbed.schedule.n, 0);
	for (uint32_t i = 0; i < o.n_rows; i++) {
		struct str base, moves;

		if (!sip_split(o.rows[i].schedule, &base, &moves))
			continue;
		n++;
		if (err_of_wire(o.rows[i].fail) != as)
			fail_msg("%s: row %u is %s: %.*s", device, i, err_name(err_of_wire(o.rows[i].fail)),
			    STR_ARG(o.rows[i].cause));
	}
	assert_true(n > 0);
	assert_int_equal(o.perturbed.tried, n);
	assert_int_equal(o.perturbed.failed, n);
	if (!build(&r, FIRST, &b, &e))
		fail_msg("%s", e.msg);
	rig_measure(&r, 1);
	assert_int_equal(rig_n_good(&r), RIG_N);
	rig_close(&r);
}

static void
faults(void **state)
{
	(void)state;
	all_fail(A100 ",sipfault=1000000", ERR_CRASH);
	all_fail(A100 ",sipwrong=1000000", ERR_WRONG);
}

/* Some crash: the search goes on with the others. */
static void
some_crash(void **state)
{
	bool found = false;

	(void)state;
	for (int seed = 1; seed <= 12 && !found; seed++) {
		struct rig r;
		struct m_outcome o;
		char device[64];

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=%d,sipfault=400000", seed);
		open_or_fail(&r, device);
		perturb_or_fail(&r, &o);
		found = o.perturbed.failed > 0 && o.perturbed.schedule.n > 0;
		rig_close(&r);
	}
	assert_true(found);
}

/* A GPU that is slowed all the time tells nothing, and that is no kernel's fault. */
static void
throttled(void **state)
{
	struct rig r;
	struct m_outcome o;

	(void)state;
	open_or_fail(&r, A100 ",throttle=1000000");
	perturb_or_fail(&r, &o);
	assert_int_equal(o.perturbed.schedule.n, 0);
	assert_int_equal(o.perturbed.tried, 0);
	rig_close(&r);
}

/* ---- nothing to perturb ---------------------------------------------------------------------------- */
static void
without_code(void **state)
{
	struct rig r;

	(void)state;
	open_or_fail(&r, "fake:seed=1");
	assert_null(r.d.perturb);
	rig_close(&r);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture), cmocka_unit_test(replays),
	    cmocka_unit_test(is_measured_as_built), cmocka_unit_test(faults), cmocka_unit_test(some_crash),
	    cmocka_unit_test(throttled), cmocka_unit_test(without_code)};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
