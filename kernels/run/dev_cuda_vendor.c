/* kernels/run/dev_cuda_vendor.c: the libraries behind one table, and an operation with a choice as bytes
 * and as words.
 *
 *   "KORCHLIB"  then 8-byte numbers, little-endian: kind, math, rank; a, b, d as buffer, extents,
 *   strides; lo, hi, stride, dilation; posts; library, version, workspace, words
 * A library's handle is made when the first of its kernels is loaded and lives as long as the device. */
#include "dev_cuda_vendor_int.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = {'K', 'O', 'R', 'C', 'H', 'L', 'I', 'B'};
static const int64_t max_extent = (int64_t)1 << 40;

static const struct {
	const char *name;
	const struct vendor_table *table;
} libs[VENDOR_LIBS] = {[VENDOR_CUBLASLT] = {"cublaslt", &vendor_cublaslt}, [VENDOR_CUDNN] = {"cudnn", &vendor_cudnn}};

const char *
vendor_lib_name(enum vendor_lib l)
{
	return libs[l].name;
}

/* ---- operations --------------------------------------------------------------------------------- */
static bool
tensor_ok(const struct vendor_tensor *t, uint32_t rank, uint32_t n_bufs)
{
	int64_t last = 0;

	for (uint32_t i = 0; i < rank; i++) {
		int64_t n;

		if (t->dim[i] < 1 || t->dim[i] > INT32_MAX || t->stride[i] < 0 ||
		    __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &n) || __builtin_add_overflow(last, n, &last))
			return false;
	}
	return t->buf < n_bufs && last < max_extent;
}

static bool
matmul_ok(const struct vendor_op *op)
{
	const int64_t *a = op->a.dim, *b = op->b.dim, *d = op->d.dim;

	return op->rank == 3 && a[0] == b[0] && a[0] == d[0] && a[1] == d[1] && a[2] == b[1] && b[2] == d[2];
}

static bool
conv_ok(const struct vendor_op *op)
{
	bool ok = op->rank >= 3 && op->a.dim[0] == op->d.dim[0] && op->b.dim[0] == op->d.dim[1] &&
	    op->a.dim[1] % op->b.dim[1] == 0;

	for (uint32_t i = 2; i < op->rank && ok; i++) {
		int64_t lo = op->lo[i - 2], hi = op->hi[i - 2], by = op->stride[i - 2], wide = op->dilation[i - 2], room;

		ok = lo >= 0 && hi >= 0 && lo < INT32_MAX && hi < INT32_MAX && by > 0 && by < INT32_MAX && wide > 0 && wide < INT32_MAX;
		room = ok ? op->a.dim[i] + lo + hi - (op->b.dim[i] - 1) * wide - 1 : 0;
		ok = ok && room >= 0 && op->d.dim[i] == room / by + 1;
	}
	return ok;
}

bool
vendor_op_check(const struct vendor_op *op, uint32_t n_bufs, struct err *e)
{
	bool ok = (unsigned)op->kind < VENDOR_KINDS && (unsigned)op->math < VENDOR_MATHS && op->rank <= VENDOR_DIMS &&
	    op->rank >= 3 && op->n_posts <= VENDOR_MAX_POSTS && tensor_ok(&op->a, op->rank, n_bufs) &&
	    tensor_ok(&op->b, op->rank, n_bufs) && tensor_ok(&op->d, op->rank, n_bufs);

	for (uint32_t i = 0; ok && i < op->n_posts; i++)
		ok = (unsigned)op->post[i].what < VENDOR_POSTS && op->post[i].buf < n_bufs;
	ok = ok && (op->kind == VENDOR_MATMUL ? matmul_ok(op) : conv_ok(op));
	return ok || err_set(e, ERR_FORMAT, "a library's operation whose extents, strides or buffers make no sense");
}

/* ---- bytes --------------------------------------------------------------------------------------- */
/* The same walk writes and reads: what one does the other cannot forget.  Writing: sb is set. */
struct walk {
	struct strbuf *sb;
	const uint8_t *p, *end;
	bool bad;
};

static void
number(struct walk *w, uint64_t *v)
{
	if (w->sb) {
		sb_add(w->sb, (struct str){(const char *)v, sizeof(*v)});
		return;
	}
	w->bad |= (size_t)(w->end - w->p) < sizeof(*v);
	*v = 0;
	if (w->bad)
		return;
	memcpy(v, w->p, sizeof(*v));
	w->p += sizeof(*v);
}

static void
signed_number(struct walk *w, int64_t *v)
{
	uint64_t u = (uint64_t)*v;

	number(w, &u);
	*v = (int64_t)u;
}

/* One below `n`. */
static void
small(struct walk *w, uint32_t *v, uint64_t n)
{
	uint64_t u = *v;

	number(w, &u);
	w->bad |= u >= n;
	*v = w->bad ? 0 : (uint32_t)u;
}

#define SMALL(W, FIELD, TYPE, N) \
	do { \
		uint32_t small_ = (uint32_t)(FIELD); \
		small(W, &small_, N); \
		(FIELD) = (TYPE)small_; \
	} while (0)

static void
tensor(struct walk *w, struct vendor_tensor *t)
{
	small(w, &t->buf, UINT32_MAX);
	for (int i = 0; i < VENDOR_DIMS; i++) {
		signed_number(w, &t->dim[i]);
		signed_number(w, &t->stride[i]);
	}
}

static void
everything(struct walk *w, struct vendor_op *op, struct vendor_choice *c)
{
	SMALL(w, op->kind, enum vendor_kind, VENDOR_KINDS);
	SMALL(w, op->math, enum vendor_math, VENDOR_MATHS);
	small(w, &op->rank, VENDOR_DIMS + 1);
	tensor(w, &op->a);
	tensor(w, &op->b);
	tensor(w, &op->d);
	for (int i = 0; i < 3; i++) {
		signed_number(w, &op->lo[i]);
		signed_number(w, &op->hi[i]);
		signed_number(w, &op->stride[i]);
		signed_number(w, &op->dilation[i]);
	}
	small(w, &op->n_posts, VENDOR_MAX_POSTS + 1);
	for (uint32_t i = 0; i < op->n_posts; i++) {
		SMALL(w, op->post[i].what, enum vendor_post, VENDOR_POSTS);
		small(w, &op->post[i].buf, UINT32_MAX);
	}
	SMALL(w, c->lib, enum vendor_lib, VENDOR_LIBS);
	small(w, &c->version, UINT32_MAX);
	number(w, &c->workspace);
	small(w, &c->n_words, VENDOR_MAX_WORDS + 1);
	for (uint32_t i = 0; i < c->n_words; i++)
		number(w, &c->word[i]);
}

void
vendor_pack(struct arena *a, const struct vendor_op *op, const struct vendor_choice *c, struct bytes *out)
{
	struct vendor_op o = *op;
	struct vendor_choice k = *c;
	struct strbuf sb;
	struct walk w = {.sb = &sb};

	sb_init(&sb, a);
	sb_add(&sb, (struct str){MAGIC, sizeof(MAGIC)});
	everything(&w, &o, &k);
	*out = (struct bytes){(const uint8_t *)sb.p, sb.n};
}

bool
vendor_is_packed(struct bytes b)
{
	return b.n >= sizeof(MAGIC) && memcmp(b.p, MAGIC, sizeof(MAGIC)) == 0;
}

bool
vendor_unpack(struct bytes b, struct vendor_op *op, struct vendor_choice *c, struct err *e)
{
	struct walk w = {.p = b.p + sizeof(MAGIC), .end = b.p + b.n};

	*op = (struct vendor_op){0};
	*c = (struct vendor_choice){0};
	if (!vendor_is_packed(b))
		return err_set(e, ERR_FORMAT, "these %zu bytes are no library's kernel", b.n);
	everything(&w, op, c);
	return (!w.bad && w.p == w.end && c->workspace < SIZE_MAX / 2) ||
	    err_set(e, ERR_FORMAT, "a library's kernel that ends early or makes no sense");
}

/* ---- words ---------------------------------------------------------------------------------------- */
struct str
vendor_choice_print(struct arena *a, const struct vendor_choice *c)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb, "lib=%s version=%u workspace=%llu algo=", libs[c->lib].name, c->version, (unsigned long long)c->workspace);
	for (uint32_t i = 0; i < c->n_words; i++)
		sb_addf(&sb, "%s%llx", i ? "." : "", (unsigned long long)c->word[i]);
	return sb_str(&sb);
}

static bool
read_hex(struct str s, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < s.n; i++) {
		char k = s.p[i];
		int digit = k >= '0' && k <= '9' ? k - '0' : k >= 'a' && k <= 'f' ? k - 'a' + 10 : -1;

		if (digit < 0)
			return false;
		*v = *v << 4 | (uint64_t)digit;
	}
	return s.n > 0 && s.n <= 16;
}

static bool
read_words(struct str s, struct vendor_choice *c)
{
	bool ok = true;

	while (s.n && ok) {
		ok = c->n_words < VENDOR_MAX_WORDS && read_hex(str_cut(&s, '.'), &c->word[c->n_words]);
		c->n_words += ok;
	}
	return ok && c->n_words > 0;
}

static bool
read_lib(struct str s, struct vendor_choice *c)
{
	for (int i = 0; i < VENDOR_LIBS; i++)
		if (str_is(s, libs[i].name)) {
			c->lib = (enum vendor_lib)i;
			return true;
		}
	return false;
}

bool
vendor_choice_read(struct str text, struct vendor_choice *out, struct err *e)
{
	struct str rest = text;
	uint32_t seen = 0;
	bool ok = true;

	*out = (struct vendor_choice){0};
	while (rest.n && ok) {
		struct str value = str_cut(&rest, ' '), key = str_cut(&value, '=');
		int64_t n = 0;

		if (str_is(key, "lib")) {
			ok = read_lib(value, out);
			seen |= 1;
		} else if (str_is(key, "algo")) {
			ok = out->n_words == 0 && read_words(value, out);
			seen |= 2;
		} else if (str_is(key, "version")) {
			ok = str_to_i64(value, &n) && n > 0 && n < INT32_MAX;
			out->version = (uint32_t)n;
			seen |= 4;
		} else {
			ok = str_is(key, "workspace") && str_to_i64(value, &n) && n >= 0;
			out->workspace = (uint64_t)n;
		}
	}
	return (ok && seen == 7) || err_set(e, ERR_FORMAT, "\"%.*s\" names no algorithm of a library", STR_ARG(text));
}

/* ---- on a device ------------------------------------------------------------------------------------ */
/* The library, open, and its version.  Both libraries are opened at once: they are asked for together. */
static bool
need(struct cuda *c, enum vendor_lib lib, uint32_t *version, struct err *e)
{
	const struct vendor_table *t = libs[lib].table;

	if (!c->has_vendor) {
		gpu_vendor_open(&c->own);
		c->has_vendor = true;
	}
	if (!c->own.has[t->lib])
		return err_set(e, ERR_HOST, "%s", c->own.why[t->lib]);
	if (!t->version(&c->own, version))
		return err_set(e, ERR_HOST, "%s does not tell its version", libs[lib].name);
	return c->vendor[lib] || t->open_handle(&c->own, &c->vendor[lib], e);
}

bool
vendor_list(const struct dev *d, enum vendor_lib lib, const struct vendor_op *op, uint64_t max_workspace, uint32_t max,
    struct vendor_choice *out, uint32_t *n, struct err *e)
{
	struct cuda *c = d->self;
	uint32_t version;

	*n = 0;
	if (!vendor_op_check(op, UINT32_MAX, e) || !need(c, lib, &version, e) ||
	    !libs[lib].table->list(&c->own, c->vendor[lib], op, max_workspace, max, out, n, e))
		return false;
	for (uint32_t i = 0; i < *n; i++)
		out[i].version = version;
	return *n > 0 || err_set(e, ERR_INFEASIBLE, "%s has no algorithm for it within %llu bytes of workspace", libs[lib].name,
	    (unsigned long long)max_workspace);
}

bool
cuda_vendor_load(struct cuda *c, struct bytes code, const struct dev_kernel *k, struct cuda_vendor *out, struct err *e)
{
	struct vendor_op op;
	struct vendor_choice choice;
	uint32_t version;

	if (!vendor_unpack(code, &op, &choice, e) || !vendor_op_check(&op, k->n_bufs, e) || !need(c, choice.lib, &version, e))
		return false;
	if (choice.workspace > k->shared_bytes || k->n_passes != 1)
		return err_set(e, ERR_FORMAT, "a library's kernel has %u passes and %zu bytes of scratch, and wants 1 and %llu",
		    k->n_passes, k->shared_bytes, (unsigned long long)choice.workspace);
	if (version != choice.version)
		return err_set(e, ERR_DEVICE, "a kernel was chosen for %s %u, and this host has %u: tune again, or install that one",
		    libs[choice.lib].name, choice.version, version);
	out->lib = (uint32_t)choice.lib;
	return libs[choice.lib].table->open(&c->own, c->vendor[choice.lib], &op, &choice, &out->call, e);
}

bool
cuda_vendor_run(struct cuda *c, const struct cuda_vendor *v, void *const *buf, void *scratch)
{
	struct err e = {0};

	if (libs[v->lib].table->run(&c->own, c->vendor[v->lib], v->call, buf, scratch, c->stream, &e))
		return true;
	if (c->fault.code == ERR_NONE)
		c->fault = e;
	return false;
}

void
cuda_vendor_unload(struct cuda *c, struct cuda_vendor *v)
{
	if (v->call)
		libs[v->lib].table->close(&c->own, v->call);
	v->call = NULL;
}

void
cuda_vendor_close(struct cuda *c)
{
	for (int i = 0; i < VENDOR_LIBS; i++) {
		if (c->vendor[i] && !c->is_sticky)
			libs[i].table->close_handle(&c->own, c->vendor[i]);
		c->vendor[i] = NULL;
	}
}
