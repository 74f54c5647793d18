/* kernels/fuse/fuse.c: a spec becomes a tile program. */
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
	return after(w, "split", TILE_STAGES, p, e);
}

/* ... in passes, without loops. */
static bool
form_passes(struct tile_prog *p, const struct tile_watch *w, struct err *e)
{
	return passes_form(p, e) && after(w, "form", TILE_FORMED, p, e);
}

static bool
bind_passes(struct tile_prog *p, const struct tile_watch *w, struct err *e)
{
	return passes_bind(p, e) && after(w, "bind", TILE_BOUND, p, e) && online_holds(p, e);
}

bool
tile_make_watched(struct arena *a, const struct spec *s, const struct sched *sched, const struct target *t,
    const bool *apart, const struct tile_watch *w, struct tile_prog *out, struct err *e)
{
	struct lower l = {.p = out, .g = &s->g};

	*out = (struct tile_prog){
	    .arena = a, .spec = s, .target = t, .sched = sched, .apart = apart, .tx = tx_make(a)};
	if (!target_check(t, e))
		return false;
	l.tx = out->tx;
	tx_set_strict(l.tx, t->strict);
	l.maker = makers_of(a, l.g);
	l.kept = NEW_ARRAY(a, bool, l.g->n_tensors);
	return make_stages(&l, w, e) && form_passes(out, w, e) && bind_passes(out, w, e);
}
