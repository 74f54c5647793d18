/* Every primitive on random operands of every type, with plausible and hostile attributes: the
 * rules never accept what the interpreter cannot run, and sampled elements equal dense ones. */
#include "../../kernels/interp/interp.h"
#include "random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TRIES = 4000, MAX_COUNT = 20000 };

static const int64_t hostile[] = {INT64_MIN, INT64_MAX, -1, INT64_MAX / 2, 1ll << 40, -(1ll << 33), 1000};

static int64_t
some_number(struct rng *r, bool is_hostile)
{
	if (is_hostile && rng_below(r, 4) == 0)
		return hostile[rng_below(r, COUNT_OF(hostile))];
	return (int64_t)rng_below(r, 5) - (rng_below(r, 6) == 0 ? 3 : 0);
}

static struct shape
some_shape(struct rng *r, int rank)
{
	struct shape s = {.rank = rank};

	for (int d = 0; d < rank; d++)
		s.dim[d] = rng_below(r, 12) == 0 ? 0 : 1 + rng_below(r, 4);
	return s;
}

/* Attributes as the row wants them, lists of about the operand's rank. */
static void
some_attrs(struct rng *r, enum prim p, const struct shape *x, bool is_hostile, struct attrs *at)
{
	*at = (struct attrs){0};
	for (int key = 0; key < ATTR_COUNT; key++) {
		int64_t v[MAX_RANK];
		int n = x->rank;

		if (!(prim_info[p].attrs >> key & 1))
			continue;
		if (prim_info[p].shape == SHAPE_CONV)
			n = MAX_OF(n - 2, 0);
		if (rng_below(r, 20) == 0)
			n = (int)rng_below(r, MAX_RANK + 1);
		for (int i = 0; i < n; i++)
			v[i] = some_number(r, is_hostile);
		for (int i = 0; i < n &&
		     (key == ATTR_stride || key == ATTR_dilation || key == ATTR_ldil || key == ATTR_kernel ||
			 key == ATTR_step);
		     i++)
			v[i] = v[i] == 0 ? 1 : v[i];
		if (key == ATTR_perm)
			for (int i = 0; i < n; i++)
				v[i] = n - 1 - i;
		if (key == ATTR_axes) {
			n = x->rank ? 1 : 0;
			v[0] = x->rank ? rng_below(r, (uint32_t)x->rank) : 0;
		}
		if (key == ATTR_shape && rng_below(r, 3))
			for (int i = 0; i < n && i < x->rank; i++)
				v[i] = x->dim[i];
		switch (attr_kind_of((enum attr_key)key)) {
		case ATTR_LIST:
			at_list(at, (enum attr_key)key, n, v);
			break;
		case ATTR_INT:
			at_int(at, (enum attr_key)key,
			    key == ATTR_group && rng_below(r, 2)    ? 1
				: key == ATTR_to && rng_below(r, 9) ? (int64_t)rng_below(r, DT_COUNT)
								    : some_number(r, is_hostile));
			break;
		case ATTR_REAL:
			at_real(at, (enum attr_key)key, rng_normal(r));
			break;
		}
	}
}

/* Operand k, so that the whole has a fair chance to be valid. */
static tensor_id
some_operand(struct graph *g, struct rng *r, enum prim p, uint32_t k, const struct shape *first, enum dtype t)
{
	struct shape s = *first;

	if (k == 1 &&
	    (p == PRIM_gather || p == PRIM_gather_elements || p == PRIM_gather_nd ||
		p == PRIM_scatter_elements || p == PRIM_scatter_nd)) {
		t = rng_below(r, 2) ? DT_i64 : DT_i32;
		if (rng_below(r, 2))
			s = some_shape(r, 1 + (int)rng_below(r, 3));
	}
	if (p == PRIM_select)
		t = k ? t : DT_bool;
	if (k == 1 && p == PRIM_pow && rng_below(r, 2))
		t = (enum dtype)rng_below(r, DT_COUNT);
	if (k == 1 && p == PRIM_matmul && s.rank > 1)
		s.dim[s.rank - 2] = first->dim[s.rank - 1];
	if (k == 1 && p == PRIM_conv && s.rank > 2) {
		for (int d = 0; d < s.rank - 2; d++)
			s.dim[d] = 1 + rng_below(r, 3);
		s.dim[s.rank - 2] = first->dim[s.rank - 1];
		s.dim[s.rank - 1] = 1 + rng_below(r, 4);
	}
	if (rng_below(r, 30) == 0)
		t = (enum dtype)rng_below(r, DT_COUNT);
	return graph_input(g, t, &s, NULL);
}

/* Builds one node; false where the rules refuse it. */
static bool
some_node(struct graph *g, struct rng *r, enum prim p, bool is_hostile)
{
	enum dtype t = (enum dtype)rng_below(r, DT_COUNT);
	struct shape first = some_shape(r, (int)rng_below(r, 5));
	uint32_t n_in = prim_info[p].n_in < 0 ? 1 + rng_below(r, 3) : (uint32_t)prim_info[p].n_in;
	tensor_id in[3], out[2];
	struct attrs at;
	struct err e = {0};

	for (uint32_t k = 0; k < n_in; k++)
		in[k] = some_operand(g, r, p, k, &first, t);
	some_attrs(r, p, &first, is_hostile, &at);
	if (!graph_add(g, p, in, n_in, &at, NO_NODE, out, &e)) {
		assert_int_equal(e.code, ERR_MODEL);
		assert_true(strlen(e.msg) > 10);
		return false;
	}
	for (uint32_t k = 0; k < prim_n_out(p); k++)
		graph_output(g, out[k], NULL);
	return true;
}

static bool
is_small(const struct graph *g)
{
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (shape_count(&g->tensors[t].shape) > MAX_COUNT)
			return false;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!(node_flops(g, &g->nodes[i]) < 1e6))
			return false;
	return true;
}

static void
check_samples(struct arena *a, struct rng *r, const struct graph *g, const void *const *in, void *const *out)
{
	for (uint32_t k = 0; k < g->n_outputs; k++) {
		const struct tensor *t = graph_tensor(g, g->outputs[k]);
		int64_t n = shape_count(&t->shape), at[4];
		double have[4];
		struct err e = {0};

		if (n == 0)
			continue;
		for (int i = 0; i < 4; i++)
			at[i] = rng_below(r, (uint32_t)n);
		if (!interp_sample(a, g, in, g->outputs[k], at, 4, 1 << 26, NULL, have, &e))
			fail_msg("%s: %s", prim_info[g->nodes[0].prim].name, e.msg);
		for (int i = 0; i < 4; i++) {
			double want = elem_get(t->type, out[k], at[i]);

			assert_true(have[i] == want || (have[i] != have[i] && want != want));
		}
	}
}

static void
try_one(struct rng *r, enum prim p, bool is_hostile, uint32_t *n_run)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	void *out[2];
	const void **in;

	graph_init(&g, &a);
	if (some_node(&g, r, p, is_hostile)) {
		struct strbuf x, y;
		struct graph back;

		graph_verify(&g);
		sb_init(&x, &a);
		sb_init(&y, &a);
		graph_print(&x, &g);
		if (!graph_read(&back, &a, sb_str(&x), &e))
			fail_msg("%s\n%s", x.p, e.msg);
		graph_print(&y, &back);
		assert_string_equal(x.p, y.p);
		if (is_small(&g)) {
			in = random_inputs(&a, r, &g);
			if (interp_run(&a, &g, in, NULL, out, &e)) {
				check_samples(&a, r, &g, in, out);
				++*n_run;
			} else {
				assert_non_null(strstr(e.msg, "out of range"));
			}
		}
	}
	arena_fini(&a);
}

static void
every_primitive_runs_or_is_refused(void **state)
{
	(void)state;
	for (int p = 0; p < PRIM_COUNT; p++) {
		struct rng r = {(uint64_t)p + 1};
		uint32_t n_run = 0;

		for (int i = 0; i < TRIES; i++)
			try_one(&r, (enum prim)p, i % 2, &n_run);
		if (n_run < 10)
			fail_msg(
			    "%s ran %u times only: the test does not reach it", prim_info[p].name, n_run);
	}
}

static void
samples_of_graphs_equal_dense_values(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct random_opts o = {.n_nodes = 3 + rng_below(&r, 15), .kinds = RG_ALL, .max_extent = 5};
		struct graph raw, g;
		struct err e = {0};
		const void **in;
		void **out;

		random_graph(&raw, &a, &r, &o);
		graph_sort(&g, &a, &raw, NULL);
		in = random_inputs(&a, &r, &g);
		out = NEW_ARRAY(&a, void *, g.n_outputs);
		assert_true(interp_run(&a, &g, in, NULL, out, &e));
		check_samples(&a, &r, &g, in, out);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_primitive_runs_or_is_refused),
	    cmocka_unit_test(samples_of_graphs_equal_dense_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
