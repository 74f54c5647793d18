/* schema/plan_table.c: the lists of a plan <-> tables, by plan_table.def.  A kind says how a field lies in a
 * struct and in a row.  The file is a stranger's: sizes and kinds of values are checked here, indices by
 * plan_check(). */
#include "plan_file_int.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- one value ------------------------------------------------------------------------ */
/* A statement at one of its columns, and the count that belongs to a list's field. */
struct cell {
	struct plan_db *f;
	sqlite3_stmt *s;
	int at;
	struct arena *a;
	uint32_t *n;
};

static const char *const fates[FATE_COUNT] = {
    [FATE_KERNEL] = "kernel", [FATE_VIEW] = "view", [FATE_FOLDED] = "folded", [FATE_REWRITTEN] = "rewritten"};
static const char *const place_names[4] = {
    [PLACE_WORK] = "work", [PLACE_CONST] = "const", [PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output"};

/* Fields of one C type; V is the field's value. */
#define FIELD(NAME, TYPE, PUT, GET)                                                                          \
	static void put_##NAME(struct cell *c, const void *p)                                                \
	{                                                                                                    \
		TYPE v;                                                                                      \
		memcpy(&v, p, sizeof(v));                                                                    \
		PUT;                                                                                         \
	}                                                                                                    \
	static void get_##NAME(struct cell *c, void *p)                                                      \
	{                                                                                                    \
		TYPE v = GET;                                                                                \
		memcpy(p, &v, sizeof(v));                                                                    \
	}

/* "none" is written as -1. */
static uint32_t
get_index(struct cell *c)
{
	int64_t v = pf_get_int(c->f, c->s, c->at);

	if (v < -1 || v >= UINT32_MAX) {
		pf_damaged(c->f, "a number is out of range");
		return 0;
	}
	return (uint32_t)v;
}

static struct hash
get_hash(struct cell *c)
{
	struct bytes b = pf_get_bytes(c->f, c->s, c->at);
	struct hash h = {{0}};

	if (b.n == sizeof(h.b))
		memcpy(h.b, b.p, b.n);
	else
		pf_damaged(c->f, "a kernel's hash has a wrong size");
	return h;
}

static unsigned
get_name(struct cell *c, const char *const *names, unsigned n, const char *fault)
{
	struct str name = pf_get_str(c->f, c->s, c->at, c->a);

	for (unsigned i = 0; i < n; i++)
		if (str_is(name, names[i]))
			return i;
	pf_damaged(c->f, fault);
	return 0;
}

FIELD(BOOL, bool, pf_bind_int(c->f, c->s, c->at, v), pf_get_bool(c->f, c->s, c->at))
FIELD(U32, uint32_t, pf_bind_int(c->f, c->s, c->at, v), pf_get_u32(c->f, c->s, c->at))
FIELD(INDEX, uint32_t, pf_bind_int(c->f, c->s, c->at, v == PLAN_NONE ? -1 : (int64_t)v), get_index(c))
FIELD(I64, int64_t, pf_bind_int(c->f, c->s, c->at, v), pf_get_int(c->f, c->s, c->at))
FIELD(SIZE, size_t, pf_bind_int(c->f, c->s, c->at, (int64_t)v), pf_get_size(c->f, c->s, c->at))
FIELD(REAL, double, pf_bind_real(c->f, c->s, c->at, v), pf_get_real(c->f, c->s, c->at))
FIELD(TEXT, struct str, pf_bind_str(c->f, c->s, c->at, v), pf_get_str(c->f, c->s, c->at, c->a))
FIELD(HASH, struct hash, pf_bind_bytes(c->f, c->s, c->at, v.b, sizeof(v.b)), get_hash(c))
FIELD(DTYPE, enum dtype, pf_bind_str(c->f, c->s, c->at, str_of(dtype_name(v))),
    pf_get_dtype(c->f, c->s, c->at, c->a))
FIELD(SHAPE, struct shape, pf_bind_shape(c->f, c->s, c->at, c->a, &v), pf_get_shape(c->f, c->s, c->at, c->a))
FIELD(FATE, enum plan_fate, pf_bind_str(c->f, c->s, c->at, str_of(fates[v])),
    (enum plan_fate)get_name(c, fates, FATE_COUNT, "a node has no known fate"))
FIELD(PLACE, enum place_kind, pf_bind_str(c->f, c->s, c->at, str_of(place_names[v])),
    (enum place_kind)get_name(c, place_names, COUNT_OF(place_names), "a place is of no known kind"))

/* ---- lists of numbers ------------------------------------------------------------------ */
static uint32_t *
get_words(struct cell *c)
{
	return pf_get_u32s(c->f, c->s, c->at, c->a, c->n);
}

FIELD(U32S, uint32_t *, pf_bind_words(c->f, c->s, c->at, c->a, v, *c->n, 4), get_words(c))

static struct overlap *
get_pairs(struct cell *c)
{
	uint32_t n, *words = pf_get_u32s(c->f, c->s, c->at, c->a, &n);
	struct overlap *list = NEW_ARRAY(c->a, struct overlap, n / 2);

	if (n % 2)
		pf_damaged(c->f, "the overlaps of a kernel are no pairs");
	*c->n = n / 2;
	for (uint32_t i = 0; i < n / 2; i++)
		list[i] = (struct overlap){words[2 * i], words[2 * i + 1]};
	return list;
}

FIELD(PAIRS, struct overlap *, pf_bind_words(c->f, c->s, c->at, c->a, v, 2 * *c->n, 4), get_pairs(c))

static void
put_RANGES(struct cell *c, const void *p)
{
	pf_bind_words(c->f, c->s, c->at, c->a, p, *c->n, 8);
}

static void
get_RANGES(struct cell *c, void *p)
{
	struct bytes b = pf_get_bytes(c->f, c->s, c->at);
	int64_t *range = p;

	if (b.n % 8 || b.n / 8 > PLAN_MAX_PASSES) {
		pf_damaged(c->f, "the passes of a kernel are no list");
		return;
	}
	*c->n = (uint32_t)(b.n / 8);
	for (uint32_t i = 0; i < *c->n; i++) {
		uint64_t v = 0;

		for (uint32_t j = 0; j < 8; j++)
			v |= (uint64_t)b.p[i * 8 + j] << 8 * j;
		range[i] = (int64_t)v;
	}
}

struct kind {
	const char *sql;
	void (*put)(struct cell *c, const void *field);
	void (*get)(struct cell *c, void *field);
};
enum kind_id {
	KIND_BOOL,
	KIND_U32,
	KIND_INDEX,
	KIND_I64,
	KIND_SIZE,
	KIND_REAL,
	KIND_TEXT,
	KIND_HASH,
	KIND_DTYPE,
	KIND_SHAPE,
	KIND_FATE,
	KIND_PLACE,
	KIND_U32S,
	KIND_PAIRS,
	KIND_RANGES
};
#define KIND(NAME, SQL) [KIND_##NAME] = {SQL, put_##NAME, get_##NAME}
static const struct kind kinds[] = {KIND(BOOL, "INTEGER"), KIND(U32, "INTEGER"), KIND(INDEX, "INTEGER"),
    KIND(I64, "INTEGER"), KIND(SIZE, "INTEGER"), KIND(REAL, "REAL"), KIND(TEXT, "TEXT"), KIND(HASH, "BLOB"),
    KIND(DTYPE, "TEXT"), KIND(SHAPE, "TEXT"), KIND(FATE, "TEXT"), KIND(PLACE, "TEXT"), KIND(U32S, "BLOB"),
    KIND(PAIRS, "BLOB"), KIND(RANGES, "BLOB")};

/* ---- the tables ------------------------------------------------------------------------ */
struct column {
	const char *name;
	enum kind_id kind;
	size_t at, n_at; /* of the field, and of a list's count, in the row's struct */
	int since;       /* format; 0: any */
};
/* A function a table, so that ROW is its own struct. */
#define TABLE(NAME, STRUCT, LIST_AT, COUNT_AT)                                                               \
	static const struct column *columns_of_##NAME(int *n)                                                \
	{                                                                                                    \
		typedef struct STRUCT ROW;                                                                   \
		static const struct column list[] = {
#define COL(ID, COLUMN, AT) {#COLUMN, KIND_##ID, offsetof(ROW, AT), 0, 0},
#define COL5(ID, COLUMN, AT) {#COLUMN, KIND_##ID, offsetof(ROW, AT), 0, 5},
#define LIST(ID, COLUMN, AT, COUNT) {#COLUMN, KIND_##ID, offsetof(ROW, AT), offsetof(ROW, COUNT), 0},
#define END(NAME)                                                                                            \
	}                                                                                                    \
	;                                                                                                    \
	*n = (int)COUNT_OF(list);                                                                            \
	return list;                                                                                         \
	}
#include "plan_table.def"

struct table {
	const char *name;
	const struct column *(*columns)(int *n);
	size_t row_bytes, list_at, n_at; /* the list and its count are fields of struct plan */
	bool may_lack;                   /* older files of the format do not have it */
};
static const struct table tables[] = {
#define ROW_OF(NAME, STRUCT, LIST_AT, COUNT_AT, MAY_LACK)                                                    \
	{#NAME, columns_of_##NAME, sizeof(struct STRUCT), offsetof(struct plan, LIST_AT),                    \
	    offsetof(struct plan, COUNT_AT), MAY_LACK},
#define TABLE(NAME, STRUCT, LIST_AT, COUNT_AT) ROW_OF(NAME, STRUCT, LIST_AT, COUNT_AT, false)
#define NEW_TABLE(NAME, STRUCT, LIST_AT, COUNT_AT) ROW_OF(NAME, STRUCT, LIST_AT, COUNT_AT, true)
#define COL(ID, COLUMN, AT)
#define LIST(ID, COLUMN, AT, COUNT)
#define END(NAME)
#include "plan_table.def"
};

static void
create(struct plan_db *f, struct arena *tmp, const struct table *t)
{
	struct strbuf sql;
	int n;
	const struct column *c = t->columns(&n);

	sb_init(&sql, tmp);
	sb_addf(&sql, "CREATE TABLE %s(id INTEGER PRIMARY KEY", t->name);
	for (int i = 0; i < n; i++)
		sb_addf(&sql, ", %s %s NOT NULL", c[i].name, kinds[c[i].kind].sql);
	sb_addz(&sql, ") STRICT;");
	pf_run_sql(f, sql.p);
}

void
pf_create_tables(struct plan_db *f, struct arena *tmp)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++)
		create(f, tmp, &tables[i]);
}

int
pf_word_bytes(const char *table, const char *column)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++) {
		int n;
		const struct column *c = tables[i].columns(&n);

		for (int k = 0; k < n; k++)
			if (strcmp(tables[i].name, table) == 0 && strcmp(c[k].name, column) == 0)
				return c[k].kind == KIND_RANGES                         ? 8
				    : c[k].kind == KIND_U32S || c[k].kind == KIND_PAIRS ? 4
											: 0;
	}
	return 0;
}

static sqlite3_stmt *
prepare_insert(struct plan_db *f, struct arena *tmp, const char *name, int n_columns)
{
	struct strbuf sql;

	sb_init(&sql, tmp);
	sb_addf(&sql, "INSERT INTO %s VALUES(?", name);
	for (int i = 0; i < n_columns; i++)
		sb_addz(&sql, ",?");
	sb_addc(&sql, ')');
	return pf_prepare(f, sql.p);
}

static void
save(struct plan_db *f, struct arena *tmp, const struct table *t, const struct plan *p)
{
	int n_columns;
	const struct column *col = t->columns(&n_columns);
	struct cell c = {.f = f, .s = prepare_insert(f, tmp, t->name, n_columns), .a = tmp};
	const uint8_t *list;
	uint32_t n;

	memcpy(&list, (const uint8_t *)p + t->list_at, sizeof(list));
	memcpy(&n, (const uint8_t *)p + t->n_at, sizeof(n));
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *row = list + i * t->row_bytes;

		pf_bind_int(f, c.s, 1, i);
		for (int k = 0; k < n_columns; k++) {
			uint32_t count;

			c.at = k + 2;
			c.n = &count;
			memcpy(&count, row + col[k].n_at, col[k].n_at ? sizeof(count) : 0);
			kinds[col[k].kind].put(&c, row + col[k].at);
		}
		pf_put_row(f, c.s);
	}
	(void)sqlite3_finalize(c.s);
}

void
pf_save_tables(struct plan_db *f, struct arena *tmp, const struct plan *p)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++)
		save(f, tmp, &tables[i], p);
}

static sqlite3_stmt *
prepare_select(struct plan_db *f, struct arena *tmp, const char *name, const struct column *c, int n)
{
	struct strbuf sql;

	sb_init(&sql, tmp);
	sb_addz(&sql, "SELECT id");
	for (int i = 0; i < n; i++)
		sb_addf(&sql, c[i].since <= f->version ? ", %s" : ", 0.0", c[i].name);
	sb_addf(&sql, " FROM %s ORDER BY id", name);
	return pf_prepare(f, sql.p);
}

static bool
has_table(struct plan_db *f, const char *name)
{
	sqlite3_stmt *s =
	    pf_prepare(f, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?");
	bool has;

	pf_bind_str(f, s, 1, str_of(name));
	has = pf_next_row(f, s) && pf_get_int(f, s, 0) == 1;
	(void)sqlite3_finalize(s);
	return has;
}

static void
load(struct plan_db *f, struct arena *a, const struct table *t, struct plan *p)
{
	int n_columns;
	const struct column *col = t->columns(&n_columns);
	uint32_t n = pf_count_rows(f, t->name);
	uint8_t *list = arena_alloc(a, ck_mul(n, t->row_bytes));
	struct cell c = {.f = f, .s = prepare_select(f, a, t->name, col, n_columns), .a = a};

	for (uint32_t i = 0; i < n && pf_row_at(f, c.s, i); i++) {
		uint8_t *row = list + i * t->row_bytes;

		for (int k = 0; k < n_columns; k++) {
			uint32_t count = 0;

			c.at = k + 1;
			c.n = &count;
			kinds[col[k].kind].get(&c, row + col[k].at);
			memcpy(row + col[k].n_at, &count, col[k].n_at ? sizeof(count) : 0);
		}
	}
	(void)sqlite3_finalize(c.s);
	memcpy((uint8_t *)p + t->list_at, &list, sizeof(list));
	memcpy((uint8_t *)p + t->n_at, &n, sizeof(n));
}

void
pf_load_tables(struct plan_db *f, struct arena *a, struct plan *p)
{
	for (size_t i = 0; i < COUNT_OF(tables); i++)
		if (!tables[i].may_lack || has_table(f, tables[i].name))
			load(f, a, &tables[i], p);
}
