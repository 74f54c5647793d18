/* tests/harness/onnx_case.c: ONNX's backend test folders. */
#include "onnx_case.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 30 };

/* The number behind the n-th "key" from `from` on; false where there is none. */
static bool
json_number(struct str text, const char *key, double *out)
{
	char *at = text.n ? memmem(text.p, text.n, key, strlen(key)) : NULL;
	struct str s;

	if (!at)
		return false;
	s = (struct str){at, text.n - (size_t)(at - text.p)};
	(void)str_cut(&s, ':');
	s = str_trim(s);
	for (size_t n = 0; n < s.n; n++)
		if (s.p[n] == ',' || s.p[n] == '}' || s.p[n] == '\n' || s.p[n] == ' ')
			s.n = n;
	return str_to_f64(s, out);
}

bool
case_tolerance(struct arena *a, const char *dir, uint32_t i, struct tolerance *out, struct err *e)
{
	char *path = arena_printf(a, "%s/data.json", dir);
	struct bytes b;
	struct str text, each;

	*out = (struct tolerance){1e-3, 1e-7};
	if (access(path, R_OK) != 0)
		return true;
	if (!os_read_file(os_real(), a, path, 1 << 20, &b, e))
		return false;
	text = each = (struct str){(const char *)b.p, b.n};
	while (each.n && !str_starts(each, "\"per_output\"")) {
		each.p++;
		each.n--;
	}
	for (uint32_t k = 0; each.n && k <= i; k++)
		(void)str_cut(&each, '{');
	if (each.n && json_number(each, "\"rtol\"", &out->rtol) && json_number(each, "\"atol\"", &out->atol))
		return true;
	(void)json_number(text, "\"rtol\"", &out->rtol);
	(void)json_number(text, "\"atol\"", &out->atol);
	return true;
}

bool
case_has_set(const char *dir, uint32_t set)
{
	struct arena a = {0};
	bool found = access(arena_printf(&a, "%s/test_data_set_%u", dir, set), R_OK) == 0;

	arena_fini(&a);
	return found;
}

bool
case_tensor(struct arena *a, const char *dir, uint32_t set, const char *file, uint32_t j,
    struct model_tensor *out, struct err *e)
{
	char *path = arena_printf(a, "%s/test_data_set_%u/%s_%u.pb", dir, set, file, j);
	struct bytes b;

	if (access(path, R_OK) != 0)
		return false;
	return os_read_file(os_real(), a, path, MAX_FILE, &b, e) && model_tensor_read(a, b, out, e);
}

static bool
close_to(double have, double want, struct tolerance tol)
{
	if (have != have || want != want)
		return have != have && want != want;
	return have == want || fabs(have - want) <= tol.atol + tol.rtol * fabs(want);
}

bool
case_agrees(const struct model_tensor *want, const struct tensor *t, const void *have, struct tolerance tol,
    struct err *e)
{
	int64_t n;

	if (want->type != t->type)
		return err_set(
		    e, ERR_WRONG, "type is %s, expected %s", dtype_name(t->type), dtype_name(want->type));
	if (!shape_eq(&want->shape, &t->shape))
		return err_set(e, ERR_WRONG,
		    "another shape than expected (rank %d, expected %d; %lld elements, expected "
		    "%lld)",
		    t->shape.rank, want->shape.rank, (long long)shape_count(&t->shape),
		    (long long)shape_count(&want->shape));
	if (t->type == DT_bf16)
		tol.rtol = fmax(tol.rtol, ldexp(1, -6));
	n = shape_count(&t->shape);
	for (int64_t i = 0; i < n; i++) {
		double x = elem_get(t->type, have, i), y = elem_get(t->type, want->data, i);
		bool ok = dtype_is_float(t->type)
		    ? close_to(x, y, tol)
		    : elem_get_int(t->type, have, i) == elem_get_int(t->type, want->data, i);

		if (!ok)
			return err_set(
			    e, ERR_WRONG, "element %lld is %.9g, expected %.9g", (long long)i, x, y);
	}
	return true;
}
