/* daemon/loop.c: the libuv loop of korchd: one async handle that any thread may ring, one timer,
 * the signals.  Several rings may become one wake-up, so everything that waits is taken. */
#include "loop_int.h"

#include <signal.h>

enum { TICK_MS = 250 };

static void
wake_loop(uv_async_t *h)
{
	struct daemon *d = h->data;

	serve_network(d);
	serve_store(d);
}

static void
tick(uv_timer_t *h)
{
	struct daemon *d = h->data;

	serve_tick(d);
	d->loop->is_stopped = d->is_stopping; /* only here: the answer to a shutdown has left by now */
}

static void
got_signal(uv_signal_t *h, int number)
{
	struct daemon *d = h->data;

	daemon_log(d, signal, KVI("number", number));
	d->is_stopping = d->loop->is_stopped = true;
}

static void
got_hup(uv_signal_t *h, int number)
{
	(void)number;
	daemon_reload(h->data);
}

void
loop_wake(void *loop)
{
	(void)uv_async_send(&((struct loop *)loop)->wake);
}

struct loop *
loop_new(void)
{
	struct loop *l = heap_alloc(sizeof(*l));

	if (uv_loop_init(&l->uv) != 0 || uv_async_init(&l->uv, &l->wake, wake_loop) != 0 ||
	    uv_timer_init(&l->uv, &l->timer) != 0 || uv_signal_init(&l->uv, &l->term) != 0 ||
	    uv_signal_init(&l->uv, &l->intr) != 0 || uv_signal_init(&l->uv, &l->hup) != 0)
		bug("the event loop cannot start");
	return l;
}

bool
loop_run(struct daemon *d, struct err *e)
{
	struct loop *l = d->loop;

	l->wake.data = l->timer.data = l->term.data = l->intr.data = l->hup.data = d;
	(void)uv_timer_start(&l->timer, tick, TICK_MS, TICK_MS);
	(void)uv_signal_start(&l->term, got_signal, SIGTERM);
	(void)uv_signal_start(&l->intr, got_signal, SIGINT);
	(void)uv_signal_start(&l->hup, got_hup, SIGHUP);
	loop_wake(l); /* what arrived before */
	while (!l->is_stopped)
		(void)uv_run(&l->uv, UV_RUN_ONCE);
	return !d->is_homeless ||
	    err_set(e, ERR_IO,
		"%s: the data folder was removed, moved or replaced while korchd ran over it; start korchd "
		"anew",
		d->conf->data);
}
