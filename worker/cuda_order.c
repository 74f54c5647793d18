/* worker/cuda_order.c: how a GPU's kernels are launched, by what their cubins say, and what they are then
 * expected to take: the most promising are timed first, so that others can be ruled out by their bounds. */
#include "cuda_int.h"

#include "../kernels/cost/gpu.h"
#include "../kernels/cost/launch.h"
#include "../kernels/sass/price.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hw
hw_of(const struct cuda *c, const struct target *t)
{
	struct hw hw = c->cal.hw;

	hw.winograd = t->winograd;
	hw.tensor_peak = 0;
	if (t->precision != PRECISION_F32)
		hw.tensor_peak = cuda_tensor_flops(c, t->precision != PRECISION_TF32);
	return hw;
}

static const struct cubin_kernel *
pass_of(const struct cubin *cubin, uint32_t pass)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "k_p%u", pass);
	for (uint32_t k = 0; k < cubin->n_kernels; k++)
		if (strcmp(cubin->kernel[k].name, name) == 0)
			return &cubin->kernel[k];
	return NULL;
}

static uint32_t
threads_of(const struct launch *l)
{
	return l->block[0] * l->block[1] * l->block[2];
}

static uint32_t
resident(const struct launch *l, const struct cubin_kernel *k, int sm)
{
	return k ? cubin_occupancy(k, sm, threads_of(l), l->smem) : 1;
}

/* Blocks that go from row to row: all of them resident, so that none waits for another's end. */
struct gpu_pass
cuda_pass_of(const struct cuda *c, const struct launch *l, const struct cubin *cubin, uint32_t pass)
{
	struct gpu_pass p = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
	    .block = {l->block[0], l->block[1], l->block[2]},
	    .shared = ck_u32(l->smem)};

	if (l->persists)
		p.grid[0] =
		    MAX_OF(MIN_OF(p.grid[0],
			       (uint32_t)c->facts.n_sm * resident(l, pass_of(cubin, pass), c->facts.sm)),
			1u);
	return p;
}

/* What the machine code of a pass says, in nanoseconds at the highest clock; nothing where it cannot be read,
 * has no tile, or is the fake GPU's, whose loops are not what it computes. */
static void
price_pass(const struct cuda *c, const struct pass_work *w, int64_t units, struct bytes bytes,
    const char *name, struct cost_pass *p)
{
	const struct sass_launch l = {.blocks = fmax(p->blocks, (double)units), /* a step each */
	    .threads = p->threads,
	    .resident = p->resident,
	    .n_sm = (uint32_t)MAX_OF(c->facts.n_sm, 1),
	    .multiply_adds = w->multiply_adds};
	const double ns = c->facts.sm_mhz > 0 ? 1e3 / c->facts.sm_mhz : 0;
	struct arena tmp = {0};
	struct sass_kernel k;
	struct sass_time t;
	struct err e;

	if (!*c->fake && l.multiply_adds > 0 && sass_price_knows(c->facts.sm) &&
	    sass_read(&tmp, bytes, name, &k, &e)) {
		t = sass_price_launch(&tmp, &k, &l);
		p->expected_ns = t.expected * ns;
		p->floor_ns = t.floor * ns;
	}
	arena_fini(&tmp);
}

static double
tile_ns(const struct cuda *c, const struct pass_work *w, double units, const struct cost_pass *p)
{
	const double warps = (p->threads + SM_WARP - 1) / SM_WARP;

	return cost_tile_ns(w->slots * units * warps, w->bytes * units, c->facts.n_sm, c->facts.sm_mhz);
}

/* False where the cubin says less than it should. */
static bool
passes_of(const struct cuda *c, const struct kernel_code *code, struct bytes bytes, struct cost_pass *pass)
{
	struct cubin *cubin = heap_alloc(sizeof(*cubin));
	struct err e = {0};
	bool ok = cubin_read(bytes, cubin, &e);

	for (uint32_t q = 0; ok && q < code->desc.n_passes; q++) {
		const struct launch *l = &code->desc.launch[q];
		const struct cubin_kernel *k = pass_of(cubin, q);

		ok = k != NULL;
		if (ok) {
			const struct gpu_pass p = cuda_pass_of(c, l, cubin, q);

			pass[q] = (struct cost_pass){.blocks = (double)p.grid[0] * p.grid[1] * p.grid[2],
			    .threads = threads_of(l),
			    .resident = resident(l, k, c->facts.sm),
			    .instructions = k->n_instructions};
			pass[q].tile_ns = tile_ns(c, &code->work[q], (double)code->desc.range[q], &pass[q]);
			price_pass(c, &code->work[q], code->desc.range[q], bytes, k->name, &pass[q]);
		}
	}
	free(cubin);
	return ok;
}

struct str
cuda_figures(const struct cuda *c, struct arena *a, const struct unit *u, uint32_t kernel, struct str state)
{
	const struct kernel_code *code = &u->codes[kernel];
	struct cubin *cubin = heap_alloc(sizeof(*cubin));
	struct arena tmp = {0};
	struct strbuf regs, blocks;
	struct err e;

	sb_init(&regs, &tmp);
	sb_init(&blocks, &tmp);
	if (!code->desc.is_library && cubin_read(u->made[kernel].cubin, cubin, &e)) {
		for (uint32_t q = 0; q < code->desc.n_passes; q++) {
			const struct cubin_kernel *k = pass_of(cubin, q);

			sb_addf(&regs, "%s%u", q ? "," : "", k ? k->registers : 0);
			sb_addf(
			    &blocks, "%s%u", q ? "," : "", resident(&code->desc.launch[q], k, c->facts.sm));
		}
		state = str_of(arena_printf(a, "%.*s regs=%.*s blocks=%.*s", STR_ARG(state),
		    STR_ARG(sb_str(&regs)), STR_ARG(sb_str(&blocks))));
	}
	arena_fini(&tmp);
	free(cubin);
	return state;
}

/* Libraries' kernels come first: nothing is known of their launches, and they are well made. */
static bool
check_error(const struct cuda *c, const struct unit *u, uint32_t i, const struct cost_parts *parts,
    const struct hw *hw, struct cost_launch *l)
{
	struct cost_pass pass[KERNEL_MAX_PASSES];

	*l = (struct cost_launch){.bound_ns = 0};
	if (u->codes[i].desc.is_library || !passes_of(c, &u->codes[i], u->made[i].cubin, pass))
		return false;
	*l = cost_launch(parts, hw, c->facts.n_sm, pass, u->codes[i].desc.n_passes);
	u->kernels[i].bound_ns = l->bound_ns;
	return true;
}

/* Launches alone promise more than machine code does: what has no price is taken to fall as short of its
 * promise as the nearest to its own among those that have one. */
static double
shortfall(const struct cost_launch *l, uint32_t n)
{
	double least = 0;

	for (uint32_t i = 0; i < n; i++) {
		const double by = l[i].is_priced ? l[i].expected_ns / fmax(l[i].plain_ns, 1) : 0;

		if (by > 0 && (least == 0 || by < least))
			least = by;
	}
	return fmax(least, 1);
}

struct ranked {
	double expected_ns;
	uint32_t was;
};

/* By what is expected; alike: as the space lists them, its best guess first. */
static int
compare(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	if (a->expected_ns != b->expected_ns)
		return a->expected_ns < b->expected_ns ? -1 : 1;
	return a->was < b->was ? -1 : a->was > b->was;
}

static void
order(const struct cuda *c, struct arena *a, struct unit *u)
{
	struct ranked *rank = NEW_ARRAY(a, struct ranked, u->n);
	struct measure_kernel *kernels = arena_dup(a, u->kernels, u->n * sizeof(*kernels));
	struct kernel_code *codes = arena_dup(a, u->codes, u->n * sizeof(*codes));
	struct cuda_made *made = arena_dup(a, u->made, u->n * sizeof(*made));
	const struct hw hw = hw_of(c, &u->target);
	struct cost_launch *launch = NEW_ARRAY(a, struct cost_launch, u->n);
	struct cost_parts parts;

	(void)cost_bound_ns(&u->spec, &hw, &parts);
	for (uint32_t i = 0; i < u->n; i++)
		if (check_error(c, u, i, &parts, &hw, &launch[i]))
			kernels[i].bound_ns = u->kernels[i].bound_ns;
	for (uint32_t i = 0; i < u->n; i++)
		rank[i] = (struct ranked){
		    launch[i].expected_ns * (launch[i].is_priced ? 1 : shortfall(launch, u->n)), i};
	qsort(rank, u->n, sizeof(*rank), compare);
	for (uint32_t i = 0; i < u->n; i++) {
		u->kernels[i] = kernels[rank[i].was];
		u->codes[i] = codes[rank[i].was];
		u->made[i] = made[rank[i].was];
		u->kernels[i].code = &u->codes[i];
	}
}

void
cuda_order_all(const struct cuda *c, struct arena *a, struct unit *units, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (units[i].n > 0)
			order(c, a, &units[i]);
}
