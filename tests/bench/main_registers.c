/* tests/bench/main_registers.c: what kernels/sass says each instruction reads and writes, beside what
 * nvdisasm says of the same cubins.  An instruction is equal, a wall (it differs, and nothing is moved over
 * it), or wrong.
 *
 *   bench-registers [--show=N] CUBIN...     exit 77: no nvdisasm
 *
 * KORCH_NVDISASM: the disassembler; several with ':' between them are tried in turn (one of CUDA 13 for its
 * cubins, one of CUDA 12 for older ones and sm_70).  --show=N: the first N differences of each opcode in
 * full. */
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/sass.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 16384, COLUMNS = 16, NAMES = 512, WORST = 9950 };
struct by_name {
	char name[32];
	uint64_t all, walls, wrong, unknown, shown;
};
struct totals {
	uint64_t all, equal, walls, wrong, unknown;
	uint32_t cubins, kernels, unread, n_names;
	struct by_name name[NAMES];
	uint64_t show;
};
struct column {    /* of one register file: where its number 0 stands in the line, behind "//" */
	char file; /* R P U(R) u(P) */
	uint32_t cell, at;
};
struct listing {
	struct totals *t;
	struct arena arena;
	struct bytes cubin;
	struct sass_kernel k;
	char kernel[8192], files[COLUMNS];
	struct column column[COLUMNS];
	uint32_t n_columns, n_files;
	bool is_read;
};

/* ---- counting ---------------------------------------------------------------------------------------- */
static struct by_name *
named(struct totals *t, const char *name, size_t n)
{
	for (uint32_t i = 0; i < t->n_names; i++)
		if (strlen(t->name[i].name) == n && strncmp(t->name[i].name, name, n) == 0)
			return &t->name[i];
	if (t->n_names == NAMES)
		bug("more than %d opcodes", NAMES);
	struct by_name *b = &t->name[t->n_names++];

	(void)snprintf(b->name, sizeof(b->name), "%.*s", (int)MIN_OF(n, sizeof(b->name) - 1), name);
	return b;
}

static bool
is_equal(const struct sass_set *a, const struct sass_set *b)
{
	return memcmp(a->r, b->r, sizeof(a->r)) == 0 && a->u == b->u && a->p == b->p && a->up == b->up;
}

static void
print_file(const char *name, const uint64_t *words, int n)
{
	for (int r = 0; r < n; r++)
		if (words[r >> 6] >> (r & 63) & 1)
			printf(" %s%d", name, r);
}

static void
print_set(const char *what, const struct sass_set *s)
{
	const uint64_t p = s->p, up = s->up;

	printf(" %s", what);
	if ((s->r[3] | 1ULL << 63) == UINT64_MAX && s->r[0] == UINT64_MAX && s->u >> 62 && p == 0x7f) {
		printf(" everything");
		return;
	}
	print_file("R", s->r, 256);
	print_file("UR", &s->u, 64);
	print_file("P", &p, 8);
	print_file("UP", &up, 8);
}

static void
show(const struct listing *l, const struct sass_instr *i, const char *text, const struct sass_set *defs,
    const struct sass_set *uses)
{
	printf("  sm_%d %03x form %u %016llx %016llx %s\n   ", l->k.sm, (unsigned)(i->lo & 0x1ff),
	    (unsigned)(i->lo >> 9 & 7), (unsigned long long)i->lo, (unsigned long long)i->hi, text);
	print_set("writes", &i->defs);
	print_set("reads", &i->uses);
	printf("\n    nvdisasm");
	print_set("writes", defs);
	print_set("reads", uses);
	printf("\n");
}

static void
compare(struct listing *l, const struct sass_instr *i, const char *name, const char *text,
    const struct sass_set *defs, const struct sass_set *uses)
{
	struct totals *t = l->t;
	struct by_name *b = named(t, name, strcspn(name, ". "));
	const bool equal = is_equal(&i->defs, defs) && is_equal(&i->uses, uses);

	t->all++;
	b->all++;
	t->equal += equal && !(i->flags & SASS_UNKNOWN);
	if (i->flags & SASS_UNKNOWN) {
		t->unknown++;
		b->unknown++;
	} else if (!equal && i->flags & SASS_WALL) {
		t->walls++;
		b->walls++;
	} else if (!equal) {
		t->wrong++;
		b->wrong++;
	}
	if ((!equal || i->flags & SASS_UNKNOWN) && b->shown++ < t->show)
		show(l, i, text, defs, uses);
}

/* ---- a line of nvdisasm -plr ------------------------------------------------------------------------------
 */
/* "GPR | PRED | UGPR | UPRED": which files the cells are. */
static void
read_files(struct listing *l, const char *tail)
{
	l->n_files = 0;
	for (const char *p = strchr(tail, '|'); p && l->n_files < COLUMNS; p = strchr(p + 1, '|')) {
		while (p[1] == ' ')
			p++;
		l->files[l->n_files++] = (char)(strncmp(p + 1, "GPR", 3) == 0 ? 'R'
			: strncmp(p + 1, "PRED", 4) == 0                      ? 'P'
			: strncmp(p + 1, "UGPR", 4) == 0                      ? 'U'
			: strncmp(p + 1, "UPRED", 5) == 0                     ? 'u'
									      : 0);
	}
}

/* "| # 0123 | # 01 |": number 0 stands two places behind '#'. */
static void
read_columns(struct listing *l, const char *tail)
{
	uint32_t cell = 0;

	l->n_columns = 0;
	for (const char *p = strchr(tail, '|'); p && cell < l->n_files; p = strchr(p + 1, '|'), cell++) {
		const char *hash = strchr(p, '#'), *end = strchr(p + 1, '|');

		if (hash && end && hash < end)
			l->column[l->n_columns++] =
			    (struct column){l->files[cell], cell, (uint32_t)(hash + 2 - p - 1)};
	}
}

static void
mark(struct sass_set *s, char file, uint32_t number)
{
	if (file == 'R' && number < SASS_RZ)
		s->r[number >> 6] |= (uint64_t)1 << (number & 63);
	if (file == 'U' && number < 63)
		s->u |= (uint64_t)1 << number;
	if (file == 'P' && number < 7)
		s->p |= (uint8_t)(1U << number);
	if (file == 'u' && number < 7)
		s->up |= (uint8_t)(1U << number);
}

/* '^' written, 'v' read, 'x' both. */
static void
read_marks(const struct listing *l, const char *tail, struct sass_set *defs, struct sass_set *uses)
{
	uint32_t cell = 0;

	for (const char *p = strchr(tail, '|'); p; p = strchr(p + 1, '|'), cell++) {
		for (uint32_t c = 0; c < l->n_columns; c++) {
			if (l->column[c].cell != cell)
				continue;
			for (uint32_t n = 0, at = l->column[c].at + 1; p[at] && p[at] != '|'; n++, at++) {
				if (p[at] == '^' || p[at] == 'x')
					mark(defs, l->column[c].file, n);
				if (p[at] == 'v' || p[at] == 'x')
					mark(uses, l->column[c].file, n);
			}
		}
	}
}

/* nvdisasm's marks leave out the predicates that it prints as "PR" and a mask; and have LDGSTS write the
 * predicate that it reads, which code of ptxas contradicts: copies behind one another read it without a wait.
 */
static void
mend_marks(const char *body, struct sass_set *defs, struct sass_set *uses)
{
	const char *mask = strrchr(body, ',');
	const bool is_read = strncmp(body, "P2R", 3) == 0, is_written = strncmp(body, "R2P", 3) == 0;

	if ((is_read || is_written) && mask)
		(is_read ? uses : defs)->p |= (uint8_t)(strtoul(mask + 1, NULL, 0) & 0x7f);
	if (strncmp(body, "LDGSTS", 6) == 0)
		defs->p = 0;
}

static void
read_instruction(struct listing *l, char *line, const char *tail)
{
	char *text = strstr(line, "*/"), *end = strchr(line, ';');
	const uint32_t at = (uint32_t)strtoul(strstr(line, "/*") + 2, NULL, 16) / SASS_BYTES;
	struct sass_set defs = {.u = 0}, uses = {.u = 0};

	if (!l->is_read || !text || !end || at >= l->k.n_instr)
		return;
	text += 2 + strspn(text + 2, " \t");
	*end = 0;
	const bool is_guarded = *text == '@';
	const char *body = is_guarded ? strchr(text, ' ') : text;

	body += strspn(body, " ");
	read_marks(l, tail, &defs, &uses);
	mend_marks(body, &defs, &uses);
	if (is_guarded)
		sass_set_join(&uses, &defs); /* what is not written stays as it was */
	compare(l, &l->k.instr[at], body, text, &defs, &uses);
}

static void
read_section(struct listing *l, const char *name)
{
	struct err e = {0};

	(void)snprintf(l->kernel, sizeof(l->kernel), "%.*s", (int)strcspn(name, " \t\n"), name);
	arena_fini(&l->arena);
	l->is_read = sass_read(&l->arena, l->cubin, l->kernel, &l->k, &e);
	l->t->kernels += l->is_read;
	l->t->unread += !l->is_read;
	if (!l->is_read)
		printf("%s: %s\n", l->kernel, e.msg);
}

static void
read_line(struct listing *l, char *line)
{
	static const char section[] = "//--------------------- .text.";
	char *tail = strstr(line, "// ");
	char *last = tail;

	if (strncmp(line, section, sizeof(section) - 1) == 0) {
		read_section(l, line + sizeof(section) - 1);
		return;
	}
	while (last && (last = strstr(last + 1, "// |")))
		tail = last;
	if (!tail || !strchr(tail, '|'))
		return;
	line[strcspn(line, "\n")] = 0;
	if (strstr(tail, "GPR") && !strchr(tail, '^'))
		read_files(l, tail);
	else if (strstr(tail, "# 0"))
		read_columns(l, tail);
	else if (strncmp(line + strspn(line, " \t"), "/*", 2) == 0)
		read_instruction(l, line, tail);
}

/* ---- files
 * ---------------------------------------------------------------------------------------------------- */
static bool
disassemble(const char *tool, const char *path, struct totals *t, struct bytes cubin)
{
	char command[2 * OS_PATH_MAX + 64], *line = malloc(LINE);
	struct listing l = {.t = t, .cubin = cubin};
	const uint32_t before = t->kernels + t->unread;

	(void)snprintf(command, sizeof(command), "'%s' -c -plr -lrm narrow '%s' 2>/dev/null", tool, path);
	FILE *f = line ? popen(command, "r") : NULL;

	while (f && fgets(line, LINE, f))
		read_line(&l, line);
	arena_fini(&l.arena);
	free(line);
	return f && pclose(f) == 0 && t->kernels + t->unread > before;
}

/* With the first of the disassemblers that can. */
static bool
read_cubin(struct arena *a, const char *tools, const char *path, struct totals *t)
{
	struct str rest = str_of(tools);
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a, path, 64 << 20, &b, &e)) {
		printf("%s\n", e.msg);
		return false;
	}
	while (rest.n) {
		struct totals before = *t;

		if (disassemble(str_dup(a, str_cut(&rest, ':')), path, t, b))
			return true;
		*t = before;
	}
	printf("%s: no disassembler reads it\n", path);
	return false;
}

static int
most_differences(const void *x, const void *y)
{
	const struct by_name *a = x, *b = y;
	const uint64_t n = a->walls + a->wrong + a->unknown, m = b->walls + b->wrong + b->unknown;

	return (n < m) - (n > m);
}

static void
print(struct totals *t)
{
	const double all = (double)MAX_OF(t->all, (uint64_t)1) / 100;

	qsort(t->name, t->n_names, sizeof(t->name[0]), most_differences);
	for (uint32_t i = 0; i < t->n_names; i++)
		if (t->name[i].walls + t->name[i].wrong + t->name[i].unknown)
			printf("%-12s %8llu: %llu walls, %llu unknown, %llu wrong\n", t->name[i].name,
			    (unsigned long long)t->name[i].all, (unsigned long long)t->name[i].walls,
			    (unsigned long long)t->name[i].unknown, (unsigned long long)t->name[i].wrong);
	printf("%u cubins, %u kernels, %u not read, %llu instructions: %.3f %% equal, %.3f %% walls, %.3f %% "
	       "unknown, "
	       "%llu wrong\n",
	    t->cubins, t->kernels, t->unread, (unsigned long long)t->all, (double)t->equal / all,
	    (double)t->walls / all, (double)t->unknown / all, (unsigned long long)t->wrong);
}

int
main(int argc, char **argv)
{
	const char *tools = getenv("KORCH_NVDISASM");
	static struct totals t;
	uint32_t bad = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: KORCH_NVDISASM=FILE[:FILE...] bench-registers [--show=N] CUBIN...\n");
		return 2;
	}
	if (!tools || !*tools) {
		printf("SKIP: KORCH_NVDISASM names no disassembler\n");
		return 77;
	}
	for (int i = 1; i < argc; i++) {
		struct arena a = {0};

		if (strncmp(argv[i], "--show=", 7) == 0)
			t.show = strtoul(argv[i] + 7, NULL, 10);
		else if (read_cubin(&a, tools, argv[i], &t))
			t.cubins++;
		else
			bad++;
		arena_fini(&a);
	}
	print(&t);
	return bad || t.wrong || t.equal * 10000 < t.all * WORST ? 1 : 0;
}
