/* proto/peers.c: a table by number, lists by state, and a count a host.
 *
 * Who has not proved himself yet costs a place among few; when those are taken, one of the host that has most
 * of them loses his: a stranger with a thousand connections pushes out his own. */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct host {
	struct host *next;
	char addr[SOCK_ADDR_BYTES];
	uint32_t n, n_unproved;
};
struct list {
	struct peer *first, *last;
};
struct peer {
	struct sock_peer who;
	struct peer *next, *mate; /* in its buckets: by number, by port */
	struct peer *prev, *aft;  /* in its list */
	struct list *in;          /* unproved, proved, or gone */
	struct host *host;        /* NULL: local */
	uint64_t bound;
	int64_t since_ns; /* unproved */
	int64_t heard_ns;
	uint32_t n_out; /* requests not yet answered */
	bool is_cut;    /* it has been named as one to go */
	bool is_gone;
};
struct peers {
	struct sock_limits limits;
	struct list unproved, proved, gone; /* each in the order of coming into it */
	uint32_t n, n_unproved;             /* from the network; unproved ones that are not yet cut */
	struct peer *by_id[BUCKETS], *by_port[BUCKETS];
	struct host *hosts[BUCKETS];
};

struct peers *
peers_new(const struct sock_limits *limits)
{
	struct peers *p = heap_alloc(sizeof(*p));

	p->limits = *limits;
	return p;
}

/* ---- lists and tables --------------------------------------------------------------- */
static void
leave(struct peer *x)
{
	*(x->prev ? &x->prev->aft : &x->in->first) = x->aft;
	*(x->aft ? &x->aft->prev : &x->in->last) = x->prev;
	x->prev = x->aft = NULL;
	x->in = NULL;
}

static void
join(struct peer *x, struct list *l)
{
	x->in = l;
	x->prev = l->last;
	*(l->last ? &l->last->aft : &l->first) = x;
	l->last = x;
}

static struct peer **
place(const struct peers *p, uint32_t id)
{
	struct peer **at = (struct peer **)(uintptr_t)&p->by_id[mix64(id) % BUCKETS];

	while (*at && (*at)->who.id != id)
		at = &(*at)->next;
	return at;
}

static struct peer **
port_place(const struct peers *p, const uint8_t ip[16], uint16_t port)
{
	return (struct peer **)(uintptr_t)&p->by_port[hash64(ip, 16, port) % BUCKETS];
}

static struct host **
host_place(struct peers *p, const char *addr)
{
	struct host **at = &p->hosts[hash64(addr, strlen(addr), 0) % BUCKETS];

	while (*at && strcmp((*at)->addr, addr) != 0)
		at = &(*at)->next;
	return at;
}

static struct host *
host_of(struct peers *p, const char *addr)
{
	struct host **at = host_place(p, addr);

	if (!*at) {
		*at = heap_alloc(sizeof(**at));
		memcpy((*at)->addr, addr, strlen(addr) + 1);
	}
	return *at;
}

static void
host_leave(struct peers *p, struct host *h)
{
	struct host **at = host_place(p, h->addr);

	if (--h->n)
		return;
	*at = h->next;
	free(h);
}

/* Counted among those who have proved nothing: neither proved, nor on its way out. */
static bool
counts(const struct peer *x)
{
	return x->host && !x->bound && !x->is_cut && !x->is_gone;
}

static void
recount(struct peers *p, const struct peer *x, bool before)
{
	bool now = counts(x);

	if (!x->host || now == before)
		return;
	p->n_unproved += now ? 1u : UINT32_MAX;
	x->host->n_unproved += now ? 1u : UINT32_MAX;
}

static void
cut(struct peers *p, struct peer *x)
{
	bool before = counts(x);

	x->is_cut = true;
	recount(p, x, before);
}

/* ---- coming and going --------------------------------------------------------------- */
/* The oldest that waits for nothing of us, of the host with most. */
static struct peer *
most_of(struct peers *p)
{
	struct peer *found = NULL;

	for (struct peer *x = p->unproved.first; x; x = x->aft)
		if (counts(x) && x->n_out == 0 && (!found || x->host->n_unproved > found->host->n_unproved))
			found = x;
	return found;
}

bool
peers_add(struct peers *p, const struct sock_peer *who, int64_t now_ns, uint32_t *to_cut, enum sock_cut *why)
{
	struct peer **at = place(p, who->id), *x = heap_alloc(sizeof(*x)), *other;

	if (*at)
		bug("two connections %u", who->id);
	*to_cut = 0;
	x->who = *who;
	x->since_ns = x->heard_ns = now_ns;
	*at = x;
	join(x, &p->unproved);
	if (who->way == SOCK_LOCAL)
		return true;
	at = port_place(p, who->ip, who->port);
	x->mate = *at;
	*at = x;
	x->host = host_of(p, who->addr);
	x->host->n++;
	p->n++;
	recount(p, x, false);
	if (p->n > p->limits.max || x->host->n > p->limits.max_host) {
		cut(p, x);
		*to_cut = who->id;
		*why = CUT_FULL;
		return false;
	}
	other = p->n_unproved > p->limits.max_unproved ? most_of(p) : NULL;
	if (other) {
		cut(p, other);
		*to_cut = other->who.id;
		*why = CUT_CROWD;
	}
	return other != x;
}

void
peers_gone(struct peers *p, uint32_t id)
{
	struct peer *x = *place(p, id);
	bool before;

	if (!x || x->is_gone)
		return;
	before = counts(x);
	x->is_gone = true;
	recount(p, x, before);
	leave(x);
	join(x, &p->gone);
}

static void
forget(struct peers *p, struct peer *x)
{
	leave(x);
	*place(p, x->who.id) = x->next;
	if (x->host) {
		struct peer **at = port_place(p, x->who.ip, x->who.port);

		while (*at != x)
			at = &(*at)->mate;
		*at = x->mate;
		p->n--;
		host_leave(p, x->host);
	}
	free(x);
}

bool
peers_take(struct peers *p, uint32_t *id)
{
	struct peer *x = p->gone.first;

	if (!x)
		return false;
	*id = x->who.id;
	forget(p, x);
	return true;
}

void
peers_free(struct peers *p)
{
	struct list *const all[] = {&p->unproved, &p->proved, &p->gone};

	for (size_t i = 0; i < COUNT_OF(all); i++)
		for (struct peer *x = all[i]->first, *aft; x; x = aft) {
			bool before = counts(x);

			aft = x->aft;
			x->is_gone = true;
			recount(p, x, before);
			forget(p, x);
		}
	free(p);
}

const struct sock_peer *
peers_find(const struct peers *p, uint32_t id)
{
	const struct peer *x = *place(p, id);

	return x ? &x->who : NULL;
}

bool
peers_is_here(const struct peers *p, uint32_t id)
{
	const struct peer *x = *place(p, id);

	return x && !x->is_gone;
}

/* ---- what it says ------------------------------------------------------------------- */
bool
peers_heard(struct peers *p, uint32_t id, int64_t now_ns)
{
	struct peer *x = *place(p, id);

	if (!x)
		return true;
	x->heard_ns = now_ns;
	return ++x->n_out <= p->limits.max_requests || !x->host;
}

void
peers_answered(struct peers *p, uint32_t id, int64_t now_ns)
{
	struct peer *x = *place(p, id);

	if (!x)
		return;
	x->heard_ns = now_ns;
	x->n_out--;
}

void
peers_bind(struct peers *p, uint32_t id, uint64_t number, int64_t now_ns)
{
	struct peer *x = *place(p, id);
	bool before;

	if (!x || x->is_gone)
		return;
	before = counts(x);
	x->bound = number;
	recount(p, x, before);
	leave(x);
	join(x, number ? &p->proved : &p->unproved);
	if (number)
		x->heard_ns = now_ns;
	else
		x->since_ns = now_ns;
}

uint64_t
peers_bound(const struct peers *p, uint32_t id)
{
	const struct peer *x = *place(p, id);

	return x ? x->bound : 0;
}

void
peers_each_bound(const struct peers *p, uint64_t number, void (*one)(void *self, uint32_t id), void *self)
{
	for (const struct peer *x = p->proved.first; x; x = x->aft)
		if (x->bound == number)
			one(self, x->who.id);
}

/* ---- silence ------------------------------------------------------------------------ */
/* Whoever waits for an answer is not silent, however long it takes. */
uint32_t
peers_silent(struct peers *p, int64_t now_ns, enum sock_cut *why)
{
	for (struct peer *x = p->unproved.first; x && now_ns - x->since_ns > p->limits.prove_ns; x = x->aft)
		if (!x->is_cut && x->n_out == 0) {
			cut(p, x);
			*why = CUT_UNPROVED;
			return x->who.id;
		}
	for (struct peer *x = p->proved.first; x; x = x->aft)
		if (x->host && !x->is_cut && x->n_out == 0 && now_ns - x->heard_ns > p->limits.silent_ns) {
			cut(p, x);
			*why = CUT_SILENT;
			return x->who.id;
		}
	return 0;
}

uint32_t
peers_count(const struct peers *p)
{
	return p->n;
}

bool
peers_has_port(const struct peers *p, const uint8_t ip[16], uint16_t port)
{
	const struct peer *x = *port_place(p, ip, port);

	while (x && (x->who.port != port || memcmp(x->who.ip, ip, 16) != 0))
		x = x->mate;
	return x != NULL;
}
