/* kernels/generate/files.c: generated kernels as text for people, and the files that many kernels are
 * compiled as, so that compilers work side by side. Which kernel goes where depends on the kernels alone: the
 * same ones give the same object on every host. */
#include "generate.h"

#include <stdlib.h>
#include <string.h>
#include <string.h>

struct sized {
	size_t bytes;
	uint32_t kernel;
};

static int
largest_first(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->kernel < y->kernel ? -1 : 1;
}

/* The file of each kernel: the largest first, each goes where least is. */
static const uint32_t *
place_all(struct arena *a, const struct kernel_code *const *codes, uint32_t n, uint32_t n_files)
{
	struct sized *order = NEW_ARRAY(a, struct sized, MAX_OF(n, 1u));
	uint64_t *load = NEW_ARRAY(a, uint64_t, n_files);
	uint32_t *file = NEW_ARRAY(a, uint32_t, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++)
		order[i] = (struct sized){codes[i]->text.n, i};
	if (n)
		qsort(order, n, sizeof(order[0]), largest_first);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t least = 0;

		for (uint32_t f = 1; f < n_files; f++)
			if (load[f] < load[least])
				least = f;
		load[least] += order[i].bytes;
		file[order[i].kernel] = least;
	}
	return file;
}

uint32_t
generate_n_files(uint32_t n, uint32_t n_hands, uint32_t most)
{
	uint32_t rounds = (n + GENERATE_FILE_KERNELS * n_hands - 1) / (GENERATE_FILE_KERNELS * n_hands);

	return MAX_OF(MIN_OF(MIN_OF(rounds * n_hands, n), most), 1u);
}

void
generate_c_files(struct arena *a, const struct target *t, const struct kernel_code *const *codes, uint32_t n,
    uint32_t n_files, struct str **texts, const uint32_t **file_of)
{
	const uint32_t *file = place_all(a, codes, n, n_files);
	struct str prelude = prelude_c(a, t);
	struct strbuf *sb = NEW_ARRAY(a, struct strbuf, n_files);

	*texts = NEW_ARRAY(a, struct str, n_files);
	for (uint32_t i = 0; i < n_files; i++) {
		sb_init(&sb[i], a);
		sb_add(&sb[i], prelude);
	}
	for (uint32_t i = 0; i < n; i++) {
		sb_add(&sb[file[i]], codes[i]->text);
		sb_addc(&sb[file[i]], '\n');
	}
	for (uint32_t i = 0; i < n_files; i++)
		(*texts)[i] = sb_str(&sb[i]);
	if (file_of)
		*file_of = file;
}

struct str
kernel_called(struct arena *a, struct str text, struct str name)
{
	const size_t n = strlen(KERNEL_STAND_IN);
	struct strbuf sb;

	sb_init(&sb, a);
	while (text.n) {
		const char *at = memmem(text.p, text.n, KERNEL_STAND_IN, n);
		size_t before = at ? (size_t)(at - text.p) : text.n;

		sb_add(&sb, (struct str){text.p, before});
		if (at)
			sb_add(&sb, name);
		before += at ? n : 0;
		text = (struct str){text.p + before, text.n - before};
	}
	return sb_str(&sb);
}

void
kernel_code_print(struct strbuf *sb, const struct kernel_code *k, const struct target *t)
{
	sb_add(sb, k->text);
	descriptor_print(sb, &k->desc, t->is_cuda);
}
