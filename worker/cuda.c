/* worker/cuda.c: one GPU of this host: generates CUDA C, compiles each kernel by NVRTC in children of
 * their own, has the measuring child check and time what compiled.
 *
 * The child works under a lock of the physical GPU, and is kept with its context while nothing fails and
 * nobody else wants the GPU (gpu_keep.h): two workers take turns, and an idle context of ours never disturbs
 * a measurement.  After a crash, a hang or a loss the device has to prove itself (reference kernels, right
 * and as fast as ever) before it takes the next task. */
#include "cuda_int.h"

#include "../kernels/base/epoch.h"
#include "../kernels/cost/gpu.h"
#include "../proto/range.h"
#include "calibration_cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double margin = 1.1; /* D16 */
static const int64_t ITEM_BUDGET_NS = 400000000, PLANS_BUDGET_NS = (int64_t)3000000000;

/* ---- the device is ours for a while ---------------------------------------------------- */
bool
cuda_take(struct cuda *c, struct err *e)
{
	bool ok = gpu_keep_take(&c->keep, e);

	c->child = c->keep.child;
	c->is_spent = !ok;
	return ok;
}

void
cuda_leave(struct cuda *c)
{
	c->child = NULL;
	gpu_keep_leave(&c->keep, !c->is_spent && !c->is_suspect);
}

/* Right results, and at least half as fast as when it was calibrated. */
static bool
prove(struct cuda *c, struct err *e)
{
	struct calibration now;
	bool ok;

	if (!host_lock_take(&c->keep.lock, e)) /* which tells nothing of the GPU */
		return false;
	c->is_suspect = false; /* a child that proves it is as good as any */
	ok = cuda_take(c, e) && measure_calibrate_gpu(c->child, c->refs, &now, e);
	c->is_spent |= !ok;
	cuda_leave(c);
	if (!ok) {
		if (e->code != ERR_CANCELLED)
			e->code = ERR_DEVLOST;
		return err_in(e, "the GPU does not come back");
	}
	for (int i = 0; i < REF_COUNT; i++)
		if (c->cal.ref_ns[i] > 0 && now.ref_ns[i] > 2 * c->cal.ref_ns[i])
			return err_set(e, ERR_THROTTLED,
			    "the GPU's reference kernel takes %lld ns, and took %lld ns",
			    (long long)now.ref_ns[i], (long long)c->cal.ref_ns[i]);
	return true;
}

/* ---- from rows to outcomes -------------------------------------------------------------- */
bool
cuda_is_machine(enum err_code fail)
{
	return fail == ERR_DEVLOST || fail == ERR_THROTTLED || fail == ERR_BUSY || fail == ERR_HOST ||
	    fail == ERR_MEMORY || fail == ERR_DEVICE || fail == ERR_FAILED || fail == ERR_IO;
}

bool
cuda_emit(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct str moves;

	(void)symbol;
	(void)sip_split(schedule, &schedule, &moves);
	return generate_kernel(a, s, schedule, t, "k", out, e);
}

static void
take_rows(struct cuda *c, struct arena *a, struct unit *u, const struct m_measured *rows)
{
	for (uint32_t k = 0; k < u->n; k++) {
		enum err_code fail = err_of_wire(rows[k].row.fail);
		struct m_row row = rows[k].row;

		c->is_suspect |= fail == ERR_CRASH || fail == ERR_TIMEOUT || fail == ERR_DEVLOST;
		if (cuda_is_machine(fail)) {
			unit_fail(a, u, fail, str_dup(a, row.cause));
			return;
		}
		if (row.state.n) /* it was timed on a GPU */
			row.state = cuda_figures(c, a, u, k, row.state);
		unit_row(a, u, k, &row, u->made[k].cubin.n, u->made[k].compile_ns);
	}
}

/* A kernel that went wrong may have written anywhere in its context. */
static bool
any_failed(const struct unit *units, uint32_t n, const struct m_measured *rows)
{
	for (uint32_t i = 0, at = 0; i < n; i++)
		for (uint32_t k = 0; k < units[i].n; k++, at++)
			if (rows[at].row.fail && err_of_wire(rows[at].row.fail) != ERR_INFEASIBLE)
				return true;
	return false;
}

static void
measure_units(struct cuda *c, struct arena *a, struct unit *units, uint32_t n)
{
	struct measure_batch b = {.calibration = &c->cal, .budget_ns = ITEM_BUDGET_NS, .seed = 1};
	struct m_measured *rows;
	struct unit **of;
	struct err e = {0};
	uint32_t at = 0;
	bool ok;

	unit_items(a, units, n, &b, &of);
	if (b.n_items == 0)
		return;
	b.module = cuda_module(c, a, units, n);
	ok = cuda_take(c, &e) && measure_batch_run(c->child, a, &b, &rows, &e);
	c->is_spent |= !ok || any_failed(units, n, rows);
	cuda_leave(c);
	for (uint32_t i = 0; i < b.n_items; i++) {
		uint32_t n_rows = of[i]->n;

		if (!ok)
			unit_unmeasured(a, of[i], &e);
		else
			take_rows(c, a, of[i], rows + at);
		at += n_rows;
	}
}

static void
cuda_measure(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out)
{
	struct cuda *c = self;
	struct unit *units = NEW_ARRAY(a, struct unit, n);
	struct err e = {0};
	bool is_well = !c->is_suspect || prove(c, &e);

	c->is_suspect = !is_well;
	for (uint32_t i = 0; i < n; i++) {
		units[i] = (struct unit){.task = &tasks[i], .out = &out[i]};
		if (!is_well)
			unit_fail(a, &units[i], e.code, e.msg);
	}
	if (!is_well)
		return;
	unit_make_all(c->device, a, units, n, cuda_emit);
	cuda_compile_all(c, a, units, n);
	cuda_order_all(c, a, units, n);
	measure_units(c, a, units, n);
	unit_given_up(a, units, n);
}

/* ---- builds, plans, canary ---------------------------------------------------------------- */
static bool
cuda_time_plans(void *self, struct arena *a, const char *const *paths, uint32_t n, uint32_t threads,
    int64_t budget_ns, struct m_timing *out, struct err *e)
{
	struct cuda *c = self;
	struct m_plan_timed *t = NEW_ARRAY(a, struct m_plan_timed, MAX_OF(n, 1u));
	bool ok = cuda_take(c, e) &&
	    measure_plans(c->child, a, NULL, paths, n, budget_ns ? budget_ns : PLANS_BUDGET_NS, 1, t, e);

	(void)threads;
	c->is_spent |= !ok;
	cuda_leave(c);
	for (uint32_t i = 0; ok && i < n; i++) {
		if (t[i].fail)
			return err_set(e, err_of_wire(t[i].fail), "%.*s", STR_ARG(t[i].cause));
		out[i] = t[i].timing;
	}
	return ok;
}

static bool
cuda_canary(void *self, struct err *e)
{
	struct cuda *c = self;
	bool ok = prove(c, e);

	c->is_suspect = !ok;
	return ok;
}

static void
cuda_close(void *self)
{
	struct cuda *c = self;

	gpu_keep_close(&c->keep);
	cuda_compilers_close(c);
	gpu_close(&c->gpu);
}

/* ---- opening ------------------------------------------------------------------------------- */
double
cuda_tensor_flops(const struct cuda *c, bool is_half)
{
	const struct gpu_facts *f = &c->facts;
	double sheet = cost_gpu_tensor_flops(f->name, f->sm, f->n_sm, f->sm_mhz, is_half);

	return is_half ? fmax(sheet, c->cal.hw.tensor_peak * margin) : sheet;
}

static void
fill_env(struct arena *a, const struct cuda *c, struct m_env *env)
{
	const struct hw *h = &c->cal.hw;

	env->class = str_of(str_dup(a, str_of(c->info.device_class)));
	env->key = str_of(str_dup(a, str_of(c->info.environment)));
	env->hash = hash_bytes(env->key.p, env->key.n);
	env->run_compat = str_of(str_dup(a, str_of(c->info.run_compat)));
	env->compiler = str_of(arena_printf(a, "NVRTC %d.%d", c->facts.rtc / 1000, c->facts.rtc / 10 % 100));
	env->epoch = GENERATOR_EPOCH;
	env->hw = device_hw_told(h, &target_cuda, c->facts.n_sm);
	env->hw.l1_bytes = h->level_bytes[0];
	env->hw.l2_bytes = h->level_bytes[1];
	env->hw.l3_bytes = h->level_bytes[2];
	env->hw.sm = c->facts.sm;
	env->hw.half_flops = cuda_tensor_flops(c, true);
	env->hw.tf32_flops = cuda_tensor_flops(c, false);
}

/* "0", or the fake's settings, which say by dev=N. */
static bool
read_args(struct arena *a, struct cuda *c, struct err *e)
{
	int64_t number = 0;
	struct str args = c->conf->args;

	if (c->conf->is_fake)
		c->fake = args.n ? str_dup(a, args) : "gpu=a100";
	else if (args.n && (!str_to_i64(args, &number) || number < 0 || number > 1023))
		return err_set(e, ERR_USAGE, "cuda:%.*s names no GPU; it is cuda:0, cuda:1 ... or cuda:all",
		    STR_ARG(args));
	c->number = (int)number;
	return true;
}

static bool
open_gpu(struct cuda *c, struct err *e)
{
	int n;

	if (!c->conf->is_fake)
		gpu_open(&c->gpu);
	else if (!gpu_fake_open(str_of(c->fake), &c->gpu, e))
		return false;
	if (c->conf->is_fake) {
		c->kernel_ns = gpu_fake_kernel_ns();
		c->number = gpu_fake_taken();
	}
	if (!gpu_ready(&c->gpu, true, &n, e))
		return false;
	if (c->number >= n)
		return err_set(e, ERR_HOST, "there is no GPU %d: the driver sees %d", c->number, n);
	return gpu_facts(&c->gpu, c->number, &c->facts, e) && gpu_rtc_choose(&c->gpu, c->facts.sm, e) &&
	    gpu_facts(&c->gpu, c->number, &c->facts, e); /* with the version of the NVRTC that was chosen */
}

/* Their versions, asked for in a child that ends: they are large.  Where another one competes, another
 * schedule may win: so they are part of the environment. */
static bool
find_libraries(struct cuda *c, struct arena *a, struct err *e)
{
	struct measure_opts o = {
	    .device = "nvrtc", .fake = c->fake, .n_threads = 1, .cancel = c->conf->cancel};
	struct measure_child *child;
	struct strbuf sb;
	size_t at = strlen(c->info.environment);
	bool ok;

	if (!measure_open(&o, &child, e))
		return false;
	ok = measure_libraries(child, c->device->target.library, e);
	measure_close(child);
	sb_init(&sb, a);
	for (int l = 0; ok && l < LIBRARY_COUNT; l++) {
		if (!c->device->target.library[l])
			continue;
		sb_addz(&sb, "library=");
		library_print(&sb, (enum library)l, c->device->target.library[l]);
		sb_addc(&sb, '\n');
	}
	(void)snprintf(
	    c->info.environment + at, sizeof(c->info.environment) - at, "%.*s", STR_ARG(sb_str(&sb)));
	return ok;
}

static bool
need_calibration(struct cuda *c, struct arena *a, struct err *e)
{
	size_t at = strlen(c->info.environment);
	bool ok;

	(void)snprintf(
	    c->info.environment + at, sizeof(c->info.environment) - at, "epoch=%d\n", GENERATOR_EPOCH);
	if (calibration_load_for(c->conf->data, c->info.environment, &c->cal))
		return true;
	ok = cuda_refs_build(c, a, GPU_REFS, e) && cuda_take(c, e) &&
	    measure_calibrate_gpu(c->child, c->refs, &c->cal, e);
	c->is_spent |= !ok;
	cuda_leave(c);
	if (!ok && e->code == ERR_DEVICE) /* a driver that does not load what NVRTC makes */
		e->code = ERR_HOST;
	return ok && calibration_save_for(c->conf->data, c->info.environment, &c->cal, e);
}

static void
keep_init(struct cuda *c)
{
	struct measure_opts o = {.device = c->device_words,
	    .fake = c->fake,
	    .n_threads = 1,
	    .cancel = c->conf->cancel,
	    .kernel_ns = c->kernel_ns};

	gpu_keep_init(&c->keep, &o, &c->conf->lock, c->facts.pci);
}

bool
device_cuda_open(struct arena *a, const struct device_conf *conf, struct device *out, struct err *e)
{
	struct cuda *c = NEW(a, struct cuda);

	*out = (struct device){.self = c,
	    .class = c->info.device_class,
	    .info = &c->cal.info,
	    .batch = 16,
	    .target = target_cuda,
	    .measure = cuda_measure,
	    .perturb = cuda_perturb,
	    .build = cuda_build,
	    .time_plans = cuda_time_plans,
	    .canary = cuda_canary,
	    .close = cuda_close};
	c->device = out;
	c->conf = conf;
	c->fake = "";
	if (!read_args(a, c, e) || !open_gpu(c, e)) {
		cuda_close(c);
		return false;
	}
	c->device_words = arena_printf(a, "cuda:%d", c->number);
	gpu_describe(&c->facts, &c->info);
	out->target.sm = c->facts.sm;
	keep_init(c);
	if (!find_libraries(c, a, e) || !cuda_refs_build(c, a, GPU_REF_TENSOR, e) ||
	    !need_calibration(c, a, e)) {
		cuda_close(c);
		return false;
	}
	fill_env(a, c, &out->env);
	out->tensor_flops = c->cal.hw.tensor_peak;
	return true;
}
