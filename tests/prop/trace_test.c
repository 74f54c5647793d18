/* tests/prop/trace_test.c: random traces over random specs: after every primitive that is legal the program
 * prints and reads back, is verified, and computes the same at both levels; and the trace, read from its own
 * text, gives the same program.  Extents that divide nothing are the rule. KORCH_TRACE_SPECS=N tries N specs
 * (default 250), KORCH_TRACE_SEED=N from there.  memory: yes */
#include "../harness/setting.h"
#include "program_check.h"
#include "random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 9, MOST_VISITS = 100000 };

/* ---- a primitive at random ----------------------------------------------------------------------- */
static struct str
any_loop(const struct tir *p, struct rng *r)
{
	for (uint32_t tries = 0; tries < 200; tries++) {
		const struct st *s = &p->st[rng_below(r, p->n_st)];

		if (s->op == ST_for)
			return str_of(s->name);
	}
	return STR("none");
}

static struct str
any_block(const struct tir *p, struct rng *r)
{
	return p->n_blk ? str_of(p->blk[rng_below(r, p->n_blk)].name) : STR("none");
}

/* The loop, and its only child and that one's, in some order. */
static void
any_chain(const struct tir *p, struct rng *r, struct step *s)
{
	st_id i = tir_find_loop(p, any_loop(p, r));
	uint32_t most = 2 + rng_below(r, 3);

	for (; i != ST_NONE && i < p->n_st && p->st[i].op == ST_for && s->n_name < most; i++)
		s->name[s->n_name++] = str_of(p->st[i].name);
	for (uint32_t k = s->n_name; k > 1 && s->op == STEP_reorder; k--) {
		uint32_t q = rng_below(r, k);
		struct str swap = s->name[k - 1];

		s->name[k - 1] = s->name[q];
		s->name[q] = swap;
	}
	if (s->op == STEP_fuse)
		s->n_name = MIN_OF(s->n_name, (uint32_t)2);
}

/* A buffer, its dimensions as they are, or from the last to the first, two as one now and then. */
static void
any_stage(const struct tir *p, struct rng *r, struct step *s)
{
	const struct tir_buf *b = &p->buf[rng_below(r, p->n_buf)];

	s->name[s->n_name++] = str_of(arena_printf(p->arena, "%%%s", b->name));
	s->name[s->n_name++] = any_loop(p, r);
	if (rng_below(r, 2))
		return;
	for (int last = b->rank - 1; last >= 0; last--) {
		int first = last - (last > 0 && rng_below(r, 4) == 0);

		if (first < last || b->dim[last] > 1)
			s->run[s->n_run++] = (struct step_run){first, last};
		last = first;
	}
}

static struct step
any_step(const struct tir *p, struct rng *r)
{
	static const int64_t factors[] = {2, 3, 4, 5, 7, 8};
	static const enum tir_bind binds[] = {BIND_serial, BIND_parallel, BIND_parallel, BIND_vector,
	    BIND_unroll, BIND_block, BIND_warp, BIND_lane, BIND_lane};
	struct step s = {.op = (enum step_op)rng_below(r, STEP_OPS)};

	switch (s.op) {
	case STEP_split:
		s.name[s.n_name++] = any_loop(p, r);
		s.number = factors[rng_below(r, COUNT_OF(factors))];
		s.tail = (enum step_tail)rng_below(r, TAIL_COUNT);
		break;
	case STEP_fuse:
	case STEP_reorder:
		any_chain(p, r, &s);
		break;
	case STEP_bind:
		s.name[s.n_name++] = any_loop(p, r);
		s.bind = binds[rng_below(r, COUNT_OF(binds))];
		break;
	case STEP_inline:
		s.name[s.n_name++] = any_block(p, r);
		break;
	case STEP_compute_at:
		s.name[s.n_name++] = any_block(p, r);
		s.name[s.n_name++] = any_loop(p, r);
		break;
	case STEP_stage:
		any_stage(p, r, &s);
		break;
	case STEP_OPS:
		break;
	}
	return s;
}

/* ---- the test ---------------------------------------------------------------------------------------- */
static uint32_t n_applied[STEP_OPS], n_refused[STEP_OPS], n_unproved;

static void
small_spec(struct arena *a, struct rng *r, struct spec *out)
{
	static const uint32_t kinds[] = {RG_ALL & ~(uint32_t)RG_OPAQUE, RG_ALL, RG_MAP | RG_BCAST | RG_REDUCE,
	    RG_LAYOUT | RG_MAP, RG_MAP | RG_CONV | RG_BCAST, RG_MAP | RG_MATMUL | RG_REDUCE | RG_BCAST,
	    RG_WINDOW | RG_MAP};
	struct random_opts opts = {.n_nodes = 1 + rng_below(r, 7),
	    .kinds = kinds[rng_below(r, COUNT_OF(kinds))],
	    .chain = rng_below(r, 4) > 0,
	    .max_extent = 17,
	    .max_elements = 900};
	struct graph g, sorted;

	random_graph(&g, a, r, &opts);
	graph_sort(&sorted, a, &g, NULL);
	spec_of_graph(a, &sorted, out);
}

static void
check_replay(const struct checked *c, const struct tir *p, const struct strbuf *trace)
{
	struct strbuf one, two;
	struct err e = {0};
	struct tir again;

	sb_init(&one, c->a);
	sb_init(&two, c->a);
	tir_print(&one, p);
	if (!trace_apply(&c->p, sb_str(trace), &again, &e))
		fail_msg("seed %llu: %s\n%s", (unsigned long long)c->seed, e.msg, trace->p);
	tir_print(&two, &again);
	assert_string_equal(one.p, two.p);
}

/* Copies of copies in innermost loops are legal, and longer than anybody waits for. */
static bool
is_long(const struct tir *p)
{
	st_id path[TIR_DEPTH];
	double all = 0;

	for (st_id i = 0; i < p->n_st; i++) {
		double n = p->st[i].op == ST_block;

		for (uint32_t k = tir_path(p, i, path); k-- > 0;) {
			const struct st *s = &p->st[path[k]];

			if (s->op == ST_for)
				n *= (double)(ix_get(p->tx, s->to)->hi - ix_get(p->tx, s->from)->lo);
		}
		all += n;
	}
	return all > MOST_VISITS;
}

static void
run_trace(struct checked *c, struct rng *r)
{
	struct strbuf trace;
	struct tir p = c->p, q;

	sb_init(&trace, c->a);
	for (uint32_t k = 0, tries = 0; k < STEPS && tries < 60 && p.n_st; tries++) {
		struct step s = any_step(&p, r);
		struct err e = {0};

		if (!step_apply(&p, &s, &q, &e)) {
			if (e.code != ERR_INFEASIBLE)
				fail_msg("%s", e.msg);
			n_refused[s.op]++;
			n_unproved += strstr(e.msg, "unproved") != NULL;
			continue;
		}
		if (s.op == STEP_stage && is_long(&q))
			continue;
		n_applied[s.op]++;
		step_print(&trace, &s);
		sb_addc(&trace, '\n');
		c->what = trace.p;
		program_check(c, &q);
		p = q;
		k++;
	}
	check_replay(c, &p, &trace);
}

static void
test_random_traces(void **state)
{
	uint64_t n = setting("KORCH_TRACE_SPECS", 250), seed = setting("KORCH_TRACE_SEED", 1);

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		struct arena a = {0};
		struct rng r = {seed + i};
		struct checked c;
		struct spec s;

		small_spec(&a, &r, &s);
		program_check_begin(&c, &a, &s, rng_below(&r, 2) == 0, seed + i);
		run_trace(&c, &r);
		arena_fini(&a);
	}
	uint32_t all = 0;

	for (int k = 0; k < STEP_OPS; k++) {
		struct strbuf sb;
		struct arena a = {0};

		sb_init(&sb, &a);
		step_print(&sb, &(struct step){.op = (enum step_op)k});
		print_message("%-24s %u applied, %u refused\n", sb.p, n_applied[k], n_refused[k]);
		arena_fini(&a);
		assert_true(n_applied[k] > 0 && n_refused[k] > 0);
		all += n_applied[k];
	}
	print_message("%u of %u that are right are not proved\n", n_unproved, all + n_unproved);
	assert_true(n_unproved * 50 < all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
