/* tests/harness/cuda_host.c: see the header. */
#include "cuda_host.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SECONDS = 300, WORD = 16 }; /* the longest that is moved */

static size_t
whole_pages(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

void *
guard_new(size_t n)
{
	size_t whole = whole_pages(n);
	char *p = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + whole, PAGE, PROT_NONE) != 0)
		bug("no memory for a test");
	memset(p, 0xff, whole);
	return p + whole - n;
}

void
guard_free(void *p, size_t n)
{
	munmap((char *)p + n - whole_pages(n), whole_pages(n) + PAGE);
}

/* ---- compiling ------------------------------------------------------------------------------------ */
void *
cuda_host_load(struct arena *a, struct str text)
{
	char dir[] = "/tmp/korch-cuda-XXXXXX";
	struct strbuf sb;
	struct err e = {0};
	void *lib = NULL;

	if (!mkdtemp(dir))
		bug("no folder for the compiler");
	const char *c = arena_printf(a, "%s/k.c", dir), *so = arena_printf(a, "%s/k.so", dir);

	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, true));
	sb_add(&sb, text);
	if (!os_write_file(os_real(), c, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e))
		bug("%s", e.msg);
	if (system(arena_printf(a,
		"cc -std=gnu11 -w -O1 -shared -fPIC -fwrapv -ffp-contract=off -fsanitize=bounds"
		" -fsanitize-undefined-trap-on-error -o %s %s -lm",
		so, c)) == 0)
		lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "%s does not compile\n", c);
		return NULL;
	}
	unlink(c);
	unlink(so);
	rmdir(dir);
	return lib;
}

void
cuda_host_unload(void *lib)
{
	dlclose(lib);
}

/* ---- running --------------------------------------------------------------------------------------- */
typedef void pass_fn(void *const *buf, char *shared, char *local, long lo, long hi);
typedef int run_fn(pass_fn *fn, const unsigned *grid, const unsigned *block, unsigned long smem,
    void *const *buf, char *shared, char *local, long lo, long hi);
typedef void order_fn(int order);

static void *
symbol_of(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		bug("no symbol %s", name);
	return p;
}

static int
run_passes(void *lib, const struct kernel_code *k, const char *symbol, void *const *buf, int order)
{
	char *shared = guard_new((k->desc.shared_bytes + WORD - 1) / WORD * WORD), name[64];
	run_fn *run;
	order_fn *set;
	pass_fn *fn;
	void *p = symbol_of(lib, "kk_run");

	memcpy(&run, &p, sizeof(run));
	p = symbol_of(lib, "kk_set_order");
	memcpy(&set, &p, sizeof(set));
	set(order);
	for (uint32_t q = 0; q < k->desc.n_passes; q++) {
		size_t n_local = k->desc.local_bytes * k->desc.launch[q].grid[0];
		char *local = guard_new(n_local);

		snprintf(name, sizeof(name), "%s_p%u", symbol, q);
		p = symbol_of(lib, name);
		memcpy(&fn, &p, sizeof(fn));
		int rc = run(fn, k->desc.launch[q].grid, k->desc.launch[q].block, k->desc.launch[q].smem, buf,
		    shared, local, 0, k->desc.range[q]);

		guard_free(local, n_local);
		if (rc)
			return rc;
	}
	return 0;
}

const char *
cuda_host_run(void *lib, const struct kernel_code *k, const char *symbol, void *const *buf, int order)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		bug("no child process");
	if (child == 0) {
		alarm(SECONDS);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGILL, SIG_DFL);
		_exit(run_passes(lib, k, symbol, buf, order));
	}
	while (waitpid(child, &status, 0) < 0)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == 0 ? NULL
		    : WEXITSTATUS(status) == 1  ? "barriers diverge"
						: "launch refused";
	switch (WTERMSIG(status)) {
	case SIGILL:
	case SIGTRAP:
		return "array bounds";
	case SIGSEGV:
	case SIGBUS:
		return "memory outside";
	case SIGALRM:
		return "hangs";
	default:
		return "killed";
	}
}
