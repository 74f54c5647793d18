/* worker/cuda_make.c: from tasks to cubins.  Every kernel is compiled by itself, under one symbol:
 * NVRTC costs about the same per kernel, one that does not compile is found at once, and equal text
 * gives equal bytes.  Several children compile side by side. */
#include "build.h"
#include "cuda_int.h"

#include "../kernels/base/parallel.h"
#include "../kernels/sass/perturb.h"
#include "../proto/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiling -------------------------------------------------------------------------- */
static bool
need_compiler(struct cuda *c, uint32_t i, struct err *e)
{
	struct measure_opts o = {
	    .device = "nvrtc", .fake = c->fake, .n_threads = 1, .cancel = c->conf->cancel};

	return c->compiler[i] || measure_open(&o, &c->compiler[i], e);
}

void
cuda_compilers_close(struct cuda *c)
{
	for (int i = 0; i < CUDA_COMPILERS; i++)
		measure_close(c->compiler[i]);
}

static bool
compile_one(struct cuda *c, uint32_t compiler, struct arena *a, struct str kernel, bool strict,
    struct bytes *out, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	sb_add(&sb, kernel);
	return need_compiler(c, compiler, e) &&
	    measure_compile(c->compiler[compiler], a, sb_str(&sb), c->facts.sm, strict, out, e);
}

struct piece { /* of the crew's work */
	struct str text;
	bool strict;
	struct cuda_made *made;
};
struct crew { /* children and the list that they share */
	struct cuda *c;
	struct piece *list;
	uint32_t n;
	struct arena arena[CUDA_COMPILERS]; /* by child: cubins made here; the crew's owner gets copies */
};

static void
work(void *self, uint32_t hand, uint32_t i)
{
	struct crew *w = self;
	struct cuda_made *m = w->list[i].made;
	int64_t from = os_real()->mono_ns(NULL);

	if (*w->c->conf->cancel)
		return;
	if (!compile_one(
		w->c, hand, &w->arena[hand], w->list[i].text, w->list[i].strict, &m->cubin, &m->err) &&
	    m->err.code == ERR_NONE)
		(void)err_set(&m->err, ERR_FAILED, "the compile failed without a word");
	m->compile_ns = os_real()->mono_ns(NULL) - from;
}

static void
run_crew(struct crew *w, struct arena *a)
{
	parallel_for(w->n, MAX_OF(parallel_hands(2 * CUDA_COMPILERS) / 2, 1u), work, w);
	for (uint32_t i = 0; i < w->n; i++)
		if (w->list[i].made->cubin.n)
			w->list[i].made->cubin.p =
			    arena_dup(a, w->list[i].made->cubin.p, w->list[i].made->cubin.n);
	for (uint32_t i = 0; i < CUDA_COMPILERS; i++)
		arena_fini(&w->arena[i]);
}

/* Whatever the cubin says against timing it: an error of class INFEASIBLE with the figure. */
static bool
is_worth(const struct kernel_code *code, struct bytes bytes, int sm, struct err *e)
{
	struct cubin *cubin = heap_alloc(sizeof(*cubin));
	bool ok = cubin_read(bytes, cubin, e);

	if (ok && cubin->sm != sm)
		ok = err_set(e, ERR_HOST, "NVRTC was asked for sm_%d and made code for sm_%d", sm, cubin->sm);
	else if (!ok)
		e->code = ERR_COMPILE;
	for (uint32_t k = 0; ok && k < cubin->n_kernels; k++)
		for (uint32_t q = 0; ok && q < code->desc.n_passes; q++) {
			const struct launch *l = &code->desc.launch[q];
			char name[16];

			(void)snprintf(name, sizeof(name), "k_p%u", q);
			ok = strcmp(cubin->kernel[k].name, name) != 0 ||
			    cubin_worth(
				&cubin->kernel[k], sm, l->block[0] * l->block[1] * l->block[2], l->smem, e);
		}
	free(cubin);
	return ok;
}

bool
cuda_do_moves(struct arena *a, struct str schedule, struct cuda_made *made)
{
	struct str base, words;
	struct sass_moves moves;
	struct bytes out;

	if (!sip_split(schedule, &base, &words) || !made->cubin.n)
		return true;
	if (sass_moves_read(a, words, &moves, &made->err) &&
	    sass_moves_apply(a, made->cubin, &moves, &out, &made->err)) {
		made->cubin = out;
		return true;
	}
	made->cubin = (struct bytes){0};
	made->err.code = ERR_COMPILE;
	return err_in(&made->err, "the moves of its instructions do not fit the code that was compiled");
}

/* What compiled and is worth it stays; the others get their row, or fail the task where NVRTC itself is
 * at fault. */
static void
sort_out(const struct cuda *c, struct arena *a, struct unit *u)
{
	uint32_t good = 0, n = u->n;

	for (uint32_t i = 0; i < n; i++) {
		struct cuda_made *m = &u->made[i];

		if (u->codes[i].desc.is_library ||
		    (m->cubin.n && is_worth(&u->codes[i], m->cubin, c->facts.sm, &m->err))) {
			u->made[good] = *m;
			unit_move(u, good++, i);
		} else if (!unit_drop(a, u, i, &m->err))
			return;
	}
	u->n = good;
}

/* Of the first n kernels, the one that kernel `at` is again; n: none.  In its own cubin every kernel has the
 * same name, and no file is named in it: so equal code is equal bytes, whatever its text was. */
static uint32_t
twin_of(const struct unit *u, uint32_t n, uint32_t at)
{
	const struct cuda_made *m = &u->made[at];
	uint32_t k = 0;

	while (k < n &&
	    (u->codes[k].desc.is_library || u->made[k].hash != m->hash || u->made[k].cubin.n != m->cubin.n ||
		memcmp(u->made[k].cubin.p, m->cubin.p, m->cubin.n) != 0))
		k++;
	return k;
}

void
cuda_drop_same(struct arena *a, struct unit *u)
{
	uint32_t good = 0, n = u->n;

	for (uint32_t i = 0; i < n; i++) {
		struct cuda_made *m = &u->made[i];
		uint32_t first = good;

		if (!u->codes[i].desc.is_library) {
			m->hash =
			    mix64(hash64(m->cubin.p, m->cubin.n, 1) ^ descriptor_hash(&u->codes[i].desc));
			first = twin_of(u, good, i);
		}
		if (first < good) {
			const struct str of = u->kernels[first].schedule;

			(void)err_set(&m->err, ERR_INFEASIBLE, "the same machine code as %s%.*s",
			    of.n ? "schedule " : "the default schedule", STR_ARG(of));
			if (!unit_drop(a, u, i, &m->err))
				return;
			continue;
		}
		u->made[good] = *m;
		unit_move(u, good++, i);
	}
	u->n = good;
}

void
cuda_compile_all(struct cuda *c, struct arena *a, struct unit *units, uint32_t n)
{
	struct crew w = {.c = c};
	uint32_t all = 0;

	for (uint32_t i = 0; i < n; i++)
		all += units[i].n;
	w.list = NEW_ARRAY(a, struct piece, MAX_OF(all, 1u));
	for (uint32_t i = 0; i < n; i++) {
		units[i].made = NEW_ARRAY(a, struct cuda_made, MAX_OF(units[i].n, 1u));
		for (uint32_t k = 0; k < units[i].n; k++)
			if (!units[i].codes[k].desc.is_library)
				w.list[w.n++] = (struct piece){
				    units[i].codes[k].text, units[i].target.strict, &units[i].made[k]};
	}
	run_crew(&w, a);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < units[i].n; k++)
			(void)cuda_do_moves(a, units[i].kernels[k].schedule, &units[i].made[k]);
		sort_out(c, a, &units[i]);
		cuda_drop_same(a, &units[i]);
	}
}

/* ---- modules ----------------------------------------------------------------------------- */
static struct gpu_kernel
kernel_of(const struct cuda *c, struct str symbol, const struct kernel_code *code, struct bytes bytes)
{
	struct gpu_kernel k = {.symbol = symbol, .cubin = bytes, .n_passes = code->desc.n_passes};
	struct cubin *cubin = heap_alloc(sizeof(*cubin));
	struct err e;

	if (code->desc.is_library)
		k.pass[0] = (struct gpu_pass){.grid = {1, 1, 1}, .block = {1, 1, 1}};
	else if (!cubin_read(bytes, cubin, &e))
		cubin->n_kernels = 0;
	for (uint32_t q = 0; q < code->desc.n_passes && !code->desc.is_library; q++)
		k.pass[q] = cuda_pass_of(c, &code->desc.launch[q], cubin, q);
	free(cubin);
	return k;
}

/* Kernels of libraries are not in it: while they are measured they are bound by their schedules. */
struct bytes
cuda_module(const struct cuda *c, struct arena *a, const struct unit *units, uint32_t n)
{
	struct gpu_kernel *k;
	uint32_t all = 0, at = 0;
	struct bytes out;

	for (uint32_t i = 0; i < n; i++)
		all += units[i].n;
	k = NEW_ARRAY(a, struct gpu_kernel, all + GPU_REF_TENSOR);
	for (int i = 0; i < GPU_REF_TENSOR; i++)
		k[at++] = c->ref[i];
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t q = 0; q < units[i].n; q++)
			if (!units[i].codes[q].desc.is_library)
				k[at++] = kernel_of(c, units[i].kernels[q].symbol, &units[i].codes[q],
				    units[i].made[q].cubin);
	gpu_module_pack(a, c->facts.sm, k, at, &out);
	return out;
}

bool
cuda_refs_build(struct cuda *c, struct arena *a, uint32_t n, struct err *e)
{
	static const char *const names[GPU_REFS] = {"compute", "stream", "nothing", "tensor"};

	for (uint32_t i = 0; i < n; i++) {
		if (c->ref[i].cubin.n)
			continue;
		c->ref[i] =
		    (struct gpu_kernel){.symbol = str_of(arena_printf(a, GPU_REF_SYMBOL "%s", names[i])),
			.n_passes = 1,
			.pass = {gpu_ref_pass((enum gpu_ref)i, c->facts.n_sm)}};
		if (!compile_one(
			c, 0, a, gpu_ref_text((enum gpu_ref)i, c->facts.sm), false, &c->ref[i].cubin, e)) {
			e->code = e->code == ERR_COMPILE ? ERR_HOST : e->code;
			return err_in(e, "the reference kernels");
		}
	}
	gpu_module_pack(a, c->facts.sm, c->ref, n, &c->refs);
	return true;
}

/* ---- builds ------------------------------------------------------------------------------ */
/* Compiled it is "k", as when it was measured; in the plan's source it has the symbol that was asked for. */
static bool
emit_for_build(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct str moves;

	(void)symbol;
	(void)sip_split(schedule, &schedule, &moves);
	return generate_kernel(a, s, schedule, t, KERNEL_STAND_IN, out, e);
}

/* Kernels of libraries get the algorithm that their schedules mean here, once and for all. */
static bool
resolve_all(struct cuda *c, struct arena *a, const struct build *b, struct cuda_made *made, struct err *e)
{
	bool is_taken = false, ok = true;

	for (uint32_t i = 0; i < b->ask->n_kernels && ok; i++) {
		const struct m_kernel *k = &b->ask->kernels[i];

		if (!b->codes[i].desc.is_library)
			continue;
		ok = is_taken || cuda_take(c, e);
		is_taken = true;
		ok = ok && measure_resolve(c->child, a, k->spec, build_schedule(b, i), &made[i].cubin, e);
		if (!ok)
			(void)err_in(e, "%.*s", STR_ARG(k->symbol));
	}
	c->is_spent |= !ok;
	if (is_taken)
		cuda_leave(c);
	return ok;
}

static bool
compile_build(struct cuda *c, struct arena *a, struct build *b, struct cuda_made *made, struct err *e)
{
	uint32_t n = b->ask->n_kernels;
	struct crew w = {.c = c, .list = NEW_ARRAY(a, struct piece, MAX_OF(n, 1u))};

	for (uint32_t i = 0; i < n; i++) {
		struct str text = b->codes[i].text;

		if (!b->codes[i].desc.is_library)
			w.list[w.n++] =
			    (struct piece){kernel_called(a, text, STR("k")), b->target.strict, &made[i]};
		b->codes[i].text = kernel_called(a, text, b->ask->kernels[i].symbol);
	}
	run_crew(&w, a);
	for (uint32_t i = 0; i < n; i++)
		(void)cuda_do_moves(a, build_schedule(b, i), &made[i]);
	if (!resolve_all(c, a, b, made, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!made[i].cubin.n) {
			*e = made[i].err;
			return err_in(e, "%.*s", STR_ARG(b->ask->kernels[i].symbol));
		}
	return true;
}

bool
cuda_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct cuda *c = self;
	uint32_t n = ask->n_kernels;
	const struct build_how how = {.device = c->device, .emit = emit_for_build};
	struct cuda_made *made = NEW_ARRAY(a, struct cuda_made, MAX_OF(n, 1u));
	struct gpu_kernel *list = NEW_ARRAY(a, struct gpu_kernel, MAX_OF(n, 1u));
	struct build b;

	if (!build_make(a, ask, &how, &b, e) || !compile_build(c, a, &b, made, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		list[i] = kernel_of(c, ask->kernels[i].symbol, &b.codes[i], made[i].cubin);
	gpu_module_pack(a, c->facts.sm, list, n, &out->object);
	out->log = STR("");
	return build_describe(a, &b, prelude_cuda(a, false), out, e);
}
