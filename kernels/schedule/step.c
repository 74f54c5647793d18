/* kernels/schedule/step.c: a schedule as text, and what its primitives share. */
#include "step_int.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *operands;
	step_fn *fn;
} steps[] = {
#define STEP(N, OPERANDS, HELP) {#N, OPERANDS, step_##N},
#include "step.def"
#undef STEP
};
#define X(N) #N,
static const char *const tails[] = {STEP_TAILS(X)};
#undef X

/* ---- text --------------------------------------------------------------------------------------- */
static struct str
next_word(struct str *rest)
{
	struct str w;

	do
		w = str_cut(rest, ' ');
	while (w.n == 0 && rest->n);
	return w;
}

static int
word_of(struct str w, const char *const *words, int n)
{
	for (int k = 0; k < n; k++)
		if (str_is(w, words[k]))
			return k;
	return -1;
}

/* "3,1~2" */
static bool
read_runs(struct str w, struct step *s)
{
	while (w.n) {
		struct str one = str_cut(&w, ','), first = str_cut(&one, '~'), last = one.n ? one : first;
		int64_t a, b;

		if (s->n_run == MAX_RANK || !str_to_i64(first, &a) || !str_to_i64(last, &b) || a < 0 ||
		    b < a || b >= MAX_RANK)
			return false;
		s->run[s->n_run++] = (struct step_run){(int)a, (int)b};
	}
	return true;
}

static void
print_runs(struct strbuf *sb, const struct step *s)
{
	for (uint32_t k = 0; k < s->n_run; k++) {
		sb_addf(sb, "%c%d", k ? ',' : ' ', s->run[k].first);
		if (s->run[k].last > s->run[k].first)
			sb_addf(sb, "~%d", s->run[k].last);
	}
}

static bool
read_intrin(struct str w, struct step *s)
{
	for (uint32_t k = 0; k < INTRIN_COUNT; k++)
		if (str_is(w, intrin_info[k].name)) {
			s->intrin = (enum intrin)k;
			return true;
		}
	return false;
}

static bool
read_operand(struct str *rest, char kind, struct step *s, struct err *e)
{
	struct str w = next_word(rest);
	int k;

	switch (kind) {
	case 'L':
	case 'B':
	case 'R':
	case 'M':
		do {
			if (w.n == 0 || s->n_name == STEP_NAMES)
				return err_set(
				    e, ERR_FORMAT, "%s: a name is missing, or too many", steps[s->op].name);
			s->name[s->n_name++] = w;
			w = kind == 'M' ? next_word(rest) : (struct str){0};
		} while (w.n);
		return true;
	case 'N':
		return str_to_i64(w, &s->number[s->n_number++]) ||
		    err_set(e, ERR_FORMAT, "%s: a number is missing", steps[s->op].name);
	case 'I':
		return read_intrin(w, s) ||
		    err_set(e, ERR_FORMAT, "%s: no instruction '%.*s'", steps[s->op].name, STR_ARG(w));
	case 'Y':
		return dtype_of_name(w, &s->type) ||
		    err_set(e, ERR_FORMAT, "%s: no type '%.*s'", steps[s->op].name, STR_ARG(w));
	case 'V':
		return read_runs(w, s) ||
		    err_set(e, ERR_FORMAT, "%s: no dimensions '%.*s'", steps[s->op].name, STR_ARG(w));
	case 'T':
		k = w.n ? word_of(w, tails, TAIL_COUNT) : TAIL_guard;
		s->tail = (enum step_tail)MAX_OF(k, 0);
		return k >= 0 || err_set(e, ERR_FORMAT, "%s: no tail '%.*s'", steps[s->op].name, STR_ARG(w));
	default:
		k = word_of(w, tir_bind_name, BIND_COUNT);
		s->bind = (enum tir_bind)MAX_OF(k, 0);
		return k >= 0 ||
		    err_set(e, ERR_FORMAT, "%s: no binding '%.*s'", steps[s->op].name, STR_ARG(w));
	}
}

bool
step_read(struct str line, struct step *out, struct err *e)
{
	struct str name = next_word(&line);

	*out = (struct step){.op = STEP_OPS};
	for (int k = 0; k < STEP_OPS; k++)
		if (str_is(name, steps[k].name))
			out->op = (enum step_op)k;
	if (out->op == STEP_OPS)
		return err_set(e, ERR_FORMAT, "no primitive '%.*s'", STR_ARG(name));
	for (const char *k = steps[out->op].operands; *k; k++)
		if (!read_operand(&line, *k, out, e))
			return false;
	return next_word(&line).n == 0 ||
	    err_set(e, ERR_FORMAT, "%s: more operands than it has", steps[out->op].name);
}

void
step_print(struct strbuf *sb, const struct step *s)
{
	uint32_t n = 0, number = 0;

	sb_addz(sb, steps[s->op].name);
	for (const char *k = steps[s->op].operands; *k; k++) {
		uint32_t end = *k == 'M' ? s->n_name : n + (*k == 'L' || *k == 'B' || *k == 'R');

		for (; n < end; n++)
			sb_addf(sb, " %.*s", STR_ARG(s->name[n]));
		if (*k == 'N')
			sb_addf(sb, " %lld", (long long)s->number[number++]);
		if (*k == 'T')
			sb_addf(sb, " %s", tails[s->tail]);
		if (*k == 'D')
			sb_addf(sb, " %s", tir_bind_name[s->bind]);
		if (*k == 'I')
			sb_addf(sb, " %s", intrin_info[s->intrin].name);
		if (*k == 'Y')
			sb_addf(sb, " %s", dtype_name(s->type));
		if (*k == 'V')
			print_runs(sb, s);
	}
}

/* Passes add to names, and the text reader takes no longer ones (text_int.h): splits in turns with fuses
 * make such. */
enum { MOST_NAME_BYTES = 150 };

static bool
has_short_names(const struct tir *p, const struct step *s, struct err *e)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_for && strlen(p->st[i].name) > MOST_NAME_BYTES)
			return refuse(e, s, "name", "a loop's name would be too long");
	return true;
}

bool
is_for_threads(const struct tir *p)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (st_is_gpu_loop(&p->st[i]))
			return true;
	return false;
}

/* Barriers part the threads that meet, and can do so when the program is flat, where less may be seen, and
 * what reductions start from is stored, too. */
static bool
is_parted(const struct tir *made, const struct tir *flat, struct tir *out)
{
	struct tir parted;

	return tir_sync(made, out) && tir_sync(flat, &parted);
}

bool
step_make(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	if (p->level != TIR_NEST)
		return refuse(e, s, "level", "the program is flat");
	return steps[s->op].fn(p, s, out, e) && has_short_names(out, s, e) && step_marks_hold(out, s, e);
}

/* Barriers follow from what a program does: primitives see none. */
bool
step_apply(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct tir from = *p, made, flat;
	struct err why = {0};

	if (p->level == TIR_NEST && is_for_threads(p))
		tir_unsync(p, &from);
	if (!step_make(&from, s, &made, e))
		return false;
	if (!nest_is_proved(&from, &made, &flat, &why))
		return refuse(e, s, "unproved", why.msg);
	made.is_proved = true;
	*out = made;
	return !is_for_threads(&made) || is_parted(&made, &flat, out) ||
	    refuse(e, s, "barrier", "threads meet where no barrier parts them");
}

bool
trace_has(struct str trace, enum step_op op)
{
	while (trace.n) {
		struct step s;
		struct err none = {0};

		if (step_read(str_trim(str_cut(&trace, '\n')), &s, &none) && s.op == op)
			return true;
	}
	return false;
}

bool
trace_apply(const struct tir *p, struct str trace, struct tir *out, struct err *e)
{
	uint32_t n = 0;

	*out = *p;
	while (trace.n) {
		struct str line = str_cut(&trace, '\n');

		while (line.n) {
			struct str one = str_trim(str_cut(&line, ';'));
			struct tir from = *out;
			struct step s;

			n++;
			if (one.n == 0)
				continue;
			if (!step_read(one, &s, e) || !step_apply(&from, &s, out, e))
				return err_in(e, "step %u", n);
		}
	}
	return true;
}

/* ---- refusals ---------------------------------------------------------------------------------------- */
bool
refuse(struct err *e, const struct step *s, const char *rule, const char *what)
{
	return err_set(e, ERR_INFEASIBLE, "%s: %s: %s", steps[s->op].name, rule, what);
}

bool
find_loop(const struct tir *p, const struct step *s, uint32_t k, st_id *out, struct err *e)
{
	*out = tir_find_loop(p, s->name[k]);
	return *out != ST_NONE ||
	    err_set(e, ERR_INFEASIBLE, "%s: name: no loop %.*s", steps[s->op].name, STR_ARG(s->name[k]));
}

bool
find_blk(const struct tir *p, const struct step *s, uint32_t k, blk_id *out, struct err *e)
{
	*out = tir_find_blk(p, s->name[k]);
	for (st_id i = 0; i < p->n_st && *out != BLK_NONE; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == *out)
			return true;
	return err_set(e, ERR_INFEASIBLE, "%s: name: no block %.*s", steps[s->op].name, STR_ARG(s->name[k]));
}

int64_t
extent_of(const struct tir *p, axis_id a)
{
	return a == AXIS_NONE ? 1 : tx_axis_get(p->tx, a)->hi + 1;
}

bool
const_extent(const struct tir *p, const struct st *loop, int64_t *from, int64_t *extent)
{
	int64_t to;

	if (!ix_is_const(p->tx, loop->from, from) || !ix_is_const(p->tx, loop->to, &to))
		return false;
	*extent = to - *from;
	return true;
}

/* ---- copies ----------------------------------------------------------------------------------------------
 */
struct copy
copy_begin(const struct tir *p, struct tir *out)
{
	struct copy c = {.p = p, .out = out, .n_to = tx_n_axes(p->tx), .suffix = "", .guard = {.i = IX_NONE}};

	c.to = heap_alloc((c.n_to + 1) * sizeof(*c.to));
	memset(c.to, 0xff, (c.n_to + 1) * sizeof(*c.to));
	return c;
}

void
copy_end(struct copy *c)
{
	free(c->to);
}

/* Unique in what is built, and where a second copy goes in what was there. */
static const char *
copied_name(const struct copy *c, const char *name)
{
	char *to = arena_printf(c->out->arena, "%s%s", name, c->suffix);

	while (tir_find_loop(c->out, str_of(to)) != ST_NONE ||
	    (*c->suffix && tir_find_loop(c->p, str_of(to)) != ST_NONE))
		to = arena_printf(c->out->arena, "%s'", to);
	return to;
}

/* A guard that always holds is left out.  One that never does stays: what reads the block stands there still,
 * in an arm that is never taken. */
static void
copy_guard(const struct copy *c, struct tir_guard g, struct tir_guard *to, uint32_t *n)
{
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	const struct ix *i;

	g.i = ix_subst(c->p->tx, &sub, g.i);
	i = ix_get(c->p->tx, g.i);
	if (i->lo < g.lo || i->hi >= g.hi)
		to[(*n)++] = g;
}

static void
copy_instance(struct copy *c, const struct st *s)
{
	struct tx_subst sub = {.to = c->to, .n = c->n_to};
	struct tir_guard g[TIR_DEPTH];
	struct st to = *s;
	uint32_t n = 0;

	for (uint32_t k = 0; k < s->n_guard && n + 1 < TIR_DEPTH; k++)
		copy_guard(c, c->p->guard[s->guard0 + k], g, &n);
	if (c->guard.i != IX_NONE)
		copy_guard(c, c->guard, g, &n);
	to.at = ixv_subst(c->p->tx, &sub, s->at);
	tir_guards(c->out, &to, n, g);
	tir_add(c->out, to);
}

/* An if whose guards all hold here is its body. */
static void
copy_if(struct copy *c, st_id i)
{
	const struct st *s = &c->p->st[i];
	struct tir_guard g[TIR_DEPTH] = {{.i = IX_NONE}};
	struct st to = *s;
	uint32_t n = 0;

	for (uint32_t k = 0; k < s->n_guard && n + 1 < TIR_DEPTH; k++)
		copy_guard(c, c->p->guard[s->guard0 + k], g, &n);
	tir_guards(c->out, &to, n, g);
	if (n)
		tir_add(c->out, to);
	copy_range(c, i + 1, s->end);
	if (n)
		tir_close(c->out);
}

void
copy_range(struct copy *c, st_id i, st_id end)
{
	struct tx_subst sub = {.to = c->to, .n = c->n_to};

	for (; i < end; i = c->p->st[i].end) {
		const struct st *s = &c->p->st[i];

		if (s->op == ST_block) {
			copy_instance(c, s);
			continue;
		}
		if (s->op == ST_if) {
			copy_if(c, i);
			continue;
		}
		if (s->op != ST_for) {
			tir_copy(c->out, c->p, i, &sub);
			continue;
		}
		c->to[s->axis] = ix_axis(c->p->tx,
		    tir_for(c->out, copied_name(c, s->name), ix_subst(c->p->tx, &sub, s->from),
			ix_subst(c->p->tx, &sub, s->to), s->bind));
		c->out->st[c->out->n_st - 1].depth = s->depth;
		c->out->st[c->out->n_st - 1].ref = s->ref;
		copy_range(c, i + 1, s->end);
		tir_close(c->out);
		c->to[s->axis] = IX_NONE;
	}
}

bool
is_of_threads(const struct st *s)
{
	return s->op == ST_for && (st_is_gpu_loop(s) || s->bind == BIND_parallel);
}

/* ---- questions -------------------------------------------------------------------------------------------
 */
bool
binds_kind(const struct tir *p, const struct st *instance, axis_id a, enum iter_kind kind)
{
	const struct tir_block *b = &p->blk[instance->ref];
	struct ixv at = ixv_get(p->tx, instance->at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (p->iter[b->iter0 + k].kind == kind && ix_has(p->tx, at.i[k], a))
			return true;
	return false;
}

void
blk_reads(
    const struct tir *p, const struct tir_block *b, void (*fn)(void *self, const struct ex *read), void *self)
{
	for (uint32_t o = 0; o < b->n_out; o++) {
		struct ixv at = ixv_get(p->tx, b->at[o]);

		for (uint32_t d = 0; d < at.n; d++)
			ix_reads(p->tx, at.i[d], fn, self);
		ex_reads(p->tx, b->value[o], fn, self);
	}
}

struct search {
	buf_id buf;
	bool found;
};

static void
is_read_of(void *self, const struct ex *read)
{
	struct search *s = self;

	s->found |= read->tensor == s->buf;
}

bool
blk_reads_buf(const struct tir *p, const struct tir_block *b, buf_id buf)
{
	struct search s = {.buf = buf};

	blk_reads(p, b, is_read_of, &s);
	return s.found;
}

bool
blk_stores_buf(const struct tir_block *b, buf_id buf)
{
	for (uint32_t o = 0; o < b->n_out; o++)
		if (b->out[o] == buf)
			return true;
	return false;
}

struct places {
	const struct tir *p;
	buf_id buf;
	ixv_id *at;
	uint32_t n, cap;
};

static void
note_place(void *self, const struct ex *read)
{
	struct places *l = self;

	if (read->tensor != l->buf)
		return;
	GROW(l->p->arena, l->at, l->n, l->cap);
	l->at[l->n++] = read->at;
}

ixv_id *
blk_places_read(const struct tir *p, const struct tir_block *b, buf_id buf, uint32_t *n)
{
	struct places l = {.p = p, .buf = buf};

	blk_reads(p, b, note_place, &l);
	*n = l.n;
	return l.at;
}

struct scopes {
	const struct tir *p;
	bool local;
};

static void
look_scope(void *self, const struct ex *read)
{
	struct scopes *l = self;
	enum tir_scope s = l->p->buf[read->tensor].scope;

	l->local |= s != SCOPE_global && s != SCOPE_pack;
}

bool
blk_reads_local(const struct tir *p, const struct tir_block *b)
{
	struct scopes l = {.p = p};

	blk_reads(p, b, look_scope, &l);
	return l.local;
}

void
instance_region(const struct tir *p, st_id loop, st_id instance, ix_id i, ix_id *lo, ix_id *hi)
{
	const struct st *s = &p->st[instance];
	const struct tir_block *b = &p->blk[s->ref];
	struct ixv bound = ixv_get(p->tx, s->at);
	uint32_t n = tx_n_axes(p->tx);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, n);
	struct tx_subst sub = {.to = to, .n = n};
	bool exact;

	memset(to, 0xff, n * sizeof(*to));
	for (uint32_t k = 0; k < b->n_iter; k++)
		to[p->iter[b->iter0 + k].id] = bound.i[k];
	tir_region(p, loop, instance, ix_subst(p->tx, &sub, i), lo, hi, &exact);
}
