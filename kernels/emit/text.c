/* kernels/emit/text.c: lines, scopes and the names of axes. */
#include "gen_int.h"

#include <string.h>

static void
indent(struct gen *g)
{
	for (int i = 0; i < g->depth; i++)
		sb_addc(&g->sb, '\t');
}

void
gen_line(struct gen *g, const char *fmt, ...)
{
	va_list ap;

	indent(g);
	va_start(ap, fmt);
	sb_vaddf(&g->sb, fmt, ap);
	va_end(ap);
	sb_addc(&g->sb, '\n');
}

void
gen_open(struct gen *g, const char *fmt, ...)
{
	va_list ap;

	size_t before;

	indent(g);
	before = g->sb.n;
	va_start(ap, fmt);
	sb_vaddf(&g->sb, fmt, ap);
	va_end(ap);
	sb_addz(&g->sb, g->sb.n > before ? " {\n" : "{\n");
	g->depth++;
}

void
gen_close(struct gen *g)
{
	g->depth--;
	gen_line(g, "}");
}

uint32_t
gen_mark(const struct gen *g)
{
	return g->n_undo;
}

void
gen_forget(struct gen *g, uint32_t mark)
{
	while (g->n_undo > mark) {
		const struct gen_name *n = &g->undo[--g->n_undo];

		if (n->is_ix)
			g->ix_name[n->id] = n->was;
		else
			g->ex_name[n->id] = n->was;
	}
}

void
gen_bind(struct gen *g, axis_id a, const char *name)
{
	while (g->cap_axis <= a) {
		uint32_t was = g->cap_axis;
		g->axis_name = arena_grow(g->a, g->axis_name, sizeof(*g->axis_name), was, &g->cap_axis);
		memset(&g->axis_name[was], 0, (g->cap_axis - was) * sizeof(*g->axis_name));
	}
	g->axis_name[a] = name;
}

bool
gen_is_bound(const struct gen *g, axis_id a)
{
	return a < g->cap_axis && g->axis_name[a];
}
