/* tests/harness/gold.c: see the header. */
#include "gold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER KORCH_SOURCE_DIR "/tests/golden/sass"
enum { FILE_MOST = 4 << 20, DEFINES = 8 };

/* ---- the list ------------------------------------------------------------------------------------- */
static void
no(const char *what, struct str word)
{
	bug("tests/golden/sass/kernels.txt: %s: %.*s", what, STR_ARG(word));
}

static double
factor(struct str *list)
{
	double f = 1;

	if (list->n && !str_to_f64(str_cut(list, ','), &f))
		no("no number", *list);
	return f;
}

/* '+' stands for the blank between two knobs. */
static const char *
schedule_of(struct arena *a, struct str value)
{
	char *text = str_dup(a, value);

	for (char *p = text; *p; p++)
		*p = *p == '+' ? ' ' : *p;
	return text;
}

static void
read_word(struct arena *a, struct gold *k, struct str word, struct str *sms)
{
	struct str value = word, key = str_cut(&value, '=');
	int64_t n = 0;

	if (str_is(key, "graph") || str_is(key, "text")) {
		k->from = str_dup(a, value);
		k->is_text = str_is(key, "text");
	} else if (str_is(key, "made") && str_is(value, "before"))
		k->is_old = true;
	else if (str_is(key, "define"))
		k->define = str_dup(a, value);
	else if (str_is(key, "schedule"))
		k->schedule = schedule_of(a, value);
	else if (str_is(key, "sm"))
		*sms = value;
	else if (str_is(key, "precision") && precision_read(value, &k->precision))
		return;
	else if (str_is(key, "dynamic") && str_to_i64(value, &n))
		k->dynamic_bytes = (uint32_t)n;
	else if (str_is(key, "conflict")) {
		for (int i = 0; i < 4; i++)
			k->conflict[i] = factor(&value);
	} else
		no("what is this", word);
}

static uint32_t
read_line(struct arena *a, struct str line, struct gold *out)
{
	struct gold k = {.define = "", .schedule = "", .conflict = {1, 1, 1, 1}};
	struct str sms = STR("");
	uint32_t n = 0;

	k.name = str_dup(a, str_cut(&line, ' '));
	for (line = str_trim(line); line.n; line = str_trim(line))
		read_word(a, &k, str_cut(&line, ' '), &sms);
	while (sms.n) {
		struct str sm = str_cut(&sms, ',');

		k.arch = str_dup(a, sm);
		k.sm = (int)strtol(k.arch, NULL, 10);
		out[n++] = k;
	}
	return n;
}

uint32_t
gold_list(struct arena *a, struct gold *out)
{
	struct err e = {0};
	struct bytes b;
	struct str rest;
	uint32_t n = 0;

	if (!os_read_file(os_real(), a, FOLDER "/kernels.txt", FILE_MOST, &b, &e))
		bug("%s", e.msg);
	rest = (struct str){(const char *)b.p, b.n};
	while (rest.n) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n && line.p[0] != '#')
			n += read_line(a, line, &out[n]);
		if (n > GOLD_KERNELS - 8)
			no("too many kernels", line);
	}
	return n;
}

const char *
gold_file(struct arena *a, const struct gold *k)
{
	return arena_printf(a, "%s_sm%s.cubin", k->name, k->arch);
}

struct bytes
gold_cubin(struct arena *a, const struct gold *k)
{
	struct err e = {0};
	struct bytes b;

	if (!os_read_file(os_real(), a, arena_printf(a, FOLDER "/%s", gold_file(a, k)), FILE_MOST, &b, &e))
		bug("%s", e.msg);
	return b;
}

/* ---- made again --------------------------------------------------------------------------------------- */
static bool
source_of(struct arena *a, const struct gold *k, const char *ending, struct str *out, struct err *e)
{
	struct bytes b;

	if (!os_read_file(os_real(), a, arena_printf(a, FOLDER "/%s.%s", k->from, ending), FILE_MOST, &b, e))
		return false;
	*out = (struct str){(const char *)b.p, b.n};
	return true;
}

bool
gold_code(struct arena *a, const struct gold *k, struct spec *spec, struct kernel_code *code, struct err *e)
{
	struct target t = target_cuda;
	struct graph *g = NEW(a, struct graph);
	struct str text;

	if (k->is_text || k->is_old)
		return err_set(e, ERR_USAGE, k->is_text ? "%s is CUDA C" : "%s is of before", k->name);
	t.sm = k->sm;
	t.precision = k->precision;
	if (!source_of(a, k, "graph", &text, e) || !graph_read(g, a, text, e))
		return false;
	spec_of_graph(a, g, spec);
	return generate_kernel(a, spec, str_of(k->schedule), &t, "k", code, e);
}

static bool
not_taken(struct arena *a, const struct gpu *g, const struct gold *k, void *prog, struct err *e)
{
	size_t n = 0;
	char *text = "no log";

	if (prog && g->rtc.log_bytes(prog, &n) == 0 && n > 0 && n < FILE_MOST) {
		text = arena_alloc(a, n);
		if (g->rtc.log(prog, text) != 0)
			text = "no log";
	}
	return err_set(e, ERR_COMPILE, "NVRTC does not take %s for sm_%s: %.300s", k->from, k->arch, text);
}

/* With options of its own, which gpu_compile has none of. */
static bool
compile_text(struct arena *a, const struct gpu *g, const struct gold *k, struct bytes *out, struct err *e)
{
	const char *options[DEFINES + 3] = {arena_printf(a, "-arch=sm_%s", k->arch), "-default-device", "-w"};
	struct str text, defines = str_of(k->define);
	void *prog = NULL;
	size_t size = 0;
	char *bytes;
	int n = 3;

	if (!source_of(a, k, "cu", &text, e))
		return false;
	while (defines.n && n < DEFINES + 3) {
		const struct str one = str_cut(&defines, ',');

		options[n++] = arena_printf(a, "-D%.*s", STR_ARG(one));
	}
	if (g->rtc.create(&prog, str_dup(a, text), "k.cu", 0, NULL, NULL) != 0 ||
	    g->rtc.compile(prog, n, options) != 0 || g->rtc.cubin_bytes(prog, &size) != 0)
		return not_taken(a, g, k, prog, e);
	bytes = arena_alloc(a, size);
	if (g->rtc.cubin(prog, bytes) != 0)
		return err_set(e, ERR_COMPILE, "NVRTC does not give its cubin");
	(void)g->rtc.free(&prog);
	*out = (struct bytes){(const uint8_t *)bytes, size};
	return true;
}

bool
gold_compile(struct arena *a, struct gpu *g, const struct gold *k, struct bytes *out, struct err *e)
{
	struct kernel_code code;
	struct strbuf sb;
	struct spec spec;

	if (!g->has[GPU_NVRTC])
		return err_set(e, ERR_HOST, "%s", g->why[GPU_NVRTC]);
	if (!gpu_rtc_choose(g, k->sm, e))
		return false;
	if (k->is_text)
		return compile_text(a, g, k, out, e);
	if (!gold_code(a, k, &spec, &code, e))
		return false;
	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	sb_add(&sb, code.text);
	return gpu_compile(g, a, sb_str(&sb), k->sm, false, out, e);
}
