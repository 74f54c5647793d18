/* daemon/planner/dump.c: the files of a dump. */
#include "dump.h"

#include <string.h>

const char *
dump_dir(struct arena *a, const char *work_dir)
{
	return arena_printf(a, "%s/korch-dump", work_dir);
}

static bool
write_file(const struct dump *d, const char *path, struct str text, struct err *e)
{
	return os_write_file(d->os, path, (struct bytes){(const uint8_t *)text.p, text.n}, e) ||
	    err_in(e, "the dump");
}

bool
dump_put(const struct dump *d, enum job_stage s, const char *args, struct str text, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	if (!dump_wants(d, s))
		return true;
	sb_init(&sb, &tmp);
	sb_addf(&sb, "# %s of %s: %s\n# korch-opt %s %s%s%s%s\n", stage_info[s].name, d->model,
	    stage_info[s].words, stage_info[s].pass, args, stage_info[s].file,
	    stage_info[s].makes[0] ? " # prints the next stage: " : "", stage_info[s].makes);
	sb_add(&sb, text);
	ok = os_make_dirs(d->dir, e) &&
	    write_file(d, arena_printf(&tmp, "%s/%s", d->dir, stage_info[s].file), sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

bool
dump_put_case(const struct dump *d, enum job_stage s, const struct dump_case *c, struct err *e)
{
	struct arena tmp = {0};
	const char *dir = arena_printf(&tmp, "%s/%s", d->dir, stage_info[s].file);
	struct strbuf sb;
	bool ok;

	if (!dump_wants(d, s))
		return true;
	sb_init(&sb, &tmp);
	sb_addf(&sb, "# %s\n> korch-opt %s %s\n", c->what, stage_info[s].pass, c->args);
	sb_add(&sb, c->input);
	sb_addz(&sb, "< exit 0\n");
	sb_add(&sb, c->output);
	ok = os_make_dirs(dir, e) &&
	    write_file(d, arena_printf(&tmp, "%s%s.txt", dir, c->name), sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}
