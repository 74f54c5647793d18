/* tests/unit/tile_verify_test.c: a tile program with one thing broken is refused, by the rule that it breaks;
 * and no program that the fusion module makes is. */
#include "../../kernels/fuse/tile.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char softmax[] =
    "%0 = input f32[64,48]\n%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[64,48]\n%3 = sub %0 %2\n"
    "%4 = exp %3\n%5 = sum %4 axes=[1]\n%6 = bcast %5 shape=[64,48]\n%7 = div %4 %6\noutput %7\n";
/* A mean over the plane: two passes with a barrier between; a padded window. */
static const char plane[] =
    "%0 = input f32[1,40,40,32]\n%1 = weight f32[3,3,32,32]\n"
    "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n"
    "%3 = relu %2\n%4 = sum %3 axes=[1,2]\n%5 = bcast %4 shape=[1,40,40,32]\n"
    "%6 = sub %3 %5\noutput %6\n";
static const char pool[] = "%0 = input f32[1,20,20,8]\n%1 = wmax %0 kernel=[1,7,7,1] stride=[1,1,1,1] "
			   "dilation=[1,1,1,1] lo=[0,3,3,0] hi=[0,3,3,0]\noutput %1\n";

typedef bool mutate_fn(struct arena *a, struct tile_prog *p); /* false: it has nothing of the kind */

static struct stage *
of_kind(struct tile_prog *p, enum stage_kind k)
{
	for (uint32_t i = 0; i < p->n_stages; i++)
		if (p->stages[i].kind == k)
			return &p->stages[i];
	return NULL;
}

static bool
other_maker(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->tensors[p->stages[0].tensor].stage = p->n_stages - 1;
	return p->n_stages > 1;
}

static bool
axis_twice(struct arena *a, struct tile_prog *p)
{
	struct stage *s = &p->stages[0];

	(void)a;
	s->axis[s->n_par + s->n_red - 1].id = s->axis[0].id;
	return s->n_par + s->n_red > 1;
}

static bool
one_element_less(struct arena *a, struct tile_prog *p)
{
	struct stage *s = of_kind(p, STAGE_MAP);

	(void)a;
	if (!s)
		return false;
	s->axis[0].id = tx_axis(p->tx, AXIS_PAR, 0, s->axis[0].extent - 2, IX_NONE);
	s->axis[0].extent--;
	return true;
}

static bool
foreign_axis(struct arena *a, struct tile_prog *p)
{
	struct stage *s = of_kind(p, STAGE_MAP);
	axis_id other = tx_axis(p->tx, AXIS_PAR, 0, 1, IX_NONE);

	(void)a;
	if (!s)
		return false;
	s->body =
	    ex_map(p->tx, PRIM_add, DT_f32, 2, (ex_id[]){s->body, ex_index(p->tx, ix_axis(p->tx, other))});
	return true;
}

static bool
other_type(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->tensors[0].type = DT_f16;
	return true;
}

static bool
lives_nowhere(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->tensors[0].at = AT_NOWHERE;
	return true;
}

static bool
small_operand(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->tensors[0].count--;
	return true;
}

/* Axes are as wide as they were: the border's guard alone kept reads inside. */
static bool
no_guard(struct arena *a, struct tile_prog *p)
{
	(void)a;
	for (uint32_t i = 0; i < p->n_stages; i++)
		while (p->stages[i].body != EX_NONE && ex_get(p->tx, p->stages[i].body)->kind == EX_GUARD)
			p->stages[i].body = ex_get(p->tx, p->stages[i].body)->arg[0];
	return true;
}

static bool
step_lost(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->pass[0].n_row--;
	return p->pass[0].n_row > 0;
}

static bool
steps_swapped(struct arena *a, struct tile_prog *p)
{
	uint32_t *row = p->pass[0].row, first = row[0];

	(void)a;
	row[0] = row[1];
	row[1] = first;
	return p->pass[0].n_row > 1;
}

static bool
passes_swapped(struct arena *a, struct tile_prog *p)
{
	const struct tile_pass first = p->pass[0];

	(void)a;
	if (p->n_passes != 2)
		return false;
	p->pass[0] = p->pass[1];
	p->pass[1] = first;
	for (uint32_t i = 0; i < p->n_stages; i++)
		p->stages[i].pass = 1 - p->stages[i].pass;
	return true;
}

static bool
outer_lost(struct arena *a, struct tile_prog *p)
{
	struct stage *s = &p->stages[p->pass[0].row[0]];

	(void)a;
	if (p->pass[0].n_outer == 0)
		return false;
	for (uint32_t k = 0; k < s->n_par; k++)
		s->axis[k].outer = -1;
	return true;
}

static bool
short_range(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->pass[0].range--;
	return true;
}

static bool
scratch_shared(struct arena *a, struct tile_prog *p)
{
	uint32_t first = UINT32_MAX;

	(void)a;
	for (uint32_t t = 0; t < p->n_tensors; t++) {
		if (p->tensors[t].at != AT_LOCAL)
			continue;
		if (first != UINT32_MAX) {
			p->tensors[t].offset = p->tensors[first].offset;
			return true;
		}
		first = t;
	}
	return false;
}

static bool
scratch_short(struct arena *a, struct tile_prog *p)
{
	(void)a;
	if (p->local_bytes == 0)
		return false;
	p->local_bytes = 0;
	return true;
}

static bool
writes_behind(struct arena *a, struct tile_prog *p)
{
	(void)a;
	p->stages[0].out = ix_addc(p->tx, p->stages[0].out, INT32_MAX);
	return true;
}

static const struct mutation {
	const char *rule, *graph, *after;
	mutate_fn *mutate;
} mutations[] = {
    {"maker", softmax, "stages", other_maker},
    {"axes", softmax, "stages", axis_twice},
    {"axes", softmax, "split", one_element_less},
    {"scope", softmax, "stages", foreign_axis},
    {"scope", softmax, "bind", foreign_axis},
    {"type", softmax, "stages", other_type},
    {"place", softmax, "stages", lives_nowhere},
    {"bounds", softmax, "stages", small_operand},
    {"bounds", softmax, "bind", small_operand},
    {"bounds", pool, "stages", no_guard},
    {"bounds", softmax, "bind", writes_behind},
    {"member", softmax, "form", step_lost},
    {"order", softmax, "form", steps_swapped},
    {"order", softmax, "bind", steps_swapped},
    {"order", plane, "form", passes_swapped},
    {"order", plane, "bind", passes_swapped},
    {"outer", softmax, "form", outer_lost},
    {"range", softmax, "bind", short_range},
    {"scratch", softmax, "bind", scratch_shared},
    {"scratch", softmax, "bind", scratch_short},
};

struct look {
	struct arena *a;
	const struct mutation *m;
	bool met;
};

/* The program as it is behind the pass, in memory of its own. */
static struct tile_prog
copy_of(struct arena *a, const struct tile_prog *p)
{
	struct tile_prog q = *p;

	q.stages = arena_dup(a, p->stages, p->n_stages * sizeof *p->stages);
	q.tensors = arena_dup(a, p->tensors, p->n_tensors * sizeof *p->tensors);
	return q;
}

static bool
look(void *self, const char *pass, enum tile_form level, const struct tile_prog *p, struct err *e)
{
	struct look *l = self;
	const struct mutation *m = l->m;
	struct tile_prog q = copy_of(l->a, p);
	struct err wrong = {0};

	if (!tile_verify(p, level, e) || !tile_bounds(p, level, e))
		fail_msg("after %s: %s", pass, e->msg);
	if (strcmp(pass, m->after) != 0)
		return true;
	l->met = m->mutate(l->a, &q);
	if (!l->met)
		fail_msg("%s after %s: nothing to break in\n%s", m->rule, m->after, m->graph);
	if (tile_verify(&q, level, &wrong) && tile_bounds(&q, level, &wrong))
		fail_msg("%s after %s: not found in\n%s", m->rule, m->after, m->graph);
	assert_int_equal(wrong.code, ERR_WRONG);
	if (strncmp(wrong.msg, m->rule, strlen(m->rule)) != 0)
		fail_msg("%s after %s: \"%s\"", m->rule, m->after, wrong.msg);
	return true;
}

static void
test_mutations(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(mutations); i++) {
		struct arena a = {0};
		struct look l = {.a = &a, .m = &mutations[i]};
		const struct tile_watch w = {look, &l};
		struct sched sched;
		struct tile_prog p;
		struct spec s;
		struct err e = {0};

		if (!kernel_spec(&a, mutations[i].graph, &s, &e) || !sched_read(STR(""), &sched, &e) ||
		    !tile_make_watched(&a, &s, &sched, &target_cuda, NULL, &w, &p, &e))
			fail_msg("%s", e.msg);
		assert_true(l.met);
		arena_fini(&a);
	}
}

/* Verifying adds nothing to the pool: the text is the same, whoever watched. */
static void
test_text_is_the_same(void **state)
{
	static const char *const graphs[] = {softmax, plane, pool};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(graphs); i++) {
		struct arena a = {0};
		struct look l = {.a = &a, .m = &(struct mutation){"", "", "", NULL}};
		const struct tile_watch w = {look, &l};
		struct strbuf one, two;
		struct sched sched;
		struct tile_prog p, q;
		struct spec s;
		struct err e = {0};

		if (!kernel_spec(&a, graphs[i], &s, &e) || !sched_read(STR(""), &sched, &e) ||
		    !tile_make_watched(&a, &s, &sched, &target_cuda, NULL, &w, &p, &e) ||
		    !tile_make(&a, &s, &sched, &target_cuda, &q, &e))
			fail_msg("%s", e.msg);
		sb_init(&one, &a);
		sb_init(&two, &a);
		tile_print(&one, &p);
		tile_print(&two, &q);
		assert_string_equal(sb_str(&one).p, sb_str(&two).p);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mutations), cmocka_unit_test(test_text_is_the_same)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
