/* daemon/private_workers.c: the workers of a private daemon: started when a client wants one, restarted when
 * they crash, given up when they say that this host is not set up for it. */
#include "learn.h"
#include "loop.h"
#include "place.h"

#include "../kernels/base/class.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 5 };

static void
worker_ended(void *self, int status, int signal)
{
	struct private_worker *w = self;

	w->child = NULL;
	w->failures++;
	w->last_status = signal ? 128 + signal : status;
	/* what this host lacks, and what no device is called, stays so */
	if ((status == err_exit_status(ERR_HOST) || status == err_exit_status(ERR_USAGE)) && !signal)
		w->failures = TRIES;
}

/* "2 devices", if there are several, then "ready" for each that was taken; before it "measured" where the
 * device is known well enough to measure on, however the worker was started.  What else it prints is not for
 * us. */
static void
hear_line(struct private_worker *w, struct str line)
{
	struct str rest = line, count = str_cut(&rest, ' ');
	int64_t n;

	if (str_is(line, "ready"))
		w->n_taken++;
	else if (str_is(line, "measured"))
		w->is_quick = false;
	else if (str_is(rest, "devices") && str_to_i64(count, &n) && n > 0 && n <= 4096)
		w->n_devices = (uint32_t)n;
}

static void
worker_bytes(void *self, struct bytes b)
{
	struct private_worker *w = self;

	for (size_t i = 0; i < b.n; i++) {
		if (b.p[i] == '\n') {
			if (w->n_line <= sizeof(w->line))
				hear_line(w, (struct str){w->line, w->n_line});
			w->n_line = 0;
		} else {
			if (w->n_line < sizeof(w->line))
				w->line[w->n_line] = (char)b.p[i];
			w->n_line++;
		}
	}
}

/* What it says on stderr goes to ours; its last line is the reason that a job is told. */
static void
worker_words(void *self, struct bytes b)
{
	struct private_worker *w = self;
	size_t n = MIN_OF(b.n, sizeof(w->words) - 1);

	(void)fwrite(b.p, 1, b.n, stderr);
	memcpy(w->words, b.p + (b.n - n), n);
	w->words[n] = '\0';
}

static void
start(struct daemon *d, struct private_worker *w)
{
	static const struct child_calls calls = {
	    .bytes = worker_bytes, .words = worker_words, .ended = worker_ended};
	char url[4200], memory[24];
	struct err e = {0};
	char *argv[] = {(char *)(uintptr_t)d->conf->worker, (char *)(uintptr_t) "--daemon", url,
	    (char *)(uintptr_t) "--device", w->device, (char *)(uintptr_t) "--with-parent",
	    (char *)(uintptr_t) "--memory", memory, (char *)(uintptr_t) "--data",
	    (char *)(uintptr_t)d->conf->data, (char *)(uintptr_t) "--ready-fd", (char *)(uintptr_t) "1",
	    (char *)(uintptr_t) "--calibrate", (char *)(uintptr_t)(w->is_quick ? "quick" : "full"), NULL,
	    NULL, NULL};
	int n = 14;

	(void)snprintf(url, sizeof(url), "%s", d->conf->listen[0]);
	(void)snprintf(memory, sizeof(memory), "%llu", (unsigned long long)w->memory);
	if (d->conf->quiet)
		argv[n++] = (char *)(uintptr_t) "--quiet";
	if (d->conf->json)
		argv[n++] = (char *)(uintptr_t) "--json";
	w->started_ns = daemon_now(d);
	w->n_devices = 1;
	w->n_taken = 0;
	w->n_line = 0;
	w->child = child_start(d, argv, 0, &calls, w, &e);
	if (!w->child) {
		w->failures = TRIES;
		(void)snprintf(w->words, sizeof(w->words), "%s", e.msg);
	}
	daemon_log(d, own_worker, KVZ("device", w->device), KVI("ok", w->child != NULL));
}

/* A daemon that somebody started has the workers that somebody starts. */
static bool
need_worker(const struct daemon *d, struct str class, struct err *e)
{
	struct arena tmp = {0};
	long pid = (long)getpid();

	if (place_is_there(d, class))
		return true;
	(void)err_set(e, ERR_UNPLACEABLE,
	    "korchd (process %ld) over %.120s has no worker of device class '%.*s'%.120s and starts none; "
	    "start one with: korch-worker --daemon %.120s --device %s, or end it with: kill %ld, and a "
	    "private one is started",
	    pid, d->conf->data, STR_ARG(class), place_classes(&tmp, d), d->conf->listen[0],
	    place_device(&tmp, class), pid);
	arena_fini(&tmp);
	return false;
}

static struct private_worker *
find_worker(struct daemon *d, struct str device)
{
	for (uint32_t i = 0; i < d->n_private_workers; i++)
		if (str_is(device, d->private_workers[i].device))
			return &d->private_workers[i];
	return NULL;
}

static bool
is_of(const struct private_worker *w, struct str class)
{
	struct str kind = class_kind(str_of(w->device));

	if (str_is(kind, "cuda-fake"))
		kind = STR("cuda");
	return str_eq(kind, class_kind(class));
}

/* It ends when it has done what it holds; until then no new job is for it. */
static void
end_worker(struct daemon *d, struct private_worker *w)
{
	for (struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++)
			if (is_of(w, str_of(s->envs[i].class)))
				farm_drain(d->farm, s->envs[i].device);
	w->n_taken = 0; /* until the next one is there, nothing says that no device will come */
	if (w->child)
		child_kill(w->child, SIGTERM);
}

/* There is one already: asked anew, tried anew; one with another limit, or that looked at the host in a hurry
 * where kernels are to be measured now, makes room for another. */
static void
want_again(struct daemon *d, struct private_worker *w, const struct m_worker_want *want)
{
	bool is_other = (want->memory && want->memory != w->memory) || (w->is_quick && !want->at_once);

	if (w->failures >= TRIES)
		w->failures = 0;
	if (!is_other)
		return;
	w->memory = want->memory ? want->memory : w->memory;
	w->is_quick &= want->at_once;
	end_worker(d, w);
}

static bool
add_worker(struct daemon *d, const struct m_worker_want *want, struct err *e)
{
	struct str device = want->device;
	struct private_worker *w;

	if (!d->conf->worker)
		return err_set(e, ERR_HOST, "korch-worker is not beside korchd; install it");
	if (d->n_private_workers == COUNT_OF(d->private_workers))
		return err_set(
		    e, ERR_LIMIT, "this korchd has %u kinds of workers already", d->n_private_workers);
	if (device.n == 0 || device.n >= sizeof(w->device) || device.p[0] == '-')
		return err_set(e, ERR_USAGE, "'%.*s' is no device", STR_ARG(device));
	w = &d->private_workers[d->n_private_workers++];
	(void)snprintf(w->device, sizeof(w->device), "%.*s", STR_ARG(device));
	w->memory = want->memory;
	w->is_quick = want->at_once;
	start(d, w);
	return true;
}

void
serve_worker_want(struct daemon *d, struct request *r)
{
	const struct m_worker_want *want = &r->m.worker_want;
	struct private_worker *w = find_worker(d, want->device);
	struct err e = {0};
	bool ok = true;

	learn_stop(d, "a worker is wanted");
	if (!d->conf->is_private && want->memory)
		ok = err_set(&e, ERR_USAGE,
		    "--memory: the korchd over %.200s is not private; its workers have what korch-worker "
		    "--memory gives them",
		    d->conf->data);
	else if (!d->conf->is_private)
		ok = need_worker(d, want->class, &e);
	else if (!w)
		ok = add_worker(d, want, &e);
	else
		want_again(d, w, want);
	if (ok)
		reply_ok(d, r, !d->conf->is_private, "");
	else
		reply_error(d, r, &e);
}

void
private_workers_tick(struct daemon *d)
{
	for (uint32_t i = 0; i < d->n_private_workers && !d->is_stopping; i++) {
		struct private_worker *w = &d->private_workers[i];
		int64_t age = daemon_now(d) - w->started_ns;

		if (w->child && age > 60 * SECOND_NS)
			w->failures = 0;
		if (!w->child && w->failures < TRIES && age > (int64_t)w->failures * SECOND_NS)
			start(d, w);
	}
}

void
private_workers_stop(struct daemon *d)
{
	for (uint32_t i = 0; i < d->n_private_workers; i++)
		if (d->private_workers[i].child) {
			child_forget(d->private_workers[i].child);
			d->private_workers[i].child = NULL;
		}
}

/* All of its devices are there, or it is given up. */
static bool
is_settled(const struct private_worker *w)
{
	return w->child ? w->n_taken >= w->n_devices : w->failures >= TRIES;
}

/* Are there devices of that kind, and none that fits?  One whose connection has just ended still counts, and
 * one of ours that has said goodbye while its process still ends comes again.  GPUs that are not ours join
 * one by one. */
static bool
are_others(const struct daemon *d, struct str class)
{
	uint32_t n_here = 0, n_own = 0;
	bool found = false;

	for (const struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++) {
			struct str there = str_of(s->envs[i].class);

			if (class_fits(class, there))
				return false;
			n_here += s->is_connected;
			found |= s->is_connected && !str_is(class_kind(class), "cuda") &&
			    str_eq(class_kind(there), class_kind(class));
		}
	for (uint32_t i = 0; i < d->n_private_workers; i++) {
		const struct private_worker *w = &d->private_workers[i];

		n_own += w->child ? w->n_devices : 0;
		found |= w->child && is_of(w, class);
	}
	return found && n_here >= n_own;
}

/* This host's devices of that kind are there, and none is what was asked for: no other will come. */
static bool
own_is_other(const struct daemon *d, struct str class, struct err *why)
{
	struct arena tmp = {0};

	for (uint32_t i = 0; i < d->n_private_workers; i++)
		if (is_of(&d->private_workers[i], class) && !is_settled(&d->private_workers[i]))
			return false;
	if (!d->conf->is_private || !are_others(d, class))
		return false;
	(void)err_set(why, ERR_UNPLACEABLE,
	    "no device of this host is of class '%.*s'%.200s; take one with --device %.*s, or name a farm "
	    "that has the other with --daemon",
	    STR_ARG(class), place_classes(&tmp, d), STR_ARG(class_kind(class)));
	arena_fini(&tmp);
	return true;
}

bool
private_workers_settled(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->n_private_workers; i++)
		if (!is_settled(&d->private_workers[i]))
			return false;
	return true;
}

bool
private_worker_lives(const struct daemon *d, struct str class)
{
	for (uint32_t i = 0; i < d->n_private_workers; i++)
		if (is_of(&d->private_workers[i], class) && d->private_workers[i].child)
			return true;
	return false;
}

/* One that gave up says why; which: what was asked for by its very name, or any of the kind. */
static bool
gave_up(const struct daemon *d, struct str class, bool by_name, struct err *why)
{
	for (uint32_t i = 0; i < d->n_private_workers; i++) {
		const struct private_worker *w = &d->private_workers[i];
		struct str words = str_trim(str_of(w->words)), line = words;

		if (!(by_name ? str_is(class, w->device) : is_of(w, class)) || w->child ||
		    w->failures < TRIES)
			continue;
		while (words.n)
			line = str_cut(&words, '\n');
		return !err_set(why,
		    w->last_status == err_exit_status(ERR_HOST)        ? ERR_HOST
			: w->last_status == err_exit_status(ERR_USAGE) ? ERR_UNPLACEABLE
								       : ERR_WORKERLOST,
		    "%.*s", STR_ARG(line));
	}
	return false;
}

bool
private_worker_failed(const struct daemon *d, struct str class, struct err *why)
{
	if (gave_up(d, class, true, why) || own_is_other(d, class, why))
		return true;
	return !private_worker_lives(d, class) &&
	    gave_up(d, class, false, why); /* another of its kind may do */
}
