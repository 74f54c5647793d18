/* client/model_check.c: see model_check.h.  The planner parses; what it answers is text of a stranger's file,
 * so what a terminal would obey is replaced before it is printed. */
#include "model_check.h"

#include "../kernels/base/utf8.h"
#include "../kernels/jail/jail.h"
#include "../proto/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SHOWN_NODES = 4 };
static const uint64_t max_memory = (uint64_t)16 << 30; /* korchd's --planner-memory by default */

/* From the root: a jail has no folder of the caller's. */
static const char *
whole_path(struct arena *a, const char *path)
{
	char here[OS_PATH_MAX];

	return path[0] == '/' || !getcwd(here, sizeof(here)) ? path : arena_printf(a, "%s/%s", here, path);
}

static const char *
folder_of(struct arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');

	return str_dup(a, (struct str){path, slash ? (size_t)MAX_OF(slash - path, 1) : 0});
}

/* ---- the planner -------------------------------------------------------------------------------- */
struct planner {
	pid_t pid;
	struct pipe pipe;
};

/* It sees the model's folder, where external data lie, and that of the file behind a link. */
static bool
jailed(struct arena *a, const char *model, char *const **argv, struct err *e)
{
	const char *real = realpath(model, NULL);
	char *planner[] = {helper_path(a, "korch-planner"), NULL};
	const char *reads[] = {folder_of(a, model), folder_of(a, real ? real : model), NULL};
	const struct jail_conf conf = {.jail = JAIL_PLAN,
	    .reads = reads,
	    .memory_bytes = max_memory,
	    .until_hangup = true,
	    .argv = planner};

	free((void *)(uintptr_t)real);
	if (!planner[0])
		return err_set(e, ERR_HOST, "korch-planner is not beside this program; install it");
	return jail_command(a, &conf, argv, e);
}

static bool
spawn(char *const *argv, int in, int out, pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t fa;
	int rc;

	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, in, 0);
	(void)posix_spawn_file_actions_adddup2(&fa, out, 1);
	rc = posix_spawn(pid, argv[0], &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	return rc == 0 || err_set(e, ERR_HOST, "%s: cannot start: %s", argv[0], strerror(rc));
}

static bool
planner_open(struct arena *a, const char *model, struct planner *p, struct err *e)
{
	char *const *argv;
	int to[2], from[2];

	if (!jailed(a, model, &argv, e))
		return false;
	if (pipe2(to, O_CLOEXEC) != 0)
		return err_set(e, ERR_IO, "no pipe: %s", strerror(errno));
	if (pipe2(from, O_CLOEXEC) != 0) {
		(void)close(to[0]);
		(void)close(to[1]);
		return err_set(e, ERR_IO, "no pipe: %s", strerror(errno));
	}
	bool ok = spawn(argv, to[0], from[1], &p->pid, e);
	(void)close(to[0]);
	(void)close(from[1]);
	pipe_init(&p->pipe, from[0], to[1]);
	return ok;
}

static int
planner_close(struct planner *p)
{
	int status = 0;

	(void)close(p->pipe.in);
	(void)close(p->pipe.out);
	pipe_fini(&p->pipe);
	while (p->pid > 0 && waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static bool
ask(struct arena *a, const char *model, const struct m_options *options, struct msg *m, struct err *e)
{
	const char *slash = strrchr(model, '/');
	struct msg question = {.type = MSG_check_ask};
	struct planner p = {0};
	enum pipe_got got = PIPE_ERR;
	int status;

	question.check_ask = (struct m_check_ask){.options = *options,
	    .model_path = str_of(whole_path(a, model)),
	    .model_name = str_of(slash ? slash + 1 : model)};
	if (planner_open(a, whole_path(a, model), &p, e) && pipe_send(&p.pipe, &question, e))
		got = pipe_recv(&p.pipe, a, -1, m, e);
	status = planner_close(&p);
	if (got == PIPE_ERR)
		return false;
	if (got != PIPE_MSG)
		return err_set(e, ERR_FAILED, "%s: the planner ended while it read the model (%s %d)", model,
		    WIFSIGNALED(status) ? "signal" : "exit",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	if (m->type == MSG_failed)
		return err_set(e, err_of_wire(m->failed.code), "%.*s", STR_ARG(m->failed.text));
	return m->type == MSG_check_have ||
	    err_set(e, ERR_PROTO, "the planner answered '%s'", msg_name(m->type));
}

/* ---- words --------------------------------------------------------------------------------------- */
static void
add_ios(struct strbuf *sb, const char *what, const struct m_check_io *io, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		sb_addf(sb, "%-12s ", i ? "" : what);
		utf8_add_plain(sb, io[i].name);
		sb_addc(sb, ' ');
		utf8_add_plain(sb, io[i].type.n ? io[i].type : STR("?"));
		sb_addc(sb, ' ');
		utf8_add_plain(sb, io[i].shape);
		if (io[i].value.n) {
			sb_addz(sb, " = ");
			utf8_add_plain(sb, io[i].value);
			sb_addz(sb, ", a constant of the plan");
		}
		sb_addc(sb, '\n');
	}
}

/* "   12  com.microsoft.FusedConv: conv1, conv2, ..." and whose it is. */
static void
add_op(struct strbuf *sb, const char *what, const struct m_check_op *x)
{
	sb_addf(sb, "%-12s %4" PRIu64 "  ", what, x->nodes);
	utf8_add_plain(sb, x->domain);
	sb_addz(sb, x->domain.n ? "." : "");
	utf8_add_plain(sb, x->op);
	if (x->since)
		sb_addf(sb, ", from opset %" PRIu64 " on; the file has %" PRIu64, x->since, x->opset);
	for (uint32_t i = 0; i < x->n_where && i < SHOWN_NODES; i++) {
		sb_addz(sb, i ? ", " : ": ");
		utf8_add_plain(sb, x->where[i].name);
	}
	sb_addz(sb, x->nodes > SHOWN_NODES ? ", ...\n" : "\n");
	if (x->in_branches)
		sb_addf(sb,
		    "%18s %" PRIu64 " of them in branches of an If: they matter only where that is taken\n",
		    "", x->in_branches);
	if (x->maker.n)
		sb_addf(sb, "%18s made by %.*s: %.*s\n", "", STR_ARG(x->maker), STR_ARG(x->advice));
}

static void
add_fault(struct strbuf *sb, const char *what, const struct m_check_fault *x)
{
	sb_addf(sb, "%-12s ", what);
	if (x->node.n) {
		sb_addz(sb, "node '");
		utf8_add_plain(sb, x->node);
		sb_addz(sb, "' (");
		utf8_add_plain(sb, x->op);
		sb_addz(sb, "): ");
	}
	utf8_add_plain(sb, x->why);
	sb_addc(sb, '\n');
}

static void
add_verdict(struct strbuf *sb, const char *model, const struct m_check_have *h)
{
	sb_addf(sb, "%-12s ", "verdict");
	if (h->would_tune)
		sb_addz(sb, "this would be tuned\n");
	else if (h->n_missing == 0 && h->n_faults == 0)
		sb_addf(sb, "say how large the open inputs are, as in: korch-submit %s %.*s\n", model,
		    STR_ARG(h->example));
	else
		sb_addf(sb, "this cannot be tuned: unsupported operators %u, other faults %u%s\n",
		    h->n_missing, h->n_faults,
		    h->example.n ? "; shapes were not checked, as inputs are open (give --shape)" : "");
}

static void
print_words(struct arena *a, const char *model, const struct m_check_have *h)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb, "%-12s %s: %" PRIu64 " operators of opset %" PRIu64 "\n", "model", model, h->operators,
	    h->opset);
	add_ios(&sb, "inputs", h->inputs, h->n_inputs);
	add_ios(&sb, "outputs", h->outputs, h->n_outputs);
	for (uint32_t i = 0; i < h->n_missing; i++)
		add_op(&sb, i ? "" : "unsupported", &h->missing[i]);
	for (uint32_t i = 0; i < h->n_faults; i++)
		add_fault(&sb, i ? "" : "fails", &h->faults[i]);
	add_verdict(&sb, model, h);
	(void)fwrite(sb.p, 1, sb.n, stdout);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */
static void
json_field(struct strbuf *sb, const char *before, struct str v)
{
	sb_addz(sb, before);
	json_text(sb, v);
}

static void
json_ios(struct strbuf *sb, const char *what, const struct m_check_io *io, uint32_t n)
{
	sb_addf(sb, ",\"%s\":[", what);
	for (uint32_t i = 0; i < n; i++) {
		json_field(sb, i ? ",{\"name\":" : "{\"name\":", io[i].name);
		json_field(sb, ",\"type\":", io[i].type);
		json_field(sb, ",\"shape\":", io[i].shape);
		sb_addf(sb, ",\"open\":%s", io[i].is_open ? "true" : "false");
		json_field(sb, ",\"value\":", io[i].value);
		sb_addc(sb, '}');
	}
	sb_addc(sb, ']');
}

static void
json_op(struct strbuf *sb, const struct m_check_op *x)
{
	json_field(sb, "{\"domain\":", x->domain);
	json_field(sb, ",\"operator\":", x->op);
	sb_addf(sb,
	    ",\"opset\":%" PRIu64 ",\"since\":%" PRIu64 ",\"nodes\":%" PRIu64 ",\"in_branches\":%" PRIu64
	    ",\"where\":[",
	    x->opset, x->since, x->nodes, x->in_branches);
	for (uint32_t i = 0; i < x->n_where; i++)
		json_field(sb, i ? "," : "", x->where[i].name);
	json_field(sb, "],\"made_by\":", x->maker);
	json_field(sb, ",\"instead\":", x->advice);
	sb_addc(sb, '}');
}

static void
print_json(struct arena *a, const char *model, const struct m_check_have *h)
{
	struct strbuf sb;

	sb_init(&sb, a);
	json_field(&sb, "{\"model\":", str_of(model));
	sb_addf(&sb, ",\"operators\":%" PRIu64 ",\"opset\":%" PRIu64, h->operators, h->opset);
	json_ios(&sb, "inputs", h->inputs, h->n_inputs);
	json_ios(&sb, "outputs", h->outputs, h->n_outputs);
	sb_addz(&sb, ",\"unsupported\":[");
	for (uint32_t i = 0; i < h->n_missing; i++) {
		sb_addz(&sb, i ? "," : "");
		json_op(&sb, &h->missing[i]);
	}
	sb_addz(&sb, "],\"fails\":[");
	for (uint32_t i = 0; i < h->n_faults; i++) {
		json_field(&sb, i ? ",{\"node\":" : "{\"node\":", h->faults[i].node);
		json_field(&sb, ",\"operator\":", h->faults[i].op);
		json_field(&sb, ",\"why\":", h->faults[i].why);
		sb_addc(&sb, '}');
	}
	sb_addz(&sb, "],\"about\":[");
	for (uint32_t i = 0; i < h->n_about; i++) {
		json_field(&sb, i ? ",{\"name\":" : "{\"name\":", h->about[i].name);
		json_field(&sb, ",\"value\":", h->about[i].value);
		sb_addc(&sb, '}');
	}
	json_field(&sb, "],\"example\":", h->example);
	sb_addf(&sb, ",\"would_tune\":%s}\n", h->would_tune ? "true" : "false");
	(void)fwrite(sb.p, 1, sb.n, stdout);
}

bool
model_check(struct arena *a, const struct opts *o, const char *model, const struct m_options *options,
    bool *would_tune, struct err *e)
{
	struct msg m;

	if (!ask(a, model, options, &m, e))
		return false;
	(opt_flag(o, OPT_json) ? print_json : print_words)(a, model, &m.check_have);
	*would_tune = m.check_have.would_tune;
	return true;
}
