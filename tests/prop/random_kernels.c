/* tests/prop/random_kernels.c: see random_kernels.h. */
#include "random_kernels.h"

#include "random_graph.h"
#include "random_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char *const schedules[] = {
    "", "", "mr=4 nv=1", "mr=3 nv=3", "block=3", "field=1", "mr=2 nv=1", "block=1"};

static bool
random_rest(struct arena *a, struct rng *r, struct spec *out)
{
	struct random_opts opts = {.n_nodes = 2 + (uint32_t)rng_below(r, 8),
	    .kinds = RG_ALL & ~(uint32_t)RG_OPAQUE,
	    .chain = rng_below(r, 2),
	    .max_extent = 24};
	struct graph g, sorted;

	random_graph(&g, a, r, &opts);
	graph_sort(&sorted, a, &g, NULL);
	if (sorted.n_nodes == 0 || sorted.n_nodes > SPEC_MAX_NODES)
		return false;
	spec_of_graph(a, &sorted, out);
	return true;
}

struct test_kernel *
random_kernels(struct arena *a, const struct target *t, uint64_t seed, uint32_t n)
{
	struct test_kernel *k = NEW_ARRAY(a, struct test_kernel, n);
	struct rng r = {seed};

	for (uint32_t i = 0; i < n;) {
		struct str schedule = str_of(schedules[rng_below(&r, COUNT_OF(schedules))]);
		struct err e = {0};
		struct spec s;

		if (!(i % 2 ? random_linear(a, &r, &s) : random_rest(a, &r, &s)))
			continue;
		if (kernel_make(a, &s, schedule, t, i, &r, &k[i], &e))
			i++;
		else if (e.code != ERR_INFEASIBLE)
			fail_msg("seed %llu: %s\n%.*s", (unsigned long long)seed, e.msg, STR_ARG(s.text));
	}
	return k;
}
