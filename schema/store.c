/* schema/store.c: the store's thread.  Work is posted, runs in order, and comes back after the
 * commit that holds it: acknowledged means durable.  Everything waiting goes into one
 * transaction (at most GROUP ops), which makes synchronous=FULL cheap.
 *
 * One failing op must not take others along: each runs in a savepoint of its own. */
#include "db_int.h"

#include <pthread.h>
#include <stdlib.h>

enum { GROUP = 256 };

struct store {
	struct db *db; /* the thread's alone after store_open */
	uint64_t boot;
	uint8_t secret[SECRET_BYTES];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted;
	struct store_op *in, **in_tail;
	struct store_op *out, **out_tail;
	uint32_t depth;
	bool is_closing;
	struct store_wake wake;
};

static void
run_one(struct db *db, struct store_op *op)
{
	int rc = sqlite3_exec(db->sql, "SAVEPOINT op", NULL, NULL, NULL);

	if (rc != SQLITE_OK) {
		op->ok = db_failed(db, rc, &op->err);
		return;
	}
	op->ok = op->run(db, op);
	if (!op->ok)
		(void)sqlite3_exec(db->sql, "ROLLBACK TO op", NULL, NULL, NULL);
	rc = sqlite3_exec(db->sql, "RELEASE op", NULL, NULL, NULL);
	if (rc != SQLITE_OK && op->ok)
		op->ok = db_failed(db, rc, &op->err);
}

static void
run_group(struct db *db, struct store_op *list)
{
	struct err e = {0};
	bool ok = db_begin(db, &e);

	for (struct store_op *op = list; op && ok; op = op->next)
		run_one(db, op);
	os_seam("store.before_commit");
	ok = ok && db_commit(db, &e);
	os_seam("store.after_commit");
	if (ok)
		return;
	db_rollback(db);
	for (struct store_op *op = list; op; op = op->next) {
		if (op->ok || op->err.code == ERR_NONE)
			op->err = e;
		op->ok = false;
	}
}

/* Takes at most GROUP ops; called with the lock held. */
static struct store_op *
take_group(struct store *s)
{
	struct store_op *list = s->in, *last = s->in;

	for (int n = 1; n < GROUP && last->next; n++)
		last = last->next;
	s->in = last->next;
	if (!s->in)
		s->in_tail = &s->in;
	last->next = NULL;
	return list;
}

static void *
store_thread(void *arg)
{
	struct store *s = arg;

	(void)pthread_mutex_lock(&s->lock);
	for (;;) {
		struct store_op *list, *last;

		while (!s->in && !s->is_closing)
			(void)pthread_cond_wait(&s->posted, &s->lock);
		if (!s->in)
			break;
		list = take_group(s);
		(void)pthread_mutex_unlock(&s->lock);
		run_group(s->db, list);
		for (last = list; last->next; last = last->next)
			;
		(void)pthread_mutex_lock(&s->lock);
		*s->out_tail = list;
		s->out_tail = &last->next;
		if (s->is_closing)
			continue;
		(void)pthread_mutex_unlock(&s->lock);
		s->wake.wake(s->wake.self);
		(void)pthread_mutex_lock(&s->lock);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

static bool
open_secret(struct store *s, struct err *e)
{
	return db_begin(s->db, e) && secret_get(s->db, "tickets", s->secret, e) && db_commit(s->db, e);
}

bool
store_open(struct store **out, const struct store_conf *conf, struct store_wake wake, struct err *e)
{
	struct store *s = heap_alloc(sizeof(*s));

	s->in_tail = &s->in;
	s->out_tail = &s->out;
	s->wake = wake;
	if (!db_open(&s->db, conf, e) || !open_secret(s, e)) {
		db_close(s->db);
		free(s);
		return false;
	}
	s->boot = db_boot(s->db);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->posted, NULL);
	if (pthread_create(&s->thread, NULL, store_thread, s) != 0)
		bug("the store's thread cannot start");
	*out = s;
	return true;
}

uint64_t
store_boot(const struct store *s)
{
	return s->boot;
}

bool
store_in_place(const struct store *s)
{
	return db_in_place(s->db);
}

const struct sign_pub *
store_signer(const struct store *s)
{
	return &s->db->signer.pub; /* never changes while it is open */
}

const uint8_t *
store_secret(const struct store *s)
{
	return s->secret;
}

void
store_post(struct store *s, struct store_op *op)
{
	op->next = NULL;
	op->ok = false;
	op->err = (struct err){0};
	(void)pthread_mutex_lock(&s->lock);
	*s->in_tail = op;
	s->in_tail = &op->next;
	s->depth++;
	(void)pthread_cond_signal(&s->posted);
	(void)pthread_mutex_unlock(&s->lock);
}

struct store_op *
store_take(struct store *s)
{
	struct store_op *op;

	(void)pthread_mutex_lock(&s->lock);
	op = s->out;
	if (op) {
		s->out = op->next;
		if (!s->out)
			s->out_tail = &s->out;
		s->depth--;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return op;
}

uint32_t
store_depth(struct store *s)
{
	uint32_t n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->depth;
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

void
store_close(struct store *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->is_closing = true;
	(void)pthread_cond_signal(&s->posted);
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_join(s->thread, NULL);
	db_close(s->db);
	(void)pthread_mutex_destroy(&s->lock);
	(void)pthread_cond_destroy(&s->posted);
	free(s);
}
