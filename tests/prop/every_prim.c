/* tests/prop/every_prim.c: see the header. */
#include "every_prim.h"

#include <string.h>

static const char *const shapely[] = {
#include "emit_cases.inc"
};

static void
text_case(const char *text, const char *type, spec_fn *fn, void *self, uint64_t number)
{
	struct arena a = {0};
	struct strbuf sb;
	struct err e = {0};
	struct graph g;
	struct spec s;

	sb_init(&sb, &a);
	for (; *text; text++) {
		if (*text == '@')
			sb_addz(&sb, type);
		else
			sb_addc(&sb, *text);
	}
	if (!graph_read(&g, &a, sb_str(&sb), &e))
		bug("%s in\n%s", e.msg, sb.p);
	spec_of_graph(&a, &g, &s);
	fn(self, &s, number);
	arena_fini(&a);
}

void
every_prim(spec_fn *fn, void *self)
{
	static const char *const types[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8"};

	for (uint32_t i = 0; i < COUNT_OF(shapely); i++)
		for (uint32_t t = 0; t < COUNT_OF(types); t++)
			if (t == 0 || strchr(shapely[i], '@'))
				text_case(shapely[i], types[t], fn, self, i * COUNT_OF(types) + t);
}

/* False where the primitive's row refuses the types. */
static bool
map_spec(struct arena *a, enum prim p, enum dtype t, enum dtype to, struct spec *out)
{
	static const int64_t dim[] = {3, 5, 17};
	struct shape s = shape_make(3, dim);
	struct attrs at = {0};
	struct err e = {0};
	tensor_id in[3], result[1];
	struct graph *g = NEW(a, struct graph);

	graph_init(g, a);
	for (int i = 0; i < prim_info[p].n_in; i++)
		in[i] = graph_input(g,
		    p == PRIM_select && i == 0    ? DT_bool
			: p == PRIM_pow && i == 1 ? to
						  : t,
		    &s, NULL);
	if (p == PRIM_cast)
		at_int(&at, ATTR_to, to);
	if (!graph_add(g, p, in, (uint32_t)prim_info[p].n_in, &at, NO_NODE, result, &e))
		return false;
	graph_output(g, result[0], NULL);
	spec_of_graph(a, g, out);
	return true;
}

void
every_map(spec_fn *fn, void *self)
{
	for (int p = 0; p < PRIM_COUNT; p++)
		for (int t = 0; t < DT_COUNT && prim_info[p].class == CLASS_MAP; t++)
			for (int to = 0; to < DT_COUNT; to++) {
				struct arena a = {0};
				struct spec s;

				if ((to == 0 || p == PRIM_cast || p == PRIM_pow) &&
				    map_spec(&a, (enum prim)p, (enum dtype)t, (enum dtype)to, &s))
					fn(self, &s, (uint64_t)((p * DT_COUNT + t) * DT_COUNT + to));
				arena_fini(&a);
			}
}
