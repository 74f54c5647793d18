/* kernels/base/trust.c: see trust.h. */
#include "trust.h"
#include "folder.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_KEYS = 4096 };

struct reading {
	struct arena *a;
	struct trust *t;
	uint32_t cap;
};

static void
add(struct reading *r, const struct sign_pub *k, const char *from)
{
	GROW(r->a, r->t->keys, r->t->n, r->cap);
	r->t->keys[r->t->n++] = (struct trust_key){*k, from};
}

/* Whoever may write a key that counts may run programs here. */
static bool
is_ours_alone(const char *path, const char **why)
{
	struct stat st;

	if (stat(path, &st) != 0)
		*why = "cannot be looked at";
	else if (st.st_uid != geteuid() && st.st_uid != 0)
		*why = "belongs to another user";
	else if (st.st_mode & 022)
		*why = "may be written by others: chmod go-w";
	else
		return true;
	return false;
}

/* A file that lies where keys are looked for; what is wrong with it is said when a key is missed. */
static void
take_file(struct reading *r, const char *folder, const char *path)
{
	struct sign_pub k;
	struct err e = {0};
	const char *why;

	if (!is_ours_alone(folder, &why))
		r->t->passed_over = arena_printf(r->a, "%s %s", folder, why);
	else if (!is_ours_alone(path, &why))
		r->t->passed_over = arena_printf(r->a, "%s %s", path, why);
	else if (!sign_pub_read(path, &k, &e))
		r->t->passed_over = arena_printf(r->a, "%s", e.msg);
	else if (r->t->n < MAX_KEYS)
		add(r, &k, path);
}

static void
take_folder(struct reading *r, const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		size_t n = strlen(d->d_name);

		if (n > 4 && strcmp(d->d_name + n - 4, ".pub") == 0 && d->d_name[0] != '.')
			take_file(r, folder, arena_printf(r->a, "%s/%s", folder, d->d_name));
	}
	if (dir)
		(void)closedir(dir);
}

const char *
trust_own_folder(struct arena *a, const char *data)
{
	const char *dir = data && *data ? data : xdg_dir(a, XDG_DATA);
	bool moved;

	if (access(dir, F_OK) != 0) /* data_folder would make it */
		return NULL;
	return data_folder(a, data, &moved);
}

const char *
trust_kept_folder(struct arena *a)
{
	return arena_printf(a, "%s/trusted", xdg_dir(a, XDG_DATA));
}

bool
trust_read(struct arena *a, const char *data, const char *const *given, uint32_t n_given, struct trust *out,
    struct err *e)
{
	struct reading r = {.a = a, .t = out};
	const char *own;
	struct sign_pub k;

	*out = (struct trust){.passed_over = ""};
	for (uint32_t i = 0; i < n_given; i++) {
		if (strcmp(given[i], "any") == 0) {
			out->any = true;
			continue;
		}
		if (!sign_pub_read(given[i], &k, e))
			return err_in(e, "--trust");
		add(&r, &k, given[i]);
	}
	own = trust_own_folder(a, data);
	if (own && access(arena_printf(a, "%s/sign.pub", own), F_OK) == 0)
		take_file(&r, own, arena_printf(a, "%s/sign.pub", own));
	take_folder(&r, arena_printf(a, "%s/trusted", xdg_dir(a, XDG_CONFIG)));
	take_folder(&r, trust_kept_folder(a));
	return true;
}

const struct trust_key *
trust_find(const struct trust *t, const struct sign_pub *k)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (sign_pub_eq(&t->keys[i].pub, k))
			return &t->keys[i];
	return NULL;
}
