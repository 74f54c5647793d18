/* tests/bench/main_bounds.c: every measured kernel of a data folder against its lower bound.  A
 * bound above the truth hides the optimum; one far below it costs measurements.  By kind and size: how far
 * below, and what peaks and bandwidths alone would say.
 *
 *   bench-bounds [--class=cpu] DATA_FOLDER       (no daemon may hold the folder) */
#include "../../daemon/planner/device.h"
#include "../../daemon/planner/tune.h"
#include "../../kernels/cost/cost.h"
#include "../../schema/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a kernel does, the first that fits; and how long it takes. */
enum kind { PRODUCTS, PRODUCT, REDUCES, TURNS, DEAR, PLAIN, KINDS };
static const char *const kind_name[KINDS] = {
    "several linear", "one linear", "reductions", "transposes", "exp and friends", "other maps"};
enum { SIZES = 4 };
static const int64_t size_ns[SIZES] = {1000, 10000, 100000, INT64_MAX};
static const char *const size_name[SIZES] = {"< 1 us", "1-10 us", "10-100 us", "more"};

struct one {
	double ratio, plain; /* bound over measured; the same of peaks and bandwidths alone */
	int64_t bound_ns, measured_ns;
	enum kind kind;
	struct hash spec;
};
struct list {
	struct one *v;
	uint32_t n, cap;
};

static enum kind
kind_of(const struct spec *s)
{
	enum { DEAR_FLOPS = 9 };
	int n[CLASS_OPAQUE + 1] = {0}, turns = 0, dear = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		enum prim p = s->g.nodes[i].prim;

		n[prim_info[p].class]++;
		turns += p == PRIM_transpose;
		dear += prim_info[p].class == CLASS_MAP && prim_info[p].flops >= DEAR_FLOPS;
	}
	return n[CLASS_LINEAR] > 1 ? PRODUCTS
	    : n[CLASS_LINEAR]      ? PRODUCT
	    : n[CLASS_REDUCE]      ? REDUCES
	    : turns                ? TURNS
	    : dear                 ? DEAR
				   : PLAIN;
}

static bool
add_row(struct arena *a, struct db *db, const struct m_env *env, const struct m_measurement *m,
    struct list *l, struct err *e)
{
	struct arena tmp = {0};
	struct hw hw = env_hw(env, m->threads, str_is(m->precision, "f32"));
	struct str text;
	struct spec s;

	if (!spec_text(db, &tmp, &m->spec, &text, e) || !spec_read(&tmp, text, &s, e)) {
		arena_fini(&tmp);
		return false;
	}
	GROW(a, l->v, l->n, l->cap);
	struct one *o = &l->v[l->n++];
	*o = (struct one){.bound_ns = cost_bound_heat_ns(&s, &hw, m->heat, NULL),
	    .measured_ns = m->row.median_ns,
	    .kind = kind_of(&s),
	    .spec = m->spec};
	o->plain =
	    (double)cost_analytic_ns(&s, &hw, m->heat, NULL) / (double)MAX_OF(o->measured_ns, (int64_t)1);
	o->ratio = (double)o->bound_ns / (double)MAX_OF(o->measured_ns, (int64_t)1);
	arena_fini(&tmp);
	return true;
}

static bool
collect(struct arena *a, struct db *db, struct str class, struct list *l, struct err *e)
{
	struct hash after = {{0}};
	struct m_env env;
	int64_t id;
	bool more = true;

	if (!env_of_class(db, a, class, &id, &env, e))
		return false;
	printf("%.*s: %.1f GFLOP/s, products %.1f; %.2f exponentials and %.2f divisions a ns\n",
	    STR_ARG(env.class), env.hw.flops_peak * 1e-9, env.hw.linear_flops * 1e-9, env.hw.exp_per_s * 1e-9,
	    env.hw.div_per_s * 1e-9);
	while (more) {
		struct m_measurement *rows;
		uint32_t n;
		if (!cache_list(db, a, &after, class, 1000, &rows, &n, &more, e))
			return false;
		for (uint32_t i = 0; i < n; i++) {
			after = rows[i].spec;
			if (rows[i].is_best && !rows[i].row.fail && str_eq(rows[i].env, env.key) &&
			    !add_row(a, db, &env, &rows[i], l, e))
				return false;
		}
		more = more && n;
	}
	return true;
}

static int
by_ratio(const void *x, const void *y)
{
	double a = ((const struct one *)x)->ratio, b = ((const struct one *)y)->ratio;

	return (a > b) - (a < b);
}

static void
print(struct list *l)
{
	uint32_t above = 0;

	qsort(l->v, l->n, sizeof(*l->v), by_ratio);
	for (uint32_t i = 0; i < l->n; i++) {
		const struct one *o = &l->v[i];
		char hex[65];
		if (o->ratio <= 1)
			continue;
		hash_hex(&o->spec, hex);
		printf("above: spec %.16s bound %lld ns, measured %lld ns\n", hex, (long long)o->bound_ns,
		    (long long)o->measured_ns);
		above++;
	}
	printf("%u measured specs, %u faster than their bound; bound over measured:", l->n, above);
	for (int q = 10; l->n && q < 100; q += 20)
		printf(" %d%% %.2f", q, l->v[(uint64_t)l->n * (uint64_t)q / 100].ratio);
	printf("\n");
}

static int
by_number(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static double
at(double *v, uint32_t n, uint32_t percent)
{
	qsort(v, n, sizeof(*v), by_number);
	return v[(uint64_t)n * percent / 100];
}

static void
print_cell(const struct list *l, int kind, int size)
{
	double *ratio = calloc(l->n + 1, sizeof(double)), *plain = calloc(l->n + 1, sizeof(double));
	uint32_t n = 0;

	if (!ratio || !plain)
		abort();
	for (uint32_t i = 0; i < l->n; i++) {
		const struct one *o = &l->v[i];

		if ((int)o->kind != kind || o->measured_ns >= size_ns[size] ||
		    (size && o->measured_ns < size_ns[size - 1]))
			continue;
		ratio[n] = o->ratio;
		plain[n++] = o->plain;
	}
	if (n)
		printf("%-16s %-10s %5u   %.2f %.2f %.2f   %.2f %.2f %.2f\n", kind_name[kind],
		    size_name[size], n, at(ratio, n, 10), at(ratio, n, 50), at(ratio, n, 90),
		    at(plain, n, 10), at(plain, n, 50), at(plain, n, 90));
	free(ratio);
	free(plain);
}

static void
print_cells(const struct list *l)
{
	printf("%-33s   bound/measured   by peaks alone\n", "");
	printf("%-16s %-10s %5s   10%%  50%%  90%%    10%%  50%%  90%%\n", "", "", "");
	for (int k = 0; k < KINDS; k++)
		for (int s = 0; s < SIZES; s++)
			print_cell(l, k, s);
}

int
main(int argc, char **argv)
{
	struct store_conf conf = {.os = os_real()};
	const char *class = "cpu";
	struct arena a = {0};
	struct list l = {0};
	struct err e = {0};
	struct db *db;

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--class=", 8) == 0)
			class = argv[i] + 8;
		else
			conf.dir = argv[i];
	if (!conf.dir) {
		fprintf(stderr, "usage: bench-bounds [--class=cpu] DATA_FOLDER\n");
		return 2;
	}
	if (!db_open(&db, &conf, &e)) {
		fprintf(stderr, "bench-bounds: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	bool ok = collect(&a, db, str_of(class), &l, &e);
	if (ok) {
		print(&l);
		print_cells(&l);
	} else
		fprintf(stderr, "bench-bounds: %s\n", e.msg);
	db_close(db);
	arena_fini(&a);
	return ok ? 0 : err_exit_status(e.code);
}
