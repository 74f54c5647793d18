/* Which schedules of a kernel are compiled, by a desk that tells what each of them takes (desk.h): a device
 * that the trained predictor knows, whose times are near what it says. */
#include "../../daemon/planner/device.h"
#include "../../daemon/planner/order.h"
#include "../../kernels/generate/generate.h"
#include "../../kernels/predict/first.h"
#include "../models/gen.h"
#include "../models/nets.h"
#include "desk.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { FIRST_WORLD = 7 };
static struct predictor predictor;
static uint64_t world = FIRST_WORLD; /* of those times */
static double spread;                /* of a schedule's time about what is predicted */

/* The middle of what training saw. */
static double
device_number(enum spec_feature f)
{
	const struct predict_model *m = &predictor.head[HEAD_KERNEL];

	return exp(((double)m->least[f] + (double)m->most[f]) / 2);
}

static struct target
target_of(const struct desk *d)
{
	return env_target(&d->env, false, true, PRECISION_F32);
}

static int64_t
predicted_ns(struct desk *d, const struct spec *s, struct str heat, struct str schedule)
{
	struct arena tmp = {0};
	struct target t = target_of(d);
	struct hw hw = env_hw(&d->env, 1, true);
	struct sample sample;
	struct prediction p;
	struct err e = {0};

	if (!sample_make(&tmp, s, schedule, &t, &hw, heat, &sample, &e))
		fail_msg("%s", e.msg);
	predict_sample(&predictor, &sample, &p);
	arena_fini(&tmp);
	return MAX_OF((int64_t)p.ns, (int64_t)1);
}

/* About as predicted, by a number made of both texts between -1 and 1. */
static int64_t
near_prediction(struct desk *d, const struct spec *s, struct str heat, struct str schedule)
{
	uint64_t h = hash64(schedule.p, schedule.n, hash64(s->structure.b, sizeof(s->structure.b), world));
	double off = (double)(int)(h % 2001) / 1000 - 1;

	return (int64_t)((double)predicted_ns(d, s, heat, schedule) * exp(spread * off));
}

/* A whole plan takes what its kernels take. */
static int64_t
itself(const struct hash *spec, int64_t first_ns)
{
	(void)spec;
	return first_ns;
}

static double
unused(const struct hash *spec, int64_t bound_ns)
{
	(void)spec;
	(void)bound_ns;
	return 1;
}

static void
open_known_device(struct desk *d)
{
	struct m_hw *h = &d->env.hw;

	desk_open(d, unused);
	*h = (struct m_hw){.flops_peak = device_number(SPEC_device_flops_peak),
	    .l1_bytes_per_s = device_number(SPEC_device_l1),
	    .l2_bytes_per_s = device_number(SPEC_device_l2),
	    .l3_bytes_per_s = device_number(SPEC_device_l3),
	    .dram_bytes_per_s = device_number(SPEC_device_dram),
	    .l1_bytes = (int64_t)device_number(SPEC_device_l1_bytes),
	    .l2_bytes = (int64_t)device_number(SPEC_device_l2_bytes),
	    .l3_bytes = (int64_t)device_number(SPEC_device_l3_bytes),
	    .call_ns = device_number(SPEC_device_call),
	    .barrier_ns = device_number(SPEC_device_barrier) - 1,
	    .simd_bytes = 64,
	    .n_vregs = 32,
	    .n_cores = 2};
	d->hw = env_hw(&d->env, 1, true);
	d->effort = 4;
	d->way = near_prediction;
	d->truth = itself;
	spread = 0;
}

/* What it is expected to gain, beside numbers known by other means: nothing to gain where it is far above,
 * the whole difference where it is surely below, sigma over the root of two pi where both are equal. */
static void
gains(void **state)
{
	(void)state;
	assert_true(predict_gain(100, 200, 0.1) < 1e-6);
	assert_true(fabs(predict_gain(100, 50, 0.01) - 50) < 0.01);
	assert_true(fabs(predict_gain(100, 50, 0) - 50) < 1e-9 && predict_gain(100, 150, 0) <= 0);
	assert_true(fabs(predict_gain(100, 100 * exp(-0.005), 0.1) - 100 * 0.1 / sqrt(2 * M_PI)) < 0.05);
	assert_true(predict_gain(0, 50, 0.1) <= 0 && predict_gain(-5, 50, 0.1) <= 0);
}

/* Where the predictor is right, a kernel is compiled by the schedules that it puts first, and the plan is as
 * good as the one of a proof, for which all are compiled, each once. */
static void
losers_are_not_compiled(void **state)
{
	struct desk d, all;
	struct plan plan, best;
	struct m_progress p;
	uint32_t n_named, n_ways, n_kernels;

	(void)state;
	open_known_device(&d);
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	n_kernels = d.n_measured - d.n_again;
	n_named = d.n_named;
	n_ways = d.n_named_ways;
	assert_false(plan.proved);
	/* The plan of before measuring may be the fastest as a whole; it holds kernels that nobody needed. */
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(
		    plan.kernels[i].is_measured || str_is(plan.winner, "what was known before measuring"));
	open_known_device(&all);
	p = desk_job(&all, 3600 * SECOND, true, &best);
	assert_true(best.proved && str_is(p.stop, "no candidate can beat the plan"));
	assert_true(plan.latency_ns >= best.latency_ns);
	/* several changes, none of which is expected to gain a percent by itself, are left to a proof */
	assert_true((double)plan.latency_ns <= 1.06 * (double)best.latency_ns);
	/* one each, two of those of less than a microsecond, of which nothing is predicted; more of few */
	assert_true(n_named >= n_kernels && n_kernels >= 10 && n_ways < 2 * n_named);

	desk_close(&all);
	/* a proof on top: what was left out is compiled, and nothing again */
	(void)desk_job(&d, 3600 * SECOND, true, &plan);
	assert_true(plan.proved && plan.latency_ns == best.latency_ns && d.n_ways > 0);
	desk_close(&d);
}

/* Where it is off, kernels of the plan get a second look, and the others do not. */
static void
second_looks(void **state)
{
	struct desk d;
	struct plan plan, best;
	struct m_progress p;
	uint32_t n_kernels, n_again;

	(void)state;
	open_known_device(&d);
	spread = 0.15;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_int_equal(p.measured, d.n_measured - d.n_again); /* kernels, not looks */
	n_again = d.n_again;
	n_kernels = d.n_measured - n_again;
	assert_true(n_again > 0 && n_again * 2 < n_kernels);
	/* what is known by some of its schedules is not asked for again */
	(void)desk_job(&d, 7200 * SECOND, false, &best);
	assert_true(d.n_measured * 10 < n_kernels);
	assert_true(best.latency_ns <= plan.latency_ns);
	desk_close(&d);
}

/* That the first schedules of a kernel fail says nothing of the others: they are tried. */
static void
failed_first(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;

	(void)state;
	open_known_device(&d);
	d.first_fails = true;
	p = desk_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_failed > 0 && p.failed < d.n_failed);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(plan.kernels[i].is_measured);
	desk_close(&d);
}

/* With nothing measured each kernel is built by what is expected to be its fastest schedule. */
static void
guesses_are_predicted(void **state)
{
	struct desk d;
	struct plan plan;
	uint32_t n = 0;

	(void)state;
	open_known_device(&d);
	(void)desk_job(&d, 0, false, &plan);
	for (uint32_t i = 0; i < plan.n_kernels; i++) {
		const struct plan_kernel *k = &plan.kernels[i];
		struct target t = target_of(&d);
		struct str *list;
		struct spec s;
		uint32_t n_list;
		struct str heat = plan_heat(&plan, i);
		int64_t least = INT64_MAX;
		struct err e = {0};

		if (plan_kernel_is_view(k) || k->bound_ns < 2000) /* far below a microsecond */
			continue;
		if (!spec_read(&d.a, k->spec, &s, &e))
			fail_msg("%s", e.msg);
		space_list(&d.a, &s, &t, (uint32_t)d.effort, text_outcome, &list, &n_list);
		for (uint32_t w = 0; w < n_list; w++)
			least = MIN_OF(least, predicted_ns(&d, &s, heat, list[w]));
		assert_true((double)predicted_ns(&d, &s, heat, k->schedule) <= 1.1 * (double)least);
		n += k->schedule.n > 0;
	}
	assert_true(n > 0); /* the defaults are not all that is taken */
	desk_close(&d);
}

/* What the kernel takes by that schedule, whatever is said of it. */
static double
true_ns(struct desk *d, const struct plan *plan, uint32_t kernel, struct str schedule)
{
	struct spec s;
	struct err e = {0};

	if (!spec_read(&d->a, plan->kernels[kernel].spec, &s, &e))
		fail_msg("%s", e.msg);
	return (double)d->way(d, &s, plan_heat(plan, kernel), schedule);
}

/* A whole plan's. */
static double
true_sum(struct desk *d, const struct plan *plan)
{
	double sum = 0;

	for (uint32_t i = 0; i < plan->n_steps; i++) {
		const uint32_t k = plan->steps[i].kernel;

		if (!plan_kernel_is_view(&plan->kernels[k]))
			sum += true_ns(d, plan, k, plan->kernels[k].schedule);
	}
	return sum;
}

/* Kernels of the plan that the other has by another schedule, over what they take by that one: which kernels
 * a plan has is another question than how they are made.  0: there are none. */
static double
true_ratio(struct desk *d, const struct plan *plan, const struct plan *other)
{
	double ours = 0, theirs = 0;

	for (uint32_t k = 0; k < plan->n_kernels; k++)
		for (uint32_t i = 0; i < other->n_kernels && !plan_kernel_is_view(&plan->kernels[k]); i++) {
			const struct plan_kernel *o = &other->kernels[i];

			if (plan_kernel_is_view(o) || !str_eq(o->spec, plan->kernels[k].spec) ||
			    str_eq(o->schedule, plan->kernels[k].schedule))
				continue;
			ours += true_ns(d, plan, k, plan->kernels[k].schedule);
			theirs += true_ns(d, plan, k, o->schedule);
		}
	return theirs > 0 ? ours / theirs : 0;
}

/* Another model's kernels were measured by all of their schedules: what kernels take that the plan for
 * nothing makes otherwise for that, beside what they took (0: there are none); is_tuned: then a tuned plan is
 * no worse than one by a store that knows of no other model. */
static double
gain_by_siblings(bool is_tuned)
{
	struct desk d, fresh;
	struct plan plan, alone;
	double gain;

	open_known_device(&d);
	open_known_device(&fresh);
	spread = 0.3;
	d.model = "efficientvit_b1_small";
	(void)desk_job(&d, 3600 * SECOND, true, &plan);
	d.end_key = (struct hash){{0}}; /* another model is another job */
	d.has_siblings = true;
	d.model = fresh.model = "efficientvit_small";
	(void)desk_job(&d, 0, false, &plan);
	(void)desk_job(&fresh, 0, false, &alone);
	assert_true(d.n_told > 0);
	gain = true_ratio(&d, &plan, &alone);
	if (is_tuned) {
		(void)desk_job(&d, 3600 * SECOND, false, &plan);
		(void)desk_job(&fresh, 3600 * SECOND, false, &alone);
		/* both searches end where nothing is expected to gain a hundredth */
		assert_true((double)plan.latency_ns <= 1.03 * (double)alone.latency_ns);
	}
	desk_close(&fresh);
	desk_close(&d);
	return gain;
}

/* Which schedule is best is known of kernels with other extents: in the middle of some worlds, for in one of
 * them luck decides about a twentieth. */
static void
siblings_say_what_is_fast(void **state)
{
	enum { WORLDS = 6 };
	double sum = 0;
	int n = 0;

	(void)state;
	for (world = FIRST_WORLD; world < FIRST_WORLD + WORLDS; world++) {
		double gain = gain_by_siblings(world == FIRST_WORLD);

		sum += gain > 0 ? log(gain) : 0;
		n += gain > 0;
	}
	world = FIRST_WORLD;
	print_message("what is made otherwise, in %d worlds, takes, of what it took: %.3f\n", n,
	    exp(sum / MAX_OF(n, 1)));
	assert_true(n * 2 >= WORLDS); /* else nothing was learned */
	assert_true(exp(sum / n) <= 0.95);
}

/* The same small Candy with an input of that size; what it is called among the desk's models. */
static const char *
candy_of(struct desk *d, int64_t size)
{
	const char *name = arena_printf(&d->a, "candy_%d", (int)size);
	const char *folder = arena_printf(&d->a, "%s/%s", d->dir, name);
	struct gen *g = gen_new("candy", 1);
	struct err e = {0};

	net_candy(g, true, size);
	if (mkdir(folder, 0700) != 0 || !gen_write(g, arena_printf(&d->a, "%s/model.onnx", folder), &e))
		fail_msg("%s: %s", folder, e.msg);
	gen_free(g);
	return name;
}

/* A kernel's fastest schedule is no other one for its extents, and how far it is from what is predicted is no
 * other number: by its structure and its weights. */
static int64_t
as_at_other_sizes(struct desk *d, const struct spec *s, struct str heat, struct str schedule)
{
	uint64_t h = hash64(s->structure.b, sizeof(s->structure.b), world);
	double own, way;

	for (uint32_t i = 0; i < s->g.n_inputs; i++) {
		const struct tensor *t = graph_tensor(&s->g, s->g.inputs[i]);

		if (t->role == ROLE_WEIGHT)
			h = hash64(t->shape.dim, (size_t)t->shape.rank * sizeof(t->shape.dim[0]), h);
	}
	own = (double)(int)(h % 2001) / 1000 - 1;
	way = (double)(int)(hash64(schedule.p, schedule.n, h) % 1001) / 1000;
	return (int64_t)((double)predicted_ns(d, s, heat, schedule) * exp(spread * (own + way)));
}

/* ln of the plan's time over that of a search that begins with nothing; how many schedules either asked for.
 */
static double
loss_at_another_resolution(uint32_t *n_ways, uint32_t *n_fresh)
{
	struct desk d, fresh;
	struct plan plan, alone;
	double loss;

	open_known_device(&d);
	open_known_device(&fresh);
	spread = 0.4;
	d.way = fresh.way = as_at_other_sizes;
	d.model = candy_of(&d, 56);
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	d.end_key = (struct hash){{0}};
	d.has_siblings = true;
	d.model = candy_of(&d, 112);
	fresh.model = candy_of(&fresh, 112);
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	(void)desk_job(&fresh, 3600 * SECOND, false, &alone);
	*n_ways += d.n_ways;
	*n_fresh += fresh.n_ways;
	loss = log((double)plan.latency_ns / (double)alone.latency_ns);
	desk_close(&fresh);
	desk_close(&d);
	return loss;
}

/* A model at another resolution: what was measured at the first one names the plan, and the schedules of its
 * kernels.  Nine tenths of what a search asks for that begins with nothing are enough, and the plan is as
 * good: in the middle of some worlds, as in any one of them luck decides about a tenth. */
static void
another_resolution(void **state)
{
	enum { WORLDS = 8 };
	uint32_t n_ways = 0, n_fresh = 0;
	double loss = 0;

	(void)state;
	for (world = FIRST_WORLD; world < FIRST_WORLD + WORLDS; world++)
		loss += loss_at_another_resolution(&n_ways, &n_fresh) / WORLDS;
	world = FIRST_WORLD;
	assert_true(loss <= log(1.02));
	assert_true(n_ways * 10 <= n_fresh * 9);
}

/* What the plan for nothing takes where every third of what was measured of other extents is so many times
 * what it was. */
static double
sum_with_lies(double lie)
{
	struct desk d;
	struct plan plan;
	double sum;

	open_known_device(&d);
	spread = 0.15;
	d.model = "efficientvit_b1_small";
	(void)desk_job(&d, 3600 * SECOND, false, &plan);
	d.end_key = (struct hash){{0}};
	d.has_siblings = true;
	d.lie = lie;
	d.model = "efficientvit_small";
	(void)desk_job(&d, 0, false, &plan);
	assert_true(d.n_told > 0);
	sum = true_sum(&d, &plan);
	desk_close(&d);
	return sum;
}

/* A worker that lies moves no plan by more than a tenth, which is less than any interval's width: in the
 * middle of some worlds, as in another resolution's, and in none by twice that. */
static void
lies_move_plans_little(void **state)
{
	enum { WORLDS = 3 };
	static const double lies[] = {0.01, 100};
	double moved[COUNT_OF(lies)] = {0};

	(void)state;
	for (world = FIRST_WORLD; world < FIRST_WORLD + WORLDS; world++) {
		double honest = sum_with_lies(1);

		for (size_t k = 0; k < COUNT_OF(lies); k++) {
			double by = log(sum_with_lies(lies[k]) / honest);

			print_message("world %u, lies of %g: %.3f\n", (unsigned)world, lies[k], exp(by));
			assert_true(by <= log(1.2));
			moved[k] += by / WORLDS;
		}
	}
	world = FIRST_WORLD;
	for (size_t k = 0; k < COUNT_OF(lies); k++)
		assert_true(moved[k] <= log(1.1));
}

static int
read_predictor(void **state)
{
	static struct arena a;
	struct err e = {0};

	*state = &a;
	return predictor_read(&a, predictor_shipped(), &predictor, &e) ? 0 : -1;
}

static int
free_predictor(void **state)
{
	arena_fini(*state);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(gains), cmocka_unit_test(losers_are_not_compiled),
	    cmocka_unit_test(second_looks), cmocka_unit_test(failed_first),
	    cmocka_unit_test(siblings_say_what_is_fast), cmocka_unit_test(another_resolution),
	    cmocka_unit_test(lies_move_plans_little), cmocka_unit_test(guesses_are_predicted)};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, read_predictor, free_predictor);
}
