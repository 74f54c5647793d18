/* What a build tells of its kernels: whatever bytes arrive, reading them does no harm; by what is accepted,
 * operands of the spec are packed without a read or a write beside them, and it is told again in the same
 * bytes.  The first byte chooses the spec. */
#include "../../schema/artefact.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const graphs[] = {
    "%0 = input f32[7,6]\n%1 = weight f32[6,20]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n",
    "%0 = input f32[1,9,9,4]\n%1 = weight f32[3,3,4,18]\n"
    "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\noutput %2\n",
    "%0 = input f32[5,3]\n%1 = exp %0\noutput %1\n"};

static struct spec *
spec_of(struct arena *a, const char *text)
{
	struct spec *s = NEW(a, struct spec);
	struct graph g;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(text), &e))
		abort();
	spec_of_graph(a, &g, s);
	return s;
}

/* In memory of the very size. */
static void
pack_all(const struct descriptor *d, const struct spec *s)
{
	for (uint32_t i = 0; i < d->n_packs; i++) {
		const struct tensor *t = graph_tensor(&s->g, s->g.inputs[d->packs[i].operand]);
		size_t n_dense = (size_t)shape_count(&t->shape) * dtype_size(t->type);
		void *dense = calloc(1, n_dense), *out = malloc(pack_bytes(&d->packs[i], t->type));

		if (!dense || !out)
			abort();
		pack_apply(&d->packs[i], t, dense, out);
		free(dense);
		free(out);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	const struct spec *s;
	struct artefact got, again;
	struct bytes out;
	struct err e = {0};

	if (n == 0)
		return 0;
	s = spec_of(&a, graphs[data[0] % COUNT_OF(graphs)]);
	if (!artefact_read(&a, (struct bytes){data + 1, n - 1}, &s, 1, &got, &e)) {
		if (e.code != ERR_PROTO || !e.msg[0])
			abort();
	} else {
		pack_all(&got.kernels[0].desc, s);
		if (!artefact_pack(&a, &got, &out, &e) || !artefact_read(&a, out, &s, 1, &again, &e) ||
		    descriptor_hash(&got.kernels[0].desc) != descriptor_hash(&again.kernels[0].desc) ||
		    !str_eq(got.kernels[0].text, again.kernels[0].text))
			abort();
	}
	arena_fini(&a);
	return 0;
}
