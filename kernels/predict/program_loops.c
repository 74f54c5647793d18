/* kernels/predict/program_loops.c: the leaves of a loop program, as it is printed: loops around them, and
 * passes. A piece of a loop counts by its share of it; bounds that hang on other loops, by these half
 * through. */
#include "loops_int.h"

#include "../codegen/codegen.h"
#include "../generate/generate.h"
#include "../schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

static int64_t
of_no_value(void *self, ex_id e)
{
	(void)self;
	(void)e;
	return 0;
}

/* Borders are few: what a loop's bounds are where those around it are half through. */
static int64_t
in_the_middle(const struct reading *r, ix_id i)
{
	return ix_eval(r->p->tx, i, r->middle, of_no_value, NULL);
}

static void
open_loop(struct reading *r, const struct st *s, struct around *x)
{
	static const enum leaf_bind of[BIND_COUNT] = {[BIND_serial] = BIND_SERIAL,
	    [BIND_parallel] = BIND_PARALLEL,
	    [BIND_vector] = BIND_VECTOR,
	    [BIND_unroll] = BIND_UNROLLED};
	int64_t from = in_the_middle(r, s->from), to = MAX_OF(in_the_middle(r, s->to), from + 1), whole;

	r->middle[s->axis] = from + (to - from) / 2;
	x->is_guess |= !ix_is_const(r->p->tx, s->from, &whole) || !ix_is_const(r->p->tx, s->to, &whole);
	if (x->n == LEAF_LOOPS || (to - from == 1 && s->bind != BIND_parallel))
		return;
	x->axis[x->n] = s->axis;
	x->loop[x->n++] = (struct leaf_loop){(double)(to - from), of[s->bind], false};
}

/* The share of a loop in which the guards hold; its pieces stand side by side. */
static void
open_if(const struct reading *r, const struct st *s, struct around *x)
{
	x->is_guess |= s->n_guard > 0;
	for (uint32_t k = 0; k < s->n_guard; k++) {
		struct tir_guard g = r->p->guard[s->guard0 + k];
		ix_id at = loops_resolve(r, g.i);
		const struct ix i = *ix_get(r->p->tx, at);
		double held = (double)(MIN_OF(i.hi + 1, g.hi) - MAX_OF(i.lo, g.lo)),
		       all = (double)(i.hi + 1 - i.lo);

		for (uint32_t n = x->n; n-- > 0;)
			if (ix_has(r->p->tx, at, x->axis[n])) {
				x->loop[n].extent = fmax(x->loop[n].extent * fmax(held, 0) / all, 1);
				break;
			}
	}
}

/* An index that is held within a piece of its loop: the loop's. */
static ix_id
unclamped(const struct tx *x, ix_id i)
{
	const struct ix *n = ix_get(x, i);
	int64_t v;

	while (n->kind == IX_MIN || n->kind == IX_MAX) {
		if (!ix_is_const(x, n->a, &v) && !ix_is_const(x, n->b, &v))
			return i;
		i = ix_is_const(x, n->a, &v) ? n->b : n->a;
		n = ix_get(x, i);
	}
	return i;
}

static void
name_index(struct reading *r, const struct st *s)
{
	const struct axis *a = tx_axis_get(r->p->tx, s->axis);

	r->middle[s->axis] = a->lo + (a->hi - a->lo + 1) / 2;
	r->to[s->axis] = unclamped(r->p->tx, loops_resolve(r, s->from));
}

static bool
is_turn(const struct st *s)
{
	return s->op == ST_call && s->ref == INTRIN_turn;
}

/* Part of a leaf?  What is asked for ahead is read where it is read. */
static bool
is_plain(const struct st *s)
{
	return s->op == ST_store || s->op == ST_let ||
	    (s->op == ST_call && s->ref != INTRIN_prefetch && !is_turn(s));
}

static void
take_apart(struct reading *r, const struct around *around, const struct st *s)
{
	if (s->op == ST_index)
		name_index(r, s);
	else if (s->op == ST_alloc)
		r->made_in[s->ref] = around->n;
	else if (is_turn(s))
		loops_add_turn(r, around, s);
}

static void
read_body(struct reading *r, const struct around *around, st_id first, st_id end)
{
	for (st_id i = first, next; i < end; i = next) {
		const struct st *s = &r->p->st[i];
		struct around inner = *around;

		next = s->end;
		if (is_plain(s)) {
			while (next < end && is_plain(&r->p->st[next]))
				next++;
			loops_add_leaf(r, around, i, next);
		} else if (st_info[s->op].body) {
			s->op == ST_for ? open_loop(r, s, &inner) : open_if(r, s, &inner);
			read_body(r, &inner, i + 1, s->end);
		} else {
			take_apart(r, around, s);
		}
	}
}

/* ---- the program -----------------------------------------------------------------------------------------
 */
static enum leaf_kind
kind_of_prim(enum prim p)
{
	switch (prim_info[p].class) {
	case CLASS_LINEAR:
		return LEAF_LINEAR;
	case CLASS_REDUCE:
		return LEAF_REDUCE;
	default:
		return LEAF_MAP;
	}
}

/* "7'acc" is made for tensor 7. */
static void
find_kinds(struct reading *r, const struct graph *g)
{
	for (buf_id b = 0; b < r->p->n_buf; b++) {
		unsigned long t = strtoul(r->p->buf[b].name, NULL, 10);

		for (uint32_t i = 0; i < g->n_nodes; i++)
			if (r->p->buf[b].role != BUF_OPERAND && g->nodes[i].out[0].i == t)
				r->kind[b] = kind_of_prim(g->nodes[i].prim);
	}
}

/* Of both blocks that temps lie in. */
static void
add_scratch(const struct reading *r)
{
	for (buf_id b = 0; b < r->p->n_buf; b++) {
		const struct tir_buf *f = &r->p->buf[b];
		double end = (double)dtype_size(f->type);
		double *bytes = f->scope == SCOPE_global ? &r->out->shared_bytes : &r->out->local_bytes;

		for (int d = 0; d < f->rank; d++)
			end *= (double)f->dim[d];
		if (f->role == BUF_TEMP && r->is_used[b])
			*bytes = fmax(*bytes, (double)f->offset + end);
	}
}

static void
read_passes(struct reading *r)
{
	const struct around none = {.n = 0};

	for (st_id i = 0, end; i < r->p->n_st; i = end, r->pass++) {
		end = end_of_pass(r->p, i);
		read_body(r, &none, i, end);
	}
	for (uint32_t i = 0; i < r->out->n_leaves; i++)
		if (r->out->leaf[i].is_tiled)
			loops_tile(r, &r->out->leaf[i]);
	r->out->n_passes = r->out->n_barriers = r->pass;
	add_scratch(r);
}

static struct reading
reading_of(struct arena *tmp, const struct tir *p, const struct target *t, struct program *out)
{
	uint32_t n_axes = tx_n_axes(p->tx), n_buf = MAX_OF(p->n_buf, 1u);
	struct reading r = {.tmp = tmp,
	    .target = t,
	    .p = p,
	    .out = out,
	    .to = NEW_ARRAY(tmp, ix_id, n_axes + 1),
	    .middle = NEW_ARRAY(tmp, int64_t, n_axes + 1),
	    .made_in = NEW_ARRAY(tmp, uint32_t, n_buf),
	    .moves_in = NEW_ARRAY(tmp, const struct around *, p->n_var + 1),
	    .kind = NEW_ARRAY(tmp, enum leaf_kind, n_buf),
	    .is_joined = NEW_ARRAY(tmp, bool, n_buf),
	    .is_used = NEW_ARRAY(tmp, bool, n_buf)};

	for (uint32_t i = 0; i < n_axes; i++)
		r.to[i] = IX_NONE;
	return r;
}

static bool
read_program(struct arena *a, const struct spec *s, const struct tir *p, const struct target *t,
    struct program *out, struct err *e)
{
	struct arena tmp = {0};
	struct reading r = reading_of(&tmp, p, t, out);

	out->leaf =
	    NEW_ARRAY(a, struct program_leaf, MIN_OF(MAX_OF(p->n_st, 1u), (uint32_t)PROGRAM_MAX_LEAVES));
	find_kinds(&r, &s->g);
	loops_find_joined(&r);
	read_passes(&r);
	arena_fini(&tmp);
	return out->n_passes <= CODEGEN_MOST_PASSES ||
	    err_set(e, ERR_INFEASIBLE, "passes: a kernel has at most %d", CODEGEN_MOST_PASSES);
}

bool
program_of_loops(struct arena *a, const struct spec *s, const struct choices *chosen, const struct target *t,
    struct program *out, struct err *e)
{
	struct arena tmp = {0};
	struct tir p;
	bool ok = generate_loop_program(&tmp, s, STR(""), chosen, t, &p, e);

	*out = (struct program){.n_leaves = 0};
	ok = ok && read_program(a, s, &p, t, out, e);
	arena_fini(&tmp);
	return ok;
}

void
program_of_spec(struct arena *a, const struct spec *s, const struct target *t, struct program *out)
{
	struct arena tmp = {0};
	struct tir nest, flat, p;
	struct err passes = {0}; /* more than a kernel has: as it is */

	*out = (struct program){.n_leaves = 0};
	schedule_lower(&tmp, s, t->strict, &nest);
	schedule_flat(&nest, &flat);
	codegen_pass(CODEGEN_flatten, &flat, &p);
	(void)read_program(a, s, &p, t, out, &passes);
	arena_fini(&tmp);
}
