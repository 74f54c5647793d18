/* client/plan_rebuild_gpu.c: a GPU plan's code generated again, and compiled by this host's NVRTC, in a child
 * of its own.
 *
 * As on a CPU, the target is the one for which this generator writes the very text that stands in the plan.
 * Moves of machine instructions are done again in what comes out of the compiler, each proved legal again;
 * where that compiler writes other code than the plan's, they mean nothing, and the kernel stays as compiled:
 * said, and in the plan. */
#include "plan_rebuild.h"

#include "../kernels/generate/generate.h"
#include "../kernels/device/gpu.h"
#include "../kernels/run/exec.h"
#include "../kernels/sass/perturb.h"
#include "../proto/range.h"
#include "../worker/measure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct rebuild {
	struct arena *a;
	struct plan *p;
	struct target target;
	struct measure_child *nvrtc;
	struct gpu_kernel *old; /* of the plan's module */
	uint32_t n_old;
	int sm;
	uint32_t n_plain; /* kernels that lost their moves */
};

static bool
emit(struct rebuild *r, const struct plan_kernel *k, const char *symbol, struct kernel_code *out,
    struct err *e)
{
	struct str base, moves;
	struct spec s;

	(void)sip_split(k->schedule, &base, &moves);
	return spec_read(r->a, k->spec, &s, e) && generate_kernel(r->a, &s, base, &r->target, symbol, out, e);
}

/* Does this generator write the plan's text for the target? */
static bool
writes_it(struct rebuild *r)
{
	for (uint32_t i = 0; i < r->p->n_kernels; i++) {
		const struct plan_kernel *k = &r->p->kernels[i];
		struct kernel_code code;
		struct err none = {0};

		if (plan_kernel_is_view(k))
			continue;
		if (!emit(r, k, str_dup(r->a, k->symbol), &code, &none))
			return false;
		if (!code.desc.is_library &&
		    (!code.text.n || !memmem(r->p->source.p, r->p->source.n, code.text.p, code.text.n)))
			return false;
	}
	return true;
}

static bool
find_target(struct rebuild *r, struct err *e)
{
	static const enum precision all[] = {PRECISION_F32, PRECISION_TF32, PRECISION_F16, PRECISION_BF16};

	for (size_t i = 0; i < COUNT_OF(all); i++)
		for (int strict = 0; strict < 2; strict++) {
			r->target = target_cuda;
			r->target.sm = r->sm;
			r->target.precision = all[i];
			r->target.strict = strict != 0;
			if (writes_it(r))
				return true;
		}
	return err_set(
	    e, ERR_DEVICE, "its code was written by another version of the generator; tune the model again");
}

static const struct gpu_kernel *
old_of(const struct rebuild *r, struct str symbol)
{
	for (uint32_t i = 0; i < r->n_old; i++)
		if (str_eq(r->old[i].symbol, symbol))
			return &r->old[i];
	return NULL;
}

/* Blocks that go from row to row may be any number: as many as there were; old: NULL: a plan without code. */
static void
take_launch(struct gpu_pass *to, const struct launch *l, const struct gpu_pass *old)
{
	*to = (struct gpu_pass){.grid = {l->grid[0], l->grid[1], l->grid[2]},
	    .block = {l->block[0], l->block[1], l->block[2]},
	    .shared = ck_u32(l->smem)};
	if (l->persists && old)
		to->grid[0] = MAX_OF(MIN_OF(to->grid[0], old->grid[0]), 1u);
}

/* The kernel stays as it was compiled, and the plan says no more of moves. */
static void
forget_moves(struct rebuild *r, uint32_t kernel, struct str base, const struct err *why)
{
	struct plan *p = r->p;
	uint32_t n = 0;

	(void)fprintf(stderr,
	    "korch-plan: kernel %u: its instructions stay as compiled, and it may be slower than the plan "
	    "says: %s\n",
	    kernel, why->msg);
	p->kernels[kernel].schedule = base;
	for (uint32_t i = 0; i < p->n_perturbed; i++)
		if (p->perturbed[i].kernel != kernel)
			p->perturbed[n++] = p->perturbed[i];
	p->n_perturbed = n;
	r->n_plain++;
}

static void
move(struct rebuild *r, uint32_t kernel, struct bytes *cubin)
{
	struct str base, words;
	struct sass_moves moves;
	struct bytes out;
	struct err why = {0};

	if (!sip_split(r->p->kernels[kernel].schedule, &base, &words))
		return;
	if (sass_moves_read(r->a, words, &moves, &why) && sass_moves_apply(r->a, *cubin, &moves, &out, &why))
		*cubin = out;
	else
		forget_moves(r, kernel, base, &why);
}

static bool
compile(struct rebuild *r, uint32_t kernel, struct gpu_kernel *out, struct err *e)
{
	const struct plan_kernel *k = &r->p->kernels[kernel];
	const struct gpu_kernel *old = old_of(r, k->symbol);
	struct kernel_code code;
	struct strbuf sb;

	if (!emit(r, k, "k", &code, e))
		return false;
	if (code.desc.is_library && !old)
		return err_set(
		    e, ERR_HOST, "it is a call of a library, which only a host of that device can prepare");
	if (r->n_old > 0 && (!old || old->n_passes != code.desc.n_passes))
		return err_set(e, ERR_FORMAT, "the plan's module has no kernel %.*s of %u passes",
		    STR_ARG(k->symbol), code.desc.n_passes);
	*out = old ? *old : (struct gpu_kernel){.symbol = k->symbol, .n_passes = code.desc.n_passes};
	if (code.desc.is_library) /* a description, no code */
		return true;
	sb_init(&sb, r->a);
	sb_add(&sb, prelude_cuda(r->a, false));
	sb_add(&sb, code.text);
	if (!measure_compile(r->nvrtc, r->a, sb_str(&sb), r->sm, r->target.strict, &out->cubin, e))
		return false;
	for (uint32_t q = 0; q < code.desc.n_passes; q++)
		take_launch(&out->pass[q], &code.desc.launch[q], old ? &old->pass[q] : NULL);
	move(r, kernel, &out->cubin);
	return true;
}

static bool
compile_all(struct rebuild *r, struct err *e)
{
	struct gpu_kernel *list = NEW_ARRAY(r->a, struct gpu_kernel, r->p->n_kernels);
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->p->n_kernels; i++)
		if (!plan_kernel_is_view(&r->p->kernels[i]) && !compile(r, i, &list[n++], e))
			return err_in(e, "kernel %u of the plan", i);
	gpu_module_pack(r->a, r->sm, list, n, &r->p->module);
	return true;
}

/* "cuda sm_80" */
static bool
read_sm(struct str needs, int *sm, struct err *e)
{
	int64_t v;

	for (struct str rest = needs; rest.n;) {
		struct str word = str_cut(&rest, ' ');

		if (str_starts(word, "sm_") && str_to_i64((struct str){word.p + 3, word.n - 3}, &v) &&
		    v > 0 && v < 10000) {
			*sm = (int)v;
			return true;
		}
	}
	return err_set(e, ERR_FORMAT, "the plan does not say for which GPU it is: \"%.*s\"", STR_ARG(needs));
}

bool
plan_rebuild_gpu(struct arena *a, struct plan *p, const char *fake, struct err *e)
{
	static const atomic_bool never = false;
	struct rebuild r = {.a = a, .p = p};
	const struct measure_opts o = {.device = "nvrtc", .fake = fake, .n_threads = 1, .cancel = &never};
	bool ok;

	if (!(plan_lacks_code(p) ? read_sm(p->run_compat, &r.sm, e)
				 : gpu_module_read(a, p->module, &r.sm, &r.old, &r.n_old, e)) ||
	    !find_target(&r, e) || !measure_open(&o, &r.nvrtc, e))
		return false;
	ok = compile_all(&r, e);
	measure_close(r.nvrtc);
	return ok && plan_check(p, e);
}
