/* client/known.c: see known.h. */
#include "known.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

/* A file's name: what of the URL can stand in one, and some digits of its digest, which tell URLs apart. */
static char *
file_of(struct arena *a, const char *url)
{
	struct hash h = hash_bytes(url, strlen(url));
	char name[NAME_BYTES + 1], hex[65];
	size_t n = 0;

	for (const char *c = url; *c && n < NAME_BYTES; c++) {
		bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		    (*c >= '0' && *c <= '9') || *c == '.';

		if (is_plain && (n || *c != '.'))
			name[n++] = *c;
		else if (n && name[n - 1] != '-')
			name[n++] = '-';
	}
	name[n] = '\0';
	hash_hex(&h, hex);
	return arena_printf(a, "%s/%s-%.12s.pub", trust_kept_folder(a), name, hex);
}

static bool
is_own(struct arena *a, const struct sign_pub *k)
{
	const char *dir = trust_own_folder(a, "");
	struct sign_pub own;
	struct err e = {0};

	return dir && sign_pub_read(arena_printf(a, "%s/sign.pub", dir), &own, &e) && sign_pub_eq(&own, k);
}

static bool
keep(struct arena *a, const char *path, const char *url, const struct sign_pub *k, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb, "the korchd at %s\n", url);
	sb_add(&sb, sign_pub_pem(a, k));
	return os_make_dirs(trust_kept_folder(a), e) &&
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
}

/* A key that cannot be kept is no reason not to work with the daemon. */
static void
meet(struct arena *a, const struct known_daemon *d, const char *path, const struct sign_pub *k)
{
	char print[SIGN_PRINT];
	struct err e = {0};
	bool is_kept = keep(a, path, d->url, k, &e);

	sign_print(k, print);
	if (!is_kept)
		(void)fprintf(
		    stderr, "%s: the key of this korchd, %s, cannot be kept: %s\n", d->program, print, e.msg);
	else if (!d->quiet)
		(void)fprintf(stderr,
		    "%s: the korchd at %s signs its plans with the key %s, which you trust from now on "
		    "(%s)\n",
		    d->program, d->url, print, path);
}

static bool
refuse(
    const char *path, const char *url, const struct sign_pub *was, const struct sign_pub *is, struct err *e)
{
	char before[SIGN_PRINT], now[SIGN_PRINT];

	sign_print(was, before);
	sign_print(is, now);
	return err_set(e, ERR_REFUSED,
	    "the korchd at %s has another key than before: %s, and it was %s; somebody else may answer in "
	    "its place. If you "
	    "know that it was set up anew, delete %s",
	    url, now, before, path);
}

static bool
check(struct arena *a, const struct known_daemon *d, const struct sign_pub *k, struct err *e)
{
	const char *path = file_of(a, d->url);
	struct sign_pub was;

	if (access(path, F_OK) != 0) {
		if (!is_own(a, k))
			meet(a, d, path, k);
		return true;
	}
	if (!sign_pub_read(path, &was, e))
		return err_in(e, "the key kept of the korchd at %s", d->url);
	return sign_pub_eq(&was, k) || refuse(path, d->url, &was, k, e);
}

bool
known_check(const struct known_daemon *d, struct err *e)
{
	struct arena tmp = {0};
	struct sign_pub k;
	bool ok = true;

	if (d->signer.n)
		ok = sign_pub_of(d->signer, &k)
		    ? check(&tmp, d, &k, e)
		    : err_set(e, ERR_PROTO, "the korchd at %s names a key that is none", d->url);
	arena_fini(&tmp);
	return ok;
}
