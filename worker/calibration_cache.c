/* worker/calibration_cache.c: one file for each environment in a folder: a head, the struct as it
 * is in memory, its digest.  A file of another version of this program does not fit and is
 * made anew. */
#include "calibration_cache.h"

#include "../kernels/base/opt.h"

#include <string.h>

struct frozen {
	char magic[16];
	uint64_t bytes;
	struct calibration cal;
	struct hash digest;
};
static const char MAGIC[16] = "korch cal 2";

static const char *
folder_of(struct arena *a, const char *given)
{
	return given && *given ? given : xdg_dir(a, XDG_CACHE);
}

static char *
file_of(struct arena *a, const char *folder, const char *environment, bool is_quick)
{
	struct hash h = hash_bytes(environment, strlen(environment));
	char hex[65];

	hash_hex(&h, hex);
	return arena_printf(a, "%s/calibration-%s%.16s", folder_of(a, folder), is_quick ? "quick-" : "", hex);
}

static bool
load(const char *folder, const char *environment, bool is_quick, struct calibration *out)
{
	struct arena a = {0};
	struct frozen *f = NEW(&a, struct frozen);
	struct bytes b = {0};
	struct hash h;
	struct err e = {0};
	bool ok =
	    os_read_file(os_real(), &a, file_of(&a, folder, environment, is_quick), sizeof(*f), &b, &e) &&
	    b.n == sizeof(*f);

	if (ok) {
		memcpy(f, b.p, sizeof(*f));
		h = hash_bytes(&f->cal, sizeof(f->cal));
		ok = memcmp(f->magic, MAGIC, sizeof(MAGIC)) == 0 && f->bytes == sizeof(f->cal) &&
		    hash_eq(&h, &f->digest);
	}
	if (ok)
		*out = f->cal;
	arena_fini(&a);
	return ok;
}

static bool
save(const char *folder, const char *environment, bool is_quick, const struct calibration *c, struct err *e)
{
	struct arena a = {0};
	struct frozen *f = NEW(&a, struct frozen);
	bool ok;

	memcpy(f->magic, MAGIC, sizeof(MAGIC));
	f->bytes = sizeof(f->cal);
	memcpy(&f->cal, c, sizeof(f->cal));
	f->digest = hash_bytes(&f->cal, sizeof(f->cal));
	ok = os_make_dirs(folder_of(&a, folder), e) &&
	    os_write_file(os_real(), file_of(&a, folder, environment, is_quick),
		(struct bytes){(const uint8_t *)f, sizeof(*f)}, e);
	arena_fini(&a);
	return ok;
}

bool
calibration_load_for(const char *folder, const char *environment, struct calibration *out)
{
	return load(folder, environment, false, out);
}

bool
calibration_save_for(const char *folder, const char *environment, const struct calibration *c, struct err *e)
{
	return save(folder, environment, false, c, e);
}

/* The CPU's: its environment is known without measuring. */
static bool
environment_here(struct dev_info *info, struct err *e)
{
	enum isa isa;

	return dev_cpu_isa(&isa, e) && measure_environment(target_of_isa(isa), info, e);
}

bool
calibration_load(const char *folder, bool may_be_quick, struct calibration *out, bool *is_quick)
{
	struct arena a = {0};
	struct dev_info *info = NEW(&a, struct dev_info);
	struct err e = {0};
	bool is_here = environment_here(info, &e),
	     ok = is_here && load(folder, info->environment, false, out);

	*is_quick = !ok && may_be_quick;
	ok = ok || (is_here && may_be_quick && load(folder, info->environment, true, out));
	arena_fini(&a);
	return ok;
}

bool
calibration_save(const char *folder, bool is_quick, const struct calibration *c, struct err *e)
{
	struct arena a = {0};
	struct dev_info *info = NEW(&a, struct dev_info);
	bool ok = environment_here(info, e) && save(folder, info->environment, is_quick, c, e);

	arena_fini(&a);
	return ok;
}
