/* tests/unit/plan_make_test.c: plans of hand-made graphs: outputs that are inputs, constants, views or
 * twins; weights packed and shared; memory and order; and that the checker sees every tampering. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "../../daemon/plan/choice_check.h"
#include "../../kernels/run/certify.h"
#include "../../kernels/run/exec.h"
#include "../harness/plan_path.h"

static void
read_graph(struct arena *a, const char *text, struct graph *g)
{
	struct err e = {0};

	if (!graph_read(g, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		size_t n;

		if (g->tensors[t].role != ROLE_WEIGHT)
			continue;
		assert_true(shape_bytes(&g->tensors[t].shape, g->tensors[t].type, &n));
		g->tensors[t].data = arena_alloc(a, n);
	}
}

static void
fill(struct graph *g, uint32_t weight, float first)
{
	float *v = (float *)(uintptr_t)g->tensors[weight].data;

	for (int64_t i = 0; i < shape_count(&g->tensors[weight].shape); i++)
		v[i] = first + (float)i;
}

static void
make_plan(struct arena *a, const struct graph *g, struct plan_path *path)
{
	struct certificate c;
	struct err e = {0};

	if (!plan_path_make(a, g, 1, path, &e) || !plan_check(&path->plan, &e) ||
	    !plan_certify(&path->plan, &c, &e))
		fail_msg("%s", e.msg);
}

static void
an_output_that_is_an_input_is_a_copy(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;
	const float x[] = {1, 2, 3, 4, 5, 6};
	const void *in[] = {x};
	void *out[2];
	struct err e = {0};

	(void)state;
	/* The second is the input through another shape. */
	read_graph(&a,
	    "%0 = input f32[2,3] \"x\"\n%1 = reshape %0 shape=[6] : f32[6]\noutput %0 \"y\"\noutput %1 "
	    "\"z\"\n",
	    &g);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.n_steps, 0);
	assert_int_equal(path.plan.n_copies, 2);
	assert_int_equal(path.plan.work_bytes, 0);
	assert_int_equal(path.plan.latency_ns, 0);
	assert_true(plan_path_run(&a, &path.plan, in, out, &e));
	assert_memory_equal(out[0], x, sizeof(x));
	assert_memory_equal(out[1], x, sizeof(x));
	arena_fini(&a);
}

/* Candidates are found again in a plan's graph (korch-plan port), and an operator is one however large. */
static void
its_graph_says_which_operator_a_primitive_is_of(void **state)
{
	struct arena a = {0};
	struct graph g, back;
	struct plan_path path;
	struct err e = {0};

	(void)state;
	read_graph(
	    &a, "%0 = input f32[6] \"x\"\n%1 = exp %0 : f32[6]\n%2 = neg %1 : f32[6]\noutput %2 \"y\"\n", &g);
	g.nodes[0].origin = 7;
	make_plan(&a, &g, &path);
	assert_true(graph_read_origins(&back, &a, path.plan.graph, &e));
	assert_int_equal(back.n_nodes, 2);
	assert_int_equal(back.nodes[0].origin, 7);
	assert_int_equal(back.nodes[1].origin, NO_NODE);
	assert_false(graph_read(&back, &a, path.plan.graph, &e));
	arena_fini(&a);
}

static void
an_output_that_is_a_constant_is_a_copy(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;
	const float x[] = {1, 2};
	const void *in[] = {x};
	void *out[2];
	struct err e = {0};

	(void)state;
	read_graph(&a,
	    "%0 = input f32[2] \"x\"\n%1 = weight f32[3] \"w\"\n%2 = neg %0 : f32[2]\noutput %1 "
	    "\"y\"\noutput %2 \"z\"\n",
	    &g);
	fill(&g, 1, 7);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.n_copies, 1);
	assert_true(plan_path_run(&a, &path.plan, in, out, &e));
	assert_memory_equal(out[0], g.tensors[1].data, 12);
	assert_true(((float *)out[1])[1] < -1.9f);
	arena_fini(&a);
}

static void
one_tensor_may_be_two_outputs_and_a_view_a_third(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;
	const float x[] = {1, -2, 3, -4};
	const float want[] = {1, 0, 3, 0};
	const void *in[] = {x};
	void *out[3];
	struct err e = {0};

	(void)state;
	read_graph(&a,
	    "%0 = input f32[2,2] \"x\"\n%1 = relu %0 : f32[2,2]\n%2 = reshape %1 shape=[4] : f32[4]\n"
	    "output %1 \"y\"\noutput %1 \"z\"\noutput %2 \"v\"\n",
	    &g);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.n_steps, 1);
	assert_int_equal(path.plan.n_copies, 2);
	assert_true(plan_path_run(&a, &path.plan, in, out, &e));
	for (int i = 0; i < 3; i++)
		assert_memory_equal(out[i], want, sizeof(want));
	arena_fini(&a);
}

static void
a_view_shares_its_operand_s_place(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;

	(void)state;
	/* cumsum is opaque and runs alone: its result is stored and read through the view. */
	read_graph(&a,
	    "%0 = input f32[2,2] \"x\"\n%1 = cumsum %0 axis=0 exclusive=0 reverse=0 : f32[2,2]\n"
	    "%2 = reshape %1 shape=[4] : f32[4]\n%3 = cumsum %2 axis=0 exclusive=0 reverse=0 : "
	    "f32[4]\noutput %3 \"y\"\n",
	    &g);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.n_steps, 2);
	assert_int_equal(path.plan.steps[0].places[1], path.plan.steps[1].places[0]);
	assert_int_equal(path.plan.work_bytes, 64);
	arena_fini(&a);
}

/* Three layers with one spec; two weights are equal. */
static const char layers[] =
    "%0 = input f32[64,64] \"x\"\n%1 = weight f32[64,64] \"a\"\n%2 = weight f32[64,64] \"b\"\n"
    "%3 = weight f32[64,64] \"c\"\n%4 = matmul %0 %1 : f32[64,64]\n%5 = matmul %4 %2 : f32[64,64]\n%6 = "
    "matmul %5 %3 : f32[64,64]\n"
    "output %6 \"y\"\n";

static void
equal_weights_are_stored_once(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;

	(void)state;
	read_graph(&a, layers, &g);
	fill(&g, 1, 1);
	fill(&g, 2, 2);
	fill(&g, 3, 1);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.n_steps, 3);
	assert_int_equal(path.plan.n_kernels, 1);
	assert_int_equal(path.plan.constants.n, 2 * 16384);
	assert_memory_equal(path.plan.constants.p, g.tensors[1].data, 16384);
	assert_memory_equal(path.plan.constants.p + 16384, g.tensors[2].data, 16384);
	/* Two blocks take turns. */
	assert_int_equal(path.plan.work_bytes, 2 * 16384);
	arena_fini(&a);
}

/* The same, with a kernel that wants its weight transposed. */
static void
weights_are_packed_as_the_kernel_asks(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;
	struct plan plan = {.n_threads = 1};
	struct pack pack = {.operand = 1, .rank = 2, .dim = {64, 64}, .coef = {1, 64}, .n_columns = 1};
	struct plan_code *codes;
	int64_t *bound;
	bool *measured;
	struct err e = {0};

	(void)state;
	read_graph(&a, layers, &g);
	fill(&g, 1, 1);
	fill(&g, 2, 2);
	fill(&g, 3, 1);
	make_plan(&a, &g, &path);
	codes = NEW_ARRAY(&a, struct plan_code, path.cands.n_specs);
	bound = NEW_ARRAY(&a, int64_t, path.cands.n_specs);
	measured = NEW_ARRAY(&a, bool, path.cands.n_specs);
	for (uint32_t s = 0; s < path.cands.n_specs; s++) {
		const struct graph *sg = &path.cands.specs[s].g;

		codes[s] = (struct plan_code){
		    .is_ready = true, .symbol = STR("k"), .desc = {.n_passes = 1, .n_packs = 1}};
		codes[s].desc.packs = arena_dup(&a, &pack, sizeof(pack));
		codes[s].desc.packs->operand = sg->tensors[0].role == ROLE_WEIGHT ? 0 : 1;
	}
	assert_true(plan_make(&a,
	    &(struct plan_parts){.graph = &g,
		.cands = &path.cands,
		.program = &path.program,
		.choice = &path.choice,
		.codes = codes,
		.bound_ns = bound,
		.is_measured = measured},
	    &plan, &e));
	assert_int_equal(plan.constants.n, 2 * 16384);
	assert_false(plan.proved);
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 64; j++) {
			float d = ((const float *)(const void *)plan.constants.p)[i * 64 + j] -
			    (float)(1 + j * 64 + i);

			assert_true(d < 1e-6f && d > -1e-6f);
		}
	arena_fini(&a);
}

static void
a_weight_without_data_is_named(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;
	struct err e = {0};

	(void)state;
	read_graph(&a, layers, &g);
	g.tensors[2].data = NULL;
	assert_false(plan_path_make(&a, &g, 1, &path, &e));
	assert_non_null(strstr(e.msg, "'b'"));
	arena_fini(&a);
}

/* ---- order and memory -------------------------------------------------------------------------- */
static void
blocks_that_live_together_do_not_overlap(void **state)
{
	struct rng r = {3};

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct arena a = {0};
		struct mem_block b[40];
		uint32_t n = 1 + rng_below(&r, 40);
		size_t total, most = 0, sum = 0;

		for (uint32_t i = 0; i < n; i++) {
			b[i].first = rng_below(&r, 30);
			b[i].last = b[i].first + rng_below(&r, 6);
			b[i].n_bytes = rng_below(&r, 5) ? rng_below(&r, 3000) : 0;
			sum += b[i].n_bytes + 64;
		}
		total = mem_place(&a, b, n, NULL);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(b[i].offset % PLAN_ALIGN, 0);
			assert_true(b[i].offset + b[i].n_bytes <= total);
			most = MAX_OF(most, b[i].n_bytes);
			for (uint32_t j = 0; j < i; j++)
				if (b[i].first <= b[j].last && b[j].first <= b[i].last && b[i].n_bytes &&
				    b[j].n_bytes)
					assert_true(b[i].offset + b[i].n_bytes <= b[j].offset ||
					    b[j].offset + b[j].n_bytes <= b[i].offset);
		}
		assert_true(total >= most && total <= sum);
		arena_fini(&a);
	}
}

/* Two branches of a wide tensor each, joined: one branch after the other keeps one wide tensor live. */
static void
order_runs_one_branch_after_the_other(void **state)
{
	static const uint32_t t[] = {0, 1, 2, 3, 4, 5};
	const struct blp_kernel k[] = {
	    {&t[0], &t[1], 1, 1, 1},
	    {&t[0], &t[2], 1, 1, 1}, /* wide 1 and 2 */
	    {&t[1], &t[3], 1, 1, 1},
	    {&t[2], &t[4], 1, 1, 1}, /* narrow 3 and 4 */
	    {&t[3], &t[5], 2, 1, 1},
	};
	const struct blp p = {.n_tensors = 6,
	    .n_kernels = 5,
	    .kernels = k,
	    .given = &t[0],
	    .wanted = &t[5],
	    .n_given = 1,
	    .n_wanted = 1};
	const size_t bytes[] = {1000, 1000, 1000, 10, 10, 10};
	uint32_t order[] = {0, 1, 2, 3, 4};
	struct arena a = {0};
	struct err e = {0};

	(void)state;
	order_make(&a, &p, bytes, order, 5);
	assert_true(blp_check_order(&p, order, 5, &e));
	assert_int_equal(order[0], 0);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 1);
	assert_int_equal(order[3], 3);
	arena_fini(&a);
}

/* ---- results on operands' bytes --------------------------------------------------------------------- */
/* Steps: cumsum, relu and neg, cumsum; only the middle one may work in place. */
static const char chain[] =
    "%0 = input f32[2,8] \"x\"\n%1 = cumsum %0 axis=0 exclusive=0 reverse=0 : f32[2,8]\n"
    "%2 = relu %1 : f32[2,8]\n%3 = neg %2 : f32[2,8]\n%4 = cumsum %3 axis=0 exclusive=0 "
    "reverse=0 : f32[2,8]\noutput %4 \"y\"\n";

/* None of these may. */
static const char scans[] =
    "%0 = input f32[2,8] \"x\"\n%1 = cumsum %0 axis=0 exclusive=0 reverse=0 : f32[2,8]\n"
    "%2 = cumsum %1 axis=1 exclusive=0 reverse=0 : f32[2,8]\n%3 = cumsum %2 axis=0 exclusive=0 "
    "reverse=0 : f32[2,8]\noutput %3 \"y\"\n";

/* The first step that writes where it reads; NULL: none. */
static const struct plan_step *
step_in_place(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		uint32_t n = p->kernels[s->kernel].n_operands;

		for (uint32_t r = n; r < s->n_places; r++)
			for (uint32_t j = 0; j < n; j++)
				if (p->places[s->places[r]].kind == PLACE_WORK &&
				    p->places[s->places[j]].kind == PLACE_WORK &&
				    p->places[s->places[r]].offset == p->places[s->places[j]].offset)
					return s;
	}
	return NULL;
}

static void
a_result_takes_over_an_operand_that_dies(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;

	(void)state;
	read_graph(&a, chain, &g);
	make_plan(&a, &g, &path);
	assert_int_equal(path.plan.work_bytes, 64);
	assert_non_null(step_in_place(&path.plan));
	arena_fini(&a);
}

static void
an_operand_that_is_read_later_keeps_its_bytes(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct plan_path path;

	(void)state;
	/* %1 is read by the last step, too. */
	read_graph(&a,
	    "%0 = input f32[2,8] \"x\"\n%1 = cumsum %0 axis=0 exclusive=0 reverse=0 : f32[2,8]\n"
	    "%2 = relu %1 : f32[2,8]\n%3 = cumsum %2 axis=0 exclusive=0 reverse=0 : f32[2,8]\n"
	    "%4 = cumsum %1 axis=1 exclusive=0 reverse=0 : f32[2,8]\n%5 = add %3 %4 : f32[2,8]\n"
	    "output %5 \"y\"\n",
	    &g);
	make_plan(&a, &g, &path);
	for (uint32_t i = 0; i < path.plan.n_steps; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct plan_step *s = &path.plan.steps[i], *t = &path.plan.steps[j];
			uint32_t from = t->places[t->n_places - 1];

			/* Whoever reads what j made finds j's bytes, whatever ran between. */
			for (uint32_t k = j + 1; k < i; k++)
				for (uint32_t q = 0; q < path.plan.kernels[s->kernel].n_operands; q++)
					if (s->places[q] == from) {
						const struct plan_step *u = &path.plan.steps[k];
						const struct place *w =
						    &path.plan.places[u->places[u->n_places - 1]];

						assert_false(w->kind == PLACE_WORK &&
						    w->offset == path.plan.places[from].offset);
					}
		}
	arena_fini(&a);
}

/* ---- tampering ----------------------------------------------------------------------------------- */
static void
spoil_latency(struct plan *p)
{
	p->latency_ns--;
}
static void
spoil_kernel_cost(struct plan *p)
{
	p->kernels[0].cost_ns--;
}
static void
spoil_candidate_cost(struct plan *p)
{
	p->candidates[p->steps[0].candidate].cost_ns++;
}
static void
spoil_cheaper_candidate(struct plan *p)
{
	for (uint32_t i = 0; i < p->n_candidates; i++)
		if (!p->candidates[i].is_chosen)
			p->candidates[i].cost_ns = 1;
}
static void
spoil_bound_above_cost(struct plan *p)
{
	p->bound_ns = p->latency_ns + 1;
}
static void
spoil_proved(struct plan *p)
{
	p->bound_ns--;
}
static void
spoil_row(struct plan *p)
{
	p->rows[0].n_candidates--;
}
static void
spoil_dual(struct plan *p)
{
	p->rows[0].dual += 1;
}
static void
spoil_negative_dual(struct plan *p)
{
	p->rows[0].dual = -1;
}
static void
spoil_order(struct plan *p)
{
	struct plan_step s = p->steps[0];

	p->steps[0] = p->steps[1];
	p->steps[1] = s;
}
static void
spoil_missing_step(struct plan *p)
{
	p->n_steps--;
}
static void
spoil_double_step(struct plan *p)
{
	p->steps[1] = p->steps[0];
}
static void
spoil_unchosen(struct plan *p)
{
	p->candidates[p->steps[0].candidate].is_chosen = false;
}
static void
spoil_read(struct plan *p)
{
	p->steps[2].places[0] = p->steps[1].places[0];
}
static void
spoil_overlap(struct plan *p)
{
	/* Both blocks at the same offset: the second step would write over what the first left. */
	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->places[i].kind == PLACE_WORK)
			p->places[i].offset = 0;
}
static void
spoil_tensor(struct plan *p)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		p->places[i].tensor += p->places[i].kind == PLACE_WORK;
}
static void
spoil_type(struct plan *p)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->places[i].kind == PLACE_WORK)
			p->places[i].type = DT_i32;
}
static void
spoil_size(struct plan *p)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->places[i].kind == PLACE_WORK)
			p->places[i].n_bytes -= 4;
}
static void
spoil_spec(struct plan *p)
{
	p->kernels[0].spec.n -= 2;
}

static struct place *
place_of_in_place_result(struct plan *p)
{
	const struct plan_step *s = step_in_place(p);

	if (!s)
		fail_msg("no step works in place");
	return &p->places[s->places[s->n_places - 1]];
}

static void
spoil_undeclared_overlap(struct plan *p)
{
	p->kernels[step_in_place(p)->kernel].n_overlaps = 0;
}

static void
spoil_partial_overlap(struct plan *p)
{
	p->work_bytes += 64;
	place_of_in_place_result(p)->offset += 4;
}

static void
spoil_overlap_of_another_result(struct plan *p)
{
	p->kernels[step_in_place(p)->kernel].overlaps[0].result = 1;
}

static void
spoil_overlap_of_another_size(struct plan *p)
{
	place_of_in_place_result(p)->n_bytes += 64;
	p->work_bytes += 64;
}

static void
the_checker_sees_every_tampering(void **state)
{
	static const struct {
		const char *what;
		void (*spoil)(struct plan *p);
		const char *graph;
	} rows[] = {
#define ROW(F) {#F, F, chain}
	    ROW(spoil_latency),
	    ROW(spoil_kernel_cost),
	    ROW(spoil_candidate_cost),
	    ROW(spoil_cheaper_candidate),
	    ROW(spoil_bound_above_cost),
	    ROW(spoil_proved),
	    ROW(spoil_row),
	    ROW(spoil_dual),
	    ROW(spoil_negative_dual),
	    ROW(spoil_order),
	    ROW(spoil_missing_step),
	    ROW(spoil_double_step),
	    ROW(spoil_unchosen),
	    ROW(spoil_read),
	    {"spoil_overlap", spoil_overlap, scans},
	    ROW(spoil_undeclared_overlap),
	    ROW(spoil_partial_overlap),
	    ROW(spoil_overlap_of_another_result),
	    ROW(spoil_overlap_of_another_size),
	    ROW(spoil_tensor),
	    ROW(spoil_type),
	    ROW(spoil_size),
	    ROW(spoil_spec),
#undef ROW
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct graph g;
		struct plan_path path;
		struct certificate c;
		struct err e = {0};

		/* Opaque steps of their own, so that there are three, and wider candidates are none. */
		read_graph(&a, rows[i].graph, &g);
		make_plan(&a, &g, &path);
		assert_true(path.plan.n_steps >= 3);
		rows[i].spoil(&path.plan);
		if (plan_check(&path.plan, &e) && plan_certify(&path.plan, &c, &e))
			fail_msg("%s is not noticed", rows[i].what);
		arena_fini(&a);
	}
}

/* ---- a confidence ------------------------------------------------------------------------------- */
/* The plan's own landmarks as those of a confidence, beside a weaker bound: no proof any more. */
static void
claim_confidence(struct arena *a, struct plan *p)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->n_rows; i++)
		sum += p->rows[i].dual;
	p->proved = false;
	p->bound_ns = 1;
	p->n_sures = 1;
	p->sures = NEW(a, struct plan_sure);
	p->sures[0] =
	    (struct plan_sure){.confidence = 0.95, .least_ns = (int64_t)ceil(sum), .n_predicted = 1};
	p->sure_rows = arena_dup(a, p->rows, sizeof(*p->rows) * p->n_rows);
	p->n_sure_rows = p->n_rows;
	p->sure_costs = NEW(a, struct plan_sure_cost);
}
static void
sure_of_a_proved_plan(struct plan *p)
{
	p->proved = true;
	p->bound_ns = p->latency_ns;
}
static void
sure_above_the_plan(struct plan *p)
{
	p->sures[0].least_ns = p->latency_ns + 1;
}
static void
sure_of_what_the_bound_says(struct plan *p)
{
	p->sures[0].least_ns = p->bound_ns;
}
static void
sure_without_a_row(struct plan *p)
{
	p->sure_rows++;
	p->n_sure_rows--;
}
static void
sure_by_a_dual_above_its_costs(struct plan *p)
{
	p->sure_rows[0].dual += 2;
}
static void
sure_by_a_dearer_measurement(struct plan *p)
{
	p->n_sure_costs = 1;
	p->sure_costs[0] = (struct plan_sure_cost){
	    .candidate = p->steps[0].candidate, .cost_ns = p->candidates[p->steps[0].candidate].cost_ns + 1};
}
static void
sure_by_a_cheaper_kernel(struct plan *p)
{
	p->n_sure_costs = 1;
	p->sure_costs[0] = (struct plan_sure_cost){.candidate = p->steps[0].candidate, .cost_ns = 1};
}
static void
sure_of_a_guess(struct plan *p)
{
	p->kernels[p->steps[0].kernel].is_measured = false;
	for (uint32_t i = 0; i < p->n_steps; i++)
		p->candidates[p->steps[i].candidate].is_measured = p->kernels[p->steps[i].kernel].is_measured;
}
static void
sure_twice(struct plan *p)
{
	p->n_sures = 2;
}
static void
sure_of_all_jobs(struct plan *p)
{
	p->sures[0].confidence = 1;
}
static void
sure_of_no_candidate(struct plan *p)
{
	p->n_sure_costs = 1;
	p->sure_costs[0] = (struct plan_sure_cost){.candidate = p->n_candidates, .cost_ns = 1};
}

static void
a_confidence_is_added_up_again(void **state)
{
	static const struct {
		const char *what;
		void (*spoil)(struct plan *p);
	} rows[] = {
#define ROW(F) {#F, F}
	    {"nothing", NULL},
	    ROW(sure_of_a_proved_plan),
	    ROW(sure_above_the_plan),
	    ROW(sure_of_what_the_bound_says),
	    ROW(sure_without_a_row),
	    ROW(sure_by_a_dual_above_its_costs),
	    ROW(sure_by_a_dearer_measurement),
	    ROW(sure_by_a_cheaper_kernel),
	    ROW(sure_of_a_guess),
	    ROW(sure_twice),
	    ROW(sure_of_all_jobs),
	    ROW(sure_of_no_candidate),
#undef ROW
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct graph g;
		struct plan_path path;
		struct certificate c;
		struct err e = {0};
		bool holds;

		read_graph(&a, chain, &g);
		make_plan(&a, &g, &path);
		claim_confidence(&a, &path.plan);
		if (rows[i].spoil)
			rows[i].spoil(&path.plan);
		holds = plan_check(&path.plan, &e) && plan_certify(&path.plan, &c, &e);
		if (holds != !rows[i].spoil)
			fail_msg("%s: %s", rows[i].what, holds ? "not noticed" : e.msg);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_output_that_is_an_input_is_a_copy),
	    cmocka_unit_test(its_graph_says_which_operator_a_primitive_is_of),
	    cmocka_unit_test(an_output_that_is_a_constant_is_a_copy),
	    cmocka_unit_test(one_tensor_may_be_two_outputs_and_a_view_a_third),
	    cmocka_unit_test(a_view_shares_its_operand_s_place),
	    cmocka_unit_test(equal_weights_are_stored_once),
	    cmocka_unit_test(weights_are_packed_as_the_kernel_asks),
	    cmocka_unit_test(a_weight_without_data_is_named),
	    cmocka_unit_test(blocks_that_live_together_do_not_overlap),
	    cmocka_unit_test(order_runs_one_branch_after_the_other),
	    cmocka_unit_test(a_result_takes_over_an_operand_that_dies),
	    cmocka_unit_test(an_operand_that_is_read_later_keeps_its_bytes),
	    cmocka_unit_test(the_checker_sees_every_tampering),
	    cmocka_unit_test(a_confidence_is_added_up_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
