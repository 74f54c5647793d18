/* tests/main_node_tests.c: korch-node-tests [--quiet] [--list=FILE] [--rewrite=N] DIR...
 *
 * Runs ONNX backend test cases through model, fission and interpreter: the meaning of every
 * operator, without generated code.  A case is a folder with model.onnx and test_data_set_K; a
 * DIR without model.onnx is a folder of cases; --list names those that count (first column).
 * --rewrite=N: the graph is rewritten first, and run with its first producers and with N random
 * choices among its alternatives.
 * Each case runs in a process of its own, so that a crash is that case's failure.  Prints the
 * failed ones with their cause, how many operators were folded at load, and the count. */
#include "harness/onnx_case.h"
#include "../daemon/fission/fission.h"
#include "../daemon/rewrite/rewrite.h"
#include "../kernels/interp/interp.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct result {
	bool passed;
	struct fission_stats stats;
	char why[508];
};

struct score {
	struct arena a;
	uint32_t n_passed, n_failed;
	struct fission_stats stats;
	bool is_quiet;
	int n_rewrite;   /* random choices among alternatives; -1: the graph as fission made it */
	struct str list; /* text of the list; p is NULL without one */
};

static bool
check_input(const struct graph *g, uint32_t j, const struct model_tensor *t, struct err *e)
{
	const struct tensor *want = graph_tensor(g, g->inputs[j]);

	if (t->type == want->type && shape_eq(&t->shape, &want->shape))
		return true;
	return err_set(
	    e, ERR_WRONG, "input %u: the file's tensor has another type or shape than the graph's", j);
}

static bool
run_set(struct arena *a, const char *dir, uint32_t set, const struct graph *g, const uint32_t *pick,
    struct err *e)
{
	const void **in = NEW_ARRAY(a, const void *, g->n_inputs + 1);
	void **out = NEW_ARRAY(a, void *, g->n_outputs + 1);
	struct model_tensor t;
	struct tolerance tol;

	for (uint32_t j = 0; j < g->n_inputs; j++) {
		if (!case_tensor(a, dir, set, "input", j, &t, e))
			return e->code ? false : err_set(e, ERR_IO, "input_%u.pb is missing", j);
		if (!check_input(g, j, &t, e))
			return false;
		in[j] = t.data;
	}
	if (!interp_run(a, g, in, pick, out, e))
		return err_in(e, "interpreting");
	for (uint32_t j = 0; j < g->n_outputs; j++) {
		if (!case_tensor(a, dir, set, "output", j, &t, e))
			return e->code ? false : err_set(e, ERR_IO, "output_%u.pb is missing", j);
		if (!case_tolerance(a, dir, j, &tol, e) ||
		    !case_agrees(&t, graph_tensor(g, g->outputs[j]), out[j], tol, e))
			return err_in(e, "output %u", j);
	}
	return true;
}

/* One producer for each tensor that has any. */
static uint32_t *
random_pick(struct arena *a, const struct graph *g, uint64_t seed)
{
	struct graph_index x = graph_index_make(a, g);
	uint32_t *pick = NEW_ARRAY(a, uint32_t, g->n_tensors);
	struct rng r = {seed};

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint32_t n = x.maker_first[t + 1] - x.maker_first[t];

		pick[t] = n ? x.maker[x.maker_first[t] + rng_below(&r, n)] : NO_NODE;
	}
	return pick;
}

static bool
run_sets(struct arena *a, const char *dir, const struct graph *g, const uint32_t *pick, struct err *e)
{
	for (uint32_t set = 0; case_has_set(dir, set); set++) {
		struct arena_mark m = arena_mark(a);

		if (!run_set(a, dir, set, g, pick, e))
			return err_in(e, "data set %u", set);
		arena_reset(a, m);
	}
	return case_has_set(dir, 0) ? true : err_set(e, ERR_IO, "there is no test_data_set_0");
}

static bool
run_rewritten(struct arena *a, const char *dir, const struct graph *g, int n_picks, struct err *e)
{
	struct rewrite_opts o = {
	    .normalize = true, .alternatives = true, .worst = NUM_REASSOC, .max_nodes = 20000};
	struct rewrite_stats stats;
	struct graph alt;

	if (!rewrite_run(a, g, &o, &alt, &stats, e))
		return err_in(e, "rewriting");
	graph_verify(&alt);
	if (!run_sets(a, dir, &alt, NULL, e))
		return err_in(e, "rewritten");
	for (int i = 1; i <= n_picks; i++)
		if (!run_sets(a, dir, &alt, random_pick(a, &alt, (uint64_t)i), e))
			return err_in(e, "rewritten, choice %d", i);
	return true;
}

static bool
run_case(struct arena *a, const char *dir, int n_rewrite, struct fission_stats *stats, struct err *e)
{
	struct bytes onnx;
	struct model m;
	struct graph g;

	if (!os_read_file(os_real(), a, arena_printf(a, "%s/model.onnx", dir), 1u << 30, &onnx, e) ||
	    !model_read(a, onnx, "model.onnx", dir, &model_limits_default, &m, e) ||
	    !fission_run(a, &m, &g, stats, e))
		return false;
	graph_verify(&g);
	return n_rewrite < 0 ? run_sets(a, dir, &g, NULL, e) : run_rewritten(a, dir, &g, n_rewrite, e);
}

static void
child(const char *dir, int n_rewrite, int fd)
{
	struct arena a = {0};
	struct result r = {0};
	struct err e = {0};

	r.passed = run_case(&a, dir, n_rewrite, &r.stats, &e);
	(void)snprintf(r.why, sizeof(r.why), "%s", e.msg);
	arena_fini(&a);
	_exit(write(fd, &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 2);
}

static struct result
run_apart(const char *dir, int n_rewrite)
{
	struct result r = {0};
	int fd[2], status;
	pid_t pid;

	if (pipe(fd) != 0 || (pid = fork()) < 0) {
		perror("korch-node-tests");
		exit(1);
	}
	if (pid == 0) {
		close(fd[0]);
		child(dir, n_rewrite, fd[1]);
	}
	close(fd[1]);
	if (read(fd[0], &r, sizeof(r)) != (ssize_t)sizeof(r))
		r = (struct result){.why = "crashed"};
	close(fd[0]);
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		r.passed = false;
	return r;
}

static bool
listed(const struct score *s, const char *name)
{
	struct str rest = s->list, line;

	if (!s->list.p)
		return true;
	while (rest.n) {
		line = str_cut(&rest, '\n');
		if (str_is(str_cut(&line, '\t'), name))
			return true;
	}
	return false;
}

static void
run_one(struct score *s, const char *dir)
{
	const char *name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
	struct result r;

	if (!listed(s, name))
		return;
	fflush(stdout);
	r = run_apart(dir, s->n_rewrite);
	if (r.passed) {
		s->n_passed++;
		if (!s->is_quiet)
			printf("ok   %s: %u operators, %u folded, %u primitives\n", name, r.stats.n_operators,
			    r.stats.n_folded, r.stats.n_primitives);
	} else {
		s->n_failed++;
		printf("FAIL %s: %s\n", name, r.why);
	}
	s->stats.n_operators += r.stats.n_operators;
	s->stats.n_folded += r.stats.n_folded;
	s->stats.n_primitives += r.stats.n_primitives;
}

/* A case, or a folder whose folders are cases, in the order of their names. */
static void
run_path(struct score *s, const char *path)
{
	struct dirent **list;
	int n;

	if (access(arena_printf(&s->a, "%s/model.onnx", path), R_OK) == 0) {
		run_one(s, path);
		return;
	}
	n = scandir(path, &list, NULL, alphasort);
	if (n < 0) {
		s->n_failed++;
		printf("FAIL %s: cannot be read\n", path);
		return;
	}
	for (int i = 0; i < n; i++) {
		char *dir = arena_printf(&s->a, "%s/%s", path, list[i]->d_name);

		if (list[i]->d_name[0] != '.' && access(arena_printf(&s->a, "%s/model.onnx", dir), R_OK) == 0)
			run_one(s, dir);
		free(list[i]);
	}
	free(list);
}

static bool
read_list(struct score *s, const char *file)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), &s->a, file, 1 << 20, &b, &e)) {
		fprintf(stderr, "korch-node-tests: %s\n", e.msg);
		return false;
	}
	s->list = (struct str){(const char *)b.p, b.n};
	return true;
}

int
main(int argc, char **argv)
{
	struct score s = {.n_rewrite = -1};
	int i = 1;
	bool ok;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--quiet") == 0)
			s.is_quiet = true;
		else if (strncmp(argv[i], "--rewrite=", 10) == 0)
			s.n_rewrite = (int)strtol(argv[i] + 10, NULL, 10);
		else if (strncmp(argv[i], "--list=", 7) != 0 || !read_list(&s, argv[i] + 7))
			return 2;
	}
	if (i == argc) {
		fprintf(stderr, "usage: korch-node-tests [--quiet] [--list=FILE] [--rewrite=N] DIR...\n");
		return 2;
	}
	for (; i < argc; i++)
		run_path(&s, argv[i]);
	printf("%u operators, %u folded at load, %u primitives\n", s.stats.n_operators, s.stats.n_folded,
	    s.stats.n_primitives);
	printf("%u passed, %u failed\n", s.n_passed, s.n_failed);
	ok = s.n_passed > 0 && s.n_failed == 0;
	arena_fini(&s.a);
	return ok ? 0 : 1;
}
