/* tests/prop/attention_test.c: a softmax between two products against the interpreter: random shapes,
 * batches, transposed factors, masks broadcast every way; and rows that are masked as a whole or in part by
 * -inf or the least float, scores too large for any exponential, infinities and not-a-number.
 * KORCH_ATTENTION_ROUNDS=N batches (default 3), KORCH_ATTENTION_SEED=N from there.
 * label: cpu */
#include "../harness/setting.h"
#include "../harness/kernel.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 40 };

static const char *const schedules[] = {
    "", "", "mr=4 nv=1", "mr=3 nv=3", "block=3", "block=5 mr=4 nv=1", "mr=2 nv=2", "block=1"};

/* How the operands are filled. */
enum hazard { PLAIN, MASKED_KEYS, MASKED_ROWS, LEAST_FLOAT, LARGE, WILD, HAZARDS };

struct shape_of {
	int64_t batch, heads, q, keys, d, width;
	int mask;   /* which of its dimensions are broadcast: a bit each; -1: no mask */
	int behind; /* the product, stands the division: 1: as rewriting leaves it; 2: with more that waits
	               for the sum */
	bool k_transposed, q_transposed, scaled, weights, tail, merged;
};

static int64_t
extent(struct rng *r, int64_t most)
{
	static const int64_t liked[] = {1, 4, 7, 8, 9, 16, 17, 24, 32, 33, 48, 64};

	return rng_below(r, 2) ? MIN_OF(liked[rng_below(r, COUNT_OF(liked))], most)
			       : 1 + (int64_t)rng_below(r, (uint32_t)most);
}

static struct shape_of
random_shape(struct rng *r)
{
	return (struct shape_of){.batch = 1 + rng_below(r, 2),
	    .heads = 1 + rng_below(r, 3),
	    .q = extent(r, 70),
	    .keys = extent(r, 60) * (1 + rng_below(r, 3)),
	    .d = extent(r, 33),
	    .width = extent(r, 40),
	    .mask = (int)rng_below(r, 17) - 1,
	    .k_transposed = rng_below(r, 2),
	    .q_transposed = rng_below(r, 4) == 0,
	    .scaled = rng_below(r, 2),
	    .weights = rng_below(r, 5) == 0,
	    .tail = rng_below(r, 3) == 0,
	    .merged = rng_below(r, 3) == 0,
	    .behind = (int)rng_below(r, 3)};
}

#define ALL "[%lld,%lld,%lld,%lld]"
#define LL(X) ((long long)(X))

static const char *
graph_of(struct arena *a, const struct shape_of *s)
{
	const long long b = LL(s->batch), h = LL(s->heads), q = LL(s->q), n = LL(s->keys), d = LL(s->d),
			w = LL(s->width);
	const char *of = s->weights ? "weight" : "input";
	struct strbuf t;

	sb_init(&t, a);
	sb_addf(&t, s->q_transposed ? "%%0 = input f32" ALL "\n" : "%%1 = input f32" ALL "\n", b, h,
	    s->q_transposed ? d : q, s->q_transposed ? q : d);
	if (s->q_transposed)
		sb_addz(&t, "%1 = transpose %0 perm=[0,1,3,2]\n");
	sb_addf(&t, s->k_transposed ? "%%2 = %s f32" ALL "\n" : "%%3 = %s f32" ALL "\n", of, b, h,
	    s->k_transposed ? n : d, s->k_transposed ? d : n);
	if (s->k_transposed)
		sb_addz(&t, "%3 = transpose %2 perm=[0,1,3,2]\n");
	sb_addf(&t, "%%4 = %s f32" ALL "\n", of, b, h, n, w);
	if (s->mask >= 0)
		sb_addf(&t, "%%5 = input f32" ALL "\n", s->mask & 1 ? 1 : b, s->mask & 2 ? 1 : h,
		    s->mask & 4 ? 1 : q, s->mask & 8 ? 1 : n);
	sb_addz(&t, "%6 = matmul %1 %3\n");
	if (s->scaled)
		sb_addf(&t,
		    "%%7 = const f32[1,1,1,1] 0x1p-1\n%%8 = bcast %%7 shape=" ALL "\n%%9 = mul %%6 %%8\n", b,
		    h, q, n);
	const char *x = s->scaled ? "%9" : "%6";

	if (s->mask >= 0) {
		if (s->mask && (b > 1 || !(s->mask & 1) || h > 1 || q > 1 || n > 1))
			sb_addf(&t, "%%10 = bcast %%5 shape=" ALL "\n", b, h, q, n);
		sb_addf(&t, "%%11 = add %s %s\n", x,
		    s->mask && (b > 1 || !(s->mask & 1) || h > 1 || q > 1 || n > 1) ? "%10" : "%5");
		x = "%11";
	}
	sb_addf(&t,
	    "%%12 = rmax %s axes=[3]\n%%13 = bcast %%12 shape=" ALL "\n%%14 = sub %s %%13\n%%15 = exp %%14\n"
	    "%%16 = sum %%15 axes=[3]\n",
	    x, b, h, q, n, x);
	if (s->behind)
		sb_addf(&t,
		    "%%17 = %s\n%%18 = matmul %%15 %%4\n%%23 = bcast %%17 shape=" ALL
		    "\n%%19 = mul %%18 %%23\n",
		    s->behind == 1 ? "recip %16" : "tanh %16", b, h, q, w);
	else
		sb_addf(&t, "%%17 = bcast %%16 shape=" ALL "\n%%18 = div %%15 %%17\n%%19 = matmul %%18 %%4\n",
		    b, h, q, n);
	x = "%19";
	if (s->merged) {
		sb_addf(&t,
		    "%%20 = transpose %%19 perm=[0,2,1,3]\n%%21 = reshape %%20 shape=[%lld,%lld,%lld]\n", b,
		    q, h * w);
		x = "%21";
	}
	if (s->tail) {
		sb_addf(&t, "%%22 = sigmoid %s\n", x);
		x = "%22";
	}
	sb_addf(&t, "output %s\n", x);
	return sb_str(&t).p;
}

/* Small whole numbers times a power of two: their products and sums are exact, however large. */
static void
fill_exactly(struct rng *r, float *p, int64_t n, float unit)
{
	for (int64_t i = 0; i < n; i++)
		p[i] = (float)((int)rng_below(r, 7) - 3) * unit;
}

/* What the operand is to the graph: read, perhaps through one layout, by a sum; by the last product. */
static void
parts_of(const struct graph *g, tensor_id operand, bool *is_mask, bool *is_value)
{
	tensor_id seen = operand;
	uint32_t last = 0;

	*is_mask = *is_value = false;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		last = n->prim == PRIM_matmul ? i : last;
		if (n->prim == PRIM_bcast && n->in[0].i == operand.i)
			seen = n->out[0];
		for (uint32_t k = 0; k < n->n_in && n->prim == PRIM_add; k++)
			*is_mask |= n->in[k].i == operand.i || n->in[k].i == seen.i;
	}
	*is_value = g->nodes[last].in[1].i == operand.i;
}

static void
spoil_mask(struct rng *r, float *p, int64_t n, int64_t row, enum hazard hazard)
{
	for (int64_t j = 0; j < n; j++) {
		if (hazard == MASKED_ROWS && j / row % 2)
			p[j] = -INFINITY;
		else if ((hazard == MASKED_KEYS || hazard == MASKED_ROWS) &&
		    (j % row < row / 2 || rng_below(r, 3) == 0))
			p[j] = -INFINITY;
		else if (hazard == LEAST_FLOAT && (j % row < row / 2 || j / row % 3 == 0))
			p[j] = -FLT_MAX;
		else if (hazard != WILD)
			p[j] = (float)rng_normal(r);
	}
}

static void
fill(struct rng *r, const struct test_kernel *k, enum hazard hazard)
{
	const struct graph *g = &k->spec.g;

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct tensor *t = graph_tensor(g, g->inputs[i]);
		const int64_t n = shape_count(&t->shape), row = t->shape.dim[t->shape.rank - 1];
		bool is_mask, is_value;
		float *p = k->operand[g->inputs[i].i];

		if (t->role == ROLE_WEIGHT)
			continue;
		parts_of(g, g->inputs[i], &is_mask, &is_value);
		if (hazard == LARGE)
			fill_exactly(r, p, n, 256.0f);
		else if (is_mask)
			spoil_mask(r, p, n, row, hazard);
		else
			for (int64_t j = 0; j < n; j++)
				p[j] = (float)rng_normal(r);
		for (int64_t j = 0; j < n && hazard == WILD && !is_value; j++)
			if (rng_below(r, 60) == 0)
				p[j] = rng_below(r, 2) ? INFINITY : NAN;
	}
}

static void
spoil_scratch(struct test_kernel *k)
{
	memset(k->shared, 0xff, k->code.desc.shared_bytes);
	memset(k->local, 0xff, k->code.desc.local_bytes);
}

static void
round_of(uint64_t seed)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {seed};
	struct test_kernel *k = NEW_ARRAY(&a, struct test_kernel, BATCH);
	struct shape_of *shape = NEW_ARRAY(&a, struct shape_of, BATCH);
	const struct target *t = kernel_target(seed);
	uint32_t n = 0;

	while (n < BATCH) {
		struct spec s;

		shape[n] = random_shape(&r);
		const char *graph = graph_of(&a, &shape[n]);
		struct str schedule = str_of(schedules[rng_below(&r, COUNT_OF(schedules))]);

		if (!kernel_spec(&a, graph, &s, &e))
			fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, e.msg, graph);
		if (!kernel_make(&a, &s, schedule, t, n, &r, &k[n], &e)) {
			if (e.code == ERR_INFEASIBLE)
				continue;
			fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, e.msg, graph);
		}
		n++;
	}
	if (!kernel_compile(&a, k, n, t, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t h = 0; h < HAZARDS; h++) {
			fill(&r, &k[i], (enum hazard)h);
			spoil_scratch(&k[i]);
			if (!kernel_check(&a, &k[i], h % 2 ? 3 : 1, 2e-4, &e))
				fail_msg("seed %llu kernel %u, hazard %u, schedule \"%.*s\": %s\n%.*s\n%.*s",
				    (unsigned long long)seed, i, h, STR_ARG(k[i].schedule), e.msg,
				    STR_ARG(k[i].spec.text), STR_ARG(k[i].code.text));
		}
	arena_fini(&a);
}

static void
test_random_rows(void **state)
{
	uint64_t rounds = setting("KORCH_ATTENTION_ROUNDS", 3), seed = setting("KORCH_ATTENTION_SEED", 1);

	(void)state;
	for (uint64_t i = 0; i < rounds; i++)
		round_of(seed + i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_rows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
