/* daemon/fission/rnn.c: RNN, GRU and LSTM written out, step by step.
 *
 * The product of all inputs with W is one product for all steps; what is left in a step is the
 * product of the state with R and the gates. */
#include "fission_int.h"

#include <math.h>

enum { MAX_UNROLLED = 1024 };

/* ---- activations of gates -------------------------------------------------------------- */
static tensor_id
act_affine(struct fission *f, tensor_id x, double a, double b)
{
	return b_map2n(f, PRIM_add, b_map2n(f, PRIM_mul, x, a), b);
}

static tensor_id
act_hard_sigmoid(struct fission *f, tensor_id x, double a, double b)
{
	return b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, act_affine(f, x, a, b), 0), 1);
}

static tensor_id
act_leaky(struct fission *f, tensor_id x, double a, double b)
{
	(void)b;
	return b_select(f, b_map2n(f, PRIM_lt, x, 0), b_map2n(f, PRIM_mul, x, a), x);
}

static tensor_id
act_relu(struct fission *f, tensor_id x, double a, double b)
{
	(void)a;
	(void)b;
	return b_map1(f, PRIM_relu, x);
}

static tensor_id
act_scaled_tanh(struct fission *f, tensor_id x, double a, double b)
{
	return b_map2n(f, PRIM_mul, b_map1(f, PRIM_tanh, b_map2n(f, PRIM_mul, x, b)), a);
}

static tensor_id
act_sigmoid(struct fission *f, tensor_id x, double a, double b)
{
	(void)a;
	(void)b;
	return b_map1(f, PRIM_sigmoid, x);
}

static tensor_id
act_softplus(struct fission *f, tensor_id x, double a, double b)
{
	(void)a;
	(void)b;
	return b_map1(f, PRIM_softplus, x);
}

static tensor_id
act_softsign(struct fission *f, tensor_id x, double a, double b)
{
	(void)a;
	(void)b;
	return b_map2(f, PRIM_div, x, b_map2n(f, PRIM_add, b_map1(f, PRIM_abs, x), 1));
}

static tensor_id
act_tanh(struct fission *f, tensor_id x, double a, double b)
{
	(void)a;
	(void)b;
	return b_map1(f, PRIM_tanh, x);
}

typedef tensor_id act_fn(struct fission *f, tensor_id x, double a, double b);
struct act {
	const char *name;
	act_fn *fn;
	double alpha, beta;  /* defaults */
	int n_alpha, n_beta; /* how many numbers it takes from the lists */
};
static const struct act acts[] = {
    {"Affine", act_affine, 1, 0, 1, 1},
    {"HardSigmoid", act_hard_sigmoid, 0.2, 0.5, 1, 1},
    {"LeakyRelu", act_leaky, 0.01, 0, 1, 0},
    {"Relu", act_relu, 0, 0, 0, 0},
    {"ScaledTanh", act_scaled_tanh, 1, 1, 1, 1},
    {"Sigmoid", act_sigmoid, 0, 0, 0, 0},
    {"Softplus", act_softplus, 0, 0, 0, 0},
    {"Softsign", act_softsign, 0, 0, 0, 0},
    {"Tanh", act_tanh, 0, 0, 0, 0},
};

/* ---- what all three share ---------------------------------------------------------------- */
struct rnn {
	struct fission *f;
	tensor_id x; /* [S, B, I] */
	int64_t steps, batch, hidden;
	int n_dirs, n_gates, n_acts;
	bool is_batch_first, is_reverse; /* a single direction that runs backwards */
	struct act act[6];               /* of both directions, defaults replaced */
	double clip;                     /* 0: none */
	tensor_id lens;                  /* of sequences, [B], or NO_TENSOR */
};
/* One direction at work. */
struct dir {
	const struct rnn *r;
	const struct act *act;
	tensor_id wx;   /* [S, B, gates H]: X W^T, W's bias added */
	tensor_id rt;   /* [H, gates H] */
	tensor_id rb;   /* [1, gates H], R's bias, or NO_TENSOR */
	tensor_id peep; /* [1, 3 H] or NO_TENSOR */
	tensor_id h, c; /* [B, H] */
};
typedef void step_fn(struct dir *d, tensor_id x);

static const struct act *
find_act(struct fission *f, struct str name)
{
	for (size_t i = 0; i < COUNT_OF(acts); i++)
		if (str_is(name, acts[i].name))
			return &acts[i];
	f_fail(f, "the activation '%.*s' is not supported", STR_ARG(name));
	return &acts[0];
}

static void
read_acts(struct rnn *r, const char *const *defaults)
{
	struct fission *f = r->f;
	const struct model_attr *names = model_attr_find(f->node, "activations");
	int n_alpha, n_beta, a = 0, b = 0;
	const float *alpha = f_floats(f, "activation_alpha", &n_alpha),
		    *beta = f_floats(f, "activation_beta", &n_beta);
	int n = r->n_acts * r->n_dirs;

	if (names && (int)names->n < n) {
		f_fail(f, "attribute 'activations' has %u names; %d are needed", names->n, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		r->act[i] = *find_act(f, names ? names->strings[i] : str_of(defaults[i % r->n_acts]));
		if (a < n_alpha && r->act[i].n_alpha)
			r->act[i].alpha = (double)alpha[a++];
		if (b < n_beta && r->act[i].n_beta)
			r->act[i].beta = (double)beta[b++];
	}
}

static bool
read_rnn(struct fission *f, struct rnn *r, int n_gates, int n_acts, const char *const *acts_default)
{
	static const char *const words[] = {"forward", "reverse", "bidirectional", NULL};
	int direction = f_choice(f, "direction", words);
	tensor_id rw = f_in(f, 2);

	*r = (struct rnn){.f = f, .x = f_in(f, 0), .n_gates = n_gates, .n_acts = n_acts, .lens = NO_TENSOR};
	r->is_batch_first = f_int(f, "layout") != 0;
	r->is_reverse = direction == 1;
	r->n_dirs = direction == 2 ? 2 : 1;
	r->clip = f_has_attr(f, "clip") ? f_float(f, "clip") : 0;
	if (!f->failed &&
	    (b_rank(f, r->x) != 3 || b_rank(f, f_in(f, 1)) != 3 || b_rank(f, rw) != 3 ||
		b_dim(f, rw, 0) != r->n_dirs || b_dim(f, rw, 1) != n_gates * b_dim(f, rw, 2)))
		f_fail(f,
		    "operands must be [steps, batch, input], [directions, %d hidden, input] and [directions, "
		    "%d hidden, hidden]",
		    n_gates, n_gates);
	if (r->is_batch_first)
		r->x = b_transpose(f, r->x, (int64_t[]){1, 0, 2});
	r->steps = b_dim(f, r->x, 0);
	r->batch = b_dim(f, r->x, 1);
	r->hidden = b_dim(f, rw, 2);
	if (f_has(f, 4))
		r->lens = b_view(f, b_cast(f, f_in(f, 4), DT_i64), 2, (int64_t[]){r->batch, 1});
	if (!f->failed && (r->steps < 1 || r->steps > MAX_UNROLLED))
		f_fail(f, "%lld steps are not supported; 1 to %d are", (long long)r->steps, MAX_UNROLLED);
	read_acts(r, acts_default);
	return !f->failed;
}

/* Direction k of [directions, ...] without that dimension. */
static tensor_id
pick(struct fission *f, tensor_id t, int k)
{
	struct shape s = *b_shape(f, t), out = {.rank = MAX_OF(s.rank - 1, 0)};

	for (int i = 1; i < s.rank; i++)
		out.dim[i - 1] = s.dim[i];
	return b_reshape(f, b_slice1(f, t, 0, k, 1), &out);
}

/* The initial state of direction k: [B, H]. */
static tensor_id
initial(const struct rnn *r, uint32_t operand, int k)
{
	struct fission *f = r->f;
	struct shape s = {.rank = 2, .dim = {r->batch, r->hidden}};

	if (!f_has(f, operand))
		return b_expand(f, b_num(f, b_type(f, r->x), 0), &s);
	tensor_id t = f_in(f, operand);
	return pick(f, r->is_batch_first ? b_transpose(f, t, (int64_t[]){1, 0, 2}) : t, k);
}

static struct dir
start(const struct rnn *r, int k)
{
	struct fission *f = r->f;
	int64_t wide = r->n_gates * r->hidden;
	struct dir d = {.r = r, .act = r->act + k * r->n_acts, .rb = NO_TENSOR, .peep = NO_TENSOR};

	d.wx = fs_matmul(f, r->x, b_transpose(f, pick(f, f_in(f, 1), k), (int64_t[]){1, 0}));
	d.rt = b_transpose(f, pick(f, f_in(f, 2), k), (int64_t[]){1, 0});
	if (f_has(f, 3)) {
		tensor_id b = pick(f, f_in(f, 3), k);
		d.wx = b_map2(f, PRIM_add, d.wx, b_slice1(f, b, 0, 0, wide));
		d.rb = b_view(f, b_slice1(f, b, 0, wide, wide), 2, (int64_t[]){1, wide});
	}
	if (f_has(f, 7))
		d.peep = b_view(f, pick(f, f_in(f, 7), k), 2, (int64_t[]){1, 3 * r->hidden});
	d.h = initial(r, 5, k);
	d.c = initial(r, 6, k);
	return d;
}

/* Gates [from, from + n) of [B, gates H]. */
static tensor_id
gates(const struct dir *d, tensor_id x, int64_t from, int64_t n)
{
	return b_slice1(d->r->f, x, 1, from * d->r->hidden, n * d->r->hidden);
}

static tensor_id
apply(const struct dir *d, int which, tensor_id x)
{
	struct fission *f = d->r->f;
	const struct act *a = &d->act[which];

	if (d->r->clip > 0)
		x = b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, x, -d->r->clip), d->r->clip);
	return a->fn(f, x, a->alpha, a->beta);
}

/* h R^T and its bias, of all gates. */
static tensor_id
recur(const struct dir *d, tensor_id h)
{
	tensor_id y = b_matmul(d->r->f, h, d->rt);

	return d->rb.i == NO_TENSOR.i ? y : b_map2(d->r->f, PRIM_add, y, d->rb);
}

/* Behind the end of a sequence the state stays and the output is zero. */
static tensor_id
hold(const struct dir *d, int64_t t, tensor_id now, tensor_id before)
{
	struct fission *f = d->r->f;

	return b_select(f, b_map2(f, PRIM_lt, b_num(f, DT_i64, (double)t), d->r->lens), now, before);
}

/* All steps of direction k; out[t] receives [1, 1, B, H]. */
static struct dir
run(const struct rnn *r, int k, step_fn *step, tensor_id *out)
{
	struct fission *f = r->f;
	struct dir d = start(r, k);
	bool is_backward = r->is_reverse || k == 1, has_lens = r->lens.i != NO_TENSOR.i;
	int64_t wide = r->n_gates * r->hidden;

	for (int64_t i = 0; i < r->steps && !f->failed; i++) {
		int64_t t = is_backward ? r->steps - 1 - i : i;
		struct dir before = d;
		step(&d, b_view(f, b_slice1(f, d.wx, 0, t, 1), 2, (int64_t[]){r->batch, wide}));
		tensor_id y = d.h;
		if (has_lens) {
			y = hold(&d, t, d.h, b_num(f, b_type(f, d.h), 0));
			d.h = hold(&d, t, d.h, before.h);
			d.c = hold(&d, t, d.c, before.c);
		}
		out[t] = b_view(f, y, 4, (int64_t[]){1, 1, r->batch, r->hidden});
	}
	return d;
}

static tensor_id
stacked(struct fission *f, const struct rnn *r, const tensor_id *last)
{
	tensor_id part[2];

	for (int k = 0; k < r->n_dirs; k++)
		part[k] = b_view(f, last[k], 3, (int64_t[]){1, r->batch, r->hidden});
	tensor_id y = b_concat(f, part, (uint32_t)r->n_dirs, 0);
	return r->is_batch_first ? b_transpose(f, y, (int64_t[]){1, 0, 2}) : y;
}

static void
unroll(const struct rnn *r, step_fn *step)
{
	struct fission *f = r->f;
	tensor_id sides[2], h[2], c[2], *out = NEW_ARRAY(f->a, tensor_id, r->steps);

	for (int k = 0; k < r->n_dirs && !f->failed; k++) {
		struct dir d = run(r, k, step, out);
		h[k] = d.h;
		c[k] = d.c;
		sides[k] = b_concat(f, out, (uint32_t)r->steps, 0);
	}
	if (f->failed)
		return;
	tensor_id y = b_concat(f, sides, (uint32_t)r->n_dirs, 1);
	f_out(f, 0, r->is_batch_first ? b_transpose(f, y, (int64_t[]){2, 0, 1, 3}) : y);
	f_out(f, 1, stacked(f, r, h));
	if (f_wants(f, 2))
		f_out(f, 2, stacked(f, r, c));
}

/* ---- the cells --------------------------------------------------------------------------- */
static void
rnn_step(struct dir *d, tensor_id x)
{
	d->h = apply(d, 0, b_map2(d->r->f, PRIM_add, x, recur(d, d->h)));
}

void
fiss_RNN_7(struct fission *f)
{
	static const char *const names[] = {"Tanh"};
	struct rnn r;

	if (read_rnn(f, &r, 1, 1, names))
		unroll(&r, rnn_step);
}

/* z, r, h; the reset acts before or after the product with R */
static void
gru_step(struct dir *d, tensor_id x)
{
	struct fission *f = d->r->f;
	int64_t n = d->r->hidden;
	bool is_after = f_int(f, "linear_before_reset") != 0;
	tensor_id rh = recur(d, d->h),
		  zr = apply(d, 0, b_map2(f, PRIM_add, gates(d, x, 0, 2), gates(d, rh, 0, 2)));
	tensor_id z = gates(d, zr, 0, 1), reset = gates(d, zr, 1, 1), candidate;

	if (is_after) {
		candidate = b_map2(f, PRIM_mul, reset, gates(d, rh, 2, 1));
	} else {
		candidate = b_matmul(f, b_map2(f, PRIM_mul, reset, d->h), b_slice1(f, d->rt, 1, 2 * n, n));
		if (d->rb.i != NO_TENSOR.i)
			candidate = b_map2(f, PRIM_add, candidate, gates(d, d->rb, 2, 1));
	}
	candidate = apply(d, 1, b_map2(f, PRIM_add, gates(d, x, 2, 1), candidate));
	tensor_id keep = b_map2(f, PRIM_mul, z, d->h);
	tensor_id take = b_map2(f, PRIM_mul, b_map2(f, PRIM_sub, b_num(f, b_type(f, z), 1), z), candidate);
	d->h = b_map2(f, PRIM_add, take, keep);
}

void
fiss_GRU_7(struct fission *f)
{
	static const char *const names[] = {"Sigmoid", "Tanh"};
	struct rnn r;

	if (read_rnn(f, &r, 3, 2, names))
		unroll(&r, gru_step);
}

static tensor_id
peeped(const struct dir *d, tensor_id x, int which, tensor_id c)
{
	struct fission *f = d->r->f;

	if (d->peep.i == NO_TENSOR.i)
		return x;
	return b_map2(f, PRIM_add, x, b_map2(f, PRIM_mul, gates(d, d->peep, which, 1), c));
}

/* i, o, f, c */
static void
lstm_step(struct dir *d, tensor_id x)
{
	struct fission *f = d->r->f;
	tensor_id all = b_map2(f, PRIM_add, x, recur(d, d->h));
	tensor_id in = apply(d, 0, peeped(d, gates(d, all, 0, 1), 0, d->c)), forget;

	if (f_int(f, "input_forget"))
		forget = b_map2(f, PRIM_sub, b_num(f, b_type(f, in), 1), in);
	else
		forget = apply(d, 0, peeped(d, gates(d, all, 2, 1), 2, d->c));
	tensor_id fresh = b_map2(f, PRIM_mul, in, apply(d, 1, gates(d, all, 3, 1)));
	d->c = b_map2(f, PRIM_add, b_map2(f, PRIM_mul, forget, d->c), fresh);
	tensor_id out = apply(d, 0, peeped(d, gates(d, all, 1, 1), 1, d->c));
	d->h = b_map2(f, PRIM_mul, out, d->act[2].fn(f, d->c, d->act[2].alpha, d->act[2].beta));
}

void
fiss_LSTM_7(struct fission *f)
{
	static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
	struct rnn r;

	if (read_rnn(f, &r, 4, 3, names))
		unroll(&r, lstm_step);
}
