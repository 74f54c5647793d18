/* worker/rotation.c: a ring of buffers for a race, and each kernel's launches round it. */
#include "rotation.h"

#include <stdlib.h>
#include <string.h>

/* Of cold weights that are evicted: a sample has several calls where one takes a few microseconds. */
static const size_t sample_bytes = (size_t)1 << 20;

size_t
tensor_bytes(const struct graph *g, tensor_id t)
{
	size_t n;

	if (!shape_bytes(&graph_tensor(g, t)->shape, graph_tensor(g, t)->type, &n))
		bug("a spec with a tensor that does not fit");
	return n;
}

/* How many copies of so many bytes fill a cache of `want`. */
static uint32_t
how_many(size_t bytes, size_t want, size_t most)
{
	size_t n = MIN_OF(want / MAX_OF(bytes, (size_t)1) + 2, (size_t)RING_MAX_COPIES);

	while (n > 1 && n * bytes > most)
		n--;
	return (uint32_t)n;
}

static bool
is_weight(const struct spec *s, uint32_t b)
{
	return b < s->g.n_inputs && graph_tensor(&s->g, s->g.inputs[b])->role == ROLE_WEIGHT;
}

static bool
is_cold_weight(const struct rotation *c, uint32_t b)
{
	return is_weight(c->race->spec, b) && heat_at(c->race->heat, b) == HEAT_COLD;
}

static size_t
operand_bytes(const struct spec *s, uint32_t b)
{
	const struct graph *g = &s->g;

	return tensor_bytes(g, b < g->n_inputs ? g->inputs[b] : g->outputs[b - g->n_inputs]);
}

struct load {                    /* bytes of a call */
	size_t hot, round, cold; /* cold operands and results, near weights; cold weights */
};
static struct load
load_of(const struct spec *s, struct str heat)
{
	struct load l = {0};

	for (uint32_t b = 0; b < s->g.n_inputs + s->g.n_outputs; b++) {
		enum heat h = heat_at(heat, b);
		size_t *to = h == HEAT_HOT ? &l.hot : is_weight(s, b) && h == HEAT_COLD ? &l.cold : &l.round;

		*to += operand_bytes(s, b);
	}
	return l;
}

bool
rotation_is_cold(const struct spec *s, struct str heat, const struct calibration *c)
{
	struct load l = load_of(s, heat);

	return l.cold > l.round + l.hot && l.cold > (size_t)MAX_OF(c->hw.level_bytes[1], (int64_t)0);
}

/* Does every kernel of the race bring its own form of the weight? */
static bool
is_always_packed(const struct race *r, uint32_t b)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct kernel_code *code = r->of[i].code;
		bool found = false;

		for (uint32_t p = 0; code && p < code->desc.n_packs; p++)
			found |= code->desc.packs[p].operand == b;
		if (code && !found)
			return false;
	}
	return true;
}

/* How many copies of a form of the weight `b`, or of it as it is. */
static uint32_t
weight_copies(const struct rotation *c, uint32_t b, size_t bytes)
{
	enum heat h = heat_at(c->race->heat, b);

	if (h == HEAT_COLD && c->evicts)
		return c->n_fresh;
	return h == HEAT_HOT ? 1 : how_many(bytes, h == HEAT_NEAR ? c->warm_bytes : c->cold_bytes, c->most);
}

static void
count(struct rotation *c, size_t least, size_t most)
{
	const struct spec *s = c->race->spec;
	const int64_t *level = c->race->calibration->hw.level_bytes;
	size_t l2 = (size_t)MAX_OF(level[1], (int64_t)0), last = (size_t)MAX_OF(level[2], (int64_t)0);
	struct load load = load_of(s, c->race->heat);
	uint32_t warm, cold;

	c->is_hot = load.hot > 0;
	c->evicts = c->race->dev->evict != NULL;
	c->warm_bytes = MAX_OF(RING_L2_CACHES * l2, least);
	c->cold_bytes =
	    c->evicts ? sample_bytes : RING_LAST_CACHES * MAX_OF(l2, last); /* a GPU's second is its last */
	c->most = most;
	warm = load.round ? how_many(load.round, c->warm_bytes, most) : 1;
	cold = load.cold ? how_many(load.cold, c->cold_bytes, most) : 1;
	for (uint32_t b = 0; b < c->n_bufs; b++) {
		c->buf_bytes[b] = operand_bytes(s, b);
		if (heat_at(c->race->heat, b) == HEAT_HOT ||
		    (is_weight(s, b) && is_always_packed(c->race, b)))
			c->n_of[b] = 1;
		else
			c->n_of[b] = is_cold_weight(c, b) ? cold : warm;
		c->n_bytes += c->buf_bytes[b] * c->n_of[b];
	}
	c->is_cold = rotation_is_cold(s, c->race->heat, c->race->calibration);
	c->n_walk = warm;
	c->n = MAX_OF(warm, cold);
	c->n_fresh = MIN_OF(load.round ? warm : UINT32_MAX, load.cold ? cold : UINT32_MAX);
}

static bool
make(struct rotation *c, struct err *e)
{
	const struct dev *d = c->race->dev;

	for (uint32_t i = 0; i < c->n * c->n_bufs; i++) {
		uint32_t b = i % c->n_bufs, at = i / c->n_bufs;

		c->buf[i] = at < c->n_of[b] ? d->mem_new(d->self, c->buf_bytes[b])
					    : c->buf[(size_t)(at % c->n_of[b]) * c->n_bufs + b];
		if (!c->buf[i])
			return err_set(e, ERR_MEMORY,
			    "no memory to time a kernel: %zu bytes for copies of its operands", c->n_bytes);
	}
	return true;
}

/* Every copy of an operand alike; what a host's kernel writes to has its pages from now on. */
static void
fill(struct rotation *c)
{
	const struct race *r = c->race;
	const struct dev *d = r->dev;
	struct arena tmp = {0};
	uint32_t n_inputs = r->spec->g.n_inputs;
	/* where the host can write to the device's memory, the first copies are the values */
	void **values = d->reads_host ? c->buf : make_operands(&tmp, r->spec);

	fill_operands(r->spec, SET_NORMAL, r->seed, values);
	for (uint32_t i = d->reads_host ? n_inputs : 0; i < c->n * c->n_bufs; i++) {
		uint32_t b = i % c->n_bufs;

		if (i / c->n_bufs >= c->n_of[b])
			continue;
		if (b < n_inputs)
			d->put(d->self, c->buf[i], values[b], c->buf_bytes[b]);
		else if (d->reads_host) /* a GPU's memory comes as zeros */
			memset(c->buf[i], 0, c->buf_bytes[b]);
	}
	arena_fini(&tmp);
}

bool
rotation_open(
    struct arena *a, const struct race *r, size_t least, size_t most, struct rotation *out, struct err *e)
{
	const struct graph *g = &r->spec->g;

	*out = (struct rotation){.race = r, .n_bufs = g->n_inputs + g->n_outputs};
	out->buf_bytes = NEW_ARRAY(a, size_t, out->n_bufs);
	out->n_of = NEW_ARRAY(a, uint32_t, out->n_bufs);
	count(out, least, most);
	out->buf = NEW_ARRAY(a, void *, (size_t)out->n * out->n_bufs);
	if (!make(out, e))
		return false;
	fill(out);
	return true;
}

void
rotation_close(struct rotation *c)
{
	for (uint32_t i = 0; c->buf && i < c->n * c->n_bufs; i++) {
		uint32_t b = i % c->n_bufs;

		if (c->buf[i] && i / c->n_bufs < c->n_of[b])
			c->race->dev->mem_free(c->race->dev->self, c->buf[i], c->buf_bytes[b]);
	}
	c->buf = NULL;
}

/* ---- one kernel ------------------------------------------------------------------------------------ */
/* A packed weight of its own for each launch: from the dense one, the others from the first. */
static void *
own_pack(struct rotation *c, struct lap *l, const struct pack *p, void **first)
{
	const struct graph *g = &c->race->spec->g;
	const struct dev *d = c->race->dev;
	const struct tensor *t = graph_tensor(g, g->inputs[p->operand]);
	size_t n = pack_bytes(p, t->type), dense_bytes = c->buf_bytes[p->operand];
	void *to = d->mem_new(d->self, n), *dense;

	if (!to)
		return NULL;
	l->own[l->n_own] = to;
	l->own_bytes[l->n_own++] = n;
	c->n_bytes += n;
	if (!*first) { /* by way of the host, where the device has memory of its own */
		*first = heap_alloc(MAX_OF(n, (size_t)1));
		dense = heap_alloc(MAX_OF(dense_bytes, (size_t)1));
		d->get(d->self, dense, c->buf[p->operand], dense_bytes);
		pack_apply(p, t, dense, *first);
		free(dense);
	}
	d->put(d->self, to, *first, n);
	return to;
}

/* Its own form of operand p, for all launches: as many copies as a sample has calls or as fill the last
 * cache, which a form that is four times the weights (Winograd's) does with fewer; where memory ends, those
 * that there are. */
static bool
pack_all(struct rotation *c, struct lap *l, const struct pack *p, struct err *e)
{
	const struct graph *g = &c->race->spec->g;
	size_t bytes = pack_bytes(p, graph_tensor(g, g->inputs[p->operand])->type);
	uint32_t wanted = MIN_OF(c->n, weight_copies(c, p->operand, bytes)), n = 0;
	void *first = NULL, **own = &l->own[l->n_own];

	while (n < wanted && own_pack(c, l, p, &first))
		n++;
	free(first);
	if (n == 0)
		return err_set(
		    e, ERR_MEMORY, "no memory for the packed weights of a kernel: %zu bytes", bytes);
	for (uint32_t i = 0; i < c->n; i++)
		memcpy((void **)(uintptr_t)l->launch[i].buf + p->operand, &own[i % n], sizeof(*own));
	if (l->cold_bytes[p->operand])
		l->cold_bytes[p->operand] = bytes;
	return true;
}

static size_t
kept_bytes(const struct dev *d)
{
	return d->kept_bytes ? d->kept_bytes(d->self) : 0;
}

/* What a library keeps of the weights counts as well. */
static bool
prepare_all(struct rotation *c, struct lap *l, struct err *e)
{
	const struct dev *d = c->race->dev;
	size_t before = kept_bytes(d);
	bool ok = true;

	for (uint32_t i = 0; i < l->n && ok; i++)
		ok = dev_prepare(d, &l->launch[i], e);
	c->n_bytes += kept_bytes(d) - before;
	return ok;
}

bool
lap_open(struct arena *a, struct rotation *c, const struct dev_kernel *k, const struct kernel_code *code,
    struct lap *out, struct err *e)
{
	*out = (struct lap){.n = c->n,
	    .launch = NEW_ARRAY(a, struct dev_launch, c->n),
	    .own = NEW_ARRAY(a, void *, (size_t)c->n * code->desc.n_packs),
	    .own_bytes = NEW_ARRAY(a, size_t, (size_t)c->n * code->desc.n_packs),
	    .cold_bytes = NEW_ARRAY(a, size_t, c->n_bufs)};
	for (uint32_t b = 0; b < c->n_bufs; b++)
		out->cold_bytes[b] = is_cold_weight(c, b) ? c->buf_bytes[b] : 0;
	for (uint32_t i = 0; i < c->n; i++)
		out->launch[i] = (struct dev_launch){.kernel = k,
		    .buf = arena_dup(a, &c->buf[(size_t)i * c->n_bufs], c->n_bufs * sizeof(*c->buf))};
	for (uint32_t p = 0; p < code->desc.n_packs; p++)
		if (!pack_all(c, out, &code->desc.packs[p], e))
			return false;
	return prepare_all(c, out, e);
}

void
lap_chill(const struct rotation *c, const struct lap *l, uint32_t at, uint32_t n)
{
	const struct dev *d = c->race->dev;

	for (uint32_t i = 0; c->evicts && i < n; i++)
		d->evict(d->self, &l->launch[(at + i) % l->n], l->cold_bytes);
}

void
lap_close(const struct rotation *c, struct lap *l)
{
	const struct dev *d = c->race->dev;

	for (uint32_t i = 0; i < l->n_own; i++)
		d->mem_free(d->self, l->own[i], l->own_bytes[i]);
	for (uint32_t i = 0; l->launch && i < l->n; i++)
		dev_release(d, &l->launch[i]);
	*l = (struct lap){0};
}
