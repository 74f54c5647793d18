/* worker/cuda_perturb.c: SIP: a kernel's machine instructions in a better order.
 *
 *   compile the kernel as it was --> search each of its passes on the static model (kernels/sass/search.h)
 *     --> the best few, each a cubin of its own --> child: equal results? faster, in pairs? (gpu_pair.c)
 *
 * The model only says what is worth a look: what is kept was timed.  What crashes costs its row. */
#include "cuda_int.h"

#include "../kernels/sass/search.h"

#include <stdio.h>
#include <string.h>

enum {
	MOST_TEXT = 30000,        /* bytes of a schedule with its moves */
	MODEL_TRIES_A_S = 100000, /* moves tried on the model, for each second of the task's half */
	LEAST_TRIES = 2000,
	MOST_TRIES = 10000000,
	INPUT_SEED = 1
};

struct orders { /* of one kernel, the most promising first */
	struct cuda *c;
	struct unit unit; /* the kernel as it was */
	struct bytes base;
	struct sass_found found[KERNEL_MAX_PASSES]; /* of each pass; none where there is nothing to search */
	uint32_t n_passes;
	struct str schedule[SASS_BEST];
	struct cuda_made made[SASS_BEST];
	double expected[SASS_BEST]; /* ratio by the model */
	uint32_t n_moves[SASS_BEST];
	uint32_t n;
};

/* ---- on the model ------------------------------------------------------------------------------ */
static uint32_t
warps_of(const struct launch *l)
{
	return MAX_OF((l->block[0] * l->block[1] * l->block[2] + 127) / 128, 1u);
}

/* What a pass without a loop costs lies in its launch. */
static bool
search_pass(struct orders *o, struct arena *a, uint32_t pass, uint64_t seed, uint64_t tries, struct err *e)
{
	const struct sass_search s = {.method = SASS_ANNEAL,
	    .seed = seed + pass,
	    .tries = tries,
	    .warps = warps_of(&o->unit.codes[0].desc.launch[pass]),
	    .blocks = 1};
	struct err why = {0};

	if (sass_search(a, o->base, arena_printf(a, "k_p%u", pass), &s, &o->found[pass], &why))
		return true;
	o->found[pass] = (struct sass_found){0};
	return why.code == ERR_INFEASIBLE || err_set(e, why.code, "%s", why.msg);
}

/* The rank-th best of every pass, all in one cubin; false: there is none. */
static bool
join(struct orders *o, struct arena *a, uint32_t rank, struct sass_moves *out, double *expected, uint32_t *n)
{
	double before = 0, after = 0;

	*out = (struct sass_moves){.kernel = NEW_ARRAY(a, struct sass_kernel_moves, MAX_OF(o->n_passes, 1u))};
	*n = 0;
	sass_moves_digest(o->base, out->digest);
	for (uint32_t q = 0; q < o->n_passes; q++) {
		const struct sass_found *f = &o->found[q];
		const struct sass_candidate *best = rank < f->n_best ? &f->best[rank] : NULL;

		before += f->base_price;
		after += best ? best->price : f->base_price;
		for (uint32_t k = 0; best && k < best->moves.n_kernels; k++) {
			out->kernel[out->n_kernels++] = best->moves.kernel[k];
			*n += best->moves.kernel[k].n;
		}
	}
	*expected = before > 0 ? after / before : 1;
	return out->n_kernels > 0;
}

static bool
add(struct orders *o, struct arena *a, const struct sass_moves *moves, double expected, uint32_t n_moves,
    struct err *e)
{
	const struct str base = o->unit.kernels[0].schedule, text = sass_moves_print(a, moves);
	struct cuda_made made = o->unit.made[0];

	if (base.n + text.n + 5 > MOST_TEXT)
		return true; /* too long a way from the kernel as it was */
	if (!sass_moves_apply(a, o->base, moves, &made.cubin, e))
		return err_in(e, "moves that the search has proved legal");
	o->schedule[o->n] =
	    str_of(arena_printf(a, "%.*s%ssip=%.*s", STR_ARG(base), base.n ? " " : "", STR_ARG(text)));
	o->made[o->n] = made;
	o->expected[o->n] = expected;
	o->n_moves[o->n++] = n_moves;
	return true;
}

static bool
search(struct orders *o, struct arena *a, const struct m_perturb_ask *ask, struct err *e)
{
	double seconds = (double)MAX_OF(ask->each_ns, (int64_t)0) * 1e-9 / 2;
	uint64_t tries =
	    seconds * MODEL_TRIES_A_S > MOST_TRIES ? MOST_TRIES : (uint64_t)(seconds * MODEL_TRIES_A_S);

	o->n_passes = o->unit.codes[0].desc.n_passes;
	tries = MAX_OF(tries / MAX_OF(o->n_passes, 1u), (uint64_t)LEAST_TRIES);
	for (uint32_t q = 0; q < o->n_passes && !*o->c->conf->cancel; q++)
		if (!search_pass(o, a, q, ask->seed, tries, e))
			return false;
	for (uint32_t rank = 0; rank < SASS_BEST; rank++) {
		struct sass_moves moves;
		double expected;
		uint32_t n;

		if (join(o, a, rank, &moves, &expected, &n) && !add(o, a, &moves, expected, n, e))
			return false;
	}
	return true;
}

/* ---- on the device ----------------------------------------------------------------------------- */
/* The kernel as it was, then those with moves; all of one text. */
static void
list_all(const struct orders *o, struct arena *a, struct unit *all)
{
	uint32_t n = o->n + 1;

	*all = o->unit;
	all->n = n;
	all->kernels = NEW_ARRAY(a, struct measure_kernel, n);
	all->codes = NEW_ARRAY(a, struct kernel_code, n);
	all->made = NEW_ARRAY(a, struct cuda_made, n);
	for (uint32_t i = 0; i < n; i++) {
		all->codes[i] = o->unit.codes[0];
		all->kernels[i] = o->unit.kernels[0];
		all->kernels[i].code = &all->codes[i];
		all->kernels[i].symbol = str_of(arena_printf(a, "k0_%u", i));
		all->made[i] = i ? o->made[i - 1] : o->unit.made[0];
		if (i)
			all->kernels[i].schedule = o->schedule[i - 1];
	}
}

static bool
time_all(struct cuda *c, struct arena *a, struct unit *all, const struct m_perturb_ask *ask,
    struct m_measured **rows, struct err *e)
{
	struct measure_item item = {
	    .spec = &all->spec, .kernels = all->kernels, .n_kernels = all->n, .tolerance = all->tolerance};
	struct measure_batch b = {.items = &item,
	    .n_items = 1,
	    .calibration = &c->cal,
	    .budget_ns = MAX_OF(ask->each_ns / 2, (int64_t)1),
	    .seed = INPUT_SEED,
	    .in_pairs = true};
	bool ok;

	b.module = cuda_module(c, a, all, 1);
	ok = cuda_take(c, e) && measure_batch_run(c->child, a, &b, rows, e);
	c->is_spent |= !ok;
	for (uint32_t i = 0; ok && i < all->n; i++) /* who goes wrong may have written anywhere */
		c->is_spent |= (*rows)[i].row.fail != 0;
	cuda_leave(c);
	return ok;
}

static void
note_gain(struct m_perturbed *p, const struct orders *o, uint32_t i, const struct m_measured *r)
{
	p->schedule = o->schedule[i - 1];
	p->ratio = r->ratio;
	p->low = r->low;
	p->high = r->high;
	p->pairs = r->pairs;
	p->compared = r->compared;
	p->expected = o->expected[i - 1];
	p->n_moves = o->n_moves[i - 1];
}

/* Rows of the machine's faults are left out; the base's says whether it was one for all. */
static bool
take_all(struct orders *o, struct arena *a, struct unit *all, const struct m_measured *rows,
    struct m_outcome *out, struct err *e)
{
	struct m_perturbed *p = &out->perturbed;

	for (uint32_t i = 0; i < all->n; i++) {
		enum err_code fail = err_of_wire(rows[i].row.fail);

		o->c->is_suspect |= fail == ERR_CRASH || fail == ERR_TIMEOUT || fail == ERR_DEVLOST;
	}
	if (rows[0].row.fail)
		return err_set(e, err_of_wire(rows[0].row.fail), "%.*s", STR_ARG(rows[0].row.cause));
	out->rows = NEW_ARRAY(a, struct m_row, all->n);
	for (uint32_t i = 0; i < all->n; i++) {
		const struct m_row *row = &rows[i].row;

		if (cuda_is_machine(err_of_wire(row->fail)) || (!row->fail && row->samples == 0))
			continue;
		unit_row(a, all, i, row, all->made[i].cubin.n, all->made[i].compile_ns);
		p->tried += i > 0;
		p->failed += row->fail != 0;
		if (p->compared == 0)
			p->compared = rows[i].compared;
		if (rows[i].is_gain)
			note_gain(p, o, i, &rows[i]);
	}
	return true;
}

/* ---- the task ------------------------------------------------------------------------------------ */
static bool
make_base(struct cuda *c, struct arena *a, const struct m_task *task, struct m_outcome *out, struct orders *o,
    struct err *e)
{
	*o = (struct orders){.c = c, .unit = {.task = task, .out = out}};
	unit_make(c->device, a, &o->unit, 0, cuda_emit);
	if (o->unit.n > 0)
		cuda_compile_all(c, a, &o->unit, 1);
	if (o->unit.n == 1 && !o->unit.codes[0].desc.is_library) {
		o->base = o->unit.made[0].cubin;
		return true;
	}
	if (out->fail)
		return err_set(e, err_of_wire(out->fail), "%.*s", STR_ARG(out->cause));
	if (out->n_rows)
		return err_set(e, ERR_INFEASIBLE, "%.*s", STR_ARG(out->rows[0].cause));
	return err_set(e, ERR_INFEASIBLE, "a library's call is not ours to perturb");
}

bool
cuda_perturb(void *self, struct arena *a, const struct m_task *task, const struct m_perturb_ask *ask,
    struct m_outcome *out, struct err *e)
{
	struct cuda *c = self;
	struct orders *o = NEW(a, struct orders);
	struct m_measured *rows;
	struct unit all;

	if (c->is_suspect && !c->device->canary(self, e))
		return false;
	if (!make_base(c, a, task, out, o, e) || !search(o, a, ask, e))
		return false;
	if (*c->conf->cancel)
		return err_set(e, ERR_LINKLOST, "given up by the worker");
	out->n_rows = 0;
	if (o->n == 0)
		return true;
	list_all(o, a, &all);
	return time_all(c, a, &all, ask, &rows, e) && take_all(o, a, &all, rows, out, e);
}
