/* kernels/vendor/onednn_api.c: what is set for all of oneDNN, and the calls that have another form in 2.6
 * and 3.x. */
#include "onednn_int.h"

/* Once a call has been made oneDNN takes no other word on it: it was the same one then. */
void
onednn_hold(enum isa to)
{
	static const dnnl_cpu_isa_t set[ISA_COUNT] = {
	    [ISA_sse42] = dnnl_cpu_isa_sse41, [ISA_avx2] = dnnl_cpu_isa_avx2};

	if (set[to])
		(void)dnnl_set_max_cpu_isa(set[to]);
}

#if DNNL_VERSION_MAJOR >= 3
bool
md_strided(struct md *m, int rank, const dnnl_dim_t *dim, const dnnl_dim_t *stride)
{
	return m->is_set =
		   dnnl_memory_desc_create_with_strides(&m->d, rank, dim, dnnl_f32, stride) == dnnl_success;
}

bool
md_any(struct md *m, int rank, const dnnl_dim_t *dim)
{
	return m->is_set = dnnl_memory_desc_create_with_tag(
			       &m->d, rank, dim, dnnl_f32, dnnl_format_tag_any) == dnnl_success;
}

bool
md_copy(struct md *m, md_const from)
{
	return m->is_set = from && dnnl_memory_desc_clone(&m->d, from) == dnnl_success;
}

void
md_drop(struct md *m)
{
	if (m->is_set)
		(void)dnnl_memory_desc_destroy(m->d);
	m->is_set = false;
}

bool
pd_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src, const struct md *weights,
    const struct md *bias, const struct md *dst, const struct conv_form *f, dnnl_primitive_attr_t attr)
{
	return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_inference,
		   dnnl_convolution_auto, src->d, weights->d, md_or_none(bias), dst->d, f->stride,
		   f->dilation, f->lo, f->hi, attr) == dnnl_success;
}

bool
pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src, const struct md *weights,
    const struct md *bias, const struct md *dst, dnnl_primitive_attr_t attr)
{
	return dnnl_matmul_primitive_desc_create(
		   out, engine, src->d, weights->d, md_or_none(bias), dst->d, attr) == dnnl_success;
}

bool
post_eltwise(dnnl_post_ops_t to, dnnl_alg_kind_t alg, double alpha, double beta)
{
	return dnnl_post_ops_append_eltwise(to, alg, (float)alpha, (float)beta) == dnnl_success;
}
#else
bool
md_strided(struct md *m, int rank, const dnnl_dim_t *dim, const dnnl_dim_t *stride)
{
	return m->is_set =
		   dnnl_memory_desc_init_by_strides(&m->d, rank, dim, dnnl_f32, stride) == dnnl_success;
}

bool
md_any(struct md *m, int rank, const dnnl_dim_t *dim)
{
	return m->is_set = dnnl_memory_desc_init_by_tag(&m->d, rank, dim, dnnl_f32, dnnl_format_tag_any) ==
	    dnnl_success;
}

bool
md_copy(struct md *m, md_const from)
{
	if (from)
		m->d = *from;
	return m->is_set = from != NULL;
}

void
md_drop(struct md *m)
{
	m->is_set = false;
}

bool
pd_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src, const struct md *weights,
    const struct md *bias, const struct md *dst, const struct conv_form *f, dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t d;

	return dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference, dnnl_convolution_auto,
		   &src->d, &weights->d, md_or_none(bias), &dst->d, f->stride, f->dilation, f->lo,
		   f->hi) == dnnl_success &&
	    dnnl_primitive_desc_create(out, &d, attr, engine, NULL) == dnnl_success;
}

bool
pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src, const struct md *weights,
    const struct md *bias, const struct md *dst, dnnl_primitive_attr_t attr)
{
	dnnl_matmul_desc_t d;

	return dnnl_matmul_desc_init(&d, &src->d, &weights->d, md_or_none(bias), &dst->d) == dnnl_success &&
	    dnnl_primitive_desc_create(out, &d, attr, engine, NULL) == dnnl_success;
}

bool
post_eltwise(dnnl_post_ops_t to, dnnl_alg_kind_t alg, double alpha, double beta)
{
	return dnnl_post_ops_append_eltwise(to, 1, alg, (float)alpha, (float)beta) == dnnl_success;
}
#endif

md_const
md_or_none(const struct md *m)
{
	return m && m->is_set ? MD_REF(m) : NULL;
}

bool
md_same(const struct md *a, const struct md *b)
{
	return dnnl_memory_desc_equal(MD_REF(a), MD_REF(b)) != 0;
}

size_t
md_bytes(const struct md *m)
{
	return m->is_set ? dnnl_memory_desc_get_size(MD_REF(m)) : 0;
}

bool
pd_reorder(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *from, const struct md *to,
    dnnl_primitive_attr_t attr)
{
	return dnnl_reorder_primitive_desc_create(out, MD_REF(from), engine, MD_REF(to), engine, attr) ==
	    dnnl_success;
}

bool
post_binary(dnnl_post_ops_t to, dnnl_alg_kind_t alg, const struct md *m)
{
	return dnnl_post_ops_append_binary(to, alg, MD_REF(m)) == dnnl_success;
}
