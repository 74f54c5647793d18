/* kernels/predict/forest.c: walking trees, several abreast: which way a node goes is no more foreseen by the
 * processor than by anybody, so nothing branches on it, and one tree's loads pass while another's are waited
 * for. */
#include "forest.h"

#include <math.h>

enum { ABREAST = 8 };

static double
tree_value(const struct forest_node *n, const float *x)
{
	while (n->feature != FOREST_LEAF)
		n += x[n->feature] < n->value ? 1 : n->right;
	return (double)n->value;
}

/* A leaf stays where it is, until all are at one. */
static void
walk_abreast(const struct forest *f, uint32_t from, const float *x, const struct forest_node *at[ABREAST])
{
	bool goes_on = true;

	for (uint32_t k = 0; k < ABREAST; k++)
		at[k] = &f->node[f->root[from + k]];
	while (goes_on) {
		goes_on = false;
		for (uint32_t k = 0; k < ABREAST; k++) {
			const struct forest_node *n = at[k];
			uint32_t inner = n->feature != FOREST_LEAF ? UINT32_MAX : 0,
				 less = x[n->feature & inner] < n->value ? UINT32_MAX : 0;

			at[k] = n + (((1 & less) | (n->right & ~less)) & inner);
			goes_on |= inner;
		}
	}
}

double
forest_value(const struct forest *f, const float *x)
{
	const struct forest_node *at[ABREAST];
	double v = (double)f->base;
	uint32_t whole = f->n_trees - f->n_trees % ABREAST;

	for (uint32_t i = 0; f->weight && i < f->n_features; i++)
		v += (double)f->weight[i] * (double)x[i];
	for (uint32_t i = 0; i < whole; i += ABREAST) {
		walk_abreast(f, i, x, at);
		for (uint32_t k = 0; k < ABREAST; k++)
			v += (double)at[k]->value;
	}
	for (uint32_t i = whole; i < f->n_trees; i++)
		v += tree_value(&f->node[f->root[i]], x);
	return v;
}

/* Children stand behind their parent, so a walk that stays in its tree ends. */
static bool
check_tree(const struct forest *f, uint32_t tree, struct err *e)
{
	uint32_t end = tree + 1 < f->n_trees ? f->root[tree + 1] : f->n_nodes;

	if (f->root[tree] >= end || end > f->n_nodes)
		return err_set(e, ERR_FORMAT, "tree %u has no place of its own", tree);
	for (uint32_t i = f->root[tree]; i < end; i++) {
		const struct forest_node *n = &f->node[i];

		if (!isfinite(n->value))
			return err_set(e, ERR_FORMAT, "node %u of tree %u is no number", i, tree);
		if (n->feature == FOREST_LEAF)
			continue;
		if (n->feature >= f->n_features || n->right < 2 || n->right >= end - i)
			return err_set(e, ERR_FORMAT, "node %u of tree %u leads out of it", i, tree);
	}
	return f->node[end - 1].feature == FOREST_LEAF ||
	    err_set(e, ERR_FORMAT, "tree %u does not end in a leaf", tree);
}

bool
forest_check(const struct forest *f, struct err *e)
{
	if (!isfinite(f->base) || f->n_features > FOREST_MAX_FEATURES || f->n_trees > FOREST_MAX_TREES ||
	    f->n_nodes > FOREST_MAX_NODES || (f->n_trees > 0 && f->root[0] != 0))
		return err_set(e, ERR_FORMAT, "a function of numbers out of range");
	for (uint32_t i = 0; f->weight && i < f->n_features; i++)
		if (!isfinite(f->weight[i]))
			return err_set(e, ERR_FORMAT, "weight %u is no number", i);
	for (uint32_t i = 0; i < f->n_trees; i++)
		if (!check_tree(f, i, e))
			return false;
	return true;
}
