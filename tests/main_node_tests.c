/* tests/main_node_tests.c: korch-node-tests [--quiet] DIR...
 *
 * Runs ONNX backend test cases through model, fission and interpreter: the meaning of every
 * operator, without generated code.  A case is a folder with model.onnx and
 * test_data_set_K/input_J.pb, output_J.pb and an optional data.json of tolerances; a DIR without
 * model.onnx is a folder of cases.  Prints the failed ones with their cause, then a count. */
#include "../daemon/fission/fission.h"
#include "../kernels/interp/interp.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CASES = 100000, MAX_BYTES = 1 << 30 };

struct tolerance {
	double rtol, atol;
};
struct score {
	uint32_t passed, failed;
	bool is_quiet;
};

/* The number behind "key": in a small JSON text, from `*at` on. */
static bool
json_number(const char *text, size_t *at, const char *key, double *out)
{
	const char *p = strstr(text + *at, key);

	if (!p || !(p = strchr(p, ':')))
		return false;
	*at = (size_t)(p - text);
	*out = strtod(p + 1, NULL);
	return true;
}

static struct tolerance
read_tolerance(struct arena *a, const char *dir, uint32_t output)
{
	struct tolerance t = {1e-3, 1e-7};
	struct bytes b;
	struct err e = {0};
	size_t at = 0;

	if (!os_read_file(os_real(), a, arena_printf(a, "%s/data.json", dir), 1 << 20, &b, &e))
		return t;
	const char *text = str_dup(a, (struct str){(const char *)b.p, b.n}), *per = strstr(text, "per_output");
	(void)json_number(text, &at, "\"rtol\"", &t.rtol);
	at = 0;
	(void)json_number(text, &at, "\"atol\"", &t.atol);
	for (at = 0; per && output != UINT32_MAX; output--) {
		if (!json_number(per, &at, "\"rtol\"", &t.rtol) || !json_number(per, &at, "\"atol\"", &t.atol))
			break;
	}
	return t;
}

static bool
tensor_file(struct arena *a, const char *dir, int set, const char *kind, uint32_t i, struct model_tensor *t, struct err *e)
{
	const char *path = arena_printf(a, "%s/test_data_set_%d/%s_%u.pb", dir, set, kind, i);
	struct bytes b;

	return os_read_file(os_real(), a, path, MAX_BYTES, &b, e) && (model_tensor_read(a, b, t, e) || err_in(e, "%s", path));
}

static bool
is_close(double have, double want, struct tolerance tol)
{
	if (isnan(have) || isnan(want))
		return isnan(have) && isnan(want);
	if (isinf(have) || isinf(want))
		return have == want;
	return fabs(have - want) <= tol.atol + tol.rtol * fabs(want);
}

static bool
compare(const struct tensor *t, const void *have, const struct model_tensor *want, struct tolerance tol, struct err *e)
{
	int64_t n = shape_count(&want->shape), bad = 0, first = 0;

	if (t->type != want->type)
		return err_set(e, ERR_WRONG, "type %s where %s is right", dtype_name(t->type), dtype_name(want->type));
	if (!shape_eq(&t->shape, &want->shape))
		return err_set(e, ERR_WRONG, "wrong shape");
	if (!dtype_is_float(t->type)) {
		if (want->n_bytes == 0 || memcmp(have, want->data, want->n_bytes) == 0)
			return true;
		return err_set(e, ERR_WRONG, "wrong integers");
	}
	if (t->type == DT_bf16)
		tol.rtol = MAX_OF(tol.rtol, 1.0 / 64);
	for (int64_t i = 0; i < n; i++)
		if (!is_close(elem_get(t->type, have, i), elem_get(t->type, want->data, i), tol)) {
			first = bad == 0 ? i : first;
			bad++;
		}
	if (bad == 0)
		return true;
	return err_set(e, ERR_WRONG, "%lld of %lld elements differ; element %lld is %.9g where %.9g is right", (long long)bad,
	    (long long)n, (long long)first, elem_get(t->type, have, first), elem_get(t->type, want->data, first));
}

static bool
run_set(struct arena *a, const char *dir, int set, const struct graph *g, struct err *e)
{
	const void **inputs = NEW_ARRAY(a, const void *, g->n_inputs);
	void **outputs = NEW_ARRAY(a, void *, g->n_outputs);

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		struct model_tensor t;
		const struct tensor *want = graph_tensor(g, g->inputs[i]);
		if (!tensor_file(a, dir, set, "input", i, &t, e))
			return false;
		if (t.type != want->type || !shape_eq(&t.shape, &want->shape))
			return err_set(e, ERR_WRONG, "input %u has another type or shape than the model's", i);
		inputs[i] = t.data;
	}
	if (!interp_run(a, g, inputs, NULL, outputs, e))
		return false;
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		struct model_tensor want;
		if (!tensor_file(a, dir, set, "output", i, &want, e))
			return false;
		if (!compare(graph_tensor(g, g->outputs[i]), outputs[i], &want, read_tolerance(a, dir, i), e))
			return err_in(e, "output %u of set %d", i, set);
	}
	return true;
}

static bool
run_case(struct arena *a, const char *dir, struct fission_stats *stats, struct err *e)
{
	const char *path = arena_printf(a, "%s/model.onnx", dir);
	struct bytes b;
	struct model m;
	struct graph g;
	int n_sets = 0;

	if (!os_read_file(os_real(), a, path, MAX_BYTES, &b, e) || !model_read(a, b, path, dir, NULL, &m, e)
	    || !fission_run(a, &m, &g, stats, e))
		return false;
	graph_verify(&g);
	for (;; n_sets++) {
		struct stat st;
		if (stat(arena_printf(a, "%s/test_data_set_%d", dir, n_sets), &st) != 0)
			break;
		if (!run_set(a, dir, n_sets, &g, e))
			return false;
	}
	return n_sets > 0 ? true : err_set(e, ERR_USAGE, "%s: no test_data_set_0", dir);
}

static void
report(const char *dir, struct score *s)
{
	struct arena a = {0};
	struct err e = {0};
	struct fission_stats st = {0};
	const char *name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;

	if (run_case(&a, dir, &st, &e)) {
		s->passed++;
		if (!s->is_quiet)
			printf("ok   %s: %u operators, %u folded, %u primitives\n", name, st.n_operators, st.n_folded, st.n_primitives);
	} else {
		s->failed++;
		printf("FAIL %s: %s\n", name, e.msg);
	}
	(void)fflush(stdout);
	arena_fini(&a);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
walk(const char *dir, struct score *s)
{
	struct arena a = {0};
	struct stat st;
	char **names = NULL;
	uint32_t n = 0, cap = 0;

	if (stat(arena_printf(&a, "%s/model.onnx", dir), &st) == 0) {
		report(dir, s);
		arena_fini(&a);
		return;
	}
	DIR *d = opendir(dir);
	for (struct dirent *x; d && n < MAX_CASES && (x = readdir(d));)
		if (x->d_name[0] != '.' && stat(arena_printf(&a, "%s/%s/model.onnx", dir, x->d_name), &st) == 0) {
			GROW(&a, names, n, cap);
			names[n++] = arena_printf(&a, "%s/%s", dir, x->d_name);
		}
	if (d)
		(void)closedir(d);
	if (n == 0) {
		printf("FAIL %s: no test case here\n", dir);
		s->failed++;
	} else {
		qsort(names, n, sizeof(*names), by_name);
	}
	for (uint32_t i = 0; i < n; i++)
		report(names[i], s);
	arena_fini(&a);
}

int
main(int argc, char **argv)
{
	struct score s = {0};

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--quiet") == 0)
			s.is_quiet = true;
		else
			walk(argv[i], &s);
	if (argc < 2)
		fprintf(stderr, "usage: korch-node-tests [--quiet] DIR...\n");
	printf("%u passed, %u failed\n", s.passed, s.failed);
	return s.failed > 0 || s.passed == 0 ? 1 : 0;
}
