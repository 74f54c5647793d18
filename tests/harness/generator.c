/* tests/harness/generator.c: see the header. */
#include "generator.h"
#include "../../kernels/fuse/tile.h"

/* Of what a schedule of the tile program says the loop program hears tiles of so many results alone. */
static bool
by_winograd(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct sched sched;

	if (!sched_read(schedule, &sched, e))
		return false;
	if (sched_get(&sched, KNOB_trace, 0))
		return err_set(e, ERR_INFEASIBLE, "schedule: that of the loop program itself");
	return emit_c(a, s,
	    str_of(arena_printf(a, "wino=%lld " TRACED, (long long)sched_get(&sched, KNOB_wino, 4))), t,
	    symbol, out, e);
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
