/* The network's layers have the gradients that differences say; a network learns what it is shown, the same
 * each time; kernels of different numbers of leaves do not touch each other; CMD has its known values. */
#include "../../kernels/predict/net_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct rng rng = {11};

static float *
noise(struct arena *a, size_t n)
{
	float *p = NEW_ARRAY(a, float, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (float)rng_normal(&rng);
	return p;
}

/* A layer as a function of n_x numbers to n_y; back: the gradient of c . y. */
struct layer {
	const char *name;
	size_t n_x, n_y;
	void (*run)(struct arena *a, const float *x, float *y);
	void (*back)(struct arena *a, const float *x, const float *c, float *dx);
};

enum { ROWS = 7, WIDTH = 8, HEADS = 2, KERNELS = 3 };
static const uint32_t first[KERNELS + 1] = {0, 1, 5, 7};
static const struct net_linear square = {
    .in = WIDTH, .out = 5, .begin = ROWS * WIDTH, .multiply = net_product};

/* x: ROWS inputs, then the layer's weights. */
static void
linear_run(struct arena *a, const float *x, float *y)
{
	(void)a;
	net_linear_run(&square, x, x, ROWS, y);
}
static void
linear_back(struct arena *a, const float *x, const float *c, float *dx)
{
	(void)a;
	net_linear_back(&square, x, x, c, ROWS, dx, dx);
}
static void
norm_run(struct arena *a, const float *x, float *y)
{
	net_norm_run(x, ROWS, WIDTH, y, NEW_ARRAY(a, float, ROWS));
}
static void
norm_back(struct arena *a, const float *x, const float *c, float *dx)
{
	float *y = NEW_ARRAY(a, float, ROWS *WIDTH), *inverse = NEW_ARRAY(a, float, ROWS);

	net_norm_run(x, ROWS, WIDTH, y, inverse);
	net_norm_back(y, inverse, c, ROWS, WIDTH, dx);
}
static void
bend_run(struct arena *a, const float *x, float *y)
{
	(void)a;
	net_bend_run(x, ROWS, y);
}
static void
bend_back(struct arena *a, const float *x, const float *c, float *dx)
{
	(void)a;
	net_bend_back(x, c, ROWS, dx);
}
static void
squash_run(struct arena *a, const float *x, float *y)
{
	(void)a;
	net_squash_run(x, ROWS, y);
}
static void
squash_back(struct arena *a, const float *x, const float *c, float *dx)
{
	float *y = NEW_ARRAY(a, float, ROWS);

	net_squash_run(x, ROWS, y);
	net_squash_back(y, c, ROWS, dx);
}
static void
pool_run(struct arena *a, const float *x, float *y)
{
	net_pool_run(x, first, KERNELS, WIDTH, y, NEW_ARRAY(a, uint32_t, KERNELS * WIDTH));
}
static void
pool_back(struct arena *a, const float *x, const float *c, float *dx)
{
	float *y = NEW_ARRAY(a, float, KERNELS * 2 * WIDTH);
	uint32_t *from = NEW_ARRAY(a, uint32_t, KERNELS * WIDTH);

	net_pool_run(x, first, KERNELS, WIDTH, y, from);
	net_pool_back(c, from, first, KERNELS, WIDTH, dx);
}
/* x: ROWS of WIDTH, then their films. */
static void
film_run(struct arena *a, const float *x, float *y)
{
	(void)a;
	net_film_run(x, x + ROWS * WIDTH, ROWS, WIDTH, y);
}
static void
film_back(struct arena *a, const float *x, const float *c, float *dx)
{
	(void)a;
	net_film_back(x, x + ROWS * WIDTH, c, ROWS, WIDTH, dx, dx + ROWS * WIDTH);
}
static const struct net_attend attend = {first, KERNELS, WIDTH, HEADS};
static void
attend_run(struct arena *a, const float *x, float *y)
{
	net_attend_run(&attend, x, NEW_ARRAY(a, float, net_attend_kept(&attend)), y);
}
static void
attend_back(struct arena *a, const float *x, const float *c, float *dx)
{
	float *kept = NEW_ARRAY(a, float, net_attend_kept(&attend)), *y = NEW_ARRAY(a, float, ROWS *WIDTH);

	net_attend_run(&attend, x, kept, y);
	net_attend_back(&attend, x, kept, c, dx);
}
/* x: 5 rows of WIDTH hidden units of one domain, then 2 of the other. */
static void
cmd_run(struct arena *a, const float *x, float *y)
{
	(void)a;
	*y = (float)net_cmd(x, 5, x + 5 * WIDTH, 2, WIDTH);
}
static void
cmd_back(struct arena *a, const float *x, const float *c, float *dx)
{
	(void)a;
	net_cmd_back(x, 5, x + 5 * WIDTH, 2, WIDTH, *c, dx, dx + 5 * WIDTH);
}

static const struct layer layers[] = {
    {"linear", ROWS *WIDTH + (WIDTH + 1) * 5, ROWS * 5, linear_run, linear_back},
    {"norm", ROWS *WIDTH, ROWS *WIDTH, norm_run, norm_back},
    {"bend", ROWS, ROWS, bend_run, bend_back},
    {"squash", ROWS, ROWS, squash_run, squash_back},
    {"pool", ROWS *WIDTH, KERNELS * 2 * WIDTH, pool_run, pool_back},
    {"film", 3 * ROWS *WIDTH, ROWS *WIDTH, film_run, film_back},
    {"attend", 3 * ROWS *WIDTH, ROWS *WIDTH, attend_run, attend_back},
    {"cmd", ROWS *WIDTH, 1, cmd_run, cmd_back},
};

static double
times(const float *c, const float *y, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)c[i] * y[i];
	return sum;
}

static void
check_layer(const struct layer *l)
{
	struct arena a = {0};
	const float step = 0.01F;
	float *x = noise(&a, l->n_x), *c = noise(&a, l->n_y), *y = NEW_ARRAY(&a, float, l->n_y);
	float *dx = NEW_ARRAY(&a, float, l->n_x);

	l->back(&a, x, c, dx);
	for (size_t i = 0; i < l->n_x; i++) {
		float kept = x[i];
		double above, below, want;

		x[i] = kept + step;
		l->run(&a, x, y);
		above = times(c, y, l->n_y);
		x[i] = kept - step;
		l->run(&a, x, y);
		below = times(c, y, l->n_y);
		x[i] = kept;
		want = (above - below) / (2 * (double)step);
		if (fabs(dx[i] - want) > 0.005 + 0.01 * fabs(want))
			fail_msg("%s: the gradient of number %zu is %g, by differences %g", l->name, i, dx[i],
			    want);
	}
	arena_fini(&a);
}

static void
each_layer_has_its_gradient(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(layers); i++)
		check_layer(&layers[i]);
}

/* ---- kernels ------------------------------------------------------------------------ */
static const struct net_shape small = {
    .leaf = 6, .whole = 4, .width = 16, .heads = 4, .layers = 2, .inner = 24, .hidden = 12};

/* n kernels of 0 to 5 leaves, about `mean`; nothing but their numbers says what they take. */
static struct net_sample *
kernels(struct arena *a, uint32_t n, float mean)
{
	struct net_sample *s = NEW_ARRAY(a, struct net_sample, n);

	for (uint32_t k = 0; k < n; k++) {
		uint32_t leaves = k % 6, *place = NEW_ARRAY(a, uint32_t, leaves + 1);
		float *leaf = noise(a, leaves * small.leaf), *whole = noise(a, small.whole);

		for (uint32_t i = 0; i < leaves; i++)
			place[i] = 3 * i + 1;
		for (uint32_t i = 0; i < small.whole; i++)
			whole[i] += mean;
		for (uint32_t i = 0; i < leaves * small.leaf; i++)
			leaf[i] += mean;
		s[k] =
		    (struct net_sample){leaf, place, leaves, whole, (float)(0.4 + 0.5 * rng_normal(&rng)), 1};
	}
	return s;
}

/* sum of c . y + sum of hidden, by a change of all weights of a part along v */
static double
moved(struct net *n, const struct net_sample *s, uint32_t k, const float *c, const float *v, float by)
{
	struct arena a = {0};
	float *kept = arena_dup(&a, n->w, n->n_weights * sizeof(*kept));
	const struct net_run *r;
	double sum;

	for (uint32_t i = 0; i < n->n_weights; i++)
		n->w[i] += by * v[i];
	r = net_run(&a, n, s, NULL, k);
	sum = times(c, r->y, k);
	for (uint32_t i = 0; i < k * small.hidden; i++)
		sum += r->hidden[i];
	memcpy(n->w, kept, n->n_weights * sizeof(*kept));
	arena_fini(&a);
	return sum;
}

static void
each_part_of_a_network_has_its_gradient(void **state)
{
	enum { N = 9 };
	struct arena a = {0};
	struct net n = net_new(&a, &small, 3);
	const struct net_sample *s = kernels(&a, N, 0);
	float *c = noise(&a, N), *dw = NEW_ARRAY(&a, float, n.n_weights),
	      *ones = NEW_ARRAY(&a, float, N *small.hidden);

	(void)state;
	for (uint32_t i = 0; i < N * small.hidden; i++)
		ones[i] = 1;
	net_run_back(&a, net_run(&a, &n, s, NULL, N), c, ones, dw);
	for (uint32_t at = 0; at < NET_PARTS + NET_PARTS - NET_QKV; at++) {
		bool second = at >= NET_PARTS;
		struct net_linear l =
		    net_linear(&small, (enum net_part)(second ? at - NET_PARTS + NET_QKV : at), second);
		size_t size = ((size_t)l.in + 1) * l.out;
		float *v = NEW_ARRAY(&a, float, n.n_weights);
		double have, want;

		memcpy(v + l.begin, noise(&a, size), size * sizeof(*v));
		want = (moved(&n, s, N, c, v, 0.0005F) - moved(&n, s, N, c, v, -0.0005F)) / 0.001;
		have = times(dw, v, n.n_weights);
		if (fabs(have - want) > 0.01 + 0.01 * fabs(want))
			fail_msg("part %u: gradient %g, by differences %g", at, have, want);
	}
	arena_fini(&a);
}

static const struct net_recipe thorough = {.epochs = 400, .batch = 10, .rate = 0.004, .seed = 5};

static void
fifty_kernels_are_learnt_by_heart(void **state)
{
	struct arena a = {0};
	struct net n = net_new(&a, &small, 1);
	const struct net_sample *s = kernels(&a, 50, 0);
	float out[50];

	(void)state;
	net_centre(&n, s, 50);
	assert_true(net_train(&n, s, 50, NULL, 0, &thorough) < 0.001);
	net_predict(&n, s, 50, out);
	for (int i = 0; i < 50; i++)
		assert_true(fabsf(out[i] - s[i].want) < 0.1F);
	arena_fini(&a);
}

/* The bytes of a network that was trained on rows, with `target` beside them. */
static struct str
trained(struct arena *a, const struct net_sample *rows, const struct net_sample *target, uint64_t seed)
{
	struct net_recipe recipe = {
	    .epochs = 3, .batch = 16, .rate = 0.002, .decay = 0.01, .cmd = 0.5, .seed = seed};
	struct net n = net_new(a, &small, seed);
	struct strbuf sb;

	sb_init(&sb, a);
	net_centre(&n, rows, 40);
	net_train(&n, rows, 40, target, 30, &recipe);
	net_write(&n, &sb);
	return sb_str(&sb);
}

static void
equal_rows_and_seed_give_equal_networks(void **state)
{
	struct arena a = {0};
	const struct net_sample *s = kernels(&a, 40, 0), *target = kernels(&a, 30, 1);
	struct str one = trained(&a, s, target, 9);

	(void)state;
	assert_true(str_eq(one, trained(&a, s, target, 9)));
	assert_false(str_eq(one, trained(&a, s, target, 10)));
	arena_fini(&a);
}

/* Neither what stands beside a kernel in a batch nor the order in which its leaves are given says anything;
 * their places do. */
static void
kernels_of_a_batch_do_not_touch_each_other(void **state)
{
	enum { N = 300 };
	struct arena a = {0};
	struct net n = net_new(&a, &small, 2);
	struct net_sample *s = kernels(&a, N, 0), turned = s[5];
	float together[N], alone, *leaf = NEW_ARRAY(&a, float, 5 * small.leaf);
	uint32_t place[5], elsewhere[5] = {20, 21, 22, 23, 24};

	(void)state;
	net_predict(&n, s, N, together);
	for (uint32_t i = 0; i < N; i++) {
		net_predict(&n, &s[i], 1, &alone);
		assert_true(fabsf(alone - together[i]) < 1e-4F);
	}
	assert_int_equal(s[5].n_leaves, 5);
	for (uint32_t i = 0; i < 5; i++) {
		memcpy(leaf + i * small.leaf, s[5].leaf + (4 - i) * small.leaf, small.leaf * sizeof(*leaf));
		place[i] = s[5].place[4 - i];
	}
	turned.leaf = leaf;
	turned.place = place;
	net_predict(&n, &turned, 1, &alone);
	assert_true(fabsf(alone - together[5]) < 1e-4F);
	turned.place = elsewhere;
	net_predict(&n, &turned, 1, &alone);
	assert_true(fabsf(alone - together[5]) > 1e-3F);
	arena_fini(&a);
}

/* ---- domains ------------------------------------------------------------------------ */
static void
cmd_has_its_known_values(void **state)
{
	/* two units, each -0.3 or 0.3; the same moved by 0.2; the same twice as wide */
	const float x[] = {-0.3F, 0.3F, 0.3F, -0.3F}, shifted[] = {-0.1F, 0.5F, 0.5F, -0.1F},
		    wide[] = {-0.6F, 0.6F, 0.6F, -0.6F};
	double second = 0.36 - 0.09, fourth = 0.1296 - 0.0081;

	(void)state;
	assert_true(net_cmd(x, 2, x, 2, 2) == 0);
	assert_true(fabs(net_cmd(x, 2, shifted, 2, 2) - sqrt(2) * 0.2 / 2) < 1e-6);
	assert_true(fabs(net_cmd(x, 2, wide, 2, 2) - sqrt(2) * (second / 4 + fourth / 16)) < 1e-6);
}

static double
distance(const struct net *n, const struct net_sample *x, const struct net_sample *y, uint32_t k)
{
	struct arena a = {0};
	double d = net_cmd(
	    net_run(&a, n, x, NULL, k)->hidden, k, net_run(&a, n, y, NULL, k)->hidden, k, small.hidden);

	arena_fini(&a);
	return d;
}

static void
training_with_cmd_brings_domains_together(void **state)
{
	struct arena a = {0};
	const struct net_sample *s = kernels(&a, 60, 0), *target = kernels(&a, 60, 1);
	double far[2];

	(void)state;
	for (int with = 0; with < 2; with++) {
		struct net_recipe recipe = {.epochs = 40, .batch = 20, .rate = 0.002, .cmd = with, .seed = 5};
		struct net n = net_new(&a, &small, 4);

		net_centre(&n, s, 60);
		net_train(&n, s, 60, target, 60, &recipe);
		far[with] = distance(&n, s, target, 60);
	}
	assert_true(far[1] < far[0] / 2);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_layer_has_its_gradient),
	    cmocka_unit_test(each_part_of_a_network_has_its_gradient),
	    cmocka_unit_test(fifty_kernels_are_learnt_by_heart),
	    cmocka_unit_test(equal_rows_and_seed_give_equal_networks),
	    cmocka_unit_test(kernels_of_a_batch_do_not_touch_each_other),
	    cmocka_unit_test(cmd_has_its_known_values),
	    cmocka_unit_test(training_with_cmd_brings_domains_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
