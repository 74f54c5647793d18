/* tests/prop/emit_test.c: generated kernels against the interpreter (trial.h), on random graphs and on
 * shapes that are awkward, every primitive and every type among them.
 * KORCH_EMIT_GRAPHS=N tries N random graphs (default 320), KORCH_EMIT_SEED=N from there. */
#include "../harness/kernel.h"
#include "../harness/setting.h"
#include "random_graph.h"
#include "random_spec.h"
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* ---- tests ------------------------------------------------------------------------------------------------
 */
static const char *const schedules[] = {"", "", "block=3", "block=1", "block=5 mr=3", "block=64 nv=1"};

static void
random_one(struct arena *a, struct trial *o, uint64_t seed)
{
	struct rng r = {seed};
	struct spec spec;

	random_spec(a, &r, &spec);
	*o = (struct trial){
	    .spec = spec, .seed = seed, .schedule = schedules[rng_below(&r, COUNT_OF(schedules))]};
}

static void
run_random(const struct target *t, uint64_t n, uint64_t seed)
{
	uint32_t bad = 0, refused = 0, overlapped = 0;

	for (uint64_t from = 0; from < n && bad < 5; from += TRIAL_BATCH) {
		struct arena a = {0};
		struct trial *list = NEW_ARRAY(&a, struct trial, TRIAL_BATCH);

		for (uint32_t i = 0; i < TRIAL_BATCH; i++) {
			random_one(&a, &list[i], seed + from + i);
			trial_make(&a, &list[i], i, t);
			refused += list[i].infeasible;
		}
		bad += trials_check(&a, list, TRIAL_BATCH, t);
		for (uint32_t i = 0; i < TRIAL_BATCH; i++)
			overlapped += list[i].n_overlapped;
		arena_fini(&a);
	}
	print_message("%llu graphs, %u refused as infeasible, %u results on an operand's bytes\n",
	    (unsigned long long)n, refused, overlapped);
	assert_true(overlapped > 0 || t->is_cuda || n < 40);
	assert_int_equal(bad, 0);
}

static void
test_random_graphs(void **state)
{
	(void)state;
	run_random(&target_avx2, setting("KORCH_EMIT_GRAPHS", 320), setting("KORCH_EMIT_SEED", 1));
}

static void
test_random_graphs_widest(void **state)
{
	const struct target *t = kernel_target(1);

	(void)state;
	print_message("the widest vectors here: %d bytes\n", t->simd_bytes);
	if (t->isa != target_avx2.isa)
		run_random(t, setting("KORCH_EMIT_GRAPHS", 320) / 2, setting("KORCH_EMIT_SEED", 1) + 2000000);
}

static void
test_random_graphs_strict(void **state)
{
	struct target t = target_avx2;

	(void)state;
	t.strict = true;
	run_random(&t, setting("KORCH_EMIT_GRAPHS", 320) / 4, setting("KORCH_EMIT_SEED", 1) + 1000000);
}

/* ---- every primitive, every type ---- */
struct list {
	struct arena *a;
	struct trial *one;
	uint32_t n, cap;
};

static void
list_add(struct list *l, const struct graph *g, const char *schedule)
{
	GROW(l->a, l->one, l->n, l->cap);
	struct trial *o = &l->one[l->n];

	*o = (struct trial){.seed = l->n + 1, .schedule = schedule};
	spec_of_graph(l->a, g, &o->spec);
	trial_make(l->a, o, l->n % TRIAL_BATCH, &target_avx2);
	if (o->infeasible)
		trial_say(o, "refused");
	assert_false(o->infeasible);
	l->n++;
}

static void
list_check(struct list *l)
{
	uint32_t bad = 0;

	for (uint32_t i = 0; i < l->n; i += TRIAL_BATCH)
		bad += trials_check(l->a, &l->one[i], MIN_OF((uint32_t)TRIAL_BATCH, l->n - i), &target_avx2);
	print_message("%u kernels\n", l->n);
	assert_int_equal(bad, 0);
}

static bool
takes_integers(enum prim p)
{
	static const enum prim whole[] = {PRIM_neg, PRIM_abs, PRIM_sign, PRIM_relu, PRIM_bitnot, PRIM_cast,
	    PRIM_add, PRIM_sub, PRIM_mul, PRIM_div, PRIM_min, PRIM_max, PRIM_pow, PRIM_mod, PRIM_fmod,
	    PRIM_eq, PRIM_lt, PRIM_le, PRIM_and, PRIM_or, PRIM_xor, PRIM_shl, PRIM_shr, PRIM_select};

	for (uint32_t i = 0; i < COUNT_OF(whole); i++)
		if (whole[i] == p)
			return true;
	return false;
}

static bool
takes_reals(enum prim p)
{
	static const enum prim not [] = {
	    PRIM_not, PRIM_bitnot, PRIM_and, PRIM_or, PRIM_xor, PRIM_shl, PRIM_shr};

	for (uint32_t i = 0; i < COUNT_OF(not ); i++)
		if (not [i] == p)
			return false;
	return true;
}

static bool
takes(enum prim p, enum dtype t)
{
	if (t == DT_bool)
		return p == PRIM_not || p == PRIM_and || p == PRIM_or || p == PRIM_xor || p == PRIM_eq ||
		    p == PRIM_cast;
	return dtype_is_float(t) ? takes_reals(p) : takes_integers(p);
}

static void
map_case(struct list *l, enum prim p, enum dtype t, enum dtype to)
{
	static const int64_t dim[] = {3, 5, 17};
	struct shape s = shape_make(3, dim);
	struct attrs at = {0};
	struct err e = {0};
	struct graph g;
	tensor_id in[3], out[1];

	graph_init(&g, l->a);
	for (int i = 0; i < prim_info[p].n_in; i++)
		in[i] = graph_input(&g,
		    p == PRIM_select && i == 0    ? DT_bool
			: p == PRIM_pow && i == 1 ? to
						  : t,
		    &s, NULL);
	if (p == PRIM_cast)
		at_int(&at, ATTR_to, to);
	if (!graph_add(&g, p, in, (uint32_t)prim_info[p].n_in, &at, NO_NODE, out, &e))
		return;
	graph_output(&g, out[0], NULL);
	list_add(l, &g, "");
}

static void
test_every_map(void **state)
{
	struct arena a = {0};
	struct list l = {.a = &a};

	(void)state;
	for (int p = 0; p < PRIM_COUNT; p++) {
		if (prim_info[p].class != CLASS_MAP)
			continue;
		for (int t = 0; t < DT_COUNT; t++)
			for (int to = 0; to < DT_COUNT && takes((enum prim)p, (enum dtype)t); to++)
				if (p == PRIM_cast || (p == PRIM_pow && takes(PRIM_pow, (enum dtype)to)) ||
				    to == 0)
					map_case(&l, (enum prim)p, (enum dtype)t, (enum dtype)to);
	}
	list_check(&l);
	arena_fini(&a);
}

/* Graph texts; @ stands for the type. */
static void
text_case(struct list *l, const char *text, const char *type, const char *schedule)
{
	struct strbuf sb;
	struct err e = {0};
	struct graph *g = NEW(l->a, struct graph);

	sb_init(&sb, l->a);
	for (; *text; text++) {
		if (*text == '@')
			sb_addz(&sb, type);
		else
			sb_addc(&sb, *text);
	}
	if (!graph_read(g, l->a, sb_str(&sb), &e))
		fail_msg("%s in\n%s", e.msg, sb_str(&sb).p);
	list_add(l, g, schedule);
}

static const char *const shapely[] = {
#include "emit_cases.inc"
};

static void
test_every_primitive(void **state)
{
	static const char *const types[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8"};
	struct arena a = {0};
	struct list l = {.a = &a};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(shapely); i++)
		for (uint32_t t = 0; t < COUNT_OF(types); t++)
			if (t == 0 || strchr(shapely[i], '@'))
				text_case(&l, shapely[i], types[t], "");
	list_check(&l);
	arena_fini(&a);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_map),
	    cmocka_unit_test(test_every_primitive),
	    cmocka_unit_test(test_random_graphs),
	    cmocka_unit_test(test_random_graphs_widest),
	    cmocka_unit_test(test_random_graphs_strict),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
