/* Kernels of cuBLASLt and cuDNN on the fake GPU: each algorithm's result is the definition's; what is not
 * there, too old, too hungry or broken is said; bytes from outside are checked. */
#include "../../kernels/vendor/vendor.h"
#include "../../kernels/device/gpu_fake.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_BUFS = 5, MAX_ELEMENTS = 4096, LIST = 16 };
static const uint64_t plenty = 1 << 30;

struct rig {
	struct arena a;
	struct gpu g;
	struct dev d;
	void *buf[MAX_BUFS];
	float host[MAX_BUFS][MAX_ELEMENTS];
};

static void
rig_open(struct rig *r, const char *settings)
{
	struct err e = {0};

	memset(r, 0, sizeof(*r));
	if (!gpu_fake_open(str_of(settings), &r->g, &e) || !dev_cuda_open(&r->g, 0, &r->d, &e))
		fail_msg("%s", e.msg);
	for (uint32_t b = 0; b < MAX_BUFS; b++) {
		r->buf[b] = r->d.mem_new(r->d.self, sizeof(r->host[b]));
		for (uint32_t i = 0; i < MAX_ELEMENTS; i++)
			r->host[b][i] = (float)((int)((i * 7 + b * 5) % 17) - 8) / 8;
		r->d.put(r->d.self, r->buf[b], r->host[b], sizeof(r->host[b]));
	}
}

static void
rig_close(struct rig *r)
{
	for (uint32_t b = 0; b < MAX_BUFS; b++)
		r->d.mem_free(r->d.self, r->buf[b], sizeof(r->host[b]));
	r->d.close(r->d.self);
	gpu_close(&r->g);
	arena_fini(&r->a);
}

/* ---- what is right -------------------------------------------------------------------------------- */
static double
at(const struct rig *r, const struct vendor_tensor *t, const int64_t *i, uint32_t rank)
{
	int64_t n = 0;

	for (uint32_t k = 0; k < rank; k++)
		n += i[k] * t->stride[k];
	assert_in_range(n, 0, MAX_ELEMENTS - 1);
	return (double)r->host[t->buf][n];
}

static double
posts(const struct rig *r, const struct vendor_op *op, const int64_t *i, double v)
{
	for (uint32_t p = 0; p < op->n_posts; p++) {
		struct vendor_tensor t = op->d;
		uint32_t buf = op->post[p].buf;

		t.buf = buf;
		switch (op->post[p].what) {
		case VENDOR_BIAS:
			v += (double)r->host[buf][op->kind == VENDOR_CONV ? i[1] : i[2]];
			break;
		case VENDOR_ADD:
			v += at(r, &t, i, op->rank);
			break;
		case VENDOR_RELU:
			v = fmax(v, 0);
			break;
		case VENDOR_CLIP:
			v = fmin(fmax(v, op->post[p].a), op->post[p].b);
			break;
		case VENDOR_SWISH:
			v = v / (1 + exp(-v));
			break;
		case VENDOR_GELU_TANH:
			v = 0.5 * v *
			    (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
			break;
		default:
			fail_msg("a step without a definition here");
		}
	}
	return v;
}

static double
want_matmul(const struct rig *r, const struct vendor_op *op, const int64_t *i)
{
	double v = 0;

	for (int64_t k = 0; k < op->a.dim[2]; k++) {
		const int64_t ia[] = {i[0], i[1], k}, ib[] = {i[0], k, i[2]};

		v += at(r, &op->a, ia, 3) * at(r, &op->b, ib, 3);
	}
	return op->scale == 0 ? v : v * op->scale;
}

static double
want_conv(const struct rig *r, const struct vendor_op *op, const int64_t *i)
{
	int64_t group = i[1] / (op->d.dim[1] / (op->a.dim[1] / op->b.dim[1]));
	double v = 0;

	for (int64_t c = 0; c < op->b.dim[1]; c++)
		for (int64_t y = 0; y < op->b.dim[2]; y++)
			for (int64_t x = 0; x < op->b.dim[3]; x++) {
				const int64_t ia[] = {i[0], group * op->b.dim[1] + c,
				    i[2] * op->stride[0] - op->lo[0] + y * op->dilation[0],
				    i[3] * op->stride[1] - op->lo[1] + x * op->dilation[1]};
				const int64_t ib[] = {i[1], c, y, x};

				if (ia[2] >= 0 && ia[2] < op->a.dim[2] && ia[3] >= 0 && ia[3] < op->a.dim[3])
					v += at(r, &op->a, ia, 4) * at(r, &op->b, ib, 4);
			}
	return v;
}

static bool
next(int64_t *i, const int64_t *dim, uint32_t n)
{
	while (n-- > 0) {
		if (++i[n] < dim[n])
			return true;
		i[n] = 0;
	}
	return false;
}

/* Elements of d that are not as defined. */
static int
n_wrong(struct rig *r, const struct vendor_op *op)
{
	float *got = heap_alloc(sizeof(r->host[0]));
	int64_t i[VENDOR_DIMS] = {0};
	int wrong = 0;

	r->d.get(r->d.self, got, r->buf[op->d.buf], sizeof(r->host[0]));
	do {
		double want =
		    posts(r, op, i, op->kind == VENDOR_CONV ? want_conv(r, op, i) : want_matmul(r, op, i));
		int64_t n = 0;

		for (uint32_t k = 0; k < op->rank; k++)
			n += i[k] * op->d.stride[k];
		wrong += !(fabs((double)got[n] - want) < 1e-4);
	} while (next(i, op->d.dim, op->rank));
	free(got);
	return wrong;
}

/* ---- running one choice ------------------------------------------------------------------------------ */
static bool
run_choice(struct rig *r, const struct vendor_op *op, const struct vendor_choice *c, struct err *e)
{
	struct gpu_kernel k = {.symbol = STR("k0"), .n_passes = 1, .pass = {{{1, 1, 1}, {1, 1, 1}, 0}}};
	struct dev_kernel dk = {
	    .n_passes = 1, .n_bufs = MAX_BUFS, .shared_bytes = c->workspace, .range = {1}};
	struct dev_launch l = {.kernel = &dk, .buf = r->buf};
	struct dev_module *m = NULL;
	struct bytes module;
	bool ok, is_lost;

	vendor_pack(&r->a, op, c, &k.cubin);
	gpu_module_pack(&r->a, 80, &k, 1, &module);
	r->d.put(r->d.self, r->buf[op->d.buf], r->host[op->d.buf], sizeof(r->host[0]));
	ok = r->d.load(r->d.self, module, &m, e) && r->d.find(r->d.self, m, "k0", &dk, e) &&
	    r->d.reserve(r->d.self, dk.shared_bytes, 0, e);
	if (ok) {
		r->d.run(r->d.self, &l, 1, NULL);
		ok = r->d.fault(r->d.self, &is_lost, e);
	}
	dev_lose(&r->d, &dk);
	if (m)
		r->d.unload(r->d.self, m);
	return ok;
}

static struct vendor_op
matmul(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_turned, bool b_turned)
{
	return (struct vendor_op){.kind = VENDOR_MATMUL,
	    .rank = 3,
	    .a = {0, {batch, m, k}, {m * k, a_turned ? 1 : k, a_turned ? m : 1}},
	    .b = {1, {batch, k, n}, {k * n, b_turned ? 1 : n, b_turned ? k : 1}},
	    .d = {4, {batch, m, n}, {m * n, n, 1}}};
}

/* Channels last, weights as output channel, window, input channel. */
static struct vendor_op
conv(int64_t c, int64_t out, int64_t group, int64_t stride, int64_t dilation)
{
	int64_t per = c / group, n = (7 + 2 - 2 * dilation - 1) / stride + 1;

	return (struct vendor_op){.kind = VENDOR_CONV,
	    .rank = 4,
	    .a = {0, {2, c, 7, 7}, {49 * c, 1, 7 * c, c}},
	    .b = {1, {out, per, 3, 3}, {9 * per, 1, 3 * per, per}},
	    .d = {4, {2, out, n, n}, {n * n * out, 1, n * out, out}},
	    .lo = {1, 1, 0},
	    .hi = {1, 1, 0},
	    .stride = {stride, stride, 1},
	    .dilation = {dilation, dilation, 1}};
}

static void
add_post(struct vendor_op *op, enum vendor_post what)
{
	op->post[op->n_posts].what = what;
	op->post[op->n_posts++].buf = what == VENDOR_BIAS ? 2 : what == VENDOR_ADD ? 3 : 0;
}

/* All algorithms are right, alone and inside a captured graph on other buffers. */
static void
all_right(enum library lib, const struct vendor_op *op)
{
	static struct rig r;
	struct vendor_choice list[LIST];
	struct err e = {0};
	uint32_t n;

	rig_open(&r, "gpu=a100,seed=2");
	if (!vendor_list(&r.d, lib, op, plenty, LIST, list, &n, &e))
		fail_msg("%s", e.msg);
	assert_true(n >= 5);
	for (uint32_t i = 0; i < n; i++) {
		if (!run_choice(&r, op, &list[i], &e))
			fail_msg("%s", e.msg);
		if (n_wrong(&r, op))
			fail_msg("algorithm %u of %s: %d elements are wrong", i, library_name(lib),
			    n_wrong(&r, op));
	}
	rig_close(&r);
}

static void
products(void **state)
{
	static const enum vendor_post chains[][4] = {{VENDOR_POSTS}, {VENDOR_BIAS, VENDOR_POSTS},
	    {VENDOR_BIAS, VENDOR_RELU, VENDOR_POSTS}, {VENDOR_ADD, VENDOR_POSTS},
	    {VENDOR_BIAS, VENDOR_ADD, VENDOR_GELU_TANH, VENDOR_POSTS},
	    {VENDOR_ADD, VENDOR_BIAS, VENDOR_RELU, VENDOR_POSTS}, {VENDOR_RELU, VENDOR_POSTS}};

	(void)state;
	for (int turns = 0; turns < 4; turns++)
		for (size_t c = 0; c < COUNT_OF(chains); c++) {
			struct vendor_op op = matmul(c % 2 ? 3 : 1, 5, 7, 6, turns & 1, turns & 2);

			for (int i = 0; chains[c][i] != VENDOR_POSTS; i++)
				add_post(&op, chains[c][i]);
			all_right(LIBRARY_cublaslt, &op);
			op.scale = -0.25;
			all_right(LIBRARY_cublaslt, &op);
		}
	{
		struct vendor_op row = matmul(1, 1, 9, 4, false, false),
				 column = matmul(1, 9, 1, 4, false, true);

		all_right(LIBRARY_cublaslt, &row);
		all_right(LIBRARY_cublaslt, &column);
	}
}

static void
convolutions(void **state)
{
	static const enum vendor_post last[] = {[2] = VENDOR_RELU, VENDOR_SWISH, VENDOR_CLIP, VENDOR_CLIP};

	(void)state;
	for (int64_t stride = 1; stride < 3; stride++)
		for (int64_t dilation = 1; dilation < 3; dilation++)
			for (int64_t group = 1; group < 5; group += 3)
				for (int chain = 0; chain < 6; chain++) {
					struct vendor_op op = conv(4, 8, group, stride, dilation);

					if (chain > 0)
						add_post(&op, VENDOR_BIAS);
					if (chain == 2)
						add_post(&op, VENDOR_ADD);
					if (chain > 1)
						add_post(&op, last[chain]);
					if (chain == 4 || chain == 5)
						op.post[op.n_posts - 1].a = chain == 4 ? -0.5 : -INFINITY;
					if (chain == 4 || chain == 5)
						op.post[op.n_posts - 1].b = 0.75;
					if (chain == 3)
						add_post(&op, VENDOR_ADD);
					all_right(LIBRARY_cudnn, &op);
				}
}

/* Captured, replayed, and pointed at another result: the call goes there and nowhere else. */
static void
in_a_graph(void **state)
{
	static struct rig r;
	struct vendor_op op = matmul(1, 5, 7, 6, false, true);
	struct gpu_kernel k = {.symbol = STR("k0"), .n_passes = 1, .pass = {{{1, 1, 1}, {1, 1, 1}, 0}}};
	struct vendor_choice list[LIST];
	struct dev_kernel dk = {.n_passes = 1, .n_bufs = MAX_BUFS, .range = {1}};
	struct dev_launch l = {.kernel = &dk, .buf = r.buf};
	struct gpu_graph *graph;
	struct dev_module *m;
	struct bytes module;
	struct err e = {0};
	void *old;
	int64_t ns;
	uint32_t n;

	(void)state;
	rig_open(&r, "gpu=a100,seed=2,replay=1");
	assert_true(vendor_list(&r.d, LIBRARY_cublaslt, &op, plenty, LIST, list, &n, &e));
	vendor_pack(&r.a, &op, &list[n - 1], &k.cubin);
	gpu_module_pack(&r.a, 80, &k, 1, &module);
	assert_true(r.d.load(r.d.self, module, &m, &e) && r.d.find(r.d.self, m, "k0", &dk, &e));
	assert_int_equal(dk.shared_bytes, list[n - 1].workspace);
	assert_true(r.d.reserve(r.d.self, dk.shared_bytes, 0, &e));
	if (!gpu_graph_make(&r.d, &l, 1, NULL, &graph, &e) || !gpu_graph_time(&r.d, graph, &ns, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(n_wrong(&r, &op), 0);
	old = r.buf[4];
	r.buf[4] = r.d.mem_new(r.d.self, sizeof(r.host[4]));
	r.d.put(r.d.self, old, r.host[4], sizeof(r.host[4]));
	gpu_graph_point(&r.d, graph, &l, 1);
	assert_true(gpu_graph_time(&r.d, graph, &ns, &e));
	assert_int_equal(n_wrong(&r, &op), 0);
	assert_memory_equal(old, r.host[4], sizeof(r.host[4])); /* a fake GPU's memory is the host's */
	r.d.mem_free(r.d.self, old, sizeof(r.host[4]));
	gpu_graph_free(&r.d, graph);
	dev_lose(&r.d, &dk);
	r.d.unload(r.d.self, m);
	rig_close(&r);
}

/* ---- what is refused -------------------------------------------------------------------------------- */
static void
refuses(const char *settings, enum library lib, const struct vendor_op *op, uint64_t workspace,
    enum err_code code, const char *words)
{
	static struct rig r;
	struct vendor_choice list[LIST];
	struct err e = {0};
	uint32_t n;

	rig_open(&r, settings);
	if (vendor_list(&r.d, lib, op, workspace, LIST, list, &n, &e))
		fail_msg("%s: %u algorithms", settings, n);
	if (e.code != code || !strstr(e.msg, words))
		fail_msg("%s: %s \"%s\", without \"%s\"", settings, err_name(e.code), e.msg, words);
	rig_close(&r);
}

static void
not_there(void **state)
{
	struct vendor_op m = matmul(1, 5, 7, 6, false, false), c = conv(4, 8, 1, 1, 1), bad = m;

	(void)state;
	refuses("no_lt=1", LIBRARY_cublaslt, &m, plenty, ERR_HOST, "cuBLASLt is left out");
	refuses("no_dnn=1", LIBRARY_cudnn, &c, plenty, ERR_HOST, "cuDNN is left out");
	refuses("vnone=1", LIBRARY_cublaslt, &m, plenty, ERR_INFEASIBLE, "not supported");
	refuses("vnone=1", LIBRARY_cudnn, &c, plenty, ERR_INFEASIBLE, "status is 3000");
	refuses("vwork=100000", LIBRARY_cublaslt, &m, 4096, ERR_INFEASIBLE, "not supported");
	refuses("vwork=100000", LIBRARY_cudnn, &c, 4096, ERR_INFEASIBLE, "within 4096 bytes");
	refuses("seed=1", LIBRARY_cublaslt, &c, plenty, ERR_INFEASIBLE, "matrix products only");
	refuses("seed=1", LIBRARY_cudnn, &m, plenty, ERR_INFEASIBLE, "convolutions only");
	bad.b.stride[1] = bad.b.stride[2] = 2;
	refuses("seed=1", LIBRARY_cublaslt, &bad, plenty, ERR_INFEASIBLE, "not next to each other");
	bad = m;
	add_post(&bad, VENDOR_RELU);
	add_post(&bad, VENDOR_BIAS);
	refuses("seed=1", LIBRARY_cublaslt, &bad, plenty, ERR_INFEASIBLE, "no epilogue");
	bad = m;
	add_post(&bad, VENDOR_GELU); /* its own is another one */
	refuses("seed=1", LIBRARY_cublaslt, &bad, plenty, ERR_INFEASIBLE, "no epilogue");
	bad = c;
	bad.scale = 2;
	refuses("seed=1", LIBRARY_cudnn, &bad, plenty, ERR_FORMAT, "make no sense");
	bad = c;
	add_post(&bad, VENDOR_CLIP);
	bad.post[0].a = 1;
	refuses("seed=1", LIBRARY_cudnn, &bad, plenty, ERR_FORMAT, "make no sense");
	bad.post[0].b = NAN;
	refuses("seed=1", LIBRARY_cudnn, &bad, plenty, ERR_FORMAT, "make no sense");
	bad = c;
	bad.d.dim[2]++;
	refuses("seed=1", LIBRARY_cudnn, &bad, plenty, ERR_FORMAT, "make no sense");
}

/* Scratch within the limit leaves some of them; float32 leaves out the engine that rounds. */
static void
some_are_left_out(void **state)
{
	static struct rig r;
	struct vendor_op m = matmul(1, 5, 7, 6, false, false), c = conv(4, 8, 1, 1, 1);
	struct vendor_choice list[LIST];
	struct err e = {0};
	uint32_t n, n_f32, n_tf32;

	(void)state;
	rig_open(&r, "seed=1");
	assert_true(vendor_list(&r.d, LIBRARY_cublaslt, &m, (uint64_t)2 << 16, LIST, list, &n, &e));
	assert_int_equal(n, 3);
	assert_true(vendor_list(&r.d, LIBRARY_cublaslt, &m, plenty, 2, list, &n, &e));
	assert_int_equal(n, 2);
	assert_true(vendor_list(&r.d, LIBRARY_cudnn, &c, plenty, LIST, list, &n_f32, &e));
	c.math = VENDOR_TF32;
	assert_true(vendor_list(&r.d, LIBRARY_cudnn, &c, plenty, LIST, list, &n_tf32, &e));
	assert_int_equal(n_f32 + 1, n_tf32);
	rig_close(&r);
}

/* Faults of a library cost its kernel and nothing else: the device goes on. */
static void
faults(void **state)
{
	static struct rig r;
	const struct vendor_op ops[] = {matmul(1, 5, 7, 6, false, false), conv(4, 8, 1, 1, 1)};
	struct vendor_choice list[LIST], changed;
	struct err e = {0};
	uint32_t n;

	(void)state;
	for (int at = 0; at < 2; at++) {
		const enum library lib = at ? LIBRARY_cudnn : LIBRARY_cublaslt;

		rig_open(&r, "seed=1,vfail=1000000");
		assert_true(vendor_list(&r.d, lib, &ops[at], plenty, LIST, list, &n, &e));
		assert_false(run_choice(&r, &ops[at], &list[0], &e));
		assert_int_equal(e.code, ERR_LAUNCH);
		assert_false(run_choice(
		    &r, &ops[at], &list[1], &e)); /* again a fault of its own, not of a lost device */
		assert_int_equal(e.code, ERR_LAUNCH);
		rig_close(&r);

		rig_open(&r, "seed=1,vwrong=1000000");
		assert_true(vendor_list(&r.d, lib, &ops[at], plenty, LIST, list, &n, &e));
		assert_true(run_choice(&r, &ops[at], &list[0], &e));
		assert_true(n_wrong(&r, &ops[at]) > 0);
		rig_close(&r);

		rig_open(&r, "seed=1");
		assert_true(vendor_list(&r.d, lib, &ops[at], plenty, LIST, list, &n, &e));
		changed = list[0];
		changed.version--;
		assert_false(run_choice(&r, &ops[at], &changed, &e));
		assert_int_equal(e.code, ERR_DEVICE);
		changed = list[n - 1];
		changed.workspace = 0; /* less than it wants */
		assert_false(run_choice(&r, &ops[at], &changed, &e));
		assert_int_equal(e.code, ERR_FORMAT);
		changed = list[0];
		changed.word[lib == LIBRARY_cublaslt ? 1 : 0] = 999;
		assert_false(run_choice(&r, &ops[at], &changed, &e));
		assert_int_equal(e.code, ERR_INFEASIBLE);
		assert_true(run_choice(&r, &ops[at], &list[0], &e));
		assert_int_equal(n_wrong(&r, &ops[at]), 0);
		rig_close(&r);
	}
}

/* ---- bytes from outside --------------------------------------------------------------------- */
static void
hostile(void **state)
{
	struct arena a = {0};
	struct vendor_op op = conv(4, 8, 1, 1, 1), got;
	struct vendor_choice c = {.lib = LIBRARY_cudnn, .version = 91900, .n_words = 3, .word = {10, 2, 1}},
			     have;
	struct bytes b;
	struct err e = {0};

	(void)state;
	add_post(&op, VENDOR_BIAS);
	vendor_pack(&a, &op, &c, &b);
	assert_true(vendor_unpack(b, &got, &have, &e));
	assert_memory_equal(&got.a, &op.a, sizeof(op.a));
	assert_memory_equal(&have, &c, sizeof(c));
	for (size_t i = 0; i < b.n; i++) {
		uint8_t *cut = heap_alloc(i + 1), *changed = heap_alloc(b.n);

		memcpy(cut, b.p, i);
		assert_false(vendor_unpack((struct bytes){cut, i}, &got, &have, &e));
		memcpy(changed, b.p, b.n);
		for (int v = 0; v < 3; v++) {
			changed[i] = (uint8_t)(v * 127 + 1);
			if (vendor_unpack((struct bytes){changed, b.n}, &got, &have, &e))
				(void)!vendor_op_check(&got, 3, &e);
		}
		free(cut);
		free(changed);
	}
	assert_false(vendor_op_check(&op, 2, &e)); /* it reads buffers that the kernel does not have */
	arena_fini(&a);
}

/* A real library file that lacks a function: said, with its name. */
static void
too_old(void **state)
{
	static const char *const flags[] = {"-O0", NULL};
	struct compile_opts o = {.flags = flags};
	struct arena a = {0};
	struct gpu g = {0};
	struct bytes so;
	struct err e = {0};
	char dir[] = "/tmp/korch-vendor-XXXXXX", path[64];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/libcublasLt.so.13", dir);
	if (!compile_c(
		&a, STR("int cublasLtGetProperty(int w, int *v) { *v = w; return 0; }\n"), &o, &so, &e))
		fail_msg("%s", e.msg);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(so.p, 1, so.n, f), so.n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(setenv("KORCH_CUDA_LIB", dir, 1), 0);
	gpu_vendor_open(&g);
	assert_int_equal(unsetenv("KORCH_CUDA_LIB"), 0);
	assert_true(g.has[GPU_CUBLASLT] || strstr(g.why[GPU_CUBLASLT], "too old: it has no cublasLtCreate"));
	(void)unlink(path);
	(void)rmdir(dir);
	gpu_close(&g);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(convolutions),
	    cmocka_unit_test(in_a_graph), cmocka_unit_test(not_there), cmocka_unit_test(some_are_left_out),
	    cmocka_unit_test(faults), cmocka_unit_test(hostile), cmocka_unit_test(too_old)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
