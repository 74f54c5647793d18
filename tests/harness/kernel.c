/* tests/harness/kernel.c: see kernel.h. */
#include "kernel.h"

#include "../../kernels/interp/interp.h"
#include "../../kernels/device/dev.h"
#include "../../kernels/run/plan.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_BYTES = 256, GUARD_VALUE = 0x5a };

const struct target *
kernel_target(uint64_t turn)
{
	struct err e = {0};
	enum isa widest;

	if (turn % 4 == 3)
		return &target_sse42;
	return turn % 4 == 1 && dev_cpu_isa(&widest, &e) ? target_of_isa(widest) : &target_avx2;
}

bool
kernel_spec(struct arena *a, const char *text, struct spec *out, struct err *e)
{
	struct graph g;

	if (!graph_read(&g, a, str_of(text), e))
		return false;
	spec_of_graph(a, &g, out);
	return true;
}

/* The operands of a spec are the inputs of its graph, weights among them. */
static uint32_t
n_operands(const struct graph *g)
{
	return g->n_inputs;
}

/* Memory with a guard behind it, aligned as the runtime aligns places. */
static void *
guarded(struct arena *a, size_t n_bytes)
{
	char *p = arena_alloc(a, n_bytes + GUARD_BYTES + PLAN_ALIGN);

	p += (PLAN_ALIGN - (uintptr_t)p % PLAN_ALIGN) % PLAN_ALIGN;
	memset(p, GUARD_VALUE, n_bytes + GUARD_BYTES);
	return p;
}

static bool
guard_holds(const void *p, size_t n_bytes)
{
	const unsigned char *g = (const unsigned char *)p + n_bytes;

	for (int i = 0; i < GUARD_BYTES; i++)
		if (g[i] != GUARD_VALUE)
			return false;
	return true;
}

static size_t
tensor_bytes(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a test tensor without a size");
	return n;
}

/* Weights are as large as trained ones, so that sums stay near one: what rounding does to them is not
 * magnified by the layers behind. */
static double
scale_of(const struct tensor *t)
{
	int64_t n = shape_count(&t->shape), last = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;

	return t->role == ROLE_WEIGHT && t->shape.rank >= 2 && n / MAX_OF(last, (int64_t)1) >= 4
	    ? 1 / sqrt((double)n / (double)last)
	    : 1;
}

static void
fill(struct rng *r, const struct tensor *t, void *p)
{
	int64_t n = shape_count(&t->shape);
	double scale = scale_of(t);

	for (int64_t i = 0; i < n; i++)
		if (t->type == DT_f32)
			((float *)p)[i] = (float)(scale * rng_normal(r));
		else if (t->type == DT_f64)
			((double *)p)[i] = rng_normal(r);
		else
			memset((char *)p + (size_t)i * dtype_size(t->type), 0, dtype_size(t->type)),
			    ((uint8_t *)p)[(size_t)i * dtype_size(t->type)] = (uint8_t)rng_below(r, 2);
}

/* The form that the kernel wants operand i in; NULL: as it is. */
static const struct pack *
pack_of(const struct test_kernel *k, uint32_t i)
{
	for (uint32_t p = 0; p < k->code.desc.n_packs; p++)
		if (k->code.desc.packs[p].operand == i)
			return &k->code.desc.packs[p];
	return NULL;
}

/* What operand i looks like in the kernel's eyes. */
static void *
packed(struct arena *a, const struct test_kernel *k, uint32_t i)
{
	const struct pack *p = pack_of(k, i);
	const struct tensor *t = &k->spec.g.tensors[i];

	if (!p)
		return k->operand[i];
	void *m = guarded(a, pack_bytes(p, t->type));

	pack_apply(p, t, k->operand[i], m);
	return m;
}

bool
kernel_make(struct arena *a, const struct spec *s, struct str schedule, const struct target *t, uint32_t n,
    struct rng *r, struct test_kernel *out, struct err *e)
{
	uint32_t n_in = n_operands(&s->g);

	*out = (struct test_kernel){.spec = *s, .schedule = schedule};
	(void)snprintf(out->symbol, sizeof out->symbol, "k%u", n);
	if (!generate_kernel(a, s, schedule, t, out->symbol, &out->code, e))
		return false;
	out->operand = NEW_ARRAY(a, void *, n_in + 1);
	out->buf = NEW_ARRAY(a, void *, n_in + s->g.n_outputs);
	for (uint32_t i = 0; i < n_in; i++) {
		out->operand[i] = guarded(a, tensor_bytes(&s->g.tensors[i]));
		fill(r, &s->g.tensors[i], out->operand[i]);
		out->buf[i] = packed(a, out, i);
	}
	for (uint32_t i = 0; i < s->g.n_outputs; i++)
		out->buf[n_in + i] = guarded(a, tensor_bytes(graph_tensor(&s->g, s->g.outputs[i])));
	out->shared = guarded(a, out->code.desc.shared_bytes);
	out->local = guarded(a, out->code.desc.local_bytes);
	return true;
}

bool
kernel_make_beside(struct arena *a, const struct test_kernel *first, generator_fn *make,
    const struct target *t, uint32_t n, struct test_kernel *out, struct err *e)
{
	const uint32_t n_in = n_operands(&first->spec.g);
	const struct pack *old, *new;

	*out = *first;
	(void)snprintf(out->symbol, sizeof out->symbol, "k%u", n);
	if (!make(a, &first->spec, first->schedule, t, out->symbol, &out->code, e))
		return false;
	out->buf = arena_dup(a, first->buf, (n_in + first->spec.g.n_outputs) * sizeof *out->buf);
	for (uint32_t i = 0; i < n_in; i++) {
		old = pack_of(first, i);
		new = pack_of(out, i);
		if (!pack_same_form(old, new))
			out->buf[i] = packed(a, out, i);
		/* forms of other words and the same bytes: what one has read is in the other's cache too */
		if (kernel_buf_bytes(out, i) == kernel_buf_bytes(first, i) &&
		    memcmp(out->buf[i], first->buf[i], kernel_buf_bytes(out, i)) == 0)
			out->buf[i] = first->buf[i];
	}
	out->shared = guarded(a, out->code.desc.shared_bytes);
	out->local = guarded(a, out->code.desc.local_bytes);
	return true;
}

static void *
load(struct bytes so, struct err *e)
{
	char path[64];
	int fd = memfd_create("kernels", MFD_CLOEXEC);
	void *h = NULL;

	if (fd < 0 || write(fd, so.p, so.n) != (ssize_t)so.n) {
		(void)err_set(e, ERR_IO, "no memory file for %zu bytes", so.n);
	} else {
		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!h)
			(void)err_set(e, ERR_LAUNCH, "%s", dlerror());
	}
	/* The file stays open: the loader knows objects by name, and the next one must not get this
	 * number again. */
	return h;
}

/* The generator's, and after them those of `more`, between blanks. */
static const char *const *
flags_and(struct arena *a, const struct target *t, const char *more)
{
	const char *const *own = generate_c_flags(t);
	char *rest = arena_dup(a, more, strlen(more) + 1), *word;
	const char **all;
	size_t n = 0;

	while (own[n])
		n++;
	all = NEW_ARRAY(a, const char *, n + strlen(more) + 1);
	memcpy(all, own, n * sizeof(*all));
	while ((word = strtok_r(rest, " ", &rest)))
		all[n++] = word;
	return all;
}

static bool
build(struct arena *a, const struct test_kernel *k, uint32_t n, const struct target *t, const char *more,
    struct bytes *so, struct err *e)
{
	struct strbuf sb;
	struct compile_opts o = {.flags = flags_and(a, t, more)};

	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	for (uint32_t i = 0; i < n; i++)
		sb_add(&sb, k[i].code.text);
	return compile_c(a, sb_str(&sb), &o, so, e);
}

bool
kernel_builds(struct arena *a, const struct test_kernel *k, uint32_t n, const struct target *t, struct err *e)
{
	struct bytes so;

	return build(a, k, n, t, "", &so, e);
}

bool
kernel_compile(struct arena *a, struct test_kernel *k, uint32_t n, const struct target *t, struct err *e)
{
	return kernel_compile_with(a, k, n, t, "", e);
}

bool
kernel_compile_with(struct arena *a, struct test_kernel *k, uint32_t n, const struct target *t,
    const char *more, struct err *e)
{
	struct bytes so;
	void *h;

	if (!build(a, k, n, t, more, &so, e) || !(h = load(so, e)))
		return false;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t p = 0; p < k[i].code.desc.n_passes; p++) {
			void *f = dlsym(h, arena_printf(a, "%s_p%u", k[i].symbol, p));

			if (!f)
				return err_set(e, ERR_LAUNCH, "%s_p%u is not in the object", k[i].symbol, p);
			memcpy(&k[i].pass[p], &f, sizeof f);
		}
	return true;
}

void
kernel_run(const struct test_kernel *k, uint32_t parts)
{
	for (uint32_t p = 0; p < k->code.desc.n_passes; p++)
		for (uint32_t i = parts; i-- > 0;) {
			int64_t n = k->code.desc.range[p];
			int64_t lo = n * i / parts, hi = n * (i + 1) / parts;

			if (lo < hi)
				k->pass[p](k->buf, k->shared, k->local, lo, hi);
		}
}

size_t
kernel_buf_bytes(const struct test_kernel *k, uint32_t i)
{
	const struct graph *g = &k->spec.g;
	uint32_t n_in = n_operands(g);

	for (uint32_t p = 0; p < k->code.desc.n_packs; p++)
		if (k->code.desc.packs[p].operand == i)
			return pack_bytes(&k->code.desc.packs[p], g->tensors[i].type);
	return tensor_bytes(i < n_in ? &g->tensors[i] : graph_tensor(g, g->outputs[i - n_in]));
}

static bool
guards_hold(const struct test_kernel *k, struct err *e)
{
	const struct graph *g = &k->spec.g;
	uint32_t n_in = n_operands(g);

	for (uint32_t i = 0; i < n_in; i++)
		if (!guard_holds(k->operand[i], tensor_bytes(&g->tensors[i])))
			return err_set(e, ERR_WRONG, "%s: wrote behind operand %u", k->symbol, i);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (!guard_holds(k->buf[n_in + i], tensor_bytes(graph_tensor(g, g->outputs[i]))))
			return err_set(e, ERR_WRONG, "%s: wrote behind result %u", k->symbol, i);
	if (!guard_holds(k->shared, k->code.desc.shared_bytes) ||
	    !guard_holds(k->local, k->code.desc.local_bytes))
		return err_set(e, ERR_WRONG, "%s: wrote behind its scratch", k->symbol);
	return true;
}

/* The graph with the operands' values: weights hold them, inputs come beside. */
static const void **
interp_inputs(struct arena *a, const struct test_kernel *k, struct graph *g)
{
	const void **in = NEW_ARRAY(a, const void *, k->spec.g.n_inputs + 1);

	*g = k->spec.g;
	g->tensors = arena_dup(a, k->spec.g.tensors, g->n_tensors * sizeof *g->tensors);
	for (uint32_t i = 0; i < n_operands(g); i++)
		if (g->tensors[i].role == ROLE_WEIGHT)
			g->tensors[i].data = k->operand[i];
	for (uint32_t i = 0; i < g->n_inputs; i++)
		in[i] = k->operand[g->inputs[i].i];
	return in;
}

static double
value(const struct tensor *t, const void *p, int64_t i)
{
	return elem_get(t->type, p, i);
}

/* Both NaN or the same infinity count as equal. */
static double
difference(double want, double have)
{
	if (isnan(want) || isnan(have))
		return isnan(want) && isnan(have) ? 0 : INFINITY;
	return want == have ? 0 : fabs(want - have);
}

bool
kernel_check(struct arena *a, const struct test_kernel *k, uint32_t parts, double rel, struct err *e)
{
	kernel_spoil(k);
	kernel_run(k, parts);
	return guards_hold(k, e) && kernel_compare(a, k, rel, e);
}

/* The result's memory holds the operand's values first, so the operand itself stays whole for the
 * interpreter. */
bool
kernel_check_in_place(struct arena *a, const struct test_kernel *k, uint32_t parts, double rel, struct err *e)
{
	const uint32_t n_in = n_operands(&k->spec.g);

	for (uint32_t i = 0; i < k->code.desc.n_overlaps; i++) {
		const struct overlap o = k->code.desc.overlaps[i];
		struct test_kernel on = *k;

		on.buf = arena_dup(a, k->buf, (n_in + k->spec.g.n_outputs) * sizeof *on.buf);
		on.buf[o.operand] = k->buf[n_in + o.result];
		kernel_spoil(&on);
		memcpy(on.buf[o.operand], k->operand[o.operand], tensor_bytes(&k->spec.g.tensors[o.operand]));
		kernel_run(&on, parts);
		if (!guards_hold(&on, e) || !kernel_compare(a, &on, rel, e))
			return err_in(e, "result %u on operand %u", o.result, o.operand);
	}
	return true;
}

void
kernel_spoil(const struct test_kernel *k)
{
	const struct graph *g = &k->spec.g;

	for (uint32_t i = 0; i < g->n_outputs; i++)
		memset(k->buf[n_operands(g) + i], 0xff, tensor_bytes(graph_tensor(g, g->outputs[i])));
}

bool
kernel_compare(struct arena *a, const struct test_kernel *k, double rel, struct err *e)
{
	struct graph g;
	const void **in = interp_inputs(a, k, &g);
	uint32_t n_in = n_operands(&g);
	void **want = NEW_ARRAY(a, void *, g.n_outputs);

	if (!interp_run(a, &g, in, NULL, want, e))
		return false;
	for (uint32_t i = 0; i < g.n_outputs; i++) {
		const struct tensor *t = graph_tensor(&g, g.outputs[i]);
		double top = 1e-6, worst = 0;
		int64_t at = 0;

		for (int64_t j = 0; j < shape_count(&t->shape); j++) {
			double w = value(t, want[i], j), d = difference(w, value(t, k->buf[n_in + i], j));

			if (isfinite(w) && fabs(w) > top)
				top = fabs(w);
			if (d > worst)
				worst = d, at = j;
		}
		if (worst > rel * top)
			return err_set(e, ERR_WRONG, "%s: result %u element %lld: want %g, have %g",
			    k->symbol, i, (long long)at, value(t, want[i], at),
			    value(t, k->buf[n_in + i], at));
	}
	return true;
}

bool
kernel_check_sampled(struct arena *a, const struct test_kernel *k, uint32_t n, double rel, struct err *e)
{
	struct graph g;
	const void **in = interp_inputs(a, k, &g);
	uint32_t n_in = n_operands(&g);
	struct rng r = {n};

	kernel_run(k, 1);
	if (!guards_hold(k, e))
		return false;
	for (uint32_t i = 0; i < g.n_outputs; i++) {
		const struct tensor *t = graph_tensor(&g, g.outputs[i]);
		int64_t count = shape_count(&t->shape), *at = NEW_ARRAY(a, int64_t, n);
		double *want = NEW_ARRAY(a, double, n), top = 1e-6;

		for (uint32_t j = 0; j < n; j++)
			at[j] = j == 0 ? 0 : j == 1 ? count - 1 : (int64_t)(rng_next(&r) % (uint64_t)count);
		if (!interp_sample(a, &g, in, g.outputs[i], at, n, 50000000, NULL, want, e))
			return false;
		for (uint32_t j = 0; j < n; j++)
			top = MAX_OF(top, fabs(want[j]));
		for (uint32_t j = 0; j < n; j++)
			if (difference(want[j], value(t, k->buf[n_in + i], at[j])) > rel * top)
				return err_set(e, ERR_WRONG, "%s: result %u element %lld: want %g, have %g",
				    k->symbol, i, (long long)at[j], want[j],
				    value(t, k->buf[n_in + i], at[j]));
	}
	return true;
}
