/* deploy/docs/wire.c: the messages as a page.  What a field is, the compiler tells (msg.def expanded once
 * more); what it means is the comment of its line, so the text of msg.def is read too.  Fields of a measured
 * row have their words in meas.def. */
#include "docs.h"

#include "../../proto/meas.h"

#include <string.h>

enum item { ITEM_REC, ITEM_MSG, ITEM_FIELD };
static const struct {
	enum item item;
	const char *kind, *name, *rec; /* rec: of ONE and LIST */
	long tag, max;
} items[] = {
#define REC(N) {.item = ITEM_REC, .name = #N},
#define MSG(NUMBER, N) {.item = ITEM_MSG, .name = #N, .tag = NUMBER},
#define END(N)
#define FIELD(TAG, KIND, N, R, MAX)                                                                          \
	{.item = ITEM_FIELD, .kind = KIND, .name = #N, .rec = R, .tag = TAG, .max = MAX},
#define U64(TAG, N) FIELD(TAG, "U64", N, NULL, 0)
#define I64(TAG, N) FIELD(TAG, "I64", N, NULL, 0)
#define F64(TAG, N) FIELD(TAG, "F64", N, NULL, 0)
#define BOOL(TAG, N) FIELD(TAG, "BOOL", N, NULL, 0)
#define TEXT(TAG, N, MAX) FIELD(TAG, "TEXT", N, NULL, MAX)
#define BYTES(TAG, N, MAX) FIELD(TAG, "BYTES", N, NULL, MAX)
#define HASH(TAG, N) FIELD(TAG, "HASH", N, NULL, 0)
#define REALS(TAG, N, MAX) FIELD(TAG, "REALS", N, NULL, MAX)
#define ONE(TAG, R, N) FIELD(TAG, "ONE", N, #R, 0)
#define LIST(TAG, R, N, MAX) FIELD(TAG, "LIST", N, #R, MAX)
#include "../../proto/msg.def"
};

/* ---- the words ---------------------------------------------------------------------- */
struct scan {
	struct docs *d;
	struct str rest;
	struct strbuf above; /* the comment that ended on the line before */
	struct str record;   /* REC or MSG that the lines belong to */
};

/* The comment that begins in `line`, to its end, on one line; "" where there is none. */
static struct str
comment_of(struct scan *s, struct str line)
{
	const char *from = memmem(line.p, line.n, "/*", 2);
	struct strbuf sb;

	sb_init(&sb, s->d->a);
	if (!from)
		return STR("");
	line = (struct str){from + 2, line.n - (size_t)(from + 2 - line.p)};
	for (;;) {
		const char *end = memmem(line.p, line.n, "*/", 2);
		struct str part = str_trim((struct str){line.p, end ? (size_t)(end - line.p) : line.n});

		if (!end && part.n && part.p[0] == '*' && sb.n)
			part = str_trim((struct str){part.p + 1, part.n - 1});
		if (sb.n && part.n)
			sb_addc(&sb, ' ');
		sb_add(&sb, part);
		if (end || !s->rest.n)
			return sb_str(&sb);
		line = str_trim(str_cut(&s->rest, '\n'));
		if (line.n && line.p[0] == '*' && !str_starts(line, "*/"))
			line = (struct str){line.p + 1, line.n - 1};
	}
}

/* "LIST(3, kv, shapes, 256)": the i-th word in the brackets. */
static struct str
argument(struct str line, int i)
{
	struct str rest = line, word;

	(void)str_cut(&rest, '(');
	rest = str_cut(&rest, ')');
	do
		word = str_trim(str_cut(&rest, ','));
	while (i-- > 0);
	return word;
}

/* The words of record `rec`, or of its field. */
static struct str
words_of(struct docs *d, struct str def, const char *rec, const char *field)
{
	struct scan s = {.d = d, .rest = def};
	struct str above = {0};

	while (s.rest.n) {
		struct str line = str_trim(str_cut(&s.rest, '\n')), words = comment_of(&s, line);
		bool is_rec = str_starts(line, "REC("), is_msg = str_starts(line, "MSG(");

		if (is_rec || is_msg) {
			s.record = argument(line, is_msg);
			if (!field && str_is(s.record, rec))
				return words.n ? words : above;
		} else if (field && str_is(s.record, rec) && !str_starts(line, "END(") &&
		    memchr(line.p, '(', line.n)) {
			bool has_rec = str_starts(line, "ONE(") || str_starts(line, "LIST(");

			if (str_is(argument(line, 1 + has_rec), field))
				return words;
		}
		above = str_starts(line, "/*") && !str_starts(line, "/* ----") ? words : STR("");
	}
	return STR("");
}

static void
put_words(struct docs *d, struct strbuf *sb, struct str def, const char *rec, const char *field)
{
	const struct meas_col *col = field && strcmp(rec, "row") == 0 ? meas_col_of(str_of(field)) : NULL;
	struct str words = col ? str_of(col->words) : words_of(d, def, rec, field);

	if (!words.n)
		docs_fault(d, "proto/msg.def: %s%s%s has no words: put a comment on its line", rec,
		    field ? ", field " : "", field ? field : "");
	docs_cell(sb, words);
}

/* ---- the page ----------------------------------------------------------------------- */
static void
put_field(struct docs *d, struct strbuf *sb, struct str def, const char *rec, size_t i)
{
	sb_addf(sb, "| %ld | `%s` | ", items[i].tag, items[i].name);
	if (items[i].rec)
		sb_addf(sb, "%s [%s](#%s)", items[i].kind, items[i].rec, items[i].rec);
	else
		sb_addz(sb, items[i].kind);
	if (items[i].max)
		sb_addf(sb, " | %ld | ", items[i].max);
	else
		sb_addz(sb, " | | ");
	put_words(d, sb, def, rec, items[i].name);
	sb_addz(sb, " |\n");
}

static void
put_items(struct docs *d, struct strbuf *sb, enum item which)
{
	struct str def = docs_source(d, "proto/msg.def");

	for (size_t i = 0; i < COUNT_OF(items); i++) {
		size_t first = i + 1;

		if (items[i].item != which)
			continue;
		if (which == ITEM_MSG)
			sb_addf(sb, "\n### %ld %s\n\n", items[i].tag, items[i].name);
		else
			sb_addf(sb, "\n### %s\n\n", items[i].name);
		put_words(d, sb, def, items[i].name, NULL);
		sb_addz(sb, "\n");
		for (size_t k = first; k < COUNT_OF(items) && items[k].item == ITEM_FIELD; k++) {
			if (k == first)
				sb_addz(sb, "\n| tag | field | type | limit | |\n|--:|---|---|--:|---|\n");
			put_field(d, sb, def, items[i].name, k);
		}
	}
}

void
wire_messages(struct docs *d, struct strbuf *sb)
{
	put_items(d, sb, ITEM_MSG);
}

void
wire_records(struct docs *d, struct strbuf *sb)
{
	put_items(d, sb, ITEM_REC);
}

void
wire_numbers(struct docs *d, struct strbuf *sb)
{
	(void)d;
	sb_addf(sb, "| | |\n|---|--:|\n| protocol version (`PROTO_VERSION`) | %d |\n", (int)PROTO_VERSION);
	sb_addf(sb, "| bytes of a message over the network, at most | %d |\n", (int)MSG_MAX_BYTES);
	sb_addf(sb, "| bytes of a message between daemon and planner, at most | %d |\n", (int)PIPE_MAX_BYTES);
	sb_addf(sb, "| bytes of a piece of a file | %d |\n", (int)BLOB_CHUNK);
}
