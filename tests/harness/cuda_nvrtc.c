/* tests/harness/cuda_nvrtc.c: see the header. */
#include "cuda_nvrtc.h"

#include <stdio.h>
#include <string.h>

static struct str
text_of(struct arena *a, const struct cuda_case *list, uint32_t n)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	for (uint32_t i = 0; i < n; i++)
		if (!list[i].refused)
			sb_add(&sb, list[i].code.text);
	return sb_str(&sb);
}

static const struct cubin_kernel *
pass_of(const struct cubin *c, uint32_t kernel, uint32_t pass)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "k%u_p%u", kernel, pass);
	for (uint32_t i = 0; i < c->n_kernels; i++)
		if (strcmp(c->kernel[i].name, name) == 0)
			return &c->kernel[i];
	return NULL;
}

static void
note_pass(
    const struct cuda_case *c, const struct cubin_kernel *k, uint32_t pass, int sm, struct nvrtc_totals *t)
{
	const struct launch *l = &c->code.desc.launch[pass];
	const uint32_t threads = l->block[0] * l->block[1] * l->block[2];
	const uint32_t blocks = cubin_occupancy(k, sm, threads, l->smem);
	struct err e = {0};

	t->passes++;
	t->by_registers[MIN_OF(k->registers / NVRTC_REGISTER_STEP, NVRTC_REGISTER_BINS - 1u)]++;
	t->most_registers = MAX_OF(t->most_registers, k->registers);
	t->most_shared = MAX_OF(t->most_shared, k->shared_bytes);
	t->most_stored = MAX_OF(t->most_stored, k->local_stored);
	t->occupancy += (double)(blocks * threads) / sm_limits_of(sm)->threads;
	if (cubin_worth(k, sm, threads, l->smem, &e))
		return;
	t->unfit += blocks == 0;
	t->spilling += blocks != 0;
	printf("spec %llu schedule '%s': %s\n", (unsigned long long)c->seed - 1, c->schedule, e.msg);
}

static bool
note(const struct cuda_case *list, uint32_t n, uint32_t first, int sm, struct bytes bytes,
    struct nvrtc_totals *t, struct err *e)
{
	struct arena tmp = {0};
	struct cubin *c = NEW(&tmp, struct cubin);
	bool ok = cubin_read(bytes, c, e) && (c->sm == sm || err_set(e, ERR_FORMAT, "code for sm_%d", c->sm));

	for (uint32_t i = 0; i < n && ok; i++)
		for (uint32_t q = 0; q < list[i].code.desc.n_passes && ok && !list[i].refused; q++)
			ok = pass_of(c, first + i, q) ||
			    err_set(e, ERR_FORMAT, "pass %u of kernel %u is not in the cubin", q, first + i);
	for (uint32_t i = 0; i < n && ok; i++) {
		if (list[i].refused)
			continue;
		t->kernels++;
		for (uint32_t q = 0; q < list[i].code.desc.n_passes; q++)
			note_pass(&list[i], pass_of(c, first + i, q), q, sm, t);
	}
	t->bytes += ok ? bytes.n : 0;
	arena_fini(&tmp);
	return ok;
}

static bool
keep(struct arena *a, struct bytes cubin, int sm, struct nvrtc_totals *t, struct err *e)
{
	return !t->keep ||
	    os_write_file(os_real(), arena_printf(a, "%s/sm%d_%u.cubin", t->keep, sm, t->kept++), cubin, e);
}

/* Halved until what is wrong stands alone. */
void
cuda_nvrtc_compile(const struct gpu *g, const struct cuda_case *list, uint32_t n, uint32_t first, int sm,
    struct nvrtc_totals *t)
{
	struct arena tmp = {0};
	struct bytes cubin;
	struct err e = {0};
	int64_t from = os_real()->mono_ns(NULL);
	bool ok = gpu_compile(g, &tmp, text_of(&tmp, list, n), sm, false, &cubin, &e) &&
	    note(list, n, first, sm, cubin, t, &e) && keep(&tmp, cubin, sm, t, &e);

	t->ns += os_real()->mono_ns(NULL) - from;
	arena_fini(&tmp);
	if (ok)
		return;
	if (n > 1) {
		cuda_nvrtc_compile(g, list, n / 2, first, sm, t);
		cuda_nvrtc_compile(g, list + n / 2, n - n / 2, first + n / 2, sm, t);
		return;
	}
	t->kernels++;
	t->failed++;
	printf("spec %llu schedule '%s' sm_%d: %s\n%.*s", (unsigned long long)list->seed - 1, list->schedule,
	    sm, e.msg, STR_ARG(list->spec.text));
}

void
cuda_nvrtc_print(const struct nvrtc_totals *t, int sm, const char *what)
{
	printf("%s sm_%d: %u kernels, %u do not compile; %u passes, %u spill, %u do not fit; registers", what,
	    sm, t->kernels, t->failed, t->passes, t->spilling, t->unfit);
	for (int i = 0; i < NVRTC_REGISTER_BINS; i++)
		if (t->by_registers[i])
			printf(" %s%d:%u", i == NVRTC_REGISTER_BINS - 1 ? ">=" : "<",
			    (i + (i < NVRTC_REGISTER_BINS - 1)) * NVRTC_REGISTER_STEP, t->by_registers[i]);
	printf(", most %u; shared most %u bytes; local stores most %u bytes; occupancy %.0f %%; %.1f kB and "
	       "%.0f ms a kernel\n",
	    t->most_registers, t->most_shared, t->most_stored, 100 * t->occupancy / MAX_OF(t->passes, 1u),
	    1e-3 * (double)t->bytes / MAX_OF(t->kernels, 1u), 1e-6 * (double)t->ns / MAX_OF(t->kernels, 1u));
}
