/* daemon/fission/einsum.c: Einsum as transposes and batched products, operand after operand.
 *
 * Each operand is a tensor with a letter a dimension.  Two operands are joined by the letters
 * they share: those still needed are the batch, the others are summed by the product; letters of
 * one side are rows or columns.  Digits stand for the dimensions under an ellipsis. */
#include "fission_int.h"

#include <string.h>

enum { MAX_OPERANDS = 8 };

struct labelled {
	tensor_id t;
	char label[MAX_RANK + 1]; /* as many as dimensions */
};
struct einsum {
	struct fission *f;
	struct labelled in[MAX_OPERANDS];
	uint32_t n;
	char out[MAX_RANK + 1];
	int n_dots; /* most dimensions under an ellipsis */
	int64_t extent[128];
};

static bool
has(const char *labels, char c)
{
	return c && strchr(labels, c) != NULL;
}

static void
push(struct einsum *e, char *labels, char c)
{
	size_t n = strlen(labels);

	if (n == MAX_RANK) {
		f_fail(e->f, "attribute 'equation' has a term of more than %d letters", MAX_RANK);
		return;
	}
	labels[n] = c;
	labels[n + 1] = '\0';
}

/* Letters of one term; an ellipsis is `dots` digits, the last is always '0' + 9. */
static void
read_term(struct einsum *e, struct str s, int dots, char *labels)
{
	labels[0] = '\0';
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == ' ')
			continue;
		if (c == '.') {
			i += 2;
			for (int k = dots; k > 0; k--)
				push(e, labels, (char)('9' + 1 - k));
		} else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
			push(e, labels, c);
		} else {
			f_fail(e->f, "attribute 'equation' holds '%c'", c);
		}
	}
}

static int
count_letters(struct str s)
{
	int n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] != ' ' && s.p[i] != '.';
	return n;
}

/* A letter twice in one term: the diagonal.  The two dimensions go last, are seen as one, and
 * every (n+1)-th element is taken. */
static void
take_diagonals(struct einsum *e, struct labelled *x)
{
	struct fission *f = e->f;

	for (int i = 0; x->label[i] && !f->failed; i++) {
		const char *again = strchr(x->label + i + 1, x->label[i]);
		if (!again)
			continue;
		int k = (int)(again - x->label), n = 0, rank = b_rank(f, x->t);
		struct shape s = {0};
		int64_t perm[MAX_RANK];
		char labels[MAX_RANK + 1] = "";
		for (int d = 0; d < rank; d++)
			if (d != i && d != k) {
				perm[n++] = d;
				s.dim[s.rank++] = b_dim(f, x->t, d);
				push(e, labels, x->label[d]);
			}
		perm[n++] = i;
		perm[n] = k;
		int64_t extent = b_dim(f, x->t, i);
		if (extent != b_dim(f, x->t, k)) {
			f_fail(f, "the letter '%c' stands for different extents", x->label[i]);
			return;
		}
		push(e, labels, x->label[i]);
		s.dim[s.rank++] = extent * extent;
		x->t = b_reshape(f, b_transpose(f, x->t, perm), &s);
		int64_t start[MAX_RANK] = {0}, step[MAX_RANK];
		for (int d = 0; d < MAX_RANK; d++)
			step[d] = 1;
		step[s.rank - 1] = extent + 1;
		s.dim[s.rank - 1] = extent;
		x->t = b_slice(f, x->t, start, step, &s);
		memcpy(x->label, labels, sizeof(labels));
		i = -1;
	}
}

static void
default_output(struct einsum *e)
{
	for (int c = '0'; c <= '9'; c++)
		for (uint32_t i = 0; i < e->n; i++)
			if (has(e->in[i].label, (char)c) && !has(e->out, (char)c))
				push(e, e->out, (char)c);
	for (int c = 'A'; c <= 'z'; c++) {
		int times = 0;
		for (uint32_t i = 0; i < e->n; i++)
			for (const char *p = e->in[i].label; *p; p++)
				times += *p == c;
		if (times == 1)
			push(e, e->out, (char)c);
	}
}

static void
read_equation(struct einsum *e)
{
	struct fission *f = e->f;
	struct str left = f_text(f, "equation"), right = {NULL, 0}, rest;

	for (size_t i = 0; i + 1 < left.n; i++)
		if (left.p[i] == '-' && left.p[i + 1] == '>') {
			right = (struct str){left.p + i + 2, left.n - i - 2};
			left.n = i;
			break;
		}
	rest = left;
	for (uint32_t i = 0; i < e->n && !f->failed; i++) {
		struct str term = str_cut(&rest, ',');
		bool has_dots = memchr(term.p, '.', term.n) != NULL;
		int dots = has_dots ? b_rank(f, e->in[i].t) - count_letters(term) : 0;
		if (dots < 0 || dots > 9)
			f_fail(f, "attribute 'equation' has more letters than operand %u dimensions", i);
		e->n_dots = MAX_OF(e->n_dots, dots);
		read_term(e, term, dots, e->in[i].label);
		if (!f->failed && (int)strlen(e->in[i].label) != b_rank(f, e->in[i].t))
			f_fail(f, "attribute 'equation' has %zu letters for the %d dimensions of operand %u",
			    strlen(e->in[i].label), b_rank(f, e->in[i].t), i);
	}
	if (rest.n > 0)
		f_fail(f, "attribute 'equation' has more terms than there are operands");
	if (right.p)
		read_term(e, right, e->n_dots, e->out);
	else
		default_output(e);
}

/* One extent a letter; operands of extent 1 (under an ellipsis) are repeated. */
static void
settle_extents(struct einsum *e)
{
	struct fission *f = e->f;

	for (int c = 0; c < 128; c++)
		e->extent[c] = -1;
	for (uint32_t i = 0; i < e->n; i++)
		for (int d = 0; e->in[i].label[d]; d++) {
			int64_t *x = &e->extent[(int)e->in[i].label[d]], n = b_dim(f, e->in[i].t, d);
			if (*x >= 0 && *x != n && *x != 1 && n != 1)
				f_fail(f, "the letter '%c' stands for different extents", e->in[i].label[d]);
			*x = *x < 0 || *x == 1 ? n : *x;
		}
	for (uint32_t i = 0; i < e->n && !f->failed; i++) {
		struct shape s = *b_shape(f, e->in[i].t);
		for (int d = 0; d < s.rank; d++)
			s.dim[d] = e->extent[(int)e->in[i].label[d]];
		e->in[i].t = b_expand(f, e->in[i].t, &s);
	}
	for (const char *p = e->out; *p; p++)
		if (e->extent[(int)*p] < 0)
			f_fail(f, "the letter '%c' of the result stands in no operand", *p);
}

/* Transposed so that the letters come in this order, groups of them seen as one dimension. */
static tensor_id
grouped(struct einsum *e, const struct labelled *x, const char *const *groups, int n_groups)
{
	struct fission *f = e->f;
	int64_t perm[MAX_RANK], dims[3];
	int n = 0;

	for (int g = 0; g < n_groups; g++) {
		dims[g] = 1;
		for (const char *p = groups[g]; *p; p++) {
			perm[n++] = strchr(x->label, *p) - x->label;
			dims[g] *= e->extent[(int)*p];
		}
	}
	return b_view(f, b_transpose(f, x->t, perm), n_groups, dims);
}

/* Sums over the letters of x that nobody needs. */
static void
sum_lone(struct einsum *e, struct labelled *x, const char *needed)
{
	struct fission *f = e->f;
	int64_t axes[MAX_RANK];
	struct shape s = {0};
	char labels[MAX_RANK + 1] = "";
	int n = 0;

	for (int d = 0; x->label[d]; d++)
		if (has(needed, x->label[d])) {
			s.dim[s.rank++] = b_dim(f, x->t, d);
			push(e, labels, x->label[d]);
		} else {
			axes[n++] = d;
		}
	if (n == 0)
		return;
	x->t = b_reshape(f, b_reduce(f, PRIM_sum, x->t, n, axes), &s);
	memcpy(x->label, labels, sizeof(labels));
}

/* a and b into one; `needed` are the letters of the result and of the operands to come. */
static struct labelled
join(struct einsum *e, struct labelled a, struct labelled b, const char *needed)
{
	struct fission *f = e->f;
	char batch[MAX_RANK + 1] = "", sum[MAX_RANK + 1] = "", rows[MAX_RANK + 1] = "",
			      columns[MAX_RANK + 1] = "";
	struct labelled out = {.label = ""};
	struct shape s = {0};

	for (const char *p = a.label; *p; p++)
		push(e, has(b.label, *p) ? has(needed, *p) ? batch : sum : rows, *p);
	for (const char *p = b.label; *p; p++)
		if (!has(a.label, *p))
			push(e, columns, *p);
	for (const char *const *g = (const char *const[]){batch, rows, columns, NULL}; *g; g++)
		for (const char *p = *g; *p; p++) {
			push(e, out.label, *p);
			if (!f->failed)
				s.dim[s.rank++] = e->extent[(int)*p];
		}
	if (f->failed)
		return (struct labelled){.t = f->blank, .label = ""};
	tensor_id x = grouped(e, &a, (const char *const[]){batch, rows, sum}, 3);
	tensor_id y = grouped(e, &b, (const char *const[]){batch, sum, columns}, 3);
	/* without a sum every element is one product */
	out.t = b_reshape(f, sum[0] ? b_matmul(f, x, y) : b_map2(f, PRIM_mul, x, y), &s);
	return out;
}

static void
needed_after(const struct einsum *e, uint32_t from, char *needed)
{
	size_t n = 0;

	for (int c = 1; c < 128; c++) {
		bool is_needed = has(e->out, (char)c);
		for (uint32_t i = from; i < e->n; i++)
			is_needed = is_needed || has(e->in[i].label, (char)c);
		if (is_needed)
			needed[n++] = (char)c;
	}
	needed[n] = '\0';
}

void
fiss_Einsum_12(struct fission *f)
{
	struct einsum e = {.f = f, .n = f_n_in(f)};
	char needed[128];

	if (e.n > MAX_OPERANDS) {
		f_fail(f, "%u operands; at most %d are supported", e.n, MAX_OPERANDS);
		return;
	}
	for (uint32_t i = 0; i < e.n; i++)
		e.in[i].t = f_in(f, i);
	read_equation(&e);
	for (uint32_t i = 0; i < e.n && !f->failed; i++)
		take_diagonals(&e, &e.in[i]);
	if (!f->failed)
		settle_extents(&e);
	if (f->failed)
		return;
	struct labelled x = e.in[0];
	for (uint32_t i = 1; i < e.n && !f->failed; i++) {
		needed_after(&e, i, needed);
		sum_lone(&e, &x, needed);
		char mine[2 * MAX_RANK + 128];
		needed_after(&e, i + 1, needed);
		size_t n = strlen(needed), m = strlen(x.label);
		memcpy(mine, needed, n);
		memcpy(mine + n, x.label, m + 1);
		sum_lone(&e, &e.in[i], mine);
		x = join(&e, x, e.in[i], needed);
	}
	sum_lone(&e, &x, e.out);
	if (!f->failed && strlen(x.label) != strlen(e.out))
		f_fail(f, "attribute 'equation' repeats a letter of the result");
	if (!f->failed) {
		struct shape s = {0};
		for (const char *p = e.out; *p; p++)
			s.dim[s.rank++] = e.extent[(int)*p];
		f_out(f, 0, b_reshape(f, grouped(&e, &x, (const char *const[]){e.out}, 1), &s));
	}
}
