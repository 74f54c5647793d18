/* deploy/docs/main_korch_docs.c: korch-docs man|bash DIR, korch-docs pages SOURCE TO. */
#include "docs.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	part_fn *fn;
} parts[] = {
#define PART(NAME, FN) {#NAME, FN},
#include "page.def"
};
static const struct {
	const char *template, *to;
} pages[] = {
#define PAGE(TEMPLATE, TO) {TEMPLATE, TO},
#include "page.def"
};

void
docs_fault(struct docs *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	d->n_faults++;
}

struct str
docs_source(struct docs *d, const char *path)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), d->a, arena_printf(d->a, "%s/%s", d->source, path), 1 << 24, &b, &e)) {
		docs_fault(d, "%s", e.msg);
		return STR("");
	}
	return (struct str){(const char *)b.p, b.n};
}

bool
docs_write(struct docs *d, const char *dir, const char *name, struct str text, struct err *e)
{
	char *path = arena_printf(d->a, "%s/%s", dir, name);

	return os_make_dirs(str_dup(d->a, (struct str){path, (size_t)(strrchr(path, '/') - path)}), e) &&
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text.p, text.n}, e);
}

void
docs_cell(struct strbuf *sb, struct str words)
{
	for (size_t i = 0; i < words.n; i++) {
		if (words.p[i] == '|')
			sb_addz(sb, "\\|");
		else if (words.p[i] == '<')
			sb_addz(sb, "&lt;");
		else
			sb_addc(sb, words.p[i]);
	}
}

static void
put_part(struct docs *d, struct strbuf *sb, struct str name)
{
	for (size_t i = 0; i < COUNT_OF(parts); i++)
		if (str_is(name, parts[i].name)) {
			parts[i].fn(d, sb);
			return;
		}
	docs_fault(d, "deploy/docs/page.def has no part '%.*s'", STR_ARG(name));
}

static bool
write_page(struct docs *d, const char *template, const char *to, const char *dir, struct err *e)
{
	struct str rest = docs_source(d, arena_printf(d->a, "deploy/docs/pages/%s", template));
	struct strbuf sb;

	sb_init(&sb, d->a);
	while (rest.n) {
		struct str line = str_cut(&rest, '\n');

		if (str_starts(line, "@@")) {
			put_part(d, &sb, (struct str){line.p + 2, line.n - 2});
			continue;
		}
		sb_add(&sb, line);
		sb_addc(&sb, '\n');
	}
	return docs_write(d, dir, to, sb_str(&sb), e);
}

static bool
write_pages(struct docs *d, const char *dir, struct err *e)
{
	for (size_t i = 0; i < COUNT_OF(pages); i++)
		if (!write_page(d, pages[i].template, pages[i].to, dir, e))
			return false;
	return true;
}

static bool
run(struct docs *d, int argc, char **argv, struct err *e)
{
	if (argc == 3 && strcmp(argv[1], "man") == 0)
		return docs_man(d, argv[2], e);
	if (argc == 3 && strcmp(argv[1], "bash") == 0)
		return docs_bash(d, argv[2], e);
	if (argc == 4 && strcmp(argv[1], "pages") == 0) {
		d->source = argv[2];
		return write_pages(d, argv[3], e);
	}
	return err_set(e, ERR_USAGE, "usage: korch-docs man DIR | bash DIR | pages SOURCE DIR");
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct docs d = {.a = &a};
	struct err e = {0};
	int status = 0;

	if (!run(&d, argc, argv, &e)) {
		(void)fprintf(stderr, "korch-docs: %s\n", e.msg);
		status = err_exit_status(e.code);
	} else if (d.n_faults) {
		(void)fprintf(stderr, "korch-docs: %u faults\n", d.n_faults);
		status = err_exit_status(ERR_FAILED);
	}
	arena_fini(&a);
	return status;
}
