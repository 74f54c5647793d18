/* tests/bench/main_texts.c: what a generator makes of every candidate of models, schedule by schedule, and
 * what another makes otherwise.
 *
 *   bench-texts list [options] MODEL.onnx... >LIST     a line a kernel: spec, target, class, hash of its text
 *   bench-texts compare OLD NEW                        two such lists, differences by class; status 1: there
 *                                                      are some
 *   bench-texts time [options] MODEL.onnx...           texts of two generators in turns: ratio by class
 *
 * Options: --target=avx2 (target.c)  --effort=N schedules of a spec  --step=N --from=N of a model's specs
 * Of `time`: --old=NAME --new=NAME (generator.def) --flags=WORDS more for the compiler of what is new
 * --count=N kernels of a class --turns=N --rel=R --class=NAME --kernels (a line each). */
#include "../harness/text_time.h"

#include <stdio.h>
#include <string.h>

struct args {
	const char *mode;
	struct texts_opts texts;
	struct text_time_opts time;
	char **files;
	int n_files;
};

static bool
make(struct texts *t, const struct args *args, struct err *e)
{
	for (int i = 0; i < args->n_files; i++)
		if (!texts_add_model(t, &args->texts, args->files[i], e))
			return false;
	fprintf(stderr, "%u kernels of %u specs; refused: %u schedules, all of %u specs\n", t->n, t->n_seen,
	    t->refused, t->without);
	return true;
}

static bool
list(struct strbuf *out, const struct args *args, int *status, struct err *e)
{
	struct texts t = {.a = out->a};

	*status = 0;
	if (!make(&t, args, e))
		return false;
	texts_print(out, &t);
	return true;
}

static bool
read_list(struct texts *t, const char *file, struct err *e)
{
	struct bytes b;

	return os_read_file(os_real(), t->a, file, (size_t)1 << 30, &b, e) &&
	    texts_read(t, (struct str){(const char *)b.p, b.n}, file, e);
}

static bool
compare(struct strbuf *out, const struct args *args, int *status, struct err *e)
{
	struct texts old = {.a = out->a}, new = {.a = out->a};

	if (args->n_files != 2)
		return err_set(e, ERR_USAGE, "compare takes two lists, old and new");
	if (!read_list(&old, args->files[0], e) || !read_list(&new, args->files[1], e))
		return false;
	*status = texts_compare(out, &old, &new, 20) != 0;
	return true;
}

static bool
time_texts(struct strbuf *out, const struct args *args, int *status, struct err *e)
{
	struct text_time_opts o = args->time;
	struct texts t = {.a = out->a};
	struct text_times found;

	o.target = &args->texts.target;
	if (o.target->is_cuda)
		return err_set(e, ERR_USAGE, "--target: only kernels of this CPU can be timed");
	if (!make(&t, args, e) || !text_time(out, &t, &o, &found, e))
		return false;
	*status = found.wrong != 0;
	return true;
}

static const struct mode {
	const char *name;
	bool (*run)(struct strbuf *out, const struct args *args, int *status, struct err *e);
} modes[] = {{"list", list}, {"compare", compare}, {"time", time_texts}};

/* ---- arguments ------------------------------------------------------------------------------------- */
/* What stands behind "NAME="; false: it is another argument. */
static bool
is_option(const char *arg, const char *name, struct str *value)
{
	size_t n = strlen(name);

	if (strncmp(arg, name, n) != 0)
		return false;
	*value = str_of(arg + n);
	return true;
}

static bool
take_number(struct str v, int64_t least, int64_t most, int64_t *out)
{
	return str_to_i64(v, out) && *out >= least && *out <= most;
}

static bool
take_time_option(struct args *args, const char *arg, bool *known)
{
	struct text_time_opts *o = &args->time;
	struct str v;
	int64_t n = 0;
	bool ok;

	*known = true;
	if (is_option(arg, "--old=", &v))
		return (o->old = generator_named(v)) != NULL;
	if (is_option(arg, "--new=", &v))
		return (o->new = generator_named(v)) != NULL;
	if (is_option(arg, "--flags=", &v)) {
		o->flags = v.p;
		return true;
	}
	if (is_option(arg, "--count=", &v)) {
		ok = take_number(v, 1, 1000000, &n);
		o->count = (uint32_t)n;
		return ok;
	}
	if (is_option(arg, "--turns=", &v)) {
		ok = take_number(v, 1, 1001, &n);
		o->turns = (int)n;
		return ok;
	}
	if (is_option(arg, "--rel=", &v))
		return str_to_f64(v, &o->rel);
	if (is_option(arg, "--class=", &v))
		return (o->has_only = kernel_class_read(v, &o->only));
	*known = strcmp(arg, "--kernels") == 0;
	o->lines |= *known;
	return true;
}

static bool
take_argument(struct args *args, char *arg, struct err *e)
{
	struct str v;
	int64_t n;
	bool known, ok = take_time_option(args, arg, &known);

	if (known)
		return ok;
	if (is_option(arg, "--target=", &v))
		return target_read(v, &args->texts.target, e);
	if (is_option(arg, "--effort=", &v)) {
		ok = take_number(v, 1, 1000, &n);
		args->texts.effort = (uint32_t)n;
		return ok;
	}
	if (is_option(arg, "--step=", &v))
		return take_number(v, 1, 1 << 30, &args->texts.step);
	if (is_option(arg, "--from=", &v))
		return take_number(v, 0, 1 << 30, &args->texts.from);
	if (strncmp(arg, "--", 2) == 0)
		return false;
	else
		args->files[args->n_files++] = arg;
	return true;
}

static const struct mode *
mode_named(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(modes); i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	return NULL;
}

int
main(int argc, char **argv)
{
	struct args args = {.files = argv,
	    .texts = {.target = target_avx2, .effort = 8, .step = 1},
	    .time = {.old = generator_named(STR("emit")),
		.new = generator_named(STR("emit")),
		.flags = "",
		.count = 8,
		.turns = 21,
		.rel = 1e-4}};
	const struct mode *mode = argc > 1 ? mode_named(argv[1]) : NULL;
	struct arena a = {0};
	struct strbuf out;
	struct err e = {0};
	int status = 2;
	bool ok = mode != NULL;

	args.texts.target.winograd = true;
	for (int i = 2; i < argc && ok; i++)
		ok = take_argument(&args, argv[i], &e) ||
		    (!e.msg[0] &&
			err_set(&e, ERR_USAGE, "%s: no such option, or no such value of it", argv[i]));
	if (!ok || args.n_files == 0) {
		if (e.msg[0])
			fprintf(stderr, "bench-texts: %s\n", e.msg);
		fprintf(stderr, "usage: bench-texts list|compare|time [--name=value]... FILE...\n");
		return 2;
	}
	sb_init(&out, &a);
	if (!mode->run(&out, &args, &status, &e)) {
		fprintf(stderr, "bench-texts: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	(void)fwrite(out.p, 1, out.n, stdout);
	arena_fini(&a);
	return status;
}
