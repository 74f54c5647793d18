/* kernels/sass/elf.c: sections, symbols and records of a cubin. */
#include "elf.h"

#include <string.h>

enum { EM_CUDA = 190, OSABI_NEW = 0x41, SECTION_SIZE = 64, MAX_SECTIONS = 4096 };

static bool
holds(struct bytes b, uint64_t at, uint64_t n)
{
	return at <= b.n && n <= b.n - at;
}

uint64_t
elf_number(const struct elf *f, uint64_t at, int n)
{
	uint64_t v = 0;

	if (!holds(f->b, at, (uint64_t)n))
		return 0;
	for (int i = n; i-- > 0;)
		v = v << 8 | f->b.p[at + (uint64_t)i];
	return v;
}

uint32_t
elf_u32(const struct elf *f, uint64_t at)
{
	return (uint32_t)elf_number(f, at, 4);
}

/* The text at `at` of a table of texts; empty where it does not end inside. */
static const char *
text_at(const struct elf *f, const struct elf_section *s, uint64_t at)
{
	if (s->type == ELF_NOBITS || at >= s->size || !memchr(f->b.p + s->at + at, 0, s->size - at))
		return "";
	return (const char *)f->b.p + s->at + at;
}

/* ---- sections -------------------------------------------------------------------------------------- */
bool
elf_section(const struct elf *f, uint32_t i, struct elf_section *out, struct err *e)
{
	uint64_t at = f->table + (uint64_t)i * SECTION_SIZE;

	if (i >= f->n_sections || f->table > f->b.n || !holds(f->b, at, SECTION_SIZE))
		return err_set(e, ERR_FORMAT, "cubin: section %u is not there", i);
	*out = (struct elf_section){.name = elf_u32(f, at),
	    .type = elf_u32(f, at + 4),
	    .link = elf_u32(f, at + 40),
	    .at = elf_number(f, at + 24, 8),
	    .size = elf_number(f, at + 32, 8)};
	if (out->type != ELF_NOBITS && !holds(f->b, out->at, out->size))
		return err_set(e, ERR_FORMAT, "cubin: section %u lies outside the file", i);
	return true;
}

const char *
elf_name(const struct elf *f, const struct elf_section *s)
{
	return text_at(f, &f->names, s->name);
}

bool
elf_find(const struct elf *f, const char *name, struct elf_section *out, bool *is_there, struct err *e)
{
	*is_there = false;
	for (uint32_t i = 0; i < f->n_sections && !*is_there; i++) {
		if (!elf_section(f, i, out, e))
			return false;
		*is_there = strcmp(elf_name(f, out), name) == 0;
	}
	return true;
}

static bool
find_symbols(struct elf *f, struct err *e)
{
	for (uint32_t i = 0; i < f->n_sections; i++) {
		struct elf_section s;

		if (!elf_section(f, i, &s, e))
			return false;
		if (s.type != ELF_SYMTAB)
			continue;
		f->symbols = s;
		return elf_section(f, s.link, &f->symbol_names, e);
	}
	return true;
}

const char *
elf_symbol(const struct elf *f, uint32_t symbol)
{
	const uint64_t at = (uint64_t)symbol * ELF_SYMBOL_SIZE;

	if (f->symbols.size < ELF_SYMBOL_SIZE || at > f->symbols.size - ELF_SYMBOL_SIZE)
		return "";
	return text_at(f, &f->symbol_names, elf_u32(f, f->symbols.at + at));
}

bool
elf_open(struct elf *f, struct bytes b, struct err *e)
{
	enum { HEADER = 64 };

	*f = (struct elf){.b = b};
	if (b.n < HEADER || memcmp(b.p, "\177ELF\2\1", 6) != 0)
		return err_set(e, ERR_FORMAT, "cubin: not a 64-bit ELF file");
	if (elf_number(f, 18, 2) != EM_CUDA || elf_number(f, 58, 2) != SECTION_SIZE)
		return err_set(e, ERR_FORMAT, "cubin: not made for an NVIDIA GPU");
	f->sm = (int)(b.p[7] == OSABI_NEW ? elf_u32(f, 48) >> 8 & 0xff : elf_u32(f, 48) & 0xff);
	f->table = elf_number(f, 40, 8);
	f->n_sections = (uint32_t)elf_number(f, 60, 2);
	if (f->n_sections > MAX_SECTIONS)
		return err_set(e, ERR_FORMAT, "cubin: %u sections", f->n_sections);
	return elf_section(f, (uint32_t)elf_number(f, 62, 2), &f->names, e) && find_symbols(f, e);
}

/* ---- .nv.info ------------------------------------------------------------------------------------------ */
bool
elf_record(
    const struct elf *f, const struct elf_section *s, uint64_t *at, struct elf_record *out, struct err *e)
{
	enum { HEADER = 4, WITH_SIZE = 4 };
	const uint64_t end = s->at + s->size;

	if (*at > end || end - *at < HEADER)
		return err_set(e, ERR_FORMAT, "cubin: a record of .nv.info is cut off");
	const int format = f->b.p[*at];
	const uint32_t value = (uint32_t)elf_number(f, *at + 2, 2);

	*out = (struct elf_record){.attribute = f->b.p[*at + 1],
	    .is_inline = format != WITH_SIZE,
	    .value = value,
	    .at = *at + HEADER,
	    .n = format == WITH_SIZE ? value : 0};
	if (out->n > end - out->at)
		return err_set(e, ERR_FORMAT, "cubin: a record of .nv.info is longer than its section");
	*at = out->at + out->n;
	return true;
}
