/* client/test_case.c: a test case of ONNX's backend suite: test_data_set_K/input_J.pb and
 * output_J.pb, and tolerances in data.json:
 *   {"rtol": 1e-3, "atol": 1e-7, "per_output": [{"rtol": .., "atol": ..}, ...]} */
#include "host_tensor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_JSON = 1 << 20, MAX_NESTING = 16 };

/* ---- the little JSON that data.json is --------------------------------------------------- */
/* Sticky: after the first surprise every call yields nothing. */
struct json {
	const char *p, *end;
	bool bad;
};

static char
peek(struct json *j)
{
	while (j->p < j->end && isspace((unsigned char)*j->p))
		j->p++;
	return !j->bad && j->p < j->end ? *j->p : 0;
}

static bool
take(struct json *j, char c)
{
	if (peek(j) != c)
		return false;
	j->p++;
	return true;
}

static struct str
json_text(struct json *j)
{
	const char *from;

	if (!take(j, '"'))
		j->bad = true;
	from = j->p;
	while (!j->bad && j->p < j->end && *j->p != '"')
		j->p += *j->p == '\\' && j->p + 1 < j->end ? 2 : 1;
	if (j->bad || j->p >= j->end) {
		j->bad = true;
		return (struct str){"", 0};
	}
	return (struct str){from, (size_t)(j->p++ - from)};
}

static double
json_number(struct json *j)
{
	const char *from;
	double v = 0;

	(void)peek(j);
	from = j->p;
	while (j->p < j->end && (isalnum((unsigned char)*j->p) || strchr("+-.", *j->p)))
		j->p++;
	if (!str_to_f64((struct str){from, (size_t)(j->p - from)}, &v))
		j->bad = true;
	return v;
}

static void
skip_value(struct json *j, int depth)
{
	char open = peek(j);

	if (depth > MAX_NESTING)
		j->bad = true;
	if (j->bad)
		return;
	if (open == '"') {
		(void)json_text(j);
	} else if (open == '{' || open == '[') {
		char close = open == '{' ? '}' : ']';

		j->p++;
		while (!j->bad && !take(j, close)) {
			if (open == '{') {
				(void)json_text(j);
				j->bad = j->bad || !take(j, ':');
			}
			skip_value(j, depth + 1);
			j->bad = j->bad || (!take(j, ',') && peek(j) != close);
		}
	} else if (isalpha((unsigned char)open)) {
		while (j->p < j->end && isalpha((unsigned char)*j->p))
			j->p++;
	} else {
		(void)json_number(j);
	}
}

/* One {"rtol", "atol", ...}; keys that are not known are passed over. */
static void read_per_output(struct arena *a, struct json *j, struct test_case *c);

static void
read_tolerance(struct arena *a, struct json *j, struct tolerance *t, struct test_case *whole)
{
	if (!take(j, '{'))
		j->bad = true;
	while (!j->bad && !take(j, '}')) {
		struct str key = json_text(j);

		j->bad = j->bad || !take(j, ':');
		if (str_is(key, "rtol"))
			t->rtol = json_number(j);
		else if (str_is(key, "atol"))
			t->atol = json_number(j);
		else if (whole && str_is(key, "per_output"))
			read_per_output(a, j, whole);
		else
			skip_value(j, 0);
		j->bad = j->bad || (!take(j, ',') && peek(j) != '}');
	}
}

static void
read_per_output(struct arena *a, struct json *j, struct test_case *c)
{
	c->per_output = NEW_ARRAY(a, struct tolerance, CASE_MAX_TENSORS);
	if (!take(j, '['))
		j->bad = true;
	while (!j->bad && !take(j, ']')) {
		if (c->n_per_output == CASE_MAX_TENSORS) {
			j->bad = true;
			return;
		}
		read_tolerance(a, j, &c->per_output[c->n_per_output++], NULL);
		j->bad = j->bad || (!take(j, ',') && peek(j) != ']');
	}
}

static bool
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

static bool
read_data_json(struct arena *a, const char *dir, struct test_case *c, struct err *e)
{
	const char *path = arena_printf(a, "%s/data.json", dir);
	struct bytes file;
	struct json j;

	if (!exists(path))
		return true;
	if (!os_read_file(os_real(), a, path, MAX_JSON, &file, e))
		return false;
	j = (struct json){(const char *)file.p, (const char *)file.p + file.n, false};
	c->has_tolerance = true;
	read_tolerance(a, &j, &c->tolerance, c);
	return !j.bad || err_set(e, ERR_FORMAT, "%s: is not the JSON of a test case's tolerances", path);
}

/* ---- folders ----------------------------------------------------------------------------- */
/* Reads dir/STEM_0.pb, dir/STEM_1.pb, ... until one is missing. */
static bool
read_series(
    struct arena *a, const char *dir, const char *stem, struct host_tensor **out, uint32_t *n, struct err *e)
{
	*out = NEW_ARRAY(a, struct host_tensor, CASE_MAX_TENSORS);
	for (*n = 0; *n < CASE_MAX_TENSORS; (*n)++) {
		const char *path = arena_printf(a, "%s/%s_%u.pb", dir, stem, *n);

		if (!exists(path))
			return true;
		if (!pb_read(a, path, &(*out)[*n], e))
			return false;
	}
	return err_set(e, ERR_LIMIT, "%s: more than %d tensors", dir, CASE_MAX_TENSORS);
}

static bool
read_set(struct arena *a, const char *dir, struct case_set *s, struct err *e)
{
	s->dir = str_dup(a, str_of(dir));
	return read_series(a, dir, "input", &s->inputs, &s->n_inputs, e) &&
	    read_series(a, dir, "output", &s->outputs, &s->n_outputs, e);
}

static const char *
above(struct arena *a, const char *dir)
{
	return arena_printf(a, "%s/..", dir);
}

bool
test_case_read(struct arena *a, const char *dir, struct test_case *out, struct err *e)
{
	bool is_set = exists(arena_printf(a, "%s/output_0.pb", dir));

	*out = (struct test_case){.sets = NEW_ARRAY(a, struct case_set, CASE_MAX_SETS)};
	if (!exists(dir))
		return err_set(e, ERR_IO, "%s: there is no such folder", dir);
	if (!read_data_json(
		a, is_set && !exists(arena_printf(a, "%s/data.json", dir)) ? above(a, dir) : dir, out, e))
		return false;
	if (is_set) {
		out->n_sets = 1;
		return read_set(a, dir, &out->sets[0], e);
	}
	for (; out->n_sets < CASE_MAX_SETS; out->n_sets++) {
		const char *sub = arena_printf(a, "%s/test_data_set_%u", dir, out->n_sets);

		if (!exists(sub))
			break;
		if (!read_set(a, sub, &out->sets[out->n_sets], e))
			return false;
	}
	return out->n_sets > 0 ||
	    err_set(e, ERR_FORMAT, "%s: holds neither test_data_set_0 nor output_0.pb", dir);
}
