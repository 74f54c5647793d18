/* kernels/sass/names.c: which kernels a cubin holds. */
#include "elf.h"
#include "sass.h"

#include <string.h>

bool
sass_names(struct arena *a, struct bytes cubin, const char *const **out, uint32_t *n, struct err *e)
{
	static const char prefix[] = ".text.";
	const char **names = NULL;
	uint32_t cap = 0;
	struct elf f;

	*n = 0;
	if (!elf_open(&f, cubin, e))
		return false;
	for (uint32_t q = 0; q < f.n_sections; q++) {
		struct elf_section s;

		if (!elf_section(&f, q, &s, e))
			return false;
		const char *name = elf_name(&f, &s);

		if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || s.type == ELF_NOBITS)
			continue;
		GROW(a, names, *n, cap);
		names[(*n)++] = str_dup(a, str_of(name + sizeof(prefix) - 1));
	}
	*out = names;
	return true;
}
