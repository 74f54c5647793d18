/* deploy/docs/facts.c: small tables of single facts: versions, exit statuses, kinds of items. */
#include "docs.h"

#include "../../kernels/base/epoch.h"
#include "../../kernels/target/target.h"
#include "../../proto/msg.h"
#include "../../schema/plan_file.h"
#include "../../schema/store.h"

void
version_numbers(struct docs *d, struct strbuf *sb)
{
	(void)d;
	sb_addz(sb, "| number | is | where |\n|---|--:|---|\n");
	sb_addf(sb, "| package version | %s | `project(korch VERSION ...)` in `CMakeLists.txt` |\n",
	    KORCH_VERSION);
	sb_addf(sb, "| soname of libkorch | %d | its first part |\n", KORCH_SOVERSION);
	sb_addf(sb, "| protocol version | %d | `PROTO_VERSION` in `proto/msg.h` |\n", (int)PROTO_VERSION);
	sb_addf(sb, "| store schema | %d | `STORE_SCHEMA` in `schema/store.h` |\n", (int)STORE_SCHEMA);
	sb_addf(sb,
	    "| plan format | %d, reads from %d on | `PLAN_FILE_VERSION`, `PLAN_FILE_OLDEST` in "
	    "`schema/plan_file.h` |\n",
	    (int)PLAN_FILE_VERSION, (int)PLAN_FILE_OLDEST);
	sb_addf(sb, "| export format | %.*s | `CACHE_EXPORT_MAGIC` in `schema/store.h` |\n",
	    (int)sizeof(CACHE_EXPORT_MAGIC) - 2 - 12, CACHE_EXPORT_MAGIC + 12);
	sb_addf(sb, "| generator epoch | %d | `GENERATOR_EPOCH` in `kernels/base/epoch.h` |\n",
	    (int)GENERATOR_EPOCH);
}

void
versions_now(struct docs *d, struct strbuf *sb)
{
	(void)d;
	sb_addf(sb, "| this one | %d | %d | %d | %d, %d-%d | %.*s |\n", (int)PROTO_VERSION,
	    (int)GENERATOR_EPOCH, (int)STORE_SCHEMA, (int)PLAN_FILE_VERSION, (int)PLAN_FILE_OLDEST,
	    (int)PLAN_FILE_VERSION, (int)sizeof(CACHE_EXPORT_MAGIC) - 2 - 12, CACHE_EXPORT_MAGIC + 12);
}

void
exit_statuses(struct docs *d, struct strbuf *sb)
{
	(void)d;
	sb_addz(sb, "| exit status | wire | class | |\n|--:|--:|---|---|\n");
	for (int i = 0; i < ERR_COUNT; i++) {
		enum err_code c = (enum err_code)i;

		sb_addf(sb, "| %d | %d | %s | ", err_exit_status(c), err_wire(c), err_name(c));
		docs_cell(sb, str_of(err_text(c)));
		sb_addz(sb, " |\n");
	}
}

void
task_kinds(struct docs *d, struct strbuf *sb)
{
	static const char *const words[TASK_KINDS] = {
#define TASK(ID, NAME, WORDS) [TASK_##ID] = WORDS,
#include "../../proto/task.def"
	};

	(void)d;
	sb_addz(sb, "| kind | | |\n|--:|---|---|\n");
	for (uint32_t i = 0; i < TASK_KINDS; i++) {
		sb_addf(sb, "| %u | %s | ", i, task_kind_name(i));
		docs_cell(sb, str_of(words[i]));
		sb_addz(sb, " |\n");
	}
}

void
export_items(struct docs *d, struct strbuf *sb)
{
	static const struct {
		char letter;
		const char *record, *words;
	} row[] = {
#define EXPORT(LETTER, FN, RECORD, WORDS) {LETTER, RECORD, WORDS},
#include "../../schema/export.def"
	};

	(void)d;
	sb_addz(sb, "| letter | record | |\n|---|---|---|\n");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		sb_addf(sb, "| %c | ", row[i].letter);
		if (row[i].record[0])
			sb_addf(sb, "[%s](../proto/WIRE.md#%s)", row[i].record, row[i].record);
		sb_addz(sb, " | ");
		docs_cell(sb, str_of(row[i].words));
		sb_addz(sb, " |\n");
	}
}
