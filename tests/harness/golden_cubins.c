/* tests/harness/golden_cubins.c: every kernel of tests/golden/sass. */
#include "golden_cubins.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 1024, MAX_CUBIN = 16 << 20 };

static int
by_name(const void *x, const void *y)
{
	return strcmp(*(char *const *)x, *(char *const *)y);
}

static uint32_t
list(struct arena *a, const char *folder, char **out)
{
	DIR *d = opendir(folder);
	uint32_t n = 0;

	for (struct dirent *f; d && n < MAX_FILES && (f = readdir(d));) {
		const char *dot = strrchr(f->d_name, '.');

		if (dot && strcmp(dot, ".cubin") == 0)
			out[n++] = arena_printf(a, "%s/%s", folder, f->d_name);
	}
	if (d)
		(void)closedir(d);
	qsort(out, n, sizeof(*out), by_name);
	return n;
}

static bool
add_file(
    struct arena *a, const char *path, struct golden_kernel **out, uint32_t *n, uint32_t *cap, struct err *e)
{
	const char *const *names;
	uint32_t n_names;
	struct bytes b;

	if (!os_read_file(os_real(), a, path, MAX_CUBIN, &b, e) || !sass_names(a, b, &names, &n_names, e))
		return err_in(e, "%s", path);
	for (uint32_t q = 0; q < n_names; q++) {
		GROW(a, *out, *n, *cap);
		(*out)[*n] = (struct golden_kernel){.file = strrchr(path, '/') + 1, .cubin = b};
		if (!sass_read(a, b, names[q], &(*out)[*n].k, e))
			return err_in(e, "%s", path);
		++*n;
	}
	return true;
}

struct golden_kernel *
golden_cubins(struct arena *a, uint32_t *n, struct err *e)
{
	char **path = NEW_ARRAY(a, char *, MAX_FILES);
	const uint32_t n_files = list(a, KORCH_SOURCE_DIR "/tests/golden/sass", path);
	struct golden_kernel *out = NULL;
	uint32_t cap = 0;

	*n = 0;
	for (uint32_t q = 0; q < n_files; q++)
		if (!add_file(a, path[q], &out, n, &cap, e)) {
			*n = 0;
			return NULL;
		}
	return out;
}
