/* kernels/device/dev_cuda_library.c: kernels of libraries on a GPU: the libraries behind one table, their
 * handles, and the device's bind, prepare and run.
 *
 * A library's handle is made when the first of its kernels is loaded and lives as long as the device.
 * Weights that it wants in another order are moved once a launch, by prepare; constants by value go to
 * the device when the kernel is bound. */
#include "dev_cuda_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 3 + VENDOR_MAX_POSTS, LIST = 256 };
static const struct vendor_table *const tables[LIBRARY_COUNT] = {
    [LIBRARY_cublaslt] = &vendor_cublaslt, [LIBRARY_cudnn] = &vendor_cudnn};
static const enum gpu_lib lib_of[LIBRARY_COUNT] = {
    [LIBRARY_cublaslt] = GPU_CUBLASLT, [LIBRARY_cudnn] = GPU_CUDNN};

struct slot { /* where a pointer of the call comes from */
	enum { SLOT_BUF, SLOT_DATA, SLOT_KEPT } from;
	uint32_t n; /* buffer; element of the data */
};
struct dev_library {
	enum library lib;
	void *call;
	struct slot slot[MAX_SLOTS];
	uint32_t n_slots;
	uint64_t data; /* on the device */
	bool repack;
	uint32_t rank;
	struct vendor_tensor b; /* with its buffer and, in `from`, how it lies there */
	int64_t from[VENDOR_DIMS];
};
struct cuda_list { /* what a library last listed: the schedules of a spec come one after another */
	uint64_t key;
	uint32_t n;
	struct vendor_choice choice[LIST];
};

/* ---- libraries ------------------------------------------------------------------------------------- */
static bool
is_wanted(void)
{
	const char *asked = getenv("KORCH_LIBRARIES");

	return !asked || strcmp(asked, "none") != 0;
}

int64_t
vendor_version(struct gpu *g, enum library l)
{
	uint32_t version;

	if (!is_wanted() || !tables[l])
		return 0;
	gpu_vendor_open(g);
	return g->has[lib_of[l]] && tables[l]->version(&g->vendor, &version) ? version : 0;
}

/* The library, open, and its version. */
static bool
need(struct cuda *c, enum library l, uint32_t *version, struct err *e)
{
	const struct vendor_table *t = tables[l];

	if (!t)
		return err_set(e, ERR_HOST, "%s has no kernels for a GPU", library_name(l));
	gpu_vendor_open(&c->own);
	if (!c->own.has[lib_of[l]])
		return err_set(e, ERR_HOST, "%s", c->own.why[lib_of[l]]);
	if (!t->version(&c->own.vendor, version))
		return err_set(e, ERR_HOST, "%s does not tell its version", library_name(l));
	return c->vendor[l] || t->open_handle(&c->own.vendor, &c->vendor[l], e);
}

bool
vendor_list(const struct dev *d, enum library lib, const struct vendor_op *op, uint64_t max_workspace,
    uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e)
{
	struct cuda *c = d->self;
	uint32_t version;

	*n = 0;
	if (!vendor_op_check(op, VENDOR_DATA, e) || !need(c, lib, &version, e) ||
	    !tables[lib]->list(&c->own.vendor, c->vendor[lib], op, max_workspace, max, out, n, e))
		return false;
	for (uint32_t i = 0; i < *n; i++)
		out[i].version = version;
	return *n > 0 ||
	    err_set(e, ERR_INFEASIBLE, "%s has no algorithm for it within %llu bytes of workspace",
		library_name(lib), (unsigned long long)max_workspace);
}

void
cuda_library_close(struct cuda *c)
{
	for (int i = 0; i < LIBRARY_COUNT; i++) {
		if (c->vendor[i] && !c->is_sticky)
			tables[i]->close_handle(&c->own.vendor, c->vendor[i]);
		c->vendor[i] = NULL;
	}
	free(c->list);
}

/* ---- from a spec and a schedule ------------------------------------------------------------------------ */
/* "math=1": what may be rounded; 0 where nothing is said. */
static enum vendor_math
math_of(struct str schedule)
{
	int64_t v = 0;

	while (schedule.n) {
		struct str value = str_cut(&schedule, ' '), name = str_cut(&value, '=');

		if (str_is(name, "math") && (!str_to_i64(value, &v) || v < 0 || v >= VENDOR_MATHS))
			return VENDOR_F32;
	}
	return (enum vendor_math)v;
}

static bool
list_for(struct cuda *c, enum library l, const struct vendor_op *op, uint64_t key, struct err *e)
{
	const struct dev d = {.self = c};

	if (c->list && c->list->key == key)
		return true;
	if (!c->list)
		c->list = heap_alloc(sizeof(*c->list));
	c->list->key = 0;
	if (!vendor_list(&d, l, op, VENDOR_MAX_WORKSPACE, LIST, c->list->choice, &c->list->n, e))
		return false;
	c->list->key = key;
	return true;
}

static bool
resolve(struct cuda *c, struct arena *a, struct str spec, struct str schedule, struct vendor_op *op,
    struct vendor_choice *choice, struct err *e)
{
	struct library_call call;
	struct spec s;
	enum library l;
	int64_t version, algo;
	uint32_t have;

	if (!library_of_schedule(schedule, &l, &version, &algo) || algo < 0)
		return err_set(e, ERR_FORMAT, "schedule '%.*s' names no library", STR_ARG(schedule));
	if (!need(c, l, &have, e))
		return false;
	if (version != have)
		return err_set(e, ERR_DEVICE, "a kernel was asked for from %s %lld, and this host has %u",
		    library_name(l), (long long)version, have);
	if (!spec_read(a, spec, &s, e) || !library_call_of(&s, &call, e) ||
	    !vendor_op_of(a, &call, s.g.n_inputs, math_of(schedule), op, e) ||
	    !list_for(
		c, l, op, hash64(spec.p, spec.n, 1 + (uint64_t)l * VENDOR_MATHS + (uint64_t)op->math), e))
		return false;
	if (algo >= c->list->n)
		return err_set(
		    e, ERR_INFEASIBLE, "%s lists %u algorithms for it", library_name(l), c->list->n);
	*choice = c->list->choice[algo];
	return true;
}

bool
vendor_resolve(const struct dev *d, struct arena *a, struct str spec, struct str schedule, struct bytes *out,
    struct err *e)
{
	struct vendor_op op;
	struct vendor_choice choice;

	if (!resolve(d->self, a, spec, schedule, &op, &choice, e))
		return false;
	vendor_pack(a, &op, &choice, out);
	return true;
}

/* ---- a kernel ready to run ------------------------------------------------------------------------------
 */
static void
give_slot(struct dev_library *l, uint32_t *buf, bool is_kept)
{
	l->slot[l->n_slots] = is_kept ? (struct slot){SLOT_KEPT, 0}
	    : *buf >= VENDOR_DATA     ? (struct slot){SLOT_DATA, *buf - VENDOR_DATA}
				      : (struct slot){SLOT_BUF, *buf};
	*buf = l->n_slots++;
}

/* The operation's buffers become places in a list of pointers. */
static void
give_slots(struct dev_library *l, struct vendor_op *op)
{
	l->repack = op->repack;
	l->rank = op->rank;
	l->b = op->b;
	memcpy(l->from, op->from, sizeof(l->from));
	give_slot(l, &op->a.buf, false);
	give_slot(l, &op->b.buf, op->repack);
	give_slot(l, &op->d.buf, false);
	for (uint32_t i = 0; i < op->n_posts; i++)
		if (op->post[i].what == VENDOR_BIAS || op->post[i].what == VENDOR_ADD)
			give_slot(l, &op->post[i].buf, false);
}

static bool
put_data(struct cuda *c, struct dev_library *l, const struct vendor_op *op, struct err *e)
{
	if (!op->n_data)
		return true;
	l->data = cuda_bytes_new(c, op->n_data * sizeof(float));
	if (!l->data)
		return err_set(e, ERR_MEMORY, "the GPU has no %zu bytes for a kernel's constants",
		    op->n_data * sizeof(float));
	cuda_move(c, (void *)(uintptr_t)l->data, op->data, op->n_data * sizeof(float));
	return cuda_is_well(c) || cuda_tell(c, e);
}

static bool
make_ready(struct cuda *c, const struct vendor_op *given, const struct vendor_choice *choice,
    struct dev_kernel *k, struct err *e)
{
	struct vendor_op op = *given;
	struct dev_library *l;
	bool ok;

	if (!vendor_op_check(&op, k->n_bufs, e))
		return false;
	l = heap_alloc(sizeof(*l));
	l->lib = choice->lib;
	give_slots(l, &op);
	k->library = l;
	k->n_passes = 1;
	k->range[0] = 1;
	k->shared_bytes = choice->workspace;
	k->local_bytes = 0;
	ok = put_data(c, l, given, e) &&
	    tables[l->lib]->open(&c->own.vendor, c->vendor[l->lib], &op, choice, &l->call, e);
	if (!ok) {
		cuda_library_unbind(c, k);
		k->library = NULL;
	}
	return ok;
}

bool
cuda_library_bind(void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e)
{
	struct arena tmp = {0};
	struct vendor_op op;
	struct vendor_choice choice;
	bool ok =
	    resolve(self, &tmp, spec, schedule, &op, &choice, e) && make_ready(self, &op, &choice, k, e);

	arena_fini(&tmp);
	return ok;
}

/* From a module's entry: the bytes are hostile, and the algorithm is the one that was chosen. */
bool
cuda_library_kept(struct cuda *c, struct bytes code, struct dev_kernel *k, struct err *e)
{
	struct vendor_op op;
	struct vendor_choice choice;
	uint32_t version;

	if (!vendor_unpack(code, &op, &choice, e) || !need(c, choice.lib, &version, e))
		return false;
	if (version != choice.version)
		return err_set(e, ERR_DEVICE,
		    "a kernel was chosen for %s %u, and this host has %u: tune again, or install that one",
		    library_name(choice.lib), choice.version, version);
	return make_ready(c, &op, &choice, k, e);
}

void
cuda_library_unbind(void *self, struct dev_kernel *k)
{
	struct cuda *c = self;
	struct dev_library *l = k->library;

	if (l->call)
		tables[l->lib]->close(&c->own.vendor, l->call);
	if (l->data && !c->is_sticky)
		(void)c->g->cu.mem_free(l->data);
	free(l);
}

/* ---- weights in its own order ---- */
static size_t
span(const int64_t *dim, const int64_t *stride, uint32_t rank)
{
	int64_t last = 0;

	for (uint32_t i = 0; i < rank; i++)
		last += (dim[i] - 1) * stride[i];
	return (size_t)last + 1;
}

static void
move_all(const struct dev_library *l, const float *from, float *to)
{
	int64_t at[VENDOR_DIMS] = {0}, i = 0, o = 0;
	int k;

	do {
		to[o] = from[i];
		for (k = (int)l->rank - 1; k >= 0; k--) {
			i += l->from[k];
			o += l->b.stride[k];
			if (++at[k] < l->b.dim[k])
				break;
			i -= at[k] * l->from[k];
			o -= at[k] * l->b.stride[k];
			at[k] = 0;
		}
	} while (k >= 0);
}

bool
cuda_library_prepare(void *self, struct dev_launch *launch, struct err *e)
{
	struct cuda *c = self;
	const struct dev_library *l = launch->kernel->library;
	size_t n_from, n_to;
	float *from, *to;
	uint64_t kept;

	if (!l->repack)
		return true;
	n_from = span(l->b.dim, l->from, l->rank) * sizeof(*from);
	n_to = span(l->b.dim, l->b.stride, l->rank) * sizeof(*to);
	kept = cuda_bytes_new(c, n_to);
	if (!kept)
		return err_set(
		    e, ERR_MEMORY, "the GPU has no %zu bytes for weights in a library's order", n_to);
	launch->kept = (void *)(uintptr_t)kept;
	from = heap_alloc(n_from);
	to = heap_alloc(n_to);
	cuda_move(c, from, launch->buf[l->b.buf], n_from);
	move_all(l, from, to);
	cuda_move(c, launch->kept, to, n_to);
	free(from);
	free(to);
	return cuda_is_well(c) || cuda_tell(c, e);
}

void
cuda_library_release(void *self, struct dev_launch *l)
{
	struct cuda *c = self;

	if (l->kept && !c->is_sticky)
		(void)cuda_good(c, c->g->cu.mem_free((uint64_t)(uintptr_t)l->kept), "cuMemFree");
}

/* ---- running ---- */
bool
cuda_library_run(struct cuda *c, const struct dev_launch *launch, void *scratch, void *stream)
{
	const struct dev_library *l = launch->kernel->library;
	void *p[MAX_SLOTS];
	struct err e = {0};
	bool ok = true;

	for (uint32_t i = 0; i < l->n_slots; i++) {
		const struct slot *s = &l->slot[i];

		p[i] = s->from == SLOT_KEPT ? launch->kept
		    : s->from == SLOT_DATA  ? (void *)(uintptr_t)(l->data + s->n * sizeof(float))
					    : launch->buf[s->n];
		if ((uintptr_t)p[i] % VENDOR_ALIGN)
			ok = err_set(&e, ERR_LAUNCH,
			    "%s is given a buffer at %p, which is not aligned to %d bytes",
			    library_name(l->lib), p[i], VENDOR_ALIGN);
	}
	if (ok && tables[l->lib]->run(&c->own.vendor, c->vendor[l->lib], l->call, p, scratch, stream, &e))
		return true;
	if (c->fault.code == ERR_NONE)
		c->fault = e;
	return false;
}
