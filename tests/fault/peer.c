/* tests/fault/peer.c: see peer.h. */
#include "peer.h"

static void
ring(void *self)
{
	(void)sem_post(&((struct peer *)self)->rung);
}

void
peer_open_tls(struct peer *p, const char *url, const struct keys *keys)
{
	struct err e = {0};

	*p = (struct peer){.next_id = 1};
	if (sem_init(&p->rung, 0, 0) != 0)
		bug("no semaphore");
	if (!sock_client_open(&p->sock, url, keys, MSG_MAX_BYTES, (struct sock_wake){ring, p}, &e))
		bug("%s", e.msg);
}

void
peer_open(struct peer *p, const char *url)
{
	peer_open_tls(p, url, NULL);
}

void
peer_close(struct peer *p)
{
	sock_client_close(p->sock);
	(void)sem_destroy(&p->rung);
	arena_fini(&p->a);
}

void
peer_ask(struct peer *p, struct msg *m, struct msg *answer)
{
	struct sock_call *call;
	struct bytes b;
	struct err e = {0};

	m->id = p->next_id++;
	if (!m->session && m->type != MSG_hello)
		m->session = p->session;
	if (!msg_pack(&p->a, m, MSG_MAX_BYTES, &b, &e))
		bug("%s", e.msg);
	sock_ask(p->sock, b, -1, NULL);
	while ((call = sock_done(p->sock)) == NULL)
		(void)sem_wait(&p->rung);
	if (!sock_call_bytes(call, &b, &e) ||
	    !msg_unpack(&p->a, (struct bytes){arena_dup(&p->a, b.p, b.n), b.n}, answer, &e))
		bug("no answer to %s: %s", msg_name(m->type), e.msg);
	sock_call_free(call);
}

void
peer_want(struct peer *p, struct msg *m, enum msg_type want, struct msg *answer)
{
	struct err e = {0};

	peer_ask(p, m, answer);
	if (answer->type != want)
		bug("%s is answered by %s%s%s", msg_name(m->type), msg_name(answer->type),
		    msg_is_error(answer, &e) ? ": " : "", e.msg);
}

enum err_code
peer_try(struct peer *p, struct msg *m, const char **words)
{
	struct msg answer;
	struct err e = {0};

	peer_ask(p, m, &answer);
	(void)msg_is_error(&answer, &e);
	if (words)
		*words = str_dup(&p->a, str_of(e.msg));
	return e.code;
}

bool
peer_hello(struct peer *p, const char *name, const struct m_env *env, const struct m_held *held,
    uint32_t n_held, struct msg *welcome, struct err *e)
{
	struct m_env own = *env;
	struct hello h = {
	    .role = AUTH_WORKER, .is_local = !p->is_remote, .name = str_of(name), .envs = &own, .n_envs = 1};
	struct msg m;

	hello_fill(&h, (struct bytes){0}, &m);
	m.hello.held = (struct m_held *)(uintptr_t)held;
	m.hello.n_held = n_held;
	peer_ask(p, &m, welcome);
	return hello_read(&h, welcome, &p->session, e);
}
