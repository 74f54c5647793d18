/* daemon/reply.c: a request is answered once: from what is known, or by one op of the store. */
#include "daemon.h"

#include <stdlib.h>
#include <string.h>

static void
request_free(struct request *r)
{
	arena_fini(&r->arena);
	free(r);
}

void
request_drop(struct daemon *d, struct request *r)
{
	sock_drop(d->net, r->sock);
	request_free(r);
}

void
reply(struct daemon *d, struct request *r, struct msg *m)
{
	struct bytes b;
	struct err e = {0};
	struct session *s = session_find(d, r->session_id);

	m->id = r->m.id;
	m->session = r->session_id;
	if (!msg_pack(&r->arena, m, MSG_MAX_BYTES, &b, &e)) {
		struct msg bad = msg_error(&e);

		bad.id = r->m.id;
		if (!msg_pack(&r->arena, &bad, MSG_MAX_BYTES, &b, &e))
			bug("an error that cannot be packed: %s", e.msg);
	}
	/* A lease request that is repeated because its answer was lost gets the same leases. */
	if (s && r->m.type == MSG_lease && m->type == MSG_grant) {
		free((void *)(uintptr_t)s->lease_reply.p);
		s->lease_reply = (struct bytes){heap_alloc(b.n), b.n};
		memcpy((void *)(uintptr_t)s->lease_reply.p, b.p, b.n);
		s->lease_id = r->m.id;
	}
	os_seam("serve.answer");
	sock_answer(d->net, r->sock, b);
	request_free(r);
}

void
reply_ok(struct daemon *d, struct request *r, uint64_t value, const char *text)
{
	struct msg m = {.type = MSG_ok};

	m.ok.value = value;
	m.ok.text = str_of(text);
	reply(d, r, &m);
}

void
reply_error(struct daemon *d, struct request *r, const struct err *e)
{
	struct msg m = msg_error(e);

	reply(d, r, &m);
}

/* ---- from the store ----------------------------------------------------------------- */
void
ask_end_op(struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct daemon *d = op->owner;

	if (op->ok)
		reply(d, a->r, &a->m);
	else
		reply_error(d, a->r, &op->err);
	arena_fini(&op->arena);
	free(a);
}

void
ask_store_then(struct daemon *d, struct request *r, bool (*run)(struct db *db, struct store_op *op),
    void (*done)(struct store_op *op))
{
	struct ask_op *a = heap_alloc(sizeof(*a));

	a->op.run = run;
	a->op.done = done;
	a->op.owner = d;
	a->r = r;
	store_post(d->store, &a->op);
}

void
ask_store(struct daemon *d, struct request *r, bool (*run)(struct db *db, struct store_op *op))
{
	ask_store_then(d, r, run, ask_end_op);
}
