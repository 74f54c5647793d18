/* kernels/sass/cubin.c: what the tables of a cubin say about its kernels. */
#include "cubin.h"
#include "elf.h"

#include <string.h>

enum {
	NV_FRAME = 0x11, /* attributes of .nv.info: {symbol, value} */
	NV_REGISTERS = 0x2f,
	NV_MAX_THREADS = 0x05, /* of .nv.info.KERNEL */
	NV_PARAM_SIZE = 0x19,
	OPCODE_LDL = 0x183, /* low 9 bits of an instruction */
	OPCODE_STL = 0x187,
};

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
read_code(const struct elf *f, const struct elf_section *s, struct cubin_kernel *k)
{
	k->n_instructions = (uint32_t)(s->size / 16);
	for (uint64_t at = 0; s->size - at >= 16; at += 16) {
		const uint64_t lo = elf_number(f, s->at + at, 8), hi = elf_number(f, s->at + at + 8, 8);

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
		struct elf_section s;

		if (!elf_section(f, i, &s, e))
			return false;
		const char *name = elf_name(f, &s);

		if (strncmp(name, ".text.", 6) != 0 || s.type == ELF_NOBITS)
			continue;
		if (out->n_kernels == CUBIN_KERNELS)
			return err_set(e, ERR_FORMAT, "cubin: more than %d kernels", CUBIN_KERNELS);
		struct cubin_kernel *k = &out->kernel[out->n_kernels++];

		*k = (struct cubin_kernel){.name = name + 6};
		read_code(f, &s, k);
	}
	return true;
}

/* ---- .nv.info --------------------------------------------------------------------------------------------
 */
static void
note_whole(const struct elf *f, struct cubin *c, const struct elf_record *r)
{
	struct cubin_kernel *k = kernel_named(c, elf_symbol(f, elf_u32(f, r->at)));

	if (k && r->attribute == NV_REGISTERS)
		k->registers = elf_u32(f, r->at + 4);
	if (k && r->attribute == NV_FRAME)
		k->frame_bytes = elf_u32(f, r->at + 4);
}

/* k NULL: the records of all kernels. */
static bool
read_info(
    const struct elf *f, const struct elf_section *s, struct cubin *c, struct cubin_kernel *k, struct err *e)
{
	for (uint64_t at = s->at; at < s->at + s->size;) {
		struct elf_record r;

		if (!elf_record(f, s, &at, &r, e))
			return false;
		if (!k && r.n >= 8)
			note_whole(f, c, &r);
		if (k && r.attribute == NV_MAX_THREADS && r.n >= 4)
			k->max_threads = elf_u32(f, r.at);
		if (k && r.attribute == NV_PARAM_SIZE && r.is_inline)
			k->param_bytes = r.value;
	}
	return true;
}

static bool
read_section(const struct elf *f, const struct elf_section *s, struct cubin *out, struct err *e)
{
	static const char info[] = ".nv.info", shared[] = ".nv.shared.";
	const char *name = elf_name(f, s);

	if (strncmp(name, shared, sizeof(shared) - 1) == 0) {
		struct cubin_kernel *k = kernel_named(out, name + sizeof(shared) - 1);

		if (k)
			k->shared_bytes = (uint32_t)MIN_OF(s->size, (uint64_t)UINT32_MAX / 2);
		return true;
	}
	if (strncmp(name, info, sizeof(info) - 1) != 0 || s->type == ELF_NOBITS)
		return true;
	if (name[sizeof(info) - 1] == 0)
		return read_info(f, s, out, NULL, e);
	struct cubin_kernel *k = kernel_named(out, name + sizeof(info));

	return !k || read_info(f, s, out, k, e);
}

bool
cubin_read(struct bytes b, struct cubin *out, struct err *e)
{
	struct elf_section s;
	struct elf f;

	*out = (struct cubin){.sm = 0};
	if (!elf_open(&f, b, e) || !find_kernels(&f, out, e))
		return false;
	out->sm = f.sm;
	for (uint32_t i = 0; i < f.n_sections; i++)
		if (!elf_section(&f, i, &s, e) || !read_section(&f, &s, out, e))
			return false;
	return true;
}
