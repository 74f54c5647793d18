/* tests/harness/generator.c: see the header. */
#include "generator.h"

/* As generate_kernel, by another form of the text. */
static bool
emit_form(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, const struct codegen_form *form, struct kernel_code *out, struct err *e)
{
	struct codegen_kernel k;
	struct choices chosen;
	struct tir p;

	if (!generate_kernel(a, s, schedule, t, symbol, out, e))
		return false;
	if (t->is_cuda || out->desc.is_library)
		return true;
	if (!space_choices(s, schedule, t, &chosen, e) ||
	    !generate_loop_program(a, s, STR(""), &chosen, t, &p, e) ||
	    !codegen_c(a, &p, s->g.n_inputs, symbol, form, &k, e))
		return false;
	out->text = k.text;
	out->head_bytes = 0;
	return true;
}

static bool
emit_plain(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	const struct codegen_form loops = {.lanes = 0};

	return emit_form(a, s, schedule, t, symbol, &loops, out, e);
}

static bool
emit_indices(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	const struct codegen_form indices = {
	    .lanes = (uint32_t)t->simd_bytes / 4, .registers = (uint32_t)t->n_vregs, .indices = true};

	return emit_form(a, s, schedule, t, symbol, &indices, out, e);
}

static const struct generator all[] = {
#define GENERATOR(NAME, FN, WORDS) {#NAME, FN},
#include "generator.def"
#undef GENERATOR
};

const struct generator *
generator_named(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(all); i++)
		if (str_is(name, all[i].name))
			return &all[i];
	return NULL;
}
