/* kernels/generate/generate.c: a kernel as text: by way of the loop program, or what a library is called for.
 */
#include "generate.h"

#include "../base/epoch.h"
#include "../codegen/codegen.h"
#include "../space/sched.h"

#include <string.h>

/* ---- the comment before it -------------------------------------------------------------------------------
 */
enum { MOST_COLUMNS = 100 };

static void
add_rows(struct strbuf *sb, struct str rest)
{
	while (rest.n) {
		const struct str row = str_cut(&rest, '\n');
		const bool is_long = row.n > MOST_COLUMNS;

		if (row.n)
			sb_addf(sb, " *   %.*s%s\n", (int)(is_long ? MOST_COLUMNS : row.n), row.p,
			    is_long ? " ..." : "");
	}
	sb_addz(sb, " */\n");
}

static void
add_head(struct strbuf *sb, const struct spec *s, struct str schedule)
{
	struct strbuf text;
	char hex[65];

	hash_hex(&s->hash, hex);
	sb_addf(sb, "/* spec %s\n * schedule \"%.*s\", generator epoch %d\n", hex, STR_ARG(schedule),
	    GENERATOR_EPOCH);
	sb_init(&text, sb->a);
	graph_print(&text, &s->g);
	add_rows(sb, sb_str(&text));
}

/* ---- kernels ---------------------------------------------------------------------------------------------
 */
/* A schedule that names a library has no code: what it calls, as words. */
static bool
call_library(struct arena *a, const struct spec *s, struct str schedule, enum library l, const char *symbol,
    struct kernel_code *out, struct err *e)
{
	struct library_call call;
	struct strbuf sb, words;
	char hex[65];

	if (!library_call_of(s, &call, e) || !library_takes(l, &call, e))
		return false;
	sb_init(&sb, a);
	sb_init(&words, a);
	library_call_print(&words, &call);
	hash_hex(&s->hash, hex);
	sb_addf(&sb, "/* %s: spec %s\n * schedule \"%.*s\": a call of %s\n", symbol, hex, STR_ARG(schedule),
	    library_name(l));
	add_rows(&sb, sb_str(&words));
	out->text = sb_str(&sb);
	out->desc.is_library = true;
	out->desc.n_passes = 1;
	out->desc.range[0] = 1;
	return true;
}

static void
describe(const struct codegen_kernel *k, const struct target *t, struct kernel_code *out)
{
	struct descriptor *d = &out->desc;

	d->n_passes = k->n_passes;
	memcpy(d->range, k->range, sizeof(d->range));
	for (uint32_t q = 0; q < k->n_passes && t->is_cuda; q++) {
		d->launch[q] = (struct launch){.grid = {k->grid[q], 1, 1}, .block = {k->threads[q], 1, 1}};
		out->work[q] = k->work[q];
	}
	d->shared_bytes = k->shared_bytes;
	d->local_bytes = k->local_bytes;
	d->overlaps = k->overlaps;
	d->n_overlaps = k->n_overlaps;
	d->packs = k->packs;
	d->n_packs = k->n_packs;
}

static bool
make_kernel(struct arena *a, const struct spec *s, struct str trace, const struct choices *chosen,
    const struct target *t, const char *symbol, struct kernel_code *out, struct err *e)
{
	const struct codegen_form form = {
	    .lanes = (uint32_t)t->simd_bytes / 4, .registers = (uint32_t)t->n_vregs};
	struct codegen_kernel *k = NEW(a, struct codegen_kernel);
	struct tir p;

	*out = (struct kernel_code){.head_bytes = 0};
	if (!generate_loop_program(a, s, trace, chosen, t, &p, e) ||
	    !(t->is_cuda ? codegen_cuda(a, &p, s->g.n_inputs, symbol, k, e)
			 : codegen_c(a, &p, s->g.n_inputs, symbol, &form, k, e)))
		return false;
	out->text = k->text;
	describe(k, t, out);
	return true;
}

bool
generate_by_trace(struct arena *a, const struct spec *s, struct str trace, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	return make_kernel(a, s, trace, &(struct choices){.wino = 0}, t, symbol, out, e);
}

bool
generate_kernel(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct sched *sched = NEW(a, struct sched);
	struct choices chosen;
	struct strbuf sb;
	enum library library;
	int64_t version;

	*out = (struct kernel_code){.head_bytes = 0};
	if (!sched_read(schedule, sched, e))
		return false;
	if (sched_library(sched, &library, &version))
		return call_library(a, s, schedule, library, symbol, out, e);
	if (!space_choices(s, schedule, t, &chosen, e) ||
	    !make_kernel(a, s, STR(""), &chosen, t, symbol, out, e))
		return false;
	sb_init(&sb, a);
	add_head(&sb, s, schedule);
	out->head_bytes = sb.n;
	sb_add(&sb, out->text);
	out->text = sb_str(&sb);
	return true;
}
