/* daemon/planner/again.c: jobs that end with a plan that is there already: what this job ended with before,
 * or what another one did (rivals.h). */
#include "result_cache.h"
#include "finish.h"
#include "rivals.h"

#include "../../schema/plan_file.h"

static void
note_taken(struct tune *t, const struct plan *p)
{
	int64_t bound = t->cost ? t->choice.bound : t->progress.bound_ns;

	finish_note(t, p->n_steps, p->latency_ns, MIN_OF(bound, p->latency_ns), false);
	t->progress.guessed = 0;
	t->progress.expected_ns = t->progress.expected_low_ns = t->progress.expected_high_ns = 0;
	t->progress.expected_of = 0; /* that was of the choice */
	t->progress.sure_ns = 0;     /* what its file says is of that job's candidates */
	t->progress.sure = 0;
	for (uint32_t i = 0; i < p->n_steps; i++)
		t->progress.guessed += !p->kernels[p->steps[i].kernel].is_measured;
}

bool
finish_taken(struct tune *t, struct err *e)
{
	struct plan_host host;
	struct plan plan;

	if (!plan_load(t->arena, str_dup(t->arena, t->taken->path), &plan, &host, e))
		return err_in(e, "the plan of %s", t->taken->how);
	plan.proved = false;
	note_taken(t, &plan);
	finish_times(t, &plan);
	host.wall_ns = t->os->wall_ns(t->os->self);
	host.seal.plan.n = 0; /* korchd signs it as it is now */
	if (t->dump.stages &&
	    !(stages_choice(t, e) && stages_kernels(t, t->codes, e) && stages_plan(t, &plan, e)))
		return false;
	return plan_save(str_dup(t->arena, t->start.out_path), &plan, &host, e) &&
	    finish_say(t, t->start.out_path, NULL, e);
}

bool
finish_as_before(struct tune *t, struct err *e)
{
	t->codes = NULL; /* not of that plan */
	return finish_say(t, STR(""), &t->past.end.plan, e);
}

bool
finish_again(struct tune *t, struct err *e)
{
	cached_progress(t);
	if (!plan_race_again(t, e))
		return false;
	return t->taken ? finish_taken(t, e) : finish_as_before(t, e);
}
