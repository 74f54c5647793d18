/* daemon/planner/replay.c: a recorded job again.  The folder holds what the job's folder held: the model and
 * its data, and the tape, whose first message is the job.  Paths of then become those of now. */
#include "planner.h"
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* What stands below the job's folder of then stands below `dir` now. */
static struct str
moved(struct arena *a, struct str path, struct str from, const char *dir)
{
	if (path.n <= from.n || memcmp(path.p, from.p, from.n) != 0 || path.p[from.n] != '/')
		return path;
	return str_of(arena_printf(a, "%s%.*s", dir, (int)(path.n - from.n), path.p + from.n));
}

/* The job of the tape; it reads in `dir` and writes below `scratch`. */
static bool
read_start(struct arena *a, struct pipe *p, const char *dir, const char *scratch, struct m_plan_start *out,
    struct err *e)
{
	struct msg m;
	struct str was;

	switch (pipe_recv(p, a, -1, &m, e)) {
	case PIPE_ERR:
		return false;
	case PIPE_MSG:
		if (m.type == MSG_plan_start)
			break;
		/* fall through */
	default:
		return err_set(e, ERR_FORMAT, "%s/work/" TAPE_NAME ": does not begin with a job", dir);
	}
	*out = m.plan_start;
	was = out->job_dir;
	out->model_path = moved(a, out->model_path, was, dir);
	out->job_dir = str_of(dir);
	out->work_dir = str_of(scratch);
	out->out_path = str_of(arena_printf(a, "%s/plan.korch", scratch));
	return true;
}

static void
limit_memory(uint64_t bytes)
{
	struct rlimit memory = {bytes, bytes};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	bytes = 0; /* shadow memory needs all of the address space */
#endif
	if (bytes)
		(void)setrlimit(RLIMIT_AS, &memory);
}

static bool
replay(struct arena *a, const struct replay_call *call, const char *scratch, struct pipe *p, struct err *e)
{
	struct m_plan_start start;
	const char *dump =
	    *call->dump_dir ? call->dump_dir : dump_dir(a, arena_printf(a, "%s/work", call->dir));

	if (!read_start(a, p, call->dir, scratch, &start, e))
		return false;
	if (call->dump)
		start.options.dump = str_of(call->dump);
	(void)fprintf(stderr, "korch-planner: runs job %" PRIu64 " (%.*s) again\n", start.job,
	    STR_ARG(start.model_name));
	limit_memory(start.memory_bytes);
	return tune_run(a, p, &start, dump, os_real(), e);
}

static void
say_end(const struct tape *t, bool ok)
{
	struct tape_counts c = tape_counts(t);

	(void)fprintf(stderr, "korch-planner: %s after %u messages in and %u out, %s\n",
	    ok ? "it made its plan" : "it ended", c.n_in, c.n_out,
	    c.is_other ? "not as recorded" : "as recorded");
}

bool
replay_run(struct arena *a, const struct replay_call *call, struct err *e)
{
	struct pipe p = {.in = -1, .out = -1};
	char scratch[OS_PATH_MAX];
	bool ok;

	if (!tape_play(&p.tape, arena_printf(a, "%s/work/" TAPE_NAME, call->dir), e) ||
	    !os_temp_dir("replay", scratch, e))
		return false;
	ok = replay(a, call, scratch, &p, e);
	say_end(p.tape, ok);
	os_remove_tree(scratch);
	tape_close(p.tape);
	return ok;
}
