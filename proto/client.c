/* proto/client.c: blocking calls over the asynchronous socket.  Every request is idempotent and
 * keeps its id, so a call that got lost (a broken link, a restarted daemon) is made again until
 * it is answered or patience ends. */
#include "client.h"

#include "../kernels/base/tar.h"

#include "hello.h"
#include "sock.h"

#include "../kernels/base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const int64_t MS = 1000000, SECOND = 1000000000, DEFAULT_PATIENCE = (int64_t)10 * 1000000000;

struct client {
	struct client_conf conf;
	struct arena arena;
	struct cred cred;
	struct hello hello;
	struct sock_client *sock;
	uint64_t session, next_id;
	bool is_proved;      /* this connection speaks for the session */
	bool is_barred;      /* and none can come about: the two sides do not fit */
	struct bytes signer; /* of the last welcome */
	pthread_mutex_t lock;
	pthread_cond_t rung;
	bool is_rung;
};

static int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

static void
ring(void *self)
{
	struct client *c = self;

	(void)pthread_mutex_lock(&c->lock);
	c->is_rung = true;
	(void)pthread_cond_signal(&c->rung);
	(void)pthread_mutex_unlock(&c->lock);
}

/* Waits for a ring, at most that long and a quarter of a second. */
static void
wait_ring(struct client *c, int64_t at_most_ns)
{
	struct timespec until;
	int64_t ns = MIN_OF(at_most_ns, 250 * MS);

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	ns += until.tv_nsec;
	until.tv_sec += ns / SECOND;
	until.tv_nsec = ns % SECOND;
	(void)pthread_mutex_lock(&c->lock);
	while (!c->is_rung && pthread_cond_timedwait(&c->rung, &c->lock, &until) == 0)
		;
	c->is_rung = false;
	(void)pthread_mutex_unlock(&c->lock);
}

static bool
stopped(const struct client *c, struct err *e)
{
	if (!c->conf.stop || !c->conf.stop(c->conf.self))
		return false;
	(void)err_set(e, ERR_INTERRUPTED, "interrupted");
	return true;
}

/* A connection failed that will fail again, however often it is tried: that ends the call at once. */
static bool
barred(struct client *c, struct err *e)
{
	struct err why = {0};

	if (!sock_client_failed(c->sock))
		return false;
	(void)(sock_reachable(c->conf.url, c->cred.keys, &c->is_barred, &why) || why.code);
	if (c->is_barred)
		(void)err_set(e, c->conf.session ? ERR_LINKLOST : ERR_UNREACHABLE, "%s", why.msg);
	return c->is_barred;
}

/* One request, one answer or failure. */
static bool
once(
    struct client *c, struct arena *a, const struct msg *ask, int64_t wait_ns, struct msg *out, struct err *e)
{
	struct sock_call *call;
	struct bytes b;
	bool ok;

	if (!msg_pack(a, ask, MSG_MAX_BYTES, &b, e))
		return false;
	sock_ask(c->sock, b, (int)MIN_OF(wait_ns / MS + 1, (int64_t)1 << 30), (void *)(uintptr_t)ask->id);
	for (;;) {
		call = sock_done(c->sock);
		if (call && (uint64_t)(uintptr_t)sock_call_tag(call) == ask->id)
			break;
		if (call)
			sock_call_free(call); /* of a call that was given up */
		else if (stopped(c, e) || barred(c, e))
			return false;
		else
			wait_ring(c, SECOND);
	}
	ok = sock_call_bytes(call, &b, e);
	if (ok)
		ok = msg_unpack(a, (struct bytes){arena_dup(a, b.p, b.n), b.n}, out, e);
	sock_call_free(call);
	return ok;
}

/* On this connection, for the session there was or a new one.  A connection that breaks between the two words
 * takes its challenge along: then once more. */
static bool
say_hello(struct client *c, struct arena *a, int64_t wait_ns, struct err *e)
{
	struct msg ask, m;
	struct bytes challenge = {0};
	uint64_t session;

	c->hello.session = c->session;
	for (int round = 0; round < 6; round++) {
		hello_fill(&c->hello, challenge, &ask);
		ask.id = ++c->next_id;
		*e = (struct err){0};
		if (!once(c, a, &ask, wait_ns, &m, e))
			return false;
		if (!hello_read(&c->hello, &m, &session, e)) {
			if (e->code != ERR_UNPROVED || c->hello.joins)
				return false;
			challenge.n = 0;
			continue;
		}
		c->session = session ? session : c->session;
		c->is_proved = session != 0;
		if (session && m.welcome.signer.n)
			c->signer = (struct bytes){
			    arena_dup(&c->arena, m.welcome.signer.p, m.welcome.signer.n), m.welcome.signer.n};
		if (session)
			return true;
		challenge = m.welcome.challenge;
	}
	return err_set(e, ERR_PROTO, "the daemon asks for its proof again and again");
}

/* Patience is over: why? */
static bool
no_answer(const struct client *c, struct err *e)
{
	struct err why = {0};
	bool is_wrong;

	if (sock_reachable(c->conf.url, c->cred.keys, &is_wrong, &why))
		(void)err_set(
		    &why, ERR_UNREACHABLE, "%s: somebody listens there, and no korchd answers", c->conf.url);
	return err_set(e, c->conf.session ? ERR_LINKLOST : ERR_UNREACHABLE, "%s", why.msg);
}

bool
client_call(
    struct client *c, struct arena *a, struct msg *ask, int64_t wait_ns, struct msg *answer, struct err *e)
{
	int64_t patience = c->conf.patience_ns ? c->conf.patience_ns : DEFAULT_PATIENCE;
	int64_t until = now_ns() + patience + wait_ns;

	ask->id = ++c->next_id;
	for (;;) {
		struct err why = {0};
		int64_t left = until - now_ns();
		bool ok = c->is_proved;

		if (!ok)
			ok = say_hello(c, a, MAX_OF(MIN_OF(left, patience), MS), &why);
		if (ok) {
			ask->session = c->session;
			ok = once(c, a, ask, MAX_OF(left, MS), answer, &why);
			if (ok && !msg_is_error(answer, &why))
				return true;
			if (ok && why.code == ERR_UNPROVED) { /* another connection by now */
				c->is_proved = false;
				if (now_ns() < until)
					continue;
			}
		}
		if (why.code == ERR_UNPROVED && c->conf.session)
			return err_set(e, ERR_LINKLOST, "the session has ended; korchd was restarted");
		if (c->is_barred || (why.code != ERR_UNREACHABLE && why.code != ERR_TIMEOUT)) {
			*e = why;
			return false;
		}
		if (now_ns() >= until)
			return no_answer(c, e);
		if (stopped(c, e))
			return false;
		wait_ring(c, 100 * MS);
	}
}

bool
client_open(struct client **out, const struct client_conf *conf, struct err *e)
{
	struct client *c = heap_alloc(sizeof(*c));
	pthread_condattr_t attr;
	struct arena tmp = {0};
	int64_t until;
	bool ok;

	c->conf = *conf;
	c->conf.url = str_dup(&c->arena, str_of(conf->url));
	c->conf.title = str_dup(&c->arena, str_of(conf->title));
	c->conf.predictor = str_dup(&c->arena, str_of(conf->predictor ? conf->predictor : ""));
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->rung, &attr);
	(void)pthread_condattr_destroy(&attr);
	random_bytes(&c->next_id, 4); /* ids of two clients may meet: harmless, they have sessions */
	ok = cred_load(&c->cred, &conf->cred, &conf->url, 1, conf->is_worker ? "worker" : "client", e);
	c->session = conf->session;
	c->hello = (struct hello){.role = conf->is_worker ? AUTH_WORKER : AUTH_CLIENT,
	    .auth = &c->cred.auth,
	    .keys = c->cred.keys,
	    .joins = conf->session != 0,
	    .is_local = strncmp(conf->url, "ipc:", 4) == 0,
	    .name = str_of(str_dup(&c->arena, str_of(conf->name ? conf->name : "client")))};
	ok = ok &&
	    sock_client_open(
		&c->sock, conf->url, c->cred.keys, MSG_MAX_BYTES, (struct sock_wake){ring, c}, e);
	until = now_ns() + (conf->patience_ns ? conf->patience_ns : DEFAULT_PATIENCE);
	while (ok && !c->is_proved) {
		struct err why = {0};

		if (say_hello(c, &tmp, MAX_OF(until - now_ns(), MS), &why))
			break;
		if (why.code == ERR_UNPROVED && conf->session)
			(void)err_set(&why, ERR_LINKLOST, "the session has ended; korchd was restarted");
		if (c->is_barred || (why.code != ERR_UNREACHABLE && why.code != ERR_TIMEOUT)) {
			*e = why;
			ok = false;
		} else if (now_ns() >= until)
			ok = no_answer(c, e);
		else if (stopped(c, e))
			ok = false;
		else
			wait_ring(c, 50 * MS);
	}
	arena_fini(&tmp);
	if (!ok) {
		client_close(c);
		return false;
	}
	*out = c;
	return true;
}

struct bytes
client_signer(const struct client *c)
{
	return c->signer;
}

void
client_close(struct client *c)
{
	struct arena tmp = {0};
	struct msg bye = {.type = MSG_bye}, m;
	struct err e = {0};

	if (!c)
		return;
	if (c->sock && c->is_proved && !c->conf.session) {
		bye.id = ++c->next_id;
		bye.session = c->session;
		c->conf.stop = NULL;
		(void)(once(c, &tmp, &bye, SECOND, &m, &e) || e.code);
	}
	if (c->sock)
		sock_client_close(c->sock);
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_cond_destroy(&c->rung);
	cred_free(&c->cred);
	arena_fini(&tmp);
	arena_fini(&c->arena);
	free(c);
}

/* ---- blobs -------------------------------------------------------------------------- */
static bool
put_chunks(struct client *c, int fd, struct bytes mem, const struct hash *digest, uint64_t total,
    const char *kind, struct err *e)
{
	uint64_t at = 0;
	uint8_t *buf = heap_alloc(BLOB_CHUNK);
	bool ok = true, is_first = true;

	/* the first message carries no bytes: it asks whether and from where they are wanted */
	while (ok && (is_first || at < total)) {
		struct arena tmp = {0};
		struct msg ask = {.type = MSG_blob_put}, m;
		size_t n = is_first ? 0 : (size_t)MIN_OF(total - at, (uint64_t)BLOB_CHUNK);

		if (n && fd >= 0 && pread(fd, buf, n, (off_t)at) != (ssize_t)n)
			ok = err_set(e, ERR_IO, "the file changed while it was read");
		else if (n && fd < 0)
			memcpy(buf, mem.p + at, n);
		ask.blob_put = (struct m_blob_put){
		    .digest = *digest, .total = total, .offset = at, .data = {buf, n}, .kind = str_of(kind)};
		ok = ok && client_call(c, &tmp, &ask, 60 * SECOND, &m, e);
		if (ok && m.type != MSG_blob_at)
			ok = err_set(e, ERR_PROTO, "the daemon answers an upload with %s", msg_name(m.type));
		if (ok)
			at = m.blob_at.next;
		is_first = false;
		arena_fini(&tmp);
	}
	free(buf);
	return ok;
}

bool
client_put_bytes(struct client *c, struct bytes data, const char *kind, struct hash *digest, struct err *e)
{
	*digest = hash_bytes(data.p, data.n);
	return put_chunks(c, -1, data, digest, data.n, kind, e);
}

bool
client_put_file(struct client *c, const char *path, const char *kind, struct m_file *out, struct err *e)
{
	const char *slash = strrchr(path, '/');
	int fd;
	bool ok;

	out->name = str_of(slash ? slash + 1 : path);
	if (!hash_file(path, &out->digest, &out->bytes, e))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
	ok = put_chunks(c, fd, (struct bytes){0}, &out->digest, out->bytes, kind, e) || err_in(e, "%s", path);
	(void)close(fd);
	return ok;
}

static bool
get_chunks(struct client *c, const struct hash *digest, int fd, struct err *e)
{
	uint64_t at = 0, total = 1;
	bool ok = true;

	while (ok && at < total) {
		struct arena tmp = {0};
		struct msg ask = {.type = MSG_blob_get}, m;

		ask.blob_get = (struct m_blob_get){.digest = *digest, .offset = at};
		ok = client_call(c, &tmp, &ask, 60 * SECOND, &m, e);
		if (ok && (m.type != MSG_blob_data || m.blob_data.offset != at))
			ok = err_set(e, ERR_PROTO, "the daemon answers a download with %s", msg_name(m.type));
		if (ok) {
			total = m.blob_data.total;
			if (at < total && m.blob_data.data.n == 0)
				ok = err_set(e, ERR_PROTO, "the daemon sends an empty piece");
			else if (!out_write(fd, m.blob_data.data))
				ok = err_set(e, os_err_code(errno), "cannot write: %s", strerror(errno));
			at += m.blob_data.data.n;
		}
		arena_fini(&tmp);
	}
	return ok;
}

bool
client_get_file(struct client *c, const struct hash *digest, const char *path, struct err *e)
{
	struct out o;
	struct hash have;
	uint64_t n;
	bool ok;

	if (!out_begin(&o, path, e))
		return false;
	ok = get_chunks(c, digest, o.fd, e) && hash_file(o.made, &have, &n, e);
	if (ok && !hash_eq(&have, digest))
		ok = err_set(e, ERR_PROTO, "what arrived does not have the digest that was announced");
	if (ok)
		return out_end(&o, e);
	out_drop(&o);
	return err_in(e, "%s", path);
}

/* ---- jobs --------------------------------------------------------------------------- */
bool
client_submit(struct client *c, const char *model_path, const struct str *externals, uint32_t n_externals,
    const struct m_options *options, uint64_t *job, struct err *e)
{
	struct arena tmp = {0};
	struct m_file *files = NEW_ARRAY(&tmp, struct m_file, n_externals + 2);
	uint32_t n = n_externals + 1;
	struct msg ask = {.type = MSG_submit}, m;
	uint8_t request[16];
	const char *slash = strrchr(model_path, '/');
	bool ok = client_put_file(c, model_path, "model", &files[0], e);

	for (uint32_t i = 0; i < n_externals && ok; i++) {
		char *path = arena_printf(&tmp, "%.*s%.*s", slash ? (int)(slash - model_path) + 1 : 0,
		    model_path, STR_ARG(externals[i]));

		ok = client_put_file(c, path, "external", &files[i + 1], e);
		files[i + 1].name = externals[i];
	}
	if (ok && c->conf.predictor && *c->conf.predictor) {
		ok = client_put_file(c, c->conf.predictor, "predictor", &files[n], e);
		files[n++].name = STR(".korch.predict"); /* beside the model in the job's folder */
	}
	random_bytes(request, sizeof(request));
	ask.submit = (struct m_submit){.request = {request, sizeof(request)},
	    .name = files[0].name,
	    .title = str_of(c->conf.title),
	    .options = *options,
	    .files = files,
	    .n_files = n};
	if (n > n_externals + 1)
		ask.submit.options.predictor = files[n - 1].digest;
	ok = ok && client_call(c, &tmp, &ask, 30 * SECOND, &m, e);
	if (ok && m.type != MSG_submitted)
		ok = err_set(e, ERR_PROTO, "the daemon answers a submit with %s", msg_name(m.type));
	if (ok)
		*job = m.submitted.job;
	arena_fini(&tmp);
	return ok;
}

bool
client_watch(struct client *c, struct arena *a, uint64_t job, uint64_t after, int64_t wait_ns, struct msg *m,
    struct err *e)
{
	struct msg ask = {.type = MSG_job_watch};

	ask.job_watch =
	    (struct m_job_watch){.job = job, .after = after, .wait_ns = MIN_OF(wait_ns, 20 * SECOND)};
	if (!client_call(c, a, &ask, ask.job_watch.wait_ns + 5 * SECOND, m, e))
		return false;
	return m->type == MSG_job_events ||
	    err_set(e, ERR_PROTO, "the daemon answers a watch with %s", msg_name(m->type));
}

bool
client_cancel(struct client *c, uint64_t job, struct err *e)
{
	struct arena tmp = {0};
	struct msg ask = {.type = MSG_job_cancel}, m;
	bool ok;

	ask.job_cancel.job = job;
	ok = client_call(c, &tmp, &ask, 10 * SECOND, &m, e);
	arena_fini(&tmp);
	return ok;
}

bool
client_fetch(struct client *c, uint64_t job, const char *path, struct err *e)
{
	static const struct hash none;
	struct arena tmp = {0};
	struct msg ask = {.type = MSG_job_show}, m;
	struct hash plan = none;
	bool ok;

	ask.job_show.job = job;
	ok = client_call(c, &tmp, &ask, 10 * SECOND, &m, e);
	if (ok && (m.type != MSG_jobs || m.jobs.n_jobs != 1))
		ok = err_set(e, ERR_PROTO, "the daemon does not show job %llu", (unsigned long long)job);
	if (ok) {
		plan = m.jobs.jobs[0].plan;
		if (hash_eq(&plan, &none))
			ok = err_set(e, ERR_FAILED, "job %llu has no plan: it is %.*s",
			    (unsigned long long)job, STR_ARG(m.jobs.jobs[0].state));
	}
	arena_fini(&tmp);
	return ok && client_get_file(c, &plan, path, e);
}

bool
client_fetch_dump(struct client *c, uint64_t job, const char *dir, struct err *e)
{
	static const size_t max_bytes = (size_t)1 << 30;
	struct arena tmp = {0};
	struct msg ask = {.type = MSG_job_show}, m;
	char scratch[OS_PATH_MAX];
	struct bytes tar;
	bool ok;

	ask.job_show.job = job;
	ok = client_call(c, &tmp, &ask, 10 * SECOND, &m, e);
	if (ok && (m.type != MSG_jobs || m.jobs.n_jobs != 1))
		ok = err_set(e, ERR_PROTO, "the daemon does not show job %llu", (unsigned long long)job);
	if (ok && m.jobs.jobs[0].dump_bytes == 0)
		ok = err_set(e, ERR_FAILED,
		    "job %llu has no dump: none was asked for, or it got to no stage of it",
		    (unsigned long long)job);
	if (ok && os_temp_dir("dump", scratch, e)) {
		const char *path = arena_printf(&tmp, "%s/tar", scratch);

		ok = client_get_file(c, &m.jobs.jobs[0].dump, path, e) &&
		    os_read_file(os_real(), &tmp, path, max_bytes, &tar, e) && tar_unpack(tar, dir, e);
		os_remove_tree(scratch);
	} else {
		ok = false;
	}
	arena_fini(&tmp);
	return ok;
}
