/* schema/evidence.c: results that were not believed.  They are kept apart from what counts: no query but
 * these reads them.  The newest stay, each cut to a few rows. */
#include "db_int.h"

enum { EVIDENCE_KEPT = 1024, EVIDENCE_BYTES = 8192, EVIDENCE_TEXT = 256 };

static struct str
cut(struct str s)
{
	return (struct str){s.p, MIN_OF(s.n, (size_t)EVIDENCE_TEXT)};
}

/* As many rows as fit, so that nobody fills the disk by being wrong. */
static bool
pack_cut(struct arena *a, const struct m_outcome *o, struct bytes *out, struct err *e)
{
	struct m_outcome own = *o;
	struct m_row *rows = NEW_ARRAY(a, struct m_row, MAX_OF(o->n_rows, 1u));
	size_t left = EVIDENCE_BYTES;
	uint32_t n = 0;

	for (; n < o->n_rows; n++) {
		rows[n] = o->rows[n];
		rows[n].schedule = cut(rows[n].schedule);
		rows[n].cause = cut(rows[n].cause);
		if (left < 300 + rows[n].schedule.n + rows[n].cause.n)
			break;
		left -= 300 + rows[n].schedule.n + rows[n].cause.n;
	}
	own.rows = rows;
	own.n_rows = n;
	own.n_specs = MIN_OF(o->n_specs, n);
	own.log = STR("");
	return rec_pack(a, "outcome", &own, out, e);
}

bool
evidence_put(struct db *db, const struct m_evidence *ev, struct err *e)
{
	struct arena tmp = {0};
	struct bytes record;
	bool ok = pack_cut(&tmp, &ev->outcome, &record, e) &&
	    q_run(db, e, SQL_EVIDENCE_ADD, "itttb", db_wall(db), ev->worker, ev->class, ev->why, record) &&
	    q_run(db, e, SQL_EVIDENCE_DROP, "i", (int64_t)EVIDENCE_KEPT);

	arena_fini(&tmp);
	return ok;
}

bool
evidence_list(struct db *db, struct arena *a, uint64_t before, uint32_t max, struct m_evidence **out,
    uint32_t *n, bool *more, struct err *e)
{
	struct q q = q_start(db, SQL_EVIDENCE_LIST, "ii",
	    before && before < INT64_MAX ? (int64_t)before : INT64_MAX, (int64_t)max + 1);
	uint32_t cap = 0;
	bool ok = true;

	*out = NULL;
	*n = 0;
	*more = false;
	while (ok && !*more && q_step(&q)) {
		struct m_evidence ev = {.id = (uint64_t)q_int(&q, 0),
		    .wall_ns = q_int(&q, 1),
		    .worker = q_text(&q, a, 2),
		    .class = q_text(&q, a, 3),
		    .why = q_text(&q, a, 4)};

		if (*n == max) {
			*more = true;
			break;
		}
		ok = rec_unpack(a, "outcome", q_blob(&q, a, 5), &ev.outcome, e);
		GROW(a, *out, *n, cap);
		(*out)[(*n)++] = ev;
	}
	return q_end(&q, e) && ok;
}
