/* worker/gpu_fake/dnn.c: cuDNN's part of the fake GPU: descriptors that remember their attributes, engines
 * with one knob, and a graph that is walked when it runs, the convolution by its definition. */
#include "gpu_fake_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	OK = 0,
	BAD = 2000,
	NOT_FINALIZED = 2004,
	UNSUPPORTED = 3000,
	FAILED = 5000,
	MAX_FIELDS = 16,
	DIMS = 5,
	MAX_OPS = 8,
	T_DESC = 15,
	CONFIG = 3,
	ENGINE = 2,
	HEUR_GRAPH = 201,
	HEUR_RESULTS = 202,
	CONFIG_ENGINE = 300,
	CONFIG_KNOBS = 302,
	PLAN_CONFIG = 401,
	PLAN_WORKSPACE = 402,
	CHOICE_TYPE = 600,
	CHOICE_VALUE = 601,
	OPC_CONV = 702,
	OPC_W = 703,
	OPC_X = 704,
	OPC_Y = 705,
	OPP_HOW = 750,
	OPP_X = 751,
	OPP_B = 752,
	OPP_Y = 753,
	GRAPH_OPS = 801,
	TENSOR_DIMS = 902,
	TENSOR_STRIDES = 903,
	TENSOR_ID = 906,
	TENSOR_VIRTUAL = 907,
	PACK_IDS = 1000,
	PACK_POINTERS = 1001,
	PACK_WORKSPACE = 1003,
	ENGINE_GRAPH = 1300,
	ENGINE_INDEX = 1301,
	ENGINE_NOTES = 1303,
	KNOB_TILE = 2
};
struct field {
	int name, type;
	int64_t n;
	void *v;
};
struct desc {
	int type;
	bool is_final;
	struct field attr[MAX_FIELDS];
	uint32_t n;
};
/* cuDNN has no handle for its settings. */
static struct fake_lib_conf conf;

static int
fake_property(int which, int *v)
{
	static const int version[] = {9, 19, 0};

	*v = version[which];
	return OK;
}

static int
fake_create(void **handle)
{
	*handle = heap_alloc(sizeof(void *));
	return OK;
}

static int
fake_destroy(void *handle)
{
	void *stream;

	memcpy(&stream, handle, sizeof(stream));
	if (stream && !gpu_fake_is_stream(stream))
		bug("cuDNN's handle outlives the stream that it is bound to");
	free(handle);
	return OK;
}

static int
fake_stream(void *handle, void *stream)
{
	memcpy(handle, &stream, sizeof(stream));
	return OK;
}

/* ---- descriptors ----------------------------------------------------------------------------------- */
static size_t
size_of(int type)
{
	static const size_t sizes[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8};

	return type >= 0 && type < (int)COUNT_OF(sizes) ? sizes[type] : 1;
}

static int
fake_desc_new(int type, void **out)
{
	struct desc *d = heap_alloc(sizeof(*d));

	d->type = type;
	*out = d;
	return OK;
}

static int
fake_desc_free(void *desc)
{
	struct desc *d = desc;

	for (uint32_t i = 0; i < d->n; i++)
		free(d->attr[i].v);
	free(d);
	return OK;
}

static const struct field *
find(const struct desc *d, int name)
{
	for (uint32_t i = 0; i < d->n; i++)
		if (d->attr[i].name == name)
			return &d->attr[i];
	return NULL;
}

static int
fake_set(void *desc, int name, int type, int64_t n, const void *v)
{
	struct desc *d = desc;
	size_t bytes = (size_t)n * size_of(type);
	struct field *a = &d->attr[d->n];

	if (d->is_final || d->n == MAX_FIELDS || n < 0 || find(d, name))
		return BAD;
	*a = (struct field){name, type, n, heap_alloc(MAX_OF(bytes, (size_t)1))};
	memcpy(a->v, v, bytes);
	for (int64_t i = 0; type == T_DESC && i < n; i++)
		if (!((struct desc **)a->v)[i]->is_final)
			return NOT_FINALIZED;
	d->n++;
	return OK;
}

static struct desc *
part(const struct desc *d, int name, int64_t i)
{
	const struct field *a = find(d, name);

	return a && i < a->n ? ((struct desc **)a->v)[i] : NULL;
}

static int64_t
number(const struct desc *d, int name, int64_t otherwise)
{
	const struct field *a = find(d, name);
	int64_t v = otherwise;

	if (a && size_of(a->type) == 8)
		memcpy(&v, a->v, sizeof(v));
	else if (a && size_of(a->type) == 4) {
		int small;

		memcpy(&small, a->v, sizeof(small));
		v = small;
	}
	return v;
}

static double
real(const struct desc *d, int name, double otherwise)
{
	const struct field *a = find(d, name);
	double v = otherwise;

	if (a)
		memcpy(&v, a->v, sizeof(v));
	return v;
}

/* ---- engines ---------------------------------------------------------------------------------------- */
/* Engine i has tile i; its number is 10 i.  The last one rounds: it uses tensor cores. */
static size_t
workspace_of(int64_t engine)
{
	return MAX_OF((size_t)engine << 10, (size_t)conf.work_bytes);
}

static int
fake_end(void *desc)
{
	struct desc *d = desc;
	int64_t index = number(d, ENGINE_INDEX, 0);

	if (d->is_final)
		return BAD;
	if (d->type == ENGINE && (!part(d, ENGINE_GRAPH, 0) || index % 10 || index >= 10 * FAKE_ALGOS))
		return UNSUPPORTED;
	if (d->type == CONFIG &&
	    (!part(d, CONFIG_KNOBS, 0) || number(part(d, CONFIG_KNOBS, 0), CHOICE_TYPE, 0) != KNOB_TILE ||
		number(part(d, CONFIG_KNOBS, 0), CHOICE_VALUE, -1) !=
		    number(part(d, CONFIG_ENGINE, 0), ENGINE_INDEX, -2) / 10))
		return UNSUPPORTED;
	d->is_final = true;
	return conf.none && (d->type == CONFIG || d->type == 4) ? UNSUPPORTED : OK;
}

/* As cuDNN hands descriptors out: the caller's empty one becomes a copy. */
static void
copy_desc(struct desc *to, const struct desc *from)
{
	to->is_final = true;
	for (uint32_t i = 0; i < from->n; i++) {
		size_t bytes = (size_t)from->attr[i].n * size_of(from->attr[i].type);

		to->attr[to->n] = from->attr[i];
		to->attr[to->n].v = heap_alloc(MAX_OF(bytes, (size_t)1));
		memcpy(to->attr[to->n++].v, from->attr[i].v, bytes);
	}
}

/* Its engine and knob live as long as the process: cuDNN counts references, and this one does not. */
static void
make_config(const struct desc *graph, int64_t i, struct desc *out)
{
	static struct desc *kept[64];
	static uint32_t at;
	void *engine, *knob;
	const int64_t index = 10 * i;
	const int tile = KNOB_TILE;

	if (kept[at % 64]) {
		(void)fake_desc_free(part(kept[at % 64], CONFIG_ENGINE, 0));
		(void)fake_desc_free(part(kept[at % 64], CONFIG_KNOBS, 0));
		(void)fake_desc_free(kept[at % 64]);
	}
	(void)fake_desc_new(ENGINE, &engine);
	(void)fake_set(engine, ENGINE_GRAPH, T_DESC, 1, &graph);
	(void)fake_set(engine, ENGINE_INDEX, 3, 1, &index);
	(void)fake_desc_new(7, &knob);
	(void)fake_set(knob, CHOICE_TYPE, 9, 1, &tile);
	(void)fake_set(knob, CHOICE_VALUE, 3, 1, &i);
	((struct desc *)engine)->is_final = ((struct desc *)knob)->is_final = true;
	(void)fake_desc_new(CONFIG, (void **)&kept[at % 64]);
	(void)fake_set(kept[at % 64], CONFIG_ENGINE, T_DESC, 1, &engine);
	(void)fake_set(kept[at % 64], CONFIG_KNOBS, T_DESC, 1, &knob);
	copy_desc(out, kept[at++ % 64]);
}

static int
fake_get(void *desc, int name, int type, int64_t max, int64_t *n, void *v)
{
	const struct desc *d = desc;
	const struct field *a = find(d, name);
	int64_t bytes;

	if (name == HEUR_RESULTS) {
		*n = MIN_OF(max, (int64_t)FAKE_ALGOS);
		for (int64_t i = 0; i < *n; i++)
			make_config(part(d, HEUR_GRAPH, 0), i, ((struct desc **)v)[i]);
		return d->is_final ? OK : NOT_FINALIZED;
	}
	if (name == ENGINE_NOTES) {
		*n = number(d, ENGINE_INDEX, 0) == 10 * (FAKE_ALGOS - 1);
		memset(v, 0, (size_t)*n * sizeof(int));
		return OK;
	}
	if (name == PLAN_WORKSPACE) {
		bytes = (int64_t)workspace_of(
		    number(part(part(d, PLAN_CONFIG, 0), CONFIG_ENGINE, 0), ENGINE_INDEX, 0) / 10);
		memcpy(v, &bytes, sizeof(bytes));
		*n = 1;
		return d->is_final ? OK : NOT_FINALIZED;
	}
	if (!a || a->type != type)
		return BAD;
	*n = a->n;
	for (int64_t i = 0; i < MIN_OF(a->n, max) && type == T_DESC; i++)
		copy_desc(((struct desc **)v)[i], ((struct desc **)a->v)[i]);
	if (type != T_DESC)
		memcpy(v, a->v, (size_t)MIN_OF(a->n, max) * size_of(type));
	return OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */
struct view {
	int64_t dim[DIMS], stride[DIMS];
	float *p; /* NULL: virtual */
};
struct step {
	int mode;
	double low, high;
	bool is_pair;
	struct view other;
};
struct walk { /* one call, by itself */
	struct view x, w, y;
	int64_t lo[3], by[3], wide[3];
	int rank;
	struct step step[MAX_OPS];
	uint32_t n_steps;
	bool is_wrong;
};

static float *
pointer_of(const struct desc *pack, const struct desc *t)
{
	const struct field *ids = find(pack, PACK_IDS), *p = find(pack, PACK_POINTERS);
	int64_t id = number(t, TENSOR_ID, -1);

	for (int64_t i = 0; i < ids->n && !find(t, TENSOR_VIRTUAL); i++)
		if (((int64_t *)ids->v)[i] == id)
			return ((float **)p->v)[i];
	return NULL;
}

static void
read_i64(const struct desc *d, int name, int64_t *out, int max)
{
	const struct field *a = find(d, name);

	for (int64_t i = 0; a && i < MIN_OF(a->n, (int64_t)max); i++)
		out[i] = ((int64_t *)a->v)[i];
}

static struct view
tensor_of(const struct desc *pack, const struct desc *t)
{
	struct view out = {.p = pointer_of(pack, t)};

	read_i64(t, TENSOR_DIMS, out.dim, DIMS);
	read_i64(t, TENSOR_STRIDES, out.stride, DIMS);
	return out;
}

static double
finish(double v, const struct step *s)
{
	switch (s->mode) {
	case 100:
		return fmin(fmax(v, s->low), s->high);
	case 101:
		return tanh(v);
	case 102:
		return 1 / (1 + exp(-v));
	case 104:
		return 0.5 * v * (1 + erf(v * 0.7071067811865476));
	case 106:
		return v / (1 + exp(-v));
	case 107:
		return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
	default:
		return v;
	}
}

static int64_t
offset(const struct view *t, const int64_t *at, int rank)
{
	int64_t n = 0;

	for (int i = 0; i < rank; i++)
		n += (t->dim[i] == 1 ? 0 : at[i]) * t->stride[i];
	return n;
}

static bool
next(int64_t *at, const int64_t *dim, int n)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++at[i] < dim[i])
			return true;
		at[i] = 0;
	}
	return false;
}

static double
sum_at(const struct walk *w, const int64_t *at)
{
	int64_t k[DIMS] = {0}, x[DIMS] = {at[0]}, per = w->y.dim[1] / (w->x.dim[1] / w->w.dim[1]);
	double sum = 0;

	do { /* over w's channels and space */
		bool inside = true;

		x[1] = at[1] / per * w->w.dim[1] + k[0];
		for (int i = 2; i < w->rank; i++) {
			x[i] = at[i] * w->by[i - 2] - w->lo[i - 2] + k[i - 1] * w->wide[i - 2];
			inside = inside && x[i] >= 0 && x[i] < w->x.dim[i];
		}
		if (inside) {
			int64_t f[DIMS] = {at[1], k[0], k[1], k[2], k[3]};

			sum += (double)w->x.p[offset(&w->x, x, w->rank)] *
			    (double)w->w.p[offset(&w->w, f, w->rank)];
		}
	} while (next(k, &w->w.dim[1], w->rank - 1));
	return sum;
}

static int
run_walk(void *arg, bool spoilt)
{
	const struct walk *w = arg;
	const double off = w->is_wrong || spoilt ? 1 : 0;
	int64_t at[DIMS] = {0};

	do {
		double v = sum_at(w, at);

		for (uint32_t i = 0; i < w->n_steps; i++)
			v = w->step[i].is_pair
			    ? v + (double)w->step[i].other.p[offset(&w->step[i].other, at, w->rank)]
			    : finish(v, &w->step[i]);
		w->y.p[offset(&w->y, at, w->rank)] = (float)(v + off);
	} while (next(at, w->y.dim, w->rank));
	return 0;
}

/* The steps in the order of the graph's list, as it was made. */
static void
read_graph(const struct desc *graph, const struct desc *pack, struct walk *w)
{
	const struct field *ops = find(graph, GRAPH_OPS);
	const struct desc *conv = part(graph, GRAPH_OPS, 0), *how = part(conv, OPC_CONV, 0);

	w->x = tensor_of(pack, part(conv, OPC_X, 0));
	w->w = tensor_of(pack, part(conv, OPC_W, 0));
	w->y = tensor_of(pack, part(conv, OPC_Y, 0));
	w->rank = (int)find(part(conv, OPC_X, 0), TENSOR_DIMS)->n;
	read_i64(how, 105, w->lo, 3);
	read_i64(how, 103, w->by, 3);
	read_i64(how, 102, w->wide, 3);
	for (int64_t i = 1; i < ops->n && i < MAX_OPS; i++) {
		const struct desc *op = part(graph, GRAPH_OPS, i), *other = part(op, OPP_B, 0);
		struct step *s = &w->step[w->n_steps++];

		s->mode = (int)number(part(op, OPP_HOW, 0), 0, 0);
		s->low = real(part(op, OPP_HOW, 0), 3, 0);
		s->high = real(part(op, OPP_HOW, 0), 4, INFINITY);
		s->is_pair = other != NULL;
		if (other)
			s->other = tensor_of(pack, other);
		w->y = tensor_of(pack, part(op, OPP_Y, 0));
	}
}

static int
fake_execute(void *handle, void *plan, void *pack)
{
	const struct desc *engine = part(part(plan, PLAN_CONFIG, 0), CONFIG_ENGINE, 0), *p = pack;
	int64_t index = number(engine, ENGINE_INDEX, 0) / 10;
	uint64_t draw = mix64(conf.seed * 64 + 7 + (uint64_t)index) % 1000000;
	struct walk w = {.n_steps = 0};
	double n = 2;
	void *stream, *workspace;

	if (!((struct desc *)plan)->is_final || !p->is_final)
		return NOT_FINALIZED;
	memcpy(&stream, handle, sizeof(stream));
	if (!gpu_fake_is_stream(stream))
		return BAD;
	memcpy(&workspace, find(p, PACK_WORKSPACE)->v, sizeof(workspace));
	read_graph(part(engine, ENGINE_GRAPH, 0), p, &w);
	if (!w.x.p || !w.w.p || !w.y.p || (workspace_of(index) && !workspace) || (uintptr_t)workspace % 16)
		return BAD;
	if (draw < conf.fail)
		return FAILED;
	w.is_wrong = draw < conf.fail + conf.wrong;
	for (int i = 0; i < w.rank; i++)
		n *= (double)w.y.dim[i] * (i ? (double)w.w.dim[i] : 1);
	return gpu_fake_library(stream, run_walk, &w, sizeof(w), workspace, workspace_of(index),
		   (int64_t)(n / (conf.fast ? 1000 : 100) *
		       (1 + 0.1 * (double)(mix64((uint64_t)index + conf.seed) % 10))))
	    ? FAILED
	    : OK;
}

void
gpu_fake_dnn(const struct fake_lib_conf *c, struct gpu_dnn *out)
{
	conf = *c;
	*out = (struct gpu_dnn){.property = fake_property,
	    .create = fake_create,
	    .destroy = fake_destroy,
	    .stream = fake_stream,
	    .desc_new = fake_desc_new,
	    .desc_free = fake_desc_free,
	    .desc_end = fake_end,
	    .set = fake_set,
	    .get = fake_get,
	    .run = fake_execute};
}
