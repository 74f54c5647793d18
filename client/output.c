/* client/output.c: see output.h. */
#include "output.h"

#include "../kernels/base/out.h"

#include <errno.h>
#include <string.h>

bool
output_check(const struct opts *o, const char *path, struct err *e)
{
	struct err why = {0};

	if (!out_check(path, &why))
		return err_set(e, why.code, "-o %s", why.msg);
	if (opt_flag(o, OPT_json) && out_is_stdout(path))
		return err_set(e, ERR_USAGE,
		    "-o %s: that is stdout, where --json writes; name a file, or leave one out", path);
	return true;
}

FILE *
output_words(const char *path)
{
	return *path && out_is_stdout(path) ? stderr : stdout;
}

char *
output_of_model(struct arena *a, const char *model)
{
	const char *slash = strrchr(model, '/'), *name = slash ? slash + 1 : model;
	size_t n = strlen(name);

	if (n > 5 && strcmp(name + n - 5, ".onnx") == 0)
		n -= 5;
	return arena_printf(a, "%.*s.korch", (int)n, name);
}

char *
output_shell(struct arena *a, const char *path)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+,@%-";
	struct strbuf sb;

	sb_init(&sb, a);
	if (path[0] == '-')
		sb_addz(&sb, "./");
	if (*path && path[strspn(path, plain)] == '\0') {
		sb_addz(&sb, path);
		return sb.p;
	}
	sb_addc(&sb, '\'');
	for (; *path; path++)
		if (*path == '\'')
			sb_addz(&sb, "'\\''");
		else
			sb_addc(&sb, *path);
	sb_addc(&sb, '\'');
	return sb.p;
}

char *
output_program(struct arena *a, const char *name)
{
	const char *self = program_invocation_name, *slash = strrchr(self, '/');

	return output_shell(a, slash ? arena_printf(a, "%.*s/%s", (int)(slash - self), self, name) : name);
}
