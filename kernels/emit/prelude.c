/* kernels/emit/prelude.c: the text before generated kernels, and the compiler's arguments. */
#include "emit.h"

static const char *const prelude[] = {
#include "prelude_c.inc"
};

struct str
emit_c_prelude(struct arena *a, const struct target *t)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb, "typedef float kvec __attribute__((vector_size(%d), aligned(4), may_alias));\n", t->simd_bytes);
	for (size_t i = 0; i < COUNT_OF(prelude); i++)
		sb_addz(&sb, prelude[i]);
	return sb_str(&sb);
}

/* No -ffast-math: it reassociates, and deletes the rounding by a large constant in k_exp_f32. */
const char *const *
emit_c_flags(const struct target *t)
{
	static const char *const strict[] = {"-O3", "-fno-math-errno", "-fwrapv", "-ffp-contract=off", NULL};
	static const char *const fast[] = {"-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros",
	    "-fwrapv", "-ffp-contract=fast", NULL};

	return t->strict ? strict : fast;
}
