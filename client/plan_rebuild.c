/* client/plan_rebuild.c: a plan's code generated again.
 *
 * A plan holds its weights packed and not as the model had them.  So the packing that the plan's
 * own generator chose must be known: it is the one of the target for which this generator
 * writes the very text that stands in the plan.  New code is taken where its packing is the
 * same; nothing is guessed. */
#include "plan_rebuild.h"

#include "../kernels/generate/generate.h"

#include <string.h>

enum { MAX_TARGETS = 8 };

/* All kernels of a plan generated for one target. */
struct generated {
	struct kernel_code *codes;
	const struct kernel_code **list; /* those that have code */
	uint32_t n_list;
	struct str text; /* prelude and kernels */
};

static bool
generate(struct arena *a, const struct plan *p, const struct target *t, struct generated *out, struct err *e)
{
	struct strbuf sb;

	*out = (struct generated){.codes = NEW_ARRAY(a, struct kernel_code, p->n_kernels),
	    .list = NEW_ARRAY(a, const struct kernel_code *, p->n_kernels)};
	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	for (uint32_t i = 0; i < p->n_kernels; i++) {
		const struct plan_kernel *k = &p->kernels[i];
		struct spec s;

		if (plan_kernel_is_view(k))
			continue;
		if (!spec_read(a, k->spec, &s, e) ||
		    !generate_kernel(a, &s, k->schedule, t, str_dup(a, k->symbol), &out->codes[i], e))
			return err_in(e, "kernel %u of the plan", i);
		sb_add(&sb, out->codes[i].text);
		out->list[out->n_list++] = &out->codes[i];
	}
	out->text = sb_str(&sb);
	return true;
}

static bool
stands_in(struct str source, struct str text)
{
	return text.n && memmem(source.p, source.n, text.p, text.n) != NULL;
}

static bool
is_same_text(const struct plan *p, const struct generated *g)
{
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (!plan_kernel_is_view(&p->kernels[i]) && !stands_in(p->source, g->codes[i].text))
			return false;
	return true;
}

static struct target
with_caches(struct target t, const struct dev_info *info)
{
	target_caches(
	    &t, info->fact[DEV_FACT_l1_bytes], info->fact[DEV_FACT_l2_bytes], info->fact[DEV_FACT_l3_bytes]);
	return t;
}

/* Targets the plan may have been made for: its instruction set, usual caches or these. */
static size_t
likely_targets(const struct plan *p, const struct dev_info *here, struct target out[MAX_TARGETS])
{
	struct target base;
	enum isa isa = ISA_sse42;
	size_t n = 0;

	(void)isa_of_needs(p->run_compat, &isa);
	base = *target_of_isa(isa);

	for (int strict = 0; strict < 2; strict++) {
		base.strict = strict != 0;
		out[n++] = base;
		out[n++] = with_caches(base, here);
	}
	return n;
}

static bool
same_packs(const struct kernel_code *a, const struct kernel_code *b)
{
	if (a->desc.n_packs != b->desc.n_packs)
		return false;
	for (uint32_t i = 0; i < a->desc.n_packs; i++)
		if (a->desc.packs[i].operand != b->desc.packs[i].operand ||
		    !pack_same_form(&a->desc.packs[i], &b->desc.packs[i]))
			return false;
	return true;
}

/* The code that the plan holds now, generated again; *strict: as it was. */
static bool
find_origin(struct arena *a, const struct plan *p, const struct dev_info *here, struct generated *out,
    struct target *target, struct err *e)
{
	struct target t[MAX_TARGETS];
	size_t n = likely_targets(p, here, t);

	for (size_t i = 0; i < n; i++) {
		struct err unused = {0};

		if (!generate(a, p, &t[i], out, &unused) || !is_same_text(p, out))
			continue;
		*target = t[i];
		return true;
	}
	return err_set(e, ERR_DEVICE,
	    "its code was written by another version of the generator, so how its weights are packed is not "
	    "known; "
	    "tune the model again");
}

static void
take_codes(struct arena *a, struct plan *p, const struct generated *g, struct bytes module,
    const struct dev_info *here)
{
	for (uint32_t i = 0; i < p->n_kernels; i++) {
		struct plan_kernel *k = &p->kernels[i];
		const struct kernel_code *c = &g->codes[i];

		k->n_passes = c->desc.n_passes;
		memset(k->range, 0, sizeof(k->range));
		memcpy(k->range, c->desc.range, c->desc.n_passes * sizeof(k->range[0]));
		k->shared_bytes = c->desc.shared_bytes;
		k->local_bytes = c->desc.local_bytes;
		k->overlaps = c->desc.overlaps;
		k->n_overlaps = c->desc.n_overlaps;
	}
	p->source = g->text;
	p->module = module;
	p->run_compat = str_of(str_dup(a, str_of(here->run_compat)));
}

bool
plan_rebuild(struct arena *a, struct plan *p, struct err *e)
{
	struct compile_opts o = {0};
	struct generated before, after;
	struct target t;
	struct dev_info here;
	struct bytes module;
	struct str *texts;
	enum isa isa;
	bool is_strict;
	uint32_t n;

	if (p->n_kernels == 0)
		return true;
	if (!dev_cpu_describe(&here, e) || !find_origin(a, p, &here, &before, &t, e))
		return false;
	if (!dev_cpu_isa(&isa, e))
		return false;
	is_strict = t.strict;
	t = with_caches(*target_of_isa(isa), &here);
	t.strict = is_strict;
	if (!generate(a, p, &t, &after, e))
		return false;
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (!same_packs(&before.codes[i], &after.codes[i]))
			return err_set(e, ERR_DEVICE,
			    "kernel %u wants its weights packed otherwise here; tune the model again", i);
	o.flags = generate_c_flags(&t);
	n = generate_n_files(after.n_list, 1, COMPILE_MAX_FILES);
	generate_c_files(a, &t, after.list, after.n_list, n, &texts, NULL);
	if (!compile_files(a, texts, n, &o, &module, e))
		return false;
	take_codes(a, p, &after, module, &here);
	return plan_check(p, e);
}

/* The compiler of an x86 host makes code for every x86, whatever that host itself has. */
static bool
is_of_this_kind(struct str needs, struct err *e)
{
	struct dev_info here;
	struct str mine;

	if (!dev_cpu_describe(&here, e))
		return false;
	mine = str_of(here.run_compat);
	return str_eq(str_cut(&needs, ' '), str_cut(&mine, ' '));
}

bool
plan_compile_away(struct arena *a, struct plan *p, bool strict, struct err *e)
{
	static const int64_t longest_ns = 900 * (int64_t)1000000000;
	struct compile_opts o = {.cpu_ns = longest_ns};
	struct target t;
	enum isa isa;

	if (!isa_of_needs(p->run_compat, &isa) || !is_of_this_kind(p->run_compat, e))
		return err_set(
		    e, ERR_HOST, "this host's compiler makes no code for \"%.*s\"", STR_ARG(p->run_compat));
	t = *target_of_isa(isa);
	t.strict = strict;
	o.flags = generate_c_flags(&t);
	return compile_c(a, p->source, &o, &p->module, e) && plan_check(p, e);
}
