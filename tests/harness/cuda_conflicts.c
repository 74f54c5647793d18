/* tests/harness/cuda_conflicts.c: see the header. */
#include "cuda_conflicts.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *
conflict_kind(int kind)
{
	static const char *const names[CONFLICT_KINDS] = {"load", "store", "copy"};

	return kind >= 0 && kind < CONFLICT_KINDS ? names[kind] : "?";
}

/* ---- compiling: what a sanitizer would be told goes to the shim ---- */
struct object {
	void *lib;
	struct bytes file;
};

static bool
build(struct arena *a, struct str kernel, struct object *out, struct err *e)
{
	char dir[] = "/tmp/korch-banks-XXXXXX";
	struct strbuf sb;
	bool ok;

	if (!mkdtemp(dir))
		return err_set(e, ERR_HOST, "no folder for the compiler");
	const char *c = arena_printf(a, "%s/k.c", dir), *o = arena_printf(a, "%s/k.o", dir),
		   *so = arena_printf(a, "%s/k.so", dir);

	sb_init(&sb, a);
	sb_addz(&sb, "#define KK_CONFLICTS\n");
	sb_add(&sb, prelude_cuda(a, true));
	sb_add(&sb, kernel);
	ok = os_write_file(os_real(), c, (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
	if (ok &&
	    system(arena_printf(a,
		"cc -std=gnu11 -w -O1 -fPIC -fwrapv -fsanitize=thread -c -o %s %s && cc -shared -o %s %s -lm",
		o, c, so, o)) == 0)
		out->lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	ok = ok &&
	    (out->lib || err_set(e, ERR_COMPILE, "the host shim does not compile for counting conflicts")) &&
	    os_read_file(os_real(), a, so, 1 << 26, &out->file, e);
	(void)os_remove_tree(dir);
	return ok;
}

/* ---- names of arrays: the symbol of the object whose place it is ---- */
static const Elf64_Shdr *
section_named(struct bytes f, const char *name)
{
	const Elf64_Ehdr *h = (const void *)f.p;
	const Elf64_Shdr *s = (const void *)(f.p + h->e_shoff);

	for (int i = 0; i < h->e_shnum; i++)
		if (strcmp((const char *)f.p + s[h->e_shstrndx].sh_offset + s[i].sh_name, name) == 0)
			return &s[i];
	return NULL;
}

static void
name_of(struct bytes f, unsigned long place, char *to, size_t cap)
{
	const Elf64_Shdr *all = section_named(f, "kk_shared"), *table = section_named(f, ".symtab"),
			 *text = section_named(f, ".strtab");

	(void)snprintf(to, cap, "?");
	for (size_t i = 0; all && table && text && i < table->sh_size / sizeof(Elf64_Sym); i++) {
		const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(f.p + table->sh_offset) + i;
		const char *name = (const char *)f.p + text->sh_offset + s->st_name;
		const unsigned long at = all->sh_addr + place;

		if (ELF64_ST_TYPE(s->st_info) == STT_OBJECT && at >= s->st_value &&
		    at < s->st_value + s->st_size)
			(void)snprintf(to, cap, "%.*s", (int)strcspn(name, "."), name); /* gcc's number off */
	}
}

/* ---- a pass ---- */
typedef void pass_fn(void *const *buf, char *shared, char *local, long lo, long hi);
typedef int run_fn(pass_fn *fn, const unsigned *grid, const unsigned *block, unsigned long smem,
    void *const *buf, char *shared, char *local, long lo, long hi);
typedef int row_fn(int i, int *kind, unsigned long *first, unsigned long *turns, unsigned long *ideal);
typedef unsigned long lost_fn(void);
struct words {
	run_fn *run;
	row_fn *row;
	lost_fn *lost;
};

static void
add(struct conflict *out, uint32_t *n, const struct conflict *c)
{
	for (uint32_t i = 0; i < *n; i++)
		if (out[i].pass == c->pass && out[i].kind == c->kind && strcmp(out[i].array, c->array) == 0) {
			out[i].turns += c->turns;
			out[i].ideal += c->ideal;
			return;
		}
	if (*n < CONFLICT_ROWS)
		out[(*n)++] = *c;
}

static bool
count_pass(const struct object *o, const struct words *w, const struct kernel_code *k, uint32_t pass,
    void *const *buf, char *shared, char *local, struct conflict *out, uint32_t *n, struct err *e)
{
	const unsigned grid[3] = {1, 1, 1};
	char name[16];
	pass_fn *fn;
	void *p;
	int kind;
	unsigned long first, turns, ideal;

	(void)snprintf(name, sizeof(name), "k_p%u", pass);
	p = dlsym(o->lib, name);
	if (!p)
		return err_set(e, ERR_FAILED, "the kernel has no pass %s", name);
	memcpy(&fn, &p, sizeof(fn));
	/* the first step: other blocks do as the first */
	if (w->run(fn, grid, k->desc.launch[pass].block, k->desc.launch[pass].smem, buf, shared, local, 0,
		MIN_OF(k->desc.range[pass], (int64_t)1)) != 0)
		return err_set(e, ERR_FAILED, "pass %u does not run in the host shim", pass);
	for (int i = 0; w->row(i, &kind, &first, &turns, &ideal); i++) {
		struct conflict c = {
		    .pass = pass, .kind = kind, .turns = (double)turns, .ideal = (double)ideal};

		name_of(o->file, first, c.array, sizeof(c.array));
		add(out, n, &c);
	}
	return w->lost() == 0 ||
	    err_set(e, ERR_LIMIT, "pass %u has more accesses between barriers than are counted", pass);
}

static void *
zeros(size_t n)
{
	void *p = calloc(1, MAX_OF(n, (size_t)64));

	if (!p)
		bug("no memory for a kernel's arrays");
	return p;
}

static size_t
bytes_of(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a shape of the test is too large");
	return n;
}

/* Rows by pass, array, kind. */
static int
compare(const void *pa, const void *pb)
{
	const struct conflict *a = pa, *b = pb;
	int by = strcmp(a->array, b->array);

	if (a->pass != b->pass)
		return a->pass < b->pass ? -1 : 1;
	return by ? by : a->kind - b->kind;
}

static void
find(const struct object *o, const char *name, void *to)
{
	void *p = dlsym(o->lib, name);

	if (!p)
		bug("the shim has no %s", name);
	memcpy(to, &p, sizeof(p));
}

bool
cuda_conflicts(struct arena *a, const struct spec *s, const struct kernel_code *k, struct conflict *out,
    uint32_t *n, struct err *e)
{
	const struct graph *g = &s->g;
	void **buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs);
	struct object o = {.lib = NULL};
	struct words w;
	char *shared, *local;
	bool ok = true;

	*n = 0;
	if (!build(a, k->text, &o, e))
		return false;
	find(&o, "kk_run", &w.run);
	find(&o, "kk_conflicts", &w.row);
	find(&o, "kk_conflicts_lost", &w.lost);
	shared = zeros(k->desc.shared_bytes);
	local = zeros(k->desc.local_bytes);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		buf[i] = zeros(bytes_of(graph_tensor(g, g->inputs[i])));
	for (uint32_t i = 0; i < g->n_outputs; i++)
		buf[g->n_inputs + i] = zeros(bytes_of(graph_tensor(g, g->outputs[i])));
	for (uint32_t q = 0; q < k->desc.n_passes && ok; q++)
		ok = count_pass(&o, &w, k, q, buf, shared, local, out, n, e);
	qsort(out, *n, sizeof(*out), compare);
	for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++)
		free(buf[i]);
	free(shared);
	free(local);
	dlclose(o.lib);
	return ok;
}
