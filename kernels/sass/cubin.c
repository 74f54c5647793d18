/* kernels/sass/cubin.c: a bounds-checked reader of NVIDIA's ELF.  Nothing in it is believed: each
 * offset, size and index is checked before it is used. */
#include "cubin.h"

#include <string.h>

enum {
	EM_CUDA = 190,
	OSABI_NEW = 0x41, /* CUDA 13: the SM number is in bits 8..15 of the flags */
	SECTION_SIZE = 64,
	SYMBOL_SIZE = 24,
	MAX_SECTIONS = 4096,
	SYMTAB = 2, /* section types */
	NOBITS = 8,
	NV_FRAME = 0x11, /* attributes of .nv.info: {symbol, value} */
	NV_REGISTERS = 0x2f,
	NV_MAX_THREADS = 0x05, /* of .nv.info.KERNEL */
	NV_PARAM_SIZE = 0x19,
	OPCODE_LDL = 0x183, /* low 9 bits of an instruction */
	OPCODE_STL = 0x187,
};

struct section {
	uint32_t name, type, link;
	uint64_t at, size;
};
struct elf {
	struct bytes b;
	uint64_t table;
	uint32_t n_sections;
	struct section names, symbols, symbol_names;
};

/* ---- bytes --------------------------------------------------------------------------------------- */
static bool
holds(struct bytes b, uint64_t at, uint64_t n)
{
	return at <= b.n && n <= b.n - at;
}

/* Little-endian; 0 outside. */
static uint64_t
number(struct bytes b, uint64_t at, int n)
{
	uint64_t v = 0;

	if (!holds(b, at, (uint64_t)n))
		return 0;
	for (int i = n; i-- > 0;)
		v = v << 8 | b.p[at + (uint64_t)i];
	return v;
}

static uint32_t
u32_at(struct bytes b, uint64_t at)
{
	return (uint32_t)number(b, at, 4);
}

/* The text at `at` of a table of texts; empty where it does not end inside. */
static const char *
text_at(const struct elf *f, const struct section *s, uint64_t at)
{
	if (s->type == NOBITS || at >= s->size || !memchr(f->b.p + s->at + at, 0, s->size - at))
		return "";
	return (const char *)f->b.p + s->at + at;
}

/* ---- sections -------------------------------------------------------------------------------------- */
static bool
section_at(const struct elf *f, uint32_t i, struct section *out, struct err *e)
{
	uint64_t at = f->table + (uint64_t)i * SECTION_SIZE;

	if (i >= f->n_sections || f->table > f->b.n || !holds(f->b, at, SECTION_SIZE))
		return err_set(e, ERR_FORMAT, "cubin: section %u is not there", i);
	*out = (struct section){.name = u32_at(f->b, at),
	    .type = u32_at(f->b, at + 4),
	    .link = u32_at(f->b, at + 40),
	    .at = number(f->b, at + 24, 8),
	    .size = number(f->b, at + 32, 8)};
	if (out->type != NOBITS && !holds(f->b, out->at, out->size))
		return err_set(e, ERR_FORMAT, "cubin: section %u lies outside the file", i);
	return true;
}

static bool
find_symbols(struct elf *f, struct err *e)
{
	for (uint32_t i = 0; i < f->n_sections; i++) {
		struct section s;

		if (!section_at(f, i, &s, e))
			return false;
		if (s.type != SYMTAB)
			continue;
		f->symbols = s;
		return section_at(f, s.link, &f->symbol_names, e);
	}
	return true;
}

static bool
open_elf(struct elf *f, struct bytes b, struct cubin *out, struct err *e)
{
	enum { HEADER = 64 };

	*f = (struct elf){.b = b};
	if (b.n < HEADER || memcmp(b.p, "\177ELF\2\1", 6) != 0)
		return err_set(e, ERR_FORMAT, "cubin: not a 64-bit ELF file");
	if (number(b, 18, 2) != EM_CUDA || number(b, 58, 2) != SECTION_SIZE)
		return err_set(e, ERR_FORMAT, "cubin: not made for an NVIDIA GPU");
	out->sm = (int)(b.p[7] == OSABI_NEW ? u32_at(b, 48) >> 8 & 0xff : u32_at(b, 48) & 0xff);
	f->table = number(b, 40, 8);
	f->n_sections = (uint32_t)number(b, 60, 2);
	if (f->n_sections > MAX_SECTIONS)
		return err_set(e, ERR_FORMAT, "cubin: %u sections", f->n_sections);
	return section_at(f, (uint32_t)number(b, 62, 2), &f->names, e) && find_symbols(f, e);
}

/* ---- kernels ------------------------------------------------------------------------------------------ */
static struct cubin_kernel *
kernel_named(struct cubin *c, const char *name)
{
	for (uint32_t i = 0; i < c->n_kernels; i++)
		if (strcmp(c->kernel[i].name, name) == 0)
			return &c->kernel[i];
	return NULL;
}

/* Bytes that a load or store moves: bits 73..75 of the instruction. */
static uint32_t
width_of(uint64_t hi)
{
	static const uint32_t bytes[8] = {1, 1, 2, 2, 4, 8, 16, 0};

	return bytes[hi >> 9 & 7];
}

static void
read_code(const struct elf *f, const struct section *s, struct cubin_kernel *k)
{
	k->n_instructions = (uint32_t)(s->size / 16);
	for (uint64_t at = 0; s->size - at >= 16; at += 16) {
		const uint64_t lo = number(f->b, s->at + at, 8), hi = number(f->b, s->at + at + 8, 8);

		if ((lo & 0x1ff) == OPCODE_STL)
			k->local_stored += width_of(hi);
		if ((lo & 0x1ff) == OPCODE_LDL)
			k->local_loaded += width_of(hi);
	}
}

static bool
find_kernels(const struct elf *f, struct cubin *out, struct err *e)
{
	for (uint32_t i = 0; i < f->n_sections; i++) {
		struct section s;

		if (!section_at(f, i, &s, e))
			return false;
		const char *name = text_at(f, &f->names, s.name);

		if (strncmp(name, ".text.", 6) != 0 || s.type == NOBITS)
			continue;
		if (strlen(name + 6) >= CUBIN_NAME || out->n_kernels == CUBIN_KERNELS)
			return err_set(e, ERR_FORMAT, "cubin: more than %d kernels, or a name of %d letters",
			    CUBIN_KERNELS, CUBIN_NAME);
		struct cubin_kernel *k = &out->kernel[out->n_kernels++];

		*k = (struct cubin_kernel){.registers = 0};
		memcpy(k->name, name + 6, strlen(name + 6) + 1);
		read_code(f, &s, k);
	}
	return true;
}

/* ---- .nv.info: records {format, attribute, ...} ----------------------------------------------------------
 */
static void
note_whole(const struct elf *f, struct cubin *c, int attribute, uint64_t at)
{
	const uint64_t symbol = (uint64_t)u32_at(f->b, at) * SYMBOL_SIZE;

	if (f->symbols.size < SYMBOL_SIZE || symbol > f->symbols.size - SYMBOL_SIZE)
		return;
	struct cubin_kernel *k =
	    kernel_named(c, text_at(f, &f->symbol_names, u32_at(f->b, f->symbols.at + symbol)));

	if (k && attribute == NV_REGISTERS)
		k->registers = u32_at(f->b, at + 4);
	if (k && attribute == NV_FRAME)
		k->frame_bytes = u32_at(f->b, at + 4);
}

/* k NULL: the records of all kernels. */
static bool
read_info(
    const struct elf *f, const struct section *s, struct cubin *c, struct cubin_kernel *k, struct err *e)
{
	enum { WITH_SIZE = 4 };

	for (uint64_t at = s->at, end = s->at + s->size; at < end;) {
		if (end - at < 4)
			return err_set(e, ERR_FORMAT, "cubin: a record of .nv.info is cut off");
		const int format = f->b.p[at], attribute = f->b.p[at + 1];
		const uint64_t value = number(f->b, at + 2, 2), n = format == WITH_SIZE ? value : 0;

		if (n > end - at - 4)
			return err_set(
			    e, ERR_FORMAT, "cubin: a record of .nv.info is longer than its section");
		at += 4;
		if (!k && n >= 8)
			note_whole(f, c, attribute, at);
		if (k && attribute == NV_MAX_THREADS && n >= 4)
			k->max_threads = u32_at(f->b, at);
		if (k && attribute == NV_PARAM_SIZE && format != WITH_SIZE)
			k->param_bytes = (uint32_t)value;
		at += n;
	}
	return true;
}

static bool
read_section(const struct elf *f, const struct section *s, struct cubin *out, struct err *e)
{
	static const char info[] = ".nv.info", shared[] = ".nv.shared.";
	const char *name = text_at(f, &f->names, s->name);

	if (strncmp(name, shared, sizeof(shared) - 1) == 0) {
		struct cubin_kernel *k = kernel_named(out, name + sizeof(shared) - 1);

		if (k)
			k->shared_bytes = (uint32_t)MIN_OF(s->size, (uint64_t)UINT32_MAX / 2);
		return true;
	}
	if (strncmp(name, info, sizeof(info) - 1) != 0 || s->type == NOBITS)
		return true;
	if (name[sizeof(info) - 1] == 0)
		return read_info(f, s, out, NULL, e);
	struct cubin_kernel *k = kernel_named(out, name + sizeof(info));

	return !k || read_info(f, s, out, k, e);
}

bool
cubin_read(struct bytes b, struct cubin *out, struct err *e)
{
	struct section s;
	struct elf f;

	*out = (struct cubin){.sm = 0};
	if (!open_elf(&f, b, out, e) || !find_kernels(&f, out, e))
		return false;
	for (uint32_t i = 0; i < f.n_sections; i++)
		if (!section_at(&f, i, &s, e) || !read_section(&f, &s, out, e))
			return false;
	return true;
}
