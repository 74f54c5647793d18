/* worker/main_korch_measure.c: korch-measure: loads, checks and times generated kernels for its
 * parent (measure_parent.c), which talks to it by a socket on descriptors 0 and 1.  It is a
 * program of its own because generated code may crash, hang or write anywhere: all that costs is
 * this process.  Its parent starts it in a jail (kernels/jail), so that this holds for what such code wants
 * to do as well. */
#include "gpu_child.h"

#include "../kernels/jail/jail.h"

#include "../kernels/base/opt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LOST_CONTEXT = 86,
	KEPT_SHARE = 8 /* of the memory, one in so many: what a kernel had and the next may have */
};

struct child {
	int fd;
	struct dev dev;
	struct refs refs;
	bool is_fake;
	size_t memory_bytes;  /* what there is for kernels and their operands */
	struct gpu_child gpu; /* open: a GPU's child, or a compiler for them */
	struct gpu_refs gpu_refs;
	uint64_t fake_seed;
	struct fake_rates fake_rates;
};

static bool
say(const struct child *c, enum frame_kind kind, const void *body, size_t n)
{
	return frame_write(c->fd, kind, body, n);
}

static bool
say_error(const struct child *c, const struct err *e)
{
	return say(c, SAY_ERROR, e, sizeof(*e));
}

/* ---- hello --------------------------------------------------------------------------------- */
static bool
is_gpu(const struct ask_hello *h)
{
	return strncmp(h->device, "cuda:", 5) == 0 || strncmp(h->device, "nvrtc", 5) == 0;
}

/* The fake's NVRTC is the C compiler: the one case in which a program is started here. */
static bool
starts_programs(const struct ask_hello *h)
{
	return strncmp(h->device, "nvrtc", 5) == 0 && h->fake[0];
}

static bool
open_device(struct child *c, const struct ask_hello *h, struct bytes refs, struct err *e)
{
	if (strcmp(h->device, "fake") == 0) {
		dev_fake_open(h->n_threads, &c->dev);
		c->is_fake = true;
		return fake_read(str_of(h->fake), &c->fake_seed, &c->fake_rates, e);
	}
	if (is_gpu(h)) {
		bool ok = gpu_child_open(h->device, h->fake, &c->gpu, e);

		c->dev = c->gpu.dev;
		c->gpu.dev.close = NULL;
		return ok;
	}
	if (strcmp(h->device, "cpu") != 0)
		return err_set(
		    e, ERR_DEVICE, "there is no device \"%s\"; cpu, cuda and fake are known", h->device);
	if (!dev_cpu_open(h->n_threads, true, &c->dev, e))
		return false;
	dev_cpu_keep(&c->dev, h->memory_bytes / KEPT_SHARE);
	return refs_open(&c->dev, refs, &c->refs, e);
}

static bool
greet(struct child *c, struct bytes body)
{
	struct say_hello mine = hello_mine();
	struct ask_hello h;
	struct err e = {0};

	if (body.n < sizeof(h))
		return false;
	memcpy(&h, body.p, sizeof(h));
	h.device[sizeof(h.device) - 1] = h.fake[sizeof(h.fake) - 1] = 0;
	if (!starts_programs(&h))
		jail_lock();
	if (!is_gpu(&h)) /* a driver reserves addresses for all memory there is */
		space_limit(h.memory_bytes);
	c->memory_bytes = h.memory_bytes;
	return open_device(c, &h, (struct bytes){body.p + sizeof(h), body.n - sizeof(h)}, &e)
	    ? say(c, SAY_HELLO, &mine, sizeof(mine))
	    : say_error(c, &e);
}

static bool
do_calibrate(struct child *c, struct bytes body)
{
	struct calibration k;
	struct dev_module *m = NULL;
	struct err e = {0};
	bool ok;

	if (!c->gpu.is_open)
		return calibrate(&c->dev, &c->refs, body.n > 0, &k, &e)
		    ? say(c, SAY_CALIBRATION, &k, sizeof(k))
		    : say_error(c, &e);
	ok = c->dev.load(c->dev.self, body, &m, &e) && gpu_refs_open(&c->dev, m, &c->gpu_refs, &e) &&
	    gpu_calibrate(&c->dev, &c->gpu_refs, &k, &e);
	gpu_refs_close(&c->gpu_refs);
	if (m)
		c->dev.unload(c->dev.self, m);
	return ok ? say(c, SAY_CALIBRATION, &k, sizeof(k)) : say_error(c, &e);
}

static bool
do_compile(struct child *c, struct arena *a, struct bytes body)
{
	struct body in = {body.p, body.p + body.n, false};
	int sm = (int)(get_num(&in) & 0xffff);
	bool strict = get_num(&in) != 0;
	struct bytes text = get_blob(&in), cubin;
	struct err e = {0};

	if (in.bad || !c->gpu.is_open)
		return false;
	return gpu_rtc_choose(&c->gpu.gpu, sm, &e) &&
		gpu_compile(
		    &c->gpu.gpu, a, (struct str){(const char *)text.p, text.n}, sm, strict, &cubin, &e)
	    ? say(c, SAY_CUBIN, cubin.p, cubin.n)
	    : say_error(c, &e);
}

static bool
do_libraries(struct child *c)
{
	int64_t version[LIBRARY_COUNT] = {0};

	if (!c->gpu.is_open)
		return false;
	for (int l = 0; l < LIBRARY_COUNT; l++)
		if (library_is_cuda((enum library)l))
			version[l] = vendor_version(&c->gpu.gpu, (enum library)l);
	return say(c, SAY_LIBRARIES, version, sizeof(version));
}

static bool
do_resolve(struct child *c, struct arena *a, struct bytes body)
{
	struct body in = {body.p, body.p + body.n, false};
	struct bytes spec = get_blob(&in), how = get_blob(&in), out = {0};
	struct kernel_name k = {STR("k"), {(const char *)spec.p, spec.n}, {(const char *)how.p, how.n}};
	struct err e = {0};

	if (in.bad || c->is_fake || !c->dev.self)
		return false;
	return (c->gpu.is_open ? vendor_resolve(&c->dev, a, k.spec, k.schedule, &out, &e)
			       : dev_binds(&c->dev, &k, &e))
	    ? say(c, SAY_CUBIN, out.p, out.n)
	    : say_error(c, &e);
}

static bool
do_awake(const struct child *c)
{
	struct say_awake said = {.is_well = 1};
	size_t resident;
	bool is_lost = false;
	struct err e;

	(void)space_in_use(&resident);
	said.resident_bytes = resident;
	if (c->dev.fault && !c->dev.fault(c->dev.self, &is_lost, &e))
		said.is_well = 0;
	return say(c, SAY_AWAKE, &said, sizeof(said));
}

/* ---- batches -------------------------------------------------------------------------------- */
struct item_run {
	struct child *c;
	const struct child_batch *b;
	uint32_t item;
	struct dev_kernel *kernels;
	struct measure_row *rows;
	bool is_cut; /* the parent is gone */
};

static void
announce(void *arg, uint32_t kernel)
{
	struct item_run *r = arg;
	struct say_at at = {r->item, kernel};

	if (!say(r->c, SAY_AT, &at, sizeof(at)))
		r->is_cut = true;
}

/* The host to itself while kernels are timed: the parent holds its lock, so that whoever dies leaves none
 * behind. */
static void
hold_host(void *arg, bool take)
{
	struct item_run *r = arg;
	struct say_hold h = {take};
	struct arena tmp = {0};
	enum frame_kind kind = (enum frame_kind)0;
	struct bytes body;

	if (r->is_cut || !say(r->c, SAY_HOLD, &h, sizeof(h)))
		r->is_cut = true;
	else if (take && (!frame_read(r->c->fd, &tmp, &kind, &body) || kind != ASK_GO))
		r->is_cut = true;
	arena_fini(&tmp);
}

static void
fail_row(struct measure_row *row, const struct err *e)
{
	row->fail = e->code;
	(void)snprintf(row->cause, sizeof(row->cause), "%s", e->msg);
}

static bool
find_kernel(struct child *c, struct dev_module *m, const struct spec *s, const struct measure_kernel *of,
    struct dev_kernel *k, struct err *e)
{
	const struct kernel_name name = {of->symbol, s->text, of->schedule};

	dev_lose(&c->dev, k);
	*k = (struct dev_kernel){.n_passes = of->code->n_passes,
	    .n_bufs = s->g.n_inputs + s->g.n_outputs,
	    .shared_bytes = of->code->shared_bytes,
	    .local_bytes = of->code->local_bytes};
	memcpy(k->range, of->code->range, sizeof(k->range));
	return dev_find(&c->dev, m, &name, k, e) &&
	    c->dev.reserve(c->dev.self, k->shared_bytes, k->local_bytes, e);
}

/* A GPU's context that is lost takes its process with it: what failed is said first, and the parent
 * goes on with another child. */
static void
leave_if_lost(struct item_run *r)
{
	bool is_lost = false;
	struct err e;

	if (!r->c->dev.fault)
		return;
	(void)r->c->dev.fault(r->c->dev.self, &is_lost, &e);
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels && is_lost; k++) {
		struct say_row row = {r->item, k, r->rows[k]};

		if (r->rows[k].fail != ERR_NONE && !r->b->skip[r->item][k])
			(void)say(r->c, SAY_ROW, &row, sizeof(row));
	}
	if (is_lost)
		_exit(LOST_CONTEXT);
}

static bool
find_of_item(struct item_run *r, struct dev_module *m, uint32_t k, struct err *e)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	return find_kernel(r->c, m, it->spec, &it->kernels[k], &r->kernels[k], e);
}

static void
check_item(struct item_run *r, struct dev_module *m)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	struct check_opts o = {
	    .tolerance = it->tolerance > 0 ? it->tolerance : r->b->batch.tolerance, .seed = r->b->batch.seed};
	struct check *check = NULL;
	struct err no_reference = {0};

	announce(r, AT_REFERENCE);
	if (!check_open(it->spec, &o, &check, &no_reference))
		check = NULL;
	for (uint32_t k = 0; k < it->n_kernels && !r->is_cut; k++) {
		struct measure_row *row = &r->rows[k];
		struct err e = {0};

		if (row->fail != ERR_NONE)
			continue;
		announce(r, k);
		if (!check)
			fail_row(row, &no_reference);
		else if (!find_of_item(r, m, k, &e) ||
		    !check_kernel(check, &r->c->dev, &r->kernels[k], it->kernels[k].code, &row->error, &e))
			fail_row(row, &e);
		leave_if_lost(r);
	}
	check_close(check);
}

static struct race
race_of(const struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];

	return (struct race){.dev = &r->c->dev,
	    .refs = &r->c->refs,
	    .spec = it->spec,
	    .heat = it->heat,
	    .kernels = r->kernels,
	    .of = it->kernels,
	    .n = it->n_kernels,
	    .calibration = &r->b->calibration,
	    .budget_ns = r->b->batch.budget_ns,
	    .known_ns = it->known_ns,
	    .seed = r->b->batch.seed,
	    .memory_bytes = r->c->memory_bytes,
	    .hold = hold_host};
}

static void
time_item(struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	struct race race = race_of(r);
	struct err e = {0};

	if (r->c->gpu.is_open) {
		if (!gpu_race_run(&race, &r->c->gpu_refs, announce, r, r->rows, &e))
			leave_if_lost(r);
		return;
	}
	if (race_run(&race, announce, r, r->rows, &e))
		return;
	for (uint32_t k = 0; k < it->n_kernels; k++)
		if (r->rows[k].fail == ERR_NONE)
			fail_row(&r->rows[k], &e);
}

static void
pair_item(struct item_run *r, struct dev_module *m)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	struct race race = race_of(r);
	struct err e = {0};

	for (uint32_t k = 0; k < it->n_kernels; k++)
		if (r->rows[k].fail == ERR_NONE && !find_of_item(r, m, k, &e))
			fail_row(&r->rows[k], &e);
	if (!gpu_pairs_run(&race, &r->c->gpu_refs, announce, r, r->rows, &e))
		leave_if_lost(r);
}

/* The fake device: rows from a hash.  A crash is a real one, so that the parent's way with
 * crashes is walked; a hang is only said to be one, because tests do not wait. */
static void
fake_item(struct item_run *r)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	int64_t bound = cost_bound_ns(it->spec, &r->b->calibration.hw, NULL);

	for (uint32_t k = 0; k < it->n_kernels; k++) {
		struct measure_row *row = &r->rows[k];
		struct fake_time t;

		if (row->fail != ERR_NONE)
			continue;
		announce(r, k);
		t = fake_measure(
		    it->spec->text, it->kernels[k].schedule, bound, r->c->fake_seed, &r->c->fake_rates);
		if (t.status == ERR_CRASH)
			abort();
		row->fail = t.status;
		if (t.status != ERR_NONE)
			(void)snprintf(row->cause, sizeof(row->cause), "the fake device says so");
		row->median_ns = row->min_ns = row->p10_ns = row->p90_ns = t.ns;
		row->spread_ns = t.spread_ns;
		row->samples = t.status == ERR_NONE ? 1 : 0;
		row->clock_ratio = 1;
		row->stop = STOP_CONVERGED;
	}
}

/* Kernels that are to be left out carry a failure that is not sent; false: all of them are. */
static bool
item_open(struct item_run *r, struct arena *a)
{
	const struct measure_item *it = &r->b->batch.items[r->item];
	bool any = false;

	r->kernels = NEW_ARRAY(a, struct dev_kernel, it->n_kernels);
	r->rows = NEW_ARRAY(a, struct measure_row, it->n_kernels);
	for (uint32_t k = 0; k < it->n_kernels; k++) {
		r->rows[k].fail = r->b->skip[r->item][k] ? ERR_FAILED : ERR_NONE;
		any = any || !r->b->skip[r->item][k];
	}
	return any;
}

static void
item_close(struct item_run *r)
{
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels; k++)
		dev_lose(&r->c->dev, &r->kernels[k]);
}

static void
item_say(struct item_run *r)
{
	for (uint32_t k = 0; k < r->b->batch.items[r->item].n_kernels && !r->is_cut; k++) {
		struct say_row row = {r->item, k, r->rows[k]};

		if (!r->b->skip[r->item][k])
			r->is_cut = !say(r->c, SAY_ROW, &row, sizeof(row));
	}
}

static void
run_item(struct item_run *r, struct dev_module *m)
{
	struct arena tmp = {0};
	bool any = item_open(r, &tmp);

	if (any && r->c->is_fake) {
		fake_item(r);
	} else if (any && r->b->batch.in_pairs) {
		pair_item(r, m);
	} else if (any) {
		check_item(r, m);
		if (!r->b->batch.check_only && !r->is_cut)
			time_item(r);
	}
	item_say(r);
	item_close(r);
	arena_fini(&tmp);
}

/* All items side by side.  A crash costs its kernel; the parent asks again without it. */
static bool
run_together(struct child *c, struct arena *a, const struct child_batch *b, struct dev_module *m)
{
	uint32_t n = b->batch.n_items;
	struct item_run *runs = NEW_ARRAY(a, struct item_run, n);
	struct race *races = NEW_ARRAY(a, struct race, n);
	struct measure_row **rows = NEW_ARRAY(a, struct measure_row *, n);
	void **args = NEW_ARRAY(a, void *, n);
	struct err e = {0};
	bool is_cut = false, ok;

	for (uint32_t i = 0; i < n; i++) {
		runs[i] = (struct item_run){.c = c, .b = b, .item = i};
		(void)item_open(&runs[i], a);
		for (uint32_t k = 0; k < b->batch.items[i].n_kernels; k++)
			if (runs[i].rows[k].fail == ERR_NONE && !find_of_item(&runs[i], m, k, &e))
				fail_row(&runs[i].rows[k], &e);
		races[i] = race_of(&runs[i]);
		rows[i] = runs[i].rows;
		args[i] = &runs[i];
	}
	ok = races_run(races, n, announce, args, rows, &e);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; !ok && k < b->batch.items[i].n_kernels; k++)
			if (rows[i][k].fail == ERR_NONE && !rows[i][k].samples)
				fail_row(&rows[i][k], &e);
		item_say(&runs[i]);
		item_close(&runs[i]);
		is_cut = is_cut || runs[i].is_cut;
	}
	return !is_cut;
}

static bool
do_batch(struct child *c, struct arena *a, struct bytes body)
{
	struct child_batch b;
	struct dev_module *m = NULL;
	struct item_run r = {.c = c, .b = &b};
	struct err e = {0};

	if (!batch_unpack(a, body, &b, &e) || !c->dev.load(c->dev.self, b.batch.module, &m, &e))
		return say_error(c, &e);
	if (c->gpu.is_open && !gpu_refs_open(&c->dev, m, &c->gpu_refs, &e))
		return say_error(c, &e);
	if (b.batch.in_pairs && !c->gpu.is_open)
		return say_error(c, (err_set(&e, ERR_INFEASIBLE, "pairs are timed on a GPU alone"), &e));
	if (b.batch.together && !c->gpu.is_open && !c->is_fake)
		r.is_cut = !run_together(c, a, &b, m);
	else
		for (r.item = 0; r.item < b.batch.n_items && !r.is_cut; r.item++)
			run_item(&r, m);
	gpu_refs_close(&c->gpu_refs);
	c->dev.unload(c->dev.self, m);
	return !r.is_cut && say(c, SAY_END, NULL, 0);
}

static bool
do_plans(struct child *c, struct arena *a, struct bytes body)
{
	struct say_timing said[MEASURE_MAX_PLANS] = {{0}};

	return plans_time(&c->dev, c->is_fake, c->gpu.is_open, a, body, said) &&
	    say(c, SAY_TIMING, said, sizeof(said));
}

/* ---- the program ------------------------------------------------------------------------------- */
static bool
answer(struct child *c, struct arena *a, enum frame_kind kind, struct bytes body)
{
	if (kind == ASK_HELLO && !c->dev.name)
		return greet(c, body);
	if (!c->dev.name)
		return false;
	switch (kind) {
	case ASK_CALIBRATE:
		return do_calibrate(c, body);
	case ASK_BATCH:
		return do_batch(c, a, body);
	case ASK_PLANS:
		return do_plans(c, a, body);
	case ASK_COMPILE:
		return do_compile(c, a, body);
	case ASK_LIBRARIES:
		return do_libraries(c);
	case ASK_RESOLVE:
		return do_resolve(c, a, body);
	case ASK_AWAKE:
		return do_awake(c);
	default:
		return false;
	}
}

/* By hand there is a terminal, a file or nothing: who reads that ends silently, as if all were well. */
static bool
is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int
main(int argc, char **argv)
{
	struct child c = {0};
	struct arena a = {0};
	enum frame_kind kind;
	struct bytes body;
	struct opts o;
	int status = opts_main(&a, PROG_MEASURE, argc, argv, &o);

	if (status >= 0)
		return status;
	/* Generated code and libraries may print: that must not reach the parent's stream. */
	c.fd = is_socket(0) ? fcntl(0, F_DUPFD_CLOEXEC, 3) : -1;
	if (c.fd < 0 || dup2(2, 1) < 0) {
		(void)fprintf(
		    stderr, "korch-measure: is started by korch-worker, with a socket as its input\n");
		return 2;
	}
	while (frame_read(c.fd, &a, &kind, &body)) {
		if (!answer(&c, &a, kind, body))
			break;
		arena_fini(&a);
	}
	arena_fini(&a);
	if (c.dev.name && !c.is_fake && !c.gpu.is_open)
		refs_close(&c.refs);
	if (c.dev.close)
		c.dev.close(c.dev.self);
	gpu_child_close(&c.gpu);
	return 0;
}
