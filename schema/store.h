/* schema/store.h: what is kept for good: environments, specs, measurements, blobs, jobs.
 * The only code that speaks SQL.  One connection writes and checkpoints (SQLite before 3.51.3
 * can corrupt a WAL otherwise), on one thread, in groups; an answer comes after the commit. */
#ifndef KORCH_STORE_H
#define KORCH_STORE_H

#include "../kernels/base/sign.h"
#include "../kernels/base/sign_key.h"
#include "../proto/meas.h"

struct db;
enum { STORE_SCHEMA = 15, STORE_APPLICATION_ID = 0x4b6f7263 }; /* "Korc" */
struct store_conf {
	const char *dir;                  /* the data folder; made when absent */
	const struct os *os;              /* clock */
	uint64_t blob_limit;              /* bytes of files that may be here; 0: no limit */
	long (*fs_type)(const char *dir); /* statfs f_type; NULL: the real one */
	bool (*trained_check)(struct bytes file, struct err *e); /* can it be used?  NULL: none is imported */
};

/* ---- the connection: for the store's thread, and for tests ---- */
/* Takes the folder's lock (ERR_USAGE naming its holder when another has it), migrates.
 * ERR_NEWER, ERR_FORMAT, ERR_IO, ERR_FULL. */
bool db_open(struct db **out, const struct store_conf *conf, struct err *e) MUST_CHECK;
void db_close(struct db *db);
bool db_begin(struct db *db, struct err *e) MUST_CHECK;
bool db_commit(struct db *db, struct err *e) MUST_CHECK;
void db_rollback(struct db *db);
/* A piece of a transaction that fails alone: what it wrote is undone, what came before it stays. */
bool db_try(struct db *db, bool (*run)(struct db *db, void *self, struct err *e), void *self,
    struct err *e) MUST_CHECK;
/* SQLite's own check and ours; problems as lines of text, "" when all is well. */
bool db_verify(struct db *db, struct arena *a, struct str *problems, struct err *e) MUST_CHECK;
/* Counts how often the data folder was opened: no two lives of a daemon share a number. */
uint64_t db_boot(struct db *db);

/* ---- environments and specs ---- */
/* env->hash is of env->key and is computed here; *id for the functions below.  Of a key that is known the
 * rest stays as it was first said, unless the device is this host's own (is_own: it was calibrated anew). */
bool env_put(struct db *db, const struct m_env *env, bool is_own, int64_t *id, struct err *e) MUST_CHECK;
/* Of a class that fits the pattern, the one seen last; false with ERR_OFFLINE when there is none. */
bool env_of_class(struct db *db, struct arena *a, struct str class, int64_t *id, struct m_env *env,
    struct err *e) MUST_CHECK;
bool env_get(struct db *db, struct arena *a, int64_t id, struct m_env *env, struct err *e) MUST_CHECK;
/* A digest that meets another text is refused: ERR_FORMAT. */
bool spec_put(
    struct db *db, struct str text, const struct hash *model, struct hash *hash, struct err *e) MUST_CHECK;
/* false with ERR_FAILED when it is not known. */
bool spec_text(
    struct db *db, struct arena *a, const struct hash *hash, struct str *text, struct err *e) MUST_CHECK;

/* ---- measurements ---- */
/* All that decides a result but spec and schedule. */
struct meas_key {
	int64_t env; /* of env_put */
	struct hash env_hash;
	uint64_t threads, epoch;
	struct str precision, heat; /* of operands and results (kernels/base/heat.h); "": all cold */
	bool any_heat; /* finding: where nothing is known of that heat, what is known of all cold will do */
};
/* Where it comes from: the columns FROM of proto/meas.def.  wall_ns: 0 is now. */
struct meas_origin {
#define FROM(KIND, N, ...) MEAS_FIELD_##KIND N;
#include "../proto/meas.def"
};
/* Is a failure of this class a fault of the kernel (kept) or of the machine (never kept)? */
bool fail_is_kept(uint64_t wire);
/* Rows of machine faults are passed over.  The same key again: samples are pooled. */
bool meas_put(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_row *rows,
    uint32_t n, const struct meas_origin *from, struct err *e) MUST_CHECK;
/* One schedule timed again in a session; the first row for (schedule, session) stays.  Passed over: what
 * was never measured here, faults of the machine. */
bool repeat_put(struct db *db, const struct hash *spec, const struct meas_key *k, const struct hash *session,
    const struct m_row *row, const struct meas_origin *from, struct err *e) MUST_CHECK;
/* The time by which a schedule was first measured; 0: it was not, or failed. */
bool meas_first(struct db *db, const struct hash *spec, const struct meas_key *k, struct str schedule,
    int64_t *ns, struct err *e) MUST_CHECK;
/* The row of a schedule, where there is one. */
bool meas_row(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct str schedule, struct m_row *out, bool *known, struct err *e) MUST_CHECK;
/* How many rows a session left; 0: it never came to an end. */
bool repeat_session(struct db *db, const struct hash *session, uint32_t *n, struct err *e) MUST_CHECK;
/* Says that `effort` was spent; fail != 0: no schedule can do better. */
bool attempt_put(struct db *db, const struct hash *spec, const struct meas_key *k, uint64_t effort,
    uint64_t fail, struct str cause, struct err *e) MUST_CHECK;
/* The best row by its first measurement, at the median of its repeats where it has some, or the failure, or a
 * cost of zeros.  The text is compared, not only the hash. Counts hits and misses; a hit whose spec came with
 * another model counts as reuse. */
bool meas_find(struct db *db, struct arena *a, struct str text, const struct meas_key *k,
    const struct hash *model, struct m_cost *out, struct err *e) MUST_CHECK;
/* Of kernels of that structure, whatever their extents, the best row of each and what else was tried, the
 * newest first, `most` at the most. In a. */
bool meas_siblings(struct db *db, struct arena *a, const struct hash *structure, const struct meas_key *k,
    uint32_t most, struct m_sibling **out, uint32_t *n, struct err *e) MUST_CHECK;
/* The same as meas_find for a spec known by its digest, without counting. */
bool meas_best(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_cost *out, struct err *e) MUST_CHECK;
/* Schedules that have a row already, but those with moves of instructions: no space lists them. */
bool meas_known(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct m_kv **out, uint32_t *n, struct err *e) MUST_CHECK;

/* ---- what counts, and what does not ---- */
/* A secret of this data folder, by name; made at the first call. */
bool secret_get(struct db *db, const char *name, uint8_t out[SECRET_BYTES], struct err *e) MUST_CHECK;
/* The result of a lease has come: its generation serves no more, in no life of the daemon. */
bool grant_spend(struct db *db, uint64_t gen, struct err *e) MUST_CHECK;
bool grant_is_spent(struct db *db, uint64_t gen, bool *out, struct err *e) MUST_CHECK;
/* The least that a spec can take; a bound of zeros is none, and none is got where none was put. */
bool bound_put(struct db *db, const struct hash *spec, const struct meas_key *k, const struct m_bound *b,
    struct err *e) MUST_CHECK;
bool bound_get(struct db *db, const struct hash *spec, const struct meas_key *k, struct m_bound *out,
    struct err *e) MUST_CHECK;
/* A result that is not believed: worker, class, why and outcome of `ev` are kept, the outcome cut. */
bool evidence_put(struct db *db, const struct m_evidence *ev, struct err *e) MUST_CHECK;
/* Newest first, from before that id on (0: all). */
bool evidence_list(struct db *db, struct arena *a, uint64_t before, uint32_t max, struct m_evidence **out,
    uint32_t *n, bool *more, struct err *e) MUST_CHECK;

/* ---- the cache as a whole ---- */
bool cache_stats(struct db *db, struct arena *a, struct m_count **out, uint32_t *n, struct err *e) MUST_CHECK;
/* Rows in the order of (spec, key), behind spec `after`; whole specs only. */
bool cache_list(struct db *db, struct arena *a, const struct hash *after, struct str class, uint32_t max,
    struct m_measurement **out, uint32_t *n, bool *more, struct err *e) MUST_CHECK;
/* All rows of the specs whose hash starts so, with the spec's text and their repeats. */
bool cache_show(struct db *db, struct arena *a, struct bytes prefix, struct m_measurement **out, uint32_t *n,
    struct err *e) MUST_CHECK;
/* The first bytes of an export; its items are export.def's. */
#define CACHE_EXPORT_MAGIC "KORCH CACHE 1\n"
/* The same content gives the same bytes. */
bool cache_export(
    struct db *db, struct arena *a, struct str class, struct bytes *out, struct err *e) MUST_CHECK;
/* Hostile bytes; all or nothing, but for a predictor that is of no use.  report: what came in, as JSON. */
bool cache_import(struct db *db, struct arena *a, struct bytes in, bool dry_run, struct str *report,
    struct err *e) MUST_CHECK;
/* What korch-cache gc drops: ended jobs not younger than that, with files that were unused for as long;
 * measurements only where they are asked for, with all that stands on them. */
struct gc_ask {
	int64_t older_ns;
	bool measurements, is_dry; /* dry: says what would go, and changes nothing */
};
struct gc_done {
	uint64_t files, bytes, jobs;
	uint64_t measurements; /* of that age: gone where they were asked for */
};
bool cache_gc(struct db *db, const struct gc_ask *ask, struct gc_done *out, struct err *e) MUST_CHECK;

/* Drops files, longest unused first, until all that are here and `more` bytes are within the folder's limit,
 * or none is left that may go; *all: the bytes that are here now.  Ends uploads that stand still.  Cheap
 * where there is nothing to do. */
bool store_make_room(struct db *db, uint64_t more, uint64_t *all, struct err *e) MUST_CHECK;
/* What nobody will ask for again: requests and trial plans after an hour, plans and models of jobs
 * that ended a week ago, anything else unused for 90 days; files without a row.  Then, while the rest is
 * larger than the limit, the files that were unused for longest; measurements are never dropped. */
bool store_tidy(struct db *db, uint64_t *dropped, struct err *e) MUST_CHECK;

/* ---- blobs ---- */
/* <dir>/blobs/ab/abcd...; the file need not be there. */
char *blob_path(struct arena *a, const struct db *db, const struct hash *digest);
bool blob_size(struct db *db, const struct hash *digest, uint64_t *bytes); /* false: not here */
/* Takes over a file that lies in the data folder (renamed, synced); checks its digest. */
bool blob_adopt(
    struct db *db, const char *path, const struct hash *digest, const char *kind, struct err *e) MUST_CHECK;
/* The same for a file whose digest nobody has announced. */
bool blob_take(struct db *db, const char *path, const char *kind, struct hash *digest, uint64_t *bytes,
    struct err *e) MUST_CHECK;
/* It is wanted once more: false, with ERR_FAILED, when it is not here. */
bool blob_use(struct db *db, const struct hash *digest, uint64_t *bytes, struct err *e) MUST_CHECK;
bool blob_read(struct db *db, struct arena *a, const struct hash *digest, uint64_t offset, size_t max,
    struct bytes *out, uint64_t *total, struct err *e) MUST_CHECK;
/* A piece of a file that somebody sends. */
struct blob_piece {
	struct hash digest;
	uint64_t total, offset;
	struct bytes data;
	const char *kind;
	uint64_t owner; /* who sends it: uploads of several are apart; not 0 */
	bool is_worker; /* may go a little beyond the folder's limit */
};
/* Takes it where it is the next one of its upload; *next tells which that is.  Repeats do no harm.
 * Complete: checked and adopted; a wrong digest ends the upload with ERR_FORMAT.  ERR_LIMIT, ERR_FULL: beyond
 * the uploader's quota, or the folder's limit. */
bool blob_chunk(struct db *db, const struct blob_piece *p, uint64_t *next, struct err *e) MUST_CHECK;
bool blob_put(
    struct db *db, struct bytes data, const char *kind, struct hash *digest, struct err *e) MUST_CHECK;
bool file_digest(const char *path, struct hash *digest, uint64_t *bytes, struct err *e) MUST_CHECK;

/* Timings of the plans that a key stands for, in their order; *n is 0 where there are none. */
bool plan_time_find(struct db *db, struct arena *a, const struct hash *key, struct m_timing **out,
    uint32_t *n, struct err *e) MUST_CHECK;
bool plan_time_put(
    struct db *db, const struct hash *key, const struct m_timing *t, uint32_t n, struct err *e) MUST_CHECK;

/* ---- jobs ---- */
/* A new job, or the one that this request made before (*is_new). */
bool job_add(struct db *db, struct bytes request, const struct m_job *job, const struct m_file *files,
    uint32_t n_files, uint64_t *id, bool *is_new, struct err *e) MUST_CHECK;
bool job_save(struct db *db, const struct m_job *job, struct err *e) MUST_CHECK;
/* For a job whose end could not be saved: where there is no room for its row, there is for this. */
bool last_word_put(struct db *db, const struct m_job *job, struct err *e) MUST_CHECK;
/* Its row is saved: the word is not needed any more.  dir: the data folder. */
void last_word_drop(const char *dir, uint64_t job);
/* Those of jobs that are not among the open ones. */
void last_words_sweep(const struct db *db, const struct m_job *open, uint32_t n);
/* Newest first; unfinished ones only, or all.  An unfinished one whose end could not be saved has that as its
 * state.  One whose record cannot be read is what its row says beside it, without options, and why is its
 * reason. */
bool job_list(struct db *db, struct arena *a, bool all, uint32_t max, struct m_job **out, uint32_t *n,
    struct err *e) MUST_CHECK;
bool job_is_unread(const struct m_job *job); /* such a one */
/* false with ERR_USAGE when there is none, ERR_FORMAT where its record cannot be read. */
bool job_get(struct db *db, struct arena *a, uint64_t id, struct m_job *out, struct err *e) MUST_CHECK;
bool job_files(
    struct db *db, struct arena *a, uint64_t id, struct m_file **out, uint32_t *n, struct err *e) MUST_CHECK;

/* ---- the store's thread ---- */
struct store;
/* run() on the store's thread inside a transaction, done() on the loop's after the commit.
 * ok is false where run returned false or the commit failed; then err says why.  `arena` is the
 * op's: free it in done (or store_op_free). */
struct store_op {
	struct store_op *next;
	struct arena arena;
	bool (*run)(struct db *db, struct store_op *op);
	void (*done)(struct store_op *op);
	void *owner;
	struct err err;
	bool ok;
};
struct store_wake {
	void (*wake)(void *self);
	void *self;
};
bool store_open(
    struct store **out, const struct store_conf *conf, struct store_wake wake, struct err *e) MUST_CHECK;
uint64_t store_boot(const struct store *s);
/* false: the folder was removed, moved or replaced, and what is written now is lost. */
bool store_in_place(const struct store *s);
const struct sign_pub *store_signer(const struct store *s); /* what plans of this folder are signed by */
const uint8_t *store_secret(const struct store *s);         /* SECRET_BYTES, behind tickets */
void store_post(struct store *s, struct store_op *op);
/* The next finished op; NULL: none.  The caller calls its done(). */
struct store_op *store_take(struct store *s);
/* Ends what was posted, commits, closes.  No wake after it. */
void store_close(struct store *s);
/* Ops posted and not yet taken. */
uint32_t store_depth(struct store *s);

#endif
