/* daemon/fission/attention.c: attention and its companions.
 *
 * Attention is two products with a softmax between; heads of a group share their key and value.
 * Where masks may hide every key of a query, the softmax of that row is zero, not NaN. */
#include "fission_int.h"

#include <math.h>

enum { MAX_STEPS = 1024 }; /* of a recurrence that is written out */

/* [B, S, heads * d] -> [B, heads, S, d]; tensors of four dimensions are left */
static tensor_id
heads_of(struct fission *f, tensor_id x, int64_t heads)
{
	const struct shape s = *b_shape(f, x);

	if (f->failed || s.rank == 4)
		return f->failed ? f->blank : x;
	if (s.rank != 3 || heads < 1 || s.dim[2] % heads != 0) {
		f_fail(f, "an operand of %d dimensions does not divide into %lld heads", s.rank,
		    (long long)heads);
		return f->blank;
	}
	x = b_view(f, x, 4, (int64_t[]){s.dim[0], s.dim[1], heads, s.dim[2] / heads});
	return b_transpose(f, x, (int64_t[]){0, 2, 1, 3});
}

/* [B, heads, S, d] -> [B, S, heads * d] */
static tensor_id
merge_heads(struct fission *f, tensor_id x)
{
	const struct shape s = *b_shape(f, x);

	x = b_transpose(f, x, (int64_t[]){0, 2, 1, 3});
	return b_view(f, x, 3, (int64_t[]){s.dim[0], s.dim[2], s.dim[1] * s.dim[3]});
}

/* Each head `times` times, side by side. */
static tensor_id
repeat_heads(struct fission *f, tensor_id x, int64_t times)
{
	const struct shape s = *b_shape(f, x);
	struct shape wide = {.rank = 5, .dim = {s.dim[0], s.dim[1], 1, s.dim[2], s.dim[3]}};

	if (f->failed || times == 1)
		return f->failed ? f->blank : x;
	x = b_reshape(f, x, &wide);
	wide.dim[2] = times;
	return b_view(
	    f, b_expand(f, x, &wide), 4, (int64_t[]){s.dim[0], s.dim[1] * times, s.dim[2], s.dim[3]});
}

/* ---- masks ---------------------------------------------------------------------------- */
/* Position of each query among the keys, minus its number: [] or [B, 1, 1, 1]. */
static tensor_id
query_offset(struct fission *f, int64_t past, int64_t n_q)
{
	if (!f_has(f, 6))
		return b_num(f, DT_i64, (double)past);
	tensor_id len = b_cast(f, f_in(f, 6), DT_i64);
	len = b_view(f, len, 4, (int64_t[]){shape_count(b_shape(f, len)), 1, 1, 1});
	return b_map2n(f, PRIM_sub, len, (double)n_q);
}

static tensor_id
both(struct fission *f, tensor_id a, tensor_id b)
{
	return a.i == NO_TENSOR.i ? b : b_map2(f, PRIM_and, a, b);
}

/* Which keys each query may see, from causality, windows and lengths; NO_TENSOR: all. */
static tensor_id
allowed_keys(struct fission *f, int64_t past, int64_t n_q, int64_t n_k)
{
	struct shape plane = {.rank = 2, .dim = {n_q, n_k}}, keys = {.rank = 4, .dim = {1, 1, 1, n_k}};
	int64_t left = f_int(f, "left_window_size"), right = f_int(f, "right_window_size");
	tensor_id ok = NO_TENSOR, key = b_iota(f, &plane, 1);
	tensor_id at = b_map2(f, PRIM_add, b_iota(f, &plane, 0), query_offset(f, past, n_q));

	if (f_int(f, "is_causal"))
		ok = both(f, ok, b_map2(f, PRIM_le, key, at));
	if (left >= 0)
		ok = both(f, ok, b_map2(f, PRIM_le, b_map2n(f, PRIM_sub, at, (double)left), key));
	if (right >= 0)
		ok = both(f, ok, b_map2(f, PRIM_le, key, b_map2n(f, PRIM_add, at, (double)right)));
	if (f_has(f, 6)) {
		tensor_id len = b_cast(f, f_in(f, 6), DT_i64);
		len = b_view(f, len, 4, (int64_t[]){shape_count(b_shape(f, len)), 1, 1, 1});
		ok = both(f, ok, b_map2(f, PRIM_lt, b_iota(f, &keys, 3), len));
	}
	return ok;
}

/* The mask operand, made as long as the keys: what is missing is hidden. */
static tensor_id
mask_operand(struct fission *f, int64_t n_k)
{
	tensor_id m = f_in(f, 3);
	int rank = b_rank(f, m);
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0};

	if (!f->failed && rank < 1) {
		f_fail(f, "operand 3 (attn_mask) has no dimensions");
		return f->blank;
	}
	hi[rank - 1] = n_k - b_dim(f, m, rank - 1);
	if (!f->failed && hi[rank - 1] < 0)
		f_fail(f, "operand 3 (attn_mask) is longer than the %lld keys", (long long)n_k);
	if (b_dim(f, m, rank - 1) == 1)
		return m;
	return b_pad(f, m, lo, hi, PAD_CONSTANT, b_type(f, m) == DT_bool ? 0 : -INFINITY);
}

/* softmax over the last axis; a row without keys is zero */
static tensor_id
masked_softmax(struct fission *f, tensor_id s)
{
	int axis = b_rank(f, s) - 1;
	enum dtype t = b_type(f, s);
	tensor_id top = b_reduce1(f, PRIM_rmax, s, axis), zero = b_num(f, t, 0);

	top = b_select(f, b_map1(f, PRIM_isinf, top), zero, top);
	tensor_id ex = b_map1(f, PRIM_exp, b_map2(f, PRIM_sub, s, top)),
		  sum = b_reduce1(f, PRIM_sum, ex, axis);
	sum = b_select(f, b_map2(f, PRIM_eq, sum, zero), b_num(f, t, 1), sum);
	return b_map2(f, PRIM_div, ex, sum);
}

/* ---- Attention ------------------------------------------------------------------------ */
struct parts {
	tensor_id q, k, v;
	int64_t past; /* keys from the cache */
};

static tensor_id
with_past(struct fission *f, uint32_t i, tensor_id now)
{
	return f_has(f, i) ? b_concat(f, (tensor_id[]){f_in(f, i), now}, 2, 2) : now;
}

static bool
read_parts(struct fission *f, struct parts *p)
{
	int64_t q_heads = f_int(f, "q_num_heads"), kv_heads = f_int(f, "kv_num_heads");

	p->q = heads_of(f, f_in(f, 0), q_heads);
	p->k = heads_of(f, f_in(f, 1), kv_heads);
	p->v = heads_of(f, f_in(f, 2), kv_heads);
	p->past = f_has(f, 4) ? b_dim(f, f_in(f, 4), 2) : 0;
	if (f_has(f, 4) != f_has(f, 5) || (f_has(f, 4) && f_has(f, 6)))
		f_fail(f, "past key, past value and key lengths do not go together");
	p->k = with_past(f, 4, p->k);
	p->v = with_past(f, 5, p->v);
	f_out(f, 1, p->k);
	f_out(f, 2, p->v);
	int64_t qh = b_dim(f, p->q, 1), kh = b_dim(f, p->k, 1);
	if (!f->failed && (kh < 1 || qh % kh != 0 || b_rank(f, p->q) != 4))
		f_fail(
		    f, "%lld query heads do not divide among %lld key heads", (long long)qh, (long long)kh);
	if (f->failed)
		return false;
	p->k = repeat_heads(f, p->k, qh / kh);
	p->v = repeat_heads(f, p->v, qh / kh);
	return true;
}

/* q k^T, scaled.  Half floats take the root of the scale on both sides, so as not to overflow. */
static tensor_id
scores(struct fission *f, const struct parts *p)
{
	enum dtype t = b_type(f, p->q);
	double scale = f_has_attr(f, "scale") ? f_float(f, "scale") : 1 / sqrt((double)b_dim(f, p->q, 3));
	bool is_narrow = t == DT_f16 || t == DT_bf16;
	tensor_id q = b_map2n(f, PRIM_mul, p->q, is_narrow ? sqrt(scale) : scale);
	tensor_id k = is_narrow ? b_map2n(f, PRIM_mul, p->k, sqrt(scale)) : p->k;

	return fs_matmul(f, q, b_transpose(f, k, (int64_t[]){0, 1, 3, 2}));
}

static tensor_id
softcap(struct fission *f, tensor_id s)
{
	double cap = f_float(f, "softcap");

	if (cap <= 0)
		return s;
	return b_map2n(f, PRIM_mul, b_map1(f, PRIM_tanh, b_map2n(f, PRIM_div, s, cap)), cap);
}

static tensor_id
biased(struct fission *f, tensor_id s, int64_t past, bool *may_hide_all)
{
	int64_t n_q = b_dim(f, s, 2), n_k = b_dim(f, s, 3);
	tensor_id ok = allowed_keys(f, past, n_q, n_k), hidden = b_num(f, b_type(f, s), -INFINITY);

	*may_hide_all = f_has(f, 3) || f_has(f, 6) || f_int(f, "left_window_size") >= 0 ||
	    f_int(f, "right_window_size") >= 0;
	if (f_has(f, 3)) {
		tensor_id m = mask_operand(f, n_k);
		if (b_type(f, m) == DT_bool)
			ok = both(f, ok, m);
		else
			s = b_map2(f, PRIM_add, s, b_cast(f, m, b_type(f, s)));
	}
	return ok.i == NO_TENSOR.i ? s : b_select(f, ok, s, hidden);
}

static tensor_id
probabilities(struct fission *f, tensor_id s, bool may_hide_all)
{
	enum dtype t = b_type(f, s), precise = t;
	int64_t type = f_int(f, "softmax_precision");

	if (type != 0 && !dtype_of_onnx((int)MIN_OF(MAX_OF(type, 0), 1000), &precise))
		f_fail(f, "attribute 'softmax_precision' is a type that is not supported");
	s = b_cast(f, s, precise);
	s = may_hide_all ? masked_softmax(f, s) : fs_softmax(f, s, b_rank(f, s) - 1);
	return b_cast(f, s, t);
}

void
fiss_Attention_23(struct fission *f)
{
	struct parts p;
	bool may_hide_all, is_3d = b_rank(f, f_in(f, 0)) == 3;
	int64_t mode = f_int(f, "qk_matmul_output_mode");

	if (!read_parts(f, &p))
		return;
	tensor_id raw = scores(f, &p), capped = softcap(f, raw),
		  bias = biased(f, capped, p.past, &may_hide_all);
	tensor_id prob = probabilities(f, bias, may_hide_all), y = fs_matmul(f, prob, p.v);
	const tensor_id shown[] = {raw, capped, bias, prob};
	if (mode < 0 || mode > 3)
		f_fail(f, "attribute 'qk_matmul_output_mode' is %lld", (long long)mode);
	else
		f_out(f, 3, shown[mode]);
	f_out(f, 0, is_3d ? merge_heads(f, y) : y);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------- */
/* The table's rows of the positions, as [B, S, 1, d/2]. */
static tensor_id
rotation(struct fission *f, uint32_t i)
{
	tensor_id t = f_in(f, i);

	if (f_has(f, 3))
		t = b_gather(f, t, f_in(f, 3), 0);
	const struct shape s = *b_shape(f, t);
	if (!f->failed && s.rank != 3)
		f_fail(f, "operand %u has %d dimensions; 3 are needed", i, s.rank);
	return b_view(f, t, 4, (int64_t[]){s.dim[0], s.dim[1], 1, s.dim[2]});
}

/* Every second element from `from`, or a half. */
static tensor_id
half_of(struct fission *f, tensor_id x, bool is_interleaved, int which)
{
	struct shape s = *b_shape(f, x);
	int64_t start[4] = {0, 0, 0, is_interleaved ? which : which * s.dim[3] / 2},
		step[4] = {1, 1, 1, is_interleaved ? 2 : 1};

	s.dim[3] /= 2;
	return b_slice(f, x, start, step, &s);
}

static tensor_id
join_halves(struct fission *f, tensor_id a, tensor_id b, bool is_interleaved)
{
	struct shape s = *b_shape(f, a);

	if (!is_interleaved)
		return b_concat(f, (tensor_id[]){a, b}, 2, 3);
	s.dim[s.rank++] = 1;
	tensor_id pair = b_concat(f, (tensor_id[]){b_reshape(f, a, &s), b_reshape(f, b, &s)}, 2, 4);
	s.rank--;
	s.dim[3] *= 2;
	return b_reshape(f, pair, &s);
}

void
fiss_RotaryEmbedding_23(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape whole = *b_shape(f, x);
	bool is_interleaved = f_int(f, "interleaved") != 0, is_4d = whole.rank == 4;
	int64_t heads = f_int(f, "num_heads"), d, part = f_int(f, "rotary_embedding_dim");

	if (is_4d)
		x = b_transpose(f, x, (int64_t[]){0, 2, 1, 3});
	else if (whole.rank != 3 || heads < 1 || whole.dim[2] % heads != 0)
		f_fail(f, "operand 0 has %d dimensions and does not divide into %lld heads", whole.rank,
		    (long long)heads);
	else
		x = b_view(f, x, 4, (int64_t[]){whole.dim[0], whole.dim[1], heads, whole.dim[2] / heads});
	if (f->failed)
		return;
	d = b_dim(f, x, 3);
	part = part == 0 ? d : part;
	if (part < 0 || part > d || part % 2 != 0) {
		f_fail(f, "%lld elements of %lld cannot be rotated", (long long)part, (long long)d);
		return;
	}
	tensor_id turn = b_slice1(f, x, 3, 0, part), c = rotation(f, 1), s = rotation(f, 2);
	tensor_id a = half_of(f, turn, is_interleaved, 0), b = half_of(f, turn, is_interleaved, 1);
	tensor_id re = b_map2(f, PRIM_sub, b_map2(f, PRIM_mul, c, a), b_map2(f, PRIM_mul, s, b));
	tensor_id im = b_map2(f, PRIM_add, b_map2(f, PRIM_mul, s, a), b_map2(f, PRIM_mul, c, b));
	tensor_id y = join_halves(f, re, im, is_interleaved);
	if (part < d)
		y = b_concat(f, (tensor_id[]){y, b_slice1(f, x, 3, part, d - part)}, 2, 3);
	f_out(f, 0, is_4d ? b_transpose(f, y, (int64_t[]){0, 2, 1, 3}) : b_reshape(f, y, &whole));
}

/* ---- CausalConvWithState --------------------------------------------------------------- */
/* Depthwise over [past, x]; the state is what the next call must know. */
void
fiss_CausalConvWithState_27(struct fission *f)
{
	static const char *const words[] = {"none", "silu", "swish", NULL};
	tensor_id x = f_in(f, 0), w = f_in(f, 1);
	int64_t k = b_dim(f, w, 2) - 1, lo[3] = {0, 0, k}, hi[3] = {0}, c = b_dim(f, x, 1);
	static const int64_t one = 1, none = 0;
	struct attrs at = {0};

	if (!f->failed && (b_rank(f, x) != 3 || b_rank(f, w) != 3 || k < 0 || b_dim(f, w, 0) != c))
		f_fail(f, "operand and weight must be [batch, channels, length] and [channels, 1, k]");
	if (f->failed)
		return;
	tensor_id all = f_has(f, 3) ? b_concat(f, (tensor_id[]){f_in(f, 3), x}, 2, 2)
				    : b_pad(f, x, lo, hi, PAD_CONSTANT, 0);
	tensor_id in[2] = {fs_to_last(f, all), b_transpose(f, w, (int64_t[]){2, 1, 0})};
	at_list(&at, ATTR_lo, 1, &none);
	at_list(&at, ATTR_hi, 1, &none);
	at_list(&at, ATTR_stride, 1, &one);
	at_list(&at, ATTR_dilation, 1, &one);
	at_list(&at, ATTR_ldil, 1, &one);
	at_int(&at, ATTR_group, c);
	tensor_id y = b_prim(f, PRIM_conv, in, 2, &at);
	if (f_has(f, 2))
		y = b_map2(f, PRIM_add, y, f_in(f, 2));
	y = fs_from_last(f, y);
	f_out(f, 0, f_choice(f, "activation", words) ? fs_swish(f, y, 1) : y);
	f_out(f, 1, b_slice1(f, all, 2, b_dim(f, all, 2) - k, k));
}

/* ---- LinearAttention ------------------------------------------------------------------- */
struct linear {
	tensor_id q, k, v, decay, beta; /* [B, T, heads, d]; decay and beta may be NO_TENSOR */
	int64_t batch, steps, q_heads, kv_heads, dk, dv;
	bool is_gated, is_delta;
	double scale;
};

/* Step t of [B, T, h, d] as [B, h, rows, columns]. */
static tensor_id
at_step(struct fission *f, tensor_id x, int64_t t, int64_t h, int64_t rows, int64_t columns)
{
	return b_view(f, b_slice1(f, x, 1, t, 1), 4, (int64_t[]){b_dim(f, x, 0), h, rows, columns});
}

static tensor_id
wide(struct fission *f, tensor_id x)
{
	enum dtype t = b_type(f, x);

	return t == DT_f16 || t == DT_bf16 ? b_cast(f, x, DT_f32) : x;
}

/* [B, T, n] as [B, T, heads, n / heads] */
static tensor_id
by_head(struct fission *f, uint32_t i, int64_t heads)
{
	tensor_id x = wide(f, f_in(f, i));
	const struct shape s = *b_shape(f, x);

	if (!f->failed && (s.rank != 3 || heads < 1 || s.dim[2] % heads != 0))
		f_fail(f, "operand %u does not divide into %lld heads", i, (long long)heads);
	return f->failed ? f->blank
			 : b_view(f, x, 4, (int64_t[]){s.dim[0], s.dim[1], heads, s.dim[2] / heads});
}

static bool
read_linear(struct fission *f, struct linear *l)
{
	static const char *const words[] = {"linear", "gated", "delta", "gated_delta", NULL};
	int rule = f_choice(f, "update_rule", words);

	l->q_heads = f_int(f, "q_num_heads");
	l->kv_heads = f_int(f, "kv_num_heads");
	l->is_gated = rule == 1 || rule == 3;
	l->is_delta = rule >= 2;
	l->q = by_head(f, 0, l->q_heads);
	l->k = by_head(f, 1, l->kv_heads);
	l->v = by_head(f, 2, l->kv_heads);
	if (l->is_gated)
		l->decay = by_head(f, 4, l->kv_heads);
	if (l->is_delta) {
		int64_t n = f_has(f, 5) ? b_dim(f, f_in(f, 5), 2) : 1;
		l->beta = by_head(f, 5, n == l->kv_heads ? n : 1);
	}
	if (f->failed)
		return false;
	l->batch = b_dim(f, l->q, 0);
	l->steps = b_dim(f, l->q, 1);
	l->dk = b_dim(f, l->k, 3);
	l->dv = b_dim(f, l->v, 3);
	l->scale = f_float(f, "scale") != 0 ? f_float(f, "scale") : 1 / sqrt((double)b_dim(f, l->q, 3));
	if (l->kv_heads < 1 || l->q_heads % l->kv_heads != 0 || l->steps > MAX_STEPS || l->steps < 1)
		f_fail(f, "%lld steps, %lld and %lld heads are not supported (at most %d steps)",
		    (long long)l->steps, (long long)l->q_heads, (long long)l->kv_heads, MAX_STEPS);
	return !f->failed;
}

/* The state after step t. */
static tensor_id
linear_step(struct fission *f, const struct linear *l, tensor_id state, int64_t t)
{
	tensor_id k = at_step(f, l->k, t, l->kv_heads, l->dk, 1),
		  v = at_step(f, l->v, t, l->kv_heads, 1, l->dv);

	if (l->is_gated) {
		int64_t n = b_dim(f, l->decay, 3);
		state = b_map2(
		    f, PRIM_mul, state, b_map1(f, PRIM_exp, at_step(f, l->decay, t, l->kv_heads, n, 1)));
	}
	if (l->is_delta) {
		tensor_id kt = b_transpose(f, k, (int64_t[]){0, 1, 3, 2});
		v = b_map2(f, PRIM_sub, v, fs_matmul(f, kt, state));
		v = b_map2(f, PRIM_mul, v, at_step(f, l->beta, t, b_dim(f, l->beta, 2), 1, 1));
	}
	return b_map2(f, PRIM_add, state, b_map2(f, PRIM_mul, k, v));
}

/* The recurrence written out, step by step. */
void
fiss_LinearAttention_27(struct fission *f)
{
	struct linear l = {.decay = NO_TENSOR, .beta = NO_TENSOR};
	enum dtype t_out = b_type(f, f_in(f, 0));
	struct shape s;

	if (!read_linear(f, &l))
		return;
	s = (struct shape){.rank = 4, .dim = {l.batch, l.kv_heads, l.dk, l.dv}};
	tensor_id state = f_has(f, 3) ? wide(f, f_in(f, 3)) : b_expand(f, b_num(f, b_type(f, l.q), 0), &s);
	tensor_id *out = NEW_ARRAY(f->a, tensor_id, l.steps);
	int64_t group = l.q_heads / l.kv_heads;
	for (int64_t t = 0; t < l.steps; t++) {
		state = linear_step(f, &l, state, t);
		tensor_id o = fs_matmul(f, at_step(f, l.q, t, l.kv_heads, group, l.dk), state);
		out[t] =
		    b_view(f, b_map2n(f, PRIM_mul, o, l.scale), 3, (int64_t[]){l.batch, 1, l.q_heads * l.dv});
	}
	f_out(f, 0, b_cast(f, b_concat(f, out, (uint32_t)l.steps, 1), t_out));
	f_out(f, 1, b_cast(f, state, t_out));
}
