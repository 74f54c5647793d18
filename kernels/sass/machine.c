/* kernels/sass/machine.c: warps of a block by turns, from barrier to barrier, and the digest of what they do.
 */
#include "machine_int.h"

#include <string.h>

static const struct machine_op OPS[] = {
#define MACHINE_OP(CODE, FUNCTION) {CODE, FUNCTION},
#include "machine_op.def"
#undef MACHINE_OP
};

const struct machine_op *
machine_op_of(const struct sass_instr *i, int sm)
{
	const uint32_t code = i->lo & 0x1ff;

	if (code == 0x036 && sm < 90) /* Volta's HMMA, later VIADD */
		return NULL;
	for (uint32_t n = 0; n < COUNT_OF(OPS); n++)
		if (OPS[n].code == code)
			return &OPS[n];
	return NULL;
}

/* ---- the trace ------------------------------------------------------------------------------- */
/* A sum, so that the order within a barrier interval does not count. */
void
trace_add(struct step *s, uint32_t lane, uint32_t kind, uint64_t at, uint64_t value)
{
	const uint64_t who = (uint64_t)(s->w->id * LANES + lane) << 40 | (uint64_t)s->w->interval << 4 | kind;

	s->m->out->digest += mix64(mix64(mix64(who) ^ at) ^ value);
}

void
trace_race(struct step *s)
{
	struct machine_trace *t = s->m->out;

	if (!t->races || s->at < t->race_at)
		t->race_at = s->at;
	t->races++;
}

bool
machine_trace_equal(const struct machine_trace *a, const struct machine_trace *b)
{
	return a->end == b->end && a->steps == b->steps && a->digest == b->digest && a->memory == b->memory &&
	    a->races == b->races;
}

/* ---- a step ---------------------------------------------------------------------------------- */
static uint32_t
guarded(const struct warp *w, const struct sass_instr *i, uint32_t active)
{
	uint32_t yes;

	if (i->guard == SASS_PT)
		yes = UINT32_MAX;
	else if (step_is_uniform(i))
		yes = w->up >> i->guard & 1 ? UINT32_MAX : 0;
	else
		yes = w->p[i->guard];
	if (i->guard_negated)
		yes = ~yes;
	return step_is_uniform(i) ? (active && yes) : active & yes;
}

/* What an instruction with a hazard leaves behind is of no use. */
static void
poison(struct step *s)
{
	const struct sass_set *d = &s->i->defs;
	const uint64_t h = mix64(s->at + 0xbadull);

	for (EACH_LANE(l, s)) {
		for (uint32_t q = 0; q < 4; q++)
			for (uint64_t left = d->r[q]; left; left &= left - 1)
				s->w->r[64 * q + (uint32_t)__builtin_ctzll(left)][l] ^= (uint32_t)h | 1;
		trace_add(s, l, 15, s->at, h);
	}
	for (uint64_t left = d->u; left; left &= left - 1)
		s->w->u[__builtin_ctzll(left)] ^= (uint32_t)h | 1;
	for (uint32_t p = 0; p < 7; p++)
		if (d->p >> p & 1)
			s->w->p[p] ^= s->lanes;
	s->w->up ^= d->up & 0x7f;
}

static const struct machine_op *
operation(struct machine *m, const struct sass_instr *i, uint32_t at)
{
	static const struct machine_op hash = {0, step_hash};

	if (!m->op[at]) {
		const struct machine_op *own = machine_op_of(i, m->k->sm);
		const uint32_t touches = SASS_UNKNOWN | SASS_LOAD | SASS_STORE | SASS_BRANCH | SASS_ENDS;
		const bool plain = i->op && !(i->flags & touches);

		m->op[at] = own ? own : plain ? &hash : NULL;
	}
	return m->op[at];
}

static bool
stop(struct machine *m, uint32_t at, const char *why)
{
	m->out->end = MACHINE_UNKNOWN;
	m->out->at = at;
	m->out->why = why;
	return false;
}

static bool
step(struct machine *m, struct warp *w, uint32_t at, uint32_t active)
{
	const struct sass_instr *i = &m->k->instr[at];
	struct step s = {.m = m, .w = w, .i = i, .at = at, .active = active, .lanes = guarded(w, i, active)};
	const struct machine_op *op = operation(m, i, at);

	m->out->steps++;
	m->visited[at] = 1;
	for (uint32_t l = 0; l < LANES; l++)
		w->pc[l] += active >> l & 1;
	if (!op)
		return stop(m, at, i->op ? i->op->name : "an opcode that is in no table");
	machine_fetch(&s);
	op->run(&s);
	if (m->hazards && m->hazards->poisoned[at])
		poison(&s);
	if (s.unknown)
		return stop(m, at, s.unknown);
	if (m->store.full)
		m->out->end = MAX_OF(m->out->end, MACHINE_CUT);
	return true;
}

/* ---- a warp until it waits or ends ----------------------------------------------------------- */
static uint32_t
lanes_in(const struct warp *w, enum lane_state state)
{
	uint32_t lanes = 0;

	for (uint32_t l = 0; l < LANES; l++)
		lanes |= (uint32_t)(w->state[l] == state) << l;
	return lanes;
}

/* Lanes wait for each other, and who they wait for is gone or waits elsewhere: those at the lowest place go
 * on. */
static bool
part(struct warp *w)
{
	uint32_t first = UINT32_MAX;

	for (uint32_t l = 0; l < LANES; l++)
		if (w->state[l] == LANE_JOINS)
			first = MIN_OF(first, w->pc[l]);
	for (uint32_t l = 0; l < LANES; l++)
		if (w->state[l] == LANE_JOINS && w->pc[l] == first)
			w->state[l] = LANE_RUNS;
	return first != UINT32_MAX;
}

static bool
run_warp(struct machine *m, struct warp *w)
{
	for (;;) {
		uint32_t at;
		const uint32_t active = warp_front(w, &at);

		if (!active && !part(w))
			return true;
		if (!active)
			continue;
		if (at >= m->k->n_instr)
			return stop(m, m->k->n_instr ? m->k->n_instr - 1 : 0, "the end of the code");
		if (!step(m, w, at, active))
			return false;
		if (m->out->steps > MACHINE_STEPS || m->store.full) {
			m->out->end = MACHINE_CUT;
			return false;
		}
	}
}

/* ---- a block --------------------------------------------------------------------------------- */
static void
start(struct machine *m, uint32_t n)
{
	struct warp *w = &m->warp[n];

	w->number = (uint8_t)n;
	w->id = m->in->warp[n];
	w->taken = NEW_ARRAY(m->a, uint32_t, m->k->n_instr);
	w->p[SASS_PT] = UINT32_MAX;
	w->up = 0x80;
	for (uint32_t r = 0; r < 256; r++)
		for (uint32_t l = 0; l < LANES; l++)
			w->r[r][l] = (uint32_t)mix64(m->in->seed ^ (uint64_t)(r << 8 | l) << 32);
	for (uint32_t r = 0; r < URZ; r++)
		w->u[r] = (uint32_t)mix64(m->in->seed ^ (uint64_t)(r + 1000) << 32);
}

/* All that wait at the barrier go on.  false: nobody waits. */
static bool
barrier(struct machine *m)
{
	bool any = false;

	for (uint32_t n = 0; n < m->in->n_warps; n++) {
		struct warp *w = &m->warp[n];

		any |= lanes_in(w, LANE_AT_BARRIER) != 0;
		for (uint32_t l = 0; l < LANES; l++)
			if (w->state[l] == LANE_AT_BARRIER)
				w->state[l] = LANE_RUNS;
		w->interval++;
	}
	return any;
}

static void
land_all(struct machine *m)
{
	for (uint32_t n = 0; n < m->in->n_warps; n++) {
		struct step s = {.m = m, .w = &m->warp[n]};

		s.w->groups++;
		flights_land(&s, 0);
	}
}

static bool
input_fits(const struct sass_kernel *k, const struct machine_input *in)
{
	return k->n_instr > 0 && in->n_warps > 0 && in->n_warps <= MACHINE_WARPS;
}

void
machine_run(struct arena *a, const struct sass_kernel *k, const struct machine_hazards *hazards,
    const struct machine_input *in, struct machine_trace *out)
{
	const struct arena_mark mark = arena_mark(a);
	struct machine m = {.a = a, .k = k, .hazards = hazards, .in = in, .out = out};

	*out = (struct machine_trace){.end = MACHINE_ENDED};
	if (!input_fits(k, in)) {
		stop(&m, 0, "no code, or no warps");
		return;
	}
	m.store = (struct store){.a = a, .seed = mix64(in->seed), .loaded_mask = in->loaded_mask};
	m.warp = NEW_ARRAY(a, struct warp, in->n_warps);
	m.op = NEW_ARRAY(a, const struct machine_op *, k->n_instr);
	m.visited = NEW_ARRAY(a, uint8_t, k->n_instr);
	m.param_base = k->sm >= 100 ? 0x380 : k->sm >= 90 ? 0x210 : 0x160;
	for (uint32_t n = 0; n < in->n_warps; n++)
		start(&m, n);
	bool runs = true;

	while (runs && out->end != MACHINE_UNKNOWN) {
		for (uint32_t n = 0; runs && n < in->n_warps; n++)
			runs = run_warp(&m, &m.warp[n]);
		runs = runs && barrier(&m);
	}
	land_all(&m);
	out->memory = store_digest(&m.store);
	for (uint32_t n = 0; n < k->n_instr; n++)
		out->visited += m.visited[n];
	arena_reset(a, mark);
}
