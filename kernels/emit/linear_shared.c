/* kernels/emit/linear_shared.c: functions that the kernels of one file have in common.
 *
 * What a tile does depends on a few constants, so candidates around one convolution, and the schedules of one
 * candidate, ask for the same tiles again and again: of the text of a model's candidates three quarters were
 * copies (tests/bench/RESULTS.md).  A tile is named by what its text says and stands between #ifndef and
 * #endif, so each kernel's text is whole by itself and the compiler sees a tile once a file. */
#include "linear_int.h"

#include <inttypes.h>
#include <stdio.h>

struct shared_text
shared_begin(struct gen *g)
{
	struct shared_text was = {.sb = g->sb, .n_temp = g->n_temp, .depth = g->depth};

	sb_init(&g->sb, g->a);
	g->n_temp = 0;
	g->depth = 0;
	return was;
}

void
shared_end(struct gen *g, const struct shared_text *was, uint32_t stage, int what, const char *word)
{
	struct str text = sb_str(&g->sb);
	struct gen_shared f = {.stage = stage,
	    .what = what,
	    .name = arena_printf(g->a, "kt_%s_%016" PRIx64, word, hash64(text.p, text.n, 0)),
	    .bytes = text.n};

	g->sb = was->sb;
	g->n_temp = was->n_temp;
	g->depth = was->depth;
	gen_line(g, "#ifndef HAVE_%s", f.name);
	gen_line(g, "#define HAVE_%s", f.name);
	gen_line(g, "static __attribute__((noinline)) void");
	sb_addf(&g->sb, "%s%.*s#endif\n\n", f.name, STR_ARG(text));
	GROW(g->a, g->shared, g->n_shared, g->cap_shared);
	g->shared[g->n_shared++] = f;
}

const char *
shared_name(const struct gen *g, uint32_t stage, int what)
{
	for (uint32_t i = 0; i < g->n_shared; i++)
		if (g->shared[i].stage == stage && g->shared[i].what == what)
			return g->shared[i].name;
	bug("stage %u has no shared function %d", stage, what);
}
