/* worker/cuda_make.c: from tasks to cubins.  Every kernel is compiled by itself, under one symbol:
 * NVRTC costs about the same per kernel, one that does not compile is found at once, and equal text
 * gives equal bytes.  Several children compile side by side. */
#include "cuda_int.h"

#include "../kernels/sass/perturb.h"
#include "../proto/range.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

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
	sb_add(&sb, emit_cuda_prelude(a, false));
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
	atomic_uint next;
};
struct hand {
	struct crew *crew;
	uint32_t number;
	struct arena arena; /* cubins made here; handed to the crew's owner at the end */
};

static void *
work(void *arg)
{
	struct hand *h = arg;
	struct crew *w = h->crew;
	uint32_t i;

	while ((i = atomic_fetch_add(&w->next, 1)) < w->n && !*w->c->conf->cancel) {
		struct cuda_made *m = w->list[i].made;
		int64_t from = os_real()->mono_ns(NULL);

		if (!compile_one(
			w->c, h->number, &h->arena, w->list[i].text, w->list[i].strict, &m->cubin, &m->err) &&
		    m->err.code == ERR_NONE)
			(void)err_set(&m->err, ERR_FAILED, "the compile failed without a word");
		m->compile_ns = os_real()->mono_ns(NULL) - from;
	}
	return NULL;
}

static void
run_crew(struct crew *w, struct arena *a)
{
	struct hand hand[CUDA_COMPILERS];
	pthread_t thread[CUDA_COMPILERS];
	bool threaded[CUDA_COMPILERS] = {false};
	uint32_t n = (uint32_t)MAX_OF(1, MIN_OF(get_nprocs() / 2, (int)CUDA_COMPILERS));

	n = MIN_OF(n, MAX_OF(w->n, 1u));
	for (uint32_t i = 0; i < n; i++)
		hand[i] = (struct hand){.crew = w, .number = i};
	for (uint32_t i = 1; i < n; i++)
		threaded[i] = pthread_create(&thread[i], NULL, work, &hand[i]) == 0;
	(void)work(&hand[0]);
	for (uint32_t i = 1; i < n; i++)
		if (threaded[i])
			(void)pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < w->n; i++)
		if (w->list[i].made->cubin.n)
			w->list[i].made->cubin.p =
			    arena_dup(a, w->list[i].made->cubin.p, w->list[i].made->cubin.n);
	for (uint32_t i = 0; i < n; i++)
		arena_fini(&hand[i].arena);
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
		for (uint32_t q = 0; ok && q < code->n_passes; q++) {
			const struct launch *l = &code->launch[q];
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

		if (u->codes[i].is_library ||
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
	    (u->codes[k].is_library || u->made[k].hash != m->hash || u->made[k].cubin.n != m->cubin.n ||
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

		if (!u->codes[i].is_library) {
			m->hash = mix64(hash64(m->cubin.p, m->cubin.n, 1) ^ emit_launch_hash(&u->codes[i]));
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
			if (!units[i].codes[k].is_library)
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
	struct gpu_kernel k = {.symbol = symbol, .cubin = bytes, .n_passes = code->n_passes};
	struct cubin *cubin = heap_alloc(sizeof(*cubin));
	struct err e;

	if (code->is_library)
		k.pass[0] = (struct gpu_pass){.grid = {1, 1, 1}, .block = {1, 1, 1}};
	else if (!cubin_read(bytes, cubin, &e))
		cubin->n_kernels = 0;
	for (uint32_t q = 0; q < code->n_passes && !code->is_library; q++)
		k.pass[q] = cuda_pass_of(c, &code->launch[q], cubin, q);
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
			if (!units[i].codes[q].is_library)
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

/* Kernels of libraries get the algorithm that their schedules mean here, once and for all. */
static bool
resolve_all(struct cuda *c, struct arena *a, const struct m_build_ask *ask, const struct kernel_code *codes,
    struct cuda_made *made, struct err *e)
{
	bool is_taken = false, ok = true;

	for (uint32_t i = 0; i < ask->n_kernels && ok; i++) {
		if (!codes[i].is_library)
			continue;
		ok = is_taken || cuda_take(c, e);
		is_taken = true;
		ok = ok &&
		    measure_resolve(
			c->child, a, ask->kernels[i].spec, ask->kernels[i].schedule, &made[i].cubin, e);
		if (!ok)
			(void)err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
	}
	c->is_spent |= !ok;
	if (is_taken)
		cuda_leave(c);
	return ok;
}

bool
cuda_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct cuda *c = self;
	uint32_t n = ask->n_kernels;
	struct kernel_code *codes = NEW_ARRAY(a, struct kernel_code, MAX_OF(n, 1u));
	struct cuda_made *made = NEW_ARRAY(a, struct cuda_made, MAX_OF(n, 1u));
	struct gpu_kernel *list = NEW_ARRAY(a, struct gpu_kernel, MAX_OF(n, 1u));
	struct crew w = {.c = c, .list = NEW_ARRAY(a, struct piece, MAX_OF(n, 1u))};
	struct target target;
	double tolerance;

	if (!task_target(c->device, ask->precision, &target, &tolerance, e))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct spec s;

		if (!spec_read(a, ask->kernels[i].spec, &s, e) ||
		    !cuda_emit(a, &s, ask->kernels[i].schedule, &target, "k", &codes[i], e))
			return err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
		if (!codes[i].is_library)
			w.list[w.n++] = (struct piece){codes[i].text, target.strict, &made[i]};
	}
	run_crew(&w, a);
	for (uint32_t i = 0; i < n; i++)
		(void)cuda_do_moves(a, ask->kernels[i].schedule, &made[i]);
	if (!resolve_all(c, a, ask, codes, made, e))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!made[i].cubin.n) {
			*e = made[i].err;
			return err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
		}
		list[i] = kernel_of(c, ask->kernels[i].symbol, &codes[i], made[i].cubin);
	}
	gpu_module_pack(a, c->facts.sm, list, n, &out->object);
	out->log = STR("");
	return true;
}
