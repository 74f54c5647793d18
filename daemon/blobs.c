/* daemon/blobs.c: blobs and the cache as a whole: each request is one op of the store. */
#include "daemon.h"

#include "../kernels/base/epoch.h"
#include "../schema/predictor.h"

#include <stdlib.h>

/* ---- blobs -------------------------------------------------------------------------- */
static bool
run_put(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	const struct m_blob_put *p = &a->r->m.blob_put;
	struct blob_piece piece = {.digest = p->digest,
	    .total = p->total,
	    .offset = p->offset,
	    .data = p->data,
	    .kind = str_dup(&op->arena, p->kind),
	    .owner = a->r->session_id,
	    .is_worker = a->r->is_worker};

	a->m = (struct msg){.type = MSG_blob_at};
	a->m.blob_at.total = p->total;
	return blob_chunk(db, &piece, &a->m.blob_at.next, &op->err);
}

void
serve_blob_put(struct daemon *d, struct request *r)
{
	r->is_worker = r->session->role == AUTH_WORKER;
	ask_store(d, r, run_put);
}

static bool
run_get(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	const struct m_blob_get *g = &a->r->m.blob_get;

	a->m = (struct msg){.type = MSG_blob_data};
	a->m.blob_data.offset = g->offset;
	return blob_read(db, &op->arena, &g->digest, g->offset, BLOB_CHUNK, &a->m.blob_data.data,
	    &a->m.blob_data.total, &op->err);
}

void
serve_blob_get(struct daemon *d, struct request *r)
{
	ask_store(d, r, run_get);
}

/* ---- the cache ---------------------------------------------------------------------- */
static bool
run_stats(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;

	a->m = (struct msg){.type = MSG_counts};
	return cache_stats(db, &op->arena, &a->m.counts.counts, &a->m.counts.n_counts, &op->err) &&
	    predictor_list(
		db, &op->arena, SAMPLES_EPOCH, &a->m.counts.predictors, &a->m.counts.n_predictors, &op->err);
}

/* An answer has room for one message: rows are left off until it fits. */
static void
fit_rows(struct ask_op *a)
{
	struct m_measurements *m = &a->m.measurements;
	size_t sum = 0;

	for (uint32_t i = 0; i < m->n_rows; i++) {
		const struct m_measurement *row = &m->rows[i];

		sum += 600 + row->text.n + row->env.n + row->row.schedule.n + row->row.cause.n;
		for (uint32_t r = 0; r < row->n_repeats; r++)
			sum += 250 + row->repeats[r].worker.n;
		if (sum > MSG_MAX_BYTES / 4 * 3) {
			/* whole specs only, so that `after` can go on behind them */
			uint32_t n = i;

			while (n > 0 && hash_eq(&m->rows[n - 1].spec, &row->spec))
				n--;
			m->n_rows = n ? n : i;
			m->more = true;
			return;
		}
	}
}

static bool
run_list(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	const struct m_cache_list *l = &a->r->m.cache_list;
	struct m_measurements *m = &a->m.measurements;

	a->m = (struct msg){.type = MSG_measurements};
	if (!cache_list(db, &op->arena, &l->after, l->class,
		(uint32_t)MIN_OF(MAX_OF(l->max, (uint64_t)1), (uint64_t)512), &m->rows, &m->n_rows, &m->more,
		&op->err))
		return false;
	fit_rows(a);
	return true;
}

static bool
run_show(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;

	a->m = (struct msg){.type = MSG_measurements};
	if (!cache_show(db, &op->arena, a->r->m.cache_show.prefix, &a->m.measurements.rows,
		&a->m.measurements.n_rows, &op->err))
		return false;
	fit_rows(a);
	return true;
}

static bool
run_export(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct bytes out;

	a->m = (struct msg){.type = MSG_blob_made};
	if (!cache_export(db, &op->arena, a->r->m.cache_export.class, &out, &op->err))
		return false;
	a->m.blob_made.bytes = out.n;
	return blob_put(db, out, "export", &a->m.blob_made.digest, &op->err);
}

static bool
run_import(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct bytes in;
	uint64_t total;

	a->m = (struct msg){.type = MSG_ok};
	return blob_read(
		   db, &op->arena, &a->r->m.cache_import.digest, 0, (size_t)1 << 29, &in, &total, &op->err) &&
	    (total == in.n || err_set(&op->err, ERR_LIMIT, "the export is larger than 512 MiB")) &&
	    cache_import(db, &op->arena, in, a->r->m.cache_import.dry_run, &a->m.ok.text, &op->err);
}

static bool
run_gc(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	const struct m_cache_gc *m = &a->r->m.cache_gc;
	struct gc_ask ask = {.older_ns = m->older_ns, .measurements = m->measurements, .is_dry = m->dry_run};
	struct m_count *out = NEW_ARRAY(&op->arena, struct m_count, 4);
	struct gc_done done;

	if (m->older_ns < 0)
		return err_set(&op->err, ERR_USAGE, "an age is not negative");
	if (!cache_gc(db, &ask, &done, &op->err))
		return false;
	out[0] = (struct m_count){.name = STR("files"), .value = done.files};
	out[1] = (struct m_count){.name = STR("bytes"), .value = done.bytes};
	out[2] = (struct m_count){.name = STR("jobs"), .value = done.jobs};
	out[3] = (struct m_count){.name = STR("measurements"), .value = done.measurements};
	a->m = (struct msg){.type = MSG_counts};
	a->m.counts = (struct m_counts){.counts = out, .n_counts = 4};
	return true;
}

static bool
run_verify(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;

	a->m = (struct msg){.type = MSG_ok};
	if (!db_verify(db, &op->arena, &a->m.ok.text, &op->err))
		return false;
	a->m.ok.text.n = MIN_OF(a->m.ok.text.n, (size_t)60000);
	a->m.ok.value = a->m.ok.text.n != 0;
	return true;
}

enum { EVIDENCE_AT_A_TIME = 64 }; /* each is at most some 10 KiB */

static bool
run_evidence(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	const struct m_cache_evidence *ask = &a->r->m.cache_evidence;
	struct m_evidence_have *have = &a->m.evidence_have;

	a->m = (struct msg){.type = MSG_evidence_have};
	return evidence_list(db, &op->arena, ask->before,
	    (uint32_t)MIN_OF(MAX_OF(ask->max, (uint64_t)1), (uint64_t)EVIDENCE_AT_A_TIME), &have->list,
	    &have->n_list, &have->more, &op->err);
}

void
serve_cache(struct daemon *d, struct request *r)
{
	static const struct {
		enum msg_type type;
		bool (*run)(struct db *db, struct store_op *op);
	} row[] = {{MSG_cache_stats, run_stats}, {MSG_cache_list, run_list}, {MSG_cache_show, run_show},
	    {MSG_cache_export, run_export}, {MSG_cache_import, run_import}, {MSG_cache_gc, run_gc},
	    {MSG_cache_verify, run_verify}, {MSG_cache_evidence, run_evidence}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (row[i].type == r->m.type)
			ask_store(d, r, row[i].run);
}

/* ---- tidying ------------------------------------------------------------------------ */
static bool
run_tidy(struct db *db, struct store_op *op)
{
	uint64_t *dropped = NEW(&op->arena, uint64_t);

	return store_tidy(db, dropped, &op->err);
}

static void
done_tidy(struct store_op *op)
{
	struct daemon *d = op->owner;

	if (!op->ok)
		daemon_log(d, tidy_failed, KVZ("why", op->err.msg));
	arena_fini(&op->arena);
	free(op);
}

/* Beyond the folder's limit, and uploads that stand still. */
static bool
run_room(struct db *db, struct store_op *op)
{
	uint64_t all;

	return store_make_room(db, 0, &all, &op->err);
}

/* All of it at the start and every hour; the folder's limit every minute. */
void
keep_tick(struct daemon *d)
{
	struct store_op *op;
	int64_t now = daemon_now(d);
	bool all = !d->tidied_ns || now - d->tidied_ns >= 3600 * SECOND_NS;

	if (!all && now - d->roomed_ns < 60 * SECOND_NS)
		return;
	d->roomed_ns = now;
	if (all)
		d->tidied_ns = now;
	op = heap_alloc(sizeof(*op));
	op->run = all ? run_tidy : run_room;
	op->done = done_tidy;
	op->owner = d;
	store_post(d->store, op);
}
