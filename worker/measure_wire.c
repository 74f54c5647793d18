/* worker/measure_wire.c: what parent and measuring child say to each other (messages 130 to 148 of
 * proto/msg.def) as the structs of this folder, and back.  What comes in is checked here: counts, ranges,
 * texts. */
#include "measure_int.h"

#include "../kernels/base/epoch.h"
#include "../schema/artefact.h"

#include <string.h>

enum { DIM_LEVELS = COUNT_OF(((struct hw *)0)->bytes_per_s) };
/* Limits that stand as numbers in msg.def. */
_Static_assert(KERNEL_MAX_PASSES == 16 && DIM_LEVELS == 4 && DEV_FACT_COUNT <= 64 && MEASURE_MAX_PLANS == 16,
    "proto/msg.def has other limits");

/* ---- frames ---------------------------------------------------------------------------- */
static void
open_pipe(struct pipe *p, int fd, size_t max_in, size_t max_out)
{
	pipe_init(p, fd, fd);
	p->is_socket = true;
	p->max_in = max_in;
	p->max_out = max_out;
}

void
measure_pipe_parent(struct pipe *p, int fd)
{
	open_pipe(p, fd, PIPE_MAX_BYTES, MEASURE_MAX_BYTES);
}

void
measure_pipe_child(struct pipe *p, int fd)
{
	open_pipe(p, fd, MEASURE_MAX_BYTES, PIPE_MAX_BYTES);
}

struct m_child_welcome
measure_welcome(void)
{
	return (struct m_child_welcome){.program = STR(KORCH_VERSION),
	    .version = PROTO_VERSION,
	    .epoch = GENERATOR_EPOCH,
	    .method = MEASURE_METHOD};
}

bool
measure_is_same_build(const struct m_child_welcome *its)
{
	struct m_child_welcome mine = measure_welcome();

	return str_eq(its->program, mine.program) && its->version == mine.version &&
	    its->epoch == mine.epoch && its->method == mine.method;
}

/* ---- calibration ----------------------------------------------------------------------- */
static void
pack_peaks(struct arena *a, const struct hw *hw, struct m_peaks *out)
{
	*out = (struct m_peaks){.flops_peak = hw->flops_peak,
	    .tensor_peak = hw->tensor_peak,
	    .linear_flops = hw->linear_flops,
	    .exp_per_s = hw->exp_per_s,
	    .div_per_s = hw->div_per_s,
	    .bytes_per_s = arena_dup(a, hw->bytes_per_s, sizeof(hw->bytes_per_s)),
	    .n_bytes_per_s = DIM_LEVELS,
	    .l1_bytes = hw->level_bytes[0],
	    .l2_bytes = hw->level_bytes[1],
	    .l3_bytes = hw->level_bytes[2],
	    .call_ns = hw->call_ns,
	    .barrier_ns = hw->barrier_ns,
	    .simd_bytes = hw->simd_bytes,
	    .lanes = hw->lanes,
	    .n_threads = hw->n_threads,
	    .winograd = hw->winograd};
}

/* The part that every batch needs. */
void
calibration_pack_bounds(struct arena *a, const struct calibration *c, struct m_calibration *out)
{
	*out = (struct m_calibration){
	    .ref_compute_ns = c->ref_ns[REF_COMPUTE], .ref_stream_ns = c->ref_ns[REF_STREAM]};
	pack_peaks(a, &c->hw, &out->hw);
}

void
calibration_pack(struct arena *a, const struct calibration *c, struct m_calibration *out)
{
	struct strbuf target;

	sb_init(&target, a);
	target_print(&target, &c->target);
	calibration_pack_bounds(a, c, out);
	out->device_class = str_of(c->info.device_class);
	out->run_compat = str_of(c->info.run_compat);
	out->features = str_of(c->info.features);
	out->environment = str_of(c->info.environment);
	out->facts = arena_dup(a, c->info.fact, sizeof(c->info.fact));
	out->n_facts = DEV_FACT_COUNT;
	out->target = sb_str(&target);
}

static bool
is_count(int64_t v)
{
	return v >= 0 && v <= INT32_MAX;
}

bool
calibration_unpack_bounds(const struct m_calibration *m, struct calibration *out, struct err *e)
{
	const struct m_peaks *p = &m->hw;

	*out = (struct calibration){
	    .ref_ns = {[REF_COMPUTE] = m->ref_compute_ns, [REF_STREAM] = m->ref_stream_ns}};
	if (p->n_bytes_per_s != DIM_LEVELS || !is_count(p->simd_bytes) || !is_count(p->lanes) ||
	    !is_count(p->n_threads))
		return err_set(e, ERR_PROTO, "a calibration with numbers out of range");
	out->hw = (struct hw){.flops_peak = p->flops_peak,
	    .tensor_peak = p->tensor_peak,
	    .linear_flops = p->linear_flops,
	    .exp_per_s = p->exp_per_s,
	    .div_per_s = p->div_per_s,
	    .level_bytes = {p->l1_bytes, p->l2_bytes, p->l3_bytes},
	    .call_ns = p->call_ns,
	    .barrier_ns = p->barrier_ns,
	    .simd_bytes = (int)p->simd_bytes,
	    .lanes = (int)p->lanes,
	    .n_threads = (int)p->n_threads,
	    .winograd = p->winograd};
	memcpy(out->hw.bytes_per_s, p->bytes_per_s, sizeof(out->hw.bytes_per_s));
	return true;
}

/* A text with a NUL inside, or without room for the one behind it, fits no array of this program. */
static bool
take_text(char *out, size_t cap, struct str s)
{
	if (s.n >= cap || memchr(s.p, 0, s.n))
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

bool
calibration_unpack(const struct m_calibration *m, struct calibration *out, struct err *e)
{
	struct dev_info *info = &out->info;

	if (!calibration_unpack_bounds(m, out, e))
		return false;
	if (m->n_facts != DEV_FACT_COUNT ||
	    !take_text(info->device_class, sizeof(info->device_class), m->device_class) ||
	    !take_text(info->run_compat, sizeof(info->run_compat), m->run_compat) ||
	    !take_text(info->features, sizeof(info->features), m->features) ||
	    !take_text(info->environment, sizeof(info->environment), m->environment))
		return err_set(e, ERR_PROTO, "a calibration with words that are none of a device");
	memcpy(info->fact, m->facts, sizeof(info->fact));
	if (target_read(m->target, &out->target, e))
		return true;
	e->code = ERR_PROTO;
	return false;
}

/* ---- batches: out ---------------------------------------------------------------------- */
static void
pack_kernel(struct arena *a, const struct measure_kernel *k, bool is_settled, struct m_batch_kernel *out)
{
	const struct descriptor *d = &k->code->desc;
	struct m_pass *passes = NEW_ARRAY(a, struct m_pass, KERNEL_MAX_PASSES);
	struct m_packing *packs = NEW_ARRAY(a, struct m_packing, MAX_OF(d->n_packs, 1u));

	for (uint32_t i = 0; i < d->n_passes; i++)
		passes[i].range = d->range[i];
	for (uint32_t i = 0; i < d->n_packs; i++)
		packing_pack(a, &d->packs[i], &packs[i]);
	*out = (struct m_batch_kernel){.schedule = k->schedule,
	    .symbol = k->symbol,
	    .bound_ns = k->bound_ns,
	    .is_settled = is_settled,
	    .passes = passes,
	    .n_passes = d->n_passes,
	    .shared_bytes = d->shared_bytes,
	    .local_bytes = d->local_bytes,
	    .packs = packs,
	    .n_packs = d->n_packs};
}

void
batch_pack(struct arena *a, const struct measure_batch *b, const bool *is_settled, struct m_batch_ask *out)
{
	struct m_batch_item *items = NEW_ARRAY(a, struct m_batch_item, MAX_OF(b->n_items, 1u));

	*out = (struct m_batch_ask){.module = b->module,
	    .budget_ns = b->budget_ns,
	    .tolerance = b->tolerance,
	    .check_only = b->check_only,
	    .alone = b->alone,
	    .together = b->together,
	    .in_pairs = b->in_pairs,
	    .seed = b->seed,
	    .items = items,
	    .n_items = b->n_items};
	calibration_pack_bounds(a, b->calibration, &out->calibration);
	for (uint32_t i = 0; i < b->n_items; i++) {
		const struct measure_item *it = &b->items[i];
		struct m_batch_kernel *kernels =
		    NEW_ARRAY(a, struct m_batch_kernel, MAX_OF(it->n_kernels, 1u));

		for (uint32_t k = 0; k < it->n_kernels; k++)
			pack_kernel(a, &it->kernels[k], *is_settled++, &kernels[k]);
		items[i] = (struct m_batch_item){.spec = it->spec->text,
		    .heat = it->heat,
		    .known_ns = it->known_ns,
		    .tolerance = it->tolerance,
		    .kernels = kernels,
		    .n_kernels = it->n_kernels};
	}
}

/* ---- batches: in ----------------------------------------------------------------------- */
static bool
unpack_packs(struct arena *a, const struct m_batch_kernel *m, const struct graph *g, struct descriptor *d,
    struct err *e)
{
	d->packs = NEW_ARRAY(a, struct pack, MAX_OF(m->n_packs, 1u));
	d->n_packs = m->n_packs;
	for (uint32_t i = 0; i < m->n_packs; i++) {
		struct pack *p = &d->packs[i];

		if (!packing_unpack(&m->packs[i], p, e))
			return false;
		if (p->operand >= g->n_inputs)
			return err_set(
			    e, ERR_PROTO, "a batch that packs operand %u of %u", p->operand, g->n_inputs);
		if (!pack_check(p, shape_count(&graph_tensor(g, g->inputs[p->operand])->shape), e))
			return false;
	}
	return true;
}

static bool
unpack_kernel(struct arena *a, const struct m_batch_kernel *m, const struct graph *g,
    struct measure_kernel *k, struct err *e)
{
	struct kernel_code *c = NEW(a, struct kernel_code);
	struct descriptor *d = &c->desc;

	d->n_passes = m->n_passes;
	for (uint32_t i = 0; i < m->n_passes; i++)
		d->range[i] = m->passes[i].range;
	d->shared_bytes = m->shared_bytes;
	d->local_bytes = m->local_bytes;
	*k = (struct measure_kernel){
	    .schedule = m->schedule, .symbol = m->symbol, .code = c, .bound_ns = m->bound_ns};
	k->symbol.p = str_dup(a, m->symbol); /* names of functions are made of it, as strings of C */
	return unpack_packs(a, m, g, d, e);
}

static bool
unpack_item(
    struct arena *a, const struct m_batch_item *m, struct measure_item *it, bool **skip, struct err *e)
{
	struct spec *s = NEW(a, struct spec);
	struct measure_kernel *kernels = NEW_ARRAY(a, struct measure_kernel, MAX_OF(m->n_kernels, 1u));

	if (!heat_is_word(m->heat))
		return err_set(e, ERR_PROTO, "a batch with a heat that is none");
	if (!spec_read(a, m->spec, s, e))
		return false;
	*it = (struct measure_item){.spec = s,
	    .heat = m->heat,
	    .kernels = kernels,
	    .n_kernels = m->n_kernels,
	    .known_ns = m->known_ns,
	    .tolerance = m->tolerance};
	*skip = NEW_ARRAY(a, bool, MAX_OF(m->n_kernels, 1u));
	for (uint32_t k = 0; k < m->n_kernels; k++) {
		(*skip)[k] = m->kernels[k].is_settled;
		if (!unpack_kernel(a, &m->kernels[k], &s->g, &kernels[k], e))
			return false;
	}
	return true;
}

bool
batch_unpack(struct arena *a, const struct m_batch_ask *m, struct child_batch *out, struct err *e)
{
	struct measure_item *items = NEW_ARRAY(a, struct measure_item, MAX_OF(m->n_items, 1u));

	*out = (struct child_batch){.batch = {.module = m->module,
					.items = items,
					.n_items = m->n_items,
					.budget_ns = m->budget_ns,
					.tolerance = m->tolerance,
					.check_only = m->check_only,
					.alone = m->alone,
					.together = m->together,
					.in_pairs = m->in_pairs,
					.seed = m->seed}};
	if (!calibration_unpack_bounds(&m->calibration, &out->calibration, e))
		return false;
	out->skip = NEW_ARRAY(a, bool *, MAX_OF(m->n_items, 1u));
	for (uint32_t i = 0; i < m->n_items; i++)
		if (!unpack_item(a, &m->items[i], &items[i], &out->skip[i], e))
			return false;
	return true;
}
