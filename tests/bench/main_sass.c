/* tests/bench/main_sass.c: machine code of GPU kernels judged without a GPU.
 *
 *   bench-sass [--golden] [--conflicts] [--only=NAME-PART] [LIST...]
 *   bench-sass --make=DIR [NAME...]
 *
 * The first prints a line a kernel: of tests/golden/sass/kernels.txt made by the generator of today and this
 * host's NVRTC
 * (--golden, or where there is none: as they lie there; --conflicts: bank conflicts as the host shim counts
 * them in place of those of the list), then of each LIST that gpu_peers.sh has written. The second makes the
 * golden cubins (tests/golden/sass/make.sh). */
#include "../harness/code_figures.h"
#include "../harness/cuda_conflicts.h"
#include "../harness/gold.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MOST = 16 << 20 };

/* ---- the golden cubins ------------------------------------------------------------------------------ */
static bool
is_named(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 2;
}

/* Each golden kernel in turn, as long as `one` says true, with what it needs to be compiled. */
static bool
each_gold(bool (*one)(void *self, struct arena *a, struct gpu *gpu, struct gold *k), void *self)
{
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);
	struct gpu gpu;
	bool ok = true;

	gpu_open(&gpu);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = one(self, &a, &gpu, &list[i]);
	gpu_close(&gpu);
	arena_fini(&a);
	return ok;
}

/* Of all passes: as many times longer as loads, stores and copies take. */
static bool
count_conflicts(struct arena *a, const struct gold *k, double out[4], struct err *e)
{
	static struct conflict list[CONFLICT_ROWS];
	static const int place[CONFLICT_KINDS] = {0, 2, 3}; /* load, store, copy */
	double turns[CONFLICT_KINDS] = {0}, ideal[CONFLICT_KINDS] = {0};
	struct kernel_code code;
	struct spec s;
	uint32_t n;

	if (!gold_code(a, k, &s, &code, e) || !cuda_conflicts(a, &s, &code, list, &n, e))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		turns[list[i].kind] += list[i].turns;
		ideal[list[i].kind] += list[i].ideal;
	}
	for (int i = 0; i < CONFLICT_KINDS; i++)
		out[place[i]] = ideal[i] > 0 ? turns[i] / ideal[i] : 1;
	return true;
}

/* For its row of the list: what the host shim counts, and what stands there. */
static bool
print_conflicts(struct arena *a, const struct gold *k, struct err *e)
{
	double f[4] = {1, 1, 1, 1};
	const double *is = k->conflict;

	if (k->is_text || k->is_old)
		return true;
	if (!count_conflicts(a, k, f, e))
		return false;
	printf("%s: conflict=%.4g,%.4g,%.4g,%.4g as counted; in the list %.4g,%.4g,%.4g,%.4g\n", k->name,
	    f[0], f[1], f[2], f[3], is[0], is[1], is[2], is[3]);
	return true;
}

struct making {
	const char *folder;
	int argc;
	char **argv;
	bool ok;
};

/* What there is no NVRTC for is said and left as it lies there. */
static bool
make_one(void *self, struct arena *a, struct gpu *gpu, struct gold *k)
{
	struct making *m = self;
	struct bytes cubin;
	struct err e = {0};
	const char *path = arena_printf(a, "%s/%s", m->folder, gold_file(a, k));

	if (!is_named(k->name, m->argc, m->argv))
		return true;
	if (gold_compile(a, gpu, k, &cubin, &e) && os_write_file(os_real(), path, cubin, &e)) {
		printf("%s: %zu bytes\n", path, cubin.n);
		if (print_conflicts(a, k, &e))
			return true;
	}
	fprintf(stderr, "bench-sass: %s: %s\n", gold_file(a, k), e.msg);
	m->ok = false;
	return true;
}

static bool
make(const char *folder, int argc, char **argv)
{
	struct making m = {folder, argc, argv, true};

	return each_gold(make_one, &m) && m.ok;
}

/* ---- the table --------------------------------------------------------------------------------------------
 */
static void
head(void)
{
	printf("%-46s %-4s %-6s %4s %6s %6s %6s %-7s %6s %5s %5s %5s %4s %12s %9s %8s %9s\n", "kernel", "sm",
	    "pass", "regs", "blocks", "loop", "/MMA", "bound", "by", "model", "LDG", "LDGSTS", "LDSM",
	    "LDS/STS/copy", "cycles", "us/loop", "us/kernel");
}

static const char *
bytes_words(char *to, size_t cap, uint32_t n)
{
	(void)snprintf(to, cap, n ? "%u" : "-", 8 * n);
	return to;
}

static void
line(const char *name, const char *arch, const struct cubin_kernel *c, const struct code_figures *f)
{
	char load[16], copy[16], bound[16] = "-", model[16] = "-", per[16] = "-", pass[8], conflict[32];

	if (f->bound > 0) {
		(void)snprintf(bound, sizeof(bound), "%.2f", f->bound);
		(void)snprintf(model, sizeof(model), "%.2f", f->model);
		(void)snprintf(per, sizeof(per), "%.2f", f->per_mma);
	}
	(void)snprintf(pass, sizeof(pass), "%.6s", strncmp(c->name, "k_p", 3) == 0 ? c->name : "-");
	(void)snprintf(
	    conflict, sizeof(conflict), "%.3g/%.3g/%.3g", f->load.load, f->load.store, f->load.copy);
	printf("%-46s %-4s %-6s %4u %6u %6u %6s %-7s %6s %5s %5s %5s %4u %12s %9.0f %8.1f %9.1f\n", name,
	    arch, pass, f->registers, f->blocks, f->n_loop, per, bound,
	    f->n_loop ? sass_unit_name(f->unit) : "-", model, bytes_words(load, sizeof(load), f->load_bytes),
	    bytes_words(copy, sizeof(copy), f->copy_bytes), f->n_ldsm, conflict, f->cycles, f->loop_us,
	    f->kernel_us);
}

/* All kernels of a cubin; `threads` 0: what they were compiled for. */
static bool
lines(struct arena *a, const char *name, const char *arch, struct bytes b, uint32_t threads, uint32_t dynamic,
    const double conflict[4], struct err *e)
{
	struct cubin *c = NEW(a, struct cubin);

	if (!cubin_read(b, c, e))
		return err_in(e, "%s", name);
	for (uint32_t i = 0; i < c->n_kernels; i++) {
		struct code_figures f;

		if (!code_figures(a, b, &c->kernel[i], c->sm, threads, dynamic, conflict, &f, e))
			return err_in(e, "%s: %s", name, c->kernel[i].name);
		line(name, arch, &c->kernel[i], &f);
	}
	return true;
}

struct args {
	const char *only;
	bool golden, conflicts;
};

struct ours {
	const struct args *args;
	struct err *e;
};

static bool
ours_one(void *self, struct arena *a, struct gpu *gpu, struct gold *k)
{
	const struct ours *o = self;
	struct bytes b;
	struct err why = {0};
	bool is_old = o->args->golden || k->is_text || k->is_old;

	if (!strstr(k->name, o->args->only))
		return true;
	if (is_old || !gold_compile(a, gpu, k, &b, &why)) {
		is_old = true;
		b = gold_cubin(a, k);
	}
	if (o->args->conflicts && !is_old && !count_conflicts(a, k, k->conflict, o->e))
		return false;
	return lines(a, arena_printf(a, "%s%s", k->name, is_old ? " (golden)" : ""), k->arch, b, 0,
	    k->dynamic_bytes, k->conflict, o->e);
}

/* A line: FILE SM WARPS STAGES REGISTERS SHARED-BYTES BLOCKS. */
static bool
peer(struct arena *a, const struct args *args, const char *list, struct str text, struct err *e)
{
	static const double none[4] = {1, 1, 1, 1};
	const char *slash = strrchr(list, '/');
	char file[256], sm[8];
	unsigned warps, stages, registers, shared;
	struct bytes b;

	if (sscanf(str_dup(a, text), "%255s %7s %u %u %u %u", file, sm, &warps, &stages, &registers,
		&shared) != 6)
		return err_set(e, ERR_FORMAT, "%s: '%.*s' is no line of gpu_peers.sh", list, STR_ARG(text));
	if (!strstr(file, args->only))
		return true;
	return os_read_file(os_real(), a,
		   arena_printf(a, "%.*s%s", slash ? (int)(slash + 1 - list) : 0, list, file), FILE_MOST, &b,
		   e) &&
	    lines(a, file, sm, b, 32 * warps, shared, none, e);
}

static bool
peers(const struct args *args, const char *list, struct err *e)
{
	struct arena a = {0};
	struct bytes b;
	bool ok = os_read_file(os_real(), &a, list, FILE_MOST, &b, e);

	for (struct str rest = {ok ? (const char *)b.p : "", ok ? b.n : 0}; ok && rest.n;) {
		const struct str text = str_trim(str_cut(&rest, '\n'));

		ok = text.n == 0 || text.p[0] == '#' || peer(&a, args, list, text, e);
	}
	arena_fini(&a);
	return ok;
}

int
main(int argc, char **argv)
{
	struct args args = {.only = ""};
	struct err e = {0};
	bool ok = true;

	if (argc >= 2 && strncmp(argv[1], "--make=", 7) == 0)
		return make(argv[1] + 7, argc, argv) ? 0 : 1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--golden") == 0)
			args.golden = true;
		else if (strcmp(argv[i], "--conflicts") == 0)
			args.conflicts = true;
		else if (strncmp(argv[i], "--only=", 7) == 0)
			args.only = argv[i] + 7;
		else if (strncmp(argv[i], "--", 2) == 0) {
			fprintf(stderr,
			    "usage: bench-sass [--golden] [--conflicts] [--only=NAME-PART] [LIST...] | "
			    "--make=DIR "
			    "[NAME...]\n");
			return 2;
		}
	}
	head();
	ok = each_gold(ours_one, &(struct ours){&args, &e});
	for (int i = 1; i < argc && ok; i++)
		if (argv[i][0] != '-')
			ok = peers(&args, argv[i], &e);
	if (!ok)
		fprintf(stderr, "bench-sass: %s\n", e.msg);
	return ok ? 0 : err_exit_status(e.code);
}
