/* kernels/schedule/propose.c: a trace by the rules of rule.def. */
#include "rule_int.h"

#include <stdarg.h>

static void (*const rules[])(struct proposing *q) = {
#define RULE(N, WORDS) rule_##N,
#include "rule.def"
#undef RULE
};

bool
propose(struct proposing *q, const char *fmt, ...)
{
	struct strbuf line;
	struct step s;
	struct tir next;
	struct err e = {0};
	va_list ap;

	sb_init(&line, q->p.arena);
	va_start(ap, fmt);
	sb_vaddf(&line, fmt, ap);
	va_end(ap);
	if (!step_read(sb_str(&line), &s, &e))
		bug("a rule proposes '%.*s': %s", STR_ARG(sb_str(&line)), e.msg);
	if (!step_apply(&q->p, &s, &next, &e))
		return false;
	q->p = next;
	sb_addf(q->trace, "%.*s\n", STR_ARG(sb_str(&line)));
	return true;
}

void
schedule_propose(
    const struct tir *nest, const struct schedule_target *t, struct strbuf *trace, struct tir *out)
{
	struct proposing q = {.target = t, .p = *nest, .trace = trace};

	for (size_t k = 0; k < COUNT_OF(rules); k++)
		rules[k](&q);
	*out = q.p;
}

/* ---- what rules ask --------------------------------------------------------------------------------- */
int64_t
loop_trips(const struct tir *p, st_id loop)
{
	int64_t from, extent;

	return const_extent(p, &p->st[loop], &from, &extent) ? extent : INT64_MAX;
}

bool
loop_counts_places(const struct tir *p, st_id loop)
{
	for (st_id i = loop + 1; i < p->st[loop].end; i++)
		if (p->st[i].op == ST_block &&
		    (binds_kind(p, &p->st[i], p->st[loop].axis, ITER_REDUCE) ||
			binds_kind(p, &p->st[i], p->st[loop].axis, ITER_CARRIED)))
			return false;
	return true;
}

bool
blk_stands(const struct tir *p, blk_id b)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b)
			return true;
	return false;
}

int64_t
blk_points(const struct tir *p, blk_id b)
{
	int64_t n = 1;

	for (uint32_t k = 0; k < p->blk[b].n_iter; k++)
		n *= tx_axis_get(p->tx, p->iter[p->blk[b].iter0 + k].id)->hi + 1;
	return n;
}
