/* kernels/interp/program_value.c: memory and expressions of a loop program. */
#include "program_int.h"

static int64_t
count_of(const struct tir_buf *b)
{
	int64_t n = 1;

	for (int d = 0; d < b->rank; d++)
		n *= b->fold && (uint32_t)d == b->fold_dim ? MIN_OF(b->fold, b->dim[d]) : b->dim[d];
	return n;
}

/* `data` is taken as it is where it is given: defined, and never stored into. */
struct memory *
memory_new(struct run_state *r, const struct tir_buf *b, const void *data)
{
	struct memory *m = NEW(r->a, struct memory);
	size_t n = ck_size(count_of(b));

	m->is_const = data != NULL;
	m->data = data ? (void *)(uintptr_t)data : arena_alloc(r->a, ck_mul(n, dtype_size(b->type)));
	if (data)
		return m;
	m->defined = arena_alloc(r->a, n);
	m->writer = NEW_ARRAY(r->a, struct stamp, n);
	m->reader = NEW_ARRAY(r->a, struct stamp, n);
	m->reader2 = NEW_ARRAY(r->a, struct stamp, n);
	return m;
}

struct of_thread {
	struct run_state *r;
	struct thread *t;
};

static int64_t
value_index(void *self, ex_id e)
{
	struct of_thread *o = self;

	return eval_ex(o->r, o->t, e).i;
}

int64_t
eval_ix(struct run_state *r, struct thread *t, ix_id i)
{
	struct of_thread o = {r, t};

	return ix_eval(r->p->tx, i, t->axis, value_index, &o);
}

bool
eval_guards(struct run_state *r, struct thread *t, const struct st *s)
{
	for (uint32_t k = 0; k < s->n_guard; k++) {
		const struct tir_guard *g = &r->p->guard[s->guard0 + k];
		int64_t v = eval_ix(r, t, g->i);

		if (v < g->lo || v >= g->hi)
			return false;
	}
	return true;
}

int64_t
place_of(struct run_state *r, struct thread *t, buf_id buf, ixv_id at)
{
	const struct tir_buf *b = &r->p->buf[buf];
	struct ixv v = ixv_get(r->p->tx, at);
	int64_t flat = 0;

	for (uint32_t d = 0; d < v.n; d++) {
		int64_t i = eval_ix(r, t, v.i[d]), extent = b->dim[d];

		if (i < 0 || i >= extent) {
			run_fail(r, "bounds", "index %lld of dimension %u of %%%s", (long long)i, d, b->name);
			return -1;
		}
		if (b->fold && d == b->fold_dim) {
			extent = MIN_OF(b->fold, extent);
			i %= extent;
		}
		flat = flat * extent + i;
	}
	return flat;
}

/* Element i of what the thread has under the buffer's name; false: said. */
static bool
is_there(struct run_state *r, struct thread *t, buf_id b, int64_t i, const char *what)
{
	if (!t->mem[b])
		run_fail(r, "undefined", "%%%s is not allocated", r->p->buf[b].name);
	else if (i >= count_of(&r->p->buf[b]))
		run_fail(r, "bounds", "%s of element %lld of %%%s", what, (long long)i, r->p->buf[b].name);
	return t->mem[b] && i >= 0 && !r->failed;
}

union val
load_element(struct run_state *r, struct thread *t, buf_id b, int64_t i)
{
	struct memory *m = t->mem[b];

	if (!is_there(r, t, b, i, "a read"))
		return (union val){0};
	if (!m->is_const && !m->defined[i])
		run_fail(r, "undefined", "%%%s[%lld] is read before it is stored", r->p->buf[b].name,
		    (long long)i);
	if (!m->is_const)
		check_read(r, t, m, b, i);
	return val_load(r->p->buf[b].type, m->data, i);
}

void
store_element(struct run_state *r, struct thread *t, buf_id b, int64_t i, union val v)
{
	struct memory *m = t->mem[b];

	if (!is_there(r, t, b, i, "a store"))
		return;
	if (m->is_const) {
		run_fail(r, "undefined", "%%%s cannot be stored into", r->p->buf[b].name);
		return;
	}
	check_write(r, t, m, b, i);
	m->defined[i] = 1;
	val_store(r->p->buf[b].type, m->data, i, v);
}

union val
load_at(struct run_state *r, struct thread *t, buf_id b, ixv_id at)
{
	return load_element(r, t, b, t->mem[b] ? place_of(r, t, b, at) : 0);
}

void
store_at(struct run_state *r, struct thread *t, buf_id b, ixv_id at, union val v)
{
	store_element(r, t, b, t->mem[b] ? place_of(r, t, b, at) : 0, v);
}

union val
val_rounded(enum dtype t, union val v)
{
	uint64_t room = 0;

	val_store(t, &room, 0, v);
	return val_load(t, &room, 0);
}

static union val
eval_map(struct run_state *r, struct thread *t, const struct ex *n)
{
	union val x[3] = {{0}};
	enum dtype types[3] = {n->type, n->type, n->type};

	for (uint32_t k = 0; k < n->n_arg; k++) {
		x[k] = eval_ex(r, t, n->arg[k]);
		types[k] = ex_get(r->p->tx, n->arg[k])->type;
	}
	return val_rounded(n->type, map_scalar(n->prim, types, n->type, x));
}

union val
eval_ex(struct run_state *r, struct thread *t, ex_id e)
{
	const struct ex n = *ex_get(r->p->tx, e);
	int64_t v;

	if (r->failed)
		return (union val){0};
	switch (n.kind) {
	case EX_CONST:
		return dtype_is_float(n.type) ? (union val){.f = n.real}
					      : val_rounded(n.type, (union val){.i = n.whole});
	case EX_READ:
		return load_at(r, t, n.tensor, n.at);
	case EX_VAR:
		return t->var[n.tensor];
	case EX_INDEX:
		return (union val){.i = eval_ix(r, t, n.ix)};
	case EX_GUARD:
		v = eval_ix(r, t, n.ix);
		return eval_ex(r, t, n.arg[v < n.lo || v >= n.hi]);
	case EX_MAP:
		return eval_map(r, t, &n);
	case EX_SCRATCH:
		break;
	}
	bug("an expression that no loop program has");
}
