/* tests/prop/ring_test.c: chains of windows (pointwise, depthwise and dense convolutions, pools, maps,
 * residuals) whose producers keep rings of rows, against the interpreter: odd sizes, strides, dilations,
 * pads of every kind, images one behind the other, random schedules.  Each kernel runs whole, and again
 * in pieces of any size in any order with rubbish in its scratch: the results must be the same bytes.
 * KORCH_RING_ROUNDS=N batches (default 5), KORCH_RING_SEED=N from there.
 * label: cpu */
#include "../../kernels/interp/interp.h"
#include "../../kernels/schedule/schedule.h"
#include "../../kernels/tir/tir.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 32, RUBBISH = 0xff }; /* not-a-number in floats */

static const char *const schedules[] = {"", "", "", "block=1", "block=2", "block=3", "block=5 field=1",
    "block=2 mr=3 nv=1", "block=4 field=3", "block=7 mr=2 field=4", "mr=2 field=2", "wino=4",
    "block=3 wino=2"};

struct maker {
	struct graph *g;
	struct rng *r;
	struct err e;
};

static uint32_t
dice(struct maker *m, uint32_t n)
{
	return rng_below(m->r, n);
}

static const struct shape *
shape_at(struct maker *m, tensor_id x)
{
	return &graph_tensor(m->g, x)->shape;
}

static tensor_id
node(struct maker *m, enum prim p, uint32_t n, const tensor_id *in, const struct attrs *at)
{
	tensor_id out = NO_TENSOR;

	if (m->e.code != ERR_NONE || !graph_add(m->g, p, in, n, at, NO_NODE, &out, &m->e))
		return in[0];
	return out;
}

static tensor_id
two(struct maker *m, enum prim p, tensor_id x, tensor_id y)
{
	return node(m, p, 2, (tensor_id[]){x, y}, &(struct attrs){0});
}

static tensor_id
one(struct maker *m, enum prim p, tensor_id x)
{
	return node(m, p, 1, &x, &(struct attrs){0});
}

/* A kernel of so many rows and columns over x, with random strides, dilations and pads. */
static tensor_id
convolution(struct maker *m, tensor_id x, int64_t rows, int64_t columns, int64_t channels, int64_t group)
{
	const struct shape s = *shape_at(m, x);
	const int64_t kernel[2] = {rows, columns};
	struct shape w = {.rank = 4, .dim = {rows, columns, s.dim[3] / group, channels}};
	int64_t stride[2], dilation[2], ldil[2] = {1, 1}, lo[2], hi[2];
	struct attrs at = {0};

	for (int d = 0; d < 2; d++) {
		stride[d] = 1 + (dice(m, 4) == 0);
		dilation[d] = 1 + (kernel[d] > 1 && dice(m, 5) == 0);
		int64_t reach = dilation[d] * (kernel[d] - 1);
		lo[d] = dice(m, 2) ? reach / 2 : (int64_t)dice(m, (uint32_t)reach + 1);
		hi[d] = dice(m, 2) ? reach - lo[d] : (int64_t)dice(m, (uint32_t)reach + 1);
		if (dice(m, 16) == 0)
			lo[d] -= 1;
	}
	at_list(&at, ATTR_stride, 2, stride);
	at_list(&at, ATTR_dilation, 2, dilation);
	at_list(&at, ATTR_ldil, 2, ldil);
	at_list(&at, ATTR_lo, 2, lo);
	at_list(&at, ATTR_hi, 2, hi);
	at_int(&at, ATTR_group, group);
	return node(
	    m, PRIM_conv, 2, (tensor_id[]){x, graph_const(m->g, ROLE_WEIGHT, DT_f32, &w, NULL, NULL)}, &at);
}

static tensor_id
pool(struct maker *m, tensor_id x)
{
	int64_t k = 2 + dice(m, 2), s = 1 + dice(m, 2);
	int64_t kernel[4] = {1, k, k, 1}, stride[4] = {1, s, s, 1}, dilation[4] = {1, 1, 1, 1};
	int64_t lo[4] = {0, dice(m, (uint32_t)k), dice(m, (uint32_t)k), 0},
		hi[4] = {0, dice(m, (uint32_t)k), dice(m, (uint32_t)k), 0};
	struct attrs at = {0};

	at_list(&at, ATTR_kernel, 4, kernel);
	at_list(&at, ATTR_stride, 4, stride);
	at_list(&at, ATTR_dilation, 4, dilation);
	at_list(&at, ATTR_lo, 4, lo);
	at_list(&at, ATTR_hi, 4, hi);
	return node(m, dice(m, 2) ? PRIM_wmax : PRIM_wsum, 1, &x, &at);
}

static tensor_id
padded(struct maker *m, tensor_id x)
{
	int64_t lo[4] = {0, dice(m, 3), dice(m, 3), 0}, hi[4] = {0, dice(m, 3), dice(m, 3), 0};
	struct attrs at = {0};

	at_list(&at, ATTR_lo, 4, lo);
	at_list(&at, ATTR_hi, 4, hi);
	at_int(&at, ATTR_mode, dice(m, 6) == 0 ? 1 : 0);
	at_real(&at, ATTR_value, dice(m, 2) ? 0.5 : 0.0);
	return node(m, PRIM_pad, 1, &x, &at);
}

/* A value for each channel, added or multiplied. */
static tensor_id
scaled(struct maker *m, tensor_id x)
{
	struct shape s = {.rank = 4, .dim = {1, 1, 1, shape_at(m, x)->dim[3]}};
	struct attrs at = {0};
	tensor_id b = graph_const(m->g, ROLE_WEIGHT, DT_f32, &s, NULL, NULL);

	if (!shape_eq(&s, shape_at(m, x))) {
		at_list(&at, ATTR_shape, 4, shape_at(m, x)->dim);
		b = node(m, PRIM_bcast, 1, &b, &at);
	}
	return two(m, dice(m, 3) ? PRIM_add : PRIM_mul, x, b);
}

static tensor_id
activated(struct maker *m, tensor_id x)
{
	if (dice(m, 2))
		x = scaled(m, x);
	switch (dice(m, 5)) {
	case 0:
		return one(m, PRIM_relu, x);
	case 1:
		return two(m, PRIM_mul, x, one(m, PRIM_sigmoid, x));
	case 2:
		return one(m, PRIM_tanh, x);
	case 3:
		return scaled(m, x);
	default:
		return x;
	}
}

static int64_t
channels(struct maker *m)
{
	static const int64_t liked[] = {8, 9, 16, 17, 24, 32};

	return liked[dice(m, COUNT_OF(liked))];
}

/* One link of the chain; most are windows. */
static tensor_id
link_of(struct maker *m, tensor_id x, tensor_id first)
{
	int64_t c = shape_at(m, x)->dim[3];

	switch (dice(m, 12)) {
	case 0:
	case 1:
	case 2:
		return convolution(m, x, 1, 1, channels(m), 1);
	case 3:
	case 4:
	case 5:
		return convolution(m, x, 1 + dice(m, 5), 1 + dice(m, 5), c, c);
	case 6:
		return convolution(m, x, 1 + dice(m, 3), 1 + dice(m, 3), channels(m), 1);
	case 7:
		return pool(m, x);
	case 8:
		return padded(m, x);
	case 9:
		if (shape_eq(shape_at(m, x), shape_at(m, first)))
			return two(m, PRIM_add, x, first);
		return activated(m, x);
	case 10:
		if (x.i != first.i)
			graph_output(m->g, x, NULL);
		return activated(m, x);
	default:
		return one(m, PRIM_sigmoid, x);
	}
}

static tensor_id
plain_window(struct maker *m, tensor_id x, int64_t k, int64_t stride)
{
	int64_t two_[2] = {stride, stride}, ones[2] = {1, 1}, half[2] = {k / 2, k / 2},
		c = shape_at(m, x)->dim[3];
	struct shape w = {.rank = 4, .dim = {k, k, 1, c}};
	struct attrs at = {0};

	at_list(&at, ATTR_stride, 2, two_);
	at_list(&at, ATTR_dilation, 2, ones);
	at_list(&at, ATTR_ldil, 2, ones);
	at_list(&at, ATTR_lo, 2, half);
	at_list(&at, ATTR_hi, 2, half);
	at_int(&at, ATTR_group, c);
	return node(
	    m, PRIM_conv, 2, (tensor_id[]){x, graph_const(m->g, ROLE_WEIGHT, DT_f32, &w, NULL, NULL)}, &at);
}

/* Now the block that rings are for, now anything. */
static bool
random_spec(struct arena *a, struct rng *r, struct spec *out)
{
	struct graph g, sorted;
	struct maker m = {.g = &g, .r = r};
	struct shape s = {
	    .rank = 4, .dim = {1 + (rng_below(r, 4) == 0), 5 + rng_below(r, 14), 4 + rng_below(r, 12), 0}};
	struct spec_binding bind;

	graph_init(&g, a);
	s.dim[3] = channels(&m);
	tensor_id x = graph_input(&g, DT_f32, &s, NULL), y = x;

	if (rng_below(r, 3) == 0) {
		y = activated(&m, convolution(&m, y, 1, 1, channels(&m), 1));
		y = activated(
		    &m, plain_window(&m, y, 3 + 2 * (int64_t)rng_below(r, 2), 1 + (int64_t)rng_below(r, 2)));
		y = activated(&m, convolution(&m, y, 1, 1, channels(&m), 1));
		if (shape_eq(shape_at(&m, x), shape_at(&m, y)))
			y = two(&m, PRIM_add, y, x);
	} else {
		for (uint32_t n = 2 + rng_below(r, 4); n-- > 0 && m.e.code == ERR_NONE;)
			y = activated(&m, link_of(&m, y, x));
	}
	if (m.e.code != ERR_NONE || shape_count(&graph_tensor(&g, y)->shape) == 0 || y.i == x.i)
		return false;
	graph_output(&g, y, NULL);
	graph_sort(&sorted, a, &g, NULL);
	struct bitset all = bitset_make(a, sorted.n_nodes);

	for (uint32_t i = 0; i < sorted.n_nodes; i++)
		bit_set(&all, i);
	if (sorted.n_nodes == 0 || sorted.n_nodes > SPEC_MAX_NODES)
		return false;
	spec_make(a, &sorted, &all, sorted.outputs, sorted.n_outputs, out, &bind);
	return true;
}

/* ---- running ------------------------------------------------------------------------------------ */
/* Pieces of any length, in any order, each with scratch full of rubbish. */
static void
run_shuffled(const struct test_kernel *k, struct rng *r)
{
	for (uint32_t p = 0; p < k->code.desc.n_passes; p++) {
		int64_t range = k->code.desc.range[p], at[64];
		uint32_t n = 0;

		for (int64_t lo = 0; lo < range && n < COUNT_OF(at); n++) {
			at[n] = lo;
			lo += n + 1 == COUNT_OF(at) ? range : 1 + (int64_t)rng_below(r, 5);
		}
		for (uint32_t done = 0; done < n; done++) {
			uint32_t i = done + rng_below(r, n - done);
			int64_t lo = at[i], hi = range;

			at[i] = at[done];
			at[done] = lo;
			for (uint32_t q = 0; q < n; q++)
				hi = at[q] > lo ? MIN_OF(hi, at[q]) : hi;
			memset(k->local, RUBBISH, k->code.desc.local_bytes);
			k->pass[p](k->buf, k->shared, k->local, lo, hi);
		}
	}
}

static bool
same_in_pieces(struct arena *a, const struct test_kernel *k, struct rng *r)
{
	const struct graph *g = &k->spec.g;
	void **first = NEW_ARRAY(a, void *, g->n_outputs);

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		size_t n = (size_t)shape_count(&t->shape) * dtype_size(t->type);

		first[i] = arena_dup(a, k->buf[g->n_inputs + i], n);
		memset(k->buf[g->n_inputs + i], RUBBISH, n);
	}
	run_shuffled(k, r);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);

		if (memcmp(first[i], k->buf[g->n_inputs + i],
			(size_t)shape_count(&t->shape) * dtype_size(t->type)) != 0)
			return false;
	}
	return true;
}

static void
fail_with(uint64_t seed, const struct test_kernel *k, const char *what)
{
	fail_msg("seed %llu %s, schedule \"%.*s\": %s\n%.*s\n%.*s", (unsigned long long)seed, k->symbol,
	    STR_ARG(k->schedule), what, STR_ARG(k->spec.text), STR_ARG(k->code.text));
}

struct tally {
	uint32_t rings, deep;
};

/* By the trace that the rules make of it. */
static void
count_rings(
    struct arena *a, const struct spec *s, struct str schedule, const struct target *t, struct tally *n)
{
	struct choices chosen;
	struct strbuf trace;
	struct tir nest, bound;
	struct err e = {0};
	const char *at;

	sb_init(&trace, a);
	schedule_lower(a, s, t->strict, &nest);
	if (!space_choices(s, schedule, t, &chosen, &e) ||
	    !space_by_rules(&nest, &chosen, t, &trace, &bound, &e))
		fail_msg("%s\n%.*s", e.msg, STR_ARG(s->text));
	at = trace.p ? strstr(trace.p, "slide ") : NULL;
	n->rings += at != NULL;
	n->deep += at && strstr(at + 1, "slide ");
}

static void
round_of(uint64_t seed, struct tally *t)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {seed};
	struct test_kernel *k = NEW_ARRAY(&a, struct test_kernel, BATCH);
	struct target target = *kernel_target(seed);
	uint32_t n = 0;

	target.strict = seed % 5 == 4;
	target.l1_bytes = 16; /* images are small: what nests hand on is more than lies near */
	while (n < BATCH) {
		struct spec s;

		if (!random_spec(&a, &r, &s))
			continue;
		struct str schedule = str_of(schedules[rng_below(&r, COUNT_OF(schedules))]);

		if (!kernel_make(&a, &s, schedule, &target, n, &r, &k[n], &e)) {
			if (e.code == ERR_INFEASIBLE)
				continue;
			fail_msg("seed %llu: %s\n%.*s", (unsigned long long)seed, e.msg, STR_ARG(s.text));
		}
		count_rings(&a, &s, schedule, &target, t);
		n++;
	}
	if (!kernel_compile(&a, k, n, &target, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	for (uint32_t i = 0; i < n; i++) {
		if (!kernel_check(&a, &k[i], 1, 2e-4, &e))
			fail_with(seed, &k[i], e.msg);
		if (!same_in_pieces(&a, &k[i], &r) || !same_in_pieces(&a, &k[i], &r))
			fail_with(seed, &k[i], "in pieces the result differs");
	}
	arena_fini(&a);
}

static uint64_t
from_env(const char *name, uint64_t otherwise)
{
	int64_t v;

	return str_to_i64(str_of(getenv(name)), &v) ? (uint64_t)v : otherwise;
}

static void
test_random_rings(void **state)
{
	uint64_t rounds = from_env("KORCH_RING_ROUNDS", 5), seed = from_env("KORCH_RING_SEED", 1);
	struct tally t = {0};

	(void)state;
	for (uint64_t i = 0; i < rounds; i++)
		round_of(seed + i, &t);
	printf("of %llu kernels %u with rings, %u with several\n", (unsigned long long)rounds * BATCH,
	    t.rings, t.deep);
	assert_true(t.rings * 8 > rounds * BATCH);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_rings)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
