/* worker/gpu_fake/blaslt.c: cuBLASLt's part of the fake GPU: columns, transposes, epilogues and algorithms as
 * its manual has them, the product by three loops. */
#include "gpu_fake_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	OK = 0,
	INVALID = 7,
	FAILED = 13,
	UNSUPPORTED = 15,
	EPILOGUE_RELU = 2,
	EPILOGUE_BIAS = 4,
	EPILOGUE_GELU = 32,
	OP_TRANS_A = 3,
	OP_TRANS_B = 4,
	OP_EPILOGUE = 7,
	OP_BIAS = 8,
	MATRIX_BATCH = 5,
	MATRIX_STRIDE = 6,
	WISH_WORKSPACE = 1,
	MARK = 0x17a190
};
struct op {
	int trans[2];
	uint32_t epilogue;
	const float *bias;
};
struct matrix {
	int64_t rows, cols, ld, stride;
	int batch;
};
struct algo {
	uint64_t word[8]; /* MARK, number, a hash of both */
};
struct found {
	struct algo algo;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};
struct product { /* one call, by itself */
	struct op op;
	struct matrix a, b, c, d;
	const float *pa, *pb, *pc;
	float *pd, alpha, beta;
	bool is_wrong;
};
/* cuBLASLt has no handle for its settings. */
static struct fake_lib_conf conf;

static int
fake_property(int which, int *v)
{
	static const int version[] = {13, 1, 0};

	*v = version[which];
	return OK;
}

static int
fake_new(void **handle)
{
	*handle = heap_alloc(8);
	return OK;
}

static int
fake_free(void *p)
{
	free(p);
	return OK;
}

static int
fake_op_new(void **op, int compute, int scale)
{
	*op = heap_alloc(sizeof(struct op));
	((struct op *)*op)->epilogue = 1;
	return compute >= 68 && compute <= 77 && scale == 0 ? OK : INVALID;
}

static int
take(void *to, size_t want, const void *v, size_t n)
{
	if (n != want)
		return INVALID;
	memcpy(to, v, n);
	return OK;
}

static int
fake_op_set(void *desc, int which, const void *v, size_t n)
{
	struct op *o = desc;

	switch (which) {
	case OP_TRANS_A:
	case OP_TRANS_B:
		return take(&o->trans[which - OP_TRANS_A], sizeof(int), v, n);
	case OP_EPILOGUE:
		return take(&o->epilogue, sizeof(o->epilogue), v, n);
	case OP_BIAS:
		return take(&o->bias, sizeof(o->bias), v, n);
	default:
		return INVALID;
	}
}

static int
fake_matrix_new(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	struct matrix *m = heap_alloc(sizeof(*m));

	*m = (struct matrix){(int64_t)rows, (int64_t)cols, ld, 0, 1};
	*out = m;
	return type == 0 && ld >= (int64_t)rows ? OK : INVALID;
}

static int
fake_matrix_set(void *matrix, int which, const void *v, size_t n)
{
	struct matrix *m = matrix;

	return which == MATRIX_BATCH ? take(&m->batch, sizeof(m->batch), v, n)
	    : which == MATRIX_STRIDE ? take(&m->stride, sizeof(m->stride), v, n)
				     : INVALID;
}

static int
fake_wish_set(void *wish, int which, const void *v, size_t n)
{
	return which == WISH_WORKSPACE ? take(wish, 8, v, n) : n == sizeof(uint32_t) ? OK : INVALID;
}

/* ---- algorithms -------------------------------------------------------------------------------- */
static struct algo
algo_of(uint64_t number)
{
	return (struct algo){{MARK, number, mix64(MARK + number)}};
}

static size_t
workspace_of(uint64_t number)
{
	return MAX_OF((size_t)number << 16, (size_t)conf.work_bytes);
}

static bool
fits(const struct op *o, const struct matrix *a, const struct matrix *b, const struct matrix *c,
    const struct matrix *d)
{
	int64_t m = o->trans[0] ? a->cols : a->rows, k = o->trans[0] ? a->rows : a->cols;
	int64_t k2 = o->trans[1] ? b->cols : b->rows, n = o->trans[1] ? b->rows : b->cols;

	return m == d->rows && n == d->cols && k == k2 && a->batch == d->batch && b->batch == d->batch &&
	    c->rows == d->rows && c->cols == d->cols && c->batch == d->batch;
}

static int
fake_list(
    void *handle, void *op, void *a, void *b, void *c, void *d, void *wish, int max, void *found, int *n)
{
	struct found *f = found;
	uint64_t allowed;

	(void)handle;
	memcpy(&allowed, wish, sizeof(allowed));
	*n = 0;
	if (!fits(op, a, b, c, d))
		return INVALID;
	for (uint64_t i = 0; i < FAKE_ALGOS && *n < max && !conf.none; i++)
		if (workspace_of(i) <= allowed)
			f[(*n)++] = (struct found){.algo = algo_of(i), .workspace = workspace_of(i)};
	return *n ? OK : UNSUPPORTED;
}

static int
fake_check(void *handle, void *op, void *a, void *b, void *c, void *d, const void *algo, void *found)
{
	struct algo have, want;

	(void)handle;
	memcpy(&have, algo, sizeof(have));
	want = algo_of(have.word[1]);
	if (!fits(op, a, b, c, d) || have.word[1] >= FAKE_ALGOS || memcmp(&have, &want, sizeof(have)) != 0)
		return INVALID;
	if (conf.none)
		return UNSUPPORTED;
	*(struct found *)found = (struct found){.algo = have, .workspace = workspace_of(have.word[1])};
	return OK;
}

/* ---- the product --------------------------------------------------------------------------------- */
static double
element(const float *p, const struct matrix *m, int trans, int64_t batch, int64_t row, int64_t col)
{
	return (double)p[batch * m->stride + (trans ? col + row * m->ld : row + col * m->ld)];
}

static double
finish(const struct product *p, double v, int64_t row)
{
	uint32_t e = p->op.epilogue;

	v += e & EPILOGUE_BIAS ? (double)p->op.bias[row] : 0;
	if (e & EPILOGUE_RELU)
		v = fmax(v, 0);
	if (e & EPILOGUE_GELU)
		v = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
	return v;
}

static int
run_product(void *arg, bool spoilt)
{
	const struct product *p = arg;
	const double off = p->is_wrong || spoilt ? 1 : 0;
	int64_t depth = p->op.trans[0] ? p->a.rows : p->a.cols;

	for (int64_t z = 0; z < p->d.batch; z++)
		for (int64_t j = 0; j < p->d.cols; j++)
			for (int64_t i = 0; i < p->d.rows; i++) {
				double v = 0;

				for (int64_t k = 0; k < depth; k++)
					v += element(p->pa, &p->a, p->op.trans[0], z, i, k) *
					    element(p->pb, &p->b, p->op.trans[1], z, k, j);
				v *= (double)p->alpha;
				if (p->beta != 0)
					v += (double)p->beta * element(p->pc, &p->c, 0, z, i, j);
				p->pd[z * p->d.stride + i + j * p->d.ld] = (float)(finish(p, v, i) + off);
			}
	return 0;
}

static int
fake_execute(void *handle, void *op, const void *alpha, const void *a, void *a_is, const void *b, void *b_is,
    const void *beta, const void *c, void *c_is, void *d, void *d_is, const void *algo, void *workspace,
    size_t n, void *stream)
{
	struct product p = {.op = *(struct op *)op,
	    .a = *(struct matrix *)a_is,
	    .b = *(struct matrix *)b_is,
	    .c = *(struct matrix *)c_is,
	    .d = *(struct matrix *)d_is,
	    .pa = a,
	    .pb = b,
	    .pc = c,
	    .pd = d};
	struct found found;
	int status = fake_check(handle, op, a_is, b_is, c_is, d_is, algo, &found);
	uint64_t number = ((const struct algo *)algo)->word[1],
		 draw = mix64(conf.seed * 64 + number) % 1000000;
	size_t want;
	double flops = 2.0 * p.d.batch * (double)p.d.rows * (double)p.d.cols *
	    (double)(p.op.trans[0] ? p.a.rows : p.a.cols);

	if (status)
		return status;
	want = workspace_of(number);
	if (n < want || (want && !workspace) ||
	    ((uintptr_t)a | (uintptr_t)b | (uintptr_t)d | (uintptr_t)workspace) % 16)
		return INVALID;
	if (draw < conf.fail)
		return FAILED;
	p.is_wrong = draw < conf.fail + conf.wrong;
	memcpy(&p.alpha, alpha, sizeof(p.alpha));
	memcpy(&p.beta, beta, sizeof(p.beta));
	return gpu_fake_library(stream, run_product, &p, sizeof(p), workspace, want,
		   (int64_t)(flops / (conf.fast ? 1000 : 100) *
		       (1 + 0.1 * (double)(mix64(number + conf.seed) % 10))))
	    ? FAILED
	    : OK;
}

void
gpu_fake_lt(const struct fake_lib_conf *c, struct gpu_lt *out)
{
	conf = *c;
	*out = (struct gpu_lt){.property = fake_property,
	    .create = fake_new,
	    .destroy = fake_free,
	    .op_new = fake_op_new,
	    .op_free = fake_free,
	    .op_set = fake_op_set,
	    .matrix_new = fake_matrix_new,
	    .matrix_free = fake_free,
	    .matrix_set = fake_matrix_set,
	    .wish_new = fake_new,
	    .wish_free = fake_free,
	    .wish_set = fake_wish_set,
	    .list = fake_list,
	    .check = fake_check,
	    .run = fake_execute};
}
