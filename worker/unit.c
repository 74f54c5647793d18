/* worker/unit.c: from a task to kernels, and from measured kernels to its rows. */
#include "unit.h"

#include "../kernels/base/parallel.h"
#include "../proto/meas.h"

#include <string.h>

void
unit_fail(struct arena *a, struct unit *u, enum err_code code, const char *why)
{
	u->out->fail = (uint64_t)err_wire(code);
	u->out->cause = str_of(str_dup(a, (struct str){why, MIN_OF(strlen(why), (size_t)500)}));
	u->out->n_rows = 0;
	u->n = 0;
}

static int64_t
best_known(const struct m_task *t)
{
	int64_t best = 0, v;

	for (uint32_t i = 0; i < t->n_known; i++)
		if (str_to_i64(t->known[i].value, &v) && v > 0 && (best == 0 || v < best))
			best = v;
	return best;
}

void
unit_make(const struct device *d, struct arena *a, struct unit *u, uint32_t number, unit_emit *emit)
{
	struct str *schedules;
	uint32_t n;
	struct err e = {0};

	if (!task_target(d, u->task->precision, &u->target, &u->tolerance, &e) ||
	    !spec_read(a, u->task->spec, &u->spec, &e)) {
		unit_fail(a, u, ERR_INFEASIBLE, e.msg);
		return;
	}
	u->out->spec = u->spec.hash;
	u->known_ns = best_known(u->task);
	task_schedules(a, u->task, &u->spec, &u->target, &schedules, &n);
	u->kernels = NEW_ARRAY(a, struct measure_kernel, MAX_OF(n, 1u));
	u->codes = NEW_ARRAY(a, struct kernel_code, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		char *symbol = arena_printf(a, "k%u_%u", number, i);

		if (!emit(a, &u->spec, schedules[i], &u->target, symbol, &u->codes[u->n], &e))
			continue;
		u->kernels[u->n] = (struct measure_kernel){
		    .schedule = schedules[i], .symbol = str_of(symbol), .code = &u->codes[u->n]};
		u->n++;
	}
	u->out->rows = NEW_ARRAY(a, struct m_row, MAX_OF(u->n, 1u));
	if (u->n == 0 && u->task->n_known == 0)
		unit_fail(a, u, ERR_INFEASIBLE, n ? e.msg : "its space holds no schedule");
}

struct making {
	const struct device *device;
	struct arena *arena; /* one a unit */
	struct unit *units;
	unit_emit *emit;
};

static void
make_nth(void *self, uint32_t hand, uint32_t i)
{
	const struct making *m = self;

	(void)hand;
	unit_make(m->device, &m->arena[i], &m->units[i], i, m->emit);
}

void
unit_make_all(const struct device *d, struct arena *a, struct unit *units, uint32_t n, unit_emit *emit)
{
	struct making m = {d, NEW_ARRAY(a, struct arena, MAX_OF(n, 1u)), units, emit};

	parallel_for(n, parallel_hands(MAKER_HANDS), make_nth, &m);
	for (uint32_t i = 0; i < n; i++)
		arena_join(a, &m.arena[i]);
}

/* What is a kernel's own fault before it runs. */
static bool
is_kernels(enum err_code c)
{
	return c == ERR_COMPILE || c == ERR_TIMEOUT || c == ERR_LIMIT || c == ERR_INFEASIBLE;
}

bool
unit_drop(struct arena *a, struct unit *u, uint32_t at, const struct err *e)
{
	enum err_code as = e->code == ERR_LIMIT ? ERR_COMPILE : e->code;

	if (!is_kernels(e->code)) {
		unit_fail(
		    a, u, e->code == ERR_CANCELLED || e->code == ERR_NONE ? ERR_LINKLOST : e->code, e->msg);
		return false;
	}
	u->out->rows[u->out->n_rows++] = (struct m_row){.schedule = u->kernels[at].schedule,
	    .fail = (uint64_t)err_wire(as),
	    .cause = str_of(str_dup(a, str_of(e->msg))),
	    .stop = STR("")};
	return true;
}

void
unit_move(struct unit *u, uint32_t to, uint32_t from)
{
	if (to == from)
		return;
	u->kernels[to] = u->kernels[from];
	u->codes[to] = u->codes[from];
	u->kernels[to].code = &u->codes[to];
}

void
unit_row(struct arena *a, struct unit *u, uint32_t at, const struct m_row *r, size_t code_bytes,
    int64_t compile_ns)
{
	struct m_row *to = &u->out->rows[u->out->n_rows++];

	*to = *r;
	rec_dup(a, "row", to);
	meas_cut(to);
	to->schedule = u->kernels[at].schedule;
	to->code_bytes = code_bytes;
	to->compile_ns = compile_ns;
	if (to->fail) { /* what went wrong last may have been timed before */
		meas_untime(to);
		return;
	}
	/* quantiles are rounded apart from the median, and nothing takes no time */
	to->median_ns = MAX_OF(r->median_ns, (int64_t)1);
	to->p10_ns = MIN_OF(MAX_OF(r->p10_ns, (int64_t)1), to->median_ns);
	to->p90_ns = MAX_OF(r->p90_ns, to->median_ns);
	to->min_ns = MIN_OF(MAX_OF(r->min_ns, (int64_t)1), to->p10_ns);
}

void
unit_items(struct arena *a, struct unit *units, uint32_t n, struct measure_batch *b, struct unit ***of)
{
	struct measure_item *items = NEW_ARRAY(a, struct measure_item, MAX_OF(n, 1u));

	*of = NEW_ARRAY(a, struct unit *, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		struct unit *u = &units[i];

		if (u->n == 0)
			continue;
		(*of)[b->n_items] = u;
		items[b->n_items++] = (struct measure_item){.spec = &u->spec,
		    .heat = u->task->heat,
		    .kernels = u->kernels,
		    .n_kernels = u->n,
		    .known_ns = u->known_ns,
		    .tolerance = u->tolerance};
	}
	b->items = items;
}

void
unit_unmeasured(struct arena *a, struct unit *u, const struct err *e)
{
	unit_fail(a, u,
	    e->code == ERR_CANCELLED  ? ERR_LINKLOST
		: e->code == ERR_NONE ? ERR_HOST
				      : e->code,
	    e->msg);
}

void
unit_given_up(struct arena *a, struct unit *units, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (units[i].out->n_rows == 0 && units[i].out->fail == 0 && units[i].task->n_known == 0)
			unit_fail(a, &units[i], ERR_LINKLOST, "given up by the worker");
}
