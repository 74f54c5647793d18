/* schema/meas_table.c: the columns of proto/meas.def in statements, rows and pooling, so that no other file
 * of this folder counts positions. */
#include "db_int.h"

#include <math.h>
#include <string.h>

/* Of one row, however often it is pooled. */
static const uint64_t MEAS_MAX_SAMPLES = ((uint64_t)1 << 60) - 1;

static const char *const list_names[LIST_COUNT] = {
    [LIST_MEASUREMENT] = "measurement", [LIST_KEY] = "key", [LIST_REPEAT] = "repeat"};

static bool
is_in(const struct meas_col *c, enum meas_list list)
{
	switch (list) {
	case LIST_MEASUREMENT:
		return true;
	case LIST_KEY:
		return c->pool == POOL_IDENTITY;
	case LIST_REPEAT:
		return c->is_repeated;
	case LIST_COUNT:
		break;
	}
	bug("list %d", (int)list);
}

/* ---- statements ------------------------------------------------------------------------ */
static enum meas_list
list_of(struct str name)
{
	for (int i = 0; i < LIST_COUNT; i++)
		if (str_is(name, list_names[i]))
			return (enum meas_list)i;
	bug("sql.def: there is no list of columns {%.*s}", STR_ARG(name));
}

/* "{m.key}": m.spec, m.epoch, ...; "{?key}": as many question marks. */
static void
add_list(struct strbuf *sb, struct str words)
{
	bool is_values = words.n && words.p[0] == '?';
	const char *dot = memchr(words.p, '.', words.n);
	struct str table = {words.p, dot ? (size_t)(dot + 1 - words.p) : 0},
		   name = {words.p + table.n + is_values, words.n - table.n - is_values};
	enum meas_list list = list_of(name);
	const char *between = "";

	for (size_t i = 0; i < MEAS_COLS; i++) {
		if (!is_in(&meas_cols[i], list))
			continue;
		if (is_values)
			sb_addf(sb, "%s?", between);
		else
			sb_addf(sb, "%s%.*s%s", between, STR_ARG(table), meas_cols[i].name);
		between = ", ";
	}
}

char *
sql_expand(struct arena *a, const char *text)
{
	struct str rest = str_of(text);
	struct strbuf sb;

	sb_init(&sb, a);
	while (rest.n) {
		const char *open = memchr(rest.p, '{', rest.n),
			   *close = open ? memchr(open, '}', rest.n - (size_t)(open - rest.p)) : NULL;
		size_t n = close ? (size_t)(close + 1 - rest.p) : rest.n;

		sb_add(&sb, (struct str){rest.p, close ? (size_t)(open - rest.p) : n});
		if (close)
			add_list(&sb, (struct str){open + 1, (size_t)(close - open) - 1});
		rest = (struct str){rest.p + n, rest.n - n};
	}
	return str_dup(a, sb_str(&sb));
}

/* ---- values ---------------------------------------------------------------------------- */
static int
bind_value(sqlite3_stmt *s, int at, const struct meas_col *c, const void *v)
{
	const struct str *t;
	double x;

	switch (c->kind) {
	case MEAS_U64:
	case MEAS_I64:
		return sqlite3_bind_int64(s, at, *(const int64_t *)v);
	case MEAS_F64:
		x = *(const double *)v;
		return sqlite3_bind_double(s, at, isfinite(x) ? x : c->no_number);
	case MEAS_TEXT:
		t = v;
		return sqlite3_bind_text64(s, at, t->n ? t->p : "", t->n, SQLITE_TRANSIENT, SQLITE_UTF8);
	case MEAS_HASH:
		return sqlite3_bind_blob(s, at, v, sizeof(struct hash), SQLITE_TRANSIENT);
	}
	bug("column kind %d", (int)c->kind);
}

int
q_bind_columns(struct q *q, enum meas_list list, int first, enum meas_form form, const void *record)
{
	for (size_t i = 0; i < MEAS_COLS && q->rc == SQLITE_OK; i++)
		if (is_in(&meas_cols[i], list))
			q->rc = bind_value(
			    q->s, first++, &meas_cols[i], (const char *)record + meas_cols[i].at[form]);
	return first;
}

static void
read_value(struct q *q, struct arena *a, int at, const struct meas_col *c, void *v)
{
	switch (c->kind) {
	case MEAS_U64:
	case MEAS_I64:
		*(int64_t *)v = q_int(q, at);
		break;
	case MEAS_F64:
		*(double *)v = q_real(q, at);
		break;
	case MEAS_TEXT:
		*(struct str *)v = q_text(q, a, at);
		break;
	case MEAS_HASH:
		*(struct hash *)v = q_hash(q, at);
		break;
	}
}

static int
read_columns(struct q *q, struct arena *a, enum meas_list list, int first, enum meas_form form, void *record)
{
	for (size_t i = 0; i < MEAS_COLS; i++)
		if (is_in(&meas_cols[i], list))
			read_value(q, a, first++, &meas_cols[i], (char *)record + meas_cols[i].at[form]);
	return first;
}

int
q_measurement(struct q *q, struct arena *a, int first, struct m_measurement *m)
{
	*m = (struct m_measurement){.env = STR(""), .text = STR("")};
	return read_columns(q, a, LIST_MEASUREMENT, first, FORM_MEASUREMENT, m);
}

int
q_repeat(struct q *q, struct arena *a, bool has_key, int first, struct m_repeat *r)
{
	*r = (struct m_repeat){0};
	for (size_t i = 0; i < MEAS_COLS; i++)
		if (meas_cols[i].kind == MEAS_TEXT && meas_cols[i].at[FORM_REPEAT] != MEAS_NOWHERE)
			*(struct str *)(void *)((char *)r + meas_cols[i].at[FORM_REPEAT]) = STR("");
	if (has_key)
		first = read_columns(q, a, LIST_KEY, first, FORM_REPEAT, r);
	return read_columns(q, a, LIST_REPEAT, first, FORM_REPEAT, r);
}

/* ---- one key --------------------------------------------------------------------------- */
static bool
is_equal(const struct meas_col *c, const void *x, const void *y)
{
	switch (c->kind) {
	case MEAS_U64:
	case MEAS_I64:
		return *(const uint64_t *)x == *(const uint64_t *)y;
	case MEAS_TEXT:
		return str_eq(*(const struct str *)x, *(const struct str *)y);
	case MEAS_HASH:
		return hash_eq(x, y);
	case MEAS_F64:
		break;
	}
	bug("%s is no part of a key", c->name);
}

bool
meas_same_key(const struct m_measurement *x, const struct m_measurement *y)
{
	for (size_t i = 0; i < MEAS_COLS; i++) {
		size_t at = meas_cols[i].at[FORM_MEASUREMENT];

		if (meas_cols[i].pool == POOL_IDENTITY &&
		    !is_equal(&meas_cols[i], (const char *)x + at, (const char *)y + at))
			return false;
	}
	return true;
}

/* Between the two, whatever their sizes: doubles near 2^63 round up to it. */
static int64_t
weighted(int64_t a, uint64_t n, int64_t b, uint64_t m)
{
	int64_t least = MIN_OF(a, b), most = MAX_OF(a, b);
	double all = (double)n + (double)m, mean;

	if (!(all > 0))
		return a;
	mean = ((double)a * (double)n + (double)b * (double)m) / all + 0.5;
	if (mean >= (double)most)
		return most;
	return mean <= (double)least ? least : (int64_t)mean;
}

#define POOL_NUMBER(TYPE, C, OLD, ADD)                                                                       \
	do {                                                                                                 \
		TYPE *o = (OLD);                                                                             \
		const TYPE *d = (ADD);                                                                       \
		*o = (C)->pool == POOL_LEAST ? MIN_OF(*o, *d) : MAX_OF(*o, *d);                              \
	} while (0)

static void
pool_extreme(const struct meas_col *c, void *old, const void *add)
{
	if (c->kind == MEAS_I64)
		POOL_NUMBER(int64_t, c, old, add);
	else if (c->kind == MEAS_U64)
		POOL_NUMBER(uint64_t, c, old, add);
	else if (c->kind == MEAS_F64)
		POOL_NUMBER(double, c, old, add);
	else
		bug("%s has no least and no most", c->name);
}

static size_t
kind_bytes(enum meas_kind k)
{
	return k == MEAS_TEXT ? sizeof(struct str) : k == MEAS_HASH ? sizeof(struct hash) : sizeof(int64_t);
}

static void
pool_column(const struct meas_col *c, struct m_measurement *old, const struct m_measurement *was,
    const struct m_measurement *add)
{
	void *o = (char *)old + c->at[FORM_MEASUREMENT];
	const void *d = (const char *)add + c->at[FORM_MEASUREMENT];

	switch (c->pool) {
	case POOL_IDENTITY:
	case POOL_FIRST:
		break;
	case POOL_LAST:
		if (add->wall_ns > was->wall_ns)
			memcpy(o, d, kind_bytes(c->kind));
		break;
	case POOL_LEAST:
	case POOL_MOST:
		pool_extreme(c, o, d);
		break;
	case POOL_SUM: /* of U64; each is below the most */
		*(uint64_t *)o = MIN_OF(*(uint64_t *)o + *(const uint64_t *)d, MEAS_MAX_SAMPLES);
		break;
	case POOL_MEAN: /* of I64 */
		*(int64_t *)o =
		    weighted(*(int64_t *)o, was->row.samples, *(const int64_t *)d, add->row.samples);
		break;
	}
}

void
meas_pool(struct m_measurement *old, const struct m_measurement *add)
{
	const struct m_measurement was = *old;

	if (was.row.fail || add->row.fail) {
		if (!add->row.fail || (was.row.fail && add->wall_ns > was.wall_ns))
			*old = *add;
		return;
	}
	for (size_t i = 0; i < MEAS_COLS; i++)
		pool_column(&meas_cols[i], old, &was, add);
}

/* A number that the table's own checks would refuse is the sender's fault. */
bool
meas_row_is_sane(const struct m_row *r, struct err *e)
{
	bool ok = r->fail ? r->median_ns == 0 : r->median_ns > 0;

	return (ok && r->median_ns >= 0 && r->samples <= MEAS_MAX_SAMPLES && r->fail < 1000) ||
	    err_set(e, ERR_PROTO, "a measurement of %lld ns with failure number %llu makes no sense",
		(long long)r->median_ns, (unsigned long long)r->fail);
}
