/* tests/models/main_make_models.c: korch-make-model NAME OUT.onnx [--small] [--size N] [--seed N]
 *
 * Writes an evaluation model at its published architecture (or its small stand-in) with seeded
 * random weights, scaled so that activations stay of order one; the input N x N where that is asked for. */
#include "nets.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SIZE_MOST = 4096 };
static const struct {
	const char *name;
	net_fn *make;
	int64_t step; /* its input's height and width are multiples of that; 0: it has none */
} nets[] = {
    {"candy", net_candy, 8},
    {"efficientvit", net_efficientvit, 32},
    {"efficientvit_b1", net_efficientvit_b1, 32},
    {"yolov4", net_yolov4, 32},
    {"yolox_nano", net_yolox_nano, 32},
    {"segformer_b0", net_segformer_b0, 32},
    {"blocks", net_blocks, 0},
    {"ways", net_ways, 0},
};

static int
usage(FILE *to)
{
	fprintf(to, "usage: korch-make-model NAME OUT.onnx [--small] [--size N] [--seed N]\nnames:");
	for (size_t i = 0; i < COUNT_OF(nets); i++)
		fprintf(to, " %s", nets[i].name);
	fprintf(to, "\n");
	return to == stdout ? 0 : 2;
}

PRINTF_LIKE(1, 2) static int wrong(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "korch-make-model: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	return usage(stderr);
}

static bool
is_size(int64_t step, int64_t size)
{
	return step > 0 && size > 0 && size <= SIZE_MOST && size % step == 0;
}

static int
make(const char *name, const char *path, bool is_small, int64_t size, uint64_t seed)
{
	struct err e = {0};

	for (size_t i = 0; i < COUNT_OF(nets); i++) {
		if (strcmp(nets[i].name, name) != 0)
			continue;
		if (size && !is_size(nets[i].step, size)) {
			return nets[i].step
			    ? wrong("%s is not made for --size %lld: give a multiple of %lld up to %d", name,
				  (long long)size, (long long)nets[i].step, SIZE_MOST)
			    : wrong("%s draws its extents: leave out --size, and give another --seed", name);
		}
		struct gen *g = gen_new(nets[i].name, seed);
		nets[i].make(g, is_small, size);
		bool ok = gen_write(g, path, &e);
		if (ok)
			printf("%s: %u nodes, %lld weights, seed %llu\n", path, gen_n_nodes(g),
			    (long long)gen_n_weights(g), (unsigned long long)seed);
		else
			fprintf(stderr, "korch-make-model: %s\n", e.msg);
		gen_free(g);
		return ok ? 0 : err_exit_status(e.code);
	}
	return wrong("there is no model '%s'", name);
}

int
main(int argc, char **argv)
{
	const char *arg[2] = {NULL, NULL};
	bool is_small = false;
	int64_t seed = 1, size = 0;
	int n = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return usage(stdout);
		if (strcmp(argv[i], "--small") == 0)
			is_small = true;
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc &&
		    str_to_i64(str_of(argv[i + 1]), &seed))
			i++;
		else if (strcmp(argv[i], "--size") == 0 && i + 1 < argc &&
		    str_to_i64(str_of(argv[i + 1]), &size))
			i++;
		else if (argv[i][0] != '-' && n < 2)
			arg[n++] = argv[i];
		else
			return wrong(
			    "'%s': it is no option, lacks its number, or is a name too many", argv[i]);
	}
	return n == 2 ? make(arg[0], arg[1], is_small, size, (uint64_t)seed)
		      : wrong("name a model and a file");
}
