/* kernels/codegen/work.c: what a GPU's block does in a step of its pass, counted in the program that is
 * printed: of whom nothing is known but the text. */
#include "codegen_int.h"

static double
trips(const struct tir *p, const struct st *s)
{
	return (double)(ix_get(p->tx, s->to)->hi - ix_get(p->tx, s->from)->lo);
}

/* How often the statement runs in a step, by each thread; *threads: by how many. */
static double
times_of(const struct tir *p, st_id i, double *threads)
{
	st_id path[TIR_DEPTH];
	double n = 1;

	*threads = 1;
	for (uint32_t k = tir_path(p, i, path); k-- > 0;) {
		const struct st *s = &p->st[path[k]];

		if (s->op == ST_for && s->bind != BIND_block)
			*(st_is_thread(s) ? threads : &n) *= trips(p, s);
	}
	return n;
}

/* How often a thread loads what statement i reads there: once for all turns of loops of text that leave the
 * place. */
static double
loads_of(const struct tir *p, st_id i, ixv_id at)
{
	st_id path[TIR_DEPTH];
	double threads, n = times_of(p, i, &threads);

	for (uint32_t k = tir_path(p, i, path); k-- > 0;) {
		const struct st *s = &p->st[path[k]];

		if (s->op == ST_for && s->bind == BIND_unroll && !ixv_has(p->tx, at, s->axis))
			n /= trips(p, s);
	}
	return n;
}

struct counting {
	const struct tir *p;
	st_id at;
	uint32_t n_shared;
	double loads;
};

static void
note_read(void *self, const struct ex *read)
{
	struct counting *c = self;

	c->loads += in_register(&c->p->buf[read->tensor]) ? 0 : loads_of(c->p, c->at, read->at);
	c->n_shared += c->p->buf[read->tensor].scope == SCOPE_shared;
}

/* An element joined with a product of two that the block shares. */
static bool
is_multiply_add(const struct tir *p, const struct st *s, const struct counting *c)
{
	const struct ex v = *ex_get(p->tx, s->value);

	if (v.kind != EX_MAP || v.prim != PRIM_add || c->n_shared < 2)
		return false;
	for (uint32_t k = 0; k < v.n_arg; k++) {
		const struct ex x = *ex_get(p->tx, v.arg[k]);

		if (x.kind == EX_MAP && x.prim == PRIM_mul)
			return true;
	}
	return false;
}

static void
add_store(const struct tir *p, st_id i, struct pass_work *w)
{
	const struct st *s = &p->st[i];
	struct counting c = {.p = p, .at = i};
	double threads, n = times_of(p, i, &threads);

	ex_reads(p->tx, s->value, note_read, &c);
	w->slots += c.loads;
	if (is_multiply_add(p, s, &c)) {
		w->multiply_adds += n * threads;
		w->slots += n;
	} else {
		w->slots += n * (1 + (double)ex_get(p->tx, s->value)->flops);
	}
	if (p->buf[s->ref].scope == SCOPE_shared)
		w->bytes += n * threads * (double)dtype_size(p->buf[s->ref].type);
}

static void
add_call(const struct tir *p, st_id i, struct pass_work *w)
{
	const struct tensor_row *t = tensor_row_of(p->st[i].ref);
	double threads, n = times_of(p, i, &threads), all = 1;

	for (const char *k = t ? t->iters : ""; *k; k++)
		all *= *k >= 'a' && *k <= 'z' ? (double)tensor_extent(t, *k) : 1;
	w->slots += n;
	if (!t)
		return;
	w->multiply_adds += n * threads * all;
	for (uint32_t of = 1; of < TENSOR_OFS;
	     of++) { /* a register each of fragments of 32 lanes by four bytes */
		const double elements =
		    (double)tensor_extent(t, t->of[of].at[0]) * (double)tensor_extent(t, t->of[of].at[1]);

		w->slots += elements * (double)dtype_size(t->of[of].type) / (32 * 4) *
		    loads_of(p, i, ex_get(p->tx, p->arg[p->st[i].arg0 + tensor_arg(t, of)])->at);
	}
}

struct pass_work
work_of(const struct tir *p, st_id first, st_id end)
{
	struct pass_work w = {.slots = 0};

	for (st_id i = first; i < end; i++) {
		if (p->st[i].op == ST_store)
			add_store(p, i, &w);
		if (p->st[i].op == ST_call)
			add_call(p, i, &w);
	}
	return w.multiply_adds > 0 ? w : (struct pass_work){.slots = 0};
}
