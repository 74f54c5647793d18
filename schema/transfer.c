/* schema/transfer.c: the cache as a file to share.  "KORCH CACHE 1\n", then one zstd frame with
 * its checksum; inside, items of (letter, length as 4 bytes little-endian, packed record), the kinds in
 * the order of export.def, those of a kind in the order of digests.  Equal content gives equal
 * bytes.  An import is hostile input: sizes, digests and references are checked, and it comes
 * in whole or not at all (the caller's transaction). */
#include "db_int.h"
#include "perturbed.h"
#include "predictor.h"

#include "../kernels/base/epoch.h"
#include "../kernels/base/heat.h"
#include "../kernels/base/json.h"
#include "../proto/hw.h"
#include "../proto/range.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static const char MAGIC[] = CACHE_EXPORT_MAGIC;
enum { MAGIC_BYTES = sizeof(MAGIC) - 1, HEAD = 5 };
static const size_t MAX_PLAIN = (size_t)1 << 30;

/* ---- out ---------------------------------------------------------------------------- */
static void
add_item(struct strbuf *sb, char letter, struct bytes b)
{
	char head[HEAD] = {letter, (char)b.n, (char)(b.n >> 8), (char)(b.n >> 16), (char)(b.n >> 24)};

	sb_add(sb, (struct str){head, HEAD});
	sb_add(sb, (struct str){(const char *)b.p, b.n});
}

static bool
export_env(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_ENV, "t", class);

	while (q_step(&q))
		add_item(sb, 'E', q_blob(&q, tmp, 1));
	return q_end(&q, e);
}

static bool
export_spec(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_SPEC, "t", class);

	while (q_step(&q)) {
		struct str text = q_text(&q, tmp, 1);

		add_item(sb, 'S', (struct bytes){(const uint8_t *)text.p, text.n});
	}
	return q_end(&q, e);
}

static bool
export_origin(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_ORIGIN, "t", class);
	bool ok = true;

	while (ok && q_step(&q)) {
		struct m_origin o = {.spec = q_hash(&q, 0), .model = q_hash(&q, 1)};
		struct bytes b;

		ok = rec_pack(tmp, "origin", &o, &b, e);
		if (ok)
			add_item(sb, 'O', b);
	}
	return q_end(&q, e) && ok;
}

static bool
export_row(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_ROW, "t", class);
	bool ok = true;

	while (ok && q_step(&q)) {
		struct m_measurement m;
		struct bytes b;

		(void)q_measurement(&q, tmp, 1, &m);
		m.env_hash = q_hash(&q, 0);
		ok = rec_pack(tmp, "measurement", &m, &b, e);
		if (ok)
			add_item(sb, 'M', b);
	}
	return q_end(&q, e) && ok;
}

static bool
export_repeat(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_REPEAT, "t", class);
	bool ok = true;

	while (ok && q_step(&q)) {
		struct m_repeat r;
		struct bytes b;

		(void)q_repeat(&q, tmp, true, 2, &r);
		r.env_hash = q_hash(&q, 0);
		r.session = q_hash(&q, 1);
		ok = rec_pack(tmp, "repeat", &r, &b, e);
		if (ok)
			add_item(sb, 'R', b);
	}
	return q_end(&q, e) && ok;
}

static bool
export_perturbed(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_PERTURBED, "t", class);

	while (q_step(&q))
		add_item(sb, 'P', q_blob(&q, tmp, 1));
	return q_end(&q, e);
}

static bool
export_attempt(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_ATTEMPT, "t", class);
	bool ok = true;

	while (ok && q_step(&q)) {
		struct m_attempt at = {.spec = q_hash(&q, 0),
		    .env_hash = q_hash(&q, 1),
		    .threads = (uint64_t)q_int(&q, 2),
		    .precision = q_text(&q, tmp, 3),
		    .epoch = (uint64_t)q_int(&q, 4),
		    .effort = (uint64_t)q_int(&q, 5),
		    .fail = (uint64_t)q_int(&q, 6),
		    .cause = q_text(&q, tmp, 7),
		    .wall_ns = q_int(&q, 8),
		    .heat = q_text(&q, tmp, 9)};
		struct bytes b;

		ok = rec_pack(tmp, "attempt", &at, &b, e);
		if (ok)
			add_item(sb, 'A', b);
	}
	return q_end(&q, e) && ok;
}

static bool
export_predictor(struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_PREDICTOR, "t", class);
	bool ok = true;

	while (ok && q_step(&q)) {
		struct m_predictor p;
		struct bytes b;

		q_predictor(&q, tmp, &p);
		ok = rec_pack(tmp, "predictor", &p, &b, e);
		if (ok)
			add_item(sb, 'T', b);
	}
	return q_end(&q, e) && ok;
}

static bool
compress(struct arena *a, struct str plain, struct bytes *out, struct err *e)
{
	size_t cap = ZSTD_compressBound(plain.n), n;
	uint8_t *p = arena_alloc(a, cap + MAGIC_BYTES);
	ZSTD_CCtx *z = ZSTD_createCCtx();

	if (!z)
		bug("out of memory for the export");
	memcpy(p, MAGIC, MAGIC_BYTES);
	(void)ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, 9);
	(void)ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	n = ZSTD_compress2(z, p + MAGIC_BYTES, cap, plain.p, plain.n);
	(void)ZSTD_freeCCtx(z);
	if (ZSTD_isError(n))
		return err_set(e, ERR_FAILED, "the export cannot be compressed: %s", ZSTD_getErrorName(n));
	*out = (struct bytes){p, n + MAGIC_BYTES};
	return true;
}

static bool (*const out_row[])(
    struct db *db, struct strbuf *sb, struct arena *tmp, struct str class, struct err *e) = {
#define EXPORT(LETTER, FN, RECORD, WORDS) export_##FN,
#include "export.def"
};

bool
cache_export(struct db *db, struct arena *a, struct str class, struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok = true;

	sb_init(&sb, &tmp);
	for (size_t i = 0; i < COUNT_OF(out_row) && ok; i++)
		ok = out_row[i](db, &sb, &tmp, class, e);
	ok = ok && compress(a, sb_str(&sb), out, e);
	arena_fini(&tmp);
	return ok;
}

/* ---- in ----------------------------------------------------------------------------- */
struct import {
	struct db *db;
	struct arena *tmp;
	struct {
		struct hash hash;
		int64_t id;
	} * envs;
	uint32_t n_envs, cap_envs;
	uint64_t n_specs, n_rows, n_attempts, n_conflicts, n_predictors;
	struct arena left_arena;
	struct str left; /* of predictors: which were not taken, and why */
};

static bool
import_env(struct import *im, struct bytes b, struct err *e)
{
	struct m_env env;

	if (!rec_unpack(im->tmp, "env", b, &env, e))
		return false;
	if (env.key.n == 0 || env.class.n == 0)
		return err_set(e, ERR_FORMAT, "an environment without a key");
	if (!hw_check(&env.hw, e)) {
		e->code = ERR_FORMAT;
		return err_in(e, "the environment of class '%.*s'", STR_ARG(env.class));
	}
	GROW(im->tmp, im->envs, im->n_envs, im->cap_envs);
	im->envs[im->n_envs].hash = hash_bytes(env.key.p, env.key.n);
	return env_put(im->db, &env, false, &im->envs[im->n_envs++].id, e);
}

static bool
find_env(struct import *im, const struct hash *h, struct meas_key *k, struct err *e)
{
	for (uint32_t i = 0; i < im->n_envs; i++)
		if (hash_eq(&im->envs[i].hash, h)) {
			k->env = im->envs[i].id;
			k->env_hash = *h;
			return true;
		}
	return err_set(e, ERR_FORMAT, "a measurement of an environment that is not in the file");
}

static bool
spec_is_here(struct import *im, const struct hash *h, struct err *e)
{
	struct str text;
	struct err why = {0};

	return spec_text(im->db, im->tmp, h, &text, &why) ||
	    err_set(e, ERR_FORMAT, "an item about a spec that is not in the file");
}

/* Two honest samples of the same thing overlap; those that do not are counted for the report. */
static bool
is_conflict(struct import *im, const struct m_measurement *m, const struct meas_key *k)
{
	struct m_kv *known;
	uint32_t n;
	struct err e = {0};
	int64_t have;

	if (m->row.fail || !meas_known(im->db, im->tmp, &m->spec, k, &known, &n, &e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (str_eq(known[i].name, m->row.schedule) && str_to_i64(known[i].value, &have) && have > 0)
			return have < m->row.p10_ns || have > m->row.p90_ns;
	return false;
}

static bool
import_row(struct import *im, struct bytes b, struct err *e)
{
	struct m_measurement m;
	struct meas_key k = {0};
	struct meas_origin from;

	if (!rec_unpack(im->tmp, "measurement", b, &m, e) || !find_env(im, &m.env_hash, &k, e) ||
	    !spec_is_here(im, &m.spec, e))
		return false;
	if (m.threads == 0 || m.threads > 65536 || m.epoch > INT64_MAX || m.gen > INT64_MAX ||
	    m.effort > INT64_MAX || !heat_is_word(m.heat))
		return err_set(e, ERR_FORMAT, "a measurement with numbers out of range");
	k.threads = m.threads;
	k.epoch = m.epoch;
	k.precision = m.precision;
	k.heat = m.heat;
	from = (struct meas_origin){
#define FROM(KIND, N, ...) .N = m.N,
#include "../proto/meas.def"
	};
	im->n_conflicts += is_conflict(im, &m, &k);
	im->n_rows++;
	return meas_put(im->db, &m.spec, &k, &m.row, 1, &from, e);
}

static bool
import_repeat(struct import *im, struct bytes b, struct err *e)
{
	struct m_repeat r;
	struct meas_key k = {0};
	struct meas_origin from;

	if (!rec_unpack(im->tmp, "repeat", b, &r, e) || !find_env(im, &r.env_hash, &k, e) ||
	    !spec_is_here(im, &r.spec, e))
		return false;
	if (r.threads == 0 || r.threads > 65536 || r.epoch > INT64_MAX || r.gen > INT64_MAX ||
	    !heat_is_word(r.heat))
		return err_set(e, ERR_FORMAT, "a repeat with numbers out of range");
	k.threads = r.threads;
	k.epoch = r.epoch;
	k.precision = r.precision;
	k.heat = r.heat;
	from = (struct meas_origin){.worker = r.worker, .gen = r.gen, .wall_ns = r.wall_ns};
	return repeat_put(im->db, &r.spec, &k, &r.session, &r.row, &from, e);
}

static bool
import_perturbed(struct import *im, struct bytes b, struct err *e)
{
	struct m_perturbed p;
	struct meas_key k = {0};

	if (!rec_unpack(im->tmp, "perturbed", b, &p, e) || !find_env(im, &p.env_hash, &k, e) ||
	    !spec_is_here(im, &p.spec, e))
		return false;
	if (p.threads == 0 || p.threads > 65536 || p.epoch > INT64_MAX || !perturbed_check(&p, e))
		return err_set(e, ERR_FORMAT, "a perturbed kernel with numbers out of range");
	k.threads = p.threads;
	k.epoch = p.epoch;
	k.precision = p.precision;
	return perturbed_put(im->db, &k, &p, e);
}

static bool
import_attempt(struct import *im, struct bytes b, struct err *e)
{
	struct m_attempt at;
	struct meas_key k = {0};

	if (!rec_unpack(im->tmp, "attempt", b, &at, e) || !find_env(im, &at.env_hash, &k, e) ||
	    !spec_is_here(im, &at.spec, e))
		return false;
	if (at.threads == 0 || at.threads > 65536 || at.epoch > INT64_MAX || at.effort > INT64_MAX ||
	    at.fail > 1000 || !heat_is_word(at.heat))
		return err_set(e, ERR_FORMAT, "an attempt with numbers out of range");
	if (at.fail && !fail_is_kept(at.fail))
		return true;
	im->n_attempts++;
	return q_run(im->db, e, SQL_ATTEMPT_PUT, "hiitiiitit", &at.spec, k.env, (int64_t)at.threads,
	    at.precision, (int64_t)at.epoch, (int64_t)at.effort, (int64_t)at.fail, at.cause, at.wall_ns,
	    at.heat);
}

static bool
import_spec(struct import *im, struct bytes b, struct err *e)
{
	static const struct hash no_model;
	struct hash h;

	im->n_specs++;
	return spec_put(im->db, (struct str){(const char *)b.p, b.n}, &no_model, &h, e);
}

/* A spec of this store keeps the model that it came with here. */
static bool
import_origin(struct import *im, struct bytes b, struct err *e)
{
	struct m_origin o;

	return rec_unpack(im->tmp, "origin", b, &o, e) && spec_is_here(im, &o.spec, e) &&
	    q_run(im->db, e, SQL_SPEC_ORIGIN, "hh", &o.spec, &o.model);
}

/* Why what was trained elsewhere is not taken; false: it is. */
static bool
leave_predictor(
    struct import *im, const struct m_predictor *p, const struct m_predictor *here, struct err *why)
{
	if (p->epoch != SAMPLES_EPOCH)
		return !err_set(why, ERR_NEWER,
		    "it is of generator epoch %llu and this Korch of %d; what it learned from is read anew "
		    "here",
		    (unsigned long long)p->epoch, (int)SAMPLES_EPOCH);
	if (!im->db->trained_check || !im->db->trained_check(p->file, why))
		return true;
	if (here->file.n && !predictor_is_better(p, here))
		return !err_set(why, ERR_FAILED,
		    "the one here learned from %llu measurements of the class, this one from %llu",
		    (unsigned long long)here->rows, (unsigned long long)p->rows);
	return false;
}

/* The measurements of the file come in whatever becomes of it. */
static bool
import_predictor(struct import *im, struct bytes b, struct err *e)
{
	struct m_predictor p, here;
	struct err why = {0};

	if (!rec_unpack(im->tmp, "predictor", b, &p, e))
		return false;
	if (p.class.n == 0 || p.epoch > UINT32_MAX || p.rows > UINT32_MAX || p.compared > UINT32_MAX ||
	    p.made_ns <= 0 || !(p.error >= 0 && p.error <= 1e6) || !(p.beside >= 0 && p.beside <= 1e6))
		return err_set(e, ERR_FORMAT, "a predictor with numbers out of range");
	if (!predictor_find(im->db, im->tmp, p.class, p.epoch, &here, e))
		return false;
	if (leave_predictor(im, &p, &here, &why)) {
		im->left = str_of(arena_printf(&im->left_arena, "%.*s%sthe predictor of class %.*s: %s",
		    STR_ARG(im->left), im->left.n ? "; " : "", STR_ARG(p.class), why.msg));
		return true;
	}
	im->n_predictors++;
	return predictor_put(im->db, &p, 0, e);
}

static const struct {
	char letter;
	bool (*import)(struct import *im, struct bytes b, struct err *e);
} in_row[] = {
#define EXPORT(LETTER, FN, RECORD, WORDS) {LETTER, import_##FN},
#include "export.def"
};

static bool
import_item(struct import *im, char letter, struct bytes b, struct err *e)
{
	for (size_t i = 0; i < COUNT_OF(in_row); i++)
		if (in_row[i].letter == letter)
			return in_row[i].import(im, b, e);
	return true; /* of a later version */
}

bool
export_unpack(struct bytes in, struct bytes *out, struct err *e)
{
	unsigned long long size;
	size_t n;
	uint8_t *p;

	if (in.n < MAGIC_BYTES || memcmp(in.p, MAGIC, MAGIC_BYTES) != 0)
		return err_set(e, ERR_FORMAT, "not an export of a Korch cache");
	in.p += MAGIC_BYTES;
	in.n -= MAGIC_BYTES;
	size = ZSTD_getFrameContentSize(in.p, in.n);
	if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
		return err_set(e, ERR_FORMAT, "the export is damaged or cut off");
	if (size > MAX_PLAIN)
		return err_set(e, ERR_LIMIT, "the export holds more than %zu bytes", MAX_PLAIN);
	p = heap_alloc(MAX_OF((size_t)size, (size_t)1));
	n = ZSTD_decompress(p, (size_t)size, in.p, in.n);
	if (ZSTD_isError(n) || n != size) {
		free(p);
		return err_set(e, ERR_FORMAT, "the export is damaged or cut off");
	}
	*out = (struct bytes){p, n};
	return true;
}

bool
export_item(struct bytes *plain, char *letter, struct bytes *item, struct err *e)
{
	size_t n = 0;

	for (int i = 0; i < 4 && plain->n >= HEAD; i++)
		n |= (size_t)plain->p[1 + i] << (8 * i);
	if (plain->n < HEAD || n > plain->n - HEAD)
		return err_set(e, ERR_FORMAT, "the export is damaged or cut off");
	*letter = (char)plain->p[0];
	*item = (struct bytes){plain->p + HEAD, n};
	plain->p += HEAD + n;
	plain->n -= HEAD + n;
	return true;
}

static bool
import_all(struct import *im, struct bytes plain, struct err *e)
{
	while (plain.n) {
		struct arena_mark mark = arena_mark(im->tmp);
		struct bytes item;
		char letter;

		if (!export_item(&plain, &letter, &item, e) || !import_item(im, letter, item, e))
			return false;
		if (letter != 'E')
			arena_reset(im->tmp, mark);
	}
	return true;
}

static struct str
import_report(struct arena *a, const struct import *im, int64_t n_new, int64_t n_pooled, bool dry_run)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb,
	    "{\"environments\":%u,\"specs\":%llu,\"measurements\":%llu,\"new\":%lld,\"pooled\":%lld,"
	    "\"conflicts\":%llu,\"predictors\":%llu,\"predictors_left\":",
	    im->n_envs, (unsigned long long)im->n_specs, (unsigned long long)im->n_rows, (long long)n_new,
	    (long long)n_pooled, (unsigned long long)im->n_conflicts, (unsigned long long)im->n_predictors);
	json_text(&sb, im->left);
	sb_addf(&sb, ",\"dry_run\":%s}", dry_run ? "true" : "false");
	return sb_str(&sb);
}

bool
cache_import(struct db *db, struct arena *a, struct bytes in, bool dry_run, struct str *report, struct err *e)
{
	struct arena tmp = {0};
	struct import im = {.db = db, .tmp = &tmp, .left = STR("")};
	struct bytes plain = {0};
	int64_t put = db->tally[TALLY_PUT], pooled = db->tally[TALLY_POOLED],
		repeated = db->tally[TALLY_REPEATED];
	bool ok = export_unpack(in, &plain, e);

	if (ok) {
		ok = sqlite3_exec(db->sql, "SAVEPOINT import", NULL, NULL, NULL) == SQLITE_OK &&
		    import_all(&im, plain, e);
		if (!ok || dry_run)
			(void)sqlite3_exec(db->sql, "ROLLBACK TO import", NULL, NULL, NULL);
		(void)sqlite3_exec(db->sql, "RELEASE import", NULL, NULL, NULL);
		if (ok)
			*report = import_report(
			    a, &im, db->tally[TALLY_PUT] - put, db->tally[TALLY_POOLED] - pooled, dry_run);
		if (!ok || dry_run) {
			db->tally[TALLY_PUT] = put;
			db->tally[TALLY_POOLED] = pooled;
			db->tally[TALLY_REPEATED] = repeated;
		}
	}
	free((void *)(uintptr_t)plain.p);
	arena_fini(&im.left_arena);
	arena_fini(&tmp);
	return ok || err_in(e, "import");
}
