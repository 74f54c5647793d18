/* tests/bench/main_traces.c: what the loop program of a model's candidates costs to make: processor time of
 * lowering, of the rules' trace, of the passes and of printing, by class of kernels.
 *
 *   bench-traces [--target=avx2] [--step=N] [--from=N] [--turns=1] [--class=C] [--print] MODEL.onnx...
 *
 * Of several turns each stage's least.  --print: each trace and text, too, to compare those of two builds. */
#include "../../kernels/codegen/codegen.h"
#include "../../kernels/generate/generate.h"
#include "../../kernels/schedule/schedule.h"
#include "../harness/kernel_class.h"
#include "../harness/model_candidates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum making { LOWER, PROPOSE, PASSES, PRINT, STAGES };
static const char *const stage_name[STAGES] = {"lower", "propose", "passes", "print"};

struct costs {
	uint32_t n, refused;
	double ms[STAGES], worst;
};
struct args {
	struct target target;
	int64_t step, from, turns;
	enum kernel_class class; /* KERNEL_CLASSES: all */
	bool prints;
};

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool
make(struct arena *a, const struct spec *s, const struct args *args, double *at, struct strbuf *trace,
    struct codegen_kernel *k, struct err *e)
{
	const struct schedule_target target = space_schedule_target(&args->target);
	const struct codegen_form form = {
	    .lanes = (uint32_t)args->target.simd_bytes / 4, .registers = (uint32_t)args->target.n_vregs};
	struct tir nest, scheduled, flat, p;

	at[0] = now_ms();
	schedule_lower(a, s, args->target.strict, &nest);
	at[1] = now_ms();
	schedule_propose(&nest, &target, trace, &scheduled);
	at[2] = now_ms();
	schedule_flat(&scheduled, &flat);
	bool ok = codegen_run(&flat, NULL, &p, e);

	at[3] = now_ms();
	ok = ok &&
	    (args->target.is_cuda ? codegen_cuda(a, &p, s->g.n_inputs, "k", k, e)
				  : codegen_c(a, &p, s->g.n_inputs, "k", &form, k, e));
	at[4] = now_ms();
	return ok;
}

/* One turn; of each stage the time is kept where it is the least so far. */
static bool
take_turn(double *least, const struct spec *s, const struct args *args, bool prints)
{
	double at[STAGES + 1];
	struct arena a = {0};
	struct strbuf trace;
	struct codegen_kernel k = {.text = STR("")};
	struct err e = {0};

	sb_init(&trace, &a);
	const bool ok = make(&a, s, args, at, &trace, &k, &e);

	for (int i = 0; i < STAGES; i++)
		least[i] = MIN_OF(least[i], at[i + 1] - at[i]);
	if (prints)
		printf("%.*s== trace\n%.*s== text %s\n%.*s\n", STR_ARG(s->text), STR_ARG(sb_str(&trace)),
		    e.msg, STR_ARG(k.text));
	arena_fini(&a);
	return ok;
}

static void
add(struct costs *c, const struct spec *s, const struct args *args)
{
	double least[STAGES], all = 0;
	bool ok = true;

	for (int i = 0; i < STAGES; i++)
		least[i] = INFINITY;
	for (int64_t n = 0; n < args->turns; n++)
		ok = take_turn(least, s, args, args->prints && n == 0);
	c->n++;
	c->refused += !ok;
	for (int i = 0; i < STAGES; i++) {
		c->ms[i] += least[i];
		all += least[i];
	}
	c->worst = MAX_OF(c->worst, all);
}

static bool
add_model(struct costs *by_class, const char *file, const struct args *args, struct err *e)
{
	struct arena a = {0};
	struct cand_set cs;
	bool ok = model_candidates(&a, file, &cs, e);

	for (int64_t i = args->from; ok && i < cs.n_specs; i += args->step) {
		const struct spec *s = &cs.specs[i];
		enum kernel_class class;
		struct err why = {0};

		if (kernel_class_of(s, STR(""), &args->target, &class, &why) && class != KERNEL_library &&
		    (args->class == class || args->class == KERNEL_CLASSES))
			add(&by_class[class], s, args);
	}
	arena_fini(&a);
	return ok;
}

static void
print_costs(const struct costs *by_class)
{
	fprintf(stderr, "%-10s %6s %7s", "ms a kernel", "number", "refused");
	for (int i = 0; i < STAGES; i++)
		fprintf(stderr, " %8s", stage_name[i]);
	fprintf(stderr, " %8s %8s\n", "all", "worst");
	for (int c = 0; c < KERNEL_CLASSES; c++) {
		const struct costs *k = &by_class[c];
		double all = 0;

		if (k->n == 0)
			continue;
		fprintf(stderr, "%-11s %6u %7u", kernel_class_name((enum kernel_class)c), k->n, k->refused);
		for (int i = 0; i < STAGES; i++) {
			fprintf(stderr, " %8.3f", k->ms[i] / k->n);
			all += k->ms[i];
		}
		fprintf(stderr, " %8.3f %8.3f\n", all / k->n, k->worst);
	}
}

static bool
take_argument(struct args *args, const char *arg, struct err *e)
{
	struct str a = str_of(arg), name = str_cut(&a, '=');

	if (str_is(name, "--print"))
		return args->prints = true;
	if (str_is(name, "--target"))
		return target_read(a, &args->target, e);
	if (str_is(name, "--step"))
		return str_to_i64(a, &args->step) && args->step > 0;
	if (str_is(name, "--turns"))
		return str_to_i64(a, &args->turns) && args->turns > 0;
	if (str_is(name, "--class"))
		return kernel_class_read(a, &args->class);
	return str_is(name, "--from") && str_to_i64(a, &args->from) && args->from >= 0;
}

int
main(int argc, char **argv)
{
	struct args args = {.target = target_avx2, .step = 1, .turns = 1, .class = KERNEL_CLASSES};
	struct costs by_class[KERNEL_CLASSES] = {{0}};
	struct err e = {0};
	bool ok = argc > 1;
	int n = 1;

	for (; n < argc && strncmp(argv[n], "--", 2) == 0 && ok; n++)
		ok = take_argument(&args, argv[n], &e) ||
		    (!e.msg[0] &&
			err_set(&e, ERR_USAGE, "%s: no such option, or no such value of it", argv[n]));
	if (!ok || n == argc) {
		if (e.msg[0])
			fprintf(stderr, "bench-traces: %s\n", e.msg);
		fprintf(stderr,
		    "usage: bench-traces [--target=avx2] [--step=N] [--from=N] [--turns=1] [--class=C] "
		    "[--print] MODEL.onnx...\n");
		return 2;
	}
	for (; n < argc && ok; n++)
		ok = add_model(by_class, argv[n], &args, &e);
	if (!ok) {
		fprintf(stderr, "bench-traces: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	print_costs(by_class);
	return 0;
}
