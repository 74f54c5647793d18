/* worker/gpu_fake/cubin.c: the fake compiler's cubins: ELF files with the sections that say what a kernel
 * needs, as NVRTC 12 writes them, and the host's object behind the head. */
#include "gpu_fake_int.h"

#include <stdio.h>
#include <string.h>

enum {
	HEAD = 64,
	SECTION = 64,
	SYMBOL = 24,
	MAX_PASSES = 16,
	MAX_SECTIONS = 5 + 3 * MAX_PASSES,
	PROGBITS = 1,
	SYMTAB = 2,
	STRTAB = 3,
	NOBITS = 8,
	STL_LOW = 0x187,
	STL_128 = 6 << 9
};
struct section {
	uint32_t name, type, link;
	uint64_t at, size;
};
struct writer {
	struct strbuf sb, names;
	struct section s[MAX_SECTIONS];
	uint32_t n;
};

/* The lowest byte first; n may be more than v has. */
static void
put(struct strbuf *sb, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		sb_addc(sb, (char)(i < 8 ? v >> 8 * i : 0));
}

/* What was added since `at` is a section; NOBITS: of `size`. */
static void
section(struct writer *w, const char *name, uint32_t type, uint64_t at, uint64_t size)
{
	w->s[w->n++] =
	    (struct section){(uint32_t)w->names.n, type, 2, at, type == NOBITS ? size : w->sb.n - at};
	sb_addz(&w->names, name);
	sb_addc(&w->names, 0);
}

/* Spills stand behind its end. */
static void
code(struct writer *w, const struct fake_code *head, uint32_t pass, uint32_t stored_bytes)
{
	struct fake_word word[FAKE_MOST_WORDS];
	uint32_t n = gpu_fake_assemble(head, pass, word);

	for (uint32_t i = 0; i < n; i++) {
		put(&w->sb, word[i].lo, 8);
		put(&w->sb, word[i].hi, 8);
	}
	for (uint32_t i = 0; i < stored_bytes / 16; i++) {
		put(&w->sb, STL_LOW, 8);
		put(&w->sb, STL_128, 8);
	}
}

static uint32_t
n_passes(struct str text)
{
	uint32_t n = 0;
	char name[16];

	for (; n < MAX_PASSES; n++) {
		(void)snprintf(name, sizeof(name), "k_p%u(", n);
		if (!memmem(text.p, text.n, name, strlen(name)))
			break;
	}
	return n;
}

static void
passes(struct writer *w, const struct fake_code *head, uint32_t n, const struct fake_figures *f)
{
	char name[48];

	for (uint32_t q = 0; q < n; q++) {
		uint64_t at = w->sb.n;

		code(w, head, q, f->stored_bytes);
		(void)snprintf(name, sizeof(name), ".text.k_p%u", q);
		section(w, name, PROGBITS, at, 0);
		(void)snprintf(name, sizeof(name), ".nv.shared.k_p%u", q);
		if (f->shared_bytes)
			section(w, name, NOBITS, w->sb.n, f->shared_bytes);
	}
}

/* Names of symbols, symbols, and for each {4, REGCOUNT, 8, symbol, registers}. */
static void
symbols(struct writer *w, uint32_t n, const struct fake_figures *f)
{
	uint32_t name_at[MAX_PASSES + 1] = {0};
	uint64_t at = w->sb.n;

	sb_addc(&w->sb, 0);
	for (uint32_t q = 0; q < n; q++) {
		name_at[q + 1] = (uint32_t)(w->sb.n - at);
		sb_addf(&w->sb, "k_p%u", q);
		sb_addc(&w->sb, 0);
	}
	section(w, ".strtab", STRTAB, at, 0);
	at = w->sb.n;
	for (uint32_t q = 0; q <= n; q++) {
		put(&w->sb, name_at[q], 4);
		put(&w->sb, 0, SYMBOL - 4);
	}
	section(w, ".symtab", SYMTAB, at, 0);
	w->s[w->n - 1].link = w->n - 2;
	at = w->sb.n;
	for (uint32_t q = 0; q < n; q++) {
		put(&w->sb, 4 | 0x2f << 8 | 8 << 16, 4);
		put(&w->sb, q + 1, 4);
		put(&w->sb, f->registers, 4);
	}
	section(w, ".nv.info", PROGBITS, at, 0);
}

static void
head(struct strbuf *sb, uint32_t sm, uint64_t table, uint32_t n_sections, uint32_t names)
{
	sb_add(sb, (struct str){"\177ELF\2\1\1\063\7\0\0\0\0\0\0\0", 16});
	put(sb, 2 | 190 << 16, 4);
	put(sb, 1, 4);
	put(sb, 0, 16);
	put(sb, table, 8);
	put(sb, sm | sm << 16, 4);
	put(sb, HEAD, 2);
	put(sb, 0, 4);
	put(sb, SECTION, 2);
	put(sb, n_sections, 2);
	put(sb, names, 2);
}

void
gpu_fake_cubin(struct arena *a, const struct fake_code *code_head, struct bytes object, struct str text,
    const struct fake_figures *f, struct bytes *out)
{
	struct writer w = {.n = 1};
	struct strbuf first;
	uint64_t at;

	sb_init(&w.sb, a);
	sb_init(&w.names, a);
	sb_init(&first, a);
	sb_addc(&w.names, 0);
	put(&w.sb, 0, HEAD);
	sb_add(&w.sb, (struct str){(const char *)code_head, sizeof(*code_head)});
	sb_add(&w.sb, (struct str){(const char *)object.p, object.n});
	symbols(&w, n_passes(text), f);
	passes(&w, code_head, n_passes(text), f);
	section(&w, ".shstrtab", STRTAB, w.sb.n, 0);
	at = w.sb.n;
	sb_add(&w.sb, sb_str(&w.names));
	w.s[w.n - 1].at = at;
	w.s[w.n - 1].size = w.sb.n - at;
	at = w.sb.n;
	for (uint32_t i = 0; i < w.n; i++) {
		put(&w.sb, w.s[i].name, 4);
		put(&w.sb, w.s[i].type, 4);
		put(&w.sb, 0, 16);
		put(&w.sb, w.s[i].at, 8);
		put(&w.sb, w.s[i].size, 8);
		put(&w.sb, w.s[i].link, 4);
		put(&w.sb, 0, 20);
	}
	head(&first, code_head->sm, at, w.n, w.n - 1);
	*out = (struct bytes){arena_dup(a, w.sb.p, w.sb.n), w.sb.n};
	memcpy((void *)(uintptr_t)out->p, first.p, HEAD);
}

const struct fake_code *
gpu_fake_code(const void *image)
{
	const struct fake_code *c = (const void *)((const char *)image + HEAD);

	return memcmp(image, "\177ELF", 4) == 0 && memcmp(c->magic, "FAKECUB", 8) == 0 ? c : NULL;
}
