/* schema/db.c: opens the data folder and its database, runs statements.
 *
 * The folder has one owner: a lock on <dir>/lock, held for the life of the connection.  The
 * database is in WAL mode with synchronous=FULL; network file systems are refused, because
 * locks and shared memory do not hold there. */
#include "../kernels/ir/ir.h"
#include "db_int.h"

#include "../kernels/base/class.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 25 };

static const char *const sql_text[SQL_COUNT] = {
#define SQL(ID, TEXT) [SQL_##ID] = TEXT,
#include "sql.def"
};

static long
real_fs_type(const char *dir)
{
	struct statfs st;

	return statfs(dir, &st) == 0 ? (long)st.f_type : 0;
}

static bool
refuse_network(const struct store_conf *conf, struct err *e)
{
	const char *name = os_network_fs((conf->fs_type ? conf->fs_type : real_fs_type)(conf->dir));

	return !name ||
	    err_set(e, ERR_USAGE,
		"%s: is on a network file system (%s), where a database is not safe; "
		"name a folder of this host with --data",
		conf->dir, name);
}

/* A client looks for an owner by a shared lock of a moment: that is none. */
static bool
lock_alone(int fd)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		(void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	return false;
}

static bool
take_lock(struct db *db, struct err *e)
{
	char path[4096], holder[64] = "";
	ssize_t n;
	int len = snprintf(path, sizeof(path), "%s/lock", db->dir);

	if (len < 0 || (size_t)len >= sizeof(path))
		return err_set(e, ERR_USAGE, "%s: the path is too long", db->dir);
	db->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (db->lock_fd < 0)
		return err_set(
		    e, errno == ENOSPC ? ERR_FULL : ERR_IO, "%s: cannot write: %s", path, strerror(errno));
	if (!lock_alone(db->lock_fd)) {
		n = read(db->lock_fd, holder, sizeof(holder) - 1);
		holder[n > 0 ? n : 0] = '\0';
		return err_set(e, ERR_USAGE, "%s: another korchd (process %.*s) owns this data folder",
		    db->dir, (int)strcspn(holder, "\n"), holder);
	}
	len = snprintf(holder, sizeof(holder), "%ld\n", (long)getpid());
	if (ftruncate(db->lock_fd, 0) != 0 || pwrite(db->lock_fd, holder, (size_t)len, 0) != len)
		return err_set(
		    e, errno == ENOSPC ? ERR_FULL : ERR_IO, "%s: cannot write: %s", path, strerror(errno));
	return true;
}

bool
db_in_place(const struct db *db)
{
	char path[4096];
	struct stat ours, there;

	(void)snprintf(path, sizeof(path), "%s/lock", db->dir);
	if (fstat(db->lock_fd, &ours) != 0)
		return true;
	if (stat(path, &there) != 0)
		return errno != ENOENT && errno != ENOTDIR;
	return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* What the tables' own checks refuse is the fault of who sent it: sent again it is refused again. */
static enum err_code
class_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return ERR_FULL;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return ERR_FORMAT;
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
		return ERR_PROTO;
	default:
		return ERR_IO;
	}
}

bool
db_failed(struct db *db, int rc, struct err *e)
{
	enum err_code code = class_of(rc);

	return err_set(e, code, "%s/korch.db: %s%s", db->dir,
	    db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc),
	    code == ERR_FULL         ? "; make room, then repeat"
		: code == ERR_FORMAT ? "; move the file away and import an export of it"
		: code == ERR_PROTO  ? ": the store takes no such row"
				     : "");
}

/* SQL: class_fits(pattern, class), as kernels/base/class.h has it. */
static void
sql_class_fits(sqlite3_context *to, int n, sqlite3_value **v)
{
	struct str s[2];

	for (int i = 0; i < n && i < 2; i++) {
		s[i].p = (const char *)sqlite3_value_text(v[i]);
		s[i].n = s[i].p ? (size_t)sqlite3_value_bytes(v[i]) : 0;
	}
	sqlite3_result_int(to, s[0].p && s[1].p && class_fits(s[0], s[1]));
}

/* SQL: spec_structure(text), a spec's structure hash; zeros for what is no spec to this program. */
static void
sql_spec_structure(sqlite3_context *to, int n, sqlite3_value **v)
{
	struct arena tmp = {0};
	struct spec s = {0};
	struct err e = {0};
	struct str text = {(const char *)sqlite3_value_text(v[0]), 0};

	(void)n;
	if (text.p)
		text.n = (size_t)sqlite3_value_bytes(v[0]);
	if (!text.p || !spec_read(&tmp, text, &s, &e))
		s.structure = (struct hash){{0}};
	sqlite3_result_blob(to, s.structure.b, sizeof(s.structure.b), SQLITE_TRANSIENT);
	arena_fini(&tmp);
}

static bool
open_sql(struct db *db, struct err *e)
{
	static const char setup[] =
	    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA mmap_size=0;"
	    "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA wal_autocheckpoint=2000;";
	char path[4096];
	int rc, len = snprintf(path, sizeof(path), "%s/korch.db", db->dir);

	if (len < 0 || (size_t)len >= sizeof(path))
		return err_set(e, ERR_USAGE, "%s: the path is too long", db->dir);
	rc = sqlite3_open_v2(
	    path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return db_failed(db, rc, e);
	(void)sqlite3_busy_timeout(db->sql, 5000);
	(void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
	rc = sqlite3_create_function(db->sql, "class_fits", 2,
	    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL, sql_class_fits, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function(db->sql, "spec_structure", 1,
		    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL, sql_spec_structure, NULL,
		    NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db->sql, setup, NULL, NULL, NULL);
	return rc == SQLITE_OK || db_failed(db, rc, e);
}

static bool
make_dirs(const char *dir, struct err *e)
{
	static const char *const sub[] = {"", "/blobs", "/tmp", "/jobs"};
	char path[4096];

	for (size_t i = 0; i < COUNT_OF(sub); i++) {
		int n = snprintf(path, sizeof(path), "%s%s", dir, sub[i]);

		if (n < 0 || (size_t)n >= sizeof(path))
			return err_set(e, ERR_USAGE, "%s: the path is too long", dir);
		if (!os_make_dirs(path, e))
			return false;
	}
	return true;
}

bool
db_open(struct db **out, const struct store_conf *conf, struct err *e)
{
	struct db *db = heap_alloc(sizeof(*db));

	db->lock_fd = -1;
	db->dir = strdup(conf->dir);
	db->os = conf->os ? conf->os : os_real();
	db->blob_limit = conf->blob_limit;
	db->trained_check = conf->trained_check;
	if (!db->dir)
		bug("out of memory");
	if (!make_dirs(conf->dir, e) || !refuse_network(conf, e) || !take_lock(db, e) ||
	    !sign_key_open(conf->dir, &db->signer, e) || !open_sql(db, e) || !db_migrate(db, e) ||
	    !db_begin(db, e) || !q_run(db, e, SQL_BOOT_BUMP, "") || !db_commit(db, e)) {
		db_close(db);
		return false;
	}
	uploads_open(db);
	*out = db;
	return true;
}

void
db_close(struct db *db)
{
	if (!db)
		return;
	for (int i = 0; i < SQL_COUNT; i++)
		(void)sqlite3_finalize(db->stmt[i]);
	if (db->sql)
		(void)sqlite3_close(db->sql);
	if (db->lock_fd >= 0)
		(void)close(db->lock_fd);
	free(db->uploads);
	free(db->dir);
	free(db);
}

uint64_t
db_boot(struct db *db)
{
	struct q q = q_start(db, SQL_META_GET, "t", STR("boot"));
	uint64_t n = q_step(&q) ? (uint64_t)q_int(&q, 0) : 0;
	struct err e = {0};

	return q_end(&q, &e) ? n : 0;
}

int64_t
db_wall(const struct db *db)
{
	return db->os->wall_ns(db->os->self);
}

bool
db_begin(struct db *db, struct err *e)
{
	int rc = sqlite3_exec(db->sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	db->in_transaction = rc == SQLITE_OK;
	return rc == SQLITE_OK || db_failed(db, rc, e);
}

const char *
db_tally_name(enum tally t)
{
	static const char *const name[TALLY_COUNT] = {
	    [TALLY_HIT] = "hit",
	    [TALLY_MISS] = "miss",
	    [TALLY_FAILED] = "hit_failed",
	    [TALLY_REUSE] = "reuse_across_models",
	    [TALLY_PUT] = "stored",
	    [TALLY_POOLED] = "pooled",
	    [TALLY_REPEATED] = "repeated",
	};

	return name[t];
}

static bool
flush_tally(struct db *db, struct err *e)
{
	for (int i = 0; i < TALLY_COUNT; i++)
		if (db->tally[i] && !db_count(db, db_tally_name((enum tally)i), db->tally[i], e))
			return false;
	return true;
}

bool
db_commit(struct db *db, struct err *e)
{
	int rc;

	if (!flush_tally(db, e)) {
		db_rollback(db);
		return false;
	}
	rc = sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		memset(db->tally, 0, sizeof(db->tally));
	if (rc != SQLITE_OK) {
		(void)db_failed(db, rc, e);
		db_rollback(db);
		return false;
	}
	db->in_transaction = false;
	return true;
}

void
db_rollback(struct db *db)
{
	if (!sqlite3_get_autocommit(db->sql))
		(void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
	memset(db->tally, 0, sizeof(db->tally));
	db->in_transaction = false;
}

bool
db_try(struct db *db, bool (*run)(struct db *db, void *self, struct err *e), void *self, struct err *e)
{
	int64_t tally[TALLY_COUNT];
	int rc = sqlite3_exec(db->sql, "SAVEPOINT piece", NULL, NULL, NULL);
	bool ok;

	if (rc != SQLITE_OK)
		return db_failed(db, rc, e);
	memcpy(tally, db->tally, sizeof(tally));
	ok = run(db, self, e);
	if (!ok) {
		memcpy(db->tally, tally, sizeof(tally));
		(void)sqlite3_exec(db->sql, "ROLLBACK TO piece", NULL, NULL, NULL);
	}
	rc = sqlite3_exec(db->sql, "RELEASE piece", NULL, NULL, NULL);
	return ok && (rc == SQLITE_OK || db_failed(db, rc, e));
}

/* ---- statements --------------------------------------------------------------------- */
static int
bind_one(sqlite3_stmt *s, int at, char letter, va_list *ap)
{
	struct str t;
	struct bytes b;
	const struct hash *h;

	switch (letter) {
	case 'i':
		return sqlite3_bind_int64(s, at, va_arg(*ap, int64_t));
	case 'd':
		return sqlite3_bind_double(s, at, va_arg(*ap, double));
	case 't':
		t = va_arg(*ap, struct str);
		return sqlite3_bind_text64(s, at, t.n ? t.p : "", t.n, SQLITE_TRANSIENT, SQLITE_UTF8);
	case 'b':
		b = va_arg(*ap, struct bytes);
		return sqlite3_bind_blob64(s, at, b.n ? (const void *)b.p : "", b.n, SQLITE_TRANSIENT);
	case 'h':
		h = va_arg(*ap, const struct hash *);
		return sqlite3_bind_blob(s, at, h->b, sizeof(h->b), SQLITE_TRANSIENT);
	default:
		bug("letter '%c'", letter);
	}
}

static struct q
q_vstart(struct db *db, enum sql_id id, const char *letters, va_list *ap)
{
	struct q q = {.db = db, .rc = SQLITE_OK};

	if (!db->stmt[id]) {
		struct arena tmp = {0};

		q.rc = sqlite3_prepare_v3(db->sql, sql_expand(&tmp, sql_text[id]), -1,
		    SQLITE_PREPARE_PERSISTENT, &db->stmt[id], NULL);
		arena_fini(&tmp);
	}
	q.s = db->stmt[id];
	for (int i = 0; letters[i] && q.rc == SQLITE_OK; i++)
		q.rc = bind_one(q.s, i + 1, letters[i], ap);
	return q;
}

struct q
q_start(struct db *db, enum sql_id id, const char *letters, ...)
{
	struct q q;
	va_list ap;

	va_start(ap, letters);
	q = q_vstart(db, id, letters, &ap);
	va_end(ap);
	return q;
}

bool
q_step(struct q *q)
{
	if (q->rc != SQLITE_OK && q->rc != SQLITE_ROW)
		return false;
	q->rc = sqlite3_step(q->s);
	return q->rc == SQLITE_ROW;
}

bool
q_end(struct q *q, struct err *e)
{
	bool ok = q->rc == SQLITE_OK || q->rc == SQLITE_ROW || q->rc == SQLITE_DONE;

	if (!ok)
		(void)db_failed(q->db, q->rc, e);
	if (q->s) {
		(void)sqlite3_reset(q->s);
		(void)sqlite3_clear_bindings(q->s);
	}
	return ok;
}

bool
q_run(struct db *db, struct err *e, enum sql_id id, const char *letters, ...)
{
	struct q q;
	va_list ap;

	va_start(ap, letters);
	q = q_vstart(db, id, letters, &ap);
	va_end(ap);
	while (q_step(&q))
		;
	return q_end(&q, e);
}

int64_t
q_int(struct q *q, int column)
{
	return sqlite3_column_int64(q->s, column);
}

double
q_real(struct q *q, int column)
{
	return sqlite3_column_double(q->s, column);
}

struct str
q_text(struct q *q, struct arena *a, int column)
{
	const char *p = (const char *)sqlite3_column_text(q->s, column);
	size_t n = (size_t)sqlite3_column_bytes(q->s, column);

	return (struct str){str_dup(a, (struct str){p, p ? n : 0}), p ? n : 0};
}

struct bytes
q_blob(struct q *q, struct arena *a, int column)
{
	const void *p = sqlite3_column_blob(q->s, column);
	size_t n = (size_t)sqlite3_column_bytes(q->s, column);

	return (struct bytes){arena_dup(a, p, p ? n : 0), p ? n : 0};
}

struct hash
q_hash(struct q *q, int column)
{
	struct hash h = {{0}};
	const void *p = sqlite3_column_blob(q->s, column);

	if (p && sqlite3_column_bytes(q->s, column) == (int)sizeof(h.b))
		memcpy(h.b, p, sizeof(h.b));
	return h;
}

bool
db_count(struct db *db, const char *name, int64_t by, struct err *e)
{
	return q_run(db, e, SQL_COUNT_ADD, "ti", str_of(name), by);
}
