/* kernels/tir/tensor.c: is a nest what an instruction computes (tensor.def)?  By extents, by what each loop
 * counts in each index, by types and scopes: one loop for each iterator of the row, in any order. */
#include "verify_int.h"

#include <string.h>

#define ANY (1U << SCOPE_reg | 1U << SCOPE_local | 1U << SCOPE_shared | 1U << SCOPE_pack | 1U << SCOPE_global)
#define SPREAD (1U << SCOPE_spread)
#define SHARED (1U << SCOPE_shared)
#define OF(TYPE, AT, SCOPES)                                                                                 \
	{                                                                                                    \
		DT_##TYPE, AT, SCOPES                                                                        \
	}
static const struct tensor_row rows[INTRIN_COUNT] = {
#define TENSOR(N, COMB, TEAM, ITERS, ...)                                                                    \
	[INTRIN_##N] = {.comb = COMB_##COMB, .team = BIND_##TEAM, .iters = ITERS, .of = {__VA_ARGS__}},
#include "tensor.def"
#undef TENSOR
};

const struct tensor_row *
tensor_row_of(uint32_t intrin)
{
	return intrin < INTRIN_COUNT && rows[intrin].iters ? &rows[intrin] : NULL;
}

int64_t
tensor_extent(const struct tensor_row *t, char iter)
{
	int64_t n = 0;

	for (const char *s = strchr(t->iters, iter) + 1; *s >= '0' && *s <= '9'; s++)
		n = 10 * n + (*s - '0');
	return n;
}

uint32_t
tensor_arg(const struct tensor_row *t, uint32_t of)
{
	uint32_t n = of;

	for (uint32_t k = 0; k < of; k++)
		n += strlen(t->of[k].at) > 1;
	return n;
}

int64_t
tensor_element(int64_t i, int64_t j, int64_t row)
{
	return row > 0 ? i * row + j : -row * (2 * (i / 8) + j % 2) + 4 * (i % 8) + j / 2;
}

/* ---- a nest and a row ------------------------------------------------------------------------------ */
enum { MOST_ITERS = 4 };
struct match {
	const struct tir *p;
	const struct tensor_row *t;
	const struct st *instance;
	st_id loop[MOST_ITERS]; /* of the nest, outermost first */
	uint32_t n;
	char iter[MOST_ITERS + 1]; /* the row's iterator that each loop is */
	struct {
		buf_id buf;
		ixv_id at; /* over the loops */
	} of[TENSOR_OFS];
	const char *rule, *why;
};

static bool
differs(struct match *m, const char *rule, const char *why)
{
	m->rule = rule;
	m->why = why;
	return false;
}

/* The loop, and each its parent's only child, around one instance. */
static bool
find_nest(struct match *m, st_id i)
{
	const struct tir *p = m->p;
	int64_t from, to;

	for (; p->st[i].op == ST_for && m->n < MOST_ITERS; i++) {
		if (i + 1 >= p->st[i].end || p->st[i + 1].end != p->st[i].end)
			return differs(m, "nest", "a loop holds more than one statement");
		if (!ix_is_const(p->tx, p->st[i].from, &from) || !ix_is_const(p->tx, p->st[i].to, &to))
			return differs(m, "extent", "a loop's bounds hang on another loop");
		if (m->n && p->st[i].bind != BIND_serial)
			return differs(m, "binding", "a loop inside is bound");
		m->loop[m->n++] = i;
	}
	m->instance = &p->st[i];
	if (m->instance->op != ST_block || m->instance->n_guard)
		return differs(m, "nest", "not loops around one instance without a guard");
	return true;
}

/* No loop over lanes around what all lanes of a warp do together. */
static bool
stands_right(struct match *m)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(m->p, m->loop[0], path);

	for (uint32_t k = 0; k < n; k++) {
		const struct st *s = &m->p->st[path[k]];

		if (s->op == ST_for && s->bind == BIND_lane && m->t->team == BIND_warp)
			return differs(m, "team", "all lanes of a warp come to it, not each by itself");
	}
	return true;
}

/* A read, cast to the result's type where it has another. */
static bool
find_factor(struct match *m, uint32_t of, ex_id e)
{
	struct ex n = *ex_get(m->p->tx, e);

	if (n.kind == EX_MAP && n.prim == PRIM_cast && n.type == m->t->of[0].type)
		n = *ex_get(m->p->tx, n.arg[0]);
	m->of[of].buf = n.tensor;
	m->of[of].at = n.at;
	return n.kind == EX_READ && n.type == m->t->of[of].type;
}

static bool
find_factors(struct match *m, bool swapped)
{
	const struct tir_block *b = &m->p->blk[m->instance->ref];
	const struct ex v = *ex_get(m->p->tx, b->value[0]);

	m->of[0].buf = b->out[0];
	m->of[0].at = b->at[0];
	if (b->comb != m->t->comb || b->n_out != 1 || v.kind != EX_MAP || v.prim != PRIM_mul ||
	    m->p->buf[b->out[0]].type != m->t->of[0].type || !find_factor(m, 1, v.arg[swapped]) ||
	    !find_factor(m, 2, v.arg[!swapped]))
		return differs(m, "value", "the block joins nothing that the instruction joins");
	if (m->of[0].buf == m->of[1].buf || m->of[0].buf == m->of[2].buf)
		return differs(m, "value", "a factor lies in the result's buffer");
	return true;
}

static bool
takes_buffer(struct match *m, uint32_t of)
{
	const struct tir_buf *b = &m->p->buf[m->of[of].buf];

	if (!(m->t->of[of].scopes & 1U << b->scope))
		return differs(m, "scope", "a buffer is not where the instruction takes it from");
	if (b->fold || b->layout != IXV_NONE || b->swizzle.bits)
		return differs(m, "layout", "a buffer's rows do not lie one behind the other");
	if ((size_t)b->rank < strlen(m->t->of[of].at))
		return differs(m, "indices", "a buffer has fewer dimensions than the instruction counts");
	return true;
}

/* The place over the nest's loops. */
static ixv_id
bound_place(const struct match *m, uint32_t of)
{
	const struct tir_block *b = &m->p->blk[m->instance->ref];
	struct ixv at = ixv_get(m->p->tx, m->instance->at);
	uint32_t n = tx_n_axes(m->p->tx);
	ix_id *to = NEW_ARRAY(m->p->arena, ix_id, n);
	struct tx_subst sub = {.to = to, .n = n};

	memset(to, 0xff, n * sizeof(*to));
	for (uint32_t k = 0; k < b->n_iter; k++)
		to[m->p->iter[b->iter0 + k].id] = at.i[k];
	return ixv_subst(m->p->tx, &sub, m->of[of].at);
}

/* Does each loop count one by one the dimension that its iterator does, and no other? */
static bool
counts_right(const struct match *m, uint32_t of)
{
	const char *letters = m->t->of[of].at;
	struct ixv v = ixv_get(m->p->tx, m->of[of].at);
	const uint32_t first = v.n - (uint32_t)strlen(letters);

	for (uint32_t d = 0; d < v.n; d++)
		for (uint32_t k = 0; k < m->n; k++) {
			int64_t coef;

			if (!ix_coef(m->p->tx, v.i[d], m->p->st[m->loop[k]].axis, &coef) ||
			    coef != (d >= first && letters[d - first] == m->iter[k]))
				return false;
		}
	return true;
}

static int64_t
trips(const struct match *m, uint32_t k)
{
	const struct st *s = &m->p->st[m->loop[k]];

	return ix_get(m->p->tx, s->to)->hi - ix_get(m->p->tx, s->from)->lo;
}

/* Gives loops k .. n - 1 iterators that are left; each order is tried. */
static bool
assign(struct match *m, uint32_t k)
{
	if (k == m->n) {
		for (uint32_t of = 0; of < TENSOR_OFS; of++)
			if (!counts_right(m, of))
				return false;
		return true;
	}
	for (const char *s = m->t->iters; *s; s++) {
		if (*s < 'a' || *s > 'z' || strchr(m->iter, *s) || tensor_extent(m->t, *s) != trips(m, k))
			continue;
		m->iter[k] = *s;
		if (assign(m, k + 1))
			return true;
		m->iter[k] = 0;
	}
	return false;
}

static bool
fits(struct match *m, bool swapped)
{
	uint32_t n = 0;

	for (const char *s = m->t->iters; *s; s++)
		n += *s >= 'a' && *s <= 'z';
	if (!find_factors(m, swapped))
		return false;
	for (uint32_t of = 0; of < TENSOR_OFS; of++) {
		if (!takes_buffer(m, of))
			return false;
		m->of[of].at = bound_place(m, of);
	}
	memset(m->iter, 0, sizeof(m->iter));
	if (n != m->n || !assign(m, 0))
		return differs(m, "indices", "the loops do not count what the instruction counts");
	return true;
}

/* Each place at the begin of all loops, with the length of a row behind it where there are rows. */
static void
make_args(const struct match *m, ex_id *arg)
{
	struct tx *x = m->p->tx;
	uint32_t n = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(m->p->arena, ix_id, n);
	struct tx_subst sub = {.to = to, .n = n};

	memset(to, 0xff, n * sizeof(*to));
	for (uint32_t k = 0; k < m->n; k++)
		to[m->p->st[m->loop[k]].axis] = m->p->st[m->loop[k]].from;
	for (uint32_t of = 0; of < TENSOR_OFS; of++) {
		const struct tir_buf *b = &m->p->buf[m->of[of].buf];
		uint32_t k = tensor_arg(m->t, of);

		arg[k] = ex_load(x, b->type, m->of[of].buf, ixv_subst(x, &sub, m->of[of].at));
		if (strlen(m->t->of[of].at) > 1)
			arg[k + 1] = ex_whole(x, DT_i64, b->dim[b->rank - 1]);
	}
}

bool
tensor_match(
    const struct tir *p, st_id loop, enum intrin what, ex_id *arg, const char **rule, const char **why)
{
	struct match m = {.p = p, .t = tensor_row_of(what)};
	bool ok = m.t || differs(&m, "instruction", "it computes no nest");

	ok = ok &&
	    (!tx_is_strict(p->tx) || !dtype_is_float(m.t->of[0].type) ||
		differs(&m, "sum", "a strict sum keeps its order and its roundings"));
	ok = ok && find_nest(&m, loop) && stands_right(&m) && (fits(&m, false) || fits(&m, true));
	if (ok)
		make_args(&m, arg);
	*rule = m.rule;
	*why = m.why;
	return ok;
}

bool
tensors_match(const struct tir *p, struct err *e)
{
	for (st_id i = 0; i < p->n_st; i++) {
		ex_id arg[TENSOR_ARGS];
		const char *rule, *why;

		if (p->st[i].op != ST_for || p->st[i].bind != BIND_call)
			continue;
		if (p->level != TIR_NEST)
			return broken(e, "call", p, i, "a nest that should have become an instruction");
		if (!tensor_match(p, i, (enum intrin)p->st[i].ref, arg, &rule, &why))
			return broken(e, rule, p, i, why);
	}
	return true;
}
