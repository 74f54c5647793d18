/* schema/plan_file_int.h: what the files behind plan_file.h share: statements that stick at
 * their first failure, the facts of a plan, the sums.  For this folder alone. */
#ifndef KORCH_PLAN_FILE_INT_H
#define KORCH_PLAN_FILE_INT_H

#include "plan_file.h"

#include <sqlite3.h>

enum { PLAN_PART_BYTES = 8 << 20, PLAN_MAX_ROWS = 1 << 22, PLAN_MAX_TEXT = 256 << 20 };

/* Single facts of struct plan, a row of table meta each: X(kind, field). */
#define PLAN_FACTS(X)                                                                                        \
	X(STR, run_compat)                                                                                   \
	X(STR, environment)                                                                                  \
	X(STR, model_name)                                                                                   \
	X(STR, model_digest)                                                                                 \
	X(STR, version)                                                                                      \
	X(U32, n_threads)                                                                                    \
	X(U64, n_operators)                                                                                  \
	X(U64, n_primitives)                                                                                 \
	X(U64, n_candidates_total)                                                                           \
	X(U64, n_distinct)                                                                                   \
	X(I64, latency_ns)                                                                                   \
	X(I64, bound_ns)                                                                                     \
	X(REAL, tolerance)                                                                                   \
	X(BOOL, proved)                                                                                      \
	X(STR, fusion)                                                                                       \
	X(STR, limits)                                                                                       \
	X(SIZE, work_bytes)                                                                                  \
	X(STR, certificate)                                                                                  \
	X(STR, stop)                                                                                         \
	X(STR, what_if)                                                                                      \
	X(I64, what_if_base_ns)
/* Since format 5. */
#define PLAN_FACTS_5(X) X(STR, values)

/* 64 bits over everything that a plan is. */
uint64_t plan_sum(const struct plan *p, const struct plan_host *h);
/* The digest by what a plan is in memory: formats before 5. */
void plan_digest_before_5(const struct plan *p, struct hash *out);

/* The large parts of a plan, and what is signed of them and of the whole (plan_seal.c): SHA-256 of all that
 * is in memory of it, of a large part over the sums of its pieces as a file has them. */
enum plan_blob { PLAN_GRAPH, PLAN_SOURCE, PLAN_MODULE, PLAN_CONSTANTS, PLAN_BLOBS };
struct hash plan_blob_sum(struct bytes b);
struct hash plan_content(const struct plan *p, const struct hash blob[PLAN_BLOBS]);

/* One open file.  After the first failure every call does nothing and `rc` tells why. */
struct plan_db {
	sqlite3 *db;
	const char *path;
	int64_t version; /* of the format */
	int rc;
	bool bad;    /* reading: a value of the wrong kind or size */
	bool writes; /* pf_open_stranger: to change it */
	char why[256];
};

bool pf_is_well(const struct plan_db *f);
void pf_note(struct plan_db *f, int rc);
void pf_run_sql(struct plan_db *f, const char *sql);
sqlite3_stmt *pf_prepare(struct plan_db *f, const char *sql);
void pf_bind_int(struct plan_db *f, sqlite3_stmt *s, int at, int64_t v);
void pf_bind_str(struct plan_db *f, sqlite3_stmt *s, int at, struct str v);
void pf_bind_real(struct plan_db *f, sqlite3_stmt *s, int at, double v);
void pf_bind_bytes(struct plan_db *f, sqlite3_stmt *s, int at, const void *p, size_t n);
void pf_bind_shape(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *tmp, const struct shape *shape);
void pf_bind_words(
    struct plan_db *f, sqlite3_stmt *s, int at, struct arena *tmp, const void *v, uint32_t n, int size);
void pf_put_row(struct plan_db *f, sqlite3_stmt *s);
bool pf_next_row(struct plan_db *f, sqlite3_stmt *s);
void pf_damaged(struct plan_db *f, const char *what);
int64_t pf_get_int(struct plan_db *f, sqlite3_stmt *s, int at);
uint32_t pf_get_u32(struct plan_db *f, sqlite3_stmt *s, int at);
size_t pf_get_size(struct plan_db *f, sqlite3_stmt *s, int at);
bool pf_get_bool(struct plan_db *f, sqlite3_stmt *s, int at);
double pf_get_real(struct plan_db *f, sqlite3_stmt *s, int at);
struct str pf_get_str(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a);
struct bytes pf_get_bytes(struct plan_db *f, sqlite3_stmt *s, int at);
uint32_t *pf_get_u32s(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a, uint32_t *n);
enum dtype pf_get_dtype(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a);
struct shape pf_get_shape(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a);
/* plan_load.c: rows of a table whose ids must be 0, 1, 2, ...; row `want`, which must come next. */
uint32_t pf_count_rows(struct plan_db *f, const char *table);
bool pf_row_at(struct plan_db *f, sqlite3_stmt *s, uint32_t want);
/* All tables; the rows of all but `part` and `digest`, out and in. */
void pf_create_all(struct plan_db *f, struct arena *tmp);
void pf_save_rows(struct plan_db *f, struct arena *tmp, const struct plan *p, const struct plan_host *h);
void pf_load_rows(struct plan_db *f, struct arena *a, struct plan *p, struct plan_host *h);
bool pf_open_stranger(struct plan_db *f, struct err *e);
void pf_limit_steps(struct plan_db *f, int64_t *left); /* *left lives as long as the file is open */
/* plan_seal.c */
void pf_save_seal(struct plan_db *f, const struct plan_seal *s);
void pf_load_seal(struct plan_db *f, struct arena *a, struct plan_seal *s);
/* plan_table.c: the tables of plan_table.def. */
/* Bytes of a number in a column that is a list of them; 0: it is none. */
int pf_word_bytes(const char *table, const char *column);
void pf_create_tables(struct plan_db *f, struct arena *tmp);
void pf_save_tables(struct plan_db *f, struct arena *tmp, const struct plan *p);
void pf_load_tables(struct plan_db *f, struct arena *a, struct plan *p);

/* plan_walk.c: SHA-256 over the rows of all tables but host and digest, their names and statements. */
struct hash pf_walk(struct plan_db *f);

bool pf_file_error(const struct plan_db *f, bool is_reading, struct err *e);

#endif
