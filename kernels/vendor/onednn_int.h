/* kernels/vendor/onednn_int.h: what differs between the C interfaces of oneDNN 2.6 and 3.x, and what the
 * files of onednn*.c share. */
#ifndef KORCH_ONEDNN_INT_H
#define KORCH_ONEDNN_INT_H

#include "../base/isa.h"

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A description of memory: a struct in 2.x, a handle in 3.x. */
struct md {
	dnnl_memory_desc_t d;
	bool is_set;
};
#if DNNL_VERSION_MAJOR >= 3
#define MD_REF(m) ((m)->d)
typedef const_dnnl_memory_desc_t md_const;
#else
#define MD_REF(m) (&(m)->d)
typedef const dnnl_memory_desc_t *md_const;
#endif
bool md_strided(struct md *m, int rank, const dnnl_dim_t *dim, const dnnl_dim_t *stride);
/* In whatever form the primitive likes. */
bool md_any(struct md *m, int rank, const dnnl_dim_t *dim);
bool md_copy(struct md *m, md_const from);
void md_drop(struct md *m);
/* NULL: no tensor. */
md_const md_or_none(const struct md *m);
bool md_same(const struct md *a, const struct md *b);
size_t md_bytes(const struct md *m);

/* ---- onednn_kept.c: constants in a primitive's form, one copy for all launches that read the same bytes
 * ---- */
struct kept_store;
struct kept { /* of one constant, in one form */
	struct kept *next;
	const void *from;
	struct md ours, its;
	uint32_t n_users;
	size_t n_bytes;
	void *data;
};
void *kept_store_new(void);        /* the library's own, as cpu_library.h has it */
void kept_store_free(void *store); /* nothing is kept any more */
size_t kept_store_bytes(void *store);
/* Held while constants are looked up and made. */
void kept_store_hold(struct kept_store *s, bool take);
/* One that is there already, for one more user; NULL: there is none. */
struct kept *kept_find(struct kept_store *s, const void *from, const struct md *ours, const struct md *its);
/* A new one, for one user, whose data is to be written; NULL: no memory. */
struct kept *kept_add(struct kept_store *s, const void *from, const struct md *ours, const struct md *its);
void kept_drop(struct kept_store *s, struct kept *k); /* by one user; NULL is allowed */

/* ---- onednn_omp.c ---- */
/* OpenMP's runtime is the one that oneDNN was linked with, whatever it is. */
struct omp {
	int (*get)(void);
	void (*set)(int n);
};
struct omp omp_find(void);
int omp_alone(struct omp o); /* gives what omp_not_alone() wants */
void omp_not_alone(struct omp o, int before);

/* ---- onednn_form.c ---- */
enum { FORM_DIMS = 12 };
struct form {
	int rank;
	dnnl_dim_t dim[FORM_DIMS], stride[FORM_DIMS];
};
struct call_view;
struct library_call;
/* A repeated dimension has extent 1. */
struct form form_plain(const struct call_view *v);
struct form form_of_result(const struct call_view *v, const struct library_call *c);
/* [spatial..., C/group, Co] as [group,] Co/group, C/group, spatial. */
struct form form_of_filter(const struct call_view *v, int64_t group);
/* A row of channels, alone. */
struct form form_of_row(const struct call_view *v, const struct library_call *c);
bool form_is_full(const struct call_view *v);

/* ---- onednn_api.c ---- */
struct conv_form {
	const dnnl_dim_t *stride, *dilation, *lo, *hi; /* dilation: 0 is none */
};
bool pd_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src, const struct md *weights,
    const struct md *bias, const struct md *dst, const struct conv_form *f, dnnl_primitive_attr_t attr);
bool pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *src,
    const struct md *weights, const struct md *bias, const struct md *dst, dnnl_primitive_attr_t attr);
bool pd_reorder(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const struct md *from, const struct md *to,
    dnnl_primitive_attr_t attr);
bool post_eltwise(dnnl_post_ops_t to, dnnl_alg_kind_t alg, double alpha, double beta);
bool post_binary(dnnl_post_ops_t to, dnnl_alg_kind_t alg, const struct md *m);
void onednn_hold(enum isa to); /* as cpu_library.h has it */

#endif
