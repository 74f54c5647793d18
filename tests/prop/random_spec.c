/* tests/prop/random_spec.c: see the header. */
#include "random_spec.h"

void
random_spec(struct arena *a, struct rng *r, struct spec *out)
{
	static const uint32_t kinds[] = {RG_ALL & ~(uint32_t)RG_OPAQUE, RG_MAP | RG_BCAST | RG_REDUCE,
	    RG_LAYOUT | RG_MAP, RG_MAP | RG_CONV | RG_LAYOUT | RG_BCAST,
	    RG_MAP | RG_MATMUL | RG_REDUCE | RG_BCAST | RG_LAYOUT, RG_WINDOW | RG_MAP | RG_LAYOUT,
	    RG_ALL & ~(uint32_t)RG_OPAQUE};
	struct random_opts opts = {.n_nodes = 2 + rng_below(r, 14),
	    .kinds = kinds[rng_below(r, COUNT_OF(kinds))],
	    .chain = rng_below(r, 2),
	    .max_extent = rng_below(r, 4) ? 9 : 40,
	    .max_elements = 20000};
	struct graph g, sorted;

	random_graph(&g, a, r, &opts);
	graph_sort(&sorted, a, &g, NULL);
	spec_of_graph(a, &sorted, out);
}

void
each_random_spec(uint64_t n, uint64_t seed, spec_fn *fn, void *self)
{
	for (uint64_t i = seed; i < seed + n; i++) {
		struct arena a = {0};
		struct rng r = {i};
		struct spec s;

		random_spec(&a, &r, &s);
		fn(self, &s, i);
		arena_fini(&a);
	}
}
