/* schema/predictor.c: what was trained for each device class: one file for a class and a generator epoch. */
#include "predictor.h"

#include "db_int.h"

void
q_predictor(struct q *q, struct arena *a, struct m_predictor *p)
{
	*p = (struct m_predictor){
	    .class = q_text(q, a, 0),
	    .epoch = (uint64_t)q_int(q, 1),
	    .method = q_text(q, a, 2),
	    .rows = (uint64_t)q_int(q, 3),
	    .compared = (uint64_t)q_int(q, 4),
	    .error = q_real(q, 5),
	    .beside = q_real(q, 6),
	    .made_ns = q_int(q, 7),
	    .file = q_blob(q, a, 8),
	};
}

bool
predictor_find(
    struct db *db, struct arena *a, struct str class, uint64_t epoch, struct m_predictor *out, struct err *e)
{
	struct q q = q_start(db, SQL_PREDICTOR_FIND, "ti", class, (int64_t)epoch);

	*out = (struct m_predictor){0};
	if (q_step(&q))
		q_predictor(&q, a, out);
	return q_end(&q, e);
}

bool
predictor_put(struct db *db, const struct m_predictor *p, uint64_t rows_tried, struct err *e)
{
	return q_run(db, e, SQL_PREDICTOR_PUT, "tiiitiiddib", p->class, (int64_t)p->epoch,
	    (int64_t)rows_tried, rows_tried ? db_wall(db) : 0, p->method, (int64_t)p->rows,
	    (int64_t)p->compared, p->error, p->beside, p->made_ns, p->file);
}

bool
predictor_tried(struct db *db, struct str class, uint64_t epoch, uint64_t rows, struct err *e)
{
	return q_run(db, e, SQL_PREDICTOR_TRIED, "tiii", class, (int64_t)epoch, (int64_t)rows, db_wall(db));
}

bool
predictor_wanted(struct db *db, struct arena *a, uint64_t epoch, uint64_t fewest, struct str *class,
    uint64_t *rows, struct err *e)
{
	struct q q = q_start(db, SQL_PREDICTOR_WANTED, "ii", (int64_t)epoch, (int64_t)fewest);

	*rows = 0;
	if (q_step(&q)) {
		*class = q_text(&q, a, 0);
		*rows = (uint64_t)q_int(&q, 1);
	}
	return q_end(&q, e);
}

bool
predictor_list(
    struct db *db, struct arena *a, uint64_t epoch, struct m_predictor **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_PREDICTOR_LIST, "i", (int64_t)epoch);
	uint32_t cap = 0;

	*out = NULL;
	*n = 0;
	while (q_step(&q)) {
		GROW(a, *out, *n, cap);
		(*out)[(*n)++] = (struct m_predictor){
		    .class = q_text(&q, a, 0),
		    .epoch = epoch,
		    .measured = (uint64_t)q_int(&q, 1),
		    .method = q_text(&q, a, 2),
		    .rows = (uint64_t)q_int(&q, 3),
		    .compared = (uint64_t)q_int(&q, 4),
		    .error = q_real(&q, 5),
		    .beside = q_real(&q, 6),
		    .made_ns = q_int(&q, 7),
		    .tried_ns = q_int(&q, 8),
		};
	}
	return q_end(&q, e);
}

bool
predictor_is_better(const struct m_predictor *a, const struct m_predictor *b)
{
	if (a->rows != b->rows)
		return a->rows > b->rows;
	if (a->error < b->error || a->error > b->error)
		return a->error < b->error;
	return a->made_ns > b->made_ns;
}
