/* kernels/emit/emit_cuda.c: a pass as a CUDA kernel: which of three kinds it is, where its scratch
 * lives, its parameters and how it is launched. */
#include "gen_int.h"

#include <string.h>

enum {
	SHARED_MOST =
	    40 << 10, /* bytes of block scratch in shared memory; the rest of 48 KiB is the stages' own */
	SHARED_TILE = 8 << 10, /* where a tile needs the rest */
	LONG_RED = 64,         /* elements of a sum that are worth a block's attention */
	FEW_STEPS = 1 << 14,   /* too few threads to keep a GPU busy */
	GRID_MOST = 1 << 20,
	GRID_SCRATCH = 1 << 10, /* blocks where each has scratch in memory */
};

/* ---- which kind ------------------------------------------------------------------------------------ */
static int64_t
red_depth(const struct stage *s)
{
	int64_t d = 1;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		d *= s->axis[k].extent;
	return d;
}

/* One value of the range makes one element of every stage? */
static bool
is_pointwise(const struct gen *g, const struct tile_pass *tp)
{
	for (uint32_t i = 0; i < tp->n_row; i++)
		if (g->p->stages[tp->row[i]].n_par || g->p->stages[tp->row[i]].kind == STAGE_SCATTER)
			return false;
	return true;
}

static bool
wants_team(struct gen *g, const struct tile_pass *tp)
{
	bool wants = false;

	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];
		bool along;

		if ((s->kind != STAGE_REDUCE && s->kind != STAGE_LINEAR) || red_depth(s) < LONG_RED)
			continue;
		stage_vector_axis(g->p, s, &along);
		wants |= along || tp->range < FEW_STEPS;
	}
	return sched_get(g->p->sched, KNOB_team, wants);
}

static enum cuda_kind
kind_of(struct gen *g, const struct tile_pass *tp, const char **why)
{
	struct cuda_no_tile no;
	uint32_t n = cuda_tiles(g, tp, &no);

	*why = no.why;
	if (n)
		return CUDA_TILE;
	if (!is_pointwise(g, tp))
		return CUDA_TEAM;
	return wants_team(g, tp) ? CUDA_TEAM : CUDA_POINT;
}

/* ---- scratch ------------------------------------------------------------------------------------------ */
struct scratch {
	size_t shared; /* bytes taken */
	bool in_memory;
};

static void
declare_local(struct gen *g, uint32_t t, bool of_thread, struct scratch *s)
{
	const struct tile_tensor *x = &g->p->tensors[t];
	size_t bytes = (size_t)x->n_local * dtype_size(x->type);
	const char *name = arena_printf(g->a, "l%u", t);

	if (of_thread) {
		gen_line(g, "%s %s[%lld];", gen_stored_type(g, x->type), name, (long long)x->n_local);
	} else if (s->shared + bytes <= (g->cuda->kind == CUDA_TILE ? SHARED_TILE : SHARED_MOST)) {
		s->shared += bytes;
		gen_line(
		    g, "K_SHARED %s %s[%lld];", gen_stored_type(g, x->type), name, (long long)x->n_local);
	} else {
		s->in_memory = true;
		gen_line(g, "%s *%s = (%s *)(local + K_BLOCK * %zuL + %zu);", gen_stored_type(g, x->type),
		    name, gen_stored_type(g, x->type), g->p->local_bytes, x->offset);
	}
	g->cuda->home[t] = name;
}

static bool
is_made_in(const struct gen *g, const uint32_t *list, uint32_t n, uint32_t t)
{
	for (uint32_t i = 0; i < n; i++)
		if (g->p->stages[list[i]].tensor == t || g->p->stages[list[i]].tensor2 == t)
			return true;
	return false;
}

static void
declare_locals(struct gen *g, const struct tile_pass *tp, struct scratch *s)
{
	for (uint32_t t = 0; t < g->p->n_tensors; t++) {
		bool call = is_made_in(g, tp->call, tp->n_call, t),
		     row = is_made_in(g, tp->row, tp->n_row, t);

		if (row && g->cuda->kind == CUDA_TILE && cuda_tile_keeps(g, tp))
			continue; /* in registers */
		if (g->p->tensors[t].at == AT_LOCAL && (call || row))
			declare_local(g, t, row && g->cuda->kind != CUDA_TEAM, s);
	}
}

/* ---- parameters ------------------------------------------------------------------------------------------
 */
static bool
is_param(const struct gen *g, const struct array_use *u, uint32_t t)
{
	enum place_at at = g->p->tensors[t].at;

	return (u->read[t] || u->written[t]) && (at == AT_OPERAND || at == AT_RESULT || at == AT_SHARED);
}

/* What a pass stores and reads again comes from other threads, too: of a pointer that nobody else has,
 * compilers read before the barrier. */
static void
params(struct gen *g, const struct array_use *u)
{
	for (uint32_t t = 0; t < g->p->n_tensors; t++)
		if (is_param(g, u, t))
			gen_line(g, "%s%s *%s%s,", u->written[t] ? "" : "const ",
			    gen_stored_type(g, g->p->tensors[t].type),
			    u->written[t] && u->read[t] ? "" : "K_RESTRICT ", gen_tensor(g, t));
	gen_line(g, "char *local, %s lo, %s hi)", g->index, g->index);
}

static void
arguments(struct gen *g, const struct array_use *u)
{
	uint32_t n_in = g->p->spec->g.n_inputs;

	for (uint32_t t = 0; t < g->p->n_tensors; t++) {
		const struct tile_tensor *x = &g->p->tensors[t];
		const char *type = gen_stored_type(g, x->type), *is_const = u->written[t] ? "" : "const ";

		if (!is_param(g, u, t))
			continue;
		if (x->at == AT_SHARED)
			gen_line(g, "(%s%s *)K_GLOBAL(shared + %zu),", is_const, type, x->offset);
		else
			gen_line(g, "(%s%s *)K_GLOBAL(buf[%u]),", is_const, type,
			    x->index + (x->at == AT_RESULT ? n_in : 0));
	}
	gen_line(g, "local, (%s)lo, (%s)hi);", g->index, g->index);
}

/* ---- the body ---- */
struct tensor_read {
	uint32_t tensor;
	bool found;
};

static void
note_tensor(void *self, const struct ex *read)
{
	struct tensor_read *r = self;

	r->found |= read->tensor == r->tensor;
}

static bool
stage_reads_tensor(const struct gen *g, const struct stage *s, uint32_t t)
{
	struct tensor_read r = {.tensor = t};

	if (s->body != EX_NONE)
		ex_reads(g->tx, s->body, note_tensor, &r);
	if (s->init != EX_NONE)
		ex_reads(g->tx, s->init, note_tensor, &r);
	if (s->target != IX_NONE)
		ex_reads(g->tx, ex_index(g->tx, s->target), note_tensor, &r);
	return r.found;
}

static bool
is_read_in_pass(const struct gen *g, const struct tile_pass *tp, const struct stage *s)
{
	for (uint32_t i = 0; i < tp->n_row + tp->n_call; i++) {
		const struct stage *r = &g->p->stages[i < tp->n_row ? tp->row[i] : tp->call[i - tp->n_row]];

		if (r != s &&
		    (stage_reads_tensor(g, r, s->tensor) ||
			(s->tensor2 != UINT32_MAX && stage_reads_tensor(g, r, s->tensor2))))
			return true;
	}
	return false;
}

static void
one_stage(struct gen *g, const struct tile_pass *tp, const struct stage *s)
{
	gen_line(g, "/* %s */", gen_stage_words(g, s));
	gen_stage(g, s);
	if (g->cuda->team && is_read_in_pass(g, tp, s))
		gen_line(g, "K_BARRIER();");
}

/* Once a block: what all of its steps read. */
static void
call_stages(struct gen *g, const struct tile_pass *tp)
{
	g->cuda->team = true;
	for (uint32_t i = 0; i < tp->n_call; i++)
		one_stage(g, tp, &g->p->stages[tp->call[i]]);
	g->cuda->team = g->cuda->kind == CUDA_TEAM;
}

/* The sweep's turns, a block's threads together; before the first, what they hand on. */
static void
open_sweep(struct gen *g, const struct tile_pass *tp)
{
	for (uint32_t i = 0; i < tp->n_row; i++) {
		uint32_t t = g->p->stages[tp->row[i]].tensor;
		const struct tile_tensor *x = &g->p->tensors[t];
		const struct ex first = {.kind = EX_CONST, .type = x->type, .real = x->first};

		if (!x->carried)
			continue;
		gen_open(g, "for (%s i = K_TID; i < %lld; i += %d)", g->index, (long long)x->n_local,
		    g->cuda->threads);
		gen_line(g, "%s[i] = %s;", gen_tensor(g, t), gen_const(g, &first));
		gen_close(g);
	}
	gen_line(g, "K_BARRIER();");
	gen_open(g, "for (%s turn = 0; turn < %lld; turn++)", g->index, (long long)g->p->n_turns);
	gen_bind(g, g->p->turn, "turn");
}

static void
close_sweep(struct gen *g)
{
	gen_bind(g, g->p->turn, NULL);
	gen_line(g, "K_BARRIER();");
	gen_close(g);
}

/* A thread takes neighbours of the range at once. */
static void
vector_steps(struct gen *g, const struct tile_pass *tp, struct cuda_vector *v)
{
	const long long n = (long long)cuda_vector_n(v);
	const char *first;

	gen_open(g, "for (%s o = lo + (%s)(K_BLOCK * %d + K_TID) * %lld; o < hi; o += (%s)K_BLOCKS * %lld)",
	    g->index, g->index, g->cuda->threads, n, g->index, n * g->cuda->threads);
	gen_bind_outer(g, tp);
	first = g->axis_name[tp->outer[tp->n_outer - 1].id];
	cuda_vector_load(v);
	for (int64_t u = 0; u < n; u++) {
		uint32_t mark = gen_mark(g);

		cuda_vector_open(v, u);
		for (uint32_t i = 0; i < tp->n_row; i++)
			one_stage(g, tp, &g->p->stages[tp->row[i]]);
		gen_forget(g, mark);
		cuda_vector_close(v, first);
	}
	cuda_vector_store(v);
	gen_close(g);
}

static void
steps(struct gen *g, const struct tile_pass *tp)
{
	bool hands_on = false;

	if (g->cuda->team)
		gen_open(g, "for (%s o = lo + K_BLOCK; o < hi; o += K_BLOCKS)", g->index);
	else
		gen_open(g, "for (%s o = lo + K_BLOCK * %d + K_TID; o < hi; o += K_BLOCKS * %d)", g->index,
		    g->cuda->threads, g->cuda->threads);
	gen_bind_outer(g, tp);
	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];
		const bool was = i > 0 && g->p->stages[tp->row[i - 1]].sweeps;

		if (s->sweeps && !was)
			open_sweep(g, tp);
		if (!s->sweeps && was)
			close_sweep(g);
		one_stage(g, tp, s);
		hands_on |= is_read_in_pass(g, tp, s);
	}
	if (g->p->stages[tp->row[tp->n_row - 1]].sweeps)
		close_sweep(g);
	if (g->cuda->team && hands_on) /* scratch is written again in the next step */
		gen_line(g, "K_BARRIER();");
	gen_close(g);
}

static void
body(struct gen *g, const struct tile_pass *tp, struct scratch *scratch)
{
	uint32_t mark = gen_mark(g);

	gen_line(g, "{");
	g->depth++;
	declare_locals(g, tp, scratch);
	gen_line(g, "(void)local;");
	call_stages(g, tp);
	if (g->cuda->kind == CUDA_TILE)
		cuda_tile(g, tp);
	else if (g->cuda->vector)
		vector_steps(g, tp, g->cuda->vector);
	else
		steps(g, tp);
	gen_close(g);
	gen_forget(g, mark);
}

/* ---- the kernel ---- */
static void
note_pass(struct gen *g, const struct tile_pass *tp, struct array_use *u)
{
	*u = (struct array_use){.g = g,
	    .read = NEW_ARRAY(g->a, bool, g->p->n_tensors),
	    .written = NEW_ARRAY(g->a, bool, g->p->n_tensors)};
	for (uint32_t i = 0; i < tp->n_call; i++)
		gen_note_stage(u, &g->p->stages[tp->call[i]]);
	for (uint32_t i = 0; i < tp->n_row; i++)
		gen_note_stage(u, &g->p->stages[tp->row[i]]);
}

static struct launch
launch_of(const struct gen *g, const struct cuda_pass *c, int64_t range, bool in_memory)
{
	const int64_t points = c->threads * cuda_vector_n(c->vector);
	int64_t units = c->kind == CUDA_POINT ? (range + points - 1) / points : range;
	int64_t most = in_memory ? GRID_SCRATCH : GRID_MOST;

	units = MAX_OF(MIN_OF(units, most), (int64_t)1);
	return (struct launch){.grid = {(uint32_t)units, 1, 1},
	    .block = {(uint32_t)c->threads, 1, 1},
	    .persists = c->kind == CUDA_TEAM && sched_get(g->p->sched, KNOB_persist, 0)};
}

/* Rows are short where a warp is enough. */
static int
default_threads(const struct gen *g, const struct tile_pass *tp, enum cuda_kind kind)
{
	int64_t most = 1;

	if (kind == CUDA_TILE)
		return 256;
	if (kind == CUDA_POINT)
		return 128;
	for (uint32_t i = 0; i < tp->n_row; i++) {
		const struct stage *s = &g->p->stages[tp->row[i]];
		int64_t n = red_depth(s);

		for (uint32_t k = 0; k < s->n_par; k++)
			n *= s->axis[k].extent;
		most = MAX_OF(most, n);
	}
	return most <= 256 ? 32 : most <= 1024 ? 128 : 256;
}

void
cuda_pass(struct gen *g, uint32_t q, struct kernel_code *out)
{
	const struct tile_pass *tp = &g->p->pass[q];
	struct cuda_pass c = {.home = NEW_ARRAY(g->a, const char *, g->p->n_tensors),
	    .held = NEW_ARRAY(g->a, const char *, g->p->n_tensors)};
	struct scratch scratch = {.shared = 0};
	struct array_use u;

	g->cuda = &c;
	note_pass(g, tp, &u);
	c.kind = kind_of(g, tp, &out->untiled[q]);
	c.vector = c.kind == CUDA_POINT ? cuda_vector(g, tp, &u) : NULL;
	out->tiled[q] = c.kind == CUDA_TILE;
	c.threads = (int)sched_get(g->p->sched, KNOB_threads, default_threads(g, tp, c.kind)) / 32 * 32;
	if (c.kind == CUDA_TILE)
		c.threads = 256;
	out->desc.range[q] = c.kind == CUDA_TILE ? cuda_tile_range(g, tp) : tp->range;
	gen_line(g, "%s", "");
	gen_line(g, "%s", g->d->body);
	gen_line(g, "%s_b%u(", g->symbol, q);
	g->depth++;
	params(g, &u);
	g->depth--;
	body(g, tp, &scratch);
	gen_line(g, "%s", "");
	gen_line(g, "%s K_BOUNDS(%d)", g->d->function, c.threads);
	gen_line(g, "%s_p%u(%s)", g->symbol, q, g->d->params);
	gen_line(g, "{");
	g->depth++;
	gen_line(g, "(void)shared;");
	gen_line(g, "%s_b%u(", g->symbol, q);
	g->depth++;
	arguments(g, &u);
	g->depth--;
	gen_close(g);
	if (c.kind == CUDA_TILE)
		out->work[q] = cuda_tile_work(g, tp);
	out->desc.launch[q] = launch_of(g, &c, out->desc.range[q], scratch.in_memory);
	if (scratch.in_memory)
		out->desc.local_bytes = g->p->local_bytes;
	g->cuda = NULL;
}
