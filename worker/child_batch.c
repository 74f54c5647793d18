/* worker/child_batch.c: a batch in the measuring child: each kernel announced, checked against the
 * interpreter, raced; rows as they are made. */
#include "check_ahead.h"
#include "child.h"

#include "../kernels/cost/cost.h"
#include "../proto/meas.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOST_CONTEXT = 86 };

bool
child_say(struct child *c, const struct msg *m)
{
	struct msg sorry;
	struct err e = {0};

	if (pipe_send(&c->pipe, m, &e))
		return true;
	sorry = msg_error(&e);
	return e.code == ERR_LIMIT && pipe_send(&c->pipe, &sorry, &e);
}

bool
child_say_error(struct child *c, const struct err *e)
{
	struct msg m = msg_error(e);

	return child_say(c, &m);
}

struct item_run {
	struct child *c;
	const struct child_batch *b;
	uint32_t item;
	struct arena *arena; /* of its rows' words */
	struct dev_kernel *kernels;
	struct m_measured *rows;
	bool is_cut; /* the parent is gone */
};

static void
say_at(struct item_run *r, const struct m_batch_at *at)
{
	struct msg m = {.type = MSG_batch_at, .batch_at = *at};

	if (!child_say(r->c, &m))
		r->is_cut = true;
}

static void
announce(void *arg, uint32_t kernel)
{
	struct item_run *r = arg;

	say_at(r, &(struct m_batch_at){.item = r->item, .kernel = kernel});
}

static void
say_row(struct item_run *r, uint32_t kernel)
{
	struct msg m = {.type = MSG_batch_row,
	    .batch_row = {.item = r->item, .kernel = kernel, .measured = r->rows[kernel]}};

	meas_cut(&m.batch_row.measured.row);
	if (!child_say(r->c, &m))
		r->is_cut = true;
}

/* The host to itself while kernels are timed: the parent holds its lock, so that whoever dies leaves none
 * behind. */
static void
hold_host(void *arg, bool take)
{
	struct item_run *r = arg;
	struct msg m = {.type = MSG_batch_hold, .batch_hold = {.take = take}}, go;
	struct arena tmp = {0};
	struct err e = {0};

	if (r->is_cut || !child_say(r->c, &m))
		r->is_cut = true;
	else if (take && (pipe_recv(&r->c->pipe, &tmp, -1, &go, &e) != PIPE_MSG || go.type != MSG_batch_go))
		r->is_cut = true;
	arena_fini(&tmp);
}

static void
fail_row(struct item_run *r, uint32_t kernel, const struct err *e)
{
	measure_fail(r->arena, &r->rows[kernel].row, e->code, e->msg);
}

static bool
find_kernel(struct child *c, struct dev_module *m, const struct spec *s, const struct measure_kernel *of,
    struct dev_kernel *k, struct err *e)
{
	const struct kernel_name name = {of->symbol, s->text, of->schedule};

	dev_lose(&c->dev, k);
	*k = (struct dev_kernel){.n_passes = of->code->desc.n_passes,
	    .n_bufs = s->g.n_inputs + s->g.n_outputs,
	    .shared_bytes = of->code->desc.shared_bytes,
	    .local_bytes = of->code->desc.local_bytes};
	memcpy(k->range, of->code->desc.range, sizeof(k->range));
	return dev_find(&c->dev, m, &name, k, e) &&
	    c->dev.reserve(c->dev.self, k->shared_bytes, k->local_bytes, e);
}

/* A GPU's context that is lost takes its process with it: what failed is said first, and the parent
 * goes on with another child. */
static void
leave_if_lost(struct item_run *r)
{
	bool is_lost = false;
	struct err e;

	if (!r->c->dev.fault)
		return;
	(void)r->c->dev.fault(r->c->dev.self, &is_lost, &e);
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels && is_lost; k++)
		if (r->rows[k].row.fail && !r->b->skip[r->item][k])
			say_row(r, k);
	if (is_lost)
		_exit(LOST_CONTEXT);
}

static bool
find_of_item(struct item_run *r, struct dev_module *m, uint32_t k, struct err *e)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	return find_kernel(r->c, m, it->spec, &it->kernels[k], &r->kernels[k], e);
}

/* ready: the item's reference, or why there is none. */
static void
check_item(struct item_run *r, struct dev_module *m, const struct check_ready *ready)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	for (uint32_t k = 0; k < it->n_kernels && !r->is_cut; k++) {
		struct m_row *row = &r->rows[k].row;
		struct err e = {0};

		if (row->fail)
			continue;
		announce(r, k);
		if (!ready->check)
			fail_row(r, k, &ready->why);
		else if (!find_of_item(r, m, k, &e) ||
		    !check_kernel(
			ready->check, &r->c->dev, &r->kernels[k], it->kernels[k].code, &row->error, &e))
			fail_row(r, k, &e);
		leave_if_lost(r);
	}
}

static struct race
race_of(const struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	return (struct race){.arena = r->arena,
	    .dev = &r->c->dev,
	    .refs = &r->c->refs,
	    .spec = it->spec,
	    .heat = it->heat,
	    .kernels = r->kernels,
	    .of = it->kernels,
	    .n = it->n_kernels,
	    .calibration = &r->b->calibration,
	    .budget_ns = r->b->batch.budget_ns,
	    .known_ns = it->known_ns,
	    .seed = r->b->batch.seed,
	    .memory_bytes = r->c->memory_bytes,
	    .hold = hold_host};
}

static void
time_item(struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	struct race race = race_of(r);
	struct err e = {0};

	if (r->c->gpu.is_open) {
		if (!gpu_race_run(&race, &r->c->gpu_refs, announce, r, r->rows, &e))
			leave_if_lost(r);
		return;
	}
	if (race_run(&race, announce, r, r->rows, &e))
		return;
	for (uint32_t k = 0; k < it->n_kernels; k++)
		if (!r->rows[k].row.fail)
			fail_row(r, k, &e);
}

static void
pair_item(struct item_run *r, struct dev_module *m)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	struct race race = race_of(r);
	struct err e = {0};

	for (uint32_t k = 0; k < it->n_kernels; k++)
		if (!r->rows[k].row.fail && !find_of_item(r, m, k, &e))
			fail_row(r, k, &e);
	if (!gpu_pairs_run(&race, &r->c->gpu_refs, announce, r, r->rows, &e))
		leave_if_lost(r);
}

/* The fake device: rows from a hash.  A crash is a real one, so that the parent's way with
 * crashes is walked; a hang is only said to be one, because tests do not wait. */
static void
fake_item(struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	int64_t bound = cost_bound_ns(it->spec, &r->b->calibration.hw, NULL);

	for (uint32_t k = 0; k < it->n_kernels; k++) {
		struct m_row *row = &r->rows[k].row;
		struct fake_time t;

		if (row->fail)
			continue;
		announce(r, k);
		t = fake_measure(
		    it->spec->text, it->kernels[k].schedule, bound, r->c->fake_seed, &r->c->fake_rates);
		if (t.status == ERR_CRASH)
			abort();
		if (t.status != ERR_NONE)
			measure_fail(r->arena, row, t.status, "the fake device says so");
		row->median_ns = row->min_ns = row->p10_ns = row->p90_ns = t.ns;
		row->samples = t.status == ERR_NONE ? 1 : 0;
		row->clock_ratio = 1;
		row->stop = str_of(measure_stop_name(STOP_CONVERGED));
	}
}

static bool
any_left(const struct child_batch *b, uint32_t item)
{
	for (uint32_t k = 0; k < b->batch.items[item].n_kernels; k++)
		if (!b->skip[item][k])
			return true;
	return false;
}

/* Kernels that are to be left out carry a failure that is not sent; false: all of them are. */
static bool
item_open(struct item_run *r, struct arena *a)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	r->arena = a;
	r->kernels = NEW_ARRAY(a, struct dev_kernel, it->n_kernels);
	r->rows = NEW_ARRAY(a, struct m_measured, it->n_kernels);
	for (uint32_t k = 0; k < it->n_kernels; k++)
		r->rows[k].row.fail = r->b->skip[r->item][k] ? (uint64_t)err_wire(ERR_FAILED) : 0;
	return any_left(r->b, r->item);
}

static void
item_close(struct item_run *r)
{
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels; k++)
		dev_lose(&r->c->dev, &r->kernels[k]);
}

static void
item_say(struct item_run *r)
{
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels && !r->is_cut; k++)
		if (!r->b->skip[r->item][k])
			say_row(r, k);
}

static void
run_item(struct item_run *r, struct dev_module *m, struct check_ready *ready)
{
	struct arena tmp = {0};
	bool any = item_open(r, &tmp);

	if (any && r->c->is_fake) {
		fake_item(r);
	} else if (any && r->b->batch.in_pairs) {
		pair_item(r, m);
	} else if (any) {
		check_item(r, m, ready);
		check_close(ready->check);
		ready->check = NULL;
		if (!r->b->batch.check_only && !r->is_cut)
			time_item(r);
	}
	item_say(r);
	item_close(r);
	arena_fini(&tmp);
}

/* What the items from r->item on should compute, of as many as a part of the memory holds; how many. */
static uint32_t
check_some(struct item_run *r, struct check_ready *ready)
{
	enum { MEMORY_SHARE = 8 };
	const struct measure_batch *b = &r->b->batch;
	uint32_t n = b->alone
	    ? 1
	    : check_ahead_fits(&ready[r->item], b->n_items - r->item, r->c->memory_bytes / MEMORY_SHARE);

	say_at(r, &(struct m_batch_at){.item = r->item, .is_reference = true, .n_items = n});
	check_ahead(&ready[r->item], n, &r->c->cores);
	return n;
}

/* One item after the other, their references made ahead. */
static void
run_in_turn(struct item_run *r, struct dev_module *m)
{
	const struct measure_batch *b = &r->b->batch;
	struct arena tmp = {0};
	struct check_ready *ready = NEW_ARRAY(&tmp, struct check_ready, MAX_OF(b->n_items, 1u));
	bool is_checked = !r->c->is_fake && !b->in_pairs;
	uint32_t until = 0;

	for (uint32_t i = 0; i < b->n_items; i++)
		ready[i] = (struct check_ready){.spec = any_left(r->b, i) ? b->items[i].spec : NULL,
		    .opts = {.tolerance = b->items[i].tolerance > 0 ? b->items[i].tolerance : b->tolerance,
			.seed = b->seed}};
	for (r->item = 0; r->item < b->n_items && !r->is_cut; r->item++) {
		if (is_checked && r->item == until)
			until += check_some(r, ready);
		run_item(r, m, &ready[r->item]);
	}
	for (uint32_t i = 0; i < b->n_items; i++)
		check_close(ready[i].check);
	arena_fini(&tmp);
}

/* All items side by side.  A crash costs its kernel; the parent asks again without it. */
static bool
run_together(struct child *c, struct arena *a, const struct child_batch *b, struct dev_module *m)
{
	uint32_t n = b->batch.n_items;
	struct item_run *runs = NEW_ARRAY(a, struct item_run, n);
	struct race *races = NEW_ARRAY(a, struct race, n);
	struct m_measured **rows = NEW_ARRAY(a, struct m_measured *, n);
	void **args = NEW_ARRAY(a, void *, n);
	struct err e = {0};
	bool is_cut = false, ok;

	for (uint32_t i = 0; i < n; i++) {
		runs[i] = (struct item_run){.c = c, .b = b, .item = i};
		(void)item_open(&runs[i], a);
		for (uint32_t k = 0; k < b->batch.items[i].n_kernels; k++)
			if (!runs[i].rows[k].row.fail && !find_of_item(&runs[i], m, k, &e))
				fail_row(&runs[i], k, &e);
		races[i] = race_of(&runs[i]);
		rows[i] = runs[i].rows;
		args[i] = &runs[i];
	}
	ok = races_run(races, n, announce, args, rows, &e);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; !ok && k < b->batch.items[i].n_kernels; k++)
			if (!rows[i][k].row.fail && !rows[i][k].row.samples)
				fail_row(&runs[i], k, &e);
		item_say(&runs[i]);
		item_close(&runs[i]);
		is_cut = is_cut || runs[i].is_cut;
	}
	return !is_cut;
}

bool
child_batch_run(struct child *c, struct arena *a, const struct m_batch_ask *q)
{
	static const struct msg end = {.type = MSG_batch_end};
	struct child_batch b;
	struct dev_module *m = NULL;
	struct item_run r = {.c = c, .b = &b};
	struct err e = {0};

	if (!batch_unpack(a, q, &b, &e) || !c->dev.load(c->dev.self, b.batch.module, &m, &e))
		return child_say_error(c, &e);
	if (c->gpu.is_open && !gpu_refs_open(&c->dev, m, &c->gpu_refs, &e))
		return child_say_error(c, &e);
	if (b.batch.in_pairs && !c->gpu.is_open)
		return child_say_error(
		    c, (err_set(&e, ERR_INFEASIBLE, "pairs are timed on a GPU alone"), &e));
	if (b.batch.together && !c->gpu.is_open && !c->is_fake)
		r.is_cut = !run_together(c, a, &b, m);
	else
		run_in_turn(&r, m);
	gpu_refs_close(&c->gpu_refs);
	c->dev.unload(c->dev.self, m);
	return !r.is_cut && child_say(c, &end);
}
