/* tests/bench/main_bounds.c: every measured kernel of a data folder against its lower bound.  A
 * bound above the truth hides the optimum; one far below it costs measurements.
 *
 *   bench-bounds [--class=cpu] DATA_FOLDER       (no daemon may hold the folder) */
#include "../../daemon/planner/device.h"
#include "../../daemon/planner/tune.h"
#include "../../kernels/cost/cost.h"
#include "../../schema/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct one {
	double ratio; /* bound over measured */
	int64_t bound_ns, measured_ns;
	struct hash spec;
};
struct list {
	struct one *v;
	uint32_t n, cap;
};

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
	    .spec = m->spec};
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
	if (ok)
		print(&l);
	else
		fprintf(stderr, "bench-bounds: %s\n", e.msg);
	db_close(db);
	arena_fini(&a);
	return ok ? 0 : err_exit_status(e.code);
}
