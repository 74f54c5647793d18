/* client/report.c: --report: gathers the parts, scrubs them, packs them; see report.h. */
#include "report.h"

#include "external.h"
#include "output.h"

#include "../kernels/base/tar.h"
#include "../proto/tape.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CALL_S = 10, EVENT_ROUNDS = 64, ENV_ROWS = 256, MAX_ENVS = 16 };
static const size_t max_log = (size_t)1 << 20, max_file = (size_t)2 << 30, max_tar = (size_t)3 << 30;

struct writer {
	struct arena *arena;
	const struct opts *o;
	const struct report *r;
	const char *dir;
	struct scrub scrub;
	struct strbuf index; /* report.txt: what is in which file */
};

bool
report_check(const struct opts *o, struct err *e)
{
	const char *dir = opt_text(o, OPT_report);
	DIR *d;
	struct dirent *entry;
	int n = 0;

	if (!*dir)
		return !opt_flag(o, OPT_report_model) ||
		    err_set(
			e, ERR_USAGE, "--report-model puts the model into a report: it wants --report DIR");
	if (opt_flag(o, OPT_detach))
		return err_set(e, ERR_USAGE, "--report tells how a job ended, and -d does not wait for that");
	d = opendir(dir);
	if (!d)
		return errno == ENOENT ||
		    err_set(e, ERR_USAGE, "--report %s: is no folder: %s", dir, strerror(errno));
	while ((entry = readdir(d)) != NULL)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	(void)closedir(d);
	return n == 0 ||
	    err_set(e, ERR_USAGE, "--report %s: is not empty, and what lies there would be packed too", dir);
}

/* ---- parts ---------------------------------------------------------------------------- */
static bool
put(struct writer *w, const char *name, struct str text, const char *words, struct err *e)
{
	const char *path = arena_printf(w->arena, "%s/%s", w->dir, name);

	sb_addf(&w->index, "%-16s %s\n", name, words);
	text = scrub_text(&w->scrub, text);
	return os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text.p, text.n}, e);
}

/* A part that cannot be had. */
static bool
lacks(struct writer *w, const char *name, const char *why)
{
	sb_addf(&w->index, "%-16s is not here: %s\n", name, why);
	return true;
}

static bool
put_settings(struct writer *w, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, w->arena);
	opts_settings(&sb, w->o, false);
	return put(w, "settings.txt", sb_str(&sb), "each option and where it came from", e);
}

static bool
put_host(struct writer *w, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, w->arena);
	report_host(&sb, w->o);
	return put(
	    w, "host.txt", sb_str(&sb), "this host: system, processor, limits, what a sandbox may do", e);
}

static bool
ask(struct writer *w, struct msg *question, struct msg *answer, struct err *why)
{
	struct client *c = w->r->session->client;

	if (!c)
		return err_set(why, ERR_UNREACHABLE, "there was no daemon to ask");
	return client_call(c, w->arena, question, (int64_t)CALL_S * 1000000000, answer, why);
}

/* An answer as JSON, or why there is none. */
static bool
put_answer(struct writer *w, struct msg *question, const char *name, const char *words, struct err *e)
{
	struct msg answer;
	struct err why = {0};
	struct strbuf sb;

	if (!ask(w, question, &answer, &why))
		return lacks(w, name, why.msg);
	sb_init(&sb, w->arena);
	msg_json(&sb, &answer);
	sb_addc(&sb, '\n');
	return put(w, name, sb_str(&sb), words, e);
}

static bool
put_events(struct writer *w, struct err *e)
{
	struct client *c = w->r->session->client;
	uint64_t after = 0;
	struct strbuf sb;

	sb_init(&sb, w->arena);
	for (int round = 0; c && round < EVENT_ROUNDS; round++) {
		struct err why = {0};
		struct msg m;

		if (!client_watch(c, w->arena, w->r->job, after, 0, &m, &why))
			return lacks(w, "events.json", why.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			rec_json(&sb, "event", &m.job_events.events[i]);
			sb_addc(&sb, '\n');
			after = m.job_events.events[i].seq;
		}
		if (m.job_events.n_events == 0 || m.job_events.is_final)
			break;
	}
	return put(w, "events.json", sb_str(&sb), "what watchers of the job were told, one a line", e);
}

/* Keys of the environments that the store has measurements of. */
static bool
put_environments(struct writer *w, struct err *e)
{
	struct msg question = {.type = MSG_cache_list}, m;
	struct hash seen[MAX_ENVS];
	uint32_t n = 0;
	struct err why = {0};
	struct strbuf sb;

	question.cache_list = (struct m_cache_list){.max = ENV_ROWS};
	if (!ask(w, &question, &m, &why) || m.type != MSG_measurements)
		return lacks(w, "environments.txt", why.msg);
	sb_init(&sb, w->arena);
	for (uint32_t i = 0; i < m.measurements.n_rows && n < MAX_ENVS; i++) {
		const struct m_measurement *row = &m.measurements.rows[i];
		uint32_t k = 0;

		while (k < n && !hash_eq(&seen[k], &row->env_hash))
			k++;
		if (k < n)
			continue;
		seen[n++] = row->env_hash;
		sb_addf(&sb, "%.*s\n", STR_ARG(row->env));
	}
	return put(w, "environments.txt", sb_str(&sb), "classes and environments of kept measurements", e);
}

/* The end of a file of the data folder. */
static bool
put_file(struct writer *w, const char *from, const char *name, const char *words, struct err *e)
{
	struct bytes file;
	struct err why = {0};
	size_t skip;

	if (!os_read_file(os_real(), w->arena, from, max_file, &file, &why))
		return lacks(w, name, why.msg);
	skip = file.n > max_log ? file.n - max_log : 0;
	return put(w, name, (struct str){(const char *)file.p + skip, file.n - skip}, words, e);
}

/* A named daemon's files are elsewhere. */
static bool
put_logs(struct writer *w, struct err *e)
{
	bool moved;
	const char *data = data_folder(w->arena, opt_text(w->o, OPT_data), &moved);
	const char *died = arena_printf(w->arena, "%s/failed/%" PRIu64 "/how.txt", data, w->r->job);

	if (w->r->session->is_named)
		return lacks(
		    w, "korchd.log", "the daemon was named: its log is where it runs, add it by hand");
	if (!put_file(w, arena_printf(w->arena, "%s/korchd.log", data), "korchd.log",
		"of the private korchd, its planners and its worker, the last 1 MiB", e))
		return false;
	return !w->r->job || access(died, R_OK) != 0 ||
	    put_file(w, died, "died.txt", "how the job's planner died, and its last words", e);
}

static bool
put_dump(struct writer *w, struct err *e)
{
	struct err why = {0};
	const char *dir = arena_printf(w->arena, "%s/dump", w->dir);

	if (!w->r->session->client || !w->r->job)
		return lacks(w, "dump/", "there was no job");
	if (!client_fetch_dump(w->r->session->client, w->r->job, dir, &why))
		return lacks(w, "dump/", why.msg);
	sb_addf(&w->index, "%-16s %s\n", "dump/",
	    "stages of the job: the model's structure, names and constants of a few elements; no weights");
	return scrub_folder(&w->scrub, dir, e);
}

/* A file as it is. */
static bool
copy(struct writer *w, const char *from, struct str name, struct err *e)
{
	struct arena tmp = {0};
	struct bytes file;
	char *to = arena_printf(&tmp, "%s/model/%.*s", w->dir, STR_ARG(name)), *slash = strrchr(to, '/');
	bool ok;

	*slash = '\0';
	ok = os_make_dirs(to, e);
	*slash = '/';
	ok = ok && os_read_file(os_real(), &tmp, from, max_file, &file, e) &&
	    os_write_file(os_real(), to, file, e);
	arena_fini(&tmp);
	return ok;
}

static bool
is_below(struct str name)
{
	bool ok = name.n > 0 && name.p[0] != '/';

	while (name.n)
		ok &= !str_is(str_cut(&name, '/'), "..");
	return ok;
}

/* With its external data; what a model names outside of its folder is none of its own. */
static bool
put_model(struct writer *w, struct err *e)
{
	const char *slash = strrchr(w->r->model, '/'), *name = slash ? slash + 1 : w->r->model;
	struct bytes onnx;
	struct str *files = NULL;
	uint32_t n = 0;
	bool ok = os_read_file(os_real(), w->arena, w->r->model, max_file, &onnx, e) &&
	    copy(w, w->r->model, str_of(name), e);

	if (ok)
		external_list(w->arena, onnx, &files, &n);
	for (uint32_t i = 0; ok && i < n; i++)
		ok = !is_below(files[i]) ||
		    copy(w,
			arena_printf(
			    w->arena, "%.*s%.*s", (int)(name - w->r->model), w->r->model, STR_ARG(files[i])),
			files[i], e);
	sb_addf(&w->index, "%-16s %s\n", "model/", "the model with its external data, as asked for");
	return ok;
}

/* ---- together ------------------------------------------------------------------------- */
static bool
put_index(struct writer *w, struct err *e)
{
	const char *slash = strrchr(w->r->model, '/');
	struct strbuf sb;

	sb_init(&sb, w->arena);
	report_versions(&sb);
	sb_addf(&sb, "\nkorch-submit %s", slash ? slash + 1 : w->r->model);
	if (w->r->job)
		sb_addf(&sb, ", job %" PRIu64, w->r->job);
	sb_addf(&sb, "\nended: %s%s%s\n\n", err_text(w->r->end->code), w->r->end->msg[0] ? ": " : "",
	    w->r->end->msg);
	sb_add(&sb, sb_str(&w->index));
	sb_addz(&sb,
	    "\nNo token, no private key; the home folder is ~ and this host (host).  Other paths and "
	    "names stand as they are: look through it before you send it.\n");
	return put(w, "report.txt", sb_str(&sb), "", e);
}

static bool
put_all(struct writer *w, struct err *e)
{
	struct msg job = {.type = MSG_job_show}, workers = {.type = MSG_worker_list},
		   stats = {.type = MSG_cache_stats};

	job.job_show.job = w->r->job;
	return put_settings(w, e) && put_host(w, e) &&
	    (!w->r->job ||
		(put_answer(w, &job, "job.json", "the job: options, progress, its end", e) &&
		    put_events(w, e))) &&
	    put_answer(w, &workers, "workers.json", "devices and their classes", e) &&
	    put_answer(w, &stats, "cache.json", "figures of the store and of the farm", e) &&
	    put_environments(w, e) && put_logs(w, e) && put_dump(w, e);
}

static bool
pack(struct writer *w, const char *tar, struct err *e)
{
	struct bytes packed;

	return tar_folder(w->arena, w->dir, max_tar, &packed, e) && os_write_file(os_real(), tar, packed, e);
}

bool
report_write(const struct opts *o, const struct report *r, struct err *e)
{
	struct arena tmp = {0};
	struct writer w = {.arena = &tmp, .o = o, .r = r};
	struct str dir = str_of(opt_text(o, OPT_report));
	const char *tar;
	bool ok;

	while (dir.n > 1 && dir.p[dir.n - 1] == '/')
		dir.n--;
	w.dir = str_dup(&tmp, dir);
	tar = arena_printf(&tmp, "%s.tar", w.dir);
	r->session->n_forgiven = r->session->n_stops; /* after a Ctrl-C there is still something to ask */
	sb_init(&w.index, &tmp);
	scrub_init(&w.scrub, &tmp, o);
	ok = os_make_dirs(w.dir, e) && put_all(&w, e) &&
	    (!opt_flag(o, OPT_report_model) || put_model(&w, e)) && put_index(&w, e) && pack(&w, tar, e);
	if (ok && !opt_flag(o, OPT_quiet))
		(void)fprintf(
		    stderr, "report: %s, what is in %s; look through it, then attach it\n", tar, w.dir);
	arena_fini(&tmp);
	return ok;
}
