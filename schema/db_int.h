/* schema/db_int.h: the connection from inside; for this folder alone. */
#ifndef KORCH_DB_INT_H
#define KORCH_DB_INT_H

#include "store.h"

#include <sqlite3.h>

enum sql_id {
#define SQL(ID, TEXT) SQL_##ID,
#include "sql.def"
	SQL_COUNT
};
enum tally {
	TALLY_HIT,
	TALLY_MISS,
	TALLY_FAILED,
	TALLY_REUSE,
	TALLY_PUT,
	TALLY_POOLED,
	TALLY_REPEATED,
	TALLY_COUNT
};
const char *db_tally_name(enum tally t); /* as counters are kept and shown */
struct db {
	sqlite3 *sql;
	sqlite3_stmt *stmt[SQL_COUNT]; /* prepared at first use, kept */
	char *dir;
	const struct os *os;
	uint64_t blob_limit;
	bool (*trained_check)(struct bytes file, struct err *e); /* NULL: no file can be used */
	struct uploads *uploads;                                 /* upload.c */
	int lock_fd;                                             /* the same as long as it is open */
	struct sign_key signer;                                  /* what builds and plans are signed with */
	bool in_transaction;
	int64_t tally[TALLY_COUNT]; /* goes into the counters at commit */
};

/* A running statement.  Values are bound by letters: i int64_t, d double, t struct str,
 * b struct bytes, h const struct hash *.  After a fault every step is false and q_end tells. */
struct q {
	struct db *db;
	sqlite3_stmt *s;
	int rc;
};
struct q q_start(struct db *db, enum sql_id id, const char *letters, ...);
bool q_step(struct q *q);                          /* a row is there */
bool q_end(struct q *q, struct err *e) MUST_CHECK; /* resets; false on any fault */
bool q_run(struct db *db, struct err *e, enum sql_id id, const char *letters, ...) MUST_CHECK;
int64_t q_int(struct q *q, int column);
double q_real(struct q *q, int column);
struct str q_text(struct q *q, struct arena *a, int column); /* copied */
struct bytes q_blob(struct q *q, struct arena *a, int column);
struct hash q_hash(struct q *q, int column);          /* zero where it is no digest */
bool db_failed(struct db *db, int rc, struct err *e); /* sets ERR_FULL, ERR_IO or ERR_FORMAT */
bool db_count(struct db *db, const char *name, int64_t by, struct err *e) MUST_CHECK;
bool db_in_place(const struct db *db); /* of any thread */
int64_t db_wall(const struct db *db);
bool db_migrate(struct db *db, struct err *e) MUST_CHECK;
/* ---- meas.c ---- */
/* A schedule that was measured does not work after all: its row is that failure from now on.  Passed over:
 * what was never measured here. */
bool meas_refute(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_row *row,
    const struct meas_origin *from, struct err *e) MUST_CHECK;
/* ---- last_word.c ---- */
bool last_word_reserve(struct db *db, uint64_t job, struct err *e) MUST_CHECK;
bool last_word_find(
    const struct db *db, struct arena *a, struct m_job *job); /* fills in state, code, reason */
/* ---- upload.c ---- */
void uploads_open(struct db *db);
void uploads_tick(struct db *db); /* those that stand still end */
char *upload_path(struct arena *a, const struct db *db, const struct hash *digest, uint64_t owner);
/* ---- blob.c: files ---- */
/* Writes at that place of a file that is made where it is not there. */
bool file_append(const char *path, uint64_t offset, struct bytes data, struct err *e) MUST_CHECK;
/* A file or folder is on disk. */
bool sync_path(const char *path, struct err *e) MUST_CHECK;

/* The key of a row of `measurement`; is it one that the table's checks let in? */
struct hash meas_row_key(const struct hash *spec, const struct meas_key *k, struct str schedule);
bool meas_row_is_sane(const struct m_row *r, struct err *e) MUST_CHECK;
/* Fills in ->repeats. */
bool repeat_rows(struct db *db, struct arena *a, struct m_measurement *m, struct err *e) MUST_CHECK;
/* Standard error of the median of that many samples, from p90 - p10. */
double median_error(int64_t spread_ns, uint64_t samples);
/* Of a schedule with moves: what is known of them (perturbed.c). */
bool perturbed_apply(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *cost, struct err *e) MUST_CHECK;
/* What repeats make of a cost that was read from the row with that key. */
bool repeat_apply(struct db *db, const struct hash *key, struct m_cost *cost, struct err *e) MUST_CHECK;

/* ---- meas_table.c: the columns of proto/meas.def ---- */
enum meas_list { LIST_MEASUREMENT, LIST_KEY, LIST_REPEAT, LIST_COUNT };
/* A statement of sql.def with its lists of columns written out; in `a`. */
char *sql_expand(struct arena *a, const char *text);
/* Binds the columns of a list from parameter `first` on; gives the one behind the last. */
int q_bind_columns(struct q *q, enum meas_list list, int first, enum meas_form form, const void *record);
/* Reads what {measurement} lists, from column `first` on; gives the one behind.  What is not listed is zero.
 */
int q_measurement(struct q *q, struct arena *a, int first, struct m_measurement *m);
/* The same of {repeat}; has_key: behind {key}. */
int q_repeat(struct q *q, struct arena *a, bool has_key, int first, struct m_repeat *r);
/* Are spec, schedule and all else that identifies a measurement equal, but the environment? */
bool meas_same_key(const struct m_measurement *x, const struct m_measurement *y);
/* `old` becomes what stays of two measurements of one key. */
void meas_pool(struct m_measurement *old, const struct m_measurement *add);

/* One row of PREDICTOR_FIND and EXPORT_PREDICTOR. */
void q_predictor(struct q *q, struct arena *a, struct m_predictor *p);

/* ---- transfer.c */
/* An export's items as bytes from the heap; ERR_FORMAT, ERR_LIMIT. */
bool export_unpack(struct bytes in, struct bytes *plain, struct err *e) MUST_CHECK;
/* The next item; *plain moves behind it. */
bool export_item(struct bytes *plain, char *letter, struct bytes *item, struct err *e) MUST_CHECK;

#endif
