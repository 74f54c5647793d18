/* worker/gpu_keep.c: see gpu_keep.h. */
#include "gpu_keep.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static const int64_t PATIENCE_NS = (int64_t)5 * 1000000000, LOOK_NS = 20000000;
static const uint64_t MOST_GROWTH = (uint64_t)1 << 30;

static int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

void
gpu_keep_init(
    struct gpu_keep *k, const struct measure_opts *opts, const struct lock_conf *conf, const char *pci)
{
	pthread_condattr_t attr;
	char name[64];

	*k = (struct gpu_keep){
	    .opts = *opts, .patience_ns = PATIENCE_NS, .most_growth_bytes = MOST_GROWTH, .is_open = true};
	(void)snprintf(name, sizeof(name), "gpu-%.40s", pci);
	host_lock_init(&k->lock, conf, opts->cancel, name);
	(void)snprintf(name, sizeof(name), "gpu-%.40s-context", pci);
	host_lock_init(&k->context, conf, opts->cancel, name);
	(void)pthread_mutex_init(&k->mutex, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&k->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
}

/* The context first, then the word that there is none.  With the mutex, where there is a watcher. */
static void
end_child(struct gpu_keep *k)
{
	measure_close(k->child);
	k->child = NULL;
	k->is_idle = false;
	host_lock_leave(&k->context);
}

/* ---- while it idles ------------------------------------------------------------------------------ */
static void *
watch(void *arg)
{
	struct gpu_keep *k = arg;

	(void)pthread_mutex_lock(&k->mutex);
	while (!k->is_over) {
		int64_t until = now_ns() + LOOK_NS;
		struct timespec ts = {until / 1000000000, until % 1000000000};

		if (!k->is_idle)
			(void)pthread_cond_wait(&k->changed, &k->mutex);
		else if (now_ns() - k->idle_since_ns >= k->patience_ns || host_lock_is_wanted(&k->context))
			end_child(k);
		else
			(void)pthread_cond_timedwait(&k->changed, &k->mutex, &ts);
	}
	(void)pthread_mutex_unlock(&k->mutex);
	return NULL;
}

/* False where nobody can watch over it. */
static bool
lay_down(struct gpu_keep *k)
{
	if (!k->has_watcher)
		k->has_watcher = pthread_create(&k->watcher, NULL, watch, k) == 0;
	k->is_idle = k->has_watcher;
	k->idle_since_ns = now_ns();
	(void)pthread_cond_signal(&k->changed);
	return k->is_idle;
}

/* The child that idled is ours again, and the lock with it; else it is ended, because whoever has the lock
 * waits for its context. */
static bool
pick_up(struct gpu_keep *k)
{
	bool ok;

	(void)pthread_mutex_lock(&k->mutex);
	ok = k->is_idle && host_lock_try(&k->lock);
	k->is_idle = k->is_idle && !ok;
	if (k->is_idle)
		end_child(k);
	(void)pthread_mutex_unlock(&k->mutex);
	return ok;
}

/* ---- take, leave --------------------------------------------------------------------------------- */
static bool
open_child(struct gpu_keep *k, struct err *e)
{
	uint64_t n_bytes;

	k->n_batches = 0;
	if (!measure_open(&k->opts, &k->child, e)) {
		k->child = NULL;
		return false;
	}
	return measure_is_well(k->child, &k->n_starts, &n_bytes) ||
	    err_set(e, ERR_DEVLOST, "the measuring child does not answer after its start");
}

bool
gpu_keep_take(struct gpu_keep *k, struct err *e)
{
	uint32_t n_starts;
	uint64_t n_bytes;

	if (pick_up(k)) {
		if (measure_is_well(k->child, &n_starts, &n_bytes))
			return true;
		(void)pthread_mutex_lock(&k->mutex);
		end_child(k); /* it died while it idled: that is nobody's fault */
		(void)pthread_mutex_unlock(&k->mutex);
	}
	return host_lock_take(&k->lock, e) && host_lock_take(&k->context, e) && open_child(k, e);
}

/* A child that was replaced on the way has met a kernel that killed it. */
static bool
may_serve_again(struct gpu_keep *k)
{
	uint32_t n_starts;
	uint64_t n_bytes;

	if (!k->child || ++k->n_batches >= KEEP_BATCHES || !measure_is_well(k->child, &n_starts, &n_bytes) ||
	    n_starts != k->n_starts)
		return false;
	if (k->n_batches == 1)
		k->first_bytes = n_bytes;
	return n_bytes <= k->first_bytes + k->most_growth_bytes;
}

void
gpu_keep_leave(struct gpu_keep *k, bool is_good)
{
	if (!k->is_open)
		return;
	is_good = is_good && may_serve_again(k);
	(void)pthread_mutex_lock(&k->mutex);
	if (!is_good || !lay_down(k))
		end_child(k);
	(void)pthread_mutex_unlock(&k->mutex);
	host_lock_leave(&k->lock);
}

void
gpu_keep_close(struct gpu_keep *k)
{
	if (!k->is_open)
		return;
	(void)pthread_mutex_lock(&k->mutex);
	k->is_over = true;
	(void)pthread_cond_signal(&k->changed);
	(void)pthread_mutex_unlock(&k->mutex);
	if (k->has_watcher)
		(void)pthread_join(k->watcher, NULL);
	end_child(k);
	host_lock_leave(&k->lock);
	(void)pthread_cond_destroy(&k->changed);
	(void)pthread_mutex_destroy(&k->mutex);
	*k = (struct gpu_keep){.lock.fd = -1, .context.fd = -1};
}
