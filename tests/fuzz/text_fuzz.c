/* The text form of graphs and specs: whatever is accepted verifies, and prints what reads back. */
#include "../../kernels/ir/ir.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
check_graph(struct arena *a, struct str text)
{
	struct graph g, sorted, back;
	struct strbuf x, y;
	struct err e = {0};

	if (!graph_read_origins(&g, a, text, &e))
		return;
	graph_sort(&sorted, a, &g, NULL);
	graph_verify(&sorted);
	sb_init(&x, a);
	sb_init(&y, a);
	graph_print_origins(&x, &sorted);
	if (!graph_read_origins(&back, a, sb_str(&x), &e))
		abort();
	graph_print_origins(&y, &back);
	if (!str_eq(sb_str(&x), sb_str(&y)))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct str text = {(const char *)data, n};
	struct spec s;
	struct err e = {0};

	if (spec_read(&a, text, &s, &e))
		graph_verify(&s.g);
	else
		check_graph(&a, text);
	arena_fini(&a);
	return 0;
}
