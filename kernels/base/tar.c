/* kernels/base/tar.c: ustar, files alone.  A header of 512 bytes, the content padded to such blocks, two
 * blocks of zeros at the end. */
#include "tar.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 512, NAME = 100, PREFIX = 155, MAX_FILES = 65536, MAX_DEPTH = 8 };
/* Where the fields of a header are. */
enum {
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_TIME = 136,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_MAGIC = 257,
	AT_PREFIX = 345
};

/* ---- out ---------------------------------------------------------------------------- */
struct packer {
	struct arena *a, tmp;
	struct strbuf out;
	char **names;
	uint32_t n, cap;
	size_t max_bytes;
};

static bool
list(struct packer *p, const char *dir, const char *below, int depth, struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	bool ok = true;

	if (!d)
		return err_set(e, ERR_IO, "%s: cannot open: %s", dir, strerror(errno));
	while (ok && (entry = readdir(d)) != NULL) {
		char *path = arena_printf(&p->tmp, "%s/%s", dir, entry->d_name);
		char *name = arena_printf(&p->tmp, "%s%s", below, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    lstat(path, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
			ok = list(p, path, arena_printf(&p->tmp, "%s/", name), depth + 1, e);
		} else if (S_ISREG(st.st_mode) && p->n < MAX_FILES) {
			GROW(&p->tmp, p->names, p->n, p->cap);
			p->names[p->n++] = name;
		}
	}
	(void)closedir(d);
	return ok;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
put_octal(char *field, int digits, uint64_t v)
{
	for (int i = digits; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

static unsigned
sum_of(const char *head)
{
	unsigned sum = 0;

	for (int i = 0; i < BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : (unsigned char)head[i];
	return sum;
}

/* A name of more than 100 bytes is cut at a '/'. */
static bool
put_name(char *head, const char *name, struct err *e)
{
	size_t n = strlen(name), cut = 0;

	if (n > NAME)
		for (size_t i = 1; i < n && i <= PREFIX; i++)
			if (name[i] == '/' && n - i - 1 <= NAME)
				cut = i;
	if (n > NAME && !cut)
		return err_set(e, ERR_LIMIT, "%s: the name is too long for a tar file", name);
	memcpy(head + AT_PREFIX, name, cut);
	memcpy(head, name + (cut ? cut + 1 : 0), n - (cut ? cut + 1 : 0));
	return true;
}

static bool
put_file(struct packer *p, const char *name, struct bytes b, struct err *e)
{
	static const char zero[BLOCK];
	char head[BLOCK] = {0};

	if (!put_name(head, name, e))
		return false;
	put_octal(head + AT_MODE, 7, 0644);
	put_octal(head + AT_UID, 7, 0);
	put_octal(head + AT_GID, 7, 0);
	put_octal(head + AT_SIZE, 11, b.n);
	put_octal(head + AT_TIME, 11, 0);
	head[AT_TYPE] = '0';
	memcpy(head + AT_MAGIC, "ustar\00000", 8);
	put_octal(head + AT_SUM, 6, sum_of(head));
	head[AT_SUM + 7] = ' ';
	sb_add(&p->out, (struct str){head, BLOCK});
	sb_add(&p->out, (struct str){(const char *)b.p, b.n});
	sb_add(&p->out, (struct str){zero, (BLOCK - b.n % BLOCK) % BLOCK});
	return p->out.n <= p->max_bytes ||
	    err_set(e, ERR_LIMIT, "%s: more than %zu bytes in all", name, p->max_bytes);
}

bool
tar_folder(struct arena *a, const char *dir, size_t max_bytes, struct bytes *out, struct err *e)
{
	static const char end[2 * BLOCK];
	struct packer p = {.a = a, .max_bytes = max_bytes};
	bool ok = list(&p, dir, "", 0, e);

	sb_init(&p.out, a);
	if (p.n)
		qsort(p.names, p.n, sizeof(*p.names), by_name);
	for (uint32_t i = 0; ok && i < p.n; i++) {
		struct arena file = {0};
		struct bytes b;

		ok = os_read_file(
			 os_real(), &file, arena_printf(&file, "%s/%s", dir, p.names[i]), max_bytes, &b, e) &&
		    put_file(&p, p.names[i], b, e);
		arena_fini(&file);
	}
	sb_add(&p.out, (struct str){end, sizeof(end)});
	*out = (struct bytes){(const uint8_t *)p.out.p, p.out.n};
	arena_fini(&p.tmp);
	return ok;
}

/* ---- in ----------------------------------------------------------------------------- */
struct entry {
	char *name;
	struct bytes data;
};

static bool
get_octal(const char *field, int digits, uint64_t *out)
{
	int i = 0;

	*out = 0;
	while (i < digits && field[i] >= '0' && field[i] <= '7')
		*out = *out << 3 | (uint64_t)(field[i++] - '0');
	return i > 0 && (i == digits || field[i] == ' ' || field[i] == '\0');
}

/* Relative, inside, of ordinary parts. */
static bool
name_is_good(const char *name)
{
	struct str rest = str_of(name);
	int depth = 0;

	if (!name[0] || name[0] == '/' || name[rest.n - 1] == '/')
		return false;
	while (rest.n) {
		struct str part = str_cut(&rest, '/');

		if (part.n == 0 || str_is(part, ".") || str_is(part, "..") || ++depth > MAX_DEPTH)
			return false;
	}
	return true;
}

static bool
read_entry(struct arena *a, struct bytes *rest, struct entry *out, struct err *e)
{
	const char *head = (const char *)rest->p;
	uint64_t size, sum;
	char name[NAME + 1] = {0}, prefix[PREFIX + 1] = {0};

	if (!get_octal(head + AT_SUM, 6, &sum) || sum != sum_of(head) ||
	    !get_octal(head + AT_SIZE, 11, &size) || size > rest->n - BLOCK)
		return err_set(e, ERR_FORMAT, "the tar file is damaged or cut off");
	memcpy(name, head, NAME);
	memcpy(prefix, head + AT_PREFIX, PREFIX);
	out->name = arena_printf(a, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
	if ((head[AT_TYPE] != '0' && head[AT_TYPE] != '\0') || !name_is_good(out->name))
		return err_set(
		    e, ERR_FORMAT, "the tar file holds '%.100s', which is no file below it", out->name);
	out->data = (struct bytes){rest->p + BLOCK, (size_t)size};
	size = BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
	*rest = size < rest->n ? (struct bytes){rest->p + size, rest->n - size} : (struct bytes){0};
	return true;
}

static int
by_entry_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool
write_entry(const struct entry *x, const char *dir, struct err *e)
{
	struct arena tmp = {0};
	char *path = arena_printf(&tmp, "%s/%s", dir, x->name);
	char *slash = strrchr(path, '/');
	bool ok = os_make_dirs(str_dup(&tmp, (struct str){path, (size_t)(slash - path)}), e) &&
	    os_write_file(os_real(), path, x->data, e);

	arena_fini(&tmp);
	return ok;
}

bool
tar_unpack(struct bytes tar, const char *dir, struct err *e)
{
	static const char zero[BLOCK];
	struct arena tmp = {0};
	struct entry *list = NULL;
	uint32_t n = 0, cap = 0;
	bool ok = true;

	while (ok && tar.n >= BLOCK && memcmp(tar.p, zero, BLOCK) != 0) {
		if (n == MAX_FILES)
			ok = err_set(e, ERR_LIMIT, "the tar file holds more than %d files", MAX_FILES);
		GROW(&tmp, list, n, cap);
		ok = ok && read_entry(&tmp, &tar, &list[n++], e);
	}
	if (ok && n)
		qsort(list, n, sizeof(*list), by_entry_name);
	for (uint32_t i = 1; ok && i < n; i++)
		if (strcmp(list[i].name, list[i - 1].name) == 0)
			ok = err_set(e, ERR_FORMAT, "the tar file holds '%.100s' twice", list[i].name);
	ok = ok && os_make_dirs(dir, e);
	for (uint32_t i = 0; ok && i < n; i++)
		ok = write_entry(&list[i], dir, e);
	arena_fini(&tmp);
	return ok;
}
