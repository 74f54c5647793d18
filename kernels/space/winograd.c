/* kernels/space/winograd.c: which convolutions Winograd's form is worth it for, by the graph alone; the loop
 * program's rule (kernels/schedule/rule_winograd.c) asks its own blocks.  F(m x m, 3 x 3): m x m results from
 * p x p elements, p = m + 2, by p * p products a channel instead of 9 * m * m (Lavin and Gray, arXiv
 * 1509.09308). */
#include "space.h"

enum { TAPS = 3 };

/* Tiles that stick out of small images are computed for nothing. */
static bool
saves_products(int64_t m, int64_t tiles, int64_t rows)
{
	const int64_t p = m + TAPS - 1;

	return tiles * p * p * 10 <= rows * TAPS * TAPS * 7;
}

/* Of a node, for the loop program, whose rule (kernels/schedule/rule_winograd.c) asks this of its own blocks,
 * and more than one tile each way. */
static bool
node_suits(const struct graph *g, const struct node *n, int64_t m)
{
	const struct shape *y = &graph_tensor(g, n->out[0])->shape;
	int64_t tiles = y->dim[0];

	for (int d = 1; d < 3; d++)
		tiles *= (y->dim[d] + m - 1) / m;
	return MIN_OF(y->dim[1], y->dim[2]) > m &&
	    saves_products(m, tiles, y->dim[0] * y->dim[1] * y->dim[2]);
}

static bool
some_suits(const struct spec *s, int64_t m, int64_t lanes)
{
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (node_fills_winograd(&s->g, &s->g.nodes[i], lanes) && node_suits(&s->g, &s->g.nodes[i], m))
			return true;
	return false;
}

bool
winograd_suits(const struct spec *s, const struct target *t, int64_t m)
{
	return (m == 2 || m == 4) && !t->strict && !t->is_cuda &&
	    some_suits(s, m, t->simd_bytes / (int64_t)sizeof(float));
}

bool
winograd_suited(const struct spec *s)
{
	return some_suits(s, 4, 1) || some_suits(s, 2, 1);
}
