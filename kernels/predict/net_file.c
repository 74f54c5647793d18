/* kernels/predict/net_file.c: a network as bytes, all numbers little-endian:
 *   "KORCHNET", version, the seven numbers of its shape (u32 each),
 *   mean and factor of each input and of what is predicted, then the weights (f32),
 *   SHA-256 of all before it.
 * What is read may be anybody's: extents are bounded before anything is allocated, every number is finite. */
#include "net_int.h"

#include <math.h>
#include <string.h>

enum {
	VERSION = 1,
	MAGIC = 8,
	N_SHAPE = 7,
	HEAD = MAGIC + 4 * (1 + N_SHAPE),
	WIDEST = 4096,
	MOST_LAYERS = 16
};
static const char magic[MAGIC] = {'K', 'O', 'R', 'C', 'H', 'N', 'E', 'T'};

static void
put_u32(struct strbuf *out, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		sb_addc(out, (char)(uint8_t)(v >> (8 * i)));
}

static void
put_float(struct strbuf *out, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_u32(out, bits);
}

static uint32_t
get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float
get_float(const uint8_t *p)
{
	uint32_t bits = get_u32(p);
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

void
net_write(const struct net *n, struct strbuf *out)
{
	const struct net_shape *s = &n->shape;
	const uint32_t shape[N_SHAPE] = {
	    s->leaf, s->whole, s->width, s->heads, s->layers, s->inner, s->hidden};
	size_t begin = out->n;
	struct hash hash;

	sb_add(out, (struct str){magic, MAGIC});
	put_u32(out, VERSION);
	for (int i = 0; i < N_SHAPE; i++)
		put_u32(out, shape[i]);
	for (uint32_t i = 0; i <= s->leaf + s->whole; i++) {
		const struct net_scale *scale = i < s->leaf + s->whole ? &n->scale[i] : &n->want;

		put_float(out, scale->mean);
		put_float(out, scale->factor);
	}
	for (uint32_t i = 0; i < n->n_weights; i++)
		put_float(out, n->w[i]);
	hash = hash_bytes(out->p + begin, out->n - begin);
	sb_add(out, (struct str){(const char *)hash.b, sizeof(hash.b)});
}

static bool
read_shape(const uint8_t *p, struct net_shape *s, struct err *e)
{
	const uint32_t v[N_SHAPE] = {get_u32(p), get_u32(p + 4), get_u32(p + 8), get_u32(p + 12),
	    get_u32(p + 16), get_u32(p + 20), get_u32(p + 24)};

	*s = (struct net_shape){v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
	for (int i = 0; i < N_SHAPE; i++)
		if (v[i] < 1 || v[i] > WIDEST)
			return err_set(
			    e, ERR_FORMAT, "network: extent %d is %u, not 1 to %d", i, v[i], (int)WIDEST);
	if (s->width % s->heads != 0 || s->width % 2 != 0 || s->layers > MOST_LAYERS)
		return err_set(e, ERR_FORMAT,
		    "network: width %u is no even multiple of its %u heads, or %u layers are more than %d",
		    s->width, s->heads, s->layers, (int)MOST_LAYERS);
	return true;
}

/* The scales and weights behind the head, all finite. */
static bool
read_numbers(struct arena *a, const uint8_t *p, struct net *n, struct err *e)
{
	uint32_t inputs = n->shape.leaf + n->shape.whole;
	size_t all = 2 * ((size_t)inputs + 1) + n->n_weights;

	for (size_t i = 0; i < all; i++)
		if (!isfinite(get_float(p + 4 * i)))
			return err_set(e, ERR_FORMAT, "network: number %zu is not finite", i);
	n->scale = NEW_ARRAY(a, struct net_scale, inputs);
	for (uint32_t i = 0; i < inputs; i++, p += 8)
		n->scale[i] = (struct net_scale){get_float(p), get_float(p + 4)};
	n->want = (struct net_scale){get_float(p), get_float(p + 4)};
	if (n->want.factor == 0)
		return err_set(e, ERR_FORMAT, "network: what it predicts has no scale");
	n->w = NEW_ARRAY(a, float, n->n_weights);
	for (uint32_t i = 0; i < n->n_weights; i++)
		n->w[i] = get_float(p + 8 + 4 * (size_t)i);
	return true;
}

bool
net_read(struct arena *a, struct bytes file, struct net *out, struct err *e)
{
	struct hash hash;
	size_t want;

	if (file.n < HEAD + sizeof(hash.b) || memcmp(file.p, magic, MAGIC) != 0)
		return err_set(e, ERR_FORMAT, "network: not a network's file; train it again");
	if (get_u32(file.p + MAGIC) != VERSION)
		return err_set(e, ERR_NEWER, "network: version %u, this program reads %d; train it again",
		    get_u32(file.p + MAGIC), (int)VERSION);
	*out = (struct net){.multiply = net_product};
	if (!read_shape(file.p + MAGIC + 4, &out->shape, e))
		return false;
	out->n_weights = ck_u32(net_n_weights(&out->shape));
	want = HEAD + 8 * ((size_t)out->shape.leaf + out->shape.whole + 1) + 4 * (size_t)out->n_weights +
	    sizeof(hash.b);
	if (file.n != want)
		return err_set(e, ERR_FORMAT, "network: %zu bytes, its shape needs %zu; it is cut or damaged",
		    file.n, want);
	hash = hash_bytes(file.p, file.n - sizeof(hash.b));
	if (memcmp(hash.b, file.p + file.n - sizeof(hash.b), sizeof(hash.b)) != 0)
		return err_set(e, ERR_FORMAT, "network: its content does not have its digest; it is damaged");
	return read_numbers(a, file.p + HEAD, out, e);
}
