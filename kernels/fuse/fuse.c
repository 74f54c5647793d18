/* kernels/fuse/fuse.c: a spec becomes a tile program; feasibility; the list of schedules. */
#include "anchor.h"
#include "lower_int.h"

#define ISA(name, bytes, regs, needs, ...)                                                                   \
	const struct target target_##name = {.isa = ISA_##name,                                              \
	    .simd_bytes = bytes,                                                                             \
	    .n_vregs = regs,                                                                                 \
	    .l1_bytes = 32 << 10,                                                                            \
	    .l2_bytes = 512 << 10,                                                                           \
	    .l3_bytes = 32 << 20};
#include "../base/isa.def"
#undef ISA

const struct target *
target_of_isa(enum isa isa)
{
	static const struct target *const target[ISA_COUNT] = {
#define ISA(name, bytes, regs, needs, ...) &target_##name,
#include "../base/isa.def"
#undef ISA
	};

	return target[isa];
}

bool
target_check(const struct target *t, struct err *e)
{
	if (t->simd_bytes != 16 && t->simd_bytes != 32 && t->simd_bytes != 64)
		return err_set(e, ERR_DEVICE, "vectors of %d bytes; they have 16, 32 or 64", t->simd_bytes);
	if (t->n_vregs < 8 || t->n_vregs > 1024)
		return err_set(e, ERR_DEVICE, "%d vector registers; there are 8 to 1024", t->n_vregs);
	if (t->l1_bytes < 1024 || t->l2_bytes < 1024 || t->l3_bytes < 1024)
		return err_set(e, ERR_DEVICE, "caches of %lld, %lld and %lld bytes; each has 1024 at least",
		    (long long)t->l1_bytes, (long long)t->l2_bytes, (long long)t->l3_bytes);
	return true;
}

void
target_caches(struct target *t, double l1, double l2, double l3)
{
	t->l1_bytes = l1 > 0 ? (int64_t)l1 : t->l1_bytes;
	t->l2_bytes = l2 > 0 ? (int64_t)l2 : t->l2_bytes;
	t->l3_bytes = l3 > 0 ? (int64_t)l3 : t->l3_bytes;
}

const struct target target_cuda = {.simd_bytes = 16,
    .n_vregs = 16,
    .l1_bytes = 32 << 10,
    .l2_bytes = 512 << 10,
    .l3_bytes = 32 << 20,
    .is_cuda = true,
    .sm = 80};

static uint32_t *
makers_of(struct arena *a, const struct graph *g)
{
	uint32_t *maker = NEW_ARRAY(a, uint32_t, g->n_tensors);

	for (uint32_t t = 0; t < g->n_tensors; t++)
		maker[t] = NO_NODE;
	for (uint32_t i = g->n_nodes; i-- > 0;)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			maker[g->nodes[i].out[k].i] = i;
	return maker;
}

enum { MOST_ANCHORS = 3 };

static bool
rules_hold(const struct spec *s, uint32_t *n_anchors, struct err *e)
{
	uint32_t anchors = 0, opaque = 0;

	*n_anchors = 0;
	if (s->g.n_nodes > SPEC_MAX_NODES)
		return err_set(e, ERR_INFEASIBLE, "size: %u primitives; a kernel has at most %d",
		    s->g.n_nodes, SPEC_MAX_NODES);
	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		anchors += node_is_anchor(&s->g, &s->g.nodes[i]);
		opaque += prim_info[s->g.nodes[i].prim].class == CLASS_OPAQUE;
	}
	if (anchors > MOST_ANCHORS)
		return err_set(e, ERR_INFEASIBLE, "anchors: %u heavy linear primitives; %d are the most",
		    anchors, MOST_ANCHORS);
	if (opaque && s->g.n_nodes > 1)
		return err_set(e, ERR_INFEASIBLE, "opaque: such a primitive runs alone");
	*n_anchors = anchors;
	return true;
}

bool
tile_make(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    struct tile_prog *out, struct err *e)
{
	return tile_make_apart(a, s, sched, t, NULL, out, e);
}

bool
tile_make_apart(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    const bool *apart, struct tile_prog *out, struct err *e)
{
	return tile_make_watched(a, s, sched, t, apart, NULL, out, e);
}

/* Behind a pass: debug builds end the program where it left something broken; whoever watches is told. */
static bool
after(const struct tile_watch *w, const char *pass, enum tile_form level, const struct tile_prog *p,
    struct err *e)
{
#ifndef NDEBUG
	struct err wrong = {0};

	if (!tile_verify(p, level, &wrong))
		bug("after %s: %s\n%.*s", pass, wrong.msg, STR_ARG(p->spec->text));
#endif
	return !w || w->after(w->self, pass, level, p, e);
}

/* The program with stages, not yet in passes. */
static bool
make_stages(struct lower *l, const struct tile_watch *w, struct err *e)
{
	struct tile_prog *p = l->p;

	keep_decide(l);
	if (!stages_make(l, e) || !after(w, "stages", TILE_STAGES, p, e))
		return false;
	online_form(p);
	if (!after(w, "online", TILE_STAGES, p, e))
		return false;
	split_reductions(l);
	if (!after(w, "split", TILE_STAGES, p, e))
		return false;
	if (!p->target->is_cuda)
		anchors_pack(p);
	return after(w, "pack", TILE_STAGES, p, e);
}

/* ... in passes, without loops. */
static bool
form_passes(struct tile_prog *p, const struct tile_watch *w, struct err *e)
{
	sides_find(p);
	if (!sides_allowed(p, e) || !passes_form(p, e))
		return false;
	if (!p->target->is_cuda)
		anchors_outer(p);
	groups_form(p);
	return after(w, "form", TILE_FORMED, p, e);
}

static bool
bind_passes(struct tile_prog *p, const struct tile_watch *w, struct err *e)
{
	if (!passes_bind(p, e) || !after(w, "bind", TILE_BOUND, p, e))
		return false;
	for (uint32_t q = 0; q < p->n_passes && !p->target->is_cuda; q++)
		anchors_bind(p, q);
	if (!online_holds(p, e) || !winograd_holds(p, e) || !columns_hold(p, e))
		return false;
	if (!p->target->is_cuda)
		overlaps_find(p);
	return after(w, "anchors", TILE_BOUND, p, e);
}

bool
tile_make_watched(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    const bool *apart, const struct tile_watch *w, struct tile_prog *out, struct err *e)
{
	struct lower l = {.p = out, .g = &s->g};
	uint32_t n_anchors;

	*out = (struct tile_prog){
	    .arena = a, .spec = s, .target = t, .sched = sched, .apart = apart, .tx = tx_make(a)};
	if (!target_check(t, e) || !rules_hold(s, &n_anchors, e))
		return false;
	l.tx = out->tx;
	tx_set_strict(l.tx, t->strict);
	l.maker = makers_of(a, l.g);
	l.kept = NEW_ARRAY(a, bool, l.g->n_tensors);
	return make_stages(&l, w, e) && form_passes(out, w, e) && bind_passes(out, w, e);
}

/* At most so many stages, and so many passes: what must have one, results, and maps whose result is
 * read more often than it is made. */
static uint32_t
most_stages(struct arena *tmp, const struct graph *g)
{
	uint8_t *readers = NEW_ARRAY(tmp, uint8_t, g->n_tensors),
		*spreads = NEW_ARRAY(tmp, uint8_t, g->n_tensors);
	uint32_t n = g->n_outputs;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		enum prim_class class = prim_info[g->nodes[i].prim].class;
		for (uint32_t k = 0; k < g->nodes[i].n_in; k++) {
			if (readers[g->nodes[i].in[k].i] < 2)
				readers[g->nodes[i].in[k].i]++;
			spreads[g->nodes[i].in[k].i] |=
			    class == CLASS_BCAST || class == CLASS_LINEAR || class == CLASS_REDUCE;
		}
	}
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		enum prim_class class = prim_info[g->nodes[i].prim].class;
		if (class == CLASS_REDUCE)
			n += 2; /* partial sums and their combination */
		else if (class == CLASS_LINEAR || class == CLASS_OPAQUE)
			n += 2; /* its factor may be packed first */
		else if (class == CLASS_MAP)
			n += readers[g->nodes[i].out[0].i] > 1 || spreads[g->nodes[i].out[0].i];
	}
	return n;
}

/* Few enough that no limit of passes or scratch can be met, however they fall. */
static bool
surely_fits(struct arena *tmp, const struct spec *s)
{
	enum { WITH_BORDERS = 2 }; /* rows are kept with the borders that windows reach into */
	size_t bytes = 0, n;

	for (uint32_t t = 0; t < s->g.n_tensors; t++)
		if (!shape_bytes(&s->g.tensors[t].shape, s->g.tensors[t].type, &n) ||
		    (bytes += n) > TILE_MAX_LOCAL / WITH_BORDERS)
			return false;
	return most_stages(tmp, &s->g) <= TILE_PASSES;
}

/* Anchors are worth a common kernel where each takes up a step's rows of the one before while they are
 * near; with a barrier between them they may as well be kernels of their own.  Of side by side ones no
 * matter which. */
static bool
share_pass(const struct tile_prog *p, struct err *e)
{
	const struct stage **last = NEW_ARRAY(p->arena, const struct stage *, p->n_sides + 1);

	for (uint32_t i = 0; i < p->n_stages; i++) {
		const struct stage *s = &p->stages[i], *before;

		if (s->kind != STAGE_LINEAR || s->node == NO_NODE ||
		    !node_is_anchor(&p->spec->g, &p->spec->g.nodes[s->node]))
			continue;
		before = last[p->side[i]];
		last[p->side[i]] = s;
		if (!s->anchor)
			return err_set(
			    e, ERR_INFEASIBLE, "pair: a factor is in no form for the register tile");
		if (before && (s->pass != before->pass || p->tensors[before->tensor].at == AT_SHARED))
			return err_set(
			    e, ERR_INFEASIBLE, "pair: an anchor waits for all of the one before it");
	}
	return true;
}

bool
fuse_feasible(struct arena *tmp, const struct spec *s, struct err *e)
{
	struct sched sched;
	struct tile_prog p;
	uint32_t n_anchors;

	if (!sched_read(STR(""), &sched, e))
		bug("the empty schedule is refused");
	if (!rules_hold(s, &n_anchors, e))
		return false;
	if (n_anchors < 2 && surely_fits(tmp, s))
		return true;
	return tile_make(tmp, s, &sched, &target_avx2, &p, e) && (n_anchors < 2 || share_pass(&p, e));
}
