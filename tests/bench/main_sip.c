/* tests/bench/main_sip.c: what moving the instructions of finished kernels promises, by the static model.
 *
 *   bench-sip [--method=anneal|greedy|genetic] [--tries=N] [--seed=N] [--only=NAME-PART] [LIST...]
 *
 * A line a kernel with a loop: of the golden cubins as they lie, then of each LIST that gpu_peers.sh has
 * written: the loop's instructions; neighbours that may change places, as they are and with distances mended;
 * of those with a memory access; cycles of an iteration before and after and the bound; what is gained; moves
 * tried a second of processor time; and what forbade most. */
#include "../../kernels/sass/search.h"
#include "../harness/code_figures.h"
#include "../harness/gold.h"
#include "../harness/peer_list.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct args {
	struct sass_search how;
	const char *only;
};
struct pairs {
	uint32_t all, legal, mended, memory, memory_legal;
};

static double
processor_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool
may(struct sass_sched *s, uint32_t at, bool repair)
{
	const uint32_t mark = sass_sched_mark(s);
	const bool ok = sass_move(s, at, at + 1, repair) == SASS_LEGAL;

	sass_sched_undo(s, mark);
	return ok;
}

static struct pairs
count(const struct sass_kernel *k, const struct sass_loop *l)
{
	struct arena a = {0};
	struct sass_sched *s = sass_sched_make(&a, k);
	struct pairs p = {.all = l->last - l->first};

	for (uint32_t at = l->first; at < l->last; at++) {
		const bool legal = may(s, at, false), mended = may(s, at, true);
		const uint32_t flags = k->instr[at].flags | k->instr[at + 1].flags;

		p.legal += legal;
		p.mended += mended;
		p.memory += (flags & (SASS_LOAD | SASS_STORE)) != 0;
		p.memory_legal += mended && (flags & (SASS_LOAD | SASS_STORE));
	}
	arena_fini(&a);
	return p;
}

static enum sass_rule
strictest(const struct sass_found *f)
{
	int most = 1;

	for (int r = 2; r < SASS_RULES; r++)
		if (f->refused[r] > f->refused[most])
			most = r;
	return (enum sass_rule)most;
}

static void
head(void)
{
	printf("%-46s %-4s %5s %11s %9s %8s %8s %8s %6s %9s %s\n", "kernel", "pass", "loop", "legal/mend",
	    "memory", "cycles", "best", "bound", "gain", "moves/s", "most by");
}

static bool
line(const struct args *args, const char *name, struct bytes b, const char *kernel,
    const struct sass_load *load, struct err *e)
{
	struct arena a = {0};
	struct sass_search how = args->how;
	struct sass_kernel k;
	struct sass_found found;
	char legal[32], memory[32];

	how.warps = load->warps;
	how.blocks = load->blocks;
	how.load = load->load;
	how.matrix = load->matrix;
	how.store = load->store;
	how.copy = load->copy;
	const double from = processor_s();

	if (!sass_read(&a, b, kernel, &k, e) || !sass_search(&a, b, kernel, &how, &found, e)) {
		arena_fini(&a);
		return err_in(e, "%s", name);
	}
	const double seconds = processor_s() - from,
		     best = found.n_best ? found.best[0].price : found.base_price;
	const struct sass_loop *l = sass_hot(&k);
	const struct pairs p = count(&k, l);
	struct sass_bounds bounds;

	sass_bounds(&k, l->first, l->last + 1, load, &bounds);
	(void)snprintf(legal, sizeof(legal), "%u/%u", p.legal, p.mended);
	(void)snprintf(memory, sizeof(memory), "%u/%u", p.memory_legal, p.memory);
	printf("%-46.46s %-4.4s %5u %11s %9s %8.0f %8.0f %8.0f %5.1f%% %9.0f %s\n", name, kernel, p.all + 1,
	    legal, memory, found.base_price, best, sass_bound_cycles(&bounds),
	    100 * (1 - best / found.base_price), (double)found.tries / seconds,
	    sass_rule_name(strictest(&found)));
	(void)fflush(stdout);
	arena_fini(&a);
	return true;
}

/* All kernels of a golden cubin that have a loop. */
static bool
golden_lines(const struct args *args, const char *name, struct bytes b, uint32_t dynamic,
    const double conflict[4], struct err *e)
{
	struct arena a = {0};
	struct cubin *c = NEW(&a, struct cubin);
	bool ok = cubin_read(b, c, e);

	for (uint32_t n = 0; ok && n < c->n_kernels; n++) {
		struct code_figures f;

		ok = code_figures(&a, b, &c->kernel[n], c->sm, 0, dynamic, conflict, &f, e);
		if (ok && f.n_loop)
			ok = line(args, name, b, c->kernel[n].name, &f.load, e);
	}
	arena_fini(&a);
	return ok || err_in(e, "%s", name);
}

static bool
ours(const struct args *args, struct err *e)
{
	struct arena a = {0};
	struct gold *list = NEW_ARRAY(&a, struct gold, GOLD_KERNELS);
	const uint32_t n = gold_list(&a, list);
	bool ok = true;

	for (uint32_t q = 0; q < n && ok; q++) {
		const char *file = gold_file(&a, &list[q]);

		if (strstr(file, args->only))
			ok = golden_lines(
			    args, file, gold_cubin(&a, &list[q]), list[q].dynamic_bytes, list[q].conflict, e);
	}
	arena_fini(&a);
	return ok;
}

/* A cubin of others; a quarter has a fourth of the multiprocessor's warps. */
static bool
peer_lines(const struct args *args, const struct peer_cubin *p, struct err *e)
{
	const uint32_t warps = MAX_OF(p->warps * p->blocks / 4, 1U);
	const struct sass_load load = {.warps = MIN_OF(warps, (uint32_t)SASS_PRICE_WARPS),
	    .blocks = MIN_OF(MAX_OF(p->blocks, 1U), MIN_OF(warps, (uint32_t)SASS_PRICE_WARPS))};
	struct arena a = {0};
	const char *const *names;
	uint32_t n;
	bool ok = sass_names(&a, p->cubin, &names, &n, e);

	for (uint32_t q = 0; ok && q < n; q++) {
		struct sass_kernel k;

		ok = sass_read(&a, p->cubin, names[q], &k, e);
		if (ok && sass_hot(&k))
			ok = line(args, p->file, p->cubin, names[q], &load, e);
	}
	arena_fini(&a);
	return ok || err_in(e, "%s", p->file);
}

static bool
peers(const struct args *args, const char *path, struct err *e)
{
	struct arena a = {0};
	struct peer_cubin *list;
	uint32_t n;
	bool ok = peer_list_read(&a, path, &list, &n, e);

	for (uint32_t q = 0; q < n && ok; q++)
		if (strstr(list[q].file, args->only))
			ok = peer_lines(args, &list[q], e);
	arena_fini(&a);
	return ok;
}

/* ---- options ----------------------------------------------------------------------------------------------
 */
static bool
value(const char *arg, const char *name, struct str *out)
{
	const size_t n = strlen(name);

	if (strncmp(arg, name, n) != 0)
		return false;
	*out = str_of(arg + n);
	return true;
}

static bool
read_option(const char *arg, struct args *out)
{
	struct str s;
	int64_t v = 0;

	if (value(arg, "--method=", &s))
		return sass_method_read(s, &out->how.method);
	if (value(arg, "--only=", &s)) {
		out->only = s.p;
		return true;
	}
	if (value(arg, "--tries=", &s) && str_to_i64(s, &v) && v > 0) {
		out->how.tries = (uint64_t)v;
		return true;
	}
	if (value(arg, "--seed=", &s) && str_to_i64(s, &v)) {
		out->how.seed = (uint64_t)v;
		return true;
	}
	return false;
}

int
main(int argc, char **argv)
{
	struct args args = {.how = {.method = SASS_ANNEAL, .seed = 1, .tries = 100000}, .only = ""};
	struct err e = {0};
	bool ok = true;

	for (int n = 1; n < argc; n++)
		if (*argv[n] == '-' && !read_option(argv[n], &args)) {
			(void)fprintf(stderr,
			    "usage: bench-sip [--method=anneal|greedy|genetic] [--tries=N] [--seed=N] "
			    "[--only=NAME-PART] [LIST...]\n");
			return 2;
		}
	head();
	ok = ours(&args, &e);
	for (int n = 1; n < argc && ok; n++)
		if (*argv[n] != '-')
			ok = peers(&args, argv[n], &e);
	if (!ok)
		(void)fprintf(stderr, "bench-sip: %s\n", e.msg);
	return ok ? 0 : err_exit_status(e.code);
}
