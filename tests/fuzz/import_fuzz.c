/* Imports into the cache: a stranger's export comes in whole or not at all, and what came in can be
 * exported again.  The first byte chooses: a whole file, or the items inside one.  runs: 4000 */
#include "../../schema/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct { /* made once: a fuzz target has nobody to hand it over */
	char dir[64];
	struct db *db;
} mine;

static void
leave_nothing(void)
{
	char cmd[128];

	db_close(mine.db);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", mine.dir);
	if (system(cmd) != 0)
		(void)fputs("the folder stays\n", stderr);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct store_conf conf = {.dir = mine.dir};
	struct err e = {0};

	(void)argc;
	(void)argv;
	(void)snprintf(mine.dir, sizeof(mine.dir), "/tmp/korch-import-fuzz-XXXXXX");
	if (!mkdtemp(mine.dir) || !db_open(&mine.db, &conf, &e))
		abort();
	return atexit(leave_nothing);
}

static struct bytes
wrap(struct arena *a, struct bytes items)
{
	static const char magic[] = "KORCH CACHE 1\n";
	size_t head = sizeof(magic) - 1, cap = ZSTD_compressBound(items.n), n;
	uint8_t *p = arena_alloc(a, head + cap);

	memcpy(p, magic, head);
	n = ZSTD_compress(p + head, cap, items.p, items.n, 1);
	if (ZSTD_isError(n))
		abort();
	return (struct bytes){p, head + n};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct bytes in, before, after;
	struct str report;
	struct err e = {0};
	bool ok;

	if (n == 0)
		return 0;
	in = (struct bytes){data + 1, n - 1};
	if (data[0] & 1)
		in = wrap(&a, in);
	if (!db_begin(mine.db, &e) || !cache_export(mine.db, &a, STR(""), &before, &e))
		abort();
	ok = cache_import(mine.db, &a, in, false, &report, &e);
	if (!cache_export(mine.db, &a, STR(""), &after, &e))
		abort();
	if (!ok && (before.n != after.n || memcmp(before.p, after.p, after.n) != 0))
		abort(); /* a refused import left something behind */
	db_rollback(mine.db);
	arena_fini(&a);
	return 0;
}
