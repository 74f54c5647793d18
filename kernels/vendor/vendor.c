/* kernels/vendor/vendor.c: a library's operation with a choice as bytes, and whether it makes sense.
 *
 *   "KORCHLB2"  then 8-byte numbers, little-endian: kind, math, rank; a, b, d as buffer, extents,
 *   strides; lo, hi, stride, dilation; scale; posts with their numbers; whence b; constants (4-byte floats);
 * library, version, workspace, words */
#include "vendor_int.h"

#include <math.h>
#include <string.h>

static const char MAGIC[8] = {'K', 'O', 'R', 'C', 'H', 'L', 'B', '2'};
static const int64_t max_extent = (int64_t)1 << 40;

/* ---- operations --------------------------------------------------------------------------------- */
static bool
tensor_ok(const struct vendor_tensor *t, uint32_t rank, uint32_t n_bufs)
{
	int64_t last = 0;

	for (uint32_t i = 0; i < rank; i++) {
		int64_t n;

		if (t->dim[i] < 1 || t->dim[i] > INT32_MAX || t->stride[i] < 0 ||
		    __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &n) ||
		    __builtin_add_overflow(last, n, &last))
			return false;
	}
	return t->buf < n_bufs && last < max_extent;
}

/* One value a channel: of a buffer, or of the constants. */
static bool
post_ok(const struct vendor_op *op, uint32_t i, uint32_t n_bufs)
{
	uint32_t buf = op->post[i].buf, at = buf - VENDOR_DATA;
	int64_t n = op->d.dim[op->kind == VENDOR_CONV ? 1 : 2];

	if ((unsigned)op->post[i].what >= VENDOR_POSTS || !(op->post[i].a <= op->post[i].b))
		return false;
	if (op->post[i].what == VENDOR_BIAS && buf >= VENDOR_DATA)
		return at <= op->n_data && n <= (int64_t)(op->n_data - at) &&
		    at % (VENDOR_ALIGN / sizeof(float)) == 0;
	return buf < n_bufs;
}

/* Where b comes from is checked like b: its buffer holds as many elements. */
static bool
source_ok(const struct vendor_op *op, uint32_t n_bufs)
{
	struct vendor_tensor t = op->b;

	memcpy(t.stride, op->from, sizeof(t.stride));
	return !op->repack || tensor_ok(&t, op->rank, n_bufs);
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
		int64_t lo = op->lo[i - 2], hi = op->hi[i - 2], by = op->stride[i - 2],
			wide = op->dilation[i - 2], room;

		ok = lo >= 0 && hi >= 0 && lo < INT32_MAX && hi < INT32_MAX && by > 0 && by < INT32_MAX &&
		    wide > 0 && wide < INT32_MAX;
		room = ok ? op->a.dim[i] + lo + hi - (op->b.dim[i] - 1) * wide - 1 : 0;
		ok = ok && room >= 0 && op->d.dim[i] == room / by + 1;
	}
	return ok;
}

bool
vendor_op_check(const struct vendor_op *op, uint32_t n_bufs, struct err *e)
{
	bool ok = (unsigned)op->kind < VENDOR_KINDS && (unsigned)op->math < VENDOR_MATHS &&
	    op->rank <= VENDOR_DIMS && op->rank >= 3 && op->n_posts <= VENDOR_MAX_POSTS &&
	    tensor_ok(&op->a, op->rank, n_bufs) && tensor_ok(&op->b, op->rank, n_bufs) &&
	    tensor_ok(&op->d, op->rank, n_bufs);

	n_bufs = MIN_OF(n_bufs, (uint32_t)VENDOR_DATA);
	ok = ok && isfinite(op->scale) && (op->scale == 0 || op->kind == VENDOR_MATMUL);
	ok = ok && op->n_data <= VENDOR_MAX_DATA && source_ok(op, n_bufs);
	for (uint32_t i = 0; ok && i < op->n_posts; i++)
		ok = post_ok(op, i, n_bufs);
	ok = ok && (op->kind == VENDOR_MATMUL ? matmul_ok(op) : conv_ok(op));
	return ok ||
	    err_set(e, ERR_FORMAT, "a library's operation whose extents, strides or buffers make no sense");
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

static void
real_number(struct walk *w, double *v)
{
	uint64_t u;

	memcpy(&u, v, sizeof(u));
	number(w, &u);
	memcpy(v, &u, sizeof(u));
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

#define SMALL(W, FIELD, TYPE, N)                                                                             \
	do {                                                                                                 \
		uint32_t small_ = (uint32_t)(FIELD);                                                         \
		small(W, &small_, N);                                                                        \
		(FIELD) = (TYPE)small_;                                                                      \
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
floats(struct walk *w, struct vendor_op *op)
{
	size_t n = op->n_data * sizeof(float);

	if (w->sb) {
		sb_add(w->sb, (struct str){op->data, n});
		return;
	}
	w->bad |= (size_t)(w->end - w->p) < n;
	op->data = w->p;
	w->p += w->bad ? 0 : n;
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
	real_number(w, &op->scale);
	small(w, &op->n_posts, VENDOR_MAX_POSTS + 1);
	for (uint32_t i = 0; i < op->n_posts; i++) {
		SMALL(w, op->post[i].what, enum vendor_post, VENDOR_POSTS);
		small(w, &op->post[i].buf, UINT32_MAX);
		real_number(w, &op->post[i].a);
		real_number(w, &op->post[i].b);
	}
	SMALL(w, op->repack, bool, 2);
	for (int i = 0; i < VENDOR_DIMS; i++)
		signed_number(w, &op->from[i]);
	small(w, &op->n_data, VENDOR_MAX_DATA + 1);
	floats(w, op);
	SMALL(w, c->lib, enum library, LIBRARY_COUNT);
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
	return (!w.bad && w.p == w.end && c->workspace < SIZE_MAX / 2 && library_is_cuda(c->lib)) ||
	    err_set(e, ERR_FORMAT, "a library's kernel that ends early or makes no sense");
}
