/* kernels/emit/files.c: generated kernels as text for people, and the files that many kernels are compiled
 * as, so that compilers work side by side. Which kernel goes where depends on the kernels alone: the same
 * ones give the same object on every host. */
#include "emit.h"

static uint64_t
all_bytes(const struct kernel_code *const *codes, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += codes[i]->text.n;
	return sum;
}

uint32_t
emit_c_files(struct arena *a, const struct target *t, const struct kernel_code *const *codes, uint32_t n,
    uint32_t max, struct str **texts)
{
	uint32_t n_files = MIN_OF(MAX_OF((n + EMIT_FILE_KERNELS - 1) / EMIT_FILE_KERNELS, 1u), max), file = 0;
	uint64_t total = all_bytes(codes, n), done = 0;
	struct str prelude = emit_c_prelude(a, t);
	struct strbuf *sb = NEW_ARRAY(a, struct strbuf, n_files);

	*texts = NEW_ARRAY(a, struct str, n_files);
	for (uint32_t i = 0; i < n_files; i++) {
		sb_init(&sb[i], a);
		sb_add(&sb[i], prelude);
	}
	for (uint32_t i = 0; i < n; i++) {
		sb_add(&sb[file], codes[i]->text);
		sb_addc(&sb[file], '\n');
		done += codes[i]->text.n;
		while (file + 1 < n_files && done * n_files >= total * (file + 1))
			file++;
	}
	for (uint32_t i = 0; i < n_files; i++)
		(*texts)[i] = sb_str(&sb[i]);
	return n_files;
}

void
emit_print(struct strbuf *sb, const struct kernel_code *k, const struct target *t)
{
	sb_add(sb, k->text);
	for (uint32_t i = 0; i < k->n_passes; i++) {
		sb_addf(sb, "# pass %u range %lld", i, (long long)k->range[i]);
		if (t->is_cuda)
			sb_addf(sb, " grid %u block %u", k->launch[i].grid[0], k->launch[i].block[0]);
		sb_addc(sb, '\n');
	}
	sb_addf(sb, "# shared %zu local %zu packs %u\n", k->shared_bytes, k->local_bytes, k->n_packs);
}
