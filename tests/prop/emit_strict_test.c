/* tests/prop/emit_strict_test.c: in strict mode a graph as one kernel makes the same bytes as its nodes, each
 * a kernel of its own (D11).
 * KORCH_EMIT_GRAPHS=N tries N random graphs (default 320), a tenth of them here, KORCH_EMIT_SEED=N from
 * there. */
#include "../harness/setting.h"
#include "random_graph.h"
#include "trial.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Every node of a graph as a kernel of its own, and the whole graph as one. */
struct apart {
	struct graph g;
	struct trial *one; /* of node i, then of the whole */
	struct spec_binding *bind;
};

static void
apart_random(struct arena *a, struct graph *g, uint64_t seed)
{
	struct rng r = {seed};
	struct random_opts opts = {
	    .n_nodes = 3 + rng_below(&r, 10), .kinds = RG_ALL, .chain = rng_below(&r, 2), .max_extent = 9};

	if (seed % 4 == 3) /* anchors, two of them often enough */
		opts = (struct random_opts){.n_nodes = 3 + rng_below(&r, 6),
		    .max_extent = 24,
		    .chain = true,
		    .kinds = RG_MATMUL | RG_CONV | RG_MAP | RG_REDUCE | RG_BCAST};
	random_graph(g, a, &r, &opts);
}

static void
apart_make(struct arena *a, struct apart *x, const struct graph *g, uint64_t seed, const struct target *t)
{
	graph_sort(&x->g, a, g, NULL);
	x->one = NEW_ARRAY(a, struct trial, x->g.n_nodes + 2);
	x->bind = NEW_ARRAY(a, struct spec_binding, x->g.n_nodes + 2);
	for (uint32_t i = 0; i < x->g.n_nodes + 1; i++) {
		struct bitset members = bitset_make(a, x->g.n_nodes);
		bool whole = i >= x->g.n_nodes;
		struct trial *o = &x->one[i];

		for (uint32_t k = 0; k < x->g.n_nodes; k++)
			if (whole || k == i)
				bit_set(&members, k);
		*o = (struct trial){.seed = seed, .schedule = ""};
		spec_make(a, &x->g, &members, whole ? x->g.outputs : x->g.nodes[i].out,
		    whole ? x->g.n_outputs : 1, &o->spec, &x->bind[i]);
		trial_make(a, o, i, t);
	}
}

static void
apart_run(struct arena *a, const struct apart *x, uint32_t i, void *lib, void **at)
{
	struct trial *o = &x->one[i];
	const struct spec_binding *b = &x->bind[i];
	struct trial_run r = {.o = o, .lib = lib, .buf = NEW_ARRAY(a, void *, b->n_operands + b->n_results)};
	char **base = NEW_ARRAY(a, char *, b->n_operands);
	size_t n;

	snprintf(r.symbol, sizeof(r.symbol), "k%u", i);
	for (uint32_t k = 0; k < b->n_operands; k++) {
		const struct tensor *t = graph_tensor(&x->g, b->operands[k]);
		const void *dense = at[b->operands[k].i] ? at[b->operands[k].i] : t->data;

		r.buf[k] = trial_operand(o, k, dense, &base[k], &n);
	}
	for (uint32_t k = 0; k < b->n_results; k++)
		r.buf[b->n_operands + k] = at[b->results[k].i] =
		    trial_memory(trial_bytes(graph_tensor(&x->g, b->results[k])));
	r.shared = trial_memory(o->code.desc.shared_bytes);
	r.local = trial_memory(o->code.desc.local_bytes);
	trial_run_all(&r, NULL);
	for (uint32_t k = 0; k < b->n_operands; k++)
		trial_free(base[k]);
	trial_free(r.shared);
	trial_free(r.local);
}

/* What apart_run left at the tensors that kernels made. */
static void
apart_free(const struct apart *x, void **at)
{
	for (uint32_t t = 0; t < x->g.n_tensors; t++)
		if (x->g.tensors[t].role == ROLE_INNER && at[t])
			trial_free((char *)at[t]);
}

static bool
whole_agrees(struct arena *a, const struct apart *x, uint32_t i, void *lib, void **alone)
{
	void **whole = NEW_ARRAY(a, void *, x->g.n_tensors);
	bool same = true;

	for (uint32_t t = 0; t < x->g.n_tensors; t++)
		if (x->g.tensors[t].role == ROLE_INPUT || x->g.tensors[t].role == ROLE_WEIGHT)
			whole[t] = alone[t];
	apart_run(a, x, i, lib, whole);
	for (uint32_t k = 0; k < x->g.n_outputs && same; k++) {
		tensor_id t = x->g.outputs[k];

		same = memcmp(alone[t.i], whole[t.i], trial_bytes(graph_tensor(&x->g, t))) == 0;
		if (!same)
			trial_say(&x->one[i], "fused and unfused differ");
	}
	apart_free(x, whole);
	return same;
}

static bool
apart_agrees(struct arena *a, const struct apart *x, void *lib)
{
	void **alone = NEW_ARRAY(a, void *, x->g.n_tensors);
	struct rng r = {x->one[0].seed};
	bool same;

	for (uint32_t t = 0; t < x->g.n_tensors; t++)
		if (x->g.tensors[t].role == ROLE_INPUT || x->g.tensors[t].role == ROLE_WEIGHT)
			alone[t] = random_values(a, &r, x->g.tensors[t].type, &x->g.tensors[t].shape);
	for (uint32_t i = 0; i < x->g.n_nodes; i++)
		apart_run(a, x, i, lib, alone);
	same = whole_agrees(a, x, x->g.n_nodes, lib, alone);
	apart_free(x, alone);
	return same;
}

static uint32_t
n_anchors(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += node_is_anchor(g, &g->nodes[i]);
	return n;
}

/* What random graphs seldom have: pairs of anchors; rings of rows; casts whose zeros have a sign. */
static const char *const strictly[] = {
    "%0 = input f32[1,48,16]\n%1 = input f32[1,24,16]\n%2 = input f32[1,24,16]\n%3 = transpose %1 "
    "perm=[0,2,1]\n"
    "%4 = matmul %0 %3\n%5 = rmax %4 axes=[2]\n%6 = bcast %5 shape=[1,48,24]\n%7 = sub %4 %6\n%8 = exp %7\n"
    "%9 = sum %8 axes=[2]\n%10 = bcast %9 shape=[1,48,24]\n%11 = div %8 %10\n%12 = matmul %11 %2\noutput "
    "%12\n",
    "%0 = input f32[33,24]\n%1 = weight f32[24,40]\n%2 = weight f32[40,17]\n%3 = matmul %0 %1\n%4 = tanh %3\n"
    "%5 = matmul %4 %2\n%6 = mul %5 %5\noutput %6\noutput %4\n",
    "%0 = input f32[1,7,9,8]\n%1 = weight f32[3,3,8,16]\n%2 = weight f32[1,1,16,24]\n"
    "%3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n%4 = relu %3\n"
    "%5 = conv %4 %2 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %5\n",
    "%0 = input f32[1,9,7,8]\n%1 = weight f32[1,1,8,24]\n%2 = weight f32[3,3,1,24]\n%3 = weight "
    "f32[1,1,24,8]\n"
    "%4 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n%5 = tanh %4\n"
    "%6 = conv %5 %2 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=24\n%7 = relu %6\n"
    "%8 = conv %7 %3 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n%9 = add %8 "
    "%0\noutput %9\n",
    "%0 = input f32[1,11,7,8]\n%1 = weight f32[3,3,8,16]\n"
    "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n%3 = sigmoid %2\n"
    "%4 = wsum %3 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] lo=[0,1,1,0] hi=[0,1,1,0]\noutput "
    "%4\n",
    "%0 = input f32[2,4,5,4]\n%1 = wsum %0 lo=[0,0,1,0] hi=[0,1,0,0] kernel=[1,2,3,1] stride=[1,1,2,1] "
    "dilation=[1,1,1,1]\n%2 = prod %1 axes=[1,3]\noutput %2\n",
    "%0 = input f32[1,3,4,8]\n%1 = tanh %0\n%2 = cast %1 to=i32\n%3 = cast %2 to=f32\n%4 = relu %3\n%5 = neg "
    "%4\n"
    "%6 = prod %5 axes=[1,3]\n%7 = sum %6 axes=[2]\noutput %6\noutput %7\n",
};

/* Is the whole the same as its parts? */
static bool
strict_agrees(struct arena *a, const struct graph *g, uint64_t seed)
{
	struct target t = target_avx2;
	struct apart x;
	char dir[] = "/tmp/korch-emit-XXXXXX";
	bool ok = true;

	t.strict = true;
	apart_make(a, &x, g, seed, &t);
	if (x.one[x.g.n_nodes].infeasible || !mkdtemp(dir))
		return true;
	void *lib = trials_compile(dir, a, x.one, x.g.n_nodes + 1, &t);

	ok = lib && apart_agrees(a, &x, lib);
	if (lib)
		dlclose(lib);
	unlink(arena_printf(a, "%s/k.c", dir));
	unlink(arena_printf(a, "%s/k.so", dir));
	rmdir(dir);
	return ok;
}

static void
test_strict_is_the_same_fused_and_unfused(void **state)
{
	uint64_t n = setting("KORCH_EMIT_GRAPHS", 320) / 10, from = setting("KORCH_EMIT_SEED", 1) + 3000000;
	uint32_t bad = 0, pairs = 0;

	(void)state;
	for (uint64_t i = 0; i < n + COUNT_OF(strictly); i++) {
		struct arena a = {0};
		struct graph g;
		struct err e = {0};

		if (i >= n && !graph_read(&g, &a, str_of(strictly[i - n]), &e))
			fail_msg("%s", e.msg);
		if (i < n)
			apart_random(&a, &g, from + i);
		pairs += n_anchors(&g) == 2;
		bad += !strict_agrees(&a, &g, from + i);
		arena_fini(&a);
	}
	print_message("%u graphs with two anchors\n", pairs);
	assert_true(pairs >= 3);
	assert_int_equal(bad, 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_strict_is_the_same_fused_and_unfused),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
