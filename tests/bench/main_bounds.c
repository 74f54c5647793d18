/* tests/bench/main_bounds.c: every measured kernel of data folders and exports against its lower bound.  A
 * bound above the truth hides the optimum; one far below it costs measurements.  By kind and size: how far
 * below, and what peaks and bandwidths alone would say.
 *
 *   bench-bounds [--class=cpu] [--rows] DATA_FOLDER|EXPORT...       (no daemon may hold a folder)
 *
 * The bound is that of a proof: the least over the schedules of the spec's space.  Of an export all rows
 * count, whatever their class.  --rows: each kernel with its bound, its time, the parts of its bound, its
 * schedule and its primitives. */
#include "../../daemon/planner/device.h"
#include "../../daemon/planner/tune.h"
#include "../../kernels/cost/cost.h"
#include "../../schema/export_read.h"
#include "../../schema/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	bool with_rows;
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

/* The primitives in their order, equal neighbours once. */
static void
print_row(
    const struct spec *s, const struct m_measurement *m, const struct one *o, const struct cost_parts *p)
{
	char hex[65];

	hash_hex(&m->spec, hex);
	printf("row %.16s %.3f bound %lld measured %lld plain %.3f flop %.0f byte %.0f %s '%.*s' '%.*s'", hex,
	    o->ratio, (long long)o->bound_ns, (long long)o->measured_ns, o->plain, p->flop_ns, p->byte_ns,
	    m->heat.n ? "heat" : "cold", STR_ARG(m->heat), STR_ARG(m->row.schedule));
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		printf(" %s", prim_info[s->g.nodes[i].prim].name);
	printf("\n");
}

static bool
add_row(struct arena *a, const struct m_env *env, const struct m_measurement *m, struct str text,
    struct list *l, struct err *e)
{
	struct arena tmp = {0};
	bool winograd = str_is(m->precision, "f32");
	struct hw hw = env_hw(env, m->threads, winograd);
	const struct target t = env_target(env, false, winograd, PRECISION_F32);
	struct cost_parts parts;
	struct spec s;

	if (!spec_read(&tmp, text, &s, e)) {
		arena_fini(&tmp);
		return false;
	}
	GROW(a, l->v, l->n, l->cap);
	struct one *o = &l->v[l->n++];
	(void)cost_bound_heat_ns(&s, &hw, m->heat, &parts);
	*o = (struct one){.bound_ns = device_space_ns(&s, &t, &hw, m->heat, TUNE_EFFORT),
	    .measured_ns = m->row.median_ns,
	    .kind = kind_of(&s),
	    .spec = m->spec};
	o->plain =
	    (double)cost_analytic_ns(&s, &hw, m->heat, NULL) / (double)MAX_OF(o->measured_ns, (int64_t)1);
	o->ratio = (double)o->bound_ns / (double)MAX_OF(o->measured_ns, (int64_t)1);
	if (l->with_rows)
		print_row(&s, m, o, &parts);
	arena_fini(&tmp);
	return true;
}

static void
print_env(const struct m_env *env)
{
	printf("%.*s: %.1f GFLOP/s, products %.1f; %.2f exponentials and %.2f divisions a ns\n",
	    STR_ARG(env->class), env->hw.flops_peak * 1e-9, env->hw.linear_flops * 1e-9,
	    env->hw.exp_per_s * 1e-9, env->hw.div_per_s * 1e-9);
}

static bool
add_stored(struct arena *a, struct db *db, const struct m_env *env, const struct m_measurement *m,
    struct list *l, struct err *e)
{
	struct arena tmp = {0};
	struct str text;
	bool ok = spec_text(db, &tmp, &m->spec, &text, e) && add_row(a, env, m, text, l, e);

	arena_fini(&tmp);
	return ok;
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
	print_env(&env);
	while (more) {
		struct m_measurement *rows;
		uint32_t n;
		if (!cache_list(db, a, &after, class, 1000, &rows, &n, &more, e))
			return false;
		for (uint32_t i = 0; i < n; i++) {
			after = rows[i].spec;
			if (rows[i].is_best && !rows[i].row.fail && str_eq(rows[i].env, env.key) &&
			    !add_stored(a, db, &env, &rows[i], l, e))
				return false;
		}
		more = more && n;
	}
	return true;
}

static bool
collect_folder(struct arena *a, const char *dir, struct str class, struct list *l, struct err *e)
{
	struct store_conf conf = {.os = os_real(), .dir = dir};
	struct db *db;
	bool ok;

	if (!db_open(&db, &conf, e))
		return false;
	ok = collect(a, db, class, l, e) || err_in(e, "%s", dir);
	db_close(db);
	return ok;
}

/* ---- exports ------------------------------------------------------------------------------------- */
/* A row by what its bound depends on. */
struct keyed {
	const struct export_rows *x;
	uint32_t row;
};

static int
by_kernel(const void *pa, const void *pb)
{
	const struct keyed *a = pa, *b = pb;
	const struct m_measurement *m = &a->x->rows[a->row], *n = &b->x->rows[b->row];
	int c = hash_cmp(&m->spec, &n->spec);

	if (c == 0)
		c = str_cmp(m->heat, n->heat);
	if (c == 0)
		c = str_cmp(m->precision, n->precision);
	if (c == 0)
		c = (m->threads > n->threads) - (m->threads < n->threads);
	if (c == 0)
		c = (a->x->env_of[a->row] > b->x->env_of[b->row]) -
		    (a->x->env_of[a->row] < b->x->env_of[b->row]);
	return c;
}

/* The fastest schedule of each kernel. */
static int
by_kernel_and_time(const void *pa, const void *pb)
{
	const struct keyed *a = pa, *b = pb;
	int64_t m = a->x->rows[a->row].row.median_ns, n = b->x->rows[b->row].row.median_ns;
	int c = by_kernel(pa, pb);

	return c ? c : (m > n) - (m < n);
}

static bool
add_rows(struct arena *a, const struct export_rows *x, struct list *l, struct err *e)
{
	struct keyed *v = NEW_ARRAY(a, struct keyed, MAX_OF(x->n_rows, 1u));
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->n_envs; i++)
		print_env(&x->envs[i]);
	for (uint32_t i = 0; i < x->n_rows; i++)
		if (!x->rows[i].row.fail)
			v[n++] = (struct keyed){x, i};
	qsort(v, n, sizeof(*v), by_kernel_and_time);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t r = v[i].row;

		if (i && by_kernel(&v[i - 1], &v[i]) == 0)
			continue;
		if (!add_row(a, &x->envs[x->env_of[r]], &x->rows[r], x->specs[x->spec_of[r]].text, l, e))
			return false;
	}
	return true;
}

static bool
collect_export(struct arena *a, const char *path, struct list *l, struct err *e)
{
	enum { MOST_EXPORT = 1 << 28 };
	struct bytes file;
	struct export_rows x;

	if (!os_read_file(os_real(), a, path, MOST_EXPORT, &file, e)) /* its name is in that sentence */
		return false;
	return (export_read(a, file, &x, e) && add_rows(a, &x, l, e)) || err_in(e, "%s", path);
}

static bool
is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
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

static void
print_all(struct list *l)
{
	print(l);
	print_cells(l);
}

int
main(int argc, char **argv)
{
	const char *class = "cpu";
	struct arena a = {0};
	struct list l = {0};
	struct err e = {0};
	int n_read = 0;
	bool ok = true;

	for (int i = 1; i < argc && ok; i++)
		if (strncmp(argv[i], "--class=", 8) == 0)
			class = argv[i] + 8;
		else if (strcmp(argv[i], "--rows") == 0)
			l.with_rows = true;
		else {
			n_read++;
			ok = is_folder(argv[i]) ? collect_folder(&a, argv[i], str_of(class), &l, &e)
						: collect_export(&a, argv[i], &l, &e);
			if (!ok)
				fprintf(stderr, "bench-bounds: %s\n", e.msg);
		}
	if (ok && n_read)
		print_all(&l);
	arena_fini(&a);
	if (!ok)
		return err_exit_status(e.code);
	if (n_read)
		return 0;
	fprintf(stderr, "usage: bench-bounds [--class=cpu] [--rows] DATA_FOLDER|EXPORT...\n");
	return 2;
}
