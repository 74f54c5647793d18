/* kernels/predict/kin.c: kernels that a forest finds alike. */
#include "kin.h"

/* As much as kin of so much weight weighs the forest's own word. */
static const double own_word = 0.05;

void
forest_leaves(const struct forest *f, const float *x, uint16_t *leaf)
{
	for (uint32_t i = 0; i < f->n_trees; i++) {
		const struct forest_node *root = &f->node[f->root[i]], *n = root;

		while (n->feature != FOREST_LEAF)
			n += x[n->feature] < n->value ? 1 : n->right;
		leaf[i] = (uint16_t)(n - root);
	}
}

double
kin_weight(const uint16_t *a, const uint16_t *b, uint32_t n_trees)
{
	uint32_t same = 0;
	double share;

	for (uint32_t i = 0; i < n_trees; i++)
		same += a[i] == b[i];
	share = n_trees ? (double)same / n_trees : 0;
	for (int i = 0; i < 4; i++) /* to the sixteenth power */
		share *= share;
	return share;
}

double
kin_shift(const struct kin *k)
{
	return k->left / (k->weight + own_word);
}
