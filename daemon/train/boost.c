/* daemon/train/boost.c: trees by XGBoost's C library, by a gradient of our own: of the smoothed pinball, so
 * that one row that lies pulls no harder than any other, and quantiles come by the same way. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

/* Below so much (of a logarithm) errors count by their square: a fifth is what sessions differ by at worst.
 */
static const double smooth = 0.2;
/* Texts for the library: one thread, no chance, so that equal rows give equal trees. */
static const char *const settings[][2] = {
    {"booster", "gbtree"},
    {"tree_method", "hist"},
    {"grow_policy", "lossguide"},
    {"max_depth", "0"},
    {"max_bin", "256"},
    {"eta", "0.06"},
    {"lambda", "2"},
    {"min_child_weight", "4"},
    {"colsample_bytree", "0.2"},
    {"seed", "1"},
    {"nthread", "1"},
    {"base_score", "0"},
    {"verbosity", "0"},
};

const char *
fit_method(void)
{
	return "trees";
}

static bool
failed(struct err *e, const char *what)
{
	return err_set(e, ERR_FAILED, "XGBoost: %s: %.300s", what, XGBGetLastError());
}

static int
by_value(const void *pa, const void *pb)
{
	float a = *(const float *)pa, b = *(const float *)pb;

	return (a > b) - (a < b);
}

static float
quantile_of(const struct fit *f)
{
	struct arena tmp = {0};
	float *y = arena_dup(&tmp, f->y, f->n * sizeof(y[0])), v;

	qsort(y, f->n, sizeof(y[0]), by_value);
	v = y[(uint32_t)fmin(f->share * f->n, f->n - 1)];
	arena_fini(&tmp);
	return v;
}

/* One round: how each row pulls, then a tree. */
static bool
boost_once(BoosterHandle b, DMatrixHandle m, const struct fit *f, float base, float *grad, float *hess,
    struct err *e)
{
	const float *have;
	bst_ulong n;

	if (XGBoosterPredict(b, m, 1, 0, 1, &n, &have) != 0 || n != f->n)
		return failed(e, "predicting");
	for (uint32_t i = 0; i < f->n; i++) {
		double over = (double)have[i] + (double)base - (double)f->y[i],
		       side = 2 * (over > 0 ? 1 - f->share : f->share);

		side *= f->weight ? (double)f->weight[i] : 1;
		grad[i] = (float)(side * fmin(fmax(over, -smooth), smooth));
		hess[i] = (float)side;
	}
	return XGBoosterBoostOneIter(b, m, grad, hess, f->n) == 0 || failed(e, "growing a tree");
}

static bool
set_up(BoosterHandle b, const struct fit *f, struct err *e)
{
	char leaves[16];

	for (size_t i = 0; i < COUNT_OF(settings); i++)
		if (XGBoosterSetParam(b, settings[i][0], settings[i][1]) != 0)
			return failed(e, settings[i][0]);
	(void)snprintf(leaves, sizeof(leaves), "%u", f->n_leaves);
	return XGBoosterSetParam(b, "max_leaves", leaves) == 0 || failed(e, "max_leaves");
}

/* ---- its trees as ours -------------------------------------------------------------- */
enum { DUMP_NODES = 4096 };
struct dumped {
	struct {
		float value;
		uint32_t feature, yes, no;
		bool is_there, is_leaf;
	} node[DUMP_NODES];
};
struct growing {
	struct arena *a;
	struct forest_node *node;
	uint32_t *root;
	uint32_t n_nodes, cap_nodes, n_trees, cap_trees;
};

/* "3:[f12<0.5] yes=7,no=8,missing=7" or "4:leaf=-0.1", behind tabs. */
static bool
read_line(struct dumped *d, const char *line)
{
	uint32_t id, feature, yes, no;
	float value;

	if (sscanf(line, " %u:leaf=%f", &id, &value) == 2 && id < DUMP_NODES) {
		d->node[id].value = value;
		d->node[id].is_leaf = d->node[id].is_there = true;
		return true;
	}
	if (sscanf(line, " %u:[f%u<%f] yes=%u,no=%u", &id, &feature, &value, &yes, &no) != 5 ||
	    id >= DUMP_NODES || yes >= DUMP_NODES || no >= DUMP_NODES)
		return false;
	d->node[id].value = value;
	d->node[id].feature = feature;
	d->node[id].yes = yes;
	d->node[id].no = no;
	d->node[id].is_there = true;
	return true;
}

static bool
add_node(struct growing *g, const struct dumped *d, uint32_t id, uint32_t depth)
{
	uint32_t at = g->n_nodes;

	if (depth > FOREST_MAX_DEPTH || !d->node[id].is_there || g->n_nodes >= FOREST_MAX_NODES)
		return false;
	GROW(g->a, g->node, g->n_nodes, g->cap_nodes);
	g->node[g->n_nodes++] = (struct forest_node){d->node[id].value, FOREST_LEAF, 0};
	if (d->node[id].is_leaf)
		return true;
	g->node[at].feature = (uint16_t)d->node[id].feature;
	if (!add_node(g, d, d->node[id].yes, depth + 1))
		return false;
	g->node[at].right = (uint16_t)(g->n_nodes - at);
	return add_node(g, d, d->node[id].no, depth + 1);
}

static bool
add_tree(struct growing *g, const char *text)
{
	struct arena tmp = {0};
	struct dumped *d = NEW(&tmp, struct dumped);
	struct str rest = str_of(text);
	bool ok = true;

	while (ok && rest.n) {
		struct str line = str_cut(&rest, '\n');

		ok = line.n == 0 || read_line(d, str_dup(&tmp, line));
	}
	if (ok) {
		GROW(g->a, g->root, g->n_trees, g->cap_trees);
		g->root[g->n_trees++] = g->n_nodes;
		ok = add_node(g, d, 0, 0);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
take_trees(
    struct arena *a, BoosterHandle b, const struct fit *f, float base, struct forest *out, struct err *e)
{
	struct growing g = {.a = a};
	const char **text;
	bst_ulong n;

	if (XGBoosterDumpModelEx(b, "", 0, "text", &n, &text) != 0)
		return failed(e, "dumping");
	for (bst_ulong i = 0; i < n; i++)
		if (!add_tree(&g, text[i]))
			return err_set(e, ERR_FAILED, "XGBoost: tree %u reads like no tree", (unsigned)i);
	*out = (struct forest){.n_features = f->d,
	    .n_trees = g.n_trees,
	    .n_nodes = g.n_nodes,
	    .base = base,
	    .root = g.root,
	    .node = g.node};
	return forest_check(out, e);
}

static bool
boost(
    struct arena *a, BoosterHandle b, DMatrixHandle m, const struct fit *f, struct forest *out, struct err *e)
{
	struct arena tmp = {0};
	float *grad = NEW_ARRAY(&tmp, float, f->n), *hess = NEW_ARRAY(&tmp, float, f->n),
	      base = quantile_of(f);
	bool ok = set_up(b, f, e);

	for (uint32_t i = 0; ok && i < f->n_trees; i++)
		ok = boost_once(b, m, f, base, grad, hess, e);
	ok = ok && take_trees(a, b, f, base, out, e);
	arena_fini(&tmp);
	return ok;
}

bool
fit_forest(struct arena *a, const struct fit *f, struct forest *out, struct err *e)
{
	DMatrixHandle m;
	BoosterHandle b;
	bool ok;

	*out = (struct forest){.n_features = f->d};
	if (f->n == 0)
		return true;
	if (XGDMatrixCreateFromMat_omp(f->x, f->n, f->d, NAN, &m, 1) != 0)
		return failed(e, "taking the rows");
	ok = XGBoosterCreate(&m, 1, &b) == 0 || failed(e, "beginning");
	if (ok) {
		ok = boost(a, b, m, f, out, e);
		(void)XGBoosterFree(b);
	}
	(void)XGDMatrixFree(m);
	return ok;
}
