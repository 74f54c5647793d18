/* kernels/predict/program.c: which program a schedule makes: of a library's call, the rules' own. */
#include "program_int.h"

#include "../space/sched.h"

bool
program_of_schedule(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    struct program *out, struct err *e)
{
	struct choices chosen = {.wino = 0};
	enum library library;
	int64_t version;
	struct sched sched;

	*out = (struct program){0};
	if (!sched_read(schedule, &sched, e))
		return false;
	if (!sched_library(&sched, &library, &version) && !space_choices(s, schedule, t, &chosen, e))
		return false;
	return program_of_loops(a, s, &chosen, t, out, e);
}
