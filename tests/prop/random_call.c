/* tests/prop/random_call.c: see random_call.h. */
#include "random_call.h"

struct maker {
	struct strbuf sb;
	struct rng *r;
	uint32_t n, most; /* tensors so far */
	int rank;
	int64_t dim[MAX_RANK]; /* of the value: [N,S..,C] or [B..,M,N] */
};

static void
shape(struct maker *m, const char *name, const int64_t *dim, int rank)
{
	sb_addf(&m->sb, "%s[", name);
	for (int i = 0; i < rank; i++)
		sb_addf(&m->sb, "%s%lld", i ? "," : "", (long long)dim[i]);
	sb_addz(&m->sb, "]");
}

static uint32_t
outside(struct maker *m, bool weight, const int64_t *dim, int rank)
{
	sb_addf(&m->sb, "%%%u = %s f32", m->n, weight ? "weight" : "input");
	shape(m, "", dim, rank);
	sb_addc(&m->sb, '\n');
	return m->n++;
}

/* A tensor of these extents, now and then as a transpose of what is outside. */
static uint32_t
laid(struct maker *m, bool weight, const int64_t *dim, int rank)
{
	int64_t from[MAX_RANK], perm[MAX_RANK];
	uint32_t t;

	if (rank < 2 || rng_below(m->r, 3))
		return outside(m, weight, dim, rank);
	for (int i = 0; i < rank; i++) /* channels first, or the last two swapped */
		perm[i] = rank > 3  ? (i == 0                 ? 0
					      : i + 1 == rank ? 1
							      : i + 1)
		    : i + 2 < rank  ? i
		    : i + 1 == rank ? i - 1
				    : i + 1;
	for (int i = 0; i < rank; i++)
		from[perm[i]] = dim[i];
	t = outside(m, weight, from, rank);
	sb_addf(&m->sb, "%%%u = transpose %%%u", m->n, t);
	shape(m, " perm=", perm, rank);
	sb_addc(&m->sb, '\n');
	return m->n++;
}

static int64_t
extent(struct maker *m)
{
	return 1 + (int64_t)rng_below(m->r, rng_below(m->r, 3) ? m->most : 9);
}

static uint32_t
matmul(struct maker *m)
{
	int batch = (int)rng_below(m->r, 3);
	int64_t a[MAX_RANK], b[MAX_RANK], k = extent(m);
	uint32_t x, y;

	m->rank = batch + 2;
	for (int i = 0; i < m->rank; i++)
		m->dim[i] = a[i] = b[i] = i < batch ? 1 + (int64_t)rng_below(m->r, 3) : extent(m);
	a[batch + 1] = b[batch] = k;
	x = laid(m, false, a, m->rank);
	y = laid(m, rng_below(m->r, 3) > 0, b, m->rank);
	sb_addf(&m->sb, "%%%u = matmul %%%u %%%u\n", m->n, x, y);
	return m->n++;
}

static uint32_t
conv(struct maker *m)
{
	int n = rng_below(m->r, 6) ? 2 : 1;
	int64_t x[MAX_RANK] = {1 + rng_below(m->r, 2)}, w[MAX_RANK], stride[2], dilation[2], lo[2], hi[2],
		one[2] = {1, 1};
	int64_t group = rng_below(m->r, 3) ? 1 : extent(m),
		each = rng_below(m->r, 2) ? 1 : 1 + (int64_t)rng_below(m->r, 5);
	uint32_t in, filter;

	m->rank = n + 2;
	x[n + 1] = group > 1 ? group * each : extent(m);
	w[n] = x[n + 1] / group;
	w[n + 1] = group > 1 ? group * (1 + rng_below(m->r, 2)) : extent(m);
	for (int i = 0; i < n; i++) {
		x[i + 1] = extent(m);
		w[i] = 1 + 2 * (int64_t)rng_below(m->r, 3);
		stride[i] = 1 + rng_below(m->r, 2);
		dilation[i] = rng_below(m->r, 4) ? 1 : 2;
		lo[i] = rng_below(m->r, 3);
		hi[i] = rng_below(m->r, 3);
		m->dim[i + 1] = (x[i + 1] + lo[i] + hi[i] - ((w[i] - 1) * dilation[i] + 1)) / stride[i] + 1;
		if (x[i + 1] + lo[i] + hi[i] < (w[i] - 1) * dilation[i] + 1)
			m->dim[i + 1] = 0;
	}
	m->dim[0] = x[0];
	m->dim[n + 1] = w[n + 1];
	in = laid(m, false, x, n + 2);
	filter = outside(m, rng_below(m->r, 4) > 0, w, n + 2);
	sb_addf(&m->sb, "%%%u = conv %%%u %%%u", m->n, in, filter);
	shape(m, " stride=", stride, n);
	shape(m, " dilation=", dilation, n);
	shape(m, " ldil=", one, n);
	shape(m, " lo=", lo, n);
	shape(m, " hi=", hi, n);
	sb_addf(&m->sb, " group=%lld\n", (long long)group);
	return m->n++;
}

/* To the value's extents. */
static uint32_t
spread(struct maker *m, uint32_t t)
{
	sb_addf(&m->sb, "%%%u = bcast %%%u", m->n, t);
	shape(m, " shape=", m->dim, m->rank);
	sb_addc(&m->sb, '\n');
	return m->n++;
}

static uint32_t
scalar(struct maker *m, double v)
{
	int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};

	sb_addf(&m->sb, "%%%u = const f32[] %a\n", m->n++, (double)(float)v);
	sb_addf(&m->sb, "%%%u = reshape %%%u", m->n, m->n - 1);
	shape(m, " shape=", ones, m->rank);
	sb_addc(&m->sb, '\n');
	return spread(m, m->n++);
}

static uint32_t
row(struct maker *m)
{
	int64_t dim[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};

	dim[m->rank - 1] = m->dim[m->rank - 1];
	return spread(m, outside(m, rng_below(m->r, 2), dim, m->rank));
}

static uint32_t
two(struct maker *m, const char *op, uint32_t x, uint32_t y)
{
	sb_addf(&m->sb, "%%%u = %s %%%u %%%u\n", m->n, op, x, y);
	return m->n++;
}

static uint32_t
one(struct maker *m, const char *op, uint32_t x)
{
	sb_addf(&m->sb, "%%%u = %s %%%u\n", m->n, op, x);
	return m->n++;
}

static uint32_t
step(struct maker *m, uint32_t t)
{
	static const char *const unary[] = {"relu", "tanh", "sigmoid", "abs", "softplus"};

	switch (rng_below(m->r, 8)) {
	case 0:
		return two(m, rng_below(m->r, 2) ? "mul" : "add", t, scalar(m, 0.5 + rng_unit(m->r)));
	case 1:
		return two(m, "min", two(m, "max", t, scalar(m, -0.1)), scalar(m, 1.5));
	case 2:
		return two(m, "mul", t, one(m, "sigmoid", t));
	case 3:
		return two(m, "mul", two(m, "mul", t, scalar(m, 0.5)),
		    two(m, "add", one(m, "erf", two(m, "mul", t, scalar(m, 0.70710678118654752440))),
			scalar(m, 1)));
	case 4:
		return two(m, rng_below(m->r, 2) ? "add" : "mul", t, row(m));
	case 5:
		return two(m, "sub", row(m), t);
	case 6:
		return two(m, rng_below(m->r, 3) ? "add" : "mul", t, laid(m, false, m->dim, m->rank));
	default:
		return one(m, unary[rng_below(m->r, COUNT_OF(unary))], t);
	}
}

bool
random_call(struct arena *a, struct rng *r, uint32_t most, struct spec *out)
{
	struct maker m = {.r = r, .most = most};
	struct err e;
	uint32_t t, n = rng_below(r, 5);

	sb_init(&m.sb, a);
	t = rng_below(r, 3) ? conv(&m) : matmul(&m);
	if (rng_below(r, 2))
		t = two(&m, "add", t, row(&m));
	for (uint32_t i = 0; i < n; i++)
		t = step(&m, t);
	if (rng_below(r, 4) == 0 && m.rank == 4) {
		sb_addf(&m.sb, "%%%u = transpose %%%u perm=[0,3,1,2]\n", m.n, t);
		t = m.n++;
	}
	sb_addf(&m.sb, "output %%%u\n", t);
	return kernel_spec(a, m.sb.p, out, &e);
}
