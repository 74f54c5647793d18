/* kernels/sass/price.c: what instructions occupy, by sm_rate.def, summed up and simulated. */
#include "price_int.h"

#include "../base/sm.h"

#include <math.h>
#include <string.h>

/* ---- rates ---------------------------------------------------------------------------------------- */
static const struct sass_rate rates[] = {
#define RATE(SM, FMA, IMAD, ALU, HALF, XU, UNIFORM, DOUBLE, L2, MMA, SYNC)                                   \
	{SM, FMA, IMAD, ALU, HALF, XU, UNIFORM, DOUBLE, L2, MMA, SYNC},
#include "sm_rate.def"
};
static const struct {
	const char *name;
	double cycles[3]; /* of sm_7x, 8x, 9x */
} latencies[] = {
#define LATENCY(NAME, VOLTA, AMPERE, HOPPER) {NAME, {VOLTA, AMPERE, HOPPER}},
#include "sm_rate.def"
};

const struct sass_rate *
sass_rate_of(int sm)
{
	for (size_t i = 0; i < COUNT_OF(rates); i++)
		if (rates[i].sm == sm)
			return &rates[i];
	return NULL;
}

bool
sass_price_knows(int sm)
{
	return sass_rate_of(sm) != NULL;
}

static double
latency_of(const char *name, int sm)
{
	for (size_t i = 0; i < COUNT_OF(latencies); i++)
		if (strcmp(latencies[i].name, name) == 0)
			return latencies[i].cycles[sm / 10 - 7];
	return 0;
}

const char *
sass_unit_name(enum sass_unit u)
{
	static const char *const names[SASS_UNITS] = {
	    "issue", "fma", "alu", "half", "xu", "uniform", "tensor", "memory", "l2", "double"};

	return names[u];
}

/* ---- an instruction ----------------------------------------------------------------------------------- */
static const char *
name_of(const struct sass_instr *i)
{
	return i->op ? i->op->name : "";
}

static bool
is(const struct sass_instr *i, const char *name)
{
	return strcmp(name_of(i), name) == 0;
}

static enum sass_step_kind
kind_of(const struct sass_instr *i)
{
	static const struct {
		const char *name;
		enum sass_step_kind kind;
	} kinds[] = {{"BAR", STEP_BARRIER}, {"LDGSTS", STEP_COPY}, {"LDGDEPBAR", STEP_GROUP_ENDS},
	    {"DEPBAR", STEP_GROUP_WAITS}, {"HGMMA", STEP_MMA}, {"QGMMA", STEP_MMA},
	    {"WARPGROUP", STEP_MMA_WAITS}};

	for (size_t k = 0; k < COUNT_OF(kinds); k++)
		if (is(i, kinds[k].name))
			return kinds[k].kind == STEP_MMA_WAITS && !(i->lo >> 47 & 1) ? STEP_PLAIN
										     : kinds[k].kind;
	return STEP_PLAIN;
}

static double
multiply_adds(const struct sass_instr *i)
{
	return (double)i->mma_m * i->mma_n * i->mma_k;
}

/* Times as slow as f16: half as fast for each doubling of the bits; f64 a sixteenth. */
static double
by_bits(const struct sass_instr *i)
{
	return i->mma_bits == 64 ? 16 : i->mma_bits / 16.;
}

/* Cycles of tensor cores at their peak. */
static double
tensor_peak(const struct sass_instr *i, const struct sass_rate *r)
{
	return multiply_adds(i) * by_bits(i) / r->mma;
}

static double
tensor_cycles(const struct sass_instr *i, const struct sass_rate *r)
{
	return tensor_peak(i, r) / (kind_of(i) == STEP_MMA ? 1 : r->sync);
}

static double
conflict_of(const struct sass_instr *i, const struct sass_load *l)
{
	const double f = is(i, "LDS") ? l->load
	    : is(i, "LDSM")           ? l->matrix
	    : is(i, "STS")            ? l->store
	    : is(i, "LDGSTS")         ? l->copy
				      : 1;

	return f > 0 ? f : 1;
}

static bool
reaches_l2(const struct sass_instr *i)
{
	return is(i, "LDG") || is(i, "STG") || is(i, "LDGSTS");
}

/* An asynchronous copy through the first cache takes its tags and then its words; bit 81 says so. */
static bool
is_cached_copy(const struct sass_instr *i)
{
	return is(i, "LDGSTS") && i->hi >> 17 & 1;
}

static double
memory_cycles(const struct sass_instr *i, const struct sass_load *l)
{
	const double waves = fmax(i->bytes, 4) / 4;

	return SM_QUARTERS * (waves * conflict_of(i, l) + (is_cached_copy(i) ? waves : 0));
}

struct use { /* of units, in cycles */
	enum sass_unit unit[2];
	double cycles[2];
};

static struct use
use_of(const struct sass_instr *i, const struct sass_rate *r, const struct sass_load *l)
{
	switch (i->op ? i->op->pipe : SASS_NONE) {
	case SASS_FMA:
		return (struct use){{SASS_UNIT_FMA}, {r->fma}};
	case SASS_IMAD:
		return (struct use){{SASS_UNIT_FMA}, {r->imad}};
	case SASS_ALU:
		return (struct use){{SASS_UNIT_ALU}, {r->alu}};
	case SASS_HALF:
		return (struct use){{SASS_UNIT_HALF}, {r->half}};
	case SASS_XU:
		return (struct use){{SASS_UNIT_XU}, {r->xu}};
	case SASS_UNIFORM:
		return (struct use){{SASS_UNIT_UNIFORM}, {r->uniform}};
	case SASS_DOUBLE:
		return (struct use){{SASS_UNIT_DOUBLE}, {r->dbl}};
	case SASS_TENSOR:
		return (struct use){{SASS_UNIT_TENSOR}, {tensor_cycles(i, r)}};
	case SASS_MEMORY:
		return (struct use){{SASS_UNIT_MEMORY, reaches_l2(i) ? SASS_UNIT_L2 : SASS_UNIT_NONE},
		    {memory_cycles(i, l), SM_WARP * fmax(i->bytes, 4) / r->l2}};
	case SASS_NONE:
	case SASS_PIPES:
		break;
	}
	return (struct use){{SASS_UNIT_NONE}, {0}};
}

void
sass_step_make(
    const struct sass_instr *i, const struct sass_rate *r, const struct sass_load *l, struct sass_step *out)
{
	const struct use u = use_of(i, r, l);

	*out = (struct sass_step){.kind = (uint8_t)kind_of(i),
	    .latency = llround(latency_of(name_of(i), r->sm) * SASS_TICK),
	    .stall = MAX_OF(i->stall, (uint8_t)1),
	    .write_barrier = i->write_barrier,
	    .read_barrier = i->read_barrier,
	    .wait = i->wait};
	/* DEPBAR has its count in bits 38..43, WARPGROUP.DEPBAR in bits 72..77 */
	out->left = (uint8_t)((out->kind == STEP_MMA_WAITS ? i->hi >> 8 : i->lo >> 38) & 0x3f);
	for (int k = 0; k < 2; k++) {
		out->unit[k] = (uint8_t)u.unit[k];
		out->cost[k] = llround(u.cycles[k] * SASS_TICK);
		out->gate[k] = out->kind == STEP_MMA && u.unit[k] ? GATE_DEEP : out->unit[k];
	}
}

/* ---- bounds ------------------------------------------------------------------------------------------- */
/* Of a warp; `certain`: what a bound may count on. */
static void
add_use(struct sass_bounds *b, double *peak, const struct sass_instr *i, const struct sass_rate *r,
    const struct sass_load *l, bool certain)
{
	const struct use u = use_of(i, r, l);
	const bool always = i->guard == SASS_PT && !i->guard_negated;

	b->unit[SASS_UNIT_NONE]++;
	if (i->mma_bits) {
		peak[0] += tensor_peak(i, r);
		b->multiply_adds += (uint64_t)multiply_adds(i);
	}
	if (is(i, "FFMA"))
		peak[1] += r->fma;
	if (certain && !always)
		return;
	for (int k = 0; k < 2 && u.unit[k]; k++)
		b->unit[u.unit[k]] += !certain      ? u.cycles[k]
		    : u.unit[k] == SASS_UNIT_MEMORY ? SM_QUARTERS
		    : u.unit[k] == SASS_UNIT_L2     ? 0
		    : u.unit[k] == SASS_UNIT_TENSOR ? tensor_peak(i, r)
						    : u.cycles[k];
}

static void
scale(struct sass_bounds *b, const double *peak, uint32_t warps, const struct sass_rate *r)
{
	if (b->multiply_adds == 0)
		b->multiply_adds = (uint64_t)(peak[1] / r->fma) * SM_WARP;
	b->peak = (peak[0] > 0 ? peak[0] : peak[1]) * warps;
	for (int u = 0; u < SASS_UNITS; u++)
		b->unit[u] *= warps;
}

void
sass_bounds(const struct sass_kernel *k, uint32_t first, uint32_t end, const struct sass_load *l,
    struct sass_bounds *out)
{
	const struct sass_rate *r = sass_rate_of(k->sm);
	double peak[2] = {0, 0};

	*out = (struct sass_bounds){.peak = 0};
	for (uint32_t i = first; i < end && i < k->n_instr; i++)
		add_use(out, peak, &k->instr[i], r, l, false);
	scale(out, peak, MAX_OF(l->warps, 1u), r);
}

double
sass_bound_cycles(const struct sass_bounds *b)
{
	return b->unit[sass_bound_unit(b)];
}

enum sass_unit
sass_bound_unit(const struct sass_bounds *b)
{
	enum sass_unit most = SASS_UNIT_NONE;

	for (int u = 0; u < SASS_UNITS; u++)
		if (b->unit[u] > b->unit[most])
			most = (enum sass_unit)u;
	return most;
}

/* ---- what is certain ------------------------------------------------------------------------------------
 */
enum { FLOOR_BLOCKS = 4096 };

/* From the loop's beginning to its last instruction, never through block `without`: is there a way? */
static bool
goes_round(const struct sass_kernel *k, const struct sass_loop *loop, uint32_t without)
{
	uint32_t list[FLOOR_BLOCKS];
	bool seen[FLOOR_BLOCKS] = {false};
	uint32_t n = 0;

	list[n++] = (uint32_t)(sass_block_of(k, loop->first) - k->block);
	while (n > 0) {
		const uint32_t b = list[--n];
		const struct sass_block *x = &k->block[b];

		if (seen[b] || b == without || x->first < loop->first || x->first > loop->last)
			continue;
		seen[b] = true;
		if (x->end > loop->last)
			return true;
		for (uint32_t q = 0; q < x->n_next; q++)
			if (!seen[x->next[q]])
				list[n++] = x->next[q];
		if (n + 2 >= FLOOR_BLOCKS)
			return true;
	}
	return false;
}

void
sass_floor(const struct sass_kernel *k, const struct sass_loop *loop, uint32_t warps, struct sass_bounds *out)
{
	static const struct sass_load none = {.warps = 1};
	const struct sass_rate *r = sass_rate_of(k->sm);
	double peak[2] = {0, 0};

	*out = (struct sass_bounds){.peak = 0};
	for (uint32_t b = 0; b < k->n_blocks && k->n_blocks <= FLOOR_BLOCKS; b++) {
		const struct sass_block *x = &k->block[b];

		if (x->first < loop->first || x->first > loop->last || goes_round(k, loop, b))
			continue;
		for (uint32_t i = x->first; i < x->end && i <= loop->last; i++)
			add_use(out, peak, &k->instr[i], r, &none, true);
	}
	scale(out, peak, warps, r);
}

/* ---- simulated
 * --------------------------------------------------------------------------------------------- */
enum { FEW_WARPS = 4 };

struct word { /* that a step was made of */
	uint64_t lo, hi, stall;
};
struct sass_price {
	const struct sass_rate *rate;
	struct sass_load load;
	uint32_t first, n;
	struct sass_step *step;
	struct word *word;
	double bound;
	/* asked quickly: warps that a simulated one stands for; steps of such; words of what was taken */
	double fold;
	struct sass_step *folded;
	struct word *taken;
	struct sass_steady *steady;
	bool is_asked; /* the steps as they are */
};

static bool
is_of(const struct word *w, const struct sass_instr *x)
{
	return x->lo == w->lo && x->hi == w->hi && x->stall == w->stall;
}

static void
make_step(struct sass_price *p, uint32_t i, const struct sass_instr *x)
{
	p->word[i] = (struct word){x->lo, x->hi, x->stall};
	sass_step_make(x, p->rate, &p->load, &p->step[i]);
	p->is_asked = false;
	if (!p->folded)
		return;
	p->folded[i] = p->step[i];
	for (int k = 0; k < 2; k++)
		p->folded[i].cost[k] = llround((double)p->step[i].cost[k] * p->fold);
}

/* Steps of instructions that are others than they were. */
static void
follow(struct sass_price *p, const struct sass_instr *instr)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (!is_of(&p->word[i], &instr[p->first + i]))
			make_step(p, i, &instr[p->first + i]);
}

struct sass_price *
sass_price_make(
    struct arena *a, const struct sass_kernel *k, const struct sass_loop *loop, const struct sass_load *l)
{
	struct sass_price *p = NEW(a, struct sass_price);
	struct sass_bounds b;

	sass_bounds(k, loop->first, loop->last + 1, l, &b);
	*p = (struct sass_price){.rate = sass_rate_of(k->sm),
	    .load = *l,
	    .first = loop->first,
	    .n = loop->last + 1 - loop->first,
	    .bound = sass_bound_cycles(&b)};
	p->load.warps = MAX_OF(l->warps, 1u);
	p->load.blocks = MIN_OF(MAX_OF(l->blocks, 1u), p->load.warps);
	p->step = NEW_ARRAY(a, struct sass_step, p->n);
	p->word = NEW_ARRAY(a, struct word, p->n);
	for (uint32_t i = 0; i < p->n; i++)
		make_step(p, i, &k->instr[p->first + i]);
	return p;
}

double
sass_price_loop(struct sass_price *p, const struct sass_instr *instr, double limit)
{
	double cycles;

	follow(p, instr);
	cycles = p->bound >= limit ? INFINITY : fmax(sass_simulate(p->step, p->n, &p->load, limit), p->bound);
	return cycles >= limit ? INFINITY : cycles;
}

/* ---- asked quickly --------------------------------------------------------------------------------------
 */
/* So many warps in place of all. */
static void
stand_for(
    struct sass_price *p, struct arena *a, const struct sass_instr *instr, uint32_t warps, uint32_t blocks)
{
	struct sass_load few = p->load;

	few.warps = warps;
	few.blocks = blocks;
	p->fold = (double)p->load.warps / warps;
	for (uint32_t i = 0; i < p->n; i++)
		make_step(p, i, &instr[p->first + i]);
	p->steady = sass_steady_make(a, p->folded, p->n, &few, p->fold);
}

void
sass_price_hurry(struct sass_price *p, struct arena *a, const struct sass_instr *instr)
{
	const uint32_t warps = p->load.warps, blocks = p->load.blocks;

	p->folded = NEW_ARRAY(a, struct sass_step, p->n);
	p->taken = NEW_ARRAY(a, struct word, p->n);
	if (warps > SASS_MANY_WARPS)
		stand_for(p, a, instr, FEW_WARPS, MIN_OF(blocks, (uint32_t)FEW_WARPS));
	else if (warps > FEW_WARPS && blocks > 1)
		stand_for(p, a, instr, warps / blocks, 1);
	else
		stand_for(p, a, instr, warps, blocks);
	memcpy(p->taken, p->word, p->n * sizeof(*p->taken));
}

static double
ask(struct sass_price *p, double limit)
{
	uint64_t changed = 0;
	double cycles;

	for (uint32_t i = 0; i < p->n; i++)
		if (memcmp(&p->word[i], &p->taken[i], sizeof(p->word[i])) != 0)
			changed |= sass_steady_part(p->steady, i);
	cycles = sass_steady_ask(p->steady, changed, limit);
	p->is_asked = isfinite(cycles);
	return fmax(cycles, p->bound);
}

double
sass_price_near(struct sass_price *p, const struct sass_instr *instr, double limit)
{
	double cycles;

	follow(p, instr);
	cycles = p->bound >= limit ? INFINITY : ask(p, limit);
	return cycles >= limit ? INFINITY : cycles;
}

void
sass_price_take(struct sass_price *p, const struct sass_instr *instr)
{
	follow(p, instr);
	if (!p->is_asked)
		(void)ask(p, INFINITY);
	sass_steady_take(p->steady);
	memcpy(p->taken, p->word, p->n * sizeof(*p->taken));
	p->is_asked = false;
}

/* ---- a kernel -------------------------------------------------------------------------------------------
 */
/* Where the kernel ends on its usual way: the first exit without a guard behind the loop. */
static uint32_t
end_of_text(const struct sass_kernel *k, const struct sass_loop *loop)
{
	for (uint32_t i = loop ? loop->last : 0; i < k->n_instr; i++)
		if (is(&k->instr[i], "EXIT") && k->instr[i].guard == SASS_PT && !k->instr[i].guard_negated)
			return i + 1;
	return k->n_instr;
}

double
sass_price_kernel(struct arena *tmp, const struct sass_kernel *k, const struct sass_loop *loop, double turns,
    const struct sass_load *l)
{
	const struct sass_rate *r = sass_rate_of(k->sm);
	const uint32_t end = end_of_text(k, loop);
	struct sass_step *step = NEW_ARRAY(tmp, struct sass_step, MAX_OF(end, 1u));
	double cycles = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < end; i++)
		if (!loop || i < loop->first || i > loop->last)
			sass_step_make(&k->instr[i], r, l, &step[n++]);
	cycles = sass_simulate_once(step, n, l);
	if (loop && turns > 0)
		cycles += turns * sass_price_loop(sass_price_make(tmp, k, loop, l), k->instr, INFINITY);
	return cycles;
}
