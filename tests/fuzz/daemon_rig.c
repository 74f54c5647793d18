/* tests/fuzz/daemon_rig.c: see daemon_rig.h.  Stands for sock_server.c and loop_child.c. */
#include "daemon_rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the network ---------------------------------------------------------------------- */
struct sock_request {
	struct sock_request *next;
	uint32_t peer; /* from 1 */
	uint8_t *octets;
	size_t n;
};
struct sock_server {
	struct rig *rig;
	struct sock_request *first, **last;
	uint64_t bound[RIG_PEERS];
	bool is_gone[RIG_PEERS]; /* and nobody has been told */
};
static struct sock_server net;
static int64_t clock_ns;

static void
request_end(struct sock_request *r)
{
	net.rig->n_open--;
	free(r->octets);
	free(r);
}

enum sock_event
sock_take(struct sock_server *s, struct sock_request **req, uint32_t *peer)
{
	if (s->first) {
		*req = s->first;
		s->first = s->first->next;
		if (!s->first)
			s->last = &s->first;
		return SOCK_REQUEST;
	}
	for (uint32_t i = 0; i < RIG_PEERS; i++)
		if (s->is_gone[i]) {
			s->is_gone[i] = false;
			s->bound[i] = 0;
			*peer = i + 1;
			return SOCK_GONE;
		}
	return SOCK_NOTHING;
}

struct bytes
sock_request_bytes(const struct sock_request *r)
{
	return (struct bytes){r->octets, r->n};
}

uint32_t
sock_request_peer(const struct sock_request *r)
{
	return r->peer;
}

bool
sock_request_is_local(const struct sock_request *r)
{
	return r->peer != RIG_STRANGER + 1;
}

bool
sock_peer(struct sock_server *s, uint32_t peer, struct sock_peer *out)
{
	*out = (struct sock_peer){.id = peer,
	    .way = peer == RIG_STRANGER + 1 ? SOCK_PLAIN : SOCK_LOCAL,
	    .uid = (uint32_t)getuid(),
	    .addr = "rig"};
	return sock_peer_is_here(s, peer);
}

bool
sock_peer_is_here(struct sock_server *s, uint32_t peer)
{
	return s->rig->peer[peer - 1].is_here;
}

void
sock_bind(struct sock_server *s, uint32_t peer, uint64_t number)
{
	s->bound[peer - 1] = number;
}

uint64_t
sock_bound(struct sock_server *s, uint32_t peer)
{
	return s->bound[peer - 1];
}

void
sock_cut_bound(struct sock_server *s, uint64_t number)
{
	for (uint32_t i = 0; i < RIG_PEERS; i++)
		if (s->bound[i] == number) {
			s->is_gone[i] = true;
			s->rig->peer[i].is_here = false;
		}
}

/* For who wants to see what an input does: KORCH_RIG_SAYS=1. */
static void
tell(uint32_t peer, const struct msg *m)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	msg_json(&sb, m);
	(void)fprintf(stderr, "to %u: %s\n", peer, sb.p);
	arena_fini(&tmp);
}

/* Whoever has proved nothing gets errors, a welcome or a challenge; the stranger has no token, and no more.
 */
static void
look(struct rig *g, uint32_t peer, const struct msg *m)
{
	struct err e = {0};

	if (getenv("KORCH_RIG_SAYS"))
		tell(peer, m);
	if (msg_is_error(m, &e)) {
		if (!e.msg[0])
			abort();
		return;
	}
	if (m->type == MSG_welcome && m->welcome.session) {
		if (peer == RIG_STRANGER)
			abort();
		g->peer[peer].session = m->welcome.session;
	} else if (m->type != MSG_welcome && net.bound[peer] == 0 && g->peer[peer].session == 0)
		abort();
	if (m->type == MSG_grant && m->grant.n_tasks) {
		g->peer[peer].grant = *m;
		msg_dup(&g->a, m, &g->peer[peer].grant);
	}
}

void
sock_answer(struct sock_server *s, struct sock_request *r, struct bytes answer)
{
	struct arena tmp = {0};
	struct msg m;
	struct err e = {0};

	if (!msg_unpack(&tmp, answer, &m, &e))
		abort();
	if (s->rig->peer[r->peer - 1].is_here)
		look(s->rig, r->peer - 1, &m);
	arena_fini(&tmp);
	request_end(r);
}

void
sock_drop(struct sock_server *s, struct sock_request *r)
{
	(void)s;
	request_end(r);
}

struct sock_tended
sock_server_tend(struct sock_server *s)
{
	(void)s;
	return (struct sock_tended){0};
}

const char *
sock_cut_why(enum sock_cut c)
{
	(void)c;
	return "";
}

void
sock_rekey(struct sock_server *s, const struct keys *keys, bool is_new)
{
	(void)s;
	(void)keys;
	(void)is_new;
}

/* ---- planners --------------------------------------------------------------------------- */
struct child {
	const struct child_calls *calls;
	void *self;
	bool is_dying;
};
static struct child *planners[RIG_PLANNERS];

struct child *
child_start(struct daemon *d, char *const *argv, uint64_t memory_bytes, const struct child_calls *calls,
    void *self, struct err *e)
{
	(void)d;
	(void)memory_bytes;
	for (int i = 0; i < RIG_PLANNERS; i++)
		if (!planners[i]) {
			planners[i] = heap_alloc(sizeof(**planners));
			*planners[i] = (struct child){.calls = calls, .self = self};
			return planners[i];
		}
	(void)err_set(e, ERR_HOST, "%s: cannot start", argv[0]);
	return NULL;
}

bool
child_write(struct child *c, struct bytes b)
{
	(void)c;
	return b.n > 4;
}

void
child_kill(struct child *c, int signal)
{
	c->is_dying = true;
	(void)signal;
}

void
child_rest(struct child *c, bool rests)
{
	(void)c;
	(void)rests;
}

void
child_forget(struct child *c)
{
	for (int i = 0; i < RIG_PLANNERS; i++)
		if (planners[i] == c)
			planners[i] = NULL;
	free(c);
}

/* ---- its life ----------------------------------------------------------------------------- */
static void
settle(struct rig *g)
{
	do {
		serve_network(&g->d);
		serve_store(&g->d);
		(void)sched_yield();
	} while (store_depth(g->d.store) || net.first);
}

bool
rig_plan(struct rig *g, uint32_t n, struct bytes octets)
{
	struct child *c = planners[n % RIG_PLANNERS];

	if (!c)
		return false;
	c->calls->bytes(c->self, octets);
	settle(g);
	return true;
}

bool
rig_plan_ends(struct rig *g, uint32_t n, int status, int signal)
{
	struct child *c = planners[n % RIG_PLANNERS];

	if (!c)
		return false;
	planners[n % RIG_PLANNERS] = NULL;
	c->calls->ended(c->self, status, signal);
	free(c);
	settle(g);
	return true;
}

void
rig_say(struct rig *g, uint32_t peer, struct bytes octets)
{
	struct sock_request *r = heap_alloc(sizeof(*r));

	if (net.is_gone[peer])
		settle(g);
	g->peer[peer].is_here = true;
	*r = (struct sock_request){.peer = peer + 1, .octets = heap_alloc(octets.n + 1), .n = octets.n};
	memcpy(r->octets, octets.p, octets.n);
	*net.last = r;
	net.last = &r->next;
	g->n_open++;
	settle(g);
}

void
rig_gone(struct rig *g, uint32_t peer)
{
	if (!g->peer[peer].is_here)
		return;
	g->peer[peer].is_here = false;
	g->peer[peer].session = 0;
	net.is_gone[peer] = true;
	settle(g);
}

void
rig_later(struct rig *g, int64_t ns)
{
	clock_ns += ns;
	serve_tick(&g->d);
	for (uint32_t i = 0; i < RIG_PLANNERS; i++)
		if (planners[i] && planners[i]->is_dying)
			(void)rig_plan_ends(g, i, 0, 9);
	settle(g);
}

static int64_t
now(void *self)
{
	(void)self;
	return clock_ns;
}

static void
nobody(void *self)
{
	(void)self;
}

static char folder[64];

static void
remove_folder(void)
{
	char cmd[96];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", folder);
	if (system(cmd) != 0)
		abort();
}

/* Jobs are many folders deep, and each run is to begin with nothing. */
static void
make_folder(void)
{
	struct stat st;

	if (folder[0]) {
		remove_folder();
	} else {
		(void)snprintf(folder, sizeof(folder), "%s/korch-fuzz-XXXXXX",
		    stat("/dev/shm", &st) == 0 ? "/dev/shm" : "/tmp");
		if (!mkdtemp(folder))
			abort();
		(void)atexit(remove_folder);
		return;
	}
	if (mkdir(folder, 0700) != 0)
		abort();
}

struct rig *
rig_up(void)
{
	static struct os os;
	static struct daemon_conf conf;
	static const char *urls[] = {"ipc:///nowhere"};
	struct rig *g = heap_alloc(sizeof(*g));
	struct store_conf sc;
	struct err e = {0};

	make_folder();
	clock_ns = 1000 * SECOND_NS;
	os = *os_real();
	os.mono_ns = os.wall_ns = now;
	conf = (struct daemon_conf){
	    .data = folder, .listen = urls, .n_listen = 1, .planner = "planner", .max_planners = 2};
	net = (struct sock_server){.rig = g, .last = &net.first};
	sc = (struct store_conf){.dir = folder, .os = &os};
	g->d.conf = &conf;
	g->d.os = &os;
	g->d.net = &net;
	if (getenv("KORCH_RIG_SAYS") && !log_open(&g->d.log, &(struct log_conf){.os = &os}, &e))
		abort();
	if (!store_open(&g->d.store, &sc, (struct store_wake){nobody, NULL}, &e))
		abort();
	g->d.instance = store_boot(g->d.store);
	g->d.farm = farm_new(g->d.instance);
	if (!jobs_load(&g->d, &e))
		abort();
	return g;
}

void
rig_down(struct rig *g)
{
	struct daemon *d = &g->d;

	settle(g);
	daemon_forget(d);
	store_close(d->store);
	log_close(d->log);
	if (g->n_open)
		abort();
	for (int i = 0; i < RIG_PLANNERS; i++) {
		free(planners[i]);
		planners[i] = NULL;
	}
	arena_fini(&d->arena);
	arena_fini(&g->a);
	free(g);
}
