/* tests/unit/winograd_test.c: Winograd's forms are identities: over the reals their tiles are those of
 * the convolution. */
#include "../../kernels/fuse/anchor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct square {
	double v[WINO_P][WINO_P];
};

/* map x map', the map having `rows` rows of n. */
static struct square
through(const double *map, int pitch, int rows, int n, const struct square *x)
{
	struct square half = {{{0}}}, out = {{{0}}};

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < n; j++)
			for (int k = 0; k < n; k++)
				half.v[i][j] += map[i * pitch + k] * x->v[k][j];
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < rows; j++)
			for (int k = 0; k < n; k++)
				out.v[i][j] += half.v[i][k] * map[j * pitch + k];
	return out;
}

static void
check(int m)
{
	const struct winograd *w = winograd_form(m);
	struct rng r = {(uint64_t)m};
	struct square d, g;

	assert_non_null(w);
	assert_int_equal(w->m, m);
	assert_int_equal(w->p, m + WINO_TAPS - 1);
	for (int i = 0; i < WINO_P; i++)
		for (int j = 0; j < WINO_P; j++) {
			d.v[i][j] = rng_normal(&r);
			g.v[i][j] = rng_normal(&r);
		}
	struct square u = through(&w->g[0][0], WINO_TAPS, w->p, WINO_TAPS, &g);
	struct square v = through(&w->bt[0][0], WINO_P, w->p, w->p, &d), s = {{{0}}};

	for (int i = 0; i < w->p; i++)
		for (int j = 0; j < w->p; j++)
			s.v[i][j] = u.v[i][j] * v.v[i][j];
	struct square y = through(&w->at[0][0], WINO_P, w->m, w->p, &s);

	for (int i = 0; i < m; i++)
		for (int j = 0; j < m; j++) {
			double want = 0;

			for (int k = 0; k < WINO_TAPS * WINO_TAPS; k++)
				want += d.v[i + k / WINO_TAPS][j + k % WINO_TAPS] *
				    g.v[k / WINO_TAPS][k % WINO_TAPS];
			assert_float_equal(y.v[i][j], want, 1e-12);
		}
}

static void
test_forms(void **state)
{
	(void)state;
	check(2);
	check(4);
	for (int m = -1; m < 9; m++)
		if (m != 2 && m != 4)
			assert_null(winograd_form(m));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
