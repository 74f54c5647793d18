/* tests/prop/view_test.c: random graphs of concats and slices between maps become plans whose views are no
 * work: the checker accepts them, and the outputs are those of the graph although nobody runs the views. Each
 * view that is moved by a few bytes is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "../../kernels/interp/interp.h"
#include "../../kernels/run/certify.h"
#include "../../kernels/run/exec.h"
#include "../harness/plan_path.h"
#include "plan_outputs.h"
#include "random_graph.h"

enum { N_GRAPHS = 400, MOST = 40, WIDTH = 4 };

struct pool {
	tensor_id t[MOST];
	uint32_t n;
};
struct counts {
	uint32_t n_steps, n_views, n_moved;
};

static int64_t
rows_of(const struct graph *g, tensor_id t)
{
	return graph_tensor(g, t)->shape.dim[1];
}

static tensor_id
any(const struct pool *p, struct rng *r)
{
	return p->t[rng_below(r, p->n)];
}

static tensor_id
add(struct graph *g, enum prim prim, const tensor_id *in, uint32_t n, const struct attrs *at)
{
	tensor_id out;
	struct err e = {0};

	if (!graph_add(g, prim, in, n, at, NO_NODE, &out, &e))
		fail_msg("%s", e.msg);
	return out;
}

/* Opaque: a kernel of its own, with which nothing fuses. */
static tensor_id
add_scan(struct graph *g, tensor_id from)
{
	struct attrs attrs = {0};

	at_int(&attrs, ATTR_axis, 1);
	at_int(&attrs, ATTR_exclusive, 0);
	at_int(&attrs, ATTR_reverse, 0);
	return add(g, PRIM_cumsum, &from, 1, &attrs);
}

static tensor_id
add_slice(struct graph *g, struct rng *r, tensor_id from)
{
	int64_t rows = rows_of(g, from), n = 1 + rng_below(r, (uint32_t)rows),
		at = rng_below(r, (uint32_t)(rows - n + 1));
	const int64_t start[] = {0, at, 0}, step[] = {1, 1, 1}, shape[] = {1, n, WIDTH};
	struct attrs attrs = {0};

	at_list(&attrs, ATTR_start, 3, start);
	at_list(&attrs, ATTR_step, 3, step);
	at_list(&attrs, ATTR_shape, 3, shape);
	return add(g, PRIM_slice, &from, 1, &attrs);
}

static tensor_id
add_concat(struct graph *g, struct rng *r, const struct pool *p)
{
	tensor_id in[3];
	uint32_t n = 2 + rng_below(r, 2);
	struct attrs attrs = {0};

	for (uint32_t i = 0; i < n; i++)
		in[i] = any(p, r);
	at_int(&attrs, ATTR_axis, 1);
	return add(g, PRIM_concat, in, n, &attrs);
}

/* Tensors of [1, rows, 4]: rows are stretches of 16 bytes. */
static void
make_graph(struct graph *g, struct arena *a, struct rng *r)
{
	struct pool p = {.n = 0};
	const uint32_t n = 4 + rng_below(r, 14);
	bool *is_read;

	graph_init(g, a);
	for (int i = 0; i < 2; i++)
		p.t[p.n++] = graph_input(
		    g, DT_f32, &(struct shape){.rank = 3, .dim = {1, 1 + rng_below(r, 5), WIDTH}}, NULL);
	while (p.n < n) {
		tensor_id from = any(&p, r), next;
		uint32_t kind = rng_below(r, 10);

		if (kind < 3)
			next = add_scan(g, from);
		else if (kind < 5)
			next = add(g, PRIM_neg, &from, 1, &(struct attrs){0});
		else if (kind < 8)
			next = add_concat(g, r, &p);
		else
			next = add_slice(g, r, from);
		if (rows_of(g, next) <= 40)
			p.t[p.n++] = next;
	}
	is_read = NEW_ARRAY(a, bool, g->n_tensors);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t j = 0; j < g->nodes[i].n_in; j++)
			is_read[g->nodes[i].in[j].i] = true;
	for (uint32_t i = 2; i < p.n; i++)
		if (!is_read[p.t[i].i] || rng_below(r, 8) == 0)
			graph_output(g, p.t[i], NULL);
}

static bool
overlap(const struct place *a, const struct place *b)
{
	return a->kind == b->kind && (a->kind == PLACE_WORK || a->index == b->index) &&
	    a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

/* What the view's result shares bytes with, and the result itself, each moved by four bytes. */
static void
move_places(struct plan *p, const struct plan_step *s, struct counts *n, uint64_t seed)
{
	struct place *to = &p->places[s->places[s->n_places - 1]];

	for (uint32_t j = 0; j < s->n_places; j++) {
		struct place *at = &p->places[s->places[j]];
		size_t offset = at->offset;
		struct certificate c;
		struct err e = {0};

		if (!overlap(at, to))
			continue;
		at->offset = offset ? offset - 4 : 4;
		n->n_moved++;
		if (plan_check(p, &e) && plan_certify(p, &c, &e))
			fail_msg("seed %llu: place %u was moved, and nobody noticed",
			    (unsigned long long)seed, s->places[j]);
		at->offset = offset;
	}
}

static void
check_views(struct plan *p, struct counts *n, uint64_t seed)
{
	n->n_steps += p->n_steps;
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_kernel *k = &p->kernels[p->steps[i].kernel];

		if (!plan_kernel_is_view(k))
			continue;
		assert_int_equal(k->n_passes, 0);
		assert_int_equal(k->cost_ns, 1);
		n->n_views++;
		move_places(p, &p->steps[i], n, seed);
	}
}

static void
views_compute_their_graph(void **state)
{
	struct counts n = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
		struct arena a = {0};
		struct rng r = {seed};
		struct graph g, sorted;
		struct plan_path path;
		struct certificate c;
		struct err e = {0};

		make_graph(&g, &a, &r);
		graph_sort(&sorted, &a, &g, NULL);
		if (!plan_path_make(&a, &sorted, seed, &path, &e) || !plan_check(&path.plan, &e) ||
		    !plan_certify(&path.plan, &c, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		plan_makes_outputs(&a, &sorted, &path.plan, &r, 0, seed);
		check_views(&path.plan, &n, seed);
		arena_fini(&a);
	}
	print_message("%d graphs, %u steps, %u of them views, %u places moved\n", N_GRAPHS, n.n_steps,
	    n.n_views, n.n_moved);
	assert_true(n.n_views > N_GRAPHS / 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(views_compute_their_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
