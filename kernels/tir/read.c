/* kernels/tir/read.c: a loop program from text, line by line; statements by the rows of tir.def. */
#include "text_int.h"

#include <ctype.h>
#include <string.h>

enum { READ_BUFS = 1 << 12, READ_BLKS = 1 << 12, READ_VARS = 1 << 13, READ_GUARDS = 32 };
static const int64_t READ_ELEMENTS = (int64_t)1 << 40;

static const char *
kept(const struct names *n, struct str s)
{
	return str_dup(n->p->arena, s);
}

static int
word_of(struct cursor *c, const char *const *word, int n)
{
	for (int k = 0; k < n; k++)
		if (cur_take(c, word[k]))
			return k;
	return -1;
}

/* Opens a name until the reader goes back to fewer. */
static void
name_axis(struct cursor *c, struct names *n, struct str name, axis_id a)
{
	if (!c->failed && isdigit((unsigned char)*name.p))
		cur_fail(c, "a name begins with a digit");
	if (c->failed)
		return;
	GROW(n->p->arena, n->axis, n->n_axis, n->cap_axis);
	n->axis[n->n_axis++] = (struct axis_name){name, a};
}

/* ---- buffers --------------------------------------------------------------------------------------- */
static void
read_dims(struct cursor *c, struct tir_buf *b)
{
	int64_t n = 1;

	cur_want(c, "[");
	while (!c->failed && !cur_take(c, "]")) {
		if (b->rank == MAX_RANK)
			cur_fail(c, "a buffer has too many dimensions");
		if (b->rank)
			cur_want(c, ",");
		if (c->failed)
			return;
		b->dim[b->rank] = cur_int(c);
		if (b->dim[b->rank] < 1 || !try_mul_i64(n, b->dim[b->rank], &n) || n > READ_ELEMENTS)
			cur_fail(c, "an extent is not positive, or a buffer too large");
		b->rank++;
	}
}

static void
read_layout(struct cursor *c, struct names *n, struct tir_buf *b)
{
	uint32_t outer = n->n_axis;

	for (int d = 0; d < b->rank; d++) {
		if (d)
			cur_want(c, ",");
		b->place[d] = tx_axis(n->p->tx, AXIS_PAR, 0, b->dim[d] - 1, IX_NONE);
		name_axis(c, n, cur_name(c), b->place[d]);
	}
	cur_want(c, "to");
	b->layout = read_tuple(c, n, ")");
	n->n_axis = outer;
}

static void
read_maps(struct cursor *c, const struct tir_buf *from, struct tir_form *f)
{
	for (int m = MAP_none + 1; m < FORM_MAPS; m++)
		while (cur_take(c, form_map_info[m].name) && cur_take(c, "(")) {
			const int64_t d = cur_int(c);

			cur_want(c, ")");
			if (d < 0 || d >= from->rank || from->dim[d] != form_map_info[m].taps)
				cur_fail(c, "no dimension that the map fits");
			else
				f->map[d] = (enum form_map)m;
		}
}

/* "from(d0 < 3, d1 < 6, d2 < 8 of [3,24] wino4(0) at d1, 8*d0 + d2)"; wino4(0): mapped dimensions */
static void
read_form(struct cursor *c, struct names *n, struct tir_buf *b)
{
	struct tir_form *f = NEW(n->p->arena, struct tir_form);
	struct tir_buf from = {.rank = 0};
	uint32_t outer = n->n_axis;

	do {
		struct str name = cur_name(c);

		cur_want(c, "<");
		int64_t extent = cur_int(c);

		if (f->rank == MAX_RANK || extent < 1 || extent > READ_ELEMENTS)
			cur_fail(c, "a form has too many dimensions, or an extent that is none");
		if (c->failed)
			return;
		f->place[f->rank] = tx_axis(n->p->tx, AXIS_PAR, 0, extent - 1, IX_NONE);
		name_axis(c, n, name, f->place[f->rank++]);
	} while (cur_take(c, ","));
	cur_want(c, "of");
	read_dims(c, &from);
	read_maps(c, &from, f);
	cur_want(c, "at");
	f->at = read_tuple(c, n, ")");
	f->from_rank = from.rank;
	memcpy(f->from_dim, from.dim, sizeof(f->from_dim));
	b->form = f;
	n->n_axis = outer;
}

static void
read_table(struct cursor *c, const struct names *n, struct tir_buf *b)
{
	int64_t count = 1, w = 0;
	double v = 0;
	void *data;

	for (int d = 0; d < b->rank; d++)
		count *= b->dim[d];
	if (count > SPEC_MAX_CONST)
		cur_fail(c, "a table is too large");
	if (c->failed)
		return;
	b->data = data = arena_alloc(n->p->arena, (size_t)count * dtype_size(b->type));
	for (int64_t i = 0; i < count && !c->failed; i++) {
		struct str s = str_cut(&c->s, ' ');

		if (dtype_is_float(b->type) ? !str_to_f64(s, &v) : !str_to_i64(s, &w))
			cur_fail(c, "no constant of the table's type");
		else if (dtype_is_float(b->type))
			elem_set(b->type, data, i, v);
		else
			elem_set_int(b->type, data, i, w);
	}
}

static void
read_extras(struct cursor *c, struct names *n, struct tir_buf *b)
{
	for (;;) {
		if (cur_take(c, "layout(")) {
			read_layout(c, n, b);
		} else if (cur_take(c, "from(")) {
			read_form(c, n, b);
		} else if (cur_take(c, "swizzle(")) {
			b->swizzle.bits = (uint8_t)(cur_int(c) & 15);
			cur_want(c, ",");
			b->swizzle.base = (uint8_t)(cur_int(c) & 31);
			cur_want(c, ",");
			b->swizzle.shift = (uint8_t)(cur_int(c) & 31);
			cur_want(c, ")");
		} else if (cur_take(c, "align")) {
			b->align = (uint32_t)cur_int(c);
		} else if (cur_take(c, "versions")) {
			b->versions = (uint32_t)cur_int(c);
		} else if (cur_take(c, "fold(")) {
			b->fold_dim = (uint32_t)cur_int(c);
			cur_want(c, ",");
			b->fold = cur_int(c);
			cur_want(c, ")");
		} else if (cur_take(c, "in")) {
			b->alias = read_buf(c, n);
			cur_want(c, "+");
			b->offset = cur_int(c);
		} else {
			return;
		}
		if (c->failed)
			return;
	}
}

static void
read_buf_line(struct cursor *c, struct names *n)
{
	static const char *const role[] = {"operand", "result", "table", "temp"};
	struct tir_buf b = {.layout = IXV_NONE, .alias = BUF_NONE};
	struct str name;
	int k;

	cur_want(c, "%");
	name = cur_name(c);
	for (buf_id i = 0; i < n->p->n_buf; i++)
		if (str_is(name, n->p->buf[i].name))
			cur_fail(c, "two buffers of one name");
	b.name = kept(n, name);
	cur_space(c);
	struct str type = {c->s.p, 0};

	while (type.n < c->s.n && isalnum((unsigned char)type.p[type.n]))
		type.n++;
	if (!dtype_of_name(type, &b.type) || n->p->n_buf == READ_BUFS)
		cur_fail(c, "no type, or too many buffers");
	if (c->failed)
		return;
	c->s.p += type.n;
	c->s.n -= type.n;
	read_dims(c, &b);
	k = word_of(c, tir_scope_name, SCOPE_COUNT);
	b.scope = k < 0 ? SCOPE_global : (enum tir_scope)k;
	int r = word_of(c, role, COUNT_OF(role));

	if (k < 0 || r < 0)
		cur_fail(c, "a buffer has a scope and a role");
	b.role = (enum buf_role)(r < 0 ? 0 : r);
	if (b.role == BUF_OPERAND || b.role == BUF_RESULT)
		b.index = (uint32_t)cur_int(c);
	read_extras(c, n, &b);
	if (b.role == BUF_TABLE) {
		cur_want(c, "=");
		cur_space(c);
		read_table(c, n, &b);
	}
	if (!c->failed)
		tir_add_buf(n->p, &b);
}

/* ---- blocks ------------------------------------------------------------------------------------------ */
static void
read_iters(struct cursor *c, struct names *n, struct tir_block *b)
{
	b->iter0 = n->p->n_iter;
	while (!c->failed && !cur_take(c, ")")) {
		struct str name;
		int64_t extent;

		if (b->n_iter)
			cur_want(c, ",");
		name = cur_name(c);
		cur_want(c, "<");
		extent = cur_int(c);
		if (extent < 1 || b->n_iter == IXV_MAX)
			cur_fail(c, "an iterator's extent is not positive, or there are too many");
		enum iter_kind kind = cur_take(c, "reduce") ? ITER_REDUCE
		    : cur_take(c, "carried")                ? ITER_CARRIED
							    : ITER_SPACE;

		if (c->failed)
			return;
		name_axis(c, n, name, tir_add_iter(n->p, kept(n, name), kind, extent));
		b->n_iter++;
	}
}

static void
read_comb(struct cursor *c, struct tir_block *b)
{
	b->comb = COMB_NONE;
	for (int k = 0; k < COMB_COUNT && b->comb == COMB_NONE; k++)
		if (cur_take(c, comb_info[k].name))
			b->comb = (enum comb)k;
	cur_want(c, "=");
	if (b->comb != COMB_NONE && comb_info[b->comb].arity != b->n_out)
		cur_fail(c, "another number of results than the comb has");
}

static void
read_blk_line(struct cursor *c, struct names *n)
{
	struct tir_block b = {0};
	struct str name = cur_name(c);
	uint32_t outer = n->n_axis;

	if (tir_find_blk(n->p, name) != BLK_NONE || n->p->n_blk == READ_BLKS)
		cur_fail(c, "two blocks of one name, or too many");
	b.name = kept(n, name);
	cur_want(c, "(");
	read_iters(c, n, &b);
	cur_want(c, ":");
	do {
		if (b.n_out == TIR_OUTS)
			cur_fail(c, "a block has too many results");
		if (c->failed)
			return;
		b.out[b.n_out] = read_buf(c, n);
		cur_want(c, "[");
		b.at[b.n_out] = read_tuple(c, n, "]");
		b.n_out++;
	} while (cur_take(c, ","));
	read_comb(c, &b);
	for (uint32_t k = 0; k < b.n_out; k++) {
		if (k)
			cur_want(c, ",");
		b.value[k] = read_ex(c, n);
	}
	n->n_axis = outer;
	if (!c->failed)
		tir_add_blk(n->p, &b);
}

/* ---- statements -------------------------------------------------------------------------------------- */
static void
read_guards(struct cursor *c, struct names *n, struct st *s)
{
	struct tir_guard g[READ_GUARDS];
	uint32_t k = 0;

	do {
		if (k == READ_GUARDS)
			cur_fail(c, "too many guards");
		if (!c->failed)
			g[k++] = read_guard(c, n);
	} while (cur_take(c, "and"));
	if (!c->failed)
		tir_guards(n->p, s, k, g);
}

static void
read_args(struct cursor *c, struct names *n, struct st *s)
{
	struct tir *p = n->p;

	s->arg0 = p->n_arg;
	for (const char *a = intrin_info[s->ref].args; *a; a++) {
		if (a != intrin_info[s->ref].args)
			cur_want(c, ",");
		GROW(p->arena, p->arg, p->n_arg, p->cap_arg);
		p->arg[p->n_arg++] = read_ex(c, n);
		s->n_arg++;
	}
}

static void
read_let(struct cursor *c, struct st *s)
{
	struct str name = cur_name(c);
	int64_t v = -1;

	if (name.n < 2 || name.p[0] != 'v' || !str_to_i64((struct str){name.p + 1, name.n - 1}, &v) ||
	    v < 0 || v >= READ_VARS)
		cur_fail(c, "a value's name is v and a number");
	s->ref = (uint32_t)MAX_OF(v, (int64_t)0);
}

static void
know_var(struct names *n, uint32_t v, enum dtype t)
{
	while (n->n_var <= v) {
		uint32_t cap = n->cap_var;

		GROW(n->p->arena, n->var, n->n_var, n->cap_var);
		GROW(n->p->arena, n->var_known, n->n_var, cap);
		n->var_known[n->n_var++] = false;
	}
	n->var[v] = t;
	n->var_known[v] = true;
	n->p->n_var = MAX_OF(n->p->n_var, v + 1);
}

static void
read_intrin(struct cursor *c, struct st *s)
{
	s->ref = INTRIN_COUNT;
	for (uint32_t k = 0; k < INTRIN_COUNT; k++)
		if (cur_take(c, intrin_info[k].name))
			s->ref = k;
	if (s->ref == INTRIN_COUNT)
		cur_fail(c, "no such instruction");
}

static void
read_bind(struct cursor *c, struct st *s)
{
	int k = word_of(c, tir_bind_name + 1, BIND_COUNT - 1);

	s->bind = k < 0 ? BIND_serial : (enum tir_bind)(k + 1);
	if (s->bind == BIND_pipeline)
		s->depth = (uint32_t)cur_int(c);
	if (s->bind == BIND_call)
		read_intrin(c, s);
}

/* A letter of tir.def; `name` is kept until the axis' range is known. */
static void
read_field(struct cursor *c, struct names *n, struct st *s, char field, struct str *name)
{
	int k;

	switch (field) {
	case 'N':
		*name = cur_name(c);
		return;
	case 'F':
		s->from = read_ix(c, n);
		return;
	case 'T':
		s->to = read_ix(c, n);
		return;
	case 'B':
		read_bind(c, s);
		return;
	case 'W':
		if (!cur_take(c, "where"))
			return;
		/* fall through */
	case 'G':
		read_guards(c, n, s);
		return;
	case 'R':
		s->ref = read_buf(c, n);
		return;
	case 'K':
		s->ref = tir_find_blk(n->p, cur_name(c));
		if (s->ref == BLK_NONE)
			cur_fail(c, "no such statement or block");
		return;
	case 'C':
		read_intrin(c, s);
		return;
	case 'P':
		k = word_of(c, tir_scope_name, SCOPE_COUNT);
		s->ref = (uint32_t)MAX_OF(k, 0);
		if (k < 0)
			cur_fail(c, "no such scope");
		return;
	case 'V':
		read_let(c, s);
		return;
	case 'A':
		s->at = read_tuple(c, n, s->op == ST_block ? ")" : "]");
		return;
	case 'X':
		s->value = read_ex(c, n);
		return;
	case 'L':
		if (!c->failed)
			read_args(c, n, s);
		return;
	default:
		bug("a field '%c' in tir.def", field);
	}
}

static enum st_op
op_of(struct cursor *c)
{
	struct cursor look = *c;

	for (int op = 0; op < ST_COUNT; op++)
		if (op != ST_block && cur_take(&look, st_info[op].name) && look.s.n && *look.s.p == ' ')
			return (enum st_op)op;
	return ST_block;
}

static void
bind_axis(struct cursor *c, struct names *n, struct st *s, struct str name)
{
	struct tx *x = n->p->tx;
	int64_t lo, hi;

	if (c->failed)
		return;
	lo = ix_get(x, s->from)->lo;
	hi = s->op == ST_for ? ix_get(x, s->to)->hi - 1 : ix_get(x, s->from)->hi;
	if (lo > hi)
		cur_fail(c, "a loop that never runs");
	if (c->failed)
		return;
	s->name = kept(n, name);
	s->axis = tx_axis(x, AXIS_OUTER, lo, hi, IX_NONE);
	name_axis(c, n, name, s->axis);
}

/* What stands between fields of a row: spaces, a bracket that a tuple has taken with it, or a word. */
static const char *
read_literal(struct cursor *c, const char *t)
{
	char word[16];
	size_t n = 0;

	if (*t == ' ' || *t == ']')
		return t + 1;
	if (*t == ')' && t[1] == 'W')
		return t + 1;
	while (t[n] && t[n] != ' ' && !isupper((unsigned char)t[n]) && n + 1 < sizeof(word)) {
		word[n] = t[n];
		n++;
	}
	word[n] = 0;
	cur_want(c, word);
	return t + n;
}

static void
read_st_line(struct cursor *c, struct names *n)
{
	struct st s = {.op = op_of(c)};
	struct str name = {0};

	if (n->p->n_st == TIR_READ_STATEMENTS || n->p->n_open == TIR_DEPTH)
		cur_fail(c, "too many statements, or too deep");
	for (const char *t = st_info[s.op].text; *t && !c->failed;) {
		if (isupper((unsigned char)*t))
			read_field(c, n, &s, *t++, &name);
		else
			t = read_literal(c, t);
	}
	if (cur_take(c, "@")) {
		s.stage = (uint8_t)(cur_int(c) & 255);
		cur_want(c, ".");
		s.order = (uint8_t)(cur_int(c) & 255);
	}
	if (st_has(s.op, 'N'))
		bind_axis(c, n, &s, name);
	if (c->failed)
		return;
	if (s.op == ST_let)
		know_var(n, s.ref, ex_get(n->p->tx, s.value)->type);
	tir_add(n->p, s);
}

/* ---- lines -------------------------------------------------------------------------------------------- */
/* Names that were open where each body began. */
struct levels {
	uint32_t n_axis[TIR_DEPTH + 1];
};

static void
read_line(struct cursor *c, struct names *n, struct levels *l)
{
	size_t indent = 0;

	while (indent < c->s.n && c->s.p[indent] == ' ')
		indent++;
	if (indent % 2 || indent / 2 > n->p->n_open)
		cur_fail(c, "indented as no statement around it asks for");
	while (!c->failed && n->p->n_open > indent / 2) {
		tir_close(n->p);
		n->n_axis = l->n_axis[n->p->n_open];
	}
	if (c->failed)
		return;
	if (cur_take(c, "buf") && n->p->n_st == 0 && n->p->n_blk == 0)
		read_buf_line(c, n);
	else if (cur_take(c, "block") && n->p->n_st == 0)
		read_blk_line(c, n);
	else {
		uint32_t open = n->p->n_open, axes = n->n_axis;

		read_st_line(c, n);
		if (n->p->n_open > open)
			l->n_axis[open] = axes;
	}
	cur_space(c);
	if (c->s.n)
		cur_fail(c, "more than the statement");
}

static bool
read_head(struct cursor *c, struct tir *p, struct arena *a)
{
	struct tx *x = tx_make(a);

	cur_want(c, "tir");
	bool nest = cur_take(c, "nest");

	if (!nest)
		cur_want(c, "flat");
	tx_set_strict(x, cur_take(c, "strict"));
	if (c->s.n)
		cur_fail(c, "more than a head");
	tir_begin(p, a, x, nest ? TIR_NEST : TIR_FLAT);
	return !c->failed;
}

bool
tir_read(struct tir *p, struct arena *a, struct str text, struct err *e)
{
	struct cursor c = {.e = e};
	struct names n = {.p = p};
	struct levels l = {{0}};

	if (text.n > TIR_READ_BYTES)
		return err_set(e, ERR_LIMIT, "a loop program of more than %d bytes", TIR_READ_BYTES);
	do {
		c.line++;
		c.s = str_cut(&text, '\n');
	} while (text.n && (c.s.n == 0 || *c.s.p == '#'));
	if (!read_head(&c, p, a))
		return false;
	while (text.n && !c.failed) {
		c.line++;
		c.s = str_cut(&text, '\n');
		if (c.s.n && *c.s.p != '#')
			read_line(&c, &n, &l);
	}
	while (p->n_open)
		tir_close(p);
	return !c.failed;
}
