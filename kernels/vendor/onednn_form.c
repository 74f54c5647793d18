/* kernels/vendor/onednn_form.c: how a tensor of a call lies in memory, in oneDNN's order of dimensions. */
#include "cpu_library.h"
#include "onednn_int.h"

/* Extents of one stand where a dense tensor would have them: forms are known by strides. */
static void
strides_of(const struct call_view *v, dnnl_dim_t *dim, dnnl_dim_t *stride)
{
	dnnl_dim_t most = 1;

	for (int i = v->shape.rank; i-- > 0;) {
		dim[i] = v->stride[i] == 0 ? 1 : v->shape.dim[i];
		stride[i] = v->stride[i];
		most = MAX_OF(most, dim[i] * MAX_OF(stride[i], (dnnl_dim_t)1));
	}
	for (int i = v->shape.rank; i-- > 0;)
		if (dim[i] == 1)
			stride[i] = i == 0 ? most : i + 1 == v->shape.rank ? 1 : dim[i + 1] * stride[i + 1];
}

/* [N, spatial..., C] as oneDNN counts it: N, C, spatial. */
static struct form
channels_second(const struct call_view *v)
{
	dnnl_dim_t dim[FORM_DIMS], stride[FORM_DIMS];
	struct form f = {.rank = v->shape.rank};

	strides_of(v, dim, stride);
	for (int i = 0; i < f.rank; i++) {
		int from = i == 0 ? 0 : i == 1 ? f.rank - 1 : i - 1;

		f.dim[i] = dim[from];
		f.stride[i] = stride[from];
	}
	return f;
}

/* [spatial..., C/group, Co] as [group,] Co/group, C/group, spatial. */
struct form
form_of_filter(const struct call_view *v, int64_t group)
{
	dnnl_dim_t dim[FORM_DIMS], stride[FORM_DIMS];
	int rank = v->shape.rank, at = 0;
	struct form f = {.rank = rank + (group > 1)};

	strides_of(v, dim, stride);
	dim[rank - 1] /= group;
	if (group > 1) {
		f.dim[at] = group;
		f.stride[at++] = dim[rank - 1] * stride[rank - 1];
	}
	for (int i = 0; i < rank; i++, at++) {
		int from = i == 0 ? rank - 1 : i == 1 ? rank - 2 : i - 2;

		f.dim[at] = dim[from];
		f.stride[at] = stride[from];
	}
	return f;
}

struct form
form_plain(const struct call_view *v)
{
	struct form f = {.rank = v->shape.rank};

	strides_of(v, f.dim, f.stride);
	return f;
}

/* A row of channels, alone. */
struct form
form_of_row(const struct call_view *v, const struct library_call *c)
{
	struct form f = {.rank = c->linear == CALL_conv ? 1 : v->shape.rank};

	for (int i = 0; i < f.rank; i++) {
		f.dim[i] = i + 1 == f.rank ? v->shape.dim[v->shape.rank - 1] : 1;
		f.stride[i] = i + 1 == f.rank ? 1 : v->shape.dim[v->shape.rank - 1];
	}
	return f;
}

struct form
form_of_result(const struct call_view *v, const struct library_call *c)
{
	return c->linear == CALL_conv ? channels_second(v) : form_plain(v);
}

bool
form_is_full(const struct call_view *v)
{
	for (int i = 0; i < v->shape.rank; i++)
		if (v->stride[i] == 0 && v->shape.dim[i] != 1)
			return false;
	return true;
}
