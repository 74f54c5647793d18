/* proto/meas.c: see meas.h. */
#include "meas.h"

#include <float.h>
#include <string.h>

#define SHOWN_LISTED true
#define SHOWN_PLAIN false
#define IN_REPEATED true
#define IN_ONCE false
#define LIMIT_U64(LIMIT) 0
#define LIMIT_I64(LIMIT) 0
#define LIMIT_F64(LIMIT) 0
#define LIMIT_TEXT(LIMIT) LIMIT
#define LIMIT_HASH(LIMIT) 0
#define AT_REPEATED(N) offsetof(struct m_repeat, N)
#define AT_ONCE(N) MEAS_NOWHERE
const struct meas_col meas_cols[MEAS_COLS] = {
#define KEY(KIND, N, SHOW, WORDS)                                                                            \
	{.name = #N,                                                                                         \
	    .words = (WORDS),                                                                                \
	    .kind = MEAS_##KIND,                                                                             \
	    .part = MEAS_KEY,                                                                                \
	    .pool = POOL_IDENTITY,                                                                           \
	    .is_listed = SHOWN_##SHOW,                                                                       \
	    .at = {MEAS_NOWHERE, offsetof(struct m_measurement, N), offsetof(struct m_repeat, N)}},
#define COL(KIND, TAG, N, LIMIT, CHECK, LEAST, MOST, POOL, TABLES, SHOW, WORDS)                              \
	{.name = #N,                                                                                         \
	    .words = (WORDS),                                                                                \
	    .kind = MEAS_##KIND,                                                                             \
	    .part = MEAS_COL,                                                                                \
	    .tag = (TAG),                                                                                    \
	    .check = CHECK_##CHECK,                                                                          \
	    .least = (LEAST),                                                                                \
	    .most = (MOST),                                                                                  \
	    .pool = POOL_##POOL,                                                                             \
	    .is_repeated = IN_##TABLES,                                                                      \
	    .is_listed = SHOWN_##SHOW,                                                                       \
	    .no_number = (LIMIT),                                                                            \
	    .limit = LIMIT_##KIND(LIMIT),                                                                    \
	    .at = {offsetof(struct m_row, N), offsetof(struct m_measurement, row.N),                         \
		offsetof(struct m_repeat, row.N)}},
#define FROM(KIND, N, POOL, TABLES, SHOW, WORDS)                                                             \
	{.name = #N,                                                                                         \
	    .words = (WORDS),                                                                                \
	    .kind = MEAS_##KIND,                                                                             \
	    .part = MEAS_FROM,                                                                               \
	    .pool = POOL_##POOL,                                                                             \
	    .is_repeated = IN_##TABLES,                                                                      \
	    .is_listed = SHOWN_##SHOW,                                                                       \
	    .at = {MEAS_NOWHERE, offsetof(struct m_measurement, N), AT_##TABLES(N)}},
#include "meas.def"
};

/* A field has the type that its row says. */
#define KEY(KIND, N, ...)                                                                                    \
	_Static_assert(_Generic(((struct m_measurement *)0)->N, MEAS_FIELD_##KIND : 1, default : 0) &&       \
		_Generic(((struct m_repeat *)0)->N, MEAS_FIELD_##KIND : 1, default : 0),                     \
	    "proto/meas.def and msg.def differ in the type of " #N);
#define FROM(KIND, N, ...)                                                                                   \
	_Static_assert(_Generic(((struct m_measurement *)0)->N, MEAS_FIELD_##KIND : 1, default : 0),         \
	    "proto/meas.def and msg.def differ in the type of " #N);
#include "meas.def"

const struct meas_col *
meas_col_of(struct str name)
{
	for (size_t i = 0; i < MEAS_COLS; i++)
		if (str_is(name, meas_cols[i].name))
			return &meas_cols[i];
	return NULL;
}

double
meas_number(const struct meas_col *c, enum meas_form form, const void *record)
{
	const void *v = (const char *)record + c->at[form];

	switch (c->kind) {
	case MEAS_U64:
		return (double)*(const uint64_t *)v;
	case MEAS_I64:
		return (double)*(const int64_t *)v;
	case MEAS_F64:
		return *(const double *)v;
	case MEAS_TEXT:
	case MEAS_HASH:
		break;
	}
	bug("%s is no number", c->name);
}

void
meas_cut(struct m_row *r)
{
	for (size_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		struct str *t;

		if (c->part != MEAS_COL || c->kind != MEAS_TEXT)
			continue;
		t = (void *)((char *)r + c->at[FORM_ROW]);
		t->n = MIN_OF(t->n, c->limit);
	}
}

void
meas_untime(struct m_row *r)
{
	for (size_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];

		if (c->check == CHECK_TIMED) /* a number */
			memset((char *)r + c->at[FORM_ROW], 0, sizeof(int64_t));
	}
}

static void
add_value(struct strbuf *sb, const struct meas_col *c, const void *v)
{
	char hex[65];

	switch (c->kind) {
	case MEAS_U64:
		sb_addf(sb, "%llu", (unsigned long long)*(const uint64_t *)v);
		break;
	case MEAS_I64:
		sb_addf(sb, "%lld", (long long)*(const int64_t *)v);
		break;
	case MEAS_F64:
		sb_addf(sb, "%.6g", *(const double *)v);
		break;
	case MEAS_TEXT:
		sb_add(sb, *(const struct str *)v);
		break;
	case MEAS_HASH:
		hash_hex(v, hex);
		sb_addf(sb, "%.12s", hex);
		break;
	}
}

void
meas_listed(struct strbuf *sb, const struct m_measurement *m)
{
	for (size_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];

		if (!c->is_listed)
			continue;
		sb_addf(sb, " %s=", c->name);
		add_value(sb, c, (const char *)m + c->at[FORM_MEASUREMENT]);
	}
}
