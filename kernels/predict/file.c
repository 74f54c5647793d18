/* kernels/predict/file.c: a predictor as bytes, and back.  All numbers little-endian. */
#include "predict.h"

#include <math.h>
#include <string.h>

/* The older one has one set of intervals for one thread and several. */
static const char MAGIC[] = "KORCH PREDICT 3\n", MAGIC_2[] = "KORCH PREDICT 2\n";
enum { MAGIC_BYTES = sizeof(MAGIC) - 1, DIGEST_BYTES = 32, NODE_BYTES = 8 };

/* ---- out ---------------------------------------------------------------------------- */
static void
put_u64(struct strbuf *sb, uint64_t v, int n_bytes)
{
	for (int i = 0; i < n_bytes; i++)
		sb_addc(sb, (char)(v >> (8 * i)));
}

static void
put_float(struct strbuf *sb, float v)
{
	uint32_t u;

	memcpy(&u, &v, sizeof(u));
	put_u64(sb, u, 4);
}

static void
put_floats(struct strbuf *sb, const float *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_float(sb, v[i]);
}

static void
put_model(struct strbuf *sb, const struct predict_model *m)
{
	const struct forest *f = &m->f;

	put_u64(sb, f->n_features, 4);
	put_u64(sb, f->n_trees, 4);
	put_u64(sb, f->n_nodes, 4);
	put_u64(sb, f->weight != NULL, 4);
	put_float(sb, f->base);
	if (f->weight)
		put_floats(sb, f->weight, f->n_features);
	for (uint32_t i = 0; i < f->n_trees; i++)
		put_u64(sb, f->root[i], 4);
	for (uint32_t i = 0; i < f->n_nodes; i++) {
		put_float(sb, f->node[i].value);
		put_u64(sb, f->node[i].feature, 2);
		put_u64(sb, f->node[i].right, 2);
	}
	put_floats(sb, m->least, f->n_features);
	put_floats(sb, m->most, f->n_features);
	put_floats(sb, &m->interval.off[0][0], INTERVAL_GROUPS * INTERVAL_LEVELS);
}

void
predictor_write(struct arena *a, const struct predictor *p, struct bytes *file)
{
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, a);
	sb_addz(&sb, MAGIC);
	put_u64(&sb, predict_meaning(), 8);
	put_u64(&sb, p->epoch, 4);
	put_u64(&sb, p->n_rows, 4);
	put_u64(&sb, p->n_specs, 4);
	put_u64(&sb, p->n_models, 4);
	put_float(&sb, p->sure);
	sb_add(&sb, (struct str){p->device_class, sizeof(p->device_class)});
	for (int i = 0; i < HEADS; i++)
		put_model(&sb, &p->head[i]);
	if (p->network)
		net_write(p->network, &sb);
	h = hash_bytes(sb.p, sb.n);
	sb_add(&sb, (struct str){(const char *)h.b, DIGEST_BYTES});
	*file = (struct bytes){(const uint8_t *)sb.p, sb.n};
}

/* ---- in ----------------------------------------------------------------------------- */
/* What is left of the file; once it is short of something, it stays so and gives zeros. */
struct in {
	struct bytes left;
	bool is_short;
};

static uint64_t
get_u64(struct in *in, size_t n_bytes)
{
	uint64_t v = 0;

	if (in->left.n < n_bytes) {
		in->is_short = true;
		return 0;
	}
	for (size_t i = 0; i < n_bytes; i++)
		v |= (uint64_t)in->left.p[i] << (8 * i);
	in->left.p += n_bytes;
	in->left.n -= n_bytes;
	return v;
}

static float
get_float(struct in *in)
{
	uint32_t u = (uint32_t)get_u64(in, 4);
	float v;

	memcpy(&v, &u, sizeof(v));
	return v;
}

static float *
get_floats(struct in *in, struct arena *a, uint32_t n)
{
	float *v = NEW_ARRAY(a, float, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++)
		v[i] = get_float(in);
	return v;
}

static bool
get_forest(struct in *in, struct arena *a, uint32_t n_features, struct forest *f, struct err *e)
{
	uint32_t *root;
	struct forest_node *node;
	bool has_line;

	f->n_features = (uint32_t)get_u64(in, 4);
	f->n_trees = (uint32_t)get_u64(in, 4);
	f->n_nodes = (uint32_t)get_u64(in, 4);
	has_line = get_u64(in, 4) != 0;
	if (in->is_short || f->n_features != n_features || f->n_trees > FOREST_MAX_TREES ||
	    f->n_nodes > FOREST_MAX_NODES || f->n_nodes > in->left.n / NODE_BYTES)
		return err_set(e, ERR_FORMAT, "sizes out of range");
	f->base = get_float(in);
	f->weight = has_line ? get_floats(in, a, n_features) : NULL;
	f->root = root = NEW_ARRAY(a, uint32_t, MAX_OF(f->n_trees, 1u));
	f->node = node = NEW_ARRAY(a, struct forest_node, MAX_OF(f->n_nodes, 1u));
	for (uint32_t i = 0; i < f->n_trees; i++)
		root[i] = (uint32_t)get_u64(in, 4);
	for (uint32_t i = 0; i < f->n_nodes; i++) {
		node[i].value = get_float(in);
		node[i].feature = (uint16_t)get_u64(in, 2);
		node[i].right = (uint16_t)get_u64(in, 2);
	}
	return forest_check(f, e);
}

static bool
are_finite(const float *v, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return err_set(e, ERR_FORMAT, "a limit or a quantile is no number");
	return true;
}

static void
get_interval(struct in *in, struct arena *a, uint32_t n_groups, struct interval *out)
{
	enum { BYTES_OF_ALIKE = sizeof(float) * INTERVAL_OF_ALIKE * INTERVAL_LEVELS };
	float *off = get_floats(in, a, n_groups * INTERVAL_LEVELS);

	for (uint32_t g = 0; g < INTERVAL_GROUPS; g += INTERVAL_OF_ALIKE)
		memcpy(out->off[g], off + (g < n_groups ? g : 0) * INTERVAL_LEVELS, BYTES_OF_ALIKE);
}

static bool
get_model(struct in *in, struct arena *a, uint32_t n_features, uint32_t n_groups, struct predict_model *m,
    struct err *e)
{

	if (!get_forest(in, a, n_features, &m->f, e))
		return false;
	m->least = get_floats(in, a, n_features);
	m->most = get_floats(in, a, n_features);
	get_interval(in, a, n_groups, &m->interval);
	if (in->is_short)
		return err_set(e, ERR_FORMAT, "it is cut off");
	return are_finite(m->least, n_features, e) && are_finite(m->most, n_features, e) &&
	    are_finite(&m->interval.off[0][0], INTERVAL_GROUPS * INTERVAL_LEVELS, e);
}

static bool
check_outside(struct bytes file, struct err *e)
{
	struct hash h;

	if (file.n > PREDICT_FILE_MAX)
		return err_set(e, ERR_LIMIT, "%zu bytes; it has %d at most", file.n, PREDICT_FILE_MAX);
	if (file.n < MAGIC_BYTES + DIGEST_BYTES ||
	    (memcmp(file.p, MAGIC, MAGIC_BYTES) != 0 && memcmp(file.p, MAGIC_2, MAGIC_BYTES) != 0))
		return err_set(e, ERR_FORMAT, "not a trained predictor");
	h = hash_bytes(file.p, file.n - DIGEST_BYTES);
	return memcmp(h.b, file.p + file.n - DIGEST_BYTES, DIGEST_BYTES) == 0 ||
	    err_set(e, ERR_FORMAT, "the predictor is damaged or cut off");
}

/* All that is left is one; of samples as they are here. */
static bool
get_network(struct in *in, struct arena *a, struct predictor *out, struct err *e)
{
	struct net *n = NEW(a, struct net);

	if (!net_read(a, in->left, n, e))
		return false;
	out->network = n;
	return (n->shape.leaf == net_usual.leaf && n->shape.whole == net_usual.whole) ||
	    err_set(e, ERR_FORMAT, "it reads %u numbers of a leaf and %u of a kernel, not %u and %u",
		n->shape.leaf, n->shape.whole, net_usual.leaf, net_usual.whole);
}

static bool
get_sure(struct in *in, struct predictor *out, struct err *e)
{
	out->sure = get_float(in);
	return (out->sure >= 0 && isfinite(out->sure)) ||
	    err_set(e, ERR_FORMAT, "how far down a job is sure is no number");
}

static bool
get_predictor(struct in *in, struct arena *a, uint32_t n_groups, struct predictor *out, struct err *e)
{
	if (get_u64(in, 8) != predict_meaning())
		return err_set(e, ERR_NEWER,
		    "the predictor was trained on other numbers than this Korch makes of a kernel; train it "
		    "anew "
		    "(korch-predict-train)");
	out->epoch = (uint32_t)get_u64(in, 4);
	out->n_rows = (uint32_t)get_u64(in, 4);
	out->n_specs = (uint32_t)get_u64(in, 4);
	out->n_models = (uint32_t)get_u64(in, 4);
	if (!get_sure(in, out, e))
		return false;
	for (int i = 0; i < PREDICT_CLASS_MAX; i++)
		out->device_class[i] = (char)get_u64(in, 1);
	out->device_class[PREDICT_CLASS_MAX - 1] = 0;
	for (int i = 0; i < HEADS; i++)
		if (!get_model(in, a, SAMPLE_FLAT, n_groups, &out->head[i], e))
			return err_in(e, "the predictor's part %d", i + 1);
	if (in->is_short)
		return err_set(e, ERR_FORMAT, "the predictor is cut off");
	return in->left.n == 0 || get_network(in, a, out, e) || err_in(e, "the predictor's last part");
}

bool
predictor_read(struct arena *a, struct bytes file, struct predictor *out, struct err *e)
{
	struct in in;

	*out = (struct predictor){0};
	if (!check_outside(file, e))
		return false;
	in.left = (struct bytes){file.p + MAGIC_BYTES, file.n - MAGIC_BYTES - DIGEST_BYTES};
	in.is_short = false;
	return get_predictor(
	    &in, a, memcmp(file.p, MAGIC, MAGIC_BYTES) == 0 ? INTERVAL_GROUPS : INTERVAL_OF_ALIKE, out, e);
}
