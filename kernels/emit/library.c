/* kernels/emit/library.c: a schedule that names a library has no code: what it calls, as words. */
#include "gen_int.h"
#include "library_int.h"

bool
emit_library(struct gen *g, const struct spec *s, struct str schedule, enum library l,
    struct kernel_code *out, struct err *e)
{
	struct library_call call;
	struct strbuf words;
	struct str rest;
	char hex[65];

	if (!library_call_of(s, &call, e) || !library_takes(l, &call, e))
		return false;
	sb_init(&g->sb, g->a);
	sb_init(&words, g->a);
	library_call_print(&words, &call);
	hash_hex(&s->hash, hex);
	gen_line(g, "/* %s: spec %s", g->symbol, hex);
	gen_line(g, " * schedule \"%.*s\": a call of %s", STR_ARG(schedule), library_name(l));
	rest = sb_str(&words);
	while (rest.n) {
		struct str row = str_cut(&rest, '\n');

		gen_line(g, " *   %.*s", STR_ARG(row));
	}
	gen_line(g, " */");
	out->text = sb_str(&g->sb);
	out->desc.is_library = true;
	out->desc.n_passes = 1;
	out->desc.range[0] = 1;
	return true;
}
