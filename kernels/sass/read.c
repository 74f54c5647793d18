/* kernels/sass/read.c: a kernel of a cubin: its instructions, and which of them must stay where they are. */
#include "decode.h"
#include "elf.h"

#include <string.h>

enum {
	OLDEST_SM = 70,
	MAX_INSTR = 1 << 16,
	OFFSET_BYTES = 4,
	NV_MBARRIERS = 0x39, /* a record's first word is an offset */
	MBARRIER_BYTES = 16,
};

/* Attributes of .nv.info.KERNEL whose values are offsets of instructions: exits, reads of the block's number,
 * what belongs to cooperative groups and whole warps, targets of indirect branches. */
static const uint8_t with_offsets[] = {0x1c, 0x1d, 0x25, 0x27, 0x28, 0x31, 0x34, NV_MBARRIERS};

static void
pin(struct sass_kernel *k, uint64_t offset)
{
	if (offset / SASS_BYTES < k->n_instr)
		k->instr[offset / SASS_BYTES].is_pinned = true;
}

static bool
read_pins(const struct elf *f, const struct elf_section *s, struct sass_kernel *k, struct err *e)
{
	for (uint64_t at = s->at; at < s->at + s->size;) {
		struct elf_record r;

		if (!elf_record(f, s, &at, &r, e))
			return false;
		const uint64_t step = r.attribute == NV_MBARRIERS ? MBARRIER_BYTES : OFFSET_BYTES;

		if (!memchr(with_offsets, r.attribute, sizeof(with_offsets)))
			continue;
		for (uint64_t q = 0; q + OFFSET_BYTES <= r.n; q += step)
			pin(k, elf_u32(f, r.at + q));
	}
	return true;
}

/* What the loader fills in is not known: where a branch goes, above all. */
static void
read_relocations(const struct elf *f, const struct elf_section *s, struct sass_kernel *k)
{
	const uint64_t entry = s->type == ELF_RELA ? 24 : 16;

	for (uint64_t q = 0; q + entry <= s->size; q += entry) {
		const uint64_t at = elf_number(f, s->at + q, 8) / SASS_BYTES;

		pin(k, at * SASS_BYTES);
		if (at >= k->n_instr)
			continue;
		k->instr[at].flags |= SASS_WALL;
		k->instr[at].target = -1;
	}
}

/* Is it the section of that kernel, `prefix` and its name? */
static bool
is_of(const char *section, const char *prefix, const char *kernel)
{
	const size_t n = strlen(prefix);

	return strncmp(section, prefix, n) == 0 && strcmp(section + n, kernel) == 0;
}

static bool
read_tables(const struct elf *f, struct sass_kernel *k, struct err *e)
{
	for (uint32_t q = 0; q < f->n_sections; q++) {
		struct elf_section s;

		if (!elf_section(f, q, &s, e))
			return false;
		const char *name = elf_name(f, &s);

		if (s.type == ELF_NOBITS)
			continue;
		if (is_of(name, ".nv.info.", k->name) && !read_pins(f, &s, k, e))
			return false;
		if (is_of(name, ".rel.text.", k->name) || is_of(name, ".rela.text.", k->name))
			read_relocations(f, &s, k);
	}
	return true;
}

static bool
read_code(struct arena *a, const struct elf *f, struct sass_kernel *k, struct err *e)
{
	const char *title = arena_printf(a, ".text.%s", k->name);
	struct elf_section s;
	bool is_there;

	if (!elf_find(f, title, &s, &is_there, e))
		return false;
	if (!is_there || s.type == ELF_NOBITS)
		return err_set(e, ERR_FORMAT, "cubin: it holds no kernel '%s'", k->name);
	if (s.size == 0 || s.size % SASS_BYTES)
		return err_set(e, ERR_FORMAT,
		    "cubin: kernel '%s': %llu bytes of code are not instructions of %d", k->name,
		    (unsigned long long)s.size, SASS_BYTES);
	if (s.size / SASS_BYTES > MAX_INSTR)
		return err_set(
		    e, ERR_FORMAT, "cubin: kernel '%s': more than %d instructions", k->name, MAX_INSTR);
	k->at = s.at;
	k->n_instr = (uint32_t)(s.size / SASS_BYTES);
	k->instr = NEW_ARRAY(a, struct sass_instr, k->n_instr);
	for (uint32_t q = 0; q < k->n_instr; q++)
		sass_decode(elf_number(f, s.at + (uint64_t)q * SASS_BYTES, 8),
		    elf_number(f, s.at + (uint64_t)q * SASS_BYTES + 8, 8), k->sm, q, k->n_instr,
		    &k->instr[q]);
	return true;
}

bool
sass_read(struct arena *a, struct bytes cubin, const char *name, struct sass_kernel *out, struct err *e)
{
	struct elf f;

	*out = (struct sass_kernel){.name = name};
	if (!elf_open(&f, cubin, e))
		return false;
	if (f.sm < OLDEST_SM)
		return err_set(e, ERR_FORMAT, "cubin: machine code of sm_%d is not known: sm_%d and later is",
		    f.sm, OLDEST_SM);
	out->sm = f.sm;
	out->name = str_dup(a, str_of(name));
	if (!read_code(a, &f, out, e) || !read_tables(&f, out, e))
		return false;
	sass_find_blocks(a, out);
	return true;
}
