/* client/scrub.c: texts without what must not leave this host; see report.h. */
#include "report.h"

#include "../proto/auth.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_SECRET = 2, MAX_DEPTH = 8 };
static const size_t max_file = (size_t)1 << 30;

void
scrub_add(struct scrub *s, struct str secret, const char *instead, bool whole)
{
	if (secret.n < LEAST_SECRET)
		return;
	GROW(s->arena, s->row, s->n, s->cap);
	s->row[s->n].secret = str_of(str_dup(s->arena, secret));
	s->row[s->n].instead = instead;
	s->row[s->n++].whole = whole;
}

/* Each word of the file but the roles, whatever else may be wrong with it. */
static void
add_tokens(struct scrub *s, const char *path)
{
	struct bytes file;
	struct str rest;
	struct err none = {0};

	if (!*path || !os_read_file(os_real(), s->arena, path, 1 << 20, &file, &none))
		return;
	rest = (struct str){(const char *)file.p, file.n};
	while (rest.n) {
		struct str line = str_cut(&rest, '\n');

		while (line.n) {
			struct str word = str_trim(str_cut(&line, ' '));
			enum auth_role role;

			if (word.n >= 8 && !auth_role_of(word, &role))
				scrub_add(s, word, "(token)", false);
		}
	}
}

void
scrub_init(struct scrub *s, struct arena *a, const struct opts *o)
{
	const char *home = getenv("HOME");
	char host[256] = "";

	*s = (struct scrub){.arena = a};
	add_tokens(s, opt_text(o, OPT_token_file));
	if (home && strlen(home) > 1)
		scrub_add(s, str_of(home), "~", true);
	if (gethostname(host, sizeof(host) - 1) == 0)
		scrub_add(s, str_of(host), "(host)", true);
}

static bool
is_beside(struct str text, size_t at)
{
	return at < text.n && isalnum((unsigned char)text.p[at]);
}

/* The row that stands at a place; s->n: none does. */
static uint32_t
row_at(const struct scrub *s, struct str text, size_t at)
{
	uint32_t r = 0;

	for (; r < s->n; r++) {
		struct str x = s->row[r].secret;

		if (text.n - at >= x.n && memcmp(text.p + at, x.p, x.n) == 0 &&
		    !(s->row[r].whole && ((at && is_beside(text, at - 1)) || is_beside(text, at + x.n))))
			break;
	}
	return r;
}

/* Length of a private key that begins here, to its last line or the end of the text; 0: none does. */
static size_t
key_at(struct str text, size_t at)
{
	static const char begin[] = "-----BEGIN ", end[] = "PRIVATE KEY-----";
	struct str rest = {text.p + at, text.n - at};
	const char *line, *last;

	if (!str_starts(rest, begin))
		return 0;
	line = memchr(rest.p, '\n', rest.n);
	if (!memmem(rest.p, line ? (size_t)(line - rest.p) : rest.n, end, sizeof(end) - 1))
		return 0;
	last = line ? memmem(line, rest.n - (size_t)(line - rest.p), end, sizeof(end) - 1) : NULL;
	return last ? (size_t)(last - rest.p) + sizeof(end) - 1 : rest.n;
}

struct str
scrub_text(const struct scrub *s, struct str text)
{
	struct strbuf sb;

	sb_init(&sb, s->arena);
	for (size_t at = 0; at < text.n;) {
		size_t key = key_at(text, at);
		uint32_t r = row_at(s, text, at);

		if (key) {
			sb_addz(&sb, "(private key)");
			at += key;
		} else if (r < s->n) {
			sb_addz(&sb, s->row[r].instead);
			at += s->row[r].secret.n;
		} else
			sb_addc(&sb, text.p[at++]);
	}
	return sb_str(&sb);
}

static bool
scrub_file(const struct scrub *s, const char *path, struct err *e)
{
	struct arena tmp = {0};
	struct scrub local = *s;
	struct bytes file;
	struct str out;
	bool ok = os_read_file(os_real(), &tmp, path, max_file, &file, e);

	local.arena = &tmp;
	if (ok) {
		out = scrub_text(&local, (struct str){(const char *)file.p, file.n});
		if (out.n != file.n || (out.n && memcmp(out.p, file.p, out.n) != 0))
			ok = os_write_file(os_real(), path, (struct bytes){(const uint8_t *)out.p, out.n}, e);
	}
	arena_fini(&tmp);
	return ok;
}

static bool
scrub_below(const struct scrub *s, const char *dir, int depth, struct err *e)
{
	struct arena tmp = {0};
	DIR *d = opendir(dir);
	struct dirent *entry;
	bool ok = d != NULL || err_set(e, ERR_IO, "%s: cannot read: %s", dir, strerror(errno));

	while (ok && (entry = readdir(d)) != NULL) {
		char *path = arena_printf(&tmp, "%s/%s", dir, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    lstat(path, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
			ok = scrub_below(s, path, depth + 1, e);
		else if (S_ISREG(st.st_mode))
			ok = scrub_file(s, path, e);
	}
	if (d)
		(void)closedir(d);
	arena_fini(&tmp);
	return ok;
}

bool
scrub_folder(const struct scrub *s, const char *dir, struct err *e)
{
	return scrub_below(s, dir, 0, e);
}
