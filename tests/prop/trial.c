/* tests/prop/trial.c: see the header. */
#include "trial.h"

#include "../../kernels/interp/interp.h"
#include "../harness/agree.h"
#include "random_graph.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ZONE = 256, RUBBISH = 0xff }; /* not-a-number in floats */

typedef void pass_fn(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi);

/* ---- memory with guard zones ------------------------------------------------------------------- */
char *
trial_memory(size_t n)
{
	size_t whole = (n + 63) / 64 * 64 + 2 * ZONE;
	char *p = aligned_alloc(64, whole);

	memset(p, RUBBISH, whole);
	return p + ZONE;
}

void
trial_free(void *p)
{
	if (p)
		free((char *)p - ZONE);
}

static bool
zones_hold(const char *p, size_t n)
{
	for (int i = 1; i <= ZONE; i++)
		if ((unsigned char)p[-i] != RUBBISH)
			return false;
	for (size_t i = n; i < (n + 63) / 64 * 64 + ZONE; i++)
		if ((unsigned char)p[i] != RUBBISH)
			return false;
	return true;
}

size_t
trial_bytes(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a shape of the test is too large");
	return n;
}

/* ---- running --------------------------------------------------------------------------------------- */
void *
trial_operand(const struct trial *o, uint32_t i, const void *dense, char **base, size_t *n)
{
	const struct tensor *t = graph_tensor(&o->spec.g, o->spec.g.inputs[i]);

	*n = trial_bytes(t);
	for (uint32_t k = 0; k < o->code.desc.n_packs; k++) {
		if (o->code.desc.packs[k].operand != i)
			continue;
		*n = pack_bytes(&o->code.desc.packs[k], t->type);
		*base = trial_memory(*n);
		pack_apply(&o->code.desc.packs[k], t, dense, *base);
		return *base;
	}
	*base = trial_memory(*n);
	memcpy(*base, dense, *n);
	return *base;
}

static pass_fn *
find_pass(const struct trial_run *r, uint32_t pass)
{
	char name[64];
	void *p;
	pass_fn *fn;

	snprintf(name, sizeof(name), "%s_p%u", r->symbol, pass);
	p = dlsym(r->lib, name);
	if (!p)
		bug("no symbol %s", name);
	memcpy(&fn, &p, sizeof(fn));
	return fn;
}

/* The range in pieces, last one first. */
static void
run_pieces(const struct trial_run *r, uint32_t pass, struct rng *rng)
{
	int64_t hi = r->o->code.desc.range[pass];

	while (hi > 0) {
		int64_t lo = hi - 1 - (int64_t)rng_below(rng, (uint32_t)MIN_OF(hi, (int64_t)7));

		memset(r->local, RUBBISH, r->o->code.desc.local_bytes);
		find_pass(r, pass)(r->buf, r->shared, r->local, MAX_OF(lo, (int64_t)0), hi);
		hi = MAX_OF(lo, (int64_t)0);
	}
}

void
trial_run_all(const struct trial_run *r, struct rng *pieces)
{
	memset(r->shared, RUBBISH, r->o->code.desc.shared_bytes);
	memset(r->local, RUBBISH, r->o->code.desc.local_bytes);
	for (uint32_t p = 0; p < r->o->code.desc.n_passes; p++) {
		if (pieces)
			run_pieces(r, p, pieces);
		else
			find_pass(r, p)(r->buf, r->shared, r->local, 0, r->o->code.desc.range[p]);
	}
}

void
trial_say(const struct trial *o, const char *what)
{
	fprintf(stderr, "seed %llu schedule '%s': %s\n%.*s\n", (unsigned long long)o->seed, o->schedule, what,
	    STR_ARG(o->spec.text));
}

static bool
compare(const struct trial_run *r, void **want, const char *how)
{
	const struct graph *g = &r->o->spec.g;

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		double d;
		char what[128];

		if (agrees(g, r->in, want, i, r->result[i], 1, &d) &&
		    zones_hold(r->result[i], trial_bytes(t)))
			continue;
		snprintf(what, sizeof(what), "%s: output %u is %g away%s", how, i, d,
		    zones_hold(r->result[i], trial_bytes(t)) ? "" : ", and wrote outside");
		trial_say(r->o, what);
		return false;
	}
	if (zones_hold(r->shared, r->o->code.desc.shared_bytes) &&
	    zones_hold(r->local, r->o->code.desc.local_bytes))
		return true;
	trial_say(r->o, "scratch was left");
	return false;
}

/* As many results as possible on operands' bytes, by the kernel's own list, begun anywhere in it. */
static uint32_t
overlap_buffers(struct arena *a, const struct trial_run *r, void **buf)
{
	const struct kernel_code *c = &r->o->code;
	const struct graph *g = &r->o->spec.g;
	bool *used = NEW_ARRAY(a, bool, g->n_inputs + g->n_outputs);
	uint32_t n = 0;

	memcpy(buf, r->buf, sizeof(*buf) * (g->n_inputs + g->n_outputs));
	for (uint32_t i = 0; i < c->desc.n_overlaps; i++) {
		const struct overlap *o = &c->desc.overlaps[(i + r->o->seed) % c->desc.n_overlaps];

		if (used[o->operand] || used[g->n_inputs + o->result])
			continue;
		used[o->operand] = used[g->n_inputs + o->result] = true;
		buf[g->n_inputs + o->result] = buf[o->operand];
		n++;
	}
	return n;
}

/* Runs in pieces on shared bytes; the same results as before? */
static bool
check_overlaps(struct arena *a, struct trial_run *r, void **first, struct rng *pieces)
{
	struct trial *o = r->o;
	const struct graph *g = &o->spec.g;
	void **buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs), **apart = r->buf;

	o->n_overlapped = overlap_buffers(a, r, buf);
	if (!o->n_overlapped)
		return true;
	for (uint32_t i = 0; i < g->n_outputs; i++)
		memset(r->result[i], RUBBISH, trial_bytes(graph_tensor(g, g->outputs[i])));
	r->buf = buf;
	trial_run_all(r, pieces);
	r->buf = apart;
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (memcmp(first[i], buf[g->n_inputs + i], trial_bytes(graph_tensor(g, g->outputs[i]))) !=
		    0) {
			trial_say(o, "on an operand's bytes the result differs");
			return false;
		}
	return true;
}

static bool
check_one(struct arena *a, struct trial *o, void *lib, uint32_t number)
{
	struct trial_run r = {.o = o, .lib = lib};
	const struct graph *g = &o->spec.g;
	struct rng rng = {o->seed * 31 + 7}, pieces = {o->seed};
	const void **in = random_inputs(a, &rng, g);
	void **want = NEW_ARRAY(a, void *, g->n_outputs), **first = NEW_ARRAY(a, void *, g->n_outputs);
	struct err e = {0};
	bool ok = true;
	size_t n;

	snprintf(r.symbol, sizeof(r.symbol), "k%u", number);
	if (!interp_run(a, g, in, NULL, want, &e)) {
		trial_say(o, e.msg);
		return false;
	}
	r.in = in;
	r.buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs);
	r.operand = NEW_ARRAY(a, char *, g->n_inputs);
	r.result = NEW_ARRAY(a, char *, g->n_outputs);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		r.buf[i] = trial_operand(o, i, in[i], &r.operand[i], &n);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		n = trial_bytes(graph_tensor(g, g->outputs[i]));
		r.buf[g->n_inputs + i] = r.result[i] = trial_memory(n);
	}
	r.shared = trial_memory(o->code.desc.shared_bytes);
	r.local = trial_memory(o->code.desc.local_bytes);
	trial_run_all(&r, NULL);
	ok = compare(&r, want, "whole");
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		n = trial_bytes(graph_tensor(g, g->outputs[i]));
		first[i] = arena_alloc(a, n + 1);
		memcpy(first[i], r.result[i], n);
		memset(r.result[i], RUBBISH, n);
	}
	trial_run_all(&r, &pieces);
	for (uint32_t i = 0; i < g->n_outputs && ok; i++) {
		n = trial_bytes(graph_tensor(g, g->outputs[i]));
		if (memcmp(first[i], r.result[i], n) != 0) {
			trial_say(o, "in pieces the result differs");
			ok = false;
		}
	}
	ok = ok && check_overlaps(a, &r, first, &pieces);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		trial_free(r.operand[i]);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		trial_free(r.result[i]);
	trial_free(r.shared);
	trial_free(r.local);
	return ok;
}

/* ---- batches ------------------------------------------------------------------------------------------ */
void *
trials_compile(const char *dir, struct arena *a, struct trial *list, uint32_t n, const struct target *t)
{
	struct strbuf sb, cmd;
	struct err e = {0};
	const char *c = arena_printf(a, "%s/k.c", dir), *so = arena_printf(a, "%s/k.so", dir);

	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	for (uint32_t i = 0; i < n; i++)
		if (!list[i].infeasible)
			sb_add(&sb, list[i].code.text);
	if (!os_write_file(os_real(), c, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e))
		bug("%s", e.msg);
	sb_init(&cmd, a);
	sb_addz(&cmd, "cc -std=gnu11 -w -shared -fPIC -march=x86-64-v3");
	for (const char *const *f = generate_c_flags(t); *f; f++)
		if (strcmp(*f, "-O3") != 0)
			sb_addf(&cmd, " %s", *f);
	sb_addf(&cmd, " -O1 -o %s %s -lm", so, c);
	if (system(sb_str(&cmd).p) != 0)
		return NULL;
	void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		print_error("%s\n", dlerror());
	return lib;
}

uint32_t
trials_check(struct arena *a, struct trial *list, uint32_t n, const struct target *t)
{
	char dir[] = "/tmp/korch-emit-XXXXXX";
	uint32_t bad = 0;

	if (!mkdtemp(dir))
		bug("no folder for the compiler");
	void *lib = trials_compile(dir, a, list, n, t);

	if (!lib) {
		print_error("the batch from seed %llu on did not compile: %s/k.c\n",
		    (unsigned long long)list[0].seed, dir);
		return n;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct arena tmp = {0};
		bad += !list[i].infeasible && !check_one(&tmp, &list[i], lib, i);
		arena_fini(&tmp);
	}
	dlclose(lib);
	unlink(arena_printf(a, "%s/k.c", dir));
	unlink(arena_printf(a, "%s/k.so", dir));
	rmdir(dir);
	return bad;
}

void
trial_make(struct arena *a, struct trial *o, uint32_t number, const struct target *t)
{
	struct err e = {0};
	const char *symbol = arena_printf(a, "k%u", number);

	bool ok = generate_kernel(a, &o->spec, str_of(o->schedule), t, symbol, &o->code, &e);

	if (!ok) {
		o->infeasible = true;
		if (e.code != ERR_INFEASIBLE)
			bug("%s", e.msg);
	}
}
