/* GPU machine code: any bytes are read or refused; what is read has blocks that hold together, and its data
 * flow and its hot loop come to an end.  A cubin's kernel is the one that its first ".text." names; other
 * bytes are an architecture and words.  bytes: 16384 runs: 5000 */
#include "../../kernels/sass/decode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *
name_in(struct arena *a, const uint8_t *data, size_t n)
{
	const uint8_t *at = memmem(data, n, ".text.", 6);

	return at ? str_dup(a,
			(struct str){
			    (const char *)at + 6, strnlen((const char *)at + 6, n - (size_t)(at + 6 - data))})
		  : "k";
}

static void
check_blocks(const struct sass_kernel *k)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < k->n_blocks; i++) {
		const struct sass_block *b = &k->block[i];

		if (b->first != at || b->end <= b->first || sass_block_of(k, b->end - 1) != b)
			abort();
		for (uint32_t q = 0; q < b->n_next; q++)
			if (b->next[q] >= k->n_blocks)
				abort();
		at = b->end;
	}
	if (at != k->n_instr)
		abort();
}

static void
check_instr(const struct sass_kernel *k, const struct sass_instr *i)
{
	char control[32];

	if (i->target >= (int32_t)k->n_instr || i->target < -1 || !i->op || !i->op->name)
		abort();
	sass_print_control(control, i);
	if (strlen(control) != sizeof("B--2--- R- W1 Y S04") - 1)
		abort();
}

static void
read_words(struct arena *a, const uint8_t *data, size_t n, struct sass_kernel *k)
{
	static const int sms[] = {70, 75, 80, 90};

	*k = (struct sass_kernel){.sm = sms[data[0] & 3], .n_instr = (uint32_t)((n - 1) / SASS_BYTES)};
	k->instr = NEW_ARRAY(a, struct sass_instr, k->n_instr);
	for (uint32_t i = 0; i < k->n_instr; i++) {
		uint64_t word[2];

		memcpy(word, data + 1 + (size_t)i * SASS_BYTES, sizeof(word));
		sass_decode(word[0], word[1], k->sm, i, k->n_instr, &k->instr[i]);
	}
	sass_find_blocks(a, k);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct sass_kernel k;
	struct sass_guards g;
	struct err e = {0};

	if (n >= 1 + SASS_BYTES && memcmp(data, "\177ELF", 4) != 0) {
		read_words(&a, data, n, &k);
	} else if (!sass_read(&a, (struct bytes){data, n}, name_in(&a, data, n), &k, &e)) {
		if (!e.code)
			abort();
		arena_fini(&a);
		return 0;
	}
	check_blocks(&k);
	for (uint32_t i = 0; i < k.n_instr; i++)
		check_instr(&k, &k.instr[i]);
	sass_guards_before(sass_flow(&a, &k), k.n_instr - 1, &g);
	const struct sass_loop *hot = sass_hot(&k);

	if (hot && (hot->first >= hot->last || hot->last >= k.n_instr))
		abort();
	arena_fini(&a);
	return 0;
}
