/* kernels/sass/machine_flow.c: branches, convergence of lanes, barriers.  Of the lanes that run, those at the
 * lowest place go first, so that lanes which parted meet again where the code has them meet. */
#include "machine_int.h"

uint32_t
warp_front(struct warp *w, uint32_t *at)
{
	uint32_t lanes = 0;

	*at = UINT32_MAX;
	for (uint32_t l = 0; l < LANES; l++) {
		if (w->state[l] != LANE_RUNS || w->pc[l] > *at)
			continue;
		if (w->pc[l] < *at) {
			*at = w->pc[l];
			lanes = 0;
		}
		lanes |= 1u << l;
	}
	return lanes;
}

void
op_nothing(struct step *s)
{
	(void)s;
}

static bool
is_conditional(const struct sass_instr *i)
{
	return i->guard != SASS_PT || field_of(i, 87, 3) != SASS_PT;
}

/* Where the code goes on behind a loop that ends with the branch at `last`: right there, or where the first
 * branch out of it goes; -1: nowhere. */
static int64_t
way_out(const struct sass_kernel *k, uint32_t first, uint32_t last)
{
	if (is_conditional(&k->instr[last]))
		return last + 1;
	for (uint32_t n = first; n < last; n++) {
		const struct sass_instr *i = &k->instr[n];

		if (i->flags & SASS_BRANCH && is_conditional(i) && i->target > (int32_t)last)
			return i->target;
	}
	return -1;
}

/* Back once more, or out of the loop where the warp took its turns.  Base and edited code do it equally
 * often. */
static int64_t
turn(struct step *s, uint32_t lanes, int64_t to)
{
	const struct machine_input *in = s->m->in;
	uint32_t *taken = &s->w->taken[s->at];

	if (*taken < in->turns) {
		++*taken;
		return to;
	}
	to = in->leaves_loops ? way_out(s->m->k, (uint32_t)to, s->at) : -1;
	for (uint32_t l = 0; to < 0 && l < LANES; l++)
		if (lanes >> l & 1)
			s->w->state[l] = LANE_ENDED;
	s->m->out->end = MAX_OF(s->m->out->end, MACHINE_CUT);
	return to;
}

void
warp_jump(struct step *s, uint32_t lanes, int64_t to)
{
	if (!lanes)
		return;
	if (to < 0 || to >= s->m->k->n_instr) {
		s->unknown = "a branch to a place outside";
		return;
	}
	if (to <= (int64_t)s->at)
		to = turn(s, lanes, to);
	for (uint32_t l = 0; to >= 0 && l < LANES; l++)
		if (lanes >> l & 1)
			s->w->pc[l] = (uint32_t)to;
}

static uint32_t
living(const struct warp *w)
{
	uint32_t lanes = 0;

	for (uint32_t l = 0; l < LANES; l++)
		lanes |= (uint32_t)(w->state[l] != LANE_ENDED) << l;
	return lanes;
}

/* .DIV: where not all lanes of a mask are here; .CONV: where they are. */
static bool
is_branch_for_these(const struct step *s)
{
	enum { CONV = 1, DIV };
	const uint32_t how = field(s, 32, 2),
		       all = bit(s, 91) ? ureg_of(s->w, field(s, 24, 6)) : living(s->w);

	return how == DIV ? s->active != all : how == CONV ? s->active == all : true;
}

void
op_bra(struct step *s)
{
	uint32_t lanes = 0;

	if (!is_branch_for_these(s))
		return;
	for (EACH_LANE(l, s))
		lanes |= (uint32_t)pred_in(s, 87, 90, l) << l;
	warp_jump(s, lanes, s->i->target);
}

void
op_exit(struct step *s)
{
	for (EACH_LANE(l, s))
		if (pred_in(s, 87, 90, l))
			s->w->state[l] = LANE_ENDED;
}

void
op_bssy(struct step *s)
{
	const uint32_t b = field(s, 16, 4);

	s->w->joins[b] = s->lanes;
	s->w->join_at[b] = s->i->target;
}

enum { BY_WARPSYNC = 16 };

/* Lanes that are still to come to a meeting; who has ended does not. */
static uint32_t
awaited(const struct warp *w, uint32_t lanes, uint32_t join)
{
	uint32_t left = 0;

	for (uint32_t l = 0; l < LANES; l++)
		if (lanes >> l & 1 && w->state[l] != LANE_ENDED &&
		    !(w->state[l] == LANE_JOINS && w->join_of[l] == join))
			left |= 1u << l;
	return left;
}

/* Lanes wait until all of `of` are there, and go on together where the meeting was said to be. */
static void
meet(struct step *s, uint32_t of, uint32_t join, int32_t to)
{
	for (EACH_LANE(l, s)) {
		s->w->state[l] = LANE_JOINS;
		s->w->join_of[l] = (uint8_t)join;
		if (to >= 0)
			s->w->pc[l] = (uint32_t)to;
	}
	if (awaited(s->w, of, join))
		return;
	for (uint32_t l = 0; l < LANES; l++)
		if (s->w->state[l] == LANE_JOINS && s->w->join_of[l] == join)
			s->w->state[l] = LANE_RUNS;
}

void
op_bsync(struct step *s)
{
	const uint32_t b = field(s, 16, 4);

	meet(s, s->w->joins[b], b, s->w->join_at[b]);
}

void
op_break(struct step *s)
{
	for (EACH_LANE(l, s))
		if (pred_in(s, 87, 90, l))
			s->w->joins[field(s, 16, 4)] &= ~(1u << l);
}

void
op_warpsync(struct step *s)
{
	const uint32_t mask = s->lanes ? operand_of(s, &s->b, (uint32_t)__builtin_ctz(s->lanes)) : 0;

	meet(s, mask ? mask : living(s->w), BY_WARPSYNC, -1);
}

void
op_bmov_out(struct step *s)
{
	const uint32_t b = field(s, 24, 4);

	for (EACH_LANE(l, s))
		set_dest(s, 0, l, s->w->joins[b]);
	if (bit(s, 84))
		s->w->joins[b] = 0;
}

void
op_bmov_in(struct step *s)
{
	if (s->lanes)
		s->w->joins[field(s, 24, 4)] = operand_of(s, &s->b, (uint32_t)__builtin_ctz(s->lanes));
}

void
op_call(struct step *s)
{
	warp_jump(s, s->lanes, s->i->target);
}

/* To an address in a register, by the offset to the kernel's beginning: a signed number of quarters of a
 * word, which from Hopper on has its low eight bits in another place. */
void
op_ret(struct step *s)
{
	const int64_t high = (int64_t)(field_of(s->i, 34, 48) << 16) >> 16;
	const int64_t offset = 4 * (s->m->k->sm >= 90 ? high * 256 + field(s, 16, 8) : high);

	for (EACH_LANE(l, s)) {
		const int64_t to = (int64_t)s->at + 1 + (offset + (int64_t)operand_pair(s, &s->a, l)) / 16;

		warp_jump(s, 1u << l, to);
	}
}

void
op_bar(struct step *s)
{
	for (EACH_LANE(l, s))
		s->w->state[l] = LANE_AT_BARRIER;
}
