/* worker/cpu.c: the CPU of this host: generates C, compiles it in batches, has the measuring
 * child check and time it.
 *
 * What is not kept of earlier batches is compiled side by side while this worker measures nothing; then all
 * is checked and timed.  What is timed is timed under a lock of the whole host, so that two workers never
 * time at once.  What does not compile is found by halving: it costs its own row and nothing else. */
#include "build.h"
#include "calibration_cache.h"
#include "objects.h"
#include "unit.h"

#include "../kernels/base/epoch.h"
#include "../kernels/base/host.h"
#include "../kernels/base/opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECT_BYTES = 64 << 20 };
static const int64_t ITEM_BUDGET_NS = 400000000, PLANS_BUDGET_NS = (int64_t)3000000000;

struct cpu {
	struct device *device;
	const struct device_conf *conf;
	struct calibration cal;
	struct measure_child *child;
	uint32_t child_threads;
	struct host_lock lock;
	struct objects *objects; /* what was compiled */
};

/* ---- the child ---------------------------------------------------------------------- */
static bool
hold_host(void *self, bool take, struct err *e)
{
	struct cpu *c = self;

	if (take)
		return host_lock_take(&c->lock, e);
	host_lock_leave(&c->lock);
	return true;
}

static bool
need_child(struct cpu *c, uint32_t threads, struct err *e)
{
	struct measure_opts o = {.device = "cpu",
	    .n_threads = MAX_OF(threads, 1u),
	    .memory_bytes = c->conf->memory_bytes,
	    .cancel = c->conf->cancel,
	    .hold = hold_host,
	    .hold_self = c};

	if (c->child && c->child_threads == o.n_threads)
		return true;
	measure_close(c->child);
	c->child = NULL;
	c->child_threads = o.n_threads;
	return measure_open(&o, &c->child, e);
}

/* ---- compiling ---------------------------------------------------------------------- */
static bool
emit(struct arena *a, const struct spec *s, struct str schedule, const struct target *t, const char *symbol,
    struct kernel_code *out, struct err *e)
{
	(void)symbol;
	return generate_kernel(a, s, schedule, t, KERNEL_STAND_IN, out, e);
}

/* The kernels of units that follow each other. */
static struct objects_want
want_of(const struct cpu *c, struct arena *a, const struct unit *units, uint32_t n)
{
	struct objects_want w = {.target = &units[0].target, .cancel = c->conf->cancel};
	const struct kernel_code **codes;
	const char **symbols;
	uint32_t n_kernels = 0;

	for (uint32_t i = 0; i < n; i++)
		n_kernels += units[i].n;
	codes = NEW_ARRAY(a, const struct kernel_code *, MAX_OF(n_kernels, 1u));
	symbols = NEW_ARRAY(a, const char *, MAX_OF(n_kernels, 1u));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < units[i].n; k++) {
			codes[w.n] = &units[i].codes[k];
			symbols[w.n++] = str_dup(a, units[i].kernels[k].symbol);
		}
	w.codes = codes;
	w.symbols = symbols;
	return w;
}

static bool
make_units(struct cpu *c, const struct unit *units, uint32_t n, int64_t *each_ns, struct err *e)
{
	struct arena tmp = {0};
	struct objects_want w = want_of(c, &tmp, units, n);
	bool ok = objects_make(c->objects, &w, each_ns, e);

	arena_fini(&tmp);
	return ok;
}

/* ---- measuring ---------------------------------------------------------------------- */
/* race_ns: all units side by side, about so long for each; 0: one after the other. */
static void
measure_units(
    struct cpu *c, struct arena *a, struct unit *units, uint32_t n, int64_t compile_ns, int64_t race_ns)
{
	struct measure_batch b = {.calibration = &c->cal,
	    .budget_ns = race_ns ? race_ns : ITEM_BUDGET_NS,
	    .together = race_ns > 0,
	    .seed = 1};
	const struct objects_want w = want_of(c, a, units, n);
	struct m_measured *rows;
	struct unit **of;
	struct err e = {0};
	uint32_t at = 0;
	bool ok;

	unit_items(a, units, n, &b, &of);
	if (b.n_items == 0)
		return;
	ok = objects_link(c->objects, a, &w, &b.module, &e) &&
	    need_child(c, (uint32_t)of[0]->task->threads, &e) &&
	    measure_batch_run(c->child, a, &b, &rows, &e);
	for (uint32_t i = 0; i < b.n_items; i++) {
		struct unit *u = of[i];

		if (!ok) {
			unit_unmeasured(a, u, &e);
			continue;
		}
		for (uint32_t k = 0; k < u->n; k++)
			unit_row(a, u, k, &rows[at++].row, u->codes[k].text.n, compile_ns);
	}
}

/* Each kernel of one spec by itself: those that do not compile get their row and leave. */
static void
weed_out(struct cpu *c, struct arena *a, struct unit *u)
{
	uint32_t good = 0, n = u->n;

	for (uint32_t k = 0; k < n; k++) {
		const struct kernel_code *code = &u->codes[k];
		const struct objects_want w = {
		    .target = &u->target, .codes = &code, .n = 1, .cancel = c->conf->cancel};
		struct err e = {0};
		int64_t ns;

		if (objects_make(c->objects, &w, &ns, &e))
			unit_move(u, good++, k);
		else if (!unit_drop(a, u, k, &e))
			return;
	}
	u->n = good;
}

static bool
is_of_kernels(enum err_code c)
{
	return c == ERR_COMPILE || c == ERR_TIMEOUT || c == ERR_LIMIT;
}

/* Compiles all units; who is at fault where that fails is found by halving, and leaves. */
static void
make_all(struct cpu *c, struct arena *a, struct unit *units, uint32_t n, int64_t *ns)
{
	struct err e = {0};

	if (n == 0 || make_units(c, units, n, ns, &e))
		return;
	if (!is_of_kernels(e.code)) {
		for (uint32_t i = 0; i < n; i++)
			if (units[i].n)
				unit_fail(a, &units[i], e.code, e.msg);
	} else if (n == 1) {
		weed_out(c, a, units);
	} else {
		make_all(c, a, units, n / 2, ns);
		make_all(c, a, units + n / 2, n - n / 2, ns);
	}
}

static bool
same_kind(const struct m_task *a, const struct m_task *b)
{
	return a->threads == b->threads && str_eq(a->precision, b->precision);
}

static void
cpu_measure(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct cpu *c = self;
	struct unit *units = NEW_ARRAY(a, struct unit, n);

	for (uint32_t i = 0; i < n; i++)
		units[i] = (struct unit){.task = &tasks[i], .out = &out[i]};
	unit_make_all(c->device, a, units, n, emit);
	for (uint32_t i = 0, to; i < n && !*c->conf->cancel; i = to) {
		int64_t ns = 0;

		for (to = i + 1; to < n && same_kind(&tasks[to], &tasks[i]); to++)
			;
		make_all(c, a, units + i, to - i, &ns);
		measure_units(c, a, units + i, to - i, ns, 0);
	}
	unit_given_up(a, units, n);
}

/* One module of all kernels.  They were compiled, checked and timed before: what fails now fails as a whole.
 */
static void
cpu_race(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, int64_t budget_ns,
    struct m_outcome *out)
{
	struct cpu *c = self;
	struct unit *units = NEW_ARRAY(a, struct unit, MAX_OF(n, 1u));
	struct err e = {0};
	int64_t ns;

	for (uint32_t i = 0; i < n; i++)
		units[i] = (struct unit){.task = &tasks[i], .out = &out[i]};
	unit_make_all(c->device, a, units, n, emit);
	if (make_units(c, units, n, &ns, &e))
		measure_units(c, a, units, n, ns, MAX_OF(budget_ns / MAX_OF(n, 1u), (int64_t)1));
	else
		for (uint32_t i = 0; i < n; i++)
			unit_fail(a, &units[i], e.code, e.msg);
}

/* ---- builds, plans, canary ---------------------------------------------------------- */
/* Whether a library has a fast call for it, the measuring child sees. */
struct caller {
	struct cpu *cpu;
	uint32_t threads;
};
static bool
has_call(void *self, struct arena *a, const struct m_kernel *k, struct str schedule, struct err *e)
{
	const struct caller *x = self;
	struct bytes none;

	return need_child(x->cpu, x->threads, e) &&
	    measure_resolve(x->cpu->child, a, k->spec, schedule, &none, e);
}

static bool
cpu_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct cpu *c = self;
	struct caller caller = {c, (uint32_t)ask->threads};
	const struct build_how how = {
	    .device = c->device, .emit = emit, .has_call = has_call, .self = &caller};
	uint32_t n = ask->n_kernels;
	const struct kernel_code **list = NEW_ARRAY(a, const struct kernel_code *, MAX_OF(n, 1u));
	const char **symbols = NEW_ARRAY(a, const char *, MAX_OF(n, 1u));
	struct objects_want w = {.codes = list, .symbols = symbols, .n = n, .cancel = c->conf->cancel};
	struct build b;

	if (!build_make(a, ask, &how, &b, e))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		list[i] = &b.codes[i];
		symbols[i] = str_dup(a, ask->kernels[i].symbol);
	}
	w.target = &b.target;
	if (!objects_link(c->objects, a, &w, &out->object, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		b.codes[i].text = kernel_called(a, b.codes[i].text, ask->kernels[i].symbol);
	out->log = STR("");
	return build_describe(a, &b, prelude_c(a, &b.target), out, e);
}

static bool
cpu_time_plans(void *self, struct arena *a, const char *const *paths, uint32_t n, uint32_t threads,
    int64_t budget_ns, struct m_timing *out, struct err *e)
{
	struct cpu *c = self;
	struct m_plan_timed *t = NEW_ARRAY(a, struct m_plan_timed, MAX_OF(n, 1u));
	bool ok;

	ok = host_lock_take(&c->lock, e) && need_child(c, threads, e) &&
	    measure_plans(
		c->child, a, &c->cal, paths, n, budget_ns ? budget_ns : PLANS_BUDGET_NS * n, 1, t, e);
	host_lock_leave(&c->lock);
	for (uint32_t i = 0; ok && i < n; i++) {
		if (t[i].fail)
			return err_set(e, err_of_wire(t[i].fail), "%.*s", STR_ARG(t[i].cause));
		out[i] = t[i].timing;
	}
	return ok;
}

/* The machine is in order when it can start a child that calibrates near what it once did. */
static bool
cpu_canary(void *self, struct err *e)
{
	struct cpu *c = self;
	struct calibration now;
	bool ok;

	measure_close(c->child);
	c->child = NULL;
	ok =
	    host_lock_take(&c->lock, e) && need_child(c, 1, e) && measure_calibrate(c->child, false, &now, e);
	host_lock_leave(&c->lock);
	if (!ok)
		return false;
	return now.hw.flops_peak > c->cal.hw.flops_peak / 4 ||
	    err_set(e, ERR_THROTTLED, "the canary runs at %.0f %% of its speed",
		100 * now.hw.flops_peak / c->cal.hw.flops_peak);
}

static void
cpu_close(void *self)
{
	struct cpu *c = self;

	measure_close(c->child);
	objects_free(c->objects);
	host_lock_leave(&c->lock);
}

/* ---- opening ------------------------------------------------------------------------ */
static void
fill_env(struct arena *a, const struct calibration *cal, struct m_env *env)
{
	struct str version = STR("");
	struct err e = {0};

	env->class = str_of(str_dup(a, str_of(cal->info.device_class)));
	env->key = str_of(str_dup(a, str_of(cal->info.environment)));
	env->hash = hash_bytes(env->key.p, env->key.n);
	env->run_compat = str_of(str_dup(a, str_of(cal->info.run_compat)));
	env->compiler = compiler_version(a, &version, &e) ? version : STR("");
	env->epoch = GENERATOR_EPOCH;
	env->hw = device_hw_told(&cal->hw, &cal->target, host_cores(os_real()));
}

/* What was frozen may be of a version that had other names. */
static bool
class_here(struct cpu *c, struct err *e)
{
	struct dev_info here;

	if (!dev_cpu_describe(&here, e))
		return false;
	(void)snprintf(c->cal.info.device_class, sizeof(c->cal.info.device_class), "%s", here.device_class);
	return true;
}

bool
device_cpu_open(struct arena *a, const struct device_conf *conf, struct device *out, struct err *e)
{
	struct cpu *c = NEW(a, struct cpu);
	bool ok;

	if (conf->args.n)
		return err_set(e, ERR_USAGE, "device cpu takes no settings, not '%.*s'", STR_ARG(conf->args));
	if (conf->compiler[0] && setenv("KORCH_CC", conf->compiler, 1) != 0)
		return err_set(e, ERR_HOST, "the environment is full");
	*out = (struct device){.self = c,
	    .class = "cpu",
	    .batch = 16,
	    .measure = cpu_measure,
	    .race = cpu_race,
	    .build = cpu_build,
	    .time_plans = cpu_time_plans,
	    .canary = cpu_canary,
	    .close = cpu_close};
	c->device = out;
	c->conf = conf;
	c->objects = objects_new(OBJECT_BYTES);
	host_lock_init(&c->lock, &conf->lock, conf->cancel, HOST_LOCK_CPU);
	ok = host_lock_take(&c->lock, e) &&
	    (calibration_load(conf->data, conf->is_quick, &c->cal, &out->is_quick) ||
		(need_child(c, 1, e) && measure_calibrate(c->child, conf->is_quick, &c->cal, e) &&
		    calibration_save(conf->data, conf->is_quick, &c->cal, e)));
	host_lock_leave(&c->lock);
	if (!ok) {
		cpu_close(c);
		return false;
	}
	if (!class_here(c, e)) {
		cpu_close(c);
		return false;
	}
	out->class = c->cal.info.device_class;
	out->target = c->cal.target;
	fill_env(a, &c->cal, &out->env);
	return true;
}
