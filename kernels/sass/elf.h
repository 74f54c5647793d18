/* kernels/sass/elf.h: a bounds-checked reader of NVIDIA's ELF, for this folder.  Nothing in a file is
 * believed: each offset and size is checked against the bytes at hand before it is used. */
#ifndef KORCH_SASS_ELF_H
#define KORCH_SASS_ELF_H

#include "../base/base.h"

enum { ELF_NOBITS = 8, ELF_SYMTAB = 2, ELF_RELA = 4, ELF_REL = 9, ELF_SYMBOL_SIZE = 24 };
struct elf_section {
	uint64_t at, size;
	uint32_t name, type, link;
};
struct elf {
	struct bytes b;
	uint64_t table; /* of section headers */
	uint32_t n_sections;
	struct elf_section names, symbols, symbol_names; /* size 0: there is none */
	int sm;
};
/* A record of .nv.info: {format, attribute, ...}. */
struct elf_record {
	int attribute;
	bool is_inline; /* the value itself; else n bytes at `at` */
	uint32_t value; /* inline */
	uint64_t at, n;
};

/* Any bytes; ERR_FORMAT naming what is wrong. */
bool elf_open(struct elf *f, struct bytes b, struct err *e) MUST_CHECK;
bool elf_section(const struct elf *f, uint32_t i, struct elf_section *out, struct err *e) MUST_CHECK;
/* The section of that name; `is_there` says whether it is. */
bool elf_find(
    const struct elf *f, const char *name, struct elf_section *out, bool *is_there, struct err *e) MUST_CHECK;
/* Never NULL: empty where the file says nothing that can be read. */
const char *elf_name(const struct elf *f, const struct elf_section *s);
const char *elf_symbol(const struct elf *f, uint32_t symbol);
/* Little-endian, of n bytes; 0 outside of the file. */
uint64_t elf_number(const struct elf *f, uint64_t at, int n);
uint32_t elf_u32(const struct elf *f, uint64_t at);
/* The record at *at of a section of .nv.info, and *at behind it. */
bool elf_record(const struct elf *f, const struct elf_section *s, uint64_t *at, struct elf_record *out,
    struct err *e) MUST_CHECK;

#endif
