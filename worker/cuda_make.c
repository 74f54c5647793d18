/* worker/cuda_make.c: from tasks to cubins.  Every kernel is compiled by itself, under one symbol:
 * NVRTC costs about the same per kernel, one that does not compile is found at once, and equal text
 * gives equal bytes.  Several children compile side by side. */
#include "cuda_int.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* ---- tasks ----------------------------------------------------------------------------- */
void
cuda_unit_fail(struct arena *a, struct cuda_unit *u, enum err_code code, const char *why)
{
	u->out->fail = (uint64_t)err_wire(code);
	u->out->cause = str_of(str_dup(a, (struct str){why, MIN_OF(strlen(why), (size_t)500)}));
	u->out->n_rows = 0;
	u->n = u->n_items = 0;
}

static int64_t
best_known(const struct m_task *t)
{
	int64_t best = 0, v;

	for (uint32_t i = 0; i < t->n_known; i++)
		if (str_to_i64(t->known[i].value, &v) && v > 0 && (best == 0 || v < best))
			best = v;
	return best;
}

void
cuda_unit_make(struct cuda *c, struct arena *a, struct cuda_unit *u)
{
	struct target target = task_target(c->device, u->task->precision);
	struct str *schedules;
	uint32_t n;
	struct err e = {0};

	if (!spec_read(a, u->task->spec, &u->spec, &e)) {
		cuda_unit_fail(a, u, ERR_INFEASIBLE, e.msg);
		return;
	}
	u->out->spec = u->spec.hash;
	u->known_ns = best_known(u->task);
	u->is_strict = target.strict;
	task_schedules(a, u->task, &u->spec, &target, &schedules, &n);
	u->kernels = NEW_ARRAY(a, struct cuda_kernel, MAX_OF(n, 1u));
	u->items = NEW_ARRAY(a, struct cuda_kernel *, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		struct cuda_kernel *k = &u->kernels[u->n];

		if (!emit_cuda(a, &u->spec, schedules[i], &target, "k", &k->code, &e))
			continue;
		k->kernel = (struct measure_kernel){.schedule = schedules[i], .code = &k->code};
		u->n++;
	}
	u->out->rows = NEW_ARRAY(a, struct m_row, MAX_OF(u->n, 1u));
	if (u->n == 0 && u->task->n_known == 0)
		cuda_unit_fail(a, u, ERR_INFEASIBLE, n ? e.msg : "its space holds no schedule");
}

/* ---- compiling -------------------------------------------------------------------------- */
static bool
need_compiler(struct cuda *c, uint32_t i, struct err *e)
{
	struct measure_opts o = {.device = "nvrtc", .fake = c->fake, .n_threads = 1, .cancel = c->conf->cancel};

	return c->compiler[i] || measure_open(&o, &c->compiler[i], e);
}

void
cuda_compilers_close(struct cuda *c)
{
	for (int i = 0; i < CUDA_COMPILERS; i++)
		measure_close(c->compiler[i]);
}

static bool
compile_one(struct cuda *c, uint32_t compiler, struct arena *a, struct str kernel, bool strict, struct bytes *out,
    struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, emit_cuda_prelude(a, false));
	sb_add(&sb, kernel);
	return need_compiler(c, compiler, e) &&
	    measure_compile(c->compiler[compiler], a, sb_str(&sb), c->facts.sm, strict, out, e);
}

struct crew { /* children and the list that they share */
	struct cuda *c;
	struct cuda_kernel **list;
	const bool *strict;
	uint32_t n;
	atomic_uint next;
};
struct hand {
	struct crew *crew;
	uint32_t number;
	struct arena arena;      /* cubins made here; handed to the crew's owner at the end */
};

static void *
work(void *arg)
{
	struct hand *h = arg;
	struct crew *w = h->crew;
	uint32_t i;

	while ((i = atomic_fetch_add(&w->next, 1)) < w->n && !*w->c->conf->cancel) {
		struct cuda_kernel *k = w->list[i];
		int64_t from = os_real()->mono_ns(NULL);

		if (!compile_one(w->c, h->number, &h->arena, k->code.text, w->strict[i], &k->cubin, &k->err) &&
		    k->err.code == ERR_NONE)
			(void)err_set(&k->err, ERR_FAILED, "the compile failed without a word");
		k->compile_ns = os_real()->mono_ns(NULL) - from;
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
		if (w->list[i]->cubin.n)
			w->list[i]->cubin.p = arena_dup(a, w->list[i]->cubin.p, w->list[i]->cubin.n);
	for (uint32_t i = 0; i < n; i++)
		arena_fini(&hand[i].arena);
}

/* Those that compiled become items; the others get their row, or fail the task where NVRTC itself
 * is at fault. */
static void
sort_out(struct arena *a, struct cuda_unit *u, uint32_t number)
{
	for (uint32_t i = 0; i < u->n; i++) {
		struct cuda_kernel *k = &u->kernels[i];

		if (k->cubin.n) {
			k->kernel.symbol = str_of(arena_printf(a, "k%u_%u", number, i));
			u->items[u->n_items++] = k;
		} else if (k->err.code == ERR_COMPILE || k->err.code == ERR_TIMEOUT) {
			u->out->rows[u->out->n_rows++] = (struct m_row){.schedule = k->kernel.schedule,
			    .fail = (uint64_t)err_wire(ERR_COMPILE), .cause = str_of(str_dup(a, str_of(k->err.msg))), .stop = STR("")};
		} else {
			cuda_unit_fail(a, u, k->err.code == ERR_CANCELLED || k->err.code == ERR_NONE ? ERR_LINKLOST : k->err.code,
			    k->err.msg);
			return;
		}
	}
}

void
cuda_compile_all(struct cuda *c, struct arena *a, struct cuda_unit *units, uint32_t n)
{
	struct crew w = {.c = c};
	bool *strict;
	uint32_t all = 0;

	for (uint32_t i = 0; i < n; i++)
		all += units[i].n;
	w.list = NEW_ARRAY(a, struct cuda_kernel *, MAX_OF(all, 1u));
	w.strict = strict = NEW_ARRAY(a, bool, MAX_OF(all, 1u));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < units[i].n; k++) {
			strict[w.n] = units[i].is_strict;
			w.list[w.n++] = &units[i].kernels[k];
		}
	run_crew(&w, a);
	for (uint32_t i = 0; i < n; i++)
		sort_out(a, &units[i], i);
}

/* ---- modules ----------------------------------------------------------------------------- */
static struct gpu_kernel
kernel_of(struct str symbol, const struct kernel_code *code, struct bytes cubin)
{
	struct gpu_kernel k = {.symbol = symbol, .cubin = cubin, .n_passes = code->n_passes};

	for (uint32_t q = 0; q < code->n_passes; q++) {
		const struct launch *l = &code->launch[q];

		k.pass[q] = (struct gpu_pass){.grid = {l->grid[0], l->grid[1], l->grid[2]},
		    .block = {l->block[0], l->block[1], l->block[2]}, .shared = ck_u32(l->smem)};
	}
	return k;
}

struct bytes
cuda_module(const struct cuda *c, struct arena *a, const struct cuda_unit *units, uint32_t n)
{
	struct gpu_kernel *k;
	uint32_t all = 0, at = 0;
	struct bytes out;

	for (uint32_t i = 0; i < n; i++)
		all += units[i].n_items;
	k = NEW_ARRAY(a, struct gpu_kernel, all + GPU_REFS);
	for (int i = 0; i < GPU_REFS; i++)
		k[at++] = c->ref[i];
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t q = 0; q < units[i].n_items; q++)
			k[at++] = kernel_of(units[i].items[q]->kernel.symbol, &units[i].items[q]->code, units[i].items[q]->cubin);
	gpu_module_pack(a, c->facts.sm, k, at, &out);
	return out;
}

bool
cuda_refs_build(struct cuda *c, struct arena *a, struct err *e)
{
	static const char *const names[GPU_REFS] = {"compute", "stream", "nothing"};

	for (int i = 0; i < GPU_REFS; i++) {
		c->ref[i] = (struct gpu_kernel){.symbol = str_of(arena_printf(a, GPU_REF_SYMBOL "%s", names[i])), .n_passes = 1,
		    .pass = {gpu_ref_pass((enum gpu_ref)i, c->facts.n_sm)}};
		if (!compile_one(c, 0, a, gpu_ref_text((enum gpu_ref)i), false, &c->ref[i].cubin, e)) {
			e->code = e->code == ERR_COMPILE ? ERR_HOST : e->code;
			return err_in(e, "the reference kernels");
		}
	}
	gpu_module_pack(a, c->facts.sm, c->ref, GPU_REFS, &c->refs);
	return true;
}

bool
cuda_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct cuda *c = self;
	uint32_t n = ask->n_kernels;
	struct target target = task_target(c->device, ask->precision);
	struct cuda_kernel *k = NEW_ARRAY(a, struct cuda_kernel, MAX_OF(n, 1u));
	struct gpu_kernel *list = NEW_ARRAY(a, struct gpu_kernel, MAX_OF(n, 1u));
	struct crew w = {.c = c, .n = n, .list = NEW_ARRAY(a, struct cuda_kernel *, MAX_OF(n, 1u))};
	bool *strict = NEW_ARRAY(a, bool, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++) {
		struct spec s;

		if (!spec_read(a, ask->kernels[i].spec, &s, e) ||
		    !emit_cuda(a, &s, ask->kernels[i].schedule, &target, "k", &k[i].code, e))
			return err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
		w.list[i] = &k[i];
		strict[i] = target.strict;
	}
	w.strict = strict;
	run_crew(&w, a);
	for (uint32_t i = 0; i < n; i++) {
		if (!k[i].cubin.n) {
			*e = k[i].err;
			return err_in(e, "%.*s", STR_ARG(ask->kernels[i].symbol));
		}
		list[i] = kernel_of(ask->kernels[i].symbol, &k[i].code, k[i].cubin);
	}
	gpu_module_pack(a, c->facts.sm, list, n, &out->object);
	out->log = STR("");
	return true;
}
