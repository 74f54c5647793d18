/* tests/bench/main_sip-legal.c: are legal moves right?  Random moves on the golden kernels, judged by hazards
 * and traces; then each rule switched off: is what it alone refuses seen to be wrong?
 *
 *   bench-sip-legal [--moves=N] [--anyway=M] [--only=NAME-PART] [--rules] [CUBIN...]
 *
 * N (1,000,000): moves over all kernels; every Mth refused one (50) is done all the same and judged. --rules:
 * only the table of rules.  Status 1: a legal move was wrong. */
#include "../../kernels/sass/cubin.h"
#include "../harness/moves.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER KORCH_SOURCE_DIR "/tests/golden/sass"
enum { KERNELS = 128 };

struct golden {
	struct arena a;
	struct sass_kernel k[KERNELS];
	const char *file[KERNELS];
	uint32_t n;
};

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- kernels ----------------------------------------------------------------------------------- */
static int
by_name(const struct dirent **x, const struct dirent **y)
{
	return strcmp((*x)->d_name, (*y)->d_name);
}

static int
is_cubin(const struct dirent *d)
{
	return strstr(d->d_name, ".cubin") != NULL;
}

static bool
read_cubin(struct golden *g, const char *file, struct err *e)
{
	struct cubin *c = NEW(&g->a, struct cubin);
	struct bytes b;

	if (!os_read_file(os_real(), &g->a, file, 1 << 24, &b, e) || !cubin_read(b, c, e))
		return err_in(e, "%s", file);
	for (uint32_t i = 0; i < c->n_kernels && g->n < KERNELS; i++) {
		if (!sass_read(&g->a, b, c->kernel[i].name, &g->k[g->n], e))
			return err_in(e, "%s", file);
		g->file[g->n++] = str_dup(&g->a, str_of(strrchr(file, '/') ? strrchr(file, '/') + 1 : file));
	}
	return true;
}

static bool
read_all(struct golden *g, const char *part, struct err *e)
{
	struct dirent **list;
	const int n = scandir(FOLDER, &list, is_cubin, by_name);
	bool ok = n >= 0 || err_set(e, ERR_IO, "%s cannot be read", FOLDER);

	for (int i = 0; i < n; i++) {
		if (ok && strstr(list[i]->d_name, part))
			ok = read_cubin(g, arena_printf(&g->a, FOLDER "/%s", list[i]->d_name), e);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return ok;
}

/* ---- legal moves --------------------------------------------------------------------------------- */
static void
print_refused(const struct moves_count *c)
{
	printf("\nrefused by                                                                    | moves | "
	       "done anyway | "
	       "seen to be wrong\n");
	for (uint32_t r = 1; r < SASS_RULES; r++)
		if (c->refused[r])
			printf("%-4s %-72.72s | %7llu | %6llu | %6llu\n", sass_rule_name((enum sass_rule)r),
			    sass_rule_text((enum sass_rule)r), (unsigned long long)c->refused[r],
			    (unsigned long long)c->done_of[r], (unsigned long long)c->wrong_of[r]);
}

static bool
try_legal(const struct golden *g, uint32_t moves, uint32_t anyway)
{
	struct moves_count all = {.tried = 0};
	const double from = seconds();

	printf("kernel                                   |   moves |   legal | hazards | other traces | "
	       "displaced\n");
	for (uint32_t i = 0; i < g->n; i++) {
		const struct moves_count before = all;
		const struct moves_ask ask = {
		    .moves = moves / g->n, .seed = 1 + i, .anyway = anyway, .inputs = 3};

		moves_try(&g->k[i], &ask, &all);
		printf("%-28.28s %-11s | %7llu | %7llu | %7llu | %12llu | %9llu\n", g->file[i], g->k[i].name,
		    (unsigned long long)(all.tried - before.tried),
		    (unsigned long long)(all.legal - before.legal),
		    (unsigned long long)(all.hazards - before.hazards),
		    (unsigned long long)(all.traces - before.traces),
		    (unsigned long long)(all.kept - before.kept));
		fflush(stdout);
	}
	print_refused(&all);
	printf("\n%llu moves, %llu legal: %llu with a hazard, %llu with another trace, %llu displaced; %llu "
	       "runs, %.0f s\n",
	    (unsigned long long)all.tried, (unsigned long long)all.legal, (unsigned long long)all.hazards,
	    (unsigned long long)all.traces, (unsigned long long)all.kept, (unsigned long long)all.runs,
	    seconds() - from);
	printf("of %llu refused ones done all the same, %llu are seen to be wrong\n",
	    (unsigned long long)all.done_anyway, (unsigned long long)all.wrong);
	if (all.first[0])
		printf("first: %s\n", all.first);
	return all.hazards + all.traces + all.kept == 0;
}

/* ---- rules switched off --------------------------------------------------------------------------- */
/* Has legal_test a case that this rule refuses? */
static bool
has_case(struct arena *a, const char *rule)
{
	struct err e = {0};
	struct bytes b;

	if (!os_read_file(os_real(), a, KORCH_SOURCE_DIR "/tests/unit/legal_cases.txt", 1 << 20, &b, &e))
		return false;
	return strstr(arena_printf(a, "%.*s", (int)b.n, (const char *)b.p),
		   arena_printf(a, "= %s\n", rule)) != NULL;
}

static bool
try_rule(struct golden *g, enum sass_rule rule, uint32_t moves)
{
	struct moves_count c = {.tried = 0};
	const struct moves_ask ask = {.moves = moves, .without = 1u << rule, .inputs = 2, .at_most = 3};

	for (uint32_t i = 0; i < g->n && c.hazards + c.traces + c.kept < 12; i++) {
		struct moves_ask one = ask;

		one.seed = 1000 + i;
		moves_try(&g->k[i], &one, &c);
	}
	const uint64_t seen = c.hazards + c.traces + c.kept;
	const bool by_case = has_case(&g->a, sass_rule_name(rule));

	printf("%-4s | %7llu | %3llu hazards, %3llu traces, %3llu displaced | %-6s | %s\n",
	    sass_rule_name(rule), (unsigned long long)c.legal, (unsigned long long)c.hazards,
	    (unsigned long long)c.traces, (unsigned long long)c.kept, by_case ? "case" : "-",
	    c.first[0] ? c.first : "");
	fflush(stdout);
	return seen || by_case;
}

static bool
try_rules(struct golden *g)
{
	bool all = true;

	printf("\nrule off | accepted | seen by the machine | legal_test | the first\n");
	for (uint32_t r = 1; r < SASS_RULES; r++)
		all &= try_rule(g, (enum sass_rule)r, 4000);
	return all;
}

int
main(int argc, char **argv)
{
	static struct golden g;
	struct err e = {0};
	const char *part = "";
	uint32_t moves = 1000000, anyway = 50;
	bool rules_only = false, ok = true, own = false;

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--moves=", 8) == 0)
			moves = (uint32_t)strtoul(argv[i] + 8, NULL, 10);
		else if (strncmp(argv[i], "--anyway=", 9) == 0)
			anyway = (uint32_t)strtoul(argv[i] + 9, NULL, 10);
		else if (strncmp(argv[i], "--only=", 7) == 0)
			part = argv[i] + 7;
		else if (strcmp(argv[i], "--rules") == 0)
			rules_only = true;
		else if (argv[i][0] != '-') {
			own = true;
			if (!read_cubin(&g, argv[i], &e)) {
				fprintf(stderr, "bench-sip-legal: %s\n", e.msg);
				return 1;
			}
		} else {
			fprintf(stderr,
			    "usage: bench-sip-legal [--moves=N] [--anyway=M] [--only=NAME-PART] [--rules] "
			    "[CUBIN...]\n");
			return 2;
		}
	}
	if ((!own && !read_all(&g, part, &e)) || g.n == 0) {
		fprintf(stderr, "bench-sip-legal: %s\n", e.code ? e.msg : "no golden kernel of that name");
		return 1;
	}
	if (!rules_only)
		ok = try_legal(&g, moves, anyway);
	ok &= try_rules(&g);
	arena_fini(&g.a);
	return ok ? 0 : 1;
}
