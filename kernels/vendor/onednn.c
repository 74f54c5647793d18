/* kernels/vendor/onednn.c: a call of a library as a primitive of oneDNN, on the caller's thread.
 *
 * Every tensor of the call is a *port*: how it lies in our memory, how the primitive wants it, and where
 * these differ a reorder.  Reorders of constants run once, in prepare(); all others in run(), whose time they
 * are. algo 0: activations stay as they lie; 1: the primitive chooses the form of all.  Constants are always
 * in the form that it likes. */
#include "cpu_library.h"
#include "onednn_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = CALL_MAX_STEPS + 4, MAX_ARGS = MAX_PORTS + 1 };

struct port {
	const struct call_view *view;
	int arg; /* of the primitive */
	struct md ours, its;
	dnnl_memory_t mine, inner; /* inner: mine's, or where a reorder leads */
	void *mine_at, *inner_at;
	dnnl_primitive_t reorder; /* NULL: the same form */
	size_t at;                /* of inner: in scratch */
	bool is_constant;
};
struct onednn {
	const struct library_call *call;
	struct omp omp;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_attr_t attr, plain; /* plain: of reorders */
	dnnl_primitive_desc_t pd;
	dnnl_primitive_t primitive;
	struct port port[MAX_PORTS];
	uint32_t n_ports;
	dnnl_exec_arg_t arg[MAX_ARGS];
	int n_args;
	size_t scratch; /* bytes */
	size_t pad;     /* of them: the primitives' own scratch, at 0 */
	dnnl_memory_t pad_memory;
	void *pad_at;
};

static bool
refused(struct err *e, const char *what)
{
	return err_set(e, ERR_INFEASIBLE, "library: oneDNN has no %s", what);
}

/* ---- ports -------------------------------------------------------------------------------------- */
/* want: the form that the primitive is to take; NULL: whichever it likes. */
static struct port *
port_add(struct onednn *o, const struct call_view *v, int arg, const struct form *f, const struct form *want,
    struct err *e)
{
	struct port *p = &o->port[o->n_ports];

	*p = (struct port){
	    .view = v, .arg = arg, .is_constant = v->source == SOURCE_WEIGHT || v->source == SOURCE_CONST};
	if (v->type != DT_f32) {
		(void)refused(e, "call of this type");
		return NULL;
	}
	o->n_ports++;
	if (!md_strided(&p->ours, f->rank, f->dim, f->stride) ||
	    !(want ? md_strided(&p->its, want->rank, want->dim, want->stride)
		   : md_any(&p->its, f->rank, f->dim))) {
		(void)refused(e, "form for such strides");
		return NULL;
	}
	return p;
}

static const struct {
	enum step_kind kind;
	dnnl_alg_kind_t alg;
	bool has_params;
	double alpha, beta;
} eltwise[] = {{STEP_affine, dnnl_eltwise_linear, true, 0, 0}, {STEP_clip, dnnl_eltwise_clip, true, 0, 0},
    {STEP_leaky, dnnl_eltwise_relu, true, 0, 0}, {STEP_relu, dnnl_eltwise_relu, false, 0, 0},
    {STEP_tanh, dnnl_eltwise_tanh, false, 0, 0}, {STEP_sigmoid, dnnl_eltwise_logistic, false, 0, 0},
    {STEP_exp, dnnl_eltwise_exp, false, 0, 0}, {STEP_log, dnnl_eltwise_log, false, 0, 0},
    {STEP_abs, dnnl_eltwise_abs, false, 0, 0}, {STEP_sqrt, dnnl_eltwise_sqrt, false, 0, 0},
    {STEP_softplus, dnnl_eltwise_soft_relu, false, 1, 0}, {STEP_silu, dnnl_eltwise_swish, false, 1, 0},
    {STEP_gelu_erf, dnnl_eltwise_gelu_erf, false, 0, 0},
    {STEP_gelu_tanh, dnnl_eltwise_gelu_tanh, false, 0, 0}, {STEP_mish, dnnl_eltwise_mish, false, 0, 0},
    {STEP_hardswish, dnnl_eltwise_hardswish, false, 1.0 / 6, 0.5}},
  binary[] = {{STEP_add, dnnl_binary_add, false, 0, 0}, {STEP_sub, dnnl_binary_sub, false, 0, 0},
      {STEP_mul, dnnl_binary_mul, false, 0, 0}, {STEP_div, dnnl_binary_div, false, 0, 0},
      {STEP_min, dnnl_binary_min, false, 0, 0}, {STEP_max, dnnl_binary_max, false, 0, 0}};

static bool
add_post(struct onednn *o, dnnl_post_ops_t post, const struct call_step *s, bool free_form, struct err *e)
{
	int arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(dnnl_post_ops_len(post)) | DNNL_ARG_SRC_1;
	struct form f, to;
	struct port *p;

	for (size_t i = 0; i < COUNT_OF(eltwise); i++)
		if (eltwise[i].kind == s->kind)
			return post_eltwise(post, eltwise[i].alg,
				   eltwise[i].has_params ? s->a : eltwise[i].alpha,
				   eltwise[i].has_params ? s->b : eltwise[i].beta) ||
			    refused(e, "such step");
	for (size_t i = 0; i < COUNT_OF(binary); i++) {
		if (binary[i].kind != s->kind)
			continue;
		/* Element by element it is read as the result lies, whatever its own form says. */
		f = form_of_result(&s->operand, o->call);
		to = form_of_result(&o->call->result, o->call);
		p = port_add(o, &s->operand, arg, &f,
		    !form_is_full(&s->operand) ? &f
			: free_form            ? NULL
					       : &to,
		    e);
		return p && (post_binary(post, binary[i].alg, &p->its) || refused(e, "such step"));
	}
	return refused(e, "such step");
}

/* The first step, where it adds the same row everywhere. */
static bool
has_bias(const struct library_call *c)
{
	return c->n_steps && c->step[0].kind == STEP_add && view_is_row(&c->step[0].operand);
}

static bool
list_ports(struct onednn *o, bool free_form, struct port **bias, struct err *e)
{
	const struct library_call *c = o->call;
	struct form a = form_of_result(&c->a, c),
		    b = c->linear == CALL_conv ? form_of_filter(&c->b, c->group) : form_plain(&c->b);
	struct form to = form_of_result(&c->result, c), row;
	bool b_is_constant = c->b.source == SOURCE_WEIGHT || c->b.source == SOURCE_CONST;
	dnnl_post_ops_t post;
	bool ok;

	*bias = NULL;
	if (a.rank > DNNL_MAX_NDIMS || b.rank > DNNL_MAX_NDIMS ||
	    (c->linear == CALL_conv && (c->n_spatial < 1 || c->n_spatial > 3)))
		return refused(e, "call of so many dimensions");
	if (!port_add(o, &c->a, DNNL_ARG_SRC, &a, free_form ? NULL : &a, e) ||
	    !port_add(o, &c->b, DNNL_ARG_WEIGHTS, &b, free_form || b_is_constant ? NULL : &b, e) ||
	    !port_add(o, &c->result, DNNL_ARG_DST, &to, free_form ? NULL : &to, e))
		return false;
	if (has_bias(c)) {
		row = form_of_row(&c->step[0].operand, c);
		*bias = port_add(o, &c->step[0].operand, DNNL_ARG_BIAS, &row, &row, e);
		if (!*bias)
			return false;
	}
	if (dnnl_post_ops_create(&post) != dnnl_success)
		return err_set(e, ERR_MEMORY, "oneDNN has no memory for a list of steps");
	ok = true;
	for (uint32_t i = *bias ? 1 : 0; ok && i < c->n_steps; i++)
		ok = add_post(o, post, &c->step[i], free_form, e);
	if (ok && dnnl_primitive_attr_set_post_ops(o->attr, post) != dnnl_success)
		ok = refused(e, "such steps");
	(void)dnnl_post_ops_destroy(post);
	return ok;
}

/* oneDNN 2.6.3 accepts these and computes something else (tests/prop/library_test.c finds them in
 * seconds; 3.2 does not): two elementwise steps of one kind with other numbers, and in convolutions by way of
 * gemm operands that differ along more than the channels. */
static bool
is_miscomputed(const struct library_call *c, const char *how)
{
	if (DNNL_VERSION_MAJOR >= 3)
		return false;
	for (uint32_t i = 0; i < c->n_steps; i++) {
		const struct call_step *s = &c->step[i];

		for (uint32_t j = 0; j < i; j++)
			if (c->step[j].kind == s->kind && !s->operand.shape.rank &&
			    (c->step[j].a != s->a || c->step[j].b != s->b))
				return true;
		if (c->linear == CALL_conv && strstr(how, "gemm") && s->operand.shape.rank &&
		    !view_is_row(&s->operand))
			return true;
	}
	return false;
}

/* ---- the primitive ------------------------------------------------------------------------------ */
static bool
make_pd(struct onednn *o, const struct port *bias, struct err *e)
{
	const struct library_call *c = o->call;
	dnnl_dim_t dilation[MAX_RANK];
	struct conv_form f = {c->stride, dilation, c->lo, c->hi};
	const struct md *its_bias = bias ? &bias->its : NULL;
	const char *how = "";
	bool ok;

	for (int i = 0; i < c->n_spatial; i++)
		dilation[i] = c->dilation[i] - 1;
	ok = c->linear == CALL_conv ? pd_conv(&o->pd, o->engine, &o->port[0].its, &o->port[1].its, its_bias,
					  &o->port[2].its, &f, o->attr)
				    : pd_matmul(&o->pd, o->engine, &o->port[0].its, &o->port[1].its, its_bias,
					  &o->port[2].its, o->attr);
	if (!ok)
		return refused(e, "primitive for it");
	/* Its reference code is for tests of itself. */
	if (dnnl_primitive_desc_query(o->pd, dnnl_query_impl_info_str, 0, &how) == dnnl_success &&
	    strncmp(how, "ref", 3) == 0)
		return refused(e, "fast primitive for it");
	if (is_miscomputed(c, how))
		return refused(e, "right primitive for it in this version");
	return dnnl_primitive_create(&o->primitive, o->pd) == dnnl_success || refused(e, "code for it");
}

static size_t
aligned(size_t n)
{
	return ck_add(n, CPU_LIBRARY_ALIGN - 1) & ~(size_t)(CPU_LIBRARY_ALIGN - 1);
}

static void
want_pad(struct onednn *o, const_dnnl_primitive_desc_t pd)
{
	struct md pad = {.is_set = false};

	if (md_copy(&pad, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)))
		o->pad = MAX_OF(o->pad, aligned(md_bytes(&pad)));
	md_drop(&pad);
}

/* What the primitive chose; a reorder where that is not how the tensor lies. */
static bool
settle_port(struct onednn *o, struct port *p, struct err *e)
{
	bool out = p->arg == DNNL_ARG_DST, ok = true;
	dnnl_primitive_desc_t pd;

	md_drop(&p->its);
	if (!md_copy(&p->its, dnnl_primitive_desc_query_md(o->pd, dnnl_query_exec_arg_md, p->arg)))
		return refused(e, "form of an operand");
	if (!md_same(&p->ours, &p->its)) {
		if (!pd_reorder(&pd, o->engine, out ? &p->its : &p->ours, out ? &p->ours : &p->its, o->plain))
			return refused(e, "reorder of an operand");
		want_pad(o, pd);
		ok = dnnl_primitive_create(&p->reorder, pd) == dnnl_success;
		(void)dnnl_primitive_desc_destroy(pd);
	}
	ok = ok &&
	    dnnl_memory_create(&p->mine, MD_REF(&p->ours), o->engine, DNNL_MEMORY_NONE) == dnnl_success &&
	    dnnl_memory_create(&p->inner, MD_REF(&p->its), o->engine, DNNL_MEMORY_NONE) == dnnl_success;
	return ok || err_set(e, ERR_MEMORY, "oneDNN has no memory for a reorder");
}

static bool
is_kept(const struct port *p)
{
	return p->is_constant && p->reorder;
}

static bool
moves_activations(const struct onednn *o)
{
	for (uint32_t i = 0; i < o->n_ports; i++)
		if (o->port[i].reorder && !o->port[i].is_constant)
			return true;
	return false;
}

/* Scratch: the primitives' own, then what is reordered in each run. */
static bool
lay_out(struct onednn *o, struct err *e)
{
	struct md pad = {.is_set = false};
	dnnl_dim_t n, one = 1;

	want_pad(o, o->pd);
	o->scratch = o->pad;
	for (uint32_t i = 0; i < o->n_ports; i++) {
		struct port *p = &o->port[i];

		if (!p->reorder || p->is_constant)
			continue;
		p->at = o->scratch;
		o->scratch = ck_add(o->scratch, aligned(md_bytes(&p->its)));
	}
	n = (dnnl_dim_t)(o->pad / sizeof(float));
	if (n == 0)
		return true;
	if (!md_strided(&pad, 1, &n, &one) ||
	    dnnl_memory_create(&o->pad_memory, MD_REF(&pad), o->engine, DNNL_MEMORY_NONE) != dnnl_success) {
		md_drop(&pad);
		return err_set(e, ERR_MEMORY, "oneDNN has no memory for its scratch");
	}
	md_drop(&pad);
	return true;
}

static void
list_args(struct onednn *o)
{
	for (uint32_t i = 0; i < o->n_ports; i++)
		o->arg[o->n_args++] = (dnnl_exec_arg_t){o->port[i].arg, o->port[i].inner};
	if (o->pad_memory)
		o->arg[o->n_args++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, o->pad_memory};
}

static void
onednn_unbind(void *kernel)
{
	struct onednn *o = kernel;

	for (uint32_t i = 0; i < o->n_ports; i++) {
		struct port *p = &o->port[i];

		if (p->reorder)
			(void)dnnl_primitive_destroy(p->reorder);
		if (p->mine)
			(void)dnnl_memory_destroy(p->mine);
		if (p->inner)
			(void)dnnl_memory_destroy(p->inner);
		md_drop(&p->ours);
		md_drop(&p->its);
	}
	if (o->pad_memory)
		(void)dnnl_memory_destroy(o->pad_memory);
	if (o->primitive)
		(void)dnnl_primitive_destroy(o->primitive);
	if (o->pd)
		(void)dnnl_primitive_desc_destroy(o->pd);
	if (o->attr)
		(void)dnnl_primitive_attr_destroy(o->attr);
	if (o->plain)
		(void)dnnl_primitive_attr_destroy(o->plain);
	if (o->stream)
		(void)dnnl_stream_destroy(o->stream);
	if (o->engine)
		(void)dnnl_engine_destroy(o->engine);
	free(o);
}

static bool
open_engine(struct onednn *o, struct err *e)
{
	return (dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success &&
		   dnnl_stream_create(&o->stream, o->engine, dnnl_stream_in_order) == dnnl_success &&
		   dnnl_primitive_attr_create(&o->attr) == dnnl_success &&
		   dnnl_primitive_attr_create(&o->plain) == dnnl_success &&
		   dnnl_primitive_attr_set_scratchpad_mode(o->attr, dnnl_scratchpad_mode_user) ==
		       dnnl_success &&
		   dnnl_primitive_attr_set_scratchpad_mode(o->plain, dnnl_scratchpad_mode_user) ==
		       dnnl_success) ||
	    err_set(e, ERR_HOST, "oneDNN does not start on this CPU");
}

static bool
make(struct onednn *o, int64_t algo, struct err *e)
{
	struct port *bias;

	if (algo < 0 || algo > 1)
		return err_set(e, ERR_INFEASIBLE, "library: oneDNN has no algo=%lld", (long long)algo);
	if (!open_engine(o, e) || !list_ports(o, algo == 1, &bias, e) || !make_pd(o, bias, e))
		return false;
	for (uint32_t i = 0; i < o->n_ports; i++)
		if (!settle_port(o, &o->port[i], e))
			return false;
	if (algo == 1 && !moves_activations(o))
		return err_set(e, ERR_INFEASIBLE, "library: oneDNN likes the tensors as they lie: algo=0");
	if (!lay_out(o, e))
		return false;
	list_args(o);
	return true;
}

static bool
onednn_bind(const struct library_call *c, int64_t algo, void **out, size_t *scratch, struct err *e)
{
	struct onednn *o = heap_alloc(sizeof(*o));
	int before;
	bool ok;

	o->call = c;
	o->omp = omp_find();
	before = omp_alone(o->omp);
	ok = make(o, algo, e);
	omp_not_alone(o->omp, before);
	if (!ok) {
		onednn_unbind(o);
		return false;
	}
	*out = o;
	*scratch = o->scratch;
	return true;
}

/* ---- running ------------------------------------------------------------------------------------ */
/* The library looks through memory when its address is set: only where it moved. */
static void
set_at(dnnl_memory_t m, void **now, void *p)
{
	if (*now != p)
		(void)dnnl_memory_set_data_handle(m, p);
	*now = p;
}

static void *
address(const struct onednn *o, const struct port *p, void *const *buf)
{
	union { /* operands are only read */
		const void *c;
		float *p;
	} u = {.c = p->view->source == SOURCE_CONST ? p->view->data
		: p->view->source == SOURCE_RESULT  ? buf[o->call->n_operands + o->call->result.number]
						    : buf[p->view->number]};

	return u.p ? u.p + p->view->offset : NULL;
}

static bool
reorder(struct onednn *o, const struct port *p, bool out)
{
	dnnl_exec_arg_t arg[3] = {{DNNL_ARG_FROM, out ? p->inner : p->mine},
	    {DNNL_ARG_TO, out ? p->mine : p->inner}, {DNNL_ARG_SCRATCHPAD, o->pad_memory}};

	return dnnl_primitive_execute(p->reorder, o->stream, o->pad_memory ? 3 : 2, arg) == dnnl_success;
}

/* A constant in the primitive's form, as it is kept already or made now; pad: for the reorder. */
static struct kept *
keep(struct onednn *o, struct kept_store *store, struct port *p, void *const *buf)
{
	const void *from = address(o, p, buf);
	struct kept *k = from ? kept_find(store, from, &p->ours, &p->its) : NULL;

	if (k || !from)
		return k;
	k = kept_add(store, from, &p->ours, &p->its);
	if (!k)
		return NULL;
	set_at(p->mine, &p->mine_at, address(o, p, buf));
	set_at(p->inner, &p->inner_at, k->data);
	if (reorder(o, p, false) && dnnl_stream_wait(o->stream) == dnnl_success)
		return k;
	kept_drop(store, k);
	return NULL;
}

static void
onednn_release(void *kernel, void *store, void *kept)
{
	const struct onednn *o = kernel;
	struct kept **list = kept;

	kept_store_hold(store, true);
	for (uint32_t i = 0; i < o->n_ports; i++)
		kept_drop(store, list[i]);
	kept_store_hold(store, false);
	free(list);
}

/* *kept: for each port a constant that is not as it lies; NULL where there is none. */
static bool
onednn_prepare(void *kernel, void *store, void *const *buf, void **kept, struct err *e)
{
	struct onednn *o = kernel;
	struct kept **list = heap_alloc(sizeof(struct kept *) * o->n_ports);
	char *pad = o->pad ? aligned_alloc(CPU_LIBRARY_ALIGN, o->pad) : NULL;
	int before = omp_alone(o->omp);
	bool ok = pad || !o->pad;

	if (ok && o->pad_memory)
		set_at(o->pad_memory, &o->pad_at, pad);
	kept_store_hold(store, true);
	for (uint32_t i = 0; ok && i < o->n_ports; i++)
		if (is_kept(&o->port[i]))
			ok = (list[i] = keep(o, store, &o->port[i], buf)) != NULL;
	kept_store_hold(store, false);
	omp_not_alone(o->omp, before);
	o->pad_at = NULL;
	free(pad);
	*kept = list;
	if (ok)
		return true;
	onednn_release(o, store, list);
	*kept = NULL;
	return err_set(e, ERR_MEMORY, "no memory for constants in oneDNN's form");
}

static bool
is_of(const struct port *p, uint32_t operand)
{
	return (p->view->source == SOURCE_INPUT || p->view->source == SOURCE_WEIGHT) &&
	    p->view->number == operand;
}

static bool
onednn_reads(void *kernel, uint32_t operand)
{
	const struct onednn *o = kernel;

	for (uint32_t i = 0; i < o->n_ports; i++)
		if (is_of(&o->port[i], operand) && !is_kept(&o->port[i]))
			return true;
	return false;
}

static bool
onednn_kept_at(void *kernel, void *kept, uint32_t operand, const void **at, size_t *n_bytes)
{
	const struct onednn *o = kernel;
	struct kept *const *list = kept;

	for (uint32_t i = 0; i < o->n_ports; i++) {
		if (!is_of(&o->port[i], operand) || !is_kept(&o->port[i]))
			continue;
		*at = list[i]->data;
		*n_bytes = list[i]->n_bytes;
		return true;
	}
	return false;
}

static void
onednn_run(void *kernel, void *const *buf, void *kept, char *scratch)
{
	struct onednn *o = kernel;
	struct kept *const *list = kept;
	int before = omp_alone(o->omp);
	bool ok = true;

	if (o->pad_memory)
		set_at(o->pad_memory, &o->pad_at, scratch);
	for (uint32_t i = 0; i < o->n_ports; i++) {
		struct port *p = &o->port[i];
		void *mine = address(o, p, buf);

		set_at(p->inner, &p->inner_at,
		    !p->reorder      ? mine
			: is_kept(p) ? list[i]->data
				     : scratch + p->at);
		if (!p->reorder || is_kept(p))
			continue;
		set_at(p->mine, &p->mine_at, mine);
		if (p->arg != DNNL_ARG_DST)
			ok = reorder(o, p, false) && ok;
	}
	ok = dnnl_primitive_execute(o->primitive, o->stream, o->n_args, o->arg) == dnnl_success && ok;
	if (o->port[2].reorder)
		ok = reorder(o, &o->port[2], true) && ok;
	ok = dnnl_stream_wait(o->stream) == dnnl_success && ok;
	omp_not_alone(o->omp, before);
	if (!ok)
		bug("oneDNN refused a call that it had accepted");
}

static int64_t
onednn_version(void)
{
	const dnnl_version_t *v = dnnl_version();

	return (int64_t)v->major * 10000 + v->minor * 100 + v->patch;
}

const struct cpu_library cpu_onednn = {.version = onednn_version,
    .hold = onednn_hold,
    .open = kept_store_new,
    .close = kept_store_free,
    .kept_bytes = kept_store_bytes,
    .bind = onednn_bind,
    .unbind = onednn_unbind,
    .prepare = onednn_prepare,
    .release = onednn_release,
    .reads = onednn_reads,
    .kept_at = onednn_kept_at,
    .run = onednn_run};
