/* client/lib/korch.c: the public API over plan_load() and plan_exec. */
#include "korch.h"

#include "../../kernels/device/streams.h"
#include "../../kernels/run/exec.h"
#include "../../schema/plan_file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct korch_plan {
	struct arena arena; /* of the plan and its names */
	struct plan plan;
	struct runner *runner;
	const char **names; /* of inputs, then of outputs */
};

_Static_assert((int)KORCH_MAX_RANK == (int)MAX_RANK, "shapes fit");

/* ---- errors ---------------------------------------------------------------------------------- */
/* Classes that callers can act on; all others are KORCH_FAILED. */
static korch_status
status_of(enum err_code code)
{
	static const korch_status known[] = {KORCH_USAGE, KORCH_HOST, KORCH_IO, KORCH_FORMAT, KORCH_NEWER,
	    KORCH_DEVICE, KORCH_LIMIT, KORCH_LAUNCH, KORCH_MEMORY, KORCH_UNTRUSTED};

	for (size_t i = 0; i < COUNT_OF(known); i++)
		if ((int)known[i] == err_wire(code))
			return known[i];
	return KORCH_FAILED;
}

static korch_status
tell(const struct err *from, struct korch_error *to)
{
	korch_status status = status_of(from->code);

	if (to) {
		to->status = status;
		(void)snprintf(to->text, sizeof(to->text), "%s", from->msg);
	}
	return status;
}

/* ---- open and close ---------------------------------------------------------------------------- */
static void
name_ios(struct korch_plan *k)
{
	const struct plan *p = &k->plan;

	k->names = NEW_ARRAY(&k->arena, const char *, (size_t)p->n_inputs + p->n_outputs);
	for (uint32_t i = 0; i < p->n_inputs; i++)
		k->names[i] = str_dup(&k->arena, p->inputs[i].name);
	for (uint32_t i = 0; i < p->n_outputs; i++)
		k->names[p->n_inputs + i] = str_dup(&k->arena, p->outputs[i].name);
}

/* The options' size before they grew: what korch_plan_open's callers of that time have. */
enum { FIRST_OPTIONS = offsetof(struct korch_options, n_streams) };

/* A smaller struct lacks fields, which are 0; what a larger one has more must be 0. */
static bool
read_options(const struct korch_options *from, size_t size, struct korch_options *out, struct err *e)
{
	const char *p = (const char *)from;

	*out = (struct korch_options){0};
	if (!from)
		return true;
	if (size < FIRST_OPTIONS)
		return err_set(
		    e, ERR_USAGE, "options of %zu bytes; they have at least %d", size, (int)FIRST_OPTIONS);
	for (size_t i = sizeof(*out); i < size; i++)
		if (p[i])
			return err_set(
			    e, ERR_USAGE, "an option is set that libkorch %s does not know", KORCH_VERSION);
	memcpy(out, from, MIN_OF(size, sizeof(*out)));
	if (out->n_threads > RUNNER_MAX_THREADS)
		return err_set(e, ERR_USAGE, "%u threads were asked for; at most %d are possible",
		    out->n_threads, RUNNER_MAX_THREADS);
	if (out->gpu > RUNNER_MAX_GPUS)
		return err_set(e, ERR_USAGE, "GPU %u was asked for; at most %d are possible", out->gpu - 1,
		    RUNNER_MAX_GPUS);
	return out->n_streams <= STREAMS_MAX ||
	    err_set(e, ERR_USAGE, "%u streams were asked for; at most %d are possible", out->n_streams,
		STREAMS_MAX);
}

static bool
open_plan(struct korch_plan *k, const char *path, const struct korch_options *o, struct err *e)
{
	struct runner_opts how = {.n_threads = o->n_threads,
	    .pin = o->pin != 0,
	    .takes = true,
	    .n_streams = o->n_streams,
	    .gpu_number = o->gpu};
	struct plan_host host;
	struct trust trust;
	const struct trust_key *by;

	if (!plan_load(&k->arena, path, &k->plan, &host, e) ||
	    !trust_read(&k->arena, "", &o->trust, o->trust ? 1 : 0, &trust, e) ||
	    !plan_trusted(&trust, path, &k->plan, &host, &by, e))
		return false;
	if (!runner_open(&k->plan, &how, &k->runner, e))
		return err_in(e, "%s", path);
	name_ios(k);
	return true;
}

#undef korch_plan_open
korch_status
korch_plan_open(const char *path, const struct korch_options *o, korch_plan **out, struct korch_error *e)
{
	return korch_plan_open_sized(FIRST_OPTIONS, path, o, out, e);
}

korch_status
korch_plan_open_sized(size_t options_size, const char *path, const struct korch_options *o, korch_plan **out,
    struct korch_error *e)
{
	struct korch_plan *k;
	struct korch_options all;
	struct err why = {0};

	if (!path || !out) {
		(void)err_set(&why, ERR_USAGE, "korch_plan_open: no path, or nowhere to put the plan");
		return tell(&why, e);
	}
	if (!read_options(o, options_size, &all, &why))
		return tell(&why, e);
	k = heap_alloc(sizeof(*k));
	if (!open_plan(k, path, &all, &why)) {
		korch_plan_close(k);
		return tell(&why, e);
	}
	*out = k;
	return KORCH_OK;
}

void
korch_plan_close(korch_plan *k)
{
	if (!k)
		return;
	runner_close(k->runner);
	arena_fini(&k->arena);
	free(k);
}

/* ---- inputs and outputs -------------------------------------------------------------------------- */
int
korch_plan_on_gpu(const korch_plan *k)
{
	return plan_wants_gpu(&k->plan);
}

size_t
korch_plan_n_inputs(const korch_plan *k)
{
	return k->plan.n_inputs;
}

size_t
korch_plan_n_outputs(const korch_plan *k)
{
	return k->plan.n_outputs;
}

static size_t
io_bytes(const struct plan_io *io)
{
	size_t n;

	if (!shape_bytes(&io->shape, io->type, &n))
		bug("a plan that was checked has a tensor without a size");
	return n;
}

static korch_status
describe(const struct plan_io *io, const char *const *names, uint32_t n, size_t i, const char *what,
    struct korch_tensor *out, struct korch_error *e)
{
	struct err why = {0};

	if (i >= n || !out) {
		(void)err_set(
		    &why, ERR_USAGE, "%s %zu was asked for; the plan has %u, counted from 0", what, i, n);
		return tell(&why, e);
	}
	*out = (struct korch_tensor){.name = names[i],
	    .type = (korch_type)dtype_onnx(io[i].type),
	    .rank = io[i].shape.rank,
	    .n_bytes = io_bytes(&io[i])};
	memcpy(out->dim, io[i].shape.dim, sizeof(out->dim[0]) * (size_t)out->rank);
	return KORCH_OK;
}

korch_status
korch_plan_input(const korch_plan *k, size_t i, struct korch_tensor *out, struct korch_error *e)
{
	return describe(k->plan.inputs, k->names, k->plan.n_inputs, i, "input", out, e);
}

korch_status
korch_plan_output(const korch_plan *k, size_t i, struct korch_tensor *out, struct korch_error *e)
{
	return describe(k->plan.outputs, k->names + k->plan.n_inputs, k->plan.n_outputs, i, "output", out, e);
}

/* ---- running -------------------------------------------------------------------------------------- */
enum { FEW = 32 }; /* so many pointers need no memory of their own */

static bool
check_buffer(
    const struct plan_io *io, const char *what, size_t i, const void *data, size_t n_bytes, struct err *e)
{
	size_t want = io_bytes(io);

	if (n_bytes != want)
		return err_set(e, ERR_USAGE, "%s %zu '%.*s' has %zu bytes; %zu were given", what, i,
		    STR_ARG(io->name), want, n_bytes);
	if (want && !data)
		return err_set(e, ERR_USAGE, "%s %zu '%.*s' has no memory", what, i, STR_ARG(io->name));
	if ((uintptr_t)data % dtype_size(io->type) != 0)
		return err_set(e, ERR_USAGE, "%s %zu '%.*s' is not aligned for %s", what, i,
		    STR_ARG(io->name), dtype_name(io->type));
	return true;
}

static bool
overlap(const void *a, size_t n_a, const void *b, size_t n_b)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return n_a && n_b && x < y + n_b && y < x + n_a;
}

static bool
check_output(
    const struct korch_input *in, size_t n_in, const struct korch_output *out, size_t i, struct err *e)
{
	for (size_t j = 0; j < n_in; j++)
		if (overlap(out[i].data, out[i].n_bytes, in[j].data, in[j].n_bytes))
			return err_set(e, ERR_USAGE, "output %zu overlaps input %zu", i, j);
	for (size_t j = 0; j < i; j++)
		if (overlap(out[i].data, out[i].n_bytes, out[j].data, out[j].n_bytes))
			return err_set(e, ERR_USAGE, "output %zu overlaps output %zu", i, j);
	return true;
}

static bool
check_call(const struct korch_plan *k, const struct korch_input *in, size_t n_in,
    const struct korch_output *out, size_t n_out, struct err *e)
{
	const struct plan *p = &k->plan;

	if (n_in != p->n_inputs || n_out != p->n_outputs)
		return err_set(e, ERR_USAGE, "the plan has %u inputs and %u outputs; %zu and %zu were given",
		    p->n_inputs, p->n_outputs, n_in, n_out);
	for (size_t i = 0; i < n_in; i++)
		if (!check_buffer(&p->inputs[i], "input", i, in[i].data, in[i].n_bytes, e))
			return false;
	for (size_t i = 0; i < n_out; i++)
		if (!check_buffer(&p->outputs[i], "output", i, out[i].data, out[i].n_bytes, e) ||
		    !check_output(in, n_in, out, i, e))
			return false;
	return true;
}

korch_status
korch_plan_run(korch_plan *k, const struct korch_input *in, size_t n_in, const struct korch_output *out,
    size_t n_out, struct korch_error *e)
{
	const void *few_in[FEW], **from = few_in;
	void *few_out[FEW], **to = few_out;
	struct arena tmp = {0};
	struct err why = {0};
	int64_t ns;
	bool ok;

	if (!check_call(k, in, n_in, out, n_out, &why))
		return tell(&why, e);
	if (n_in > FEW)
		from = NEW_ARRAY(&tmp, const void *, n_in);
	if (n_out > FEW)
		to = NEW_ARRAY(&tmp, void *, n_out);
	for (size_t i = 0; i < n_in; i++)
		from[i] = in[i].data;
	for (size_t i = 0; i < n_out; i++)
		to[i] = out[i].data;
	ok = runner_run(k->runner, from, to, &ns, NULL, &why);
	arena_fini(&tmp);
	return ok ? KORCH_OK : tell(&why, e);
}

/* ---- words ------------------------------------------------------------------------------------------ */
const char *
korch_version(void)
{
	return KORCH_VERSION;
}

const char *
korch_type_name(korch_type type)
{
	enum dtype t;

	return dtype_of_onnx((int)type, &t) ? dtype_name(t) : NULL;
}
