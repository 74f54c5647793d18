/* Moves of machine code as text: what is read prints as it was; what is done to a cubin is legal, changes its
 * code alone, and decodes. */
#include "../../kernels/sass/perturb.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_CUBIN = 1 << 20 };
static const char path[] = KORCH_SOURCE_DIR "/tests/golden/sass/depthwise_sm80.cubin";

static void
check_text(struct arena *a, struct str text)
{
	struct sass_moves m;
	struct err e = {0};

	if (sass_moves_read(a, text, &m, &e) && !str_eq(sass_moves_print(a, &m), text))
		abort();
}

/* The same moves of a cubin that is there. */
static void
check_bytes(struct arena *a, struct bytes base, struct str text)
{
	struct sass_moves m;
	struct sass_kernel was, now;
	struct bytes out;
	struct err e = {0};

	if (!sass_moves_read(a, text, &m, &e))
		return;
	sass_moves_digest(base, m.digest);
	if (!sass_moves_apply(a, base, &m, &out, &e))
		return;
	if (out.n != base.n || !sass_read(a, base, "k_p0", &was, &e) || !sass_read(a, out, "k_p0", &now, &e))
		abort();
	const size_t end = was.at + (size_t)was.n_instr * SASS_BYTES;

	if (memcmp(out.p, base.p, was.at) != 0 || memcmp(out.p + end, base.p + end, out.n - end) != 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct arena kept;
	static struct bytes base;
	struct arena a = {0};
	struct err e = {0};

	if (!base.p && !os_read_file(os_real(), &kept, path, MAX_CUBIN, &base, &e))
		abort();
	check_text(&a, (struct str){(const char *)data, n});
	check_bytes(&a, base, (struct str){(const char *)data, n});
	arena_fini(&a);
	return 0;
}
