/* worker/cpu.c: the CPU of this host: generates C, compiles it in batches, has the measuring
 * child check and time it.
 *
 * A batch of tasks is cut into parts of a few dozen kernels.  Two parts are compiled side by
 * side while this worker measures nothing; then they are checked and timed one after the other.  What
 * is timed is timed under a lock of the whole host, so that two workers never time at once.  What does not
 * compile is found by halving: it costs its own row and nothing else. */
#include "build.h"
#include "calibration_cache.h"
#include "unit.h"

#include "../kernels/base/epoch.h"
#include "../kernels/base/host.h"
#include "../kernels/base/opt.h"
#include "../kernels/base/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_KERNELS = 24 };
static const int64_t ITEM_BUDGET_NS = 400000000, PLANS_BUDGET_NS = (int64_t)3000000000;

struct cpu {
	struct device *device;
	const struct device_conf *conf;
	struct calibration cal;
	struct measure_child *child;
	uint32_t child_threads;
	struct host_lock lock;
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
struct part {
	struct arena arena; /* its own: parts compile side by side */
	const atomic_bool *cancel;
	const struct target *target;
	struct unit *units;
	uint32_t n, max_files; /* of C; 0: one */
	struct bytes module;
	int64_t compile_ns;
	int64_t race_ns; /* all units side by side, about so long for each; 0: one after the other */
	struct err err;
	bool ok;
};

/* max_files 1: for callers that compile side by side themselves. */
static bool
compile_kernels(struct arena *a, const struct target *target, const atomic_bool *cancel,
    const struct kernel_code *const *codes, uint32_t n, uint32_t max_files, struct bytes *out, struct err *e)
{
	struct compile_opts o = {.flags = generate_c_flags(target), .cancel = cancel};
	struct str *texts;
	uint32_t n_files = generate_c_files(a, target, codes, n, max_files, &texts);

	return compile_files(a, texts, n_files, &o, out, e);
}

static void
compile_part(struct part *p)
{
	const struct kernel_code **codes;
	uint32_t n = 0, at = 0;
	int64_t start = os_real()->mono_ns(NULL);

	for (uint32_t i = 0; i < p->n; i++)
		n += p->units[i].n;
	codes = NEW_ARRAY(&p->arena, const struct kernel_code *, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t k = 0; k < p->units[i].n; k++)
			codes[at++] = &p->units[i].codes[k];
	p->ok = n == 0 ||
	    compile_kernels(
		&p->arena, p->target, p->cancel, codes, n, MAX_OF(p->max_files, 1u), &p->module, &p->err);
	p->compile_ns = n ? (os_real()->mono_ns(NULL) - start) / n : 0;
}

/* ---- measuring ---------------------------------------------------------------------- */
static void
measure_part(struct cpu *c, struct arena *a, struct part *p)
{
	struct measure_batch b = {.module = p->module,
	    .calibration = &c->cal,
	    .budget_ns = p->race_ns ? p->race_ns : ITEM_BUDGET_NS,
	    .together = p->race_ns > 0,
	    .seed = 1};
	struct m_measured *rows;
	struct unit **of;
	struct err e = {0};
	uint32_t at = 0;
	bool ok;

	unit_items(a, p->units, p->n, &b, &of);
	if (b.n_items == 0)
		return;
	ok = need_child(c, (uint32_t)of[0]->task->threads, &e) &&
	    measure_batch_run(c->child, a, &b, &rows, &e);
	for (uint32_t i = 0; i < b.n_items; i++) {
		struct unit *u = of[i];

		if (!ok) {
			unit_unmeasured(a, u, &e);
			continue;
		}
		for (uint32_t k = 0; k < u->n; k++)
			unit_row(a, u, k, &rows[at++].row, u->codes[k].text.n, p->compile_ns);
	}
}

/* Each kernel of one spec by itself: those that do not compile get their row and leave. */
static void
weed_out(struct arena *a, const struct part *p, struct unit *u)
{
	uint32_t good = 0, n = u->n;

	for (uint32_t k = 0; k < n; k++) {
		const struct kernel_code *code = &u->codes[k];
		struct arena tmp = {0};
		struct bytes module;
		struct err e = {0};
		bool ok = compile_kernels(&tmp, p->target, p->cancel, &code, 1, 1, &module, &e);

		arena_fini(&tmp);
		if (ok)
			unit_move(u, good++, k);
		else if (!unit_drop(a, u, k, &e))
			return;
	}
	u->n = good;
}

static void
run_part(struct cpu *c, struct arena *a, struct part *p)
{
	struct part half[2];

	if (p->ok) {
		measure_part(c, a, p);
		return;
	}
	if (p->err.code != ERR_COMPILE && p->err.code != ERR_TIMEOUT && p->err.code != ERR_LIMIT) {
		for (uint32_t i = 0; i < p->n; i++)
			if (p->units[i].n)
				unit_fail(a, &p->units[i], p->err.code, p->err.msg);
		return;
	}
	if (p->n == 1)
		weed_out(a, p, &p->units[0]);
	for (int i = 0; i < 2; i++) {
		uint32_t lo = i ? p->n / 2 : 0, hi = i ? p->n : p->n / 2;

		half[i] = (struct part){
		    .cancel = p->cancel, .target = p->target, .units = p->units + lo, .n = hi - lo};
		if (half[i].n == 0)
			continue;
		compile_part(&half[i]);
		if (p->n > 1 || half[i].ok)
			run_part(c, a, &half[i]);
		else
			unit_fail(a, &half[i].units[0], ERR_FAILED, half[i].err.msg);
		arena_fini(&half[i].arena);
	}
}

static void
compile_nth(void *self, uint32_t hand, uint32_t i)
{
	struct part *parts = self;

	(void)hand;
	compile_part(&parts[i]);
}

/* Two parts at a time: compiled side by side, measured one after the other. */
static void
run_parts(struct cpu *c, struct arena *a, struct part *parts, uint32_t n)
{
	for (uint32_t i = 0; i < n && !*c->conf->cancel; i += 2) {
		parallel_for(MIN_OF(n - i, 2u), parallel_hands(2), compile_nth, &parts[i]);
		for (uint32_t k = i; k < n && k < i + 2; k++) {
			run_part(c, a, &parts[k]);
			arena_fini(&parts[k].arena);
		}
	}
}

static bool
same_kind(const struct m_task *a, const struct m_task *b)
{
	return a->threads == b->threads && str_eq(a->precision, b->precision);
}

/* What compilers have to read, about what they take. */
static size_t
text_bytes(const struct unit *u)
{
	size_t n = 0;

	for (uint32_t k = 0; k < u->n; k++)
		n += u->codes[k].text.n;
	return n;
}

struct share { /* of a unit */
	const struct unit *unit;
	size_t bytes;
};

static int
longest_first(const void *x, const void *y)
{
	const struct share *a = x, *b = y;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return (a->unit > b->unit) - (a->unit < b->unit);
}

/* Units of one kind into parts that compilers take about as long for, at least two: the longest first, each
 * to the part that has least.  They stand together by part then. */
static uint32_t
share_out(struct cpu *c, struct arena *a, struct unit *units, uint32_t n, struct part *parts)
{
	uint32_t n_kernels = 0, n_parts, at = 0;
	struct share *s = NEW_ARRAY(a, struct share, n);
	uint32_t *part_of = NEW_ARRAY(a, uint32_t, n);
	struct unit *sorted = NEW_ARRAY(a, struct unit, n);
	size_t *bytes;

	for (uint32_t i = 0; i < n; i++) {
		s[i] = (struct share){&units[i], text_bytes(&units[i])};
		n_kernels += units[i].n;
	}
	qsort(s, n, sizeof(*s), longest_first);
	n_parts = MIN_OF(2 * MAX_OF((n_kernels + 2 * PART_KERNELS - 1) / (2 * PART_KERNELS), 1u), n);
	bytes = NEW_ARRAY(a, size_t, n_parts);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t p = 1; p < n_parts; p++)
			if (bytes[p] < bytes[part_of[i]])
				part_of[i] = p;
		bytes[part_of[i]] += s[i].bytes;
	}
	for (uint32_t p = 0; p < n_parts; p++) {
		parts[p] = (struct part){
		    .cancel = c->conf->cancel, .target = &units[at].target, .units = &units[at]};
		for (uint32_t i = 0; i < n; i++)
			if (part_of[i] == p) {
				sorted[at++] = *s[i].unit;
				parts[p].n++;
			}
	}
	memcpy(units, sorted, n * sizeof(*units));
	return n_parts;
}

static void
cpu_measure(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct cpu *c = self;
	struct unit *units = NEW_ARRAY(a, struct unit, n);
	struct part *parts = NEW_ARRAY(a, struct part, n);
	uint32_t n_parts = 0;

	for (uint32_t i = 0; i < n; i++)
		units[i] = (struct unit){.task = &tasks[i], .out = &out[i]};
	unit_make_all(c->device, a, units, n, generate_kernel);
	for (uint32_t i = 0, to; i < n; i = to) {
		for (to = i + 1; to < n && same_kind(&tasks[to], &tasks[i]); to++)
			;
		n_parts += share_out(c, a, units + i, to - i, parts + n_parts);
	}
	run_parts(c, a, parts, n_parts);
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
	struct part all = {.cancel = c->conf->cancel,
	    .target = &units[0].target,
	    .units = units,
	    .n = n,
	    .max_files = COMPILE_MAX_FILES,
	    .race_ns = MAX_OF(budget_ns / MAX_OF(n, 1u), (int64_t)1)};

	for (uint32_t i = 0; i < n; i++)
		units[i] = (struct unit){.task = &tasks[i], .out = &out[i]};
	unit_make_all(c->device, a, units, n, generate_kernel);
	compile_part(&all);
	if (all.ok)
		measure_part(c, a, &all);
	else
		for (uint32_t i = 0; i < n; i++)
			unit_fail(a, &units[i], all.err.code, all.err.msg);
	arena_fini(&all.arena);
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
	    .device = c->device, .emit = generate_kernel, .has_call = has_call, .self = &caller};
	const struct kernel_code **list =
	    NEW_ARRAY(a, const struct kernel_code *, MAX_OF(ask->n_kernels, 1u));
	struct build b;

	if (!build_make(a, ask, &how, &b, e))
		return false;
	for (uint32_t i = 0; i < ask->n_kernels; i++)
		list[i] = &b.codes[i];
	out->log = STR("");
	return build_describe(a, &b, prelude_c(a, &b.target), out, e) &&
	    compile_kernels(
		a, &b.target, c->conf->cancel, list, ask->n_kernels, COMPILE_MAX_FILES, &out->object, e);
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
