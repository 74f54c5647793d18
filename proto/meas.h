/* proto/meas.h: the columns of a measurement (meas.def) as data: where each lies in the records `row`,
 * `measurement` and `repeat`, what may stand in it, how it is pooled and shown. */
#ifndef KORCH_MEAS_H
#define KORCH_MEAS_H

#include "msg.h"

enum meas_kind { MEAS_U64, MEAS_I64, MEAS_F64, MEAS_TEXT, MEAS_HASH };
enum meas_part { MEAS_KEY, MEAS_COL, MEAS_FROM };
enum meas_check { CHECK_FREE, CHECK_ALWAYS, CHECK_GOOD, CHECK_TIMED };
enum meas_pool { POOL_IDENTITY, POOL_FIRST, POOL_LAST, POOL_LEAST, POOL_MOST, POOL_SUM, POOL_MEAN };
enum meas_form { FORM_ROW, FORM_MEASUREMENT, FORM_REPEAT, FORM_COUNT };
#define MEAS_NOWHERE SIZE_MAX
/* The C type of each kind. */
#define MEAS_FIELD_U64 uint64_t
#define MEAS_FIELD_I64 int64_t
#define MEAS_FIELD_F64 double
#define MEAS_FIELD_TEXT struct str
#define MEAS_FIELD_HASH struct hash

struct meas_col {
	const char *name, *words;
	enum meas_kind kind;
	enum meas_part part;
	uint32_t tag; /* in record `row`; 0: it is no field of that */
	enum meas_check check;
	double least, most;
	enum meas_pool pool;
	bool is_repeated;      /* a column of the table `repeat`, too */
	bool is_listed;        /* in the lines of korch-cache list */
	double no_number;      /* of MEAS_F64: stands for NaN and infinities */
	size_t limit;          /* of MEAS_TEXT: bytes */
	size_t at[FORM_COUNT]; /* in struct m_row, m_measurement, m_repeat; MEAS_NOWHERE */
};
enum {
	MEAS_COLS = 0
#define KEY(...) +1
#define COL(...) +1
#define FROM(...) +1
#include "meas.def"
};
extern const struct meas_col meas_cols[MEAS_COLS];

const struct meas_col *meas_col_of(struct str name); /* NULL: there is none */
/* A number of a record; `record` is the struct of that form, which has the column. */
double meas_number(const struct meas_col *c, enum meas_form form, const void *record);
/* Texts of a row that are over their limits are cut. */
void meas_cut(struct m_row *r);
/* What only a schedule that worked has is zero. */
void meas_untime(struct m_row *r);
/* " threads=1 samples=20": the listed columns, a blank before each. */
void meas_listed(struct strbuf *sb, const struct m_measurement *m);

#endif
