/* kernels/tir/read_expr.c: words, index expressions and scalar expressions from text.  The text is hostile:
 * numbers, sizes, depth and types are checked here, before the builders, which trust. */
#include "text_int.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { READ_DEPTH = 200, READ_LEAVES = 40, READ_INDICES = IXV_MAX };
static const int64_t READ_MAX_INDEX = (int64_t)1 << 45; /* so that no sum of terms overflows */

/* ---- words ------------------------------------------------------------------------------------ */
void
cur_fail(struct cursor *c, const char *what)
{
	if (!c->failed)
		(void)(err_set)(c->e, ERR_FORMAT, "line %u: %s, at '%.*s'", c->line, what,
		    (int)MIN_OF(c->s.n, (size_t)40), c->s.p);
	c->failed = true;
}

void
cur_space(struct cursor *c)
{
	while (c->s.n && *c->s.p == ' ') {
		c->s.p++;
		c->s.n--;
	}
}

static bool
is_name(const struct cursor *c, size_t at)
{
	char ch = at < c->s.n ? c->s.p[at] : ' ';

	if (ch == '.') /* "i0..5" */
		return at + 1 < c->s.n && isalnum((unsigned char)c->s.p[at + 1]);
	return isalnum((unsigned char)ch) || ch == '_' || ch == '\'' || ch == '~';
}

bool
cur_take(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	cur_space(c);
	if (c->failed || c->s.n < n || memcmp(c->s.p, word, n) != 0)
		return false;
	if (isalpha((unsigned char)word[n - 1]) && is_name(c, n)) /* a longer word */
		return false;
	c->s.p += n;
	c->s.n -= n;
	return true;
}

void
cur_want(struct cursor *c, const char *word)
{
	char what[48];

	if (cur_take(c, word) || c->failed)
		return;
	(void)snprintf(what, sizeof(what), "'%s' is missing", word);
	cur_fail(c, what);
}

struct str
cur_name(struct cursor *c)
{
	struct str s;

	cur_space(c);
	s = (struct str){c->s.p, 0};
	while (is_name(c, s.n))
		s.n++;
	if (s.n == 0 || s.n > NAME_MAX_BYTES)
		cur_fail(c, "a name is missing, or too long");
	if (c->failed)
		return STR("");
	c->s.p += s.n;
	c->s.n -= s.n;
	return s;
}

int64_t
cur_int(struct cursor *c)
{
	bool minus = cur_take(c, "-");
	struct str s;
	int64_t v = 0;

	cur_space(c);
	s = (struct str){c->s.p, 0};
	while (s.n < c->s.n && isdigit((unsigned char)s.p[s.n]))
		s.n++;
	if (!str_to_i64(s, &v) || v > READ_MAX_VALUE)
		cur_fail(c, "a number is missing, or too large");
	if (c->failed)
		return 0;
	c->s.p += s.n;
	c->s.n -= s.n;
	return minus ? -v : v;
}

/* ---- index expressions ---------------------------------------------------------------------------- */
/* One expression being read: its leaves bound the terms of every sum that the builders can make of it. */
struct reader {
	struct cursor *c;
	struct names *n;
	uint32_t leaves, depth;
};

static ix_id sum(struct reader *r);
static ex_id scalar(struct reader *r);

static bool
enter(struct reader *r)
{
	if (++r->depth > READ_DEPTH || ++r->n->n_nodes > TIR_READ_NODES)
		cur_fail(r->c, "an expression is too large");
	return !r->c->failed;
}

static int64_t
largest(const struct reader *r, ix_id i)
{
	const struct ix *n = ix_get(r->n->p->tx, i);

	return MAX_OF(n->hi < 0 ? -n->hi : n->hi, n->lo < 0 ? -n->lo : n->lo);
}

static ix_id
scaled(struct reader *r, ix_id i, int64_t c)
{
	if (!r->c->failed && c && largest(r, i) > READ_MAX_INDEX / (c < 0 ? -c : c))
		cur_fail(r->c, "an index is too large");
	return r->c->failed ? i : ix_mulc(r->n->p->tx, i, c);
}

static ix_id
index_name(struct reader *r)
{
	struct str name = cur_name(r->c);

	if (++r->leaves > READ_LEAVES)
		cur_fail(r->c, "an index has too many terms");
	for (uint32_t k = r->n->n_axis; k-- > 0 && !r->c->failed;)
		if (str_eq(r->n->axis[k].name, name))
			return ix_axis(r->n->p->tx, r->n->axis[k].axis);
	cur_fail(r->c, "the index is bound by no loop around it");
	return ix_const(r->n->p->tx, 0);
}

static ix_id
value_index(struct reader *r)
{
	ex_id e = scalar(r);
	int64_t lo, hi;

	cur_want(r->c, ",");
	lo = cur_int(r->c);
	cur_want(r->c, ",");
	hi = cur_int(r->c);
	cur_want(r->c, ")");
	if (!r->c->failed && (hi < lo || ex_get(r->n->p->tx, e)->type != DT_i64))
		cur_fail(r->c, "an index out of a value: it is no i64, or its range is empty");
	if (++r->leaves > READ_LEAVES)
		cur_fail(r->c, "an index has too many terms");
	return r->c->failed ? ix_const(r->n->p->tx, 0) : ix_value(r->n->p->tx, e, lo, hi);
}

static ix_id
factor(struct reader *r)
{
	struct tx *x = r->n->p->tx;
	ix_id i = ix_const(x, 0), j;

	if (!enter(r))
		return i;
	cur_space(r->c);
	if (r->c->s.n && isdigit((unsigned char)*r->c->s.p)) {
		int64_t v = cur_int(r->c);

		i = cur_take(r->c, "*") ? scaled(r, factor(r), v) : ix_const(x, v);
	} else if (cur_take(r->c, "(")) {
		i = sum(r);
		cur_want(r->c, ")");
	} else if (cur_take(r->c, "value(")) {
		i = value_index(r);
	} else if (r->c->s.n >= 4 &&
	    (memcmp(r->c->s.p, "min(", 4) == 0 || memcmp(r->c->s.p, "max(", 4) == 0)) {
		bool is_min = cur_take(r->c, "min(") || !cur_take(r->c, "max(");

		i = sum(r);
		cur_want(r->c, ",");
		j = sum(r);
		cur_want(r->c, ")");
		if (!r->c->failed)
			i = is_min ? ix_min(x, i, j) : ix_max(x, i, j);
	} else {
		i = index_name(r);
	}
	r->depth--;
	return i;
}

static ix_id
product(struct reader *r)
{
	ix_id i = factor(r);

	for (;;) {
		bool is_div = cur_take(r->c, "div");

		if (!is_div && !cur_take(r->c, "mod"))
			return i;
		int64_t c = cur_int(r->c);

		if (c <= 0)
			cur_fail(r->c, "a divisor is not positive");
		if (r->c->failed)
			return i;
		i = is_div ? ix_div(r->n->p->tx, i, c) : ix_mod(r->n->p->tx, i, c);
	}
}

static ix_id
sum(struct reader *r)
{
	struct tx *x = r->n->p->tx;
	bool minus = cur_take(r->c, "-");
	ix_id i = product(r), j;

	if (minus)
		i = scaled(r, i, -1);
	while (!r->c->failed) {
		minus = cur_take(r->c, "-");
		if (!minus && !cur_take(r->c, "+"))
			break;
		j = product(r);
		if (minus)
			j = scaled(r, j, -1);
		if (!r->c->failed && largest(r, i) > READ_MAX_INDEX)
			cur_fail(r->c, "an index is too large");
		if (!r->c->failed)
			i = ix_add(x, i, j);
	}
	return i;
}

ix_id
read_ix(struct cursor *c, struct names *n)
{
	struct reader r = {.c = c, .n = n};

	return sum(&r);
}

static ixv_id
tuple(struct reader *r, const char *close)
{
	ix_id i[READ_INDICES];
	uint32_t n = 0;

	if (cur_take(r->c, close))
		return ixv_make(r->n->p->tx, 0, i);
	do {
		if (n == READ_INDICES)
			cur_fail(r->c, "too many indices");
		r->leaves = 0;
		if (!r->c->failed)
			i[n++] = sum(r);
	} while (cur_take(r->c, ","));
	cur_want(r->c, close);
	return ixv_make(r->n->p->tx, n, i);
}

ixv_id
read_tuple(struct cursor *c, struct names *n, const char *close)
{
	struct reader r = {.c = c, .n = n};

	return tuple(&r, close);
}

static struct tir_guard
guard(struct reader *r)
{
	struct tir_guard g = {.lo = cur_int(r->c)};

	cur_want(r->c, "<=");
	r->leaves = 0;
	g.i = sum(r);
	cur_want(r->c, "<");
	g.hi = cur_int(r->c);
	return g;
}

struct tir_guard
read_guard(struct cursor *c, struct names *n)
{
	struct reader r = {.c = c, .n = n};

	return guard(&r);
}

buf_id
read_buf(struct cursor *c, const struct names *n)
{
	struct str name;

	cur_want(c, "%");
	name = cur_name(c);
	for (buf_id b = 0; b < n->p->n_buf && !c->failed; b++)
		if (str_is(name, n->p->buf[b].name))
			return b;
	cur_fail(c, "no such buffer");
	return 0;
}

/* ---- scalar expressions ------------------------------------------------------------------------------- */
static ex_id
constant(struct reader *r, enum dtype t)
{
	struct tx *x = r->n->p->tx;
	struct str s = {r->c->s.p, 0};
	double v = 0;
	int64_t w = 0;

	while (s.n < r->c->s.n && s.p[s.n] != ')')
		s.n++;
	if (!(dtype_is_float(t) ? str_to_f64(s, &v) : str_to_i64(s, &w)))
		cur_fail(r->c, "no constant of its type");
	if (r->c->failed)
		return ex_whole(x, t, 0);
	r->c->s.p += s.n;
	r->c->s.n -= s.n;
	cur_want(r->c, ")");
	return dtype_is_float(t) ? ex_real(x, t, v) : ex_whole(x, t, w);
}

static ex_id
guarded(struct reader *r)
{
	struct tir_guard g = guard(r);
	ex_id yes, no;

	cur_want(r->c, ",");
	yes = scalar(r);
	cur_want(r->c, ",");
	no = scalar(r);
	cur_want(r->c, ")");
	if (!r->c->failed && ex_get(r->n->p->tx, yes)->type != ex_get(r->n->p->tx, no)->type)
		cur_fail(r->c, "the arms of a guard differ in type");
	return r->c->failed ? yes : ex_guard(r->n->p->tx, g.i, g.lo, g.hi, yes, no);
}

/* A map's operands, checked as the primitive's row has it. */
static ex_id
map(struct reader *r, enum prim p, enum dtype to)
{
	struct tensor in[3] = {{0}}, out;
	const struct tensor *ptr[3] = {&in[0], &in[1], &in[2]};
	struct attrs at = {0};
	struct err why = {0};
	ex_id arg[3] = {0};
	uint32_t n = 0;

	do {
		if (n == 3)
			cur_fail(r->c, "too many operands");
		ex_id e = scalar(r);

		if (r->c->failed)
			return e;
		arg[n] = e;
		in[n].type = ex_get(r->n->p->tx, arg[n])->type;
		n++;
	} while (cur_take(r->c, ","));
	cur_want(r->c, ")");
	if (p == PRIM_cast)
		at_int(&at, ATTR_to, to);
	if (r->c->failed || (int)n != prim_info[p].n_in || !prim_result(p, ptr, n, &at, &out, &why)) {
		cur_fail(r->c, why.code ? why.msg : "the primitive takes another number of operands");
		return arg[0];
	}
	return ex_map(r->n->p->tx, p, out.type, n, arg);
}

static ex_id
load(struct reader *r)
{
	buf_id b = read_buf(r->c, r->n);
	const struct tir *p = r->n->p;
	ixv_id at;

	cur_want(r->c, "[");
	at = tuple(r, "]");
	if (!r->c->failed && ixv_get(p->tx, at).n != (uint32_t)p->buf[b].rank)
		cur_fail(r->c, "a read has one index a dimension");
	return r->c->failed ? ex_whole(p->tx, DT_i64, 0) : ex_load(p->tx, p->buf[b].type, b, at);
}

static bool
var_of(const struct reader *r, struct str name, uint32_t *out)
{
	int64_t v;

	if (name.n < 2 || name.p[0] != 'v' || !str_to_i64((struct str){name.p + 1, name.n - 1}, &v))
		return false;
	*out = (uint32_t)v;
	return v >= 0 && v < r->n->n_var && r->n->var_known[v];
}

static ex_id
call(struct reader *r, struct str name)
{
	struct tx *x = r->n->p->tx;
	enum dtype t;
	enum prim p;
	ex_id e;

	if (dtype_of_name(name, &t))
		return constant(r, t);
	if (str_is(name, "guard"))
		return guarded(r);
	if (str_is(name, "index")) {
		r->leaves = 0;
		e = ex_index(x, sum(r));
		cur_want(r->c, ")");
		return e;
	}
	if (str_starts(name, "cast.") && dtype_of_name((struct str){name.p + 5, name.n - 5}, &t))
		return map(r, PRIM_cast, t);
	if (prim_of_name(name, &p) && prim_info[p].class == CLASS_MAP && p != PRIM_cast)
		return map(r, p, DT_f32);
	cur_fail(r->c, "no such function of scalars");
	return ex_whole(x, DT_i64, 0);
}

static ex_id
scalar(struct reader *r)
{
	struct tx *x = r->n->p->tx;
	ex_id e = ex_whole(x, DT_i64, 0);
	struct str name;
	uint32_t v;

	if (!enter(r))
		return e;
	cur_space(r->c);
	if (r->c->s.n && *r->c->s.p == '%') {
		e = load(r);
	} else {
		name = cur_name(r->c);
		if (!r->c->failed && cur_take(r->c, "("))
			e = call(r, name);
		else if (!r->c->failed && var_of(r, name, &v))
			e = ex_var(x, r->n->var[v], v);
		else
			cur_fail(r->c, "no such value");
	}
	r->depth--;
	return e;
}

ex_id
read_ex(struct cursor *c, struct names *n)
{
	struct reader r = {.c = c, .n = n};

	return scalar(&r);
}
