/* Work memory of plans that run on streams, over random steps: laid out for a GPU, bytes that are used again
 * put no two steps in order that reading alone does not; every step still finds what it reads; and a CPU's
 * plan is as small as ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../daemon/plan/plan_int.h"
#include "../../kernels/run/exec.h"
#include "../../kernels/device/streams.h"

enum { N_PLANS = 300, MAX_STEPS = 60 };

/* Step i makes place i, of work memory but for the last, from up to two earlier ones, where it may lie on the
 * first. */
static void
random_plan(struct arena *a, uint64_t seed, struct making *m, struct plan *p)
{
	struct rng r = {seed};
	uint32_t n = 2 + rng_below(&r, MAX_STEPS - 2), wide = 1 + rng_below(&r, 4);

	*p = (struct plan){.n_steps = n, .n_places = n, .n_kernels = n, .n_outputs = 1, .n_threads = 1};
	*m = (struct making){.a = a,
	    .plan = p,
	    .n = n,
	    .blocks = NEW_ARRAY(a, struct mem_block, n),
	    .block_place = NEW_ARRAY(a, uint32_t, n)};
	p->steps = NEW_ARRAY(a, struct plan_step, n);
	p->places = NEW_ARRAY(a, struct place, n);
	p->kernels = NEW_ARRAY(a, struct plan_kernel, n);
	p->outputs = NEW_ARRAY(a, struct plan_io, 1);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t reads = MIN_OF(rng_below(&r, 8) ? 1 + rng_below(&r, 2) : 0, i),
			 *list = NEW_ARRAY(a, uint32_t, reads + 1);
		struct shape s = shape_make(1, (const int64_t[]){1 + rng_below(&r, 4) * 64});

		p->kernels[i] = (struct plan_kernel){.symbol = STR("k"),
		    .n_operands = reads,
		    .n_results = 1,
		    .cost_ns = rng_below(&r, 30000),
		    .overlaps = NEW_ARRAY(a, struct overlap, 1),
		    .n_overlaps = reads && rng_below(&r, 2)};
		for (uint32_t k = 0; k < reads; k++)
			list[k] = i - 1 - rng_below(&r, MIN_OF(i, wide));
		if (reads == 2 && list[0] == list[1])
			p->kernels[i].n_overlaps = 0;
		list[reads] = i;
		p->places[i] = (struct place){.kind = i + 1 < n ? PLACE_WORK : PLACE_OUTPUT,
		    .n_bytes = (size_t)s.dim[0] * 4,
		    .type = DT_f32,
		    .shape = s};
		p->steps[i] = (struct plan_step){.kernel = i, .places = list, .n_places = reads + 1};
		for (uint32_t k = 0; k < reads; k++)
			m->blocks[list[k]].last = i;
		if (i + 1 < n) {
			m->blocks[i] =
			    (struct mem_block){.first = i, .last = i, .n_bytes = p->places[i].n_bytes};
			m->block_place[m->n_blocks++] = i;
		}
	}
	p->outputs[0] = (struct plan_io){STR("y"), DT_f32, p->places[n - 1].shape};
}

/* In their order, every step finds the operands' bytes as their makers left them. */
static void
finds_what_it_reads(struct arena *a, const struct plan *p)
{
	uint32_t *owner = NEW_ARRAY(a, uint32_t, p->work_bytes);

	for (uint32_t i = 0; i < p->n_steps; i++) {
		for (uint32_t k = 0; k + 1 < p->steps[i].n_places; k++) {
			const struct place *at = &p->places[p->steps[i].places[k]];

			for (size_t b = 0; b < at->n_bytes; b++)
				assert_int_equal(owner[at->offset + b], p->steps[i].places[k]);
		}
		for (size_t b = 0; b < p->places[i].n_bytes && p->places[i].kind == PLACE_WORK; b++)
			owner[p->places[i].offset + b] = i;
	}
}

/* Pairs of steps that share bytes, one writing, and that the order leaves side by side. */
static uint32_t
n_bound(struct arena *a, const struct plan *p, const struct mem_order *o)
{
	struct step_uses u;
	struct step_links deps;
	uint32_t n = 0;

	streams_uses(a, p, &u);
	streams_depend(a, &u, &deps); /* what it leaves out follows from what it keeps */
	for (uint32_t i = 0; i < p->n_steps; i++)
		for (uint32_t k = deps.first[i]; k < deps.first[i + 1]; k++)
			n += !(o->before[i * o->words + deps.item[k] / 64] >> deps.item[k] % 64 & 1);
	return n;
}

static void
streams_share_no_bytes(void **state)
{
	uint32_t n_several = 0, n_free = 0, n_tied = 0;

	(void)state;
	for (uint64_t seed = 0; seed < N_PLANS; seed++) {
		struct arena a = {0};
		struct making m;
		struct mem_order order;
		struct plan p;
		struct err e = {0};
		size_t tight;
		uint32_t before, after;

		random_plan(&a, seed, &m, &p);
		p.run_compat = STR("x86_64 avx2");
		work_place(&m);
		tight = p.work_bytes;
		finds_what_it_reads(&a, &p);
		p.run_compat = STR("cuda sm_80");
		if (side_order(&m, &order)) {
			before = n_bound(&a, &p, &order);
			work_place(&m);
			after = n_bound(&a, &p, &order);
			n_several++;
			n_tied += before > 0;
			n_free += before > 0 && after == 0;
			assert_true(after == 0 || p.work_bytes == tight); /* free, or given up as too large */
			assert_true(p.work_bytes <= 2 * tight);
		}
		if (!plan_check(&p, &e))
			fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
		finds_what_it_reads(&a, &p);
		arena_fini(&a);
	}
	assert_true(n_several > N_PLANS / 2);
	assert_true(n_tied > N_PLANS / 4);
	assert_true(n_free > N_PLANS / 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(streams_share_no_bytes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
