/* tests/prop/emit_test.c: generated kernels against the interpreter, on random graphs and on
 * shapes that are awkward.  Kernels are compiled in batches; every buffer has guard zones; every
 * kernel runs once whole, and once with its ranges in odd pieces, in a shuffled order, with
 * scratch full of rubbish, and so again with results on the bytes of operands where the kernel
 * says that it may be: the results must be the same bytes.
 * KORCH_EMIT_GRAPHS=N tries N random graphs (default 320), KORCH_EMIT_SEED=N from there. */
#include "../../kernels/base/base.h"
#include "../../kernels/emit/emit.h"
#include "../../kernels/interp/interp.h"
#include "../harness/agree.h"
#include "../harness/setting.h"
#include "random_graph.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { BATCH = 40, ZONE = 256, RUBBISH = 0xff }; /* not-a-number in floats */

struct one {
	struct spec spec;
	struct kernel_code code;
	uint64_t seed;
	bool infeasible;
	const char *schedule;
	uint32_t n_overlapped; /* results that were made on an operand's bytes */
};

typedef void pass_fn(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi);

/* ---- memory with guard zones ------------------------------------------------------------------- */
static char *
guarded(size_t n)
{
	size_t whole = (n + 63) / 64 * 64 + 2 * ZONE;
	char *p = aligned_alloc(64, whole);

	memset(p, RUBBISH, whole);
	return p + ZONE;
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

static size_t
bytes_of(const struct tensor *t)
{
	size_t n;

	if (!shape_bytes(&t->shape, t->type, &n))
		bug("a shape of the test is too large");
	return n;
}

/* ---- running --------------------------------------------------------------------------------------- */
struct run {
	struct one *o;
	void *lib;
	char symbol[32];
	void **buf;
	char **operand, **result, *shared, *local;
	const void **in;
};

static void *
operand_for(const struct one *o, uint32_t i, const void *dense, char **base, size_t *n)
{
	const struct tensor *t = graph_tensor(&o->spec.g, o->spec.g.inputs[i]);

	*n = bytes_of(t);
	for (uint32_t k = 0; k < o->code.n_packs; k++) {
		if (o->code.packs[k].operand != i)
			continue;
		*n = pack_bytes(&o->code.packs[k], t->type);
		*base = guarded(*n);
		pack_apply(&o->code.packs[k], t, dense, *base);
		return *base;
	}
	*base = guarded(*n);
	memcpy(*base, dense, *n);
	return *base;
}

static pass_fn *
find_pass(const struct run *r, uint32_t pass)
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
run_pieces(const struct run *r, uint32_t pass, struct rng *rng)
{
	int64_t hi = r->o->code.range[pass];

	while (hi > 0) {
		int64_t lo = hi - 1 - (int64_t)rng_below(rng, (uint32_t)MIN_OF(hi, (int64_t)7));

		memset(r->local, RUBBISH, r->o->code.local_bytes);
		find_pass(r, pass)(r->buf, r->shared, r->local, MAX_OF(lo, (int64_t)0), hi);
		hi = MAX_OF(lo, (int64_t)0);
	}
}

static void
run_all(const struct run *r, struct rng *pieces)
{
	memset(r->shared, RUBBISH, r->o->code.shared_bytes);
	memset(r->local, RUBBISH, r->o->code.local_bytes);
	for (uint32_t p = 0; p < r->o->code.n_passes; p++) {
		if (pieces)
			run_pieces(r, p, pieces);
		else
			find_pass(r, p)(r->buf, r->shared, r->local, 0, r->o->code.range[p]);
	}
}

static void
say(const struct one *o, const char *what)
{
	fprintf(stderr, "seed %llu schedule '%s': %s\n%.*s\n", (unsigned long long)o->seed, o->schedule, what,
	    STR_ARG(o->spec.text));
}

static bool
compare(const struct run *r, void **want, const char *how)
{
	const struct graph *g = &r->o->spec.g;

	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct tensor *t = graph_tensor(g, g->outputs[i]);
		double d;
		char what[128];

		if (agrees(g, r->in, want, i, r->result[i], 1, &d) && zones_hold(r->result[i], bytes_of(t)))
			continue;
		snprintf(what, sizeof(what), "%s: output %u is %g away%s", how, i, d,
		    zones_hold(r->result[i], bytes_of(t)) ? "" : ", and wrote outside");
		say(r->o, what);
		return false;
	}
	if (zones_hold(r->shared, r->o->code.shared_bytes) && zones_hold(r->local, r->o->code.local_bytes))
		return true;
	say(r->o, "scratch was left");
	return false;
}

/* As many results as possible on operands' bytes, by the kernel's own list, begun anywhere in it. */
static uint32_t
overlap_buffers(struct arena *a, const struct run *r, void **buf)
{
	const struct kernel_code *c = &r->o->code;
	const struct graph *g = &r->o->spec.g;
	bool *used = NEW_ARRAY(a, bool, g->n_inputs + g->n_outputs);
	uint32_t n = 0;

	memcpy(buf, r->buf, sizeof(*buf) * (g->n_inputs + g->n_outputs));
	for (uint32_t i = 0; i < c->n_overlaps; i++) {
		const struct overlap *o = &c->overlaps[(i + r->o->seed) % c->n_overlaps];

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
check_overlaps(struct arena *a, struct run *r, void **first, struct rng *pieces)
{
	struct one *o = r->o;
	const struct graph *g = &o->spec.g;
	void **buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs), **apart = r->buf;

	o->n_overlapped = overlap_buffers(a, r, buf);
	if (!o->n_overlapped)
		return true;
	for (uint32_t i = 0; i < g->n_outputs; i++)
		memset(r->result[i], RUBBISH, bytes_of(graph_tensor(g, g->outputs[i])));
	r->buf = buf;
	run_all(r, pieces);
	r->buf = apart;
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (memcmp(first[i], buf[g->n_inputs + i], bytes_of(graph_tensor(g, g->outputs[i]))) != 0) {
			say(o, "on an operand's bytes the result differs");
			return false;
		}
	return true;
}

static bool
check_one(struct arena *a, struct one *o, void *lib, uint32_t number)
{
	struct run r = {.o = o, .lib = lib};
	const struct graph *g = &o->spec.g;
	struct rng rng = {o->seed * 31 + 7}, pieces = {o->seed};
	const void **in = random_inputs(a, &rng, g);
	void **want = NEW_ARRAY(a, void *, g->n_outputs), **first = NEW_ARRAY(a, void *, g->n_outputs);
	struct err e = {0};
	bool ok = true;
	size_t n;

	snprintf(r.symbol, sizeof(r.symbol), "k%u", number);
	if (!interp_run(a, g, in, NULL, want, &e)) {
		say(o, e.msg);
		return false;
	}
	r.in = in;
	r.buf = NEW_ARRAY(a, void *, g->n_inputs + g->n_outputs);
	r.operand = NEW_ARRAY(a, char *, g->n_inputs);
	r.result = NEW_ARRAY(a, char *, g->n_outputs);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		r.buf[i] = operand_for(o, i, in[i], &r.operand[i], &n);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		n = bytes_of(graph_tensor(g, g->outputs[i]));
		r.buf[g->n_inputs + i] = r.result[i] = guarded(n);
	}
	r.shared = guarded(o->code.shared_bytes);
	r.local = guarded(o->code.local_bytes);
	run_all(&r, NULL);
	ok = compare(&r, want, "whole");
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		n = bytes_of(graph_tensor(g, g->outputs[i]));
		first[i] = arena_alloc(a, n + 1);
		memcpy(first[i], r.result[i], n);
		memset(r.result[i], RUBBISH, n);
	}
	run_all(&r, &pieces);
	for (uint32_t i = 0; i < g->n_outputs && ok; i++) {
		n = bytes_of(graph_tensor(g, g->outputs[i]));
		if (memcmp(first[i], r.result[i], n) != 0) {
			say(o, "in pieces the result differs");
			ok = false;
		}
	}
	ok = ok && check_overlaps(a, &r, first, &pieces);
	for (uint32_t i = 0; i < g->n_inputs; i++)
		free(r.operand[i] - ZONE);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		free(r.result[i] - ZONE);
	free(r.shared - ZONE);
	free(r.local - ZONE);
	return ok;
}

/* ---- batches ------------------------------------------------------------------------------------------ */
static void *
compile(const char *dir, struct arena *a, struct one *list, uint32_t n, const struct target *t)
{
	struct strbuf sb, cmd;
	struct err e = {0};
	const char *c = arena_printf(a, "%s/k.c", dir), *so = arena_printf(a, "%s/k.so", dir);

	sb_init(&sb, a);
	sb_add(&sb, emit_c_prelude(a, t));
	for (uint32_t i = 0; i < n; i++)
		if (!list[i].infeasible)
			sb_add(&sb, list[i].code.text);
	if (!os_write_file(os_real(), c, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e))
		bug("%s", e.msg);
	sb_init(&cmd, a);
	sb_addz(&cmd, "cc -std=gnu11 -w -shared -fPIC -march=x86-64-v3");
	for (const char *const *f = emit_c_flags(t); *f; f++)
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

static uint32_t
check_batch(struct arena *a, struct one *list, uint32_t n, const struct target *t)
{
	char dir[] = "/tmp/korch-emit-XXXXXX";
	uint32_t bad = 0;

	if (!mkdtemp(dir))
		bug("no folder for the compiler");
	void *lib = compile(dir, a, list, n, t);

	if (!lib) {
		print_error("the batch from seed %llu on did not compile: %s/k.c\n", (unsigned long long)list[0].seed, dir);
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

static void
make_one(struct arena *a, struct one *o, uint32_t number, const struct target *t)
{
	struct err e = {0};
	const char *symbol = arena_printf(a, "k%u", number);

	bool ok = emit_c(a, &o->spec, str_of(o->schedule), t, symbol, &o->code, &e);

	if (!ok) {
		o->infeasible = true;
		if (e.code != ERR_INFEASIBLE)
			bug("%s", e.msg);
	}
}

/* ---- tests ------------------------------------------------------------------------------------------------ */
static const char *const schedules[] = {"", "", "block=3", "block=1 inline_flops=0", "inline_flops=64 unroll_red=0",
    "unroll_red=64", "block=5 lanes=8 split=8", "block=64 tile=8"};

static void
random_one(struct arena *a, struct one *o, uint64_t seed)
{
	static const uint32_t kinds[] = {RG_ALL & ~(uint32_t)RG_OPAQUE, RG_MAP | RG_BCAST | RG_REDUCE, RG_LAYOUT | RG_MAP,
	    RG_MAP | RG_CONV | RG_LAYOUT | RG_BCAST, RG_MAP | RG_MATMUL | RG_REDUCE | RG_BCAST | RG_LAYOUT,
	    RG_WINDOW | RG_MAP | RG_LAYOUT, RG_ALL & ~(uint32_t)RG_OPAQUE};
	struct rng r = {seed};
	struct random_opts opts = {.n_nodes = 2 + rng_below(&r, 14), .kinds = kinds[rng_below(&r, COUNT_OF(kinds))],
	    .chain = rng_below(&r, 2), .max_extent = rng_below(&r, 4) ? 9 : 40, .max_elements = 20000};
	struct graph g, sorted;

	random_graph(&g, a, &r, &opts);
	graph_sort(&sorted, a, &g, NULL);
	*o = (struct one){.seed = seed, .schedule = schedules[rng_below(&r, COUNT_OF(schedules))]};
	spec_of_graph(a, &sorted, &o->spec);
}

static void
run_random(const struct target *t, uint64_t n, uint64_t seed)
{
	uint32_t bad = 0, refused = 0, overlapped = 0;

	for (uint64_t from = 0; from < n && bad < 5; from += BATCH) {
		struct arena a = {0};
		struct one *list = NEW_ARRAY(&a, struct one, BATCH);

		for (uint32_t i = 0; i < BATCH; i++) {
			random_one(&a, &list[i], seed + from + i);
			make_one(&a, &list[i], i, t);
			refused += list[i].infeasible;
		}
		bad += check_batch(&a, list, BATCH, t);
		for (uint32_t i = 0; i < BATCH; i++)
			overlapped += list[i].n_overlapped;
		arena_fini(&a);
	}
	print_message("%llu graphs, %u refused as infeasible, %u results on an operand's bytes\n",
	    (unsigned long long)n, refused, overlapped);
	assert_true(overlapped > 0 || t->is_cuda || n < 40);
	assert_int_equal(bad, 0);
}

static void
test_random_graphs(void **state)
{
	(void)state;
	run_random(&target_avx2, setting("KORCH_EMIT_GRAPHS", 320), setting("KORCH_EMIT_SEED", 1));
}

static void
test_random_graphs_strict(void **state)
{
	struct target t = target_avx2;

	(void)state;
	t.strict = true;
	run_random(&t, setting("KORCH_EMIT_GRAPHS", 320) / 4, setting("KORCH_EMIT_SEED", 1) + 1000000);
}

/* ---- side by side: two graphs as one kernel ------------------------------------------------------------- */
static bool
is_input_of(const struct graph *g, uint32_t t)
{
	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (g->inputs[i].i == t)
			return true;
	return false;
}

/* An input of `to` that may serve as the other graph's input as well; false: none. */
static bool
shared_input(const struct graph *to, const struct tensor *x, tensor_id *out)
{
	for (uint32_t i = 0; i < to->n_inputs; i++) {
		const struct tensor *y = graph_tensor(to, to->inputs[i]);

		*out = to->inputs[i];
		if (y->role == x->role && y->type == x->type && shape_eq(&y->shape, &x->shape))
			return true;
	}
	return false;
}

/* All of `from`, beside what is in `to`; `share`: inputs of the same shape are one. */
static void
append(struct graph *to, const struct graph *from, bool share)
{
	tensor_id *map = NEW_ARRAY(to->arena, tensor_id, from->n_tensors), in[8], out[2];
	struct err e = {0};

	for (uint32_t t = 0; t < from->n_tensors; t++) {
		const struct tensor *x = graph_tensor(from, (tensor_id){t});

		if (x->role == ROLE_INNER)
			continue;
		if (x->role == ROLE_INPUT && is_input_of(from, t)) {
			if (!share || !shared_input(to, x, &map[t]))
				map[t] = graph_input(to, x->type, &x->shape, NULL);
		} else {
			map[t] = graph_const(to, x->role, x->type, &x->shape, x->data, NULL);
		}
	}
	for (uint32_t i = 0; i < from->n_nodes; i++) {
		const struct node *n = &from->nodes[i];

		assert_true(n->n_in <= COUNT_OF(in));
		for (uint32_t k = 0; k < n->n_in; k++)
			in[k] = map[n->in[k].i];
		if (!graph_add(to, n->prim, in, n->n_in, &n->at, NO_NODE, out, &e))
			fail_msg("%s", e.msg);
		for (uint32_t k = 0; k < n->n_out; k++)
			map[n->out[k].i] = out[k];
	}
	for (uint32_t i = 0; i < from->n_outputs; i++)
		graph_output(to, map[from->outputs[i].i], NULL);
}

static void
beside_one(struct arena *a, struct one *o, uint64_t seed)
{
	static const uint32_t kinds[] = {RG_MAP | RG_CONV, RG_MATMUL | RG_MAP | RG_BCAST, RG_MAP | RG_REDUCE | RG_BCAST,
	    RG_WINDOW | RG_MAP | RG_LAYOUT, RG_ALL & ~(uint32_t)RG_OPAQUE};
	static const char *const by[] = {"", "beside=1", "beside=1", "beside=0", "block=1 beside=1", "block=3 beside=1",
	    "inline_flops=0 beside=1", "beside=1 wino=4", "split=8 beside=1"};
	struct rng r = {seed};
	struct graph part, both, sorted;

	graph_init(&both, a);
	for (uint32_t i = 0; i < 2; i++) {
		struct random_opts opts = {.n_nodes = 1 + rng_below(&r, 6), .kinds = kinds[rng_below(&r, COUNT_OF(kinds))],
		    .chain = rng_below(&r, 2), .max_extent = rng_below(&r, 2) ? 9 : 40, .max_elements = 20000};

		random_graph(&part, a, &r, &opts);
		append(&both, &part, rng_below(&r, 2));
	}
	graph_sort(&sorted, a, &both, NULL);
	*o = (struct one){.seed = seed, .schedule = by[rng_below(&r, COUNT_OF(by))]};
	spec_of_graph(a, &sorted, &o->spec);
}

static void
test_side_by_side(void **state)
{
	uint64_t n = setting("KORCH_EMIT_GRAPHS", 320) / 2, seed = setting("KORCH_EMIT_SEED", 1) + 5000000;
	uint32_t bad = 0, beside = 0, refused = 0;

	(void)state;
	for (uint64_t from = 0; from < n && bad < 5; from += BATCH) {
		struct arena a = {0};
		struct one *list = NEW_ARRAY(&a, struct one, BATCH);

		for (uint32_t i = 0; i < BATCH; i++) {
			beside_one(&a, &list[i], seed + from + i);
			make_one(&a, &list[i], i, &target_avx2);
			refused += list[i].infeasible;
			beside += !list[i].infeasible && strstr(str_dup(&a, list[i].code.text), "steps of pass") != NULL;
		}
		bad += check_batch(&a, list, BATCH, &target_avx2);
		arena_fini(&a);
	}
	print_message("%llu pairs of graphs, %u with passes side by side, %u refused\n", (unsigned long long)n, beside, refused);
	assert_true(beside * 2 > n || n < 40);
	assert_int_equal(bad, 0);
}

/* ---- strict: fused and unfused are the same bytes ---------------------------------------------------------- */
/* Every node of a graph as a kernel of its own, and the whole graph as one. */
struct apart {
	struct graph g;
	struct one *one;               /* of node i; the last one is the whole */
	struct spec_binding *bind;
};

static void
apart_random(struct arena *a, struct graph *g, uint64_t seed)
{
	struct rng r = {seed};
	struct random_opts opts = {.n_nodes = 3 + rng_below(&r, 10), .kinds = RG_ALL & ~(uint32_t)RG_OPAQUE,
	    .chain = rng_below(&r, 2), .max_extent = 9};

	if (seed % 4 == 3) /* anchors, two of them often enough */
		opts = (struct random_opts){.n_nodes = 3 + rng_below(&r, 6), .max_extent = 24, .chain = true,
		    .kinds = RG_MATMUL | RG_CONV | RG_MAP | RG_REDUCE | RG_BCAST};
	random_graph(g, a, &r, &opts);
}

static void
apart_make(struct arena *a, struct apart *x, const struct graph *g, uint64_t seed, const struct target *t)
{
	graph_sort(&x->g, a, g, NULL);
	x->one = NEW_ARRAY(a, struct one, x->g.n_nodes + 1);
	x->bind = NEW_ARRAY(a, struct spec_binding, x->g.n_nodes + 1);
	for (uint32_t i = 0; i <= x->g.n_nodes; i++) {
		struct bitset members = bitset_make(a, x->g.n_nodes);
		bool whole = i == x->g.n_nodes;

		for (uint32_t k = 0; k < x->g.n_nodes; k++)
			if (whole || k == i)
				bit_set(&members, k);
		x->one[i] = (struct one){.seed = seed, .schedule = ""};
		spec_make(a, &x->g, &members, whole ? x->g.outputs : x->g.nodes[i].out, whole ? x->g.n_outputs : 1,
		    &x->one[i].spec, &x->bind[i]);
		make_one(a, &x->one[i], i, t);
	}
}

static void
apart_run(struct arena *a, const struct apart *x, uint32_t i, void *lib, void **at)
{
	struct one *o = &x->one[i];
	const struct spec_binding *b = &x->bind[i];
	struct run r = {.o = o, .lib = lib, .buf = NEW_ARRAY(a, void *, b->n_operands + b->n_results)};
	char **base = NEW_ARRAY(a, char *, b->n_operands);
	size_t n;

	snprintf(r.symbol, sizeof(r.symbol), "k%u", i);
	for (uint32_t k = 0; k < b->n_operands; k++) {
		const struct tensor *t = graph_tensor(&x->g, b->operands[k]);
		const void *dense = at[b->operands[k].i] ? at[b->operands[k].i] : t->data;

		r.buf[k] = operand_for(o, k, dense, &base[k], &n);
	}
	for (uint32_t k = 0; k < b->n_results; k++)
		r.buf[b->n_operands + k] = at[b->results[k].i]
		    = guarded(bytes_of(graph_tensor(&x->g, b->results[k])));
	r.shared = guarded(o->code.shared_bytes);
	r.local = guarded(o->code.local_bytes);
	run_all(&r, NULL);
	for (uint32_t k = 0; k < b->n_operands; k++)
		free(base[k] - ZONE);
	free(r.shared - ZONE);
	free(r.local - ZONE);
}

/* What apart_run left at the tensors that kernels made. */
static void
apart_free(const struct apart *x, void **at)
{
	for (uint32_t t = 0; t < x->g.n_tensors; t++)
		if (x->g.tensors[t].role == ROLE_INNER && at[t])
			free((char *)at[t] - ZONE);
}

static bool
apart_agrees(struct arena *a, const struct apart *x, void *lib)
{
	void **alone = NEW_ARRAY(a, void *, x->g.n_tensors), **whole = NEW_ARRAY(a, void *, x->g.n_tensors);
	struct rng r = {x->one[0].seed};

	for (uint32_t t = 0; t < x->g.n_tensors; t++)
		if (x->g.tensors[t].role == ROLE_INPUT || x->g.tensors[t].role == ROLE_WEIGHT)
			alone[t] = whole[t] = random_values(a, &r, x->g.tensors[t].type, &x->g.tensors[t].shape);
	for (uint32_t i = 0; i < x->g.n_nodes; i++)
		apart_run(a, x, i, lib, alone);
	apart_run(a, x, x->g.n_nodes, lib, whole);
	bool same = true;

	for (uint32_t i = 0; i < x->g.n_outputs && same; i++) {
		tensor_id t = x->g.outputs[i];

		same = memcmp(alone[t.i], whole[t.i], bytes_of(graph_tensor(&x->g, t))) == 0;
		if (!same)
			say(&x->one[x->g.n_nodes], "fused and unfused differ");
	}
	apart_free(x, alone);
	apart_free(x, whole);
	return same;
}

static uint32_t
n_anchors(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += node_is_anchor(g, &g->nodes[i]);
	return n;
}

/* What random graphs seldom have: pairs of anchors; rings of rows; casts whose zeros have a sign. */
static const char *const strictly[] = {
    "%0 = input f32[1,48,16]\n%1 = input f32[1,24,16]\n%2 = input f32[1,24,16]\n%3 = transpose %1 perm=[0,2,1]\n"
    "%4 = matmul %0 %3\n%5 = rmax %4 axes=[2]\n%6 = bcast %5 shape=[1,48,24]\n%7 = sub %4 %6\n%8 = exp %7\n"
    "%9 = sum %8 axes=[2]\n%10 = bcast %9 shape=[1,48,24]\n%11 = div %8 %10\n%12 = matmul %11 %2\noutput %12\n",
    "%0 = input f32[33,24]\n%1 = weight f32[24,40]\n%2 = weight f32[40,17]\n%3 = matmul %0 %1\n%4 = tanh %3\n"
    "%5 = matmul %4 %2\n%6 = mul %5 %5\noutput %6\noutput %4\n",
    "%0 = input f32[1,7,9,8]\n%1 = weight f32[3,3,8,16]\n%2 = weight f32[1,1,16,24]\n"
    "%3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n%4 = relu %3\n"
    "%5 = conv %4 %2 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %5\n",
    "%0 = input f32[1,9,7,8]\n%1 = weight f32[1,1,8,24]\n%2 = weight f32[3,3,1,24]\n%3 = weight f32[1,1,24,8]\n"
    "%4 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n%5 = tanh %4\n"
    "%6 = conv %5 %2 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=24\n%7 = relu %6\n"
    "%8 = conv %7 %3 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n%9 = add %8 %0\noutput %9\n",
    "%0 = input f32[1,11,7,8]\n%1 = weight f32[3,3,8,16]\n"
    "%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1\n%3 = sigmoid %2\n"
    "%4 = wsum %3 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] lo=[0,1,1,0] hi=[0,1,1,0]\noutput %4\n",
    "%0 = input f32[1,3,4,8]\n%1 = tanh %0\n%2 = cast %1 to=i32\n%3 = cast %2 to=f32\n%4 = relu %3\n%5 = neg %4\n"
    "%6 = prod %5 axes=[1,3]\n%7 = sum %6 axes=[2]\noutput %6\noutput %7\n",
};

/* Is the whole the same as its parts? */
static bool
strict_agrees(struct arena *a, const struct graph *g, uint64_t seed)
{
	struct target t = target_avx2;
	struct apart x;
	char dir[] = "/tmp/korch-emit-XXXXXX";
	bool ok = true;

	t.strict = true;
	apart_make(a, &x, g, seed, &t);
	if (x.one[x.g.n_nodes].infeasible || !mkdtemp(dir))
		return true;
	void *lib = compile(dir, a, x.one, x.g.n_nodes + 1, &t);

	ok = lib && apart_agrees(a, &x, lib);
	if (lib)
		dlclose(lib);
	unlink(arena_printf(a, "%s/k.c", dir));
	unlink(arena_printf(a, "%s/k.so", dir));
	rmdir(dir);
	return ok;
}

static void
test_strict_is_the_same_fused_and_unfused(void **state)
{
	uint64_t n = setting("KORCH_EMIT_GRAPHS", 320) / 10, from = setting("KORCH_EMIT_SEED", 1) + 3000000;
	uint32_t bad = 0, pairs = 0;

	(void)state;
	for (uint64_t i = 0; i < n + COUNT_OF(strictly); i++) {
		struct arena a = {0};
		struct graph g;
		struct err e = {0};

		if (i >= n && !graph_read(&g, &a, str_of(strictly[i - n]), &e))
			fail_msg("%s", e.msg);
		if (i < n)
			apart_random(&a, &g, from + i);
		pairs += n_anchors(&g) == 2;
		bad += !strict_agrees(&a, &g, from + i);
		arena_fini(&a);
	}
	print_message("%u graphs with two anchors\n", pairs);
	assert_true(pairs >= 3);
	assert_int_equal(bad, 0);
}

/* ---- every primitive, every type --------------------------------------------------------------------------- */
struct list {
	struct arena *a;
	struct one *one;
	uint32_t n, cap;
};

static void
list_add(struct list *l, const struct graph *g, const char *schedule)
{
	GROW(l->a, l->one, l->n, l->cap);
	struct one *o = &l->one[l->n];

	*o = (struct one){.seed = l->n + 1, .schedule = schedule};
	spec_of_graph(l->a, g, &o->spec);
	make_one(l->a, o, l->n % BATCH, &target_avx2);
	if (o->infeasible)
		say(o, "refused");
	assert_false(o->infeasible);
	l->n++;
}

static void
list_check(struct list *l)
{
	uint32_t bad = 0;

	for (uint32_t i = 0; i < l->n; i += BATCH)
		bad += check_batch(l->a, &l->one[i], MIN_OF((uint32_t)BATCH, l->n - i), &target_avx2);
	print_message("%u kernels\n", l->n);
	assert_int_equal(bad, 0);
}

static bool
takes_integers(enum prim p)
{
	static const enum prim whole[] = {PRIM_neg, PRIM_abs, PRIM_sign, PRIM_relu, PRIM_bitnot, PRIM_cast, PRIM_add,
	    PRIM_sub, PRIM_mul, PRIM_div, PRIM_min, PRIM_max, PRIM_pow, PRIM_mod, PRIM_fmod, PRIM_eq, PRIM_lt, PRIM_le,
	    PRIM_and, PRIM_or, PRIM_xor, PRIM_shl, PRIM_shr, PRIM_select};

	for (uint32_t i = 0; i < COUNT_OF(whole); i++)
		if (whole[i] == p)
			return true;
	return false;
}

static bool
takes_reals(enum prim p)
{
	static const enum prim not[] = {PRIM_not, PRIM_bitnot, PRIM_and, PRIM_or, PRIM_xor, PRIM_shl, PRIM_shr};

	for (uint32_t i = 0; i < COUNT_OF(not); i++)
		if (not[i] == p)
			return false;
	return true;
}

static bool
takes(enum prim p, enum dtype t)
{
	if (t == DT_bool)
		return p == PRIM_not || p == PRIM_and || p == PRIM_or || p == PRIM_xor || p == PRIM_eq || p == PRIM_cast;
	return dtype_is_float(t) ? takes_reals(p) : takes_integers(p);
}

static void
map_case(struct list *l, enum prim p, enum dtype t, enum dtype to)
{
	static const int64_t dim[] = {3, 5, 17};
	struct shape s = shape_make(3, dim);
	struct attrs at = {0};
	struct err e = {0};
	struct graph g;
	tensor_id in[3], out[1];

	graph_init(&g, l->a);
	for (int i = 0; i < prim_info[p].n_in; i++)
		in[i] = graph_input(&g, p == PRIM_select && i == 0 ? DT_bool : p == PRIM_pow && i == 1 ? to : t, &s, NULL);
	if (p == PRIM_cast)
		at_int(&at, ATTR_to, to);
	if (!graph_add(&g, p, in, (uint32_t)prim_info[p].n_in, &at, NO_NODE, out, &e))
		return;
	graph_output(&g, out[0], NULL);
	list_add(l, &g, "");
}

static void
test_every_map(void **state)
{
	struct arena a = {0};
	struct list l = {.a = &a};

	(void)state;
	for (int p = 0; p < PRIM_COUNT; p++) {
		if (prim_info[p].class != CLASS_MAP)
			continue;
		for (int t = 0; t < DT_COUNT; t++)
			for (int to = 0; to < DT_COUNT && takes((enum prim)p, (enum dtype)t); to++)
				if (p == PRIM_cast || (p == PRIM_pow && takes(PRIM_pow, (enum dtype)to)) || to == 0)
					map_case(&l, (enum prim)p, (enum dtype)t, (enum dtype)to);
	}
	list_check(&l);
	arena_fini(&a);
}

/* Graph texts; @ stands for the type. */
static void
text_case(struct list *l, const char *text, const char *type, const char *schedule)
{
	struct strbuf sb;
	struct err e = {0};
	struct graph *g = NEW(l->a, struct graph);

	sb_init(&sb, l->a);
	for (; *text; text++) {
		if (*text == '@')
			sb_addz(&sb, type);
		else
			sb_addc(&sb, *text);
	}
	if (!graph_read(g, l->a, sb_str(&sb), &e))
		fail_msg("%s in\n%s", e.msg, sb_str(&sb).p);
	list_add(l, g, schedule);
}

static const char *const shapely[] = {
#include "emit_cases.inc"
};

static void
test_every_primitive(void **state)
{
	static const char *const types[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8"};
	struct arena a = {0};
	struct list l = {.a = &a};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(shapely); i++)
		for (uint32_t t = 0; t < COUNT_OF(types); t++)
			if (t == 0 || strchr(shapely[i], '@'))
				text_case(&l, shapely[i], types[t], "");
	list_check(&l);
	arena_fini(&a);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_map),
		cmocka_unit_test(test_every_primitive),
		cmocka_unit_test(test_random_graphs),
		cmocka_unit_test(test_random_graphs_strict),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_strict_is_the_same_fused_and_unfused),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
