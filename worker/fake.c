/* worker/fake.c: the fake device: times and faults from a hash of (spec, schedule, seed), no
 * compiler, nothing runs.  It carries the tests of farm, store and planner: same input, same
 * rows, on every host.
 *
 * Settings beside those of fake_read(): slow=N makes every task take N milliseconds; lost=N (per million)
 * loses the device itself for a task, which no kernel is to blame for; clock=N: this session's clock is N
 * hundredths of calibration's, so whole plans take longer by that, and kernels' times are put right. */
#include "build.h"

#include "../kernels/base/epoch.h"
#include "../kernels/device/dev.h"
#include "../kernels/predict/least.h"
#include "../kernels/run/plan.h"
#include "../schema/plan_file.h"

#include <string.h>
#include <time.h>

struct fake {
	struct device *device;
	struct hw hw;
	uint64_t seed, slow_ms, lost, clock, n_asked;
	struct fake_rates rates;
	const atomic_bool *cancel;
};

/* No faster than what is expected of any device: the spec's bound, and what the schedule takes at least. */
static struct fake_time
time_of(const struct fake *f, const struct spec *s, struct str schedule)
{
	int64_t least = schedule_least_ns(
	    s, schedule, &f->device->target, &f->hw, STR(""), cost_bound_ns(s, &f->hw, NULL));

	return fake_measure(s->text, schedule, least, f->seed, &f->rates);
}

static void
fake_row(const struct fake *f, const struct spec *s, struct str schedule, struct m_row *row)
{
	struct fake_time t = time_of(f, s, schedule);

	*row = (struct m_row){.schedule = schedule,
	    .cause = STR(""),
	    .stop = STR("converged"),
	    .clock_ratio = f->clock ? (double)f->clock / 100 : 1};
	if (t.status != ERR_NONE) {
		row->fail = (uint64_t)err_wire(t.status);
		row->cause = str_of(err_text(t.status));
		row->stop = STR("");
		return;
	}
	row->median_ns = t.ns;
	row->p10_ns = MAX_OF(t.ns - t.spread_ns / 2, (int64_t)1);
	row->p90_ns = t.ns + t.spread_ns / 2;
	row->min_ns = row->p10_ns;
	row->samples = 20;
}

static void
fake_one(struct fake *f, struct arena *a, const struct m_task *t, struct m_outcome *out)
{
	struct unit u = {.task = t, .out = out};

	unit_make(f->device, a, &u, 0, generate_kernel);
	for (uint32_t i = 0; i < u.n; i++)
		fake_row(f, &u.spec, u.kernels[i].schedule, &out->rows[out->n_rows++]);
}

static void
fake_sleep(const struct fake *f)
{
	struct timespec ms = {.tv_nsec = 1000000};

	for (uint64_t i = 0; i < f->slow_ms && !*f->cancel; i++)
		(void)nanosleep(&ms, NULL);
}

static void
fake_measure_all(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct fake *f = self;

	for (uint32_t i = 0; i < n; i++) {
		fake_sleep(f);
		if (mix64(f->seed ^ ++f->n_asked) % 1000000 < f->lost) {
			out[i].fail = (uint64_t)err_wire(ERR_DEVLOST);
			out[i].cause = STR("the fake device was lost, as asked");
			continue;
		}
		fake_one(f, a, &tasks[i], &out[i]);
	}
}

/* Its machine code are words of what was asked for; what describes it is as a CPU's. */
static bool
fake_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct fake *f = self;
	const struct build_how how = {.device = f->device, .emit = generate_kernel};
	struct strbuf sb;
	struct build b;

	if (!build_make(a, ask, &how, &b, e))
		return false;
	sb_init(&sb, a);
	sb_addz(&sb, "fake object\n");
	for (uint32_t i = 0; i < ask->n_kernels; i++) {
		struct hash h = hash_bytes(ask->kernels[i].spec.p, ask->kernels[i].spec.n);
		char hex[65];

		hash_hex(&h, hex);
		sb_addf(&sb, "%.*s %s %.*s\n", STR_ARG(ask->kernels[i].symbol), hex,
		    STR_ARG(build_schedule(&b, i)));
	}
	*out = (struct built){.object = {(const uint8_t *)sb.p, sb.n}, .log = STR("")};
	return build_describe(a, &b, prelude_c(a, &b.target), out, e);
}

/* A step takes what this device would say of its kernel, measured or not. */
static int64_t
fake_plan_ns(const struct fake *f, struct arena *tmp, const struct plan *p)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];
		struct fake_time t = {0};
		struct err none = {0};
		struct spec s;

		if (!plan_kernel_is_view(k) && spec_read(tmp, k->spec, &s, &none))
			t = time_of(f, &s, k->schedule);
		sum += MAX_OF(t.ns, k->is_measured ? k->cost_ns : 1);
	}
	return sum;
}

static bool
fake_time_plans(void *self, struct arena *a, const char *const *paths, uint32_t n, uint32_t threads,
    int64_t budget_ns, struct m_timing *out, struct err *e)
{
	const struct fake *f = self;

	(void)a;
	(void)threads;
	(void)budget_ns;
	/* a little under the sum of its kernels, as on a real device */
	for (uint32_t i = 0; i < n; i++) {
		struct arena tmp = {0};
		struct plan p;
		bool ok = plan_load(&tmp, paths[i], &p, NULL, e);

		int64_t ns = ok ? fake_plan_ns(f, &tmp, &p) : 0;

		if (f->clock)
			ns = ns * 100 / (int64_t)f->clock;
		if (ok)
			out[i] = (struct m_timing){.median_ns = MAX_OF(ns - ns / 50, (int64_t)1),
			    .min_ns = MAX_OF(ns - ns / 40, (int64_t)1),
			    .spread_ns = ns / 100,
			    .samples = 20,
			    .clock_ratio = (double)f->clock / 100};
		arena_fini(&tmp);
		if (!ok)
			return false;
	}
	return true;
}

static bool
fake_canary(void *self, struct err *e)
{
	(void)self;
	(void)e;
	return true;
}

static void
fake_close(void *self)
{
	(void)self;
}

/* Takes our own settings out of the text; the rest is fake_read's. */
static bool
read_args(struct arena *a, struct fake *f, struct str args, struct err *e)
{
	struct strbuf rest;
	struct str class = {0};

	sb_init(&rest, a);
	while (args.n) {
		struct str word = str_cut(&args, ','), value = word, key = str_cut(&value, '=');
		int64_t v = 0;
		bool ours = str_is(key, "slow") || str_is(key, "lost") || str_is(key, "clock");

		if (ours && (!str_to_i64(value, &v) || v < 0))
			return err_set(e, ERR_USAGE, "fake device: '%.*s' wants a number", STR_ARG(word));
		if (str_is(key, "slow"))
			f->slow_ms = (uint64_t)v;
		else if (str_is(key, "clock"))
			f->clock = (uint64_t)v;
		else if (ours)
			f->lost = (uint64_t)v;
		else if (str_is(key, "class"))
			class = value;
		else if (word.n)
			sb_addf(&rest, "%s%.*s", rest.n ? "," : "", STR_ARG(word));
	}
	if (!fake_read(sb_str(&rest), &f->seed, &f->rates, e))
		return false;
	if (class.n)
		f->device->class = str_dup(a, class);
	/* speed, losses and the hour's clock decide no result, so they are no part of the environment */
	f->device->env.key = str_of(arena_printf(a, "%s%.*s%sdevice=fake %s", class.n ? "class=" : "",
	    STR_ARG(class), class.n ? " " : "", rest.p));
	return true;
}

bool
device_fake_open(struct arena *a, const struct device_conf *conf, struct device *out, struct err *e)
{
	struct fake *f = NEW(a, struct fake);

	*out = (struct device){.self = f,
	    .class = "fake",
	    .batch = 16,
	    .target = target_avx2,
	    .measure = fake_measure_all,
	    .build = fake_build,
	    .time_plans = fake_time_plans,
	    .canary = fake_canary,
	    .close = fake_close};
	f->device = out;
	f->cancel = conf->cancel;
	/* about a core of today; the numbers only have to be the same everywhere */
	f->hw = (struct hw){.flops_peak = 1e11,
	    .bytes_per_s = {2e11, 1e11, 5e10, 1.5e10},
	    .level_bytes = {out->target.l1_bytes, out->target.l2_bytes, out->target.l3_bytes},
	    .call_ns = 50,
	    .barrier_ns = 20,
	    .simd_bytes = out->target.simd_bytes,
	    .lanes = out->target.simd_bytes / (int)sizeof(float),
	    .n_threads = 1};
	if (!read_args(a, f, conf->args, e))
		return false;
	out->env.class = str_of(out->class);
	out->env.run_compat = STR("fake");
	out->env.compiler = STR("none");
	out->env.epoch = GENERATOR_EPOCH;
	out->env.hash = hash_bytes(out->env.key.p, out->env.key.n);
	out->env.hw = device_hw_told(&f->hw, &out->target, 1);
	return true;
}
