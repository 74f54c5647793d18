/* Machine code: any words are judged and run to an end, twice to the same trace.  The first byte chooses the
 * architecture and the input.  runs: 1000  bytes: 8192 */
#include "../../kernels/sass/decode.h"
#include "../../kernels/sass/machine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
read_words(struct arena *a, const uint8_t *data, size_t n, struct sass_kernel *k)
{
	static const int sm[] = {70, 75, 80, 90};

	*k = (struct sass_kernel){
	    .name = "k", .sm = sm[data[0] & 3], .n_instr = (uint32_t)((n - 1) / SASS_BYTES)};
	k->instr = NEW_ARRAY(a, struct sass_instr, k->n_instr);
	for (uint32_t i = 0; i < k->n_instr; i++) {
		uint64_t word[2];

		memcpy(word, data + 1 + (size_t)i * SASS_BYTES, SASS_BYTES);
		sass_decode(word[0], word[1], k->sm, i, k->n_instr, &k->instr[i]);
	}
	sass_find_blocks(a, k);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct sass_kernel k;
	struct machine_hazards h;
	struct machine_input in;
	struct machine_trace x, y;
	char text[160];

	if (n < 1 + SASS_BYTES)
		return 0;
	read_words(&a, data, n, &k);
	machine_hazards(&a, &k, &h);
	if (h.n)
		machine_hazard_text(&k, &h.first, text);
	machine_input_make(&a, data[0] >> 2, &in);
	machine_run(&a, &k, &h, &in, &x);
	machine_run(&a, &k, &h, &in, &y);
	if (!machine_trace_equal(&x, &y) || (x.end == MACHINE_UNKNOWN && (!x.why || x.at >= k.n_instr)))
		abort();
	arena_fini(&a);
	return 0;
}
