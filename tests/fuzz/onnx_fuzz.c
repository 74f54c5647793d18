/* tests/fuzz/onnx_fuzz.c: libFuzzer over ONNX bytes: whatever they are, an error or a model, and
 * from a model an error or a verified graph.  bytes: 8192 */
#include "../../daemon/fission/fission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct model_limits limits = {1 << 20, 1000, 1 << 24};
	struct arena a = {0};
	struct err e = {0};
	struct model m;
	struct model_tensor t;
	struct graph g;
	struct fission_stats stats;

	if (!model_read(&a, (struct bytes){data, n}, "fuzz", NULL, &limits, &m, &e)) {
		if (!e.msg[0])
			bug("an error without a sentence");
	} else if (fission_run(&a, &m, &g, &stats, &e)) {
		graph_verify(&g);
	}
	e = (struct err){0};
	if (!model_tensor_read(&a, (struct bytes){data, n}, &t, &e) && !e.msg[0])
		bug("an error without a sentence");
	arena_fini(&a);
	return 0;
}
