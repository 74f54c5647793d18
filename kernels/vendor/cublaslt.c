/* kernels/vendor/cublaslt.c: matrix products by cuBLASLt.
 *
 * Its matrices stand in columns, ours in rows: so it is asked for the transposed product, b' times a',
 * whose columns are our rows; a bias, one value a column of ours, is then one value a row of its, as it
 * wants it.  What is added to the product comes in as its matrix C. */
#include "vendor_int.h"

#include <stdlib.h>
#include <string.h>

enum { ALGO_WORDS = 8, MAX_FOUND = 64 };
struct found { /* cublasLtMatmulHeuristicResult_t */
	uint64_t algo[ALGO_WORDS];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};
struct call {
	struct vendor_op op;
	uint64_t algo[ALGO_WORDS];
	size_t workspace;
	uint32_t bias, add;     /* buffers; UINT32_MAX: none */
	void *desc, *a, *b, *d; /* theirs: a is our b */
};

static bool
good(int status, const char *what, struct err *e)
{
	static const struct {
		int status;
		enum err_code code;
		const char *words;
	} rows[] = {{LT_NOT_SUPPORTED, ERR_INFEASIBLE, "not supported"},
	    {LT_ARCH_MISMATCH, ERR_INFEASIBLE, "not for this GPU"},
	    {LT_INVALID, ERR_INFEASIBLE, "invalid value"}, {LT_NO_MEMORY, ERR_MEMORY, "out of memory"}};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].status == status)
			return err_set(e, rows[i].code, "cuBLASLt: %s: %s", what, rows[i].words);
	return status == 0 || err_set(e, ERR_LAUNCH, "cuBLASLt: %s: its status is %d", what, status);
}

static bool
lt_open_handle(const struct vendor_api *g, void **handle, struct err *e)
{
	return good(g->lt.create(handle), "a handle", e);
}

static void
lt_close_handle(const struct vendor_api *g, void *handle)
{
	(void)g->lt.destroy(handle);
}

static bool
lt_version(const struct vendor_api *g, uint32_t *v)
{
	int part[3];

	for (int i = 0; i < 3; i++)
		if (g->lt.property(i, &part[i]) != 0 || part[i] < 0 || part[i] > 99)
			return false;
	*v = (uint32_t)(part[0] * 10000 + part[1] * 100 + part[2]);
	return true;
}

/* ---- descriptors ----------------------------------------------------------------------------- */
/* Which of the two inner strides is 1; false where neither is.  *by_row: ours stands in rows. */
static bool
layout_of(const struct vendor_tensor *t, bool *by_row, int64_t *ld)
{
	*by_row = t->stride[2] == 1 || t->dim[2] == 1;
	*ld = *by_row ? t->stride[1] : t->stride[2];
	if (!*by_row && t->stride[1] != 1 && t->dim[1] != 1)
		return false;
	*ld = MAX_OF(*ld, *by_row ? t->dim[2] : t->dim[1]); /* a single row's stride is never walked */
	return true;
}

/* A matrix in rows is its transpose in columns. */
static bool
add_matrix(const struct vendor_api *g, const struct vendor_tensor *t, void **out, bool *by_row, struct err *e)
{
	int64_t ld, step = t->dim[0] > 1 ? t->stride[0] : 0;
	int batch = (int)t->dim[0];

	if (!layout_of(t, by_row, &ld))
		return err_set(
		    e, ERR_INFEASIBLE, "cuBLASLt: a matrix whose elements are not next to each other");
	return good(g->lt.matrix_new(out, LT_FLOAT, (uint64_t)(*by_row ? t->dim[2] : t->dim[1]),
			(uint64_t)(*by_row ? t->dim[1] : t->dim[2]), ld),
		   "a matrix", e) &&
	    good(g->lt.matrix_set(*out, LT_MATRIX_BATCH, &batch, sizeof(batch)), "a batch", e) &&
	    good(g->lt.matrix_set(*out, LT_MATRIX_STRIDE, &step, sizeof(step)), "a batch's stride", e);
}

/* The steps behind the product as one epilogue; only some orders are one. */
static bool
epilogue_of(struct call *c, uint32_t *out, struct err *e)
{
	static const uint32_t plain[VENDOR_POSTS] = {
	    [VENDOR_RELU] = LT_EPILOGUE_RELU, [VENDOR_GELU_TANH] = LT_EPILOGUE_GELU};
	static const uint32_t biased[VENDOR_POSTS] = {
	    [VENDOR_RELU] = LT_EPILOGUE_RELU_BIAS, [VENDOR_GELU_TANH] = LT_EPILOGUE_GELU_BIAS};

	*out = LT_EPILOGUE_NONE;
	c->bias = c->add = UINT32_MAX;
	for (uint32_t i = 0; i < c->op.n_posts; i++) {
		enum vendor_post p = c->op.post[i].what;
		uint32_t *place = p == VENDOR_BIAS ? &c->bias : &c->add;
		bool is_last = i + 1 == c->op.n_posts;

		if (p == VENDOR_BIAS || p == VENDOR_ADD) {
			if (*place != UINT32_MAX)
				return err_set(
				    e, ERR_INFEASIBLE, "cuBLASLt: it adds one bias and one matrix");
			*place = c->op.post[i].buf;
			*out = c->bias != UINT32_MAX ? LT_EPILOGUE_BIAS : LT_EPILOGUE_NONE;
		} else if (!is_last || !plain[p]) {
			return err_set(e, ERR_INFEASIBLE, "cuBLASLt: no epilogue for this chain of steps");
		} else {
			*out = c->bias != UINT32_MAX ? biased[p] : plain[p];
		}
	}
	return true;
}

static bool
describe(const struct vendor_api *g, struct call *c, struct err *e)
{
	static const int compute[VENDOR_MATHS] = {[VENDOR_F32] = LT_COMPUTE_PEDANTIC,
	    [VENDOR_TF32] = LT_COMPUTE_TF32,
	    [VENDOR_F16] = LT_COMPUTE_F16,
	    [VENDOR_BF16] = LT_COMPUTE_BF16};
	bool a_by_row, b_by_row, d_by_row;
	const void *aligned =
	    (const void *)(uintptr_t)VENDOR_ALIGN; /* what any bias will be: it picks algorithms by that */
	uint32_t epilogue;
	int trans[2];

	if (c->op.kind != VENDOR_MATMUL)
		return err_set(e, ERR_INFEASIBLE, "cuBLASLt: it knows matrix products only");
	if (!epilogue_of(c, &epilogue, e) ||
	    !good(g->lt.op_new(&c->desc, compute[c->op.math], LT_FLOAT), "an operation", e) ||
	    !add_matrix(g, &c->op.b, &c->a, &b_by_row, e) || !add_matrix(g, &c->op.a, &c->b, &a_by_row, e) ||
	    !add_matrix(g, &c->op.d, &c->d, &d_by_row, e))
		return false;
	if (!d_by_row)
		return err_set(e, ERR_INFEASIBLE, "cuBLASLt: a result in columns");
	trans[0] = b_by_row ? LT_AS_IS : LT_TRANSPOSED;
	trans[1] = a_by_row ? LT_AS_IS : LT_TRANSPOSED;
	return good(g->lt.op_set(c->desc, LT_OP_TRANS_A, &trans[0], sizeof(int)), "an operation", e) &&
	    good(g->lt.op_set(c->desc, LT_OP_TRANS_B, &trans[1], sizeof(int)), "an operation", e) &&
	    good(g->lt.op_set(c->desc, LT_OP_EPILOGUE, &epilogue, sizeof(epilogue)), "an epilogue", e) &&
	    (c->bias == UINT32_MAX ||
		good(g->lt.op_set(c->desc, LT_OP_BIAS, &aligned, sizeof(aligned)), "a bias", e));
}

static void
lt_close(const struct vendor_api *g, void *call)
{
	struct call *c = call;
	void *const matrices[] = {c->a, c->b, c->d};

	for (size_t i = 0; i < COUNT_OF(matrices); i++)
		if (matrices[i])
			(void)g->lt.matrix_free(matrices[i]);
	if (c->desc)
		(void)g->lt.op_free(c->desc);
	free(c);
}

static bool
new_call(const struct vendor_api *g, const struct vendor_op *op, struct call **out, struct err *e)
{
	struct call *c = heap_alloc(sizeof(*c));

	c->op = *op;
	if (describe(g, c, e)) {
		*out = c;
		return true;
	}
	lt_close(g, c);
	return false;
}

/* ---- algorithms -------------------------------------------------------------------------------- */
static bool
make_wish(const struct vendor_api *g, uint64_t max_workspace, void **wish, struct err *e)
{
	static const int aligns[] = {LT_WISH_ALIGN_A, LT_WISH_ALIGN_B, LT_WISH_ALIGN_C, LT_WISH_ALIGN_D};
	uint32_t align = VENDOR_ALIGN;
	bool ok = good(g->lt.wish_new(wish), "a preference", e) &&
	    good(g->lt.wish_set(*wish, LT_WISH_WORKSPACE, &max_workspace, sizeof(max_workspace)),
		"a preference", e);

	for (size_t i = 0; i < COUNT_OF(aligns) && ok; i++)
		ok = good(g->lt.wish_set(*wish, aligns[i], &align, sizeof(align)), "a preference", e);
	return ok;
}

static bool
lt_list(const struct vendor_api *g, void *handle, const struct vendor_op *op, uint64_t max_workspace,
    uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e)
{
	struct found *found = heap_alloc(MAX_FOUND * sizeof(*found));
	struct call *c = NULL;
	void *wish = NULL;
	int have = 0;
	bool ok = new_call(g, op, &c, e) && make_wish(g, max_workspace, &wish, e) &&
	    good(g->lt.list(handle, c->desc, c->a, c->b, c->d, c->d, wish,
		     (int)MIN_OF(max, (uint32_t)MAX_FOUND), found, &have),
		"its algorithms", e);

	*n = 0;
	for (int i = 0; ok && i < MIN_OF(have, (int)MAX_FOUND) && *n < max; i++) {
		if (found[i].state != 0 || found[i].workspace > max_workspace)
			continue;
		out[*n] = (struct vendor_choice){
		    .lib = LIBRARY_cublaslt, .workspace = found[i].workspace, .n_words = ALGO_WORDS};
		memcpy(out[(*n)++].word, found[i].algo, sizeof(found[i].algo));
	}
	if (wish)
		(void)g->lt.wish_free(wish);
	if (c)
		lt_close(g, c);
	free(found);
	return ok;
}

/* The algorithm is checked against the operation before it ever runs: it may come from a file. */
static bool
lt_open(const struct vendor_api *g, void *handle, const struct vendor_op *op,
    const struct vendor_choice *choice, void **call, struct err *e)
{
	struct found found = {.state = 0};
	struct call *c = NULL;
	bool ok;

	if (choice->n_words != ALGO_WORDS)
		return err_set(e, ERR_FORMAT, "cuBLASLt: an algorithm of %u words", choice->n_words);
	if (!new_call(g, op, &c, e))
		return false;
	memcpy(c->algo, choice->word, sizeof(c->algo));
	c->workspace = choice->workspace;
	ok = good(g->lt.check(handle, c->desc, c->a, c->b, c->d, c->d, c->algo, &found), "the algorithm", e);
	if (ok && found.workspace > choice->workspace)
		ok = err_set(e, ERR_FORMAT,
		    "cuBLASLt: the algorithm wants %zu bytes of workspace and was kept with %llu",
		    found.workspace, (unsigned long long)choice->workspace);
	if (!ok) {
		lt_close(g, c);
		return false;
	}
	*call = c;
	return true;
}

static bool
lt_run(const struct vendor_api *g, void *handle, void *call, void *const *buf, void *workspace, void *stream,
    struct err *e)
{
	struct call *c = call;
	const float alpha = c->op.scale == 0 ? 1 : (float)c->op.scale, beta = c->add != UINT32_MAX ? 1 : 0;
	void *d = buf[c->op.d.buf], *add = c->add != UINT32_MAX ? buf[c->add] : d;

	if (c->bias != UINT32_MAX &&
	    !good(g->lt.op_set(c->desc, LT_OP_BIAS, &buf[c->bias], sizeof(buf[c->bias])), "a bias", e))
		return false;
	return good(g->lt.run(handle, c->desc, &alpha, buf[c->op.b.buf], c->a, buf[c->op.a.buf], c->b, &beta,
			add, c->d, d, c->d, c->algo, workspace, c->workspace, stream),
	    "a matrix product", e);
}

const struct vendor_table vendor_cublaslt = {.open_handle = lt_open_handle,
    .close_handle = lt_close_handle,
    .version = lt_version,
    .list = lt_list,
    .open = lt_open,
    .run = lt_run,
    .close = lt_close};
