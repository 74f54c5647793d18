/* client/dump.c: see dump.h. */
#include "dump.h"

#include <stdio.h>
#include <string.h>

const char *
dump_folder(struct arena *a, const struct opts *o, const char *model)
{
	const char *slash = strrchr(model, '/');
	struct str name = str_of(slash ? slash + 1 : model);

	if (*opt_text(o, OPT_dump_dir))
		return opt_text(o, OPT_dump_dir);
	if (name.n > 5 && strcmp(name.p + name.n - 5, ".onnx") == 0)
		name.n -= 5;
	return arena_printf(a, "%.*s.dump", STR_ARG(name));
}

bool
dump_save(struct client *c, const struct opts *o, uint64_t job, const char *model, struct err *e)
{
	struct arena tmp = {0};
	const char *dir = dump_folder(&tmp, o, model);
	bool ok = true;

	if (opt_given(o, OPT_dump)) {
		ok = client_fetch_dump(c, job, dir, e);
		if (ok && !opt_flag(o, OPT_quiet))
			(void)fprintf(stderr, "stages are in %s\n", dir);
	}
	arena_fini(&tmp);
	return ok;
}
