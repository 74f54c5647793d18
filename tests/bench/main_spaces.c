/* tests/bench/main_spaces.c: the loop program's space beside the tile program's: of each spec the best kernel
 * of either, out of all schedules that the space lists, timed in turns in one process.
 *
 *   bench-spaces [options] MODEL.onnx...
 *
 * Options: --target=avx2 (target.c)  --effort=N schedules of a spec  --count=N specs of each class, evenly
 * out of all  --turns=N  --class=NAME  --also="mr=4 trace=1;nv=1 trace=1" tried beside them  --kernels (a
 * line each). A line a class: geometric mean and worst of new over old, of the best and of the first
 * schedules, and which of the loop program's schedules were best how often. */
#include "../harness/bench_time.h"
#include "../harness/texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MOST_TURNS = 101, TURN_US = 200 };

struct args {
	struct texts_opts texts;
	struct str also;
	uint32_t count, effort;
	int turns;
	bool lines, specs, has_only;
	enum kernel_class only;
};

struct tried {
	struct str schedule;
	bool is_loops;
	double us;
};

struct won {
	struct str schedule;
	uint32_t n;
};

struct class_figures {
	uint32_t n, wrong;
	double best_log, first_log, worst, old_us, new_us;
	struct won won[MOST];
	uint32_t n_won;
};

static int64_t
knob_of(struct str schedule, enum knob k)
{
	struct sched sched;
	struct err e;

	return sched_read(schedule, &sched, &e) ? sched_get(&sched, k, 0) : 0;
}

/* ---- one spec ----------------------------------------------------------------------------------------- */
/* A schedule that is refused is none of the space. */
static bool
add_kernel(struct arena *a, const struct test_kernel *first, struct str schedule, const struct target *t,
    struct test_kernel *k, struct tried *tried, uint32_t *n, struct err *e)
{
	struct test_kernel as = *first;
	struct err why = {0};

	as.schedule = schedule;
	if (*n == MOST || knob_of(schedule, KNOB_lib) ||
	    !kernel_make_beside(a, &as, emit_c, t, *n, &k[*n], &why))
		return true;
	tried[*n] = (struct tried){schedule, knob_of(schedule, KNOB_trace) != 0, 0};
	++*n;
	return kernel_compile(a, &k[*n - 1], 1, t, e);
}

static void
time_in_turns(const struct test_kernel *k, struct tried *tried, uint32_t n, int turns)
{
	static double all[MOST][MOST_TURNS];
	int times[MOST];

	for (uint32_t i = 0; i < n; i++) {
		double once = 1e30;

		for (int j = 0; j < 3; j++)
			once = MIN_OF(once, kernels_us(&k[i], 1, 1));
		times[i] = (int)MAX_OF(1.0, MIN_OF(TURN_US / MAX_OF(once, 0.05), 2000.0));
	}
	for (int t = 0; t < turns; t++)
		for (uint32_t j = 0; j < n; j++) {
			const uint32_t i = (j + (uint32_t)t) % n;

			all[i][t] = kernels_us(&k[i], 1, times[i]);
		}
	for (uint32_t i = 0; i < n; i++) {
		qsort(all[i], (size_t)turns, sizeof(double), bench_less);
		tried[i].us = all[i][turns / 4];
	}
}

static const struct tried *
best_of(const struct tried *t, uint32_t n, bool is_loops)
{
	const struct tried *best = NULL;

	for (uint32_t i = 0; i < n; i++)
		if (t[i].is_loops == is_loops && (!best || t[i].us < best->us))
			best = &t[i];
	return best;
}

static const struct tried *
first_of(const struct tried *t, uint32_t n, bool is_loops)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].is_loops == is_loops)
			return &t[i];
	return NULL;
}

static void
note_winner(struct arena *keep, struct class_figures *c, struct str schedule)
{
	uint32_t i = 0;

	while (i < c->n_won && !str_eq(c->won[i].schedule, schedule))
		i++;
	if (i == MOST)
		return;
	c->n_won = MAX_OF(c->n_won, i + 1);
	c->won[i].schedule = str_of(str_dup(keep, schedule));
	c->won[i].n++;
}

static void
note_spec(struct arena *keep, struct class_figures *c, const struct text_row *r, const struct tried *t,
    uint32_t n, bool lines)
{
	const struct tried *old = best_of(t, n, false), *new = best_of(t, n, true);
	char hex[65];

	if (!old || !new)
		return;
	c->n++;
	c->best_log += log(new->us / old->us);
	c->old_us += old->us;
	c->new_us += new->us;
	c->first_log += log(first_of(t, n, true)->us / first_of(t, n, false)->us);
	c->worst = MAX_OF(c->worst, new->us / old->us);
	note_winner(keep, c, new->schedule);
	if (!lines)
		return;
	hash_hex(&r->spec, hex);
	printf("%-10s %.12s  best %10.2f us \"%.*s\", new/old %.3f \"%.*s\"; first new/old %.3f\n",
	    kernel_class_name(r->class), hex, old->us, STR_ARG(old->schedule), new->us / old->us,
	    STR_ARG(new->schedule), first_of(t, n, true)->us / first_of(t, n, false)->us);
	for (uint32_t i = 0; i < n; i++)
		printf("    %10.2f  %.3f  \"%.*s\"\n", t[i].us, t[i].us / old->us, STR_ARG(t[i].schedule));
	(void)fflush(stdout);
}

static bool
one_spec(struct arena *keep, const struct args *args, const struct text_row *row, struct class_figures *c,
    struct err *e)
{
	struct arena a = {0};
	struct rng rng = {1};
	struct test_kernel first, k[MOST];
	struct tried tried[MOST];
	struct str also = args->also, *space;
	uint32_t n = 0, n_space = 0;
	bool ok = kernel_make(&a, row->what, row->schedule, &args->texts.target, 0, &rng, &first, e);

	if (ok)
		space_list(&a, row->what, &args->texts.target, args->effort, emit_outcome, &space, &n_space);
	for (uint32_t i = 0; i < n_space && ok; i++)
		ok = add_kernel(&a, &first, space[i], &args->texts.target, k, tried, &n, e);
	while (ok && also.n) {
		struct str one = str_cut(&also, ';');

		ok = add_kernel(&a, &first, one, &args->texts.target, k, tried, &n, e);
	}
	if (ok && n) {
		time_in_turns(k, tried, n, args->turns);
		note_spec(keep, c, row, tried, n, args->lines);
		if (args->specs)
			printf("%.*s\n", STR_ARG(row->what->text));
	}
	arena_fini(&a);
	return ok;
}

/* ---- classes ------------------------------------------------------------------------------------------ */
static uint32_t
count_specs(const struct texts *t, enum kernel_class class)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += t->row[i].class == class;
	return n;
}

static void
print_class(enum kernel_class class, const struct class_figures *c)
{
	printf("%-10s %6u specs  best new/old %.3f, of all their time %.3f  worst %.3f  first new/old %.3f ",
	    kernel_class_name(class), c->n, exp(c->best_log / c->n), c->new_us / c->old_us, c->worst,
	    exp(c->first_log / c->n));
	for (uint32_t i = 0; i < c->n_won; i++)
		printf(" \"%.*s\" %u", STR_ARG(c->won[i].schedule), c->won[i].n);
	printf("\n");
}

static bool
one_class(const struct args *args, const struct texts *t, enum kernel_class class, struct err *e)
{
	const uint32_t all = count_specs(t, class), take = MIN_OF(all, args->count);
	struct class_figures c = {0};
	uint32_t at = 0, taken = 0;

	for (uint32_t i = 0; i < t->n && taken < take; i++) {
		if (t->row[i].class != class || at++ < (uint64_t)taken * all / take)
			continue;
		taken++;
		if (!one_spec(t->a, args, &t->row[i], &c, e))
			return false;
	}
	if (c.n)
		print_class(class, &c);
	return true;
}

/* ---- arguments ---------------------------------------------------------------------------------------- */
static bool
take_argument(struct args *args, const char *arg, struct err *e)
{
	const char *is = strchr(arg, '=');
	const struct str name = {arg, is ? (size_t)(is - arg) : strlen(arg)};
	const struct str v = str_of(is ? is + 1 : "");
	int64_t n = 0;
	const bool number = str_to_i64(v, &n) && n >= 1 && n <= 100000;

	if (str_is(name, "--target"))
		return target_read(v, &args->texts.target, e);
	if (str_is(name, "--also"))
		args->also = v;
	else if (str_is(name, "--effort") && number)
		args->effort = (uint32_t)n;
	else if (str_is(name, "--count") && number)
		args->count = (uint32_t)n;
	else if (str_is(name, "--turns") && number && n <= MOST_TURNS)
		args->turns = (int)n;
	else if (str_is(name, "--class") && kernel_class_read(v, &args->only))
		args->has_only = true;
	else if (str_is(name, "--kernels"))
		args->lines = true;
	else if (str_is(name, "--specs"))
		args->specs = true;
	else
		return err_set(e, ERR_USAGE, "%s: no such option, or no such value of it", arg);
	return true;
}

int
main(int argc, char **argv)
{
	struct args args = {
	    .texts = {.target = target_avx2, .limits = identify_limits_default, .effort = 1, .step = 1},
	    .count = 8,
	    .effort = 12,
	    .turns = 11};
	struct arena a = {0};
	struct texts t = {.a = &a};
	struct err e = {0};
	bool ok = true, any = false;

	args.texts.target.winograd = true;
	for (int i = 1; i < argc && ok; i++) {
		const bool is_option = strncmp(argv[i], "--", 2) == 0;

		any |= !is_option;
		ok = is_option ? take_argument(&args, argv[i], &e)
			       : texts_add_model(&t, &args.texts, argv[i], &e);
	}
	for (int c = 0; c < KERNEL_CLASSES && ok && any; c++)
		if (!args.has_only || args.only == (enum kernel_class)c)
			ok = one_class(&args, &t, (enum kernel_class)c, &e);
	if (!ok)
		fprintf(stderr, "bench-spaces: %s\n", e.msg);
	else if (!any)
		fprintf(
		    stderr, "usage: bench-spaces [--name=value]... MODEL.onnx...  (options before models)\n");
	arena_fini(&a);
	return !ok ? err_exit_status(e.code) : any ? 0 : 2;
}
