/* daemon/serve.c: requests come in, are checked against the table of rights, go to their
 * handler. */
#include "planner_process.h"
#include "learn.h"
#include "lease.h"

#include <stdlib.h>

enum { CLIENT = 1 << AUTH_CLIENT, WORKER = 1 << AUTH_WORKER, ANYONE = 4 };

static void
serve_shutdown(struct daemon *d, struct request *r)
{
	bool busy = false;

	for (struct job *j = d->jobs; j; j = j->next)
		busy |= !job_state_is_over(j->state);
	if (busy && r->m.shutdown.if_idle) {
		struct err e = {0};

		(void)err_set(&e, ERR_FAILED, "there are unfinished jobs");
		reply_error(d, r, &e);
		return;
	}
	reply_ok(d, r, 0, "");
	d->is_stopping = true;
}

static const struct right {
	enum msg_type type;
	unsigned who;
	void (*serve)(struct daemon *d, struct request *r);
} rights[] = {
    {MSG_hello, ANYONE, serve_hello},
    {MSG_bye, CLIENT | WORKER, serve_bye},
    {MSG_blob_put, CLIENT | WORKER, serve_blob_put},
    {MSG_blob_get, CLIENT | WORKER, serve_blob_get},
    {MSG_submit, CLIENT, serve_submit},
    {MSG_job_list, CLIENT, serve_job_list},
    {MSG_job_show, CLIENT, serve_job_show},
    {MSG_job_watch, CLIENT, serve_job_watch},
    {MSG_job_cancel, CLIENT, serve_job_cancel},
    {MSG_lease, WORKER, serve_lease},
    {MSG_renew, WORKER, serve_renew},
    {MSG_result, WORKER, serve_result},
    {MSG_release, WORKER, serve_release},
    {MSG_worker_list, CLIENT, serve_worker_list},
    {MSG_worker_want, CLIENT, serve_worker_want},
    {MSG_drain, CLIENT, serve_drain},
    {MSG_kick, CLIENT, serve_kick},
    {MSG_shutdown, CLIENT, serve_shutdown},
    {MSG_cache_stats, CLIENT, serve_cache},
    {MSG_cache_list, CLIENT, serve_cache},
    {MSG_cache_show, CLIENT, serve_cache},
    {MSG_cache_export, CLIENT, serve_cache},
    {MSG_cache_import, CLIENT, serve_cache},
    {MSG_cache_gc, CLIENT, serve_cache},
    {MSG_cache_verify, CLIENT, serve_cache},
    {MSG_cache_evidence, CLIENT, serve_cache},
};

static const struct right *
right_of(enum msg_type t)
{
	for (size_t i = 0; i < COUNT_OF(rights); i++)
		if (rights[i].type == t)
			return &rights[i];
	return NULL;
}

static bool
may(const struct right *right, const struct request *r, struct err *e)
{
	if (!right)
		return err_set(e, ERR_PROTO, "%s is no request", msg_name(r->m.type));
	if (right->who == ANYONE)
		return true;
	/* A worker or client says hello again when it reads this. */
	if (!r->session)
		return err_set(e, ERR_UNPROVED, "this connection has proved no such session: say hello");
	if (!(right->who & 1u << r->session->role))
		return err_set(e, ERR_PROTO, "a %s may not send %s", auth_role_name(r->session->role),
		    msg_name(r->m.type));
	return true;
}

static void
serve_one(struct daemon *d, struct sock_request *sock)
{
	struct request *r = heap_alloc(sizeof(*r));
	const struct right *right;
	struct err e = {0};

	r->sock = sock;
	r->peer = sock_request_peer(sock);
	r->is_local = sock_request_is_local(sock);
	if (!msg_unpack(&r->arena, sock_request_bytes(sock), &r->m, &e)) {
		reply_error(d, r, &e);
		return;
	}
	r->session_id = r->m.session;
	/* a session's number is worth nothing but on a connection that has proved it */
	r->session = sock_bound(d->net, r->peer) == r->m.session ? session_find(d, r->m.session) : NULL;
	if (r->session)
		r->session->seen_ns = daemon_now(d);
	os_seam("serve.request");
	right = right_of(r->m.type);
	if (may(right, r, &e))
		right->serve(d, r);
	else
		reply_error(d, r, &e);
}

struct request *
park(struct request **list, struct request *r)
{
	struct request **oldest = NULL, *out = NULL;
	uint32_t n = 0;

	r->next = *list;
	*list = r;
	for (struct request **at = list; *at; at = &(*at)->next) /* newest first */
		if ((*at)->session_id == r->session_id) {
			n++;
			oldest = at;
		}
	if (n > SESSION_PARKED) {
		out = *oldest;
		*oldest = out->next;
	}
	return out;
}

void
serve_network(struct daemon *d)
{
	struct sock_request *sock;
	uint32_t peer;
	enum sock_event ev;

	while ((ev = sock_take(d->net, &sock, &peer)) != SOCK_NOTHING) {
		if (ev == SOCK_GONE)
			session_peer_gone(d, peer);
		else
			serve_one(d, sock);
	}
}

void
serve_store(struct daemon *d)
{
	struct store_op *op;

	while ((op = store_take(d->store)) != NULL)
		op->done(op);
}

/* Nobody is at fault for what came while this process stood still (a stopped or starved host): words of that
 * time may be in the queue, unread. */
static void
forgive_delay(struct daemon *d)
{
	int64_t now = daemon_now(d), late = now - d->ticked_ns;

	if (d->ticked_ns && late > 2 * SECOND_NS) {
		daemon_log(d, late, KVI("ms", late / 1000000));
		farm_late(d->farm, late);
		sessions_late(d, late);
		d->last_client_ns += late;
	}
	d->ticked_ns = now;
}

/* What would still be measured is lost, and our address may by now be that of who owns the new folder. */
static bool
has_home(struct daemon *d)
{
	if (!d->is_homeless && !store_in_place(d->store)) {
		daemon_log(d, leave, KVZ("reason", "data_folder_is_gone"));
		d->is_homeless = d->is_stopping = true;
	}
	return !d->is_homeless;
}

void
serve_tick(struct daemon *d)
{
	struct sock_tended t;

	if (!has_home(d))
		return;
	t = sock_server_tend(d->net);

	if (t.n_reopened)
		daemon_log(d, listen_again, KVI("n", t.n_reopened), KVZ("reason", "nobody_answered"));
	for (int i = 0; i < CUTS; i++)
		if (t.n_cut[i])
			daemon_log(d, cut, KVI("n", t.n_cut[i]), KVZ("why", sock_cut_why((enum sock_cut)i)));
	forgive_delay(d);
	sessions_tick(d);
	reload_tick(d);
	leases_tick(d);
	watches_tick(d);
	planners_tick(d);
	jobs_tick(d);
	private_workers_tick(d);
	keep_tick(d);
	learn_tick(d);
	if (d->conf->is_private) {
		int64_t now = daemon_now(d);

		if (session_any_client(d))
			d->last_client_ns = now;
		/* not while a hello is on its way through the store */
		if (now - d->last_client_ns > 10 * SECOND_NS && !d->is_stopping &&
		    store_depth(d->store) == 0 && !learn_is_on(d)) {
			daemon_log(d, leave, KVZ("reason", "no_client_for_10_s"));
			d->is_stopping = true;
		}
	}
}
