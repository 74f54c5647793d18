/* tests/bench/main_compile.c: what generating and compiling costs: COUNT distinct candidates, taken evenly
 * from the models in turn, each with SCHEDULE (its first where none is given), BATCH to a file, one file
 * after the other.  More than there are: all, neighbours in one file; --every=K then compiles only each K-th
 * file.
 *
 * With --keep=FOLDER the files' text stays there, nothing is compiled and the compiler's arguments are
 * printed.
 *
 *   bench-compile [--count=2000] [--batch=24] [--every=K] [--keep=FOLDER] [--schedule=TEXT] [--target=avx2]
 *       MODEL.onnx... */
#include "../harness/model_candidates.h"

#include "../../kernels/generate/generate.h"
#include "../../kernels/device/dev.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct args {
	int64_t count, batch, every;
	const char *keep, *schedule;
	struct target target;
	char **files;
	int n_files;
};
struct totals {
	uint32_t kernels, refused, files;
	size_t text, object;
	double generate_s;
};

/* Of this process and of all that it waited for. */
static double
cpu_s(int who)
{
	struct rusage u;

	(void)getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	    1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static bool
is_known(struct spec *const *list, uint32_t n, const struct spec *s)
{
	for (uint32_t i = 0; i < n; i++)
		if (hash_eq(&list[i]->hash, &s->hash))
			return true;
	return false;
}

static bool
keep(struct arena *a, const struct args *args, struct str text, struct totals *t, struct err *e)
{
	const char *path = arena_printf(a, "%s/file%04u.c", args->keep, t->files++);
	FILE *f = fopen(path, "we");
	bool ok = f && fwrite(text.p, 1, text.n, f) == text.n;

	ok = f && fclose(f) == 0 && ok;
	return ok || err_set(e, ERR_IO, "%s: cannot write", path);
}

/* Compiles the next specs of the list, up to a batch of them; how many were taken. */
static uint32_t
one_file(const struct args *args, struct spec *const *specs, uint32_t n, const struct target *target,
    struct totals *t, struct err *e)
{
	struct compile_opts o = {.flags = generate_c_flags(target)};
	struct arena a = {0};
	struct strbuf sb;
	struct bytes object = {0};
	uint32_t made = 0, i;
	double start = cpu_s(RUSAGE_SELF);

	sb_init(&sb, &a);
	sb_add(&sb, prelude_c(&a, target));
	for (i = 0; i < n && made < args->batch; i++) {
		struct kernel_code code;
		struct err why = {0};

		if (generate_kernel(&a, specs[i], str_of(args->schedule), target,
			arena_printf(&a, "k%u", made), &code, &why)) {
			sb_add(&sb, code.text);
			made++;
		} else if (t->refused++ == 0)
			fprintf(stderr, "bench-compile: the first that is refused: %s\n", why.msg);
	}
	t->generate_s += cpu_s(RUSAGE_SELF) - start;
	t->kernels += made;
	t->text += sb.n;
	if (made &&
	    !(args->keep ? keep(&a, args, sb_str(&sb), t, e) : compile_c(&a, sb_str(&sb), &o, &object, e)))
		i = 0;
	t->object += object.n;
	arena_fini(&a);
	return i;
}

/* The candidates of all files, each spec once, an even share of each file. */
static bool
gather(struct arena *a, const struct args *args, struct spec ***out, uint32_t *n, struct err *e)
{
	uint32_t share = ck_u32((size_t)(args->count / args->n_files));

	*out = NEW_ARRAY(a, struct spec *, (size_t)args->count);
	*n = 0;
	for (int f = 0; f < args->n_files; f++) {
		uint32_t want = f + 1 < args->n_files ? share : ck_u32((size_t)args->count) - *n, step,
			 got = 0;
		struct cand_set cs;

		if (!model_candidates(a, args->files[f], &cs, e))
			return err_in(e, "%s", args->files[f]);
		step = MAX_OF(cs.n_specs / MAX_OF(want, 1u), 1u);
		for (uint32_t i = 0; i < cs.n_specs && got < want; i += step) {
			if (is_known(*out, *n, &cs.specs[i]))
				continue;
			(*out)[(*n)++] = &cs.specs[i];
			got++;
		}
	}
	return true;
}

static bool
run(const struct args *args, struct err *e)
{
	struct arena a = {0};
	struct totals t = {0};
	struct spec **specs;
	const struct target *target = &args->target;
	uint32_t n, at = 0, took;
	int64_t start;
	bool ok = gather(&a, args, &specs, &n, e);
	double compiled;

	for (const char *const *f = generate_c_flags(target); args->keep && *f; f++)
		printf("%s%s", *f, f[1] ? " " : "\n");
	start = os_real()->mono_ns(NULL);
	compiled = cpu_s(RUSAGE_CHILDREN);
	for (int64_t file = 0; ok && at < n; at += took, file++) {
		took = MIN_OF((uint32_t)args->batch, n - at);
		if (file % args->every)
			continue;
		took = one_file(args, specs + at, n - at, target, &t, e);
		ok = took > 0;
	}
	compiled = cpu_s(RUSAGE_CHILDREN) - compiled;
	if (ok)
		printf("%u kernels in files of %lld, %u refused by the generator: %.1f s of CPU (generating "
		       "%.1f, compiling %.1f), "
		       "%.1f s of wall time; %.1f ms a kernel; %.1f MB of text, %.1f MB of code\n",
		    t.kernels, (long long)args->batch, t.refused, t.generate_s + compiled, t.generate_s,
		    compiled, (double)(os_real()->mono_ns(NULL) - start) * 1e-9,
		    1e3 * (t.generate_s + compiled) / MAX_OF(t.kernels, 1u), (double)t.text * 1e-6,
		    (double)t.object * 1e-6);
	arena_fini(&a);
	return ok;
}

int
main(int argc, char **argv)
{
	struct args args = {
	    .count = 2000, .batch = 24, .every = 1, .schedule = "", .target = target_avx2, .files = argv + 1};
	struct err e = {0};
	bool ok = true;

	for (int i = 1; i < argc && ok; i++) {
		if (strncmp(argv[i], "--count=", 8) == 0)
			ok = str_to_i64(str_of(argv[i] + 8), &args.count);
		else if (strncmp(argv[i], "--keep=", 7) == 0)
			args.keep = argv[i] + 7;
		else if (strncmp(argv[i], "--schedule=", 11) == 0)
			args.schedule = argv[i] + 11;
		else if (strncmp(argv[i], "--target=", 9) == 0)
			ok = target_read(str_of(argv[i] + 9), &args.target, &e);
		else if (strncmp(argv[i], "--every=", 8) == 0)
			ok = str_to_i64(str_of(argv[i] + 8), &args.every);
		else if (strncmp(argv[i], "--batch=", 8) == 0)
			ok = str_to_i64(str_of(argv[i] + 8), &args.batch);
		else if (strncmp(argv[i], "--", 2) == 0)
			ok = false;
		else
			args.files[args.n_files++] = argv[i];
	}
	if (!ok || args.n_files == 0 || args.target.is_cuda || args.count < args.n_files ||
	    args.count > 100000 || args.batch < 1 || args.batch > 10000 || args.every < 1) {
		if (e.msg[0])
			fprintf(stderr, "bench-compile: %s\n", e.msg);
		fprintf(stderr,
		    "usage: bench-compile [--count=2000] [--batch=24] [--every=K] [--keep=FOLDER] "
		    "[--schedule=TEXT] [--target=avx2] MODEL.onnx...\n");
		return 2;
	}
	if (!run(&args, &e)) {
		fprintf(stderr, "bench-compile: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	return 0;
}
