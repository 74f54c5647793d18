/* KMeans picks one point of each cloud, that of the largest first, the same each time, never one twice. */
#include "../../kernels/predict/kmeans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CLOUDS = 4, N = 10 + 20 + 30 + 40 };

/* Clouds of 10, 20, 30 and 40 points, 0.1 wide, at (0,0), (10,0), (20,0), (30,0), dealt out in turn. */
static void
clouds(float points[N][2], uint32_t cloud[N])
{
	struct rng r = {3};
	uint32_t left[CLOUDS] = {10, 20, 30, 40};

	for (uint32_t i = 0; i < N; i++) {
		uint32_t c = rng_below(&r, CLOUDS);

		while (left[c] == 0)
			c = (c + 1) % CLOUDS;
		left[c]--;
		cloud[i] = c;
		points[i][0] = (float)(10.0 * c + 0.1 * rng_unit(&r));
		points[i][1] = (float)(0.1 * rng_unit(&r));
	}
}

static void
one_of_each_cloud_is_picked_largest_first(void **state)
{
	float points[N][2];
	uint32_t cloud[N], picks[CLOUDS];

	(void)state;
	clouds(points, cloud);
	for (uint64_t seed = 0; seed < 10; seed++) {
		assert_true(kmeans_pick(points[0], N, 2, CLOUDS, seed, picks) < 0.1);
		for (uint32_t i = 0; i < CLOUDS; i++)
			assert_int_equal(cloud[picks[i]], CLOUDS - 1 - i);
	}
}

static void
equal_points_give_equal_picks_and_none_twice(void **state)
{
	float points[N][2], same[20] = {0};
	uint32_t cloud[N], picks[2][N], seen[N] = {0}, of_same[10], taken = 0;

	(void)state;
	clouds(points, cloud);
	kmeans_pick(points[0], N, 2, 17, 5, picks[0]);
	kmeans_pick(points[0], N, 2, 17, 5, picks[1]);
	assert_memory_equal(picks[0], picks[1], 17 * sizeof(picks[0][0]));
	kmeans_pick(points[0], N, 2, N, 5, picks[0]);
	for (int i = 0; i < N; i++)
		assert_int_equal(seen[picks[0][i]]++, 0);
	kmeans_pick(same, 10, 2, 10, 1, of_same);
	for (int i = 0; i < 10; i++)
		taken |= 1U << of_same[i];
	assert_int_equal(taken, 0x3ff);
	kmeans_pick(same, 10, 2, 0, 1, of_same);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_of_each_cloud_is_picked_largest_first),
	    cmocka_unit_test(equal_points_give_equal_picks_and_none_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
