/* worker/frozen.c: one file for each environment in the cache folder: a head, the struct as it
 * is in memory, its digest.  A file of another version of this program does not fit and is
 * made anew. */
#include "frozen.h"

#include "../kernels/base/opt.h"

#include <string.h>

struct frozen {
	char magic[16];
	uint64_t bytes;
	struct calibration cal;
	struct hash digest;
};
static const char MAGIC[16] = "korch cal 1";

static bool
file_of_here(struct arena *a, char **path, struct err *e)
{
	struct dev_info *info = NEW(a, struct dev_info);
	const struct target *t = dev_cpu_simd_bytes() == 32 ? &target_avx2 : &target_sse42;
	struct hash h;
	char hex[65];

	if (!measure_environment(t, info, e))
		return false;
	h = hash_bytes(info->environment, strlen(info->environment));
	hash_hex(&h, hex);
	*path = arena_printf(a, "%s/calibration-%.16s", xdg_dir(a, XDG_CACHE), hex);
	return true;
}

bool
frozen_load(struct calibration *out)
{
	struct arena a = {0};
	struct frozen *f = NEW(&a, struct frozen);
	struct bytes b = {0};
	struct hash h;
	char *path;
	struct err e = {0};
	bool ok = file_of_here(&a, &path, &e) && os_read_file(os_real(), &a, path, sizeof(*f), &b, &e) &&
	    b.n == sizeof(*f);

	if (ok) {
		memcpy(f, b.p, sizeof(*f));
		h = hash_bytes(&f->cal, sizeof(f->cal));
		ok = memcmp(f->magic, MAGIC, sizeof(MAGIC)) == 0 && f->bytes == sizeof(f->cal) && hash_eq(&h, &f->digest);
	}
	if (ok)
		*out = f->cal;
	arena_fini(&a);
	return ok;
}

bool
frozen_save(const struct calibration *c, struct err *e)
{
	struct arena a = {0};
	struct frozen *f = NEW(&a, struct frozen);
	char *path;
	bool ok;

	memcpy(f->magic, MAGIC, sizeof(MAGIC));
	f->bytes = sizeof(f->cal);
	memcpy(&f->cal, c, sizeof(f->cal));
	f->digest = hash_bytes(&f->cal, sizeof(f->cal));
	ok = file_of_here(&a, &path, e) && os_make_dirs(xdg_dir(&a, XDG_CACHE), e) &&
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)f, sizeof(*f)}, e);
	arena_fini(&a);
	return ok;
}
