/* daemon/generate.c: builds for devices that are not here: texts, and what describes them, by korch-generate
 * in a jail.  A planner generates nothing, and nobody is there who could compile. */
#include "folder.h"
#include "loop.h"
#include "job_history.h"

#include "../kernels/jail/jail.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ANSWER = 1 << 20 };

struct generating {
	struct daemon *daemon;
	struct child *child;
	uint64_t job;
	char *dir, *path; /* the job's; of the description */
	uint8_t in[MOST_ANSWER];
	size_t n;
	char words[512]; /* the last that it said */
	size_t n_words;
	struct arena arena;
};

static void
generator_bytes(void *self, struct bytes b)
{
	struct generating *g = self;
	size_t n = MIN_OF(b.n, sizeof(g->in) - g->n);

	memcpy(g->in + g->n, b.p, n);
	g->n += n;
}

static void
generator_words(void *self, struct bytes b)
{
	struct generating *g = self;
	size_t n = MIN_OF(b.n, sizeof(g->words) - 1 - g->n_words);

	memcpy(g->words + g->n_words, b.p, n);
	g->n_words += n;
}

/* Its answer, and the digest of the file that it has written. */
static bool
read_answer(struct generating *g, struct m_build_have *out, struct err *e)
{
	struct bytes body = {0};
	size_t used = frame_next((struct bytes){g->in, g->n}, &body);
	struct stat st;
	struct msg m;
	uint64_t bytes;

	if (used == 0 || used == SIZE_MAX)
		return err_set(e, ERR_FAILED, "korch-generate gave up: %s",
		    g->n_words ? g->words : "it did not say why");
	if (!msg_unpack(&g->arena, body, &m, e))
		return false;
	if (m.type != MSG_build_have)
		return err_set(e, ERR_PROTO, "korch-generate says %s", msg_name(m.type));
	*out = (struct m_build_have){.fail = m.build_have.fail,
	    .cause = m.build_have.cause,
	    .took = m.build_have.took,
	    .path = STR(""),
	    .log = STR(""),
	    .worker = STR(""),
	    .description_path = STR("")};
	if (out->fail)
		return true;
	if (lstat(g->path, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_PROTO, "korch-generate has written no description");
	out->description_path = str_of(g->path);
	return hash_file(g->path, &out->description, &bytes, e);
}

static void
generator_ended(void *self, int status, int signal)
{
	struct generating *g = self;
	struct job *j = job_find(g->daemon, g->job);
	struct m_build_have have;
	struct err e = {0};
	bool is_awaited = j && j->generator == g->child;

	(void)status;
	(void)signal;
	if (is_awaited)
		j->generator = NULL;
	if (is_awaited && j->planner && !job_state_is_over(j->state)) {
		if (read_answer(g, &have, &e))
			planner_give_built(g->daemon, j, &have);
		else
			plan_failed(g->daemon, j, e.code, e.msg);
	}
	arena_fini(&g->arena);
	free(g);
}

static struct child *
start(struct generating *g, struct err *e)
{
	static const struct child_calls calls = {
	    .bytes = generator_bytes, .words = generator_words, .ended = generator_ended};
	struct daemon *d = g->daemon;
	const char *scratch = folder_made(&g->arena, g->dir), *const reads[] = {NULL};
	char *command[] = {(char *)(uintptr_t)d->conf->generator, g->path, NULL}, *const * argv;
	const struct jail_conf conf = {.jail = JAIL_PLAN,
	    .reads = reads,
	    .scratch = scratch,
	    .memory_bytes = d->conf->planner_memory,
	    .until_hangup = true,
	    .argv = command};

	if (!d->conf->generator) {
		(void)err_set(e, ERR_HOST, "korch-generate is not beside korchd; install it");
		return NULL;
	}
	return jail_command(&g->arena, &conf, &argv, e)
	    ? child_start(d, argv, d->conf->planner_memory, &calls, g, e)
	    : NULL;
}

void
generate_stop(struct job *j)
{
	if (j->generator)
		child_kill(j->generator, SIGKILL); /* generator_ended follows, and tells nobody */
	j->generator = NULL;
}

void
generate_ask(struct daemon *d, struct job *j, const struct m_build_ask *ask)
{
	struct generating *g = heap_alloc(sizeof(*g));
	struct msg m = {.type = MSG_build_ask};
	struct bytes frame;
	struct err e = {0};

	g->daemon = d;
	g->job = j->rec.id;
	g->dir = job_dir(&g->arena, d, j);
	g->path = arena_printf(&g->arena, "%s/description", folder_made(&g->arena, g->dir));
	m.build_ask = *ask;
	g->child = frame_pack(&g->arena, &m, &frame, &e) ? start(g, &e) : NULL;
	if (!g->child) {
		plan_failed(d, j, e.code, e.msg);
		arena_fini(&g->arena);
		free(g);
		return;
	}
	j->generator = g->child;
	if (!child_write(g->child, frame))
		child_kill(g->child, SIGKILL);
}
