/* tests/harness/text_time.c: see the header. */
#include "text_time.h"
#include "bench_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Each in an object of its own: in one, the compiler makes equal functions one. */
enum { OLD, AGAIN, NEW, TEXTS };
enum { MOST_TURNS = 1001, TURN_US = 200 };

struct class_times {
	uint32_t n, refused, wrong;
	double new_log, again_log, worst, worst_again, compile_log;
};

/* Processor time of children so far: compilers. */
static double
children_s(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	    1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double
quartile(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, bench_less);
	return v[n / 4];
}

static void
time_in_turns(const struct test_kernel k[TEXTS], int turns, double us[TEXTS])
{
	double all[TEXTS][MOST_TURNS], once = 1e30;
	int times;

	for (int i = 0; i < 3 * TEXTS; i++)
		once = MIN_OF(once, kernels_us(&k[i % TEXTS], 1, 1));
	times = (int)MAX_OF(1.0, MIN_OF(TURN_US / MAX_OF(once, 0.05), 2000.0));
	for (int t = 0; t < turns; t++)
		for (int i = 0; i < TEXTS; i++) {
			int which = (t + i) % TEXTS;

			all[which][t] = kernels_us(&k[which], 1, times);
		}
	for (int i = 0; i < TEXTS; i++)
		us[i] = quartile(all[i], turns);
}

/* ---- results ----------------------------------------------------------------------------------------- */
/* Largest difference of two results over their largest magnitude; equal bits are no difference. */
static double
difference(const struct tensor *t, const void *x, const void *y)
{
	const int64_t n = shape_count(&t->shape);
	double top = 0, most = 0;

	if (memcmp(x, y, (size_t)n * dtype_size(t->type)) == 0)
		return 0;
	for (int64_t i = 0; i < n; i++) {
		double p = elem_get(t->type, x, i), q = elem_get(t->type, y, i);
		double d = p == q || (isnan(p) && isnan(q)) ? 0 : fabs(p - q);

		if (isnan(d) || isinf(d))
			return INFINITY;
		top = isfinite(p) ? MAX_OF(top, fabs(p)) : top;
		most = MAX_OF(most, d);
	}
	return most > 0 ? most / MAX_OF(top, 1e-30) : 0;
}

/* Both fill the same results, one after the other, the new one in pieces of its ranges. */
static bool
agree(struct arena *a, const struct test_kernel k[TEXTS], double rel)
{
	const struct graph *g = &k[OLD].spec.g;
	void **want = NEW_ARRAY(a, void *, g->n_outputs + 1);

	kernel_spoil(&k[OLD]);
	kernel_run(&k[OLD], 1);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const uint32_t b = g->n_inputs + i;

		want[i] = arena_dup(a, k[OLD].buf[b], kernel_buf_bytes(&k[OLD], b));
	}
	kernel_spoil(&k[NEW]);
	kernel_run(&k[NEW], 3);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (difference(graph_tensor(g, g->outputs[i]), want[i], k[NEW].buf[g->n_inputs + i]) > rel)
			return false;
	return true;
}

/* ---- kernels ----------------------------------------------------------------------------------------- */
/* False: e; *refused: the new generator does not make it. */
static bool
make_texts(struct arena *a, const struct text_row *r, const struct text_time_opts *o,
    struct test_kernel k[TEXTS], double compile_s[TEXTS], bool *refused, struct err *e)
{
	struct rng rng = {1};
	struct test_kernel first;
	struct err why = {0};

	*refused = false;
	/* operands and results are those of kernel_make() */
	if (!kernel_make(a, r->what, r->schedule, o->target, 0, &rng, &first, e) ||
	    !kernel_make_beside(a, &first, o->old->make, o->target, 0, &k[OLD], e) ||
	    !kernel_make_beside(a, &first, o->old->make, o->target, 1, &k[AGAIN], e))
		return false;
	if (!kernel_make_beside(a, &first, o->new->make, o->target, 2, &k[NEW], &why)) {
		*refused = why.code == ERR_INFEASIBLE;
		return *refused || err_set(e, why.code, "%s", why.msg);
	}

	for (int i = 0; i < TEXTS; i++) {
		const double before = children_s();

		if (!kernel_compile_with(a, &k[i], 1, o->target, i == NEW ? o->flags : "", e))
			return false;
		compile_s[i] = MAX_OF(children_s() - before, 1e-6);
	}
	return true;
}

static void
print_kernel(
    struct strbuf *sb, const struct text_row *r, const double us[TEXTS], const double compile_s[TEXTS])
{
	char hex[65];

	hash_hex(&r->spec, hex);
	sb_addf(sb,
	    "%-10s %.12s %10.2f us  new/old %.3f  old/old %.3f  compiling %.2f s, new/old %.2f  \"%.*s\"\n",
	    kernel_class_name(r->class), hex, us[OLD], us[NEW] / us[OLD], us[AGAIN] / us[OLD], compile_s[OLD],
	    compile_s[NEW] / compile_s[OLD], STR_ARG(r->schedule));
}

static bool
one_kernel(struct strbuf *sb, const struct text_row *r, const struct text_time_opts *o, struct class_times *c,
    struct err *e)
{
	struct arena a = {0};
	struct test_kernel k[TEXTS];
	double us[TEXTS];
	double compile_s[TEXTS];
	bool refused, ok = make_texts(&a, r, o, k, compile_s, &refused, e);

	if (ok && refused) {
		c->refused++;
	} else if (ok && !agree(&a, k, o->rel)) {
		c->wrong++;
		sb_addf(sb, "results differ, schedule \"%.*s\":\n%.*s", STR_ARG(r->schedule),
		    STR_ARG(r->what->text));
	} else if (ok) {
		time_in_turns(k, o->turns, us);
		c->n++;
		c->new_log += log(us[NEW] / us[OLD]);
		c->again_log += log(us[AGAIN] / us[OLD]);
		c->compile_log += log(compile_s[NEW] / compile_s[OLD]);
		c->worst = MAX_OF(c->worst, us[NEW] / us[OLD]);
		c->worst_again = MAX_OF(c->worst_again, us[AGAIN] / us[OLD]);
		if (o->lines)
			print_kernel(sb, r, us, compile_s);
	}
	arena_fini(&a);
	return ok || err_in(e, "schedule \"%.*s\" of\n%.*s", STR_ARG(r->schedule), STR_ARG(r->what->text));
}

static uint32_t
count_class(const struct texts *t, enum kernel_class class)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += t->row[i].class == class;
	return n;
}

static bool
one_class(struct strbuf *sb, const struct texts *t, const struct text_time_opts *o, enum kernel_class class,
    struct class_times *c, struct err *e)
{
	const uint32_t all = count_class(t, class), take = MIN_OF(all, o->count);
	uint32_t at = 0, taken = 0;

	for (uint32_t i = 0; i < t->n && taken < take; i++) {
		if (t->row[i].class != class)
			continue;
		if (at++ < (uint64_t)taken * all / take)
			continue;
		taken++;
		if (!one_kernel(sb, &t->row[i], o, c, e))
			return false;
	}
	return true;
}

bool
text_time(struct strbuf *sb, const struct texts *t, const struct text_time_opts *o, struct text_times *out,
    struct err *e)
{
	struct strbuf table;

	*out = (struct text_times){0};
	sb_init(&table, sb->a);
	sb_addf(&table, "%-10s %7s %8s %7s  %8s %8s  %8s %8s  %9s\n", "class", "kernels", "refused", "differ",
	    "new/old", "worst", "old/old", "worst", "compiling");
	for (int i = 0; i < KERNEL_CLASSES; i++) {
		struct class_times c = {0};

		if (o->has_only && o->only != (enum kernel_class)i)
			continue;
		if (!one_class(sb, t, o, (enum kernel_class)i, &c, e))
			return false;
		out->wrong += c.wrong;
		out->refused += c.refused;
		if (c.n + c.refused + c.wrong == 0)
			continue;
		sb_addf(&table, "%-10s %7u %8u %7u", kernel_class_name((enum kernel_class)i), c.n, c.refused,
		    c.wrong);
		if (c.n)
			sb_addf(&table, "  %8.3f %8.3f  %8.3f %8.3f  %9.3f", exp(c.new_log / c.n), c.worst,
			    exp(c.again_log / c.n), c.worst_again, exp(c.compile_log / c.n));
		sb_addc(&table, '\n');
	}
	sb_add(sb, sb_str(&table));
	return true;
}
