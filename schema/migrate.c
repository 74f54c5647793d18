/* schema/migrate.c: brings the database to this program's schema.  Each numbered file is one
 * transaction, so an interrupted migration leaves the old schema or the new one. */
#include "db_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const char *const migrations[]; /* made at build time; ends with NULL */

static bool
pragma_int(struct db *db, const char *sql, int64_t *out, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc == SQLITE_ROW)
		*out = sqlite3_column_int64(s, 0);
	(void)sqlite3_finalize(s);
	return rc == SQLITE_ROW || db_failed(db, rc, e);
}

/* Before a change of schema: a copy of the file as it was.  Made beside and renamed, so that what bears the
 * name is whole; one that is there (of an interrupted attempt, or of an earlier life of the folder) gives way
 * to it. */
static bool
keep_copy(struct db *db, int64_t version, struct err *e)
{
	char *to = sqlite3_mprintf("%s/korch.db.schema%lld", db->dir, (long long)version);
	char *part = sqlite3_mprintf("%s.part", to), *sql = sqlite3_mprintf("VACUUM INTO %Q", part);
	int rc = SQLITE_NOMEM;
	bool ok;

	if (part)
		(void)unlink(part);
	if (sql)
		rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
	ok = rc == SQLITE_OK ? sync_path(part, e) : db_failed(db, rc, e);
	if (ok && rename(part, to) != 0)
		ok = err_set(e, ERR_IO, "%s: cannot write: %s", to, strerror(errno));
	if (!ok && part)
		(void)unlink(part);
	sqlite3_free(sql);
	sqlite3_free(part);
	sqlite3_free(to);
	return ok || err_in(e, "keeping a copy of schema %lld", (long long)version);
}

static bool
step(struct db *db, int64_t version, struct err *e)
{
	char pragmas[128];
	int rc;

	(void)snprintf(pragmas, sizeof(pragmas), "PRAGMA user_version=%lld; PRAGMA application_id=%d;",
	    (long long)version + 1, (int)STORE_APPLICATION_ID);
	if (!db_begin(db, e))
		return false;
	rc = sqlite3_exec(db->sql, migrations[version], NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db->sql, pragmas, NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		(void)db_failed(db, rc, e);
		db_rollback(db);
		return err_in(e, "bringing the schema to version %lld", (long long)version + 1);
	}
	return db_commit(db, e);
}

bool
db_migrate(struct db *db, struct err *e)
{
	int64_t version = 0, application = 0, n_tables = 0;

	if (!pragma_int(db, "PRAGMA user_version", &version, e) ||
	    !pragma_int(db, "PRAGMA application_id", &application, e) ||
	    !pragma_int(db, "SELECT count(*) FROM sqlite_schema", &n_tables, e))
		return false;
	if (n_tables && application != STORE_APPLICATION_ID)
		return err_set(e, ERR_FORMAT,
		    "%s/korch.db: is a database, but not Korch's; name another folder with --data", db->dir);
	if (version > STORE_SCHEMA)
		return err_set(e, ERR_NEWER,
		    "%s/korch.db: has schema %lld and this program knows %d; use the newer Korch "
		    "that made it",
		    db->dir, (long long)version, (int)STORE_SCHEMA);
	if (version > 0 && version < STORE_SCHEMA && !keep_copy(db, version, e))
		return false;
	for (; version < STORE_SCHEMA; version++)
		if (!step(db, version, e))
			return false;
	return true;
}
