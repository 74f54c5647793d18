/* tests/harness/code_figures.c: see the header. */
#include "code_figures.h"

#include <math.h>
#include <string.h>
#include <time.h>

static bool
is(const struct sass_instr *i, const char *name)
{
	return i->op && strcmp(i->op->name, name) == 0;
}

static void
narrower(uint32_t *least, const struct sass_instr *i, const char *name)
{
	if (is(i, name) && (*least == 0 || i->bytes < *least))
		*least = i->bytes;
}

static void
count(const struct sass_kernel *k, struct code_figures *f)
{
	for (uint32_t q = f->loop->first; q <= f->loop->last; q++) {
		const struct sass_instr *i = &k->instr[q];

		f->n_loop++;
		f->n_mma += i->mma_bits != 0;
		f->n_fma += is(i, "FFMA");
		f->n_ldsm += is(i, "LDSM");
		f->n_cvt += is(i, "F2F");
		f->n_call += is(i, "CALL");
		f->n_stl += is(i, "STL");
		f->n_bar += is(i, "BAR");
		narrower(&f->copy_bytes, i, "LDGSTS");
		narrower(&f->load_bytes, i, "LDG");
		narrower(&f->word_bytes, i, "LDS");
	}
	f->per_mma = f->n_mma ? (double)f->n_loop / f->n_mma : f->n_fma ? (double)f->n_loop / f->n_fma : 0;
}

static double
processor_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
price(struct arena *a, const struct sass_kernel *k, struct code_figures *f)
{
	enum { TIMES = 5 };
	struct sass_price *p = sass_price_make(a, k, f->loop, &f->load);
	struct sass_bounds b;

	sass_bounds(k, f->loop->first, f->loop->last + 1, &f->load, &b);
	f->cycles = sass_price_loop(p, k->instr, INFINITY);
	f->bound = b.peak / sass_bound_cycles(&b);
	f->model = b.peak / f->cycles;
	f->unit = sass_bound_unit(&b);
	f->loop_us = INFINITY;
	f->kernel_us = INFINITY;
	for (int i = 0; i < TIMES; i++) {
		const double from = processor_us();

		(void)sass_price_loop(p, k->instr, INFINITY);
		const double then = processor_us();

		(void)sass_price_kernel(a, k, f->loop, 1, &f->load);
		f->loop_us = fmin(f->loop_us, then - from);
		f->kernel_us = fmin(f->kernel_us, processor_us() - then);
	}
}

bool
code_figures(struct arena *a, struct bytes cubin, const struct cubin_kernel *c, int sm, uint32_t threads,
    uint32_t dynamic_bytes, const double conflict[4], struct code_figures *out, struct err *e)
{
	struct sass_kernel *k = NEW(a, struct sass_kernel);

	*out =
	    (struct code_figures){.registers = c->registers, .threads = threads ? threads : c->max_threads};
	out->blocks = cubin_occupancy(c, sm, out->threads, dynamic_bytes);
	if (!sass_read(a, cubin, c->name, k, e))
		return false;
	out->loop = sass_hot(k);
	if (!out->loop)
		return true;
	out->load = (struct sass_load){.blocks = MAX_OF(out->blocks, 1u),
	    .load = conflict[0],
	    .matrix = conflict[1],
	    .store = conflict[2],
	    .copy = conflict[3]};
	out->load.warps =
	    MIN_OF(MAX_OF(out->load.blocks * ((out->threads + 31) / 32) / 4, 1u), (uint32_t)SASS_PRICE_WARPS);
	out->load.blocks = MIN_OF(out->load.blocks, out->load.warps);
	count(k, out);
	if (sass_price_knows(sm))
		price(a, k, out);
	return true;
}
