/* kernels/vendor/cudnn_graph.c: a convolution and the steps behind it as a graph of cuDNN's backend:
 * tensors, operations, the graph, each made, filled and finished in this order.  What lies between two
 * steps is a virtual tensor: it never reaches memory. */
#include "cudnn_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const int64_t real_id = 100, virtual_id = 1000;

bool
dnn_good(int status, const char *what, struct err *e)
{
	enum err_code code =
	    status / 1000 == DNN_NOT_SUPPORTED / 1000 || status / 1000 == 2 ? ERR_INFEASIBLE : ERR_LAUNCH;

	return status == 0 || err_set(e, code, "cuDNN: %s: its status is %d", what, status);
}

bool
dnn_new(struct dnn *d, int type, void **out, struct err *e)
{
	if (d->n_descs == DNN_MAX_DESCS)
		return err_set(e, ERR_LIMIT, "cuDNN: more than %d descriptors", DNN_MAX_DESCS);
	if (!dnn_good(d->g->dnn.desc_new(type, out), "a descriptor", e))
		return false;
	d->desc[d->n_descs++] = *out;
	return true;
}

bool
dnn_set(struct dnn *d, void *desc, int name, int type, int64_t n, const void *v, struct err *e)
{
	int status = d->g->dnn.set(desc, name, type, n, v);
	enum err_code code = status / 1000 == 3 || status / 1000 == 2 ? ERR_INFEASIBLE : ERR_LAUNCH;

	return status == 0 || err_set(e, code, "cuDNN: attribute %d: its status is %d", name, status);
}

bool
dnn_end(struct dnn *d, void *desc, const char *what, struct err *e)
{
	return dnn_good(d->g->dnn.desc_end(desc), what, e);
}

void
dnn_free(struct dnn *d)
{
	while (d->n_descs)
		(void)d->g->dnn.desc_free(d->desc[--d->n_descs]);
}

/* ---- tensors ------------------------------------------------------------------------------------- */
/* buf == UINT32_MAX: a virtual one. */
static bool
add_tensor(struct dnn *d, const struct vendor_tensor *t, uint32_t rank, void **out, struct err *e)
{
	const bool is_virtual = t->buf == UINT32_MAX;
	const int64_t align = VENDOR_ALIGN, id = (is_virtual ? virtual_id : real_id) + d->n_descs;
	const int type = DNN_FLOAT;

	if (!dnn_new(d, DNN_TENSOR, out, e) || !dnn_set(d, *out, DNN_TENSOR_TYPE, DNN_T_DATA, 1, &type, e) ||
	    !dnn_set(d, *out, DNN_TENSOR_DIMS, DNN_T_I64, rank, t->dim, e) ||
	    !dnn_set(d, *out, DNN_TENSOR_STRIDES, DNN_T_I64, rank, t->stride, e) ||
	    !dnn_set(d, *out, DNN_TENSOR_ID, DNN_T_I64, 1, &id, e) ||
	    !dnn_set(d, *out, DNN_TENSOR_ALIGN, DNN_T_I64, 1, &align, e) ||
	    (is_virtual && !dnn_set(d, *out, DNN_TENSOR_VIRTUAL, DNN_T_BOOL, 1, &is_virtual, e)))
		return false;
	if (!is_virtual) {
		d->id[d->n_real] = id;
		d->buf[d->n_real++] = t->buf;
	}
	return dnn_end(d, *out, "a tensor", e);
}

/* One value a channel: extent 1 everywhere else. */
static struct vendor_tensor
bias_of(const struct vendor_op *op, uint32_t buf)
{
	struct vendor_tensor t = {.buf = buf};

	for (uint32_t i = 0; i < op->rank; i++) {
		t.dim[i] = i == 1 ? op->d.dim[1] : 1;
		t.stride[i] = i == 1 ? 1 : op->d.dim[1];
	}
	return t;
}

/* The result of step i: the operation's own after the last one. */
static struct vendor_tensor
after(const struct vendor_op *op, uint32_t i)
{
	struct vendor_tensor t = op->d;

	if (i < op->n_posts)
		t.buf = UINT32_MAX;
	return t;
}

/* ---- operations ------------------------------------------------------------------------------------ */
static bool
add_conv(struct dnn *d, const struct vendor_op *op, void *y, void **out, struct err *e)
{
	const int type = DNN_FLOAT, mode = DNN_CROSS;
	const int64_t n = op->rank - 2;
	const float one = 1, zero = 0;
	void *conv, *x, *w;

	return add_tensor(d, &op->a, op->rank, &x, e) && add_tensor(d, &op->b, op->rank, &w, e) &&
	    dnn_new(d, DNN_CONV, &conv, e) && dnn_set(d, conv, DNN_CONV_TYPE, DNN_T_DATA, 1, &type, e) &&
	    dnn_set(d, conv, DNN_CONV_MODE, DNN_T_CONV_MODE, 1, &mode, e) &&
	    dnn_set(d, conv, DNN_CONV_DIMS, DNN_T_I64, 1, &n, e) &&
	    dnn_set(d, conv, DNN_CONV_LO, DNN_T_I64, n, op->lo, e) &&
	    dnn_set(d, conv, DNN_CONV_HI, DNN_T_I64, n, op->hi, e) &&
	    dnn_set(d, conv, DNN_CONV_STRIDE, DNN_T_I64, n, op->stride, e) &&
	    dnn_set(d, conv, DNN_CONV_DILATION, DNN_T_I64, n, op->dilation, e) &&
	    dnn_end(d, conv, "a convolution", e) && dnn_new(d, DNN_OP_CONV, out, e) &&
	    dnn_set(d, *out, DNN_OPC_CONV, DNN_T_DESC, 1, &conv, e) &&
	    dnn_set(d, *out, DNN_OPC_X, DNN_T_DESC, 1, &x, e) &&
	    dnn_set(d, *out, DNN_OPC_W, DNN_T_DESC, 1, &w, e) &&
	    dnn_set(d, *out, DNN_OPC_Y, DNN_T_DESC, 1, &y, e) &&
	    dnn_set(d, *out, DNN_OPC_ALPHA, DNN_T_FLOAT, 1, &one, e) &&
	    dnn_set(d, *out, DNN_OPC_BETA, DNN_T_FLOAT, 1, &zero, e) &&
	    dnn_end(d, *out, "the convolution's operation", e);
}

/* A rectifier between other bounds than zero and infinity. */
static bool
set_bounds(struct dnn *d, void *how, const struct vendor_op *op, uint32_t i, struct err *e)
{
	const double a = op->post[i].a, b = op->post[i].b, none = -DBL_MAX;

	if (op->post[i].what != VENDOR_CLIP)
		return true;
	return dnn_set(d, how, DNN_POINTWISE_LOW, DNN_T_DOUBLE, 1, isinf(a) ? &none : &a, e) &&
	    (isinf(b) || dnn_set(d, how, DNN_POINTWISE_HIGH, DNN_T_DOUBLE, 1, &b, e));
}

/* Step i of those behind it, from x to y. */
static bool
add_post(struct dnn *d, const struct vendor_op *op, uint32_t i, void *x, void *y, void **out, struct err *e)
{
	static const int modes[VENDOR_POSTS] = {[VENDOR_BIAS] = DNN_ADD,
	    [VENDOR_ADD] = DNN_ADD,
	    [VENDOR_RELU] = DNN_RELU,
	    [VENDOR_GELU] = DNN_GELU,
	    [VENDOR_GELU_TANH] = DNN_GELU_TANH,
	    [VENDOR_SIGMOID] = DNN_SIGMOID,
	    [VENDOR_TANH] = DNN_TANH,
	    [VENDOR_SWISH] = DNN_SWISH,
	    [VENDOR_CLIP] = DNN_RELU};
	enum vendor_post what = op->post[i].what;
	const bool is_pair = what == VENDOR_BIAS || what == VENDOR_ADD;
	const int type = DNN_FLOAT;
	struct vendor_tensor t = what == VENDOR_BIAS ? bias_of(op, op->post[i].buf) : op->d;
	void *how, *other = NULL;

	t.buf = op->post[i].buf;
	return (!is_pair || add_tensor(d, &t, op->rank, &other, e)) && dnn_new(d, DNN_POINTWISE, &how, e) &&
	    dnn_set(d, how, DNN_POINTWISE_MODE, DNN_T_POINTWISE, 1, &modes[what], e) &&
	    dnn_set(d, how, DNN_POINTWISE_PREC, DNN_T_DATA, 1, &type, e) && set_bounds(d, how, op, i, e) &&
	    dnn_end(d, how, "a step", e) && dnn_new(d, DNN_OP_POINTWISE, out, e) &&
	    dnn_set(d, *out, DNN_OPP_POINTWISE, DNN_T_DESC, 1, &how, e) &&
	    dnn_set(d, *out, DNN_OPP_X, DNN_T_DESC, 1, &x, e) &&
	    (!is_pair || dnn_set(d, *out, DNN_OPP_B, DNN_T_DESC, 1, &other, e)) &&
	    dnn_set(d, *out, DNN_OPP_Y, DNN_T_DESC, 1, &y, e) && dnn_end(d, *out, "a step's operation", e);
}

/* Of neighbouring sums the tensor comes before the bias: its engines for convolution, residual, bias and
 * activation know that order and no other (seen with 9.19). */
static struct vendor_op
in_its_order(const struct vendor_op *op)
{
	struct vendor_op o = *op;

	for (uint32_t i = 1; i < o.n_posts; i++)
		if (o.post[i].what == VENDOR_ADD && o.post[i - 1].what == VENDOR_BIAS) {
			o.post[i] = op->post[i - 1];
			o.post[i - 1] = op->post[i];
		}
	return o;
}

bool
dnn_graph(struct dnn *d, const struct vendor_op *theirs, struct err *e)
{
	const struct vendor_op ours = in_its_order(theirs), *op = &ours;
	void *ops[1 + VENDOR_MAX_POSTS], *x, *y;
	struct vendor_tensor t = after(op, 0);

	if (op->kind != VENDOR_CONV)
		return err_set(e, ERR_INFEASIBLE, "cuDNN: it is asked for convolutions only");
	if (!add_tensor(d, &t, op->rank, &x, e) || !add_conv(d, op, x, &ops[0], e))
		return false;
	for (uint32_t i = 0; i < op->n_posts; i++, x = y) {
		t = after(op, i + 1);
		if (!add_tensor(d, &t, op->rank, &y, e) || !add_post(d, op, i, x, y, &ops[i + 1], e))
			return false;
	}
	return dnn_new(d, DNN_GRAPH, &d->graph, e) &&
	    (!d->handle || dnn_set(d, d->graph, DNN_GRAPH_HANDLE, DNN_T_HANDLE, 1, &d->handle, e)) &&
	    dnn_set(d, d->graph, DNN_GRAPH_OPS, DNN_T_DESC, 1 + (int64_t)op->n_posts, ops, e) &&
	    dnn_end(d, d->graph, "the graph", e);
}

bool
dnn_device(struct dnn *d, const char *json, struct err *e)
{
	return dnn_new(d, DNN_DEVICE, &d->device, e) &&
	    dnn_set(d, d->device, DNN_DEVICE_JSON, DNN_T_CHAR, (int64_t)strlen(json) + 1, json, e) &&
	    dnn_end(d, d->device, "a device's properties", e);
}
