/* tests/bench/gpu_rows.c: see gpu_rows.h. */
#include "gpu_rows.h"

#include "../../kernels/device/dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST = 1 << 20, MAX_ROWS = 4096 };

/* ---- lists ----------------------------------------------------------------------------------------- */
/* The next of the fields that commas part, without the blanks around it. */
static struct str
field(struct str *rest)
{
	struct str f = str_cut(rest, ',');

	while (f.n && (*f.p == ' ' || *f.p == '\t'))
		f = (struct str){f.p + 1, f.n - 1};
	while (f.n && (f.p[f.n - 1] == ' ' || f.p[f.n - 1] == '\t'))
		f.n--;
	return f;
}

/* "80=3150000 90=2310000" */
static bool
read_predictions(struct str text, int sm, int64_t *ns)
{
	*ns = 0;
	while (text.n) {
		struct str value = str_cut(&text, ' '), key = str_cut(&value, '=');
		int64_t at, v;

		if (!key.n)
			continue;
		if (!str_to_i64(key, &at) || !str_to_i64(value, &v) || v <= 0)
			return false;
		if (at == sm)
			*ns = v;
	}
	return true;
}

static bool
read_spec(struct arena *a, const char *path, struct spec *out, struct err *e)
{
	struct graph g, sorted;
	struct bytes b;
	struct str text;

	if (!os_read_file(os_real(), a, path, MAX_LIST, &b, e))
		return false;
	text = (struct str){(const char *)b.p, b.n};
	if (str_starts(text, "spec "))
		return spec_read(a, text, out, e) || err_in(e, "%s", path);
	if (!graph_read(&g, a, text, e))
		return err_in(e, "%s", path);
	graph_sort(&sorted, a, &g, NULL);
	spec_of_graph(a, &sorted, out);
	return true;
}

static bool
read_line(struct arena *a, struct str folder, struct str line, int sm, struct gpu_row *g, struct err *e)
{
	struct str rest = line, name = field(&rest), file = field(&rest);

	*g = (struct gpu_row){.name = str_dup(a, name)};
	g->schedule = field(&rest);
	g->precision = field(&rest);
	if (!name.n || !file.n || !g->precision.n || !read_predictions(field(&rest), sm, &g->predicted_ns) ||
	    rest.n)
		return err_set(e, ERR_FORMAT,
		    "'%.*s' is no kernel's line: name, file, schedule (may be empty), precision, "
		    "predictions (as 80=3150000, may be empty)",
		    STR_ARG(line));
	return read_spec(a, arena_printf(a, "%.*s%.*s", STR_ARG(folder), STR_ARG(file)), &g->spec, e);
}

bool
gpu_rows_read(struct arena *a, const char *file, int sm, struct gpu_row **out, uint32_t *n, struct err *e)
{
	const char *slash = strrchr(file, '/');
	struct str folder = {file, slash ? (size_t)(slash + 1 - file) : 0}, rest;
	struct bytes b;

	*n = 0;
	if (!os_read_file(os_real(), a, file, MAX_LIST, &b, e))
		return false;
	*out = NEW_ARRAY(a, struct gpu_row, MAX_ROWS);
	rest = (struct str){(const char *)b.p, b.n};
	for (int number = 1; rest.n; number++) {
		struct str line = str_cut(&rest, '\n');

		if (!line.n || line.p[0] == '#')
			continue;
		if (*n == MAX_ROWS)
			return err_set(e, ERR_LIMIT, "%s: more than %d kernels", file, (int)MAX_ROWS);
		if (!read_line(a, folder, line, sm, &(*out)[(*n)++], e))
			return err_in(e, "%s:%d", file, number);
	}
	return *n > 0 || err_set(e, ERR_FORMAT, "%s: lists no kernel", file);
}

/* ---- rows ------------------------------------------------------------------------------------------ */
static struct hw
hw_of(const struct m_env *env, struct str precision)
{
	const struct m_hw *h = &env->hw;
	struct hw hw = {.flops_peak = h->flops_peak,
	    .bytes_per_s = {h->l1_bytes_per_s, h->l2_bytes_per_s, h->l3_bytes_per_s, h->dram_bytes_per_s},
	    .level_bytes = {h->l1_bytes, h->l2_bytes, h->l3_bytes},
	    .call_ns = h->call_ns,
	    .barrier_ns = h->barrier_ns,
	    .simd_bytes = (int)h->simd_bytes,
	    .n_threads = 1};

	if (str_starts(precision, "tf32"))
		hw.tensor_peak = h->tf32_flops;
	else if (str_starts(precision, "f16") || str_starts(precision, "bf16"))
		hw.tensor_peak = h->half_flops;
	return hw;
}

/* The value of a word "KEY=VALUE" of a row's state; "-": there is none. */
static struct str
word(struct str state, const char *key)
{
	while (state.n) {
		struct str value = str_cut(&state, ' '), k = str_cut(&value, '=');

		if (str_is(k, key) && value.n)
			return value;
	}
	return STR("-");
}

static void
print_rate(const struct cost_parts *p, double ns)
{
	double flops = p->flops / ns * 1e-3, bytes = p->bytes / ns;

	if (p->flop_ns > p->byte_ns)
		printf(" | %.3g TFLOP/s", flops);
	else
		printf(" | %.4g GB/s", bytes);
}

/* The schedule that the line names, or else the space's first; of another one nothing was said. */
static bool
is_predicted(const struct gpu_row *g, const struct m_row *r)
{
	return g->predicted_ns &&
	    (g->schedule.n ? str_eq(r->schedule, g->schedule) : str_is(r->schedule, "trace=1"));
}

void
gpu_row_print(const struct gpu_row *g, const struct m_env *env, const struct m_row *r)
{
	const struct hw hw = hw_of(env, g->precision);
	struct cost_parts parts;
	int64_t bound = cost_bound_ns(&g->spec, &hw, &parts);

	printf("row %s | %.*s | %.*s", g->name, STR_ARG(r->schedule), STR_ARG(g->precision));
	if (r->fail) {
		printf(" | %s: %.*s\n", err_name(err_of_wire(r->fail)), STR_ARG(r->cause));
		return;
	}
	printf(" | %lld ns", (long long)r->median_ns);
	print_rate(&parts, (double)r->median_ns);
	printf(" | bound %lld | predicted ", (long long)bound);
	if (is_predicted(g, r))
		printf("%lld (%.2f)", (long long)g->predicted_ns,
		    (double)g->predicted_ns / (double)r->median_ns);
	else
		printf("-");
	printf(" | regs %.*s | blocks %.*s | %llu samples, p10 %lld p90 %lld | error %.2g | capped %.*s\n",
	    STR_ARG(word(r->state, "regs")), STR_ARG(word(r->state, "blocks")),
	    (unsigned long long)r->samples, (long long)r->p10_ns, (long long)r->p90_ns, r->error,
	    STR_ARG(word(r->state, "capped")));
}

void
gpu_calibration_print(const struct device *d)
{
	const struct m_hw *h = &d->env.hw;
	const double *fact = d->info ? d->info->fact : NULL;

	if (!fact)
		return;
	printf("calibration: %.3f us a launch in a graph; memory %.4g GB/s, its cache %.4g GB/s, float32 "
	       "%.4g TFLOP/s, float16 products %.4g; "
	       "bounds count on %.4g GB/s, %.4g TFLOP/s, tensor cores %.4g TFLOP/s (TF32 %.4g)\n",
	    fact[DEV_FACT_call_ns] * 1e-3, fact[DEV_FACT_dram_bytes_per_s] * 1e-9,
	    fact[DEV_FACT_l2_bytes_per_s] * 1e-9, fact[DEV_FACT_flops_peak] * 1e-12, d->tensor_flops * 1e-12,
	    h->dram_bytes_per_s * 1e-9, h->flops_peak * 1e-12, h->half_flops * 1e-12, h->tf32_flops * 1e-12);
}
