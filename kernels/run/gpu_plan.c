/* kernels/run/gpu_plan.c: a whole plan on a GPU: its steps captured as one graph, on one stream or on
 * several, as is faster.  Inputs and outputs in the GPU's own memory are used where they lie; those of the
 * host go through one pinned block and one block in the GPU's memory, two copies a run where all are the
 * host's. */
#include "gpu_plan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TURNS = 9, MIN_TURNS = 3 };
static const int64_t turns_ns = 200000000; /* of the GPU's time, about */

struct gpu_plan {
	const struct dev *dev;
	const struct plan *plan;
	struct arena arena;
	struct plan_exec *exec;
	struct gpu_graph *graph; /* NULL: a plan of copies alone */
	struct streams order;
	struct plan_streams said;
	char *block, *pinned; /* inputs, then outputs, PLAN_ALIGNed */
	size_t in_bytes, n_bytes;
	size_t *at;      /* of each input, then output */
	const void **in; /* the block's own places, and where this run's lie */
	const void **in_now;
	void **out, **out_now;
	bool *is_far;               /* in the GPU's memory: of each input, then output */
	struct dev_copy *to, *back; /* the host's inputs; the plan's copies, then the host's outputs */
	pthread_mutex_t turn;       /* runs from several threads */
};

static size_t
io_bytes(const struct plan_io *io)
{
	size_t n;

	if (!shape_bytes(&io->shape, io->type, &n))
		bug("a checked plan has an input that does not fit");
	return n;
}

static const struct plan_io *
io_at(const struct plan *p, uint32_t i)
{
	return i < p->n_inputs ? &p->inputs[i] : &p->outputs[i - p->n_inputs];
}

static bool
make_room(struct gpu_plan *p, struct err *e)
{
	const struct plan *plan = p->plan;
	uint32_t n = plan->n_inputs + plan->n_outputs;

	p->at = NEW_ARRAY(&p->arena, size_t, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		p->at[i] = p->n_bytes;
		p->n_bytes =
		    ck_add(p->n_bytes, (io_bytes(io_at(plan, i)) + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN);
		p->in_bytes = i < plan->n_inputs ? p->n_bytes : p->in_bytes;
	}
	p->block = p->dev->mem_new(p->dev->self, p->n_bytes);
	p->pinned = gpu_host_new(p->dev, p->n_bytes);
	if (!p->block || !p->pinned)
		return err_set(e, ERR_MEMORY,
		    "there are no %zu bytes of %s memory for the plan's inputs and outputs", p->n_bytes,
		    p->block ? "pinned" : "the GPU's");
	memset(p->pinned, 0, p->n_bytes);
	p->in = NEW_ARRAY(&p->arena, const void *, plan->n_inputs + 1);
	p->in_now = NEW_ARRAY(&p->arena, const void *, plan->n_inputs + 1);
	p->out = NEW_ARRAY(&p->arena, void *, plan->n_outputs + 1);
	p->out_now = NEW_ARRAY(&p->arena, void *, plan->n_outputs + 1);
	p->is_far = NEW_ARRAY(&p->arena, bool, n + 1);
	p->to = NEW_ARRAY(&p->arena, struct dev_copy, plan->n_inputs + 1);
	p->back = NEW_ARRAY(&p->arena, struct dev_copy, plan->n_copies + plan->n_outputs + 1);
	for (uint32_t i = 0; i < plan->n_inputs; i++)
		p->in_now[i] = p->in[i] = p->block + p->at[i];
	for (uint32_t i = 0; i < plan->n_outputs; i++)
		p->out_now[i] = p->out[i] = p->block + p->at[plan->n_inputs + i];
	return true;
}

/* ---- one stream or several ------------------------------------------------------------------------- */
static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Both in turns, the first turn for warming up; medians. */
static bool
time_both(struct gpu_plan *p, struct gpu_graph *const *g, struct err *e)
{
	int64_t ns[2][MAX_TURNS + 1], spent = 0;
	size_t n = 0;

	while (n <= MIN_TURNS || (n <= MAX_TURNS && spent < turns_ns)) {
		for (int k = 0; k < 2; k++) {
			if (!gpu_graph_time(p->dev, g[k], &ns[k][n], e))
				return false;
			spent += ns[k][n];
		}
		n++;
	}
	for (int k = 0; k < 2; k++)
		qsort(&ns[k][1], n - 1, sizeof(ns[k][1]), by_value);
	p->said.one_ns = ns[0][n / 2];
	p->said.side_ns = ns[1][n / 2];
	return true;
}

static bool
try_streams(struct gpu_plan *p, const struct dev_launch *l, uint32_t n, struct err *e)
{
	struct gpu_graph *both[2] = {p->graph, NULL};
	bool is_faster;

	if (!gpu_graph_make(p->dev, l, n, &p->order, &both[1], e))
		return err_in(e, "the plan on %u streams (--streams 1 needs one)", p->order.n_streams);
	if (!time_both(p, both, e)) {
		gpu_graph_free(p->dev, both[1]);
		return false;
	}
	is_faster = p->said.side_ns < p->said.one_ns;
	gpu_graph_free(p->dev, both[!is_faster]);
	p->graph = both[is_faster];
	p->said.n_used = is_faster ? p->order.n_streams : 1;
	return true;
}

/* Once by hand, so that a fault shows before it is captured; then as a graph. */
static bool
capture(struct gpu_plan *p, uint32_t n_streams, struct err *e)
{
	const struct dev_launch *l;
	uint32_t n;
	bool is_lost;

	plan_exec_run(p->exec, p->in, p->out, NULL);
	if (!p->dev->fault(p->dev->self, &is_lost, e))
		return false;
	l = plan_exec_launches(p->exec, p->in, p->out, &n);
	streams_of_plan(&p->arena, p->plan, n_streams, &p->order);
	p->said = (struct plan_streams){
	    .n_asked = n_streams, .n_used = 1, .n_side = p->order.n_streams, .n_waits = p->order.n_waits};
	return n == 0 ||
	    (gpu_graph_make(p->dev, l, n, NULL, &p->graph, e) &&
		(p->order.n_streams == 1 || try_streams(p, l, n, e)));
}

const struct plan_streams *
gpu_plan_streams(const struct gpu_plan *p)
{
	return &p->said;
}

bool
gpu_plan_open(
    const struct dev *d, const struct plan *plan, uint32_t n_streams, struct gpu_plan **out, struct err *e)
{
	struct gpu_plan *p = heap_alloc(sizeof(*p));

	p->dev = d;
	p->plan = plan;
	(void)pthread_mutex_init(&p->turn, NULL);
	if (plan_exec_open(d, plan, &p->exec, e) && make_room(p, e) &&
	    capture(p, n_streams ? n_streams : STREAMS_DEFAULT, e)) {
		*out = p;
		return true;
	}
	gpu_plan_close(p);
	return false;
}

/* ---- running -------------------------------------------------------------------------------------- */
enum { WORD = 16 };

/* What of inputs and outputs is the i-th of both, for words. */
static const char *
side_of(const struct plan *plan, uint32_t i, uint32_t *k)
{
	*k = i < plan->n_inputs ? i : i - plan->n_inputs;
	return i < plan->n_inputs ? "input" : "output";
}

/* Where a pointer leads: what the driver does not know, or pinned for the host, is the host's.  Kernels move
 * whole words of the GPU's. */
static bool
see(struct gpu_plan *p, uint32_t i, const void *at, struct err *e)
{
	int number, own = gpu_number(p->dev);
	uint32_t k;
	const char *side = side_of(p->plan, i, &k);

	p->is_far[i] = false;
	if (!at)
		return true;
	if (!gpu_where(p->dev, at, &number, e))
		return false;
	if (number < 0)
		return true;
	if (number != own)
		return err_set(e, ERR_USAGE,
		    "%s %u of the plan lies in the memory of GPU %d, and the plan runs on GPU %d", side, k,
		    number, own);
	if ((uintptr_t)at % WORD)
		return err_set(e, ERR_USAGE,
		    "%s %u of the plan begins at %p: the GPU's memory for it is to begin at a multiple of %d",
		    side, k, at, (int)WORD);
	p->is_far[i] = true;
	return true;
}

static bool
see_all(struct gpu_plan *p, const void *const *in, void *const *out, struct err *e)
{
	const struct plan *plan = p->plan;

	for (uint32_t i = 0; i < plan->n_inputs; i++)
		if (!see(p, i, in[i], e))
			return false;
	for (uint32_t i = 0; i < plan->n_outputs; i++)
		if (!see(p, plan->n_inputs + i, out[i], e))
			return false;
	return true;
}

/* The graph's tables follow the pointers. */
static void
point_to(struct gpu_plan *p, const void *const *in, void *const *out)
{
	const struct plan *plan = p->plan;
	const struct dev_launch *l;
	bool same = true;
	uint32_t n;

	for (uint32_t i = 0; i < plan->n_inputs; i++) {
		const void *want = p->is_far[i] ? in[i] : p->in[i];

		same &= p->in_now[i] == want;
		p->in_now[i] = want;
	}
	for (uint32_t i = 0; i < plan->n_outputs; i++) {
		void *want = p->is_far[plan->n_inputs + i] ? out[i] : p->out[i];

		same &= p->out_now[i] == want;
		p->out_now[i] = want;
	}
	if (same || !p->graph)
		return;
	l = plan_exec_launches(p->exec, p->in_now, p->out_now, &n);
	gpu_graph_point(p->dev, p->graph, l, n);
}

/* Between the pinned block and the GPU's, of those of [lo, hi) that the host gave; neighbours in one copy. */
static uint32_t
list_copies(
    const struct gpu_plan *p, uint32_t lo, uint32_t hi, char *to, const char *from, struct dev_copy *list)
{
	uint32_t n = 0, n_all = p->plan->n_inputs + p->plan->n_outputs;

	for (uint32_t i = lo; i < hi; i++) {
		size_t n_bytes = (i + 1 < n_all ? p->at[i + 1] : p->n_bytes) - p->at[i];

		if (p->is_far[i])
			continue;
		if (n && (char *)list[n - 1].to + list[n - 1].n_bytes == to + p->at[i])
			list[n - 1].n_bytes += n_bytes;
		else
			list[n++] = (struct dev_copy){to + p->at[i], from + p->at[i], n_bytes};
	}
	return n;
}

/* Nothing may have no address. */
static void
move(void *to, const void *from, size_t n)
{
	if (n)
		memcpy(to, from, n);
}

static bool
run_once(struct gpu_plan *p, const void *const *in, void *const *out, int64_t *ns, struct err *e)
{
	const struct plan *plan = p->plan;
	uint32_t n_to, n_back, n_in = plan->n_inputs;
	bool ok;

	(void)gpu_enter(p->dev); /* a fault is told by the run */
	if (!see_all(p, in, out, e))
		return false;
	for (uint32_t i = 0; i < n_in; i++)
		if (!p->is_far[i])
			move(p->pinned + p->at[i], in[i], io_bytes(&plan->inputs[i]));
	point_to(p, in, out);
	plan_exec_copies(p->exec, p->in_now, p->out_now, p->back);
	n_to = list_copies(p, 0, n_in, p->block, p->pinned, p->to);
	n_back = plan->n_copies +
	    list_copies(p, n_in, n_in + plan->n_outputs, p->pinned, p->block, p->back + plan->n_copies);
	ok = gpu_graph_run(p->dev, p->graph, p->to, n_to, p->back, n_back, ns, e);
	for (uint32_t i = 0; i < plan->n_outputs && ok; i++)
		if (!p->is_far[n_in + i])
			move(out[i], p->pinned + p->at[n_in + i], io_bytes(&plan->outputs[i]));
	return ok;
}

bool
gpu_plan_run(struct gpu_plan *p, const void *const *in, void *const *out, int64_t *ns, struct err *e)
{
	bool ok;

	(void)pthread_mutex_lock(&p->turn);
	ok = run_once(p, in, out, ns, e);
	(void)pthread_mutex_unlock(&p->turn);
	return ok;
}

bool
gpu_plan_time(struct gpu_plan *p, int64_t *ns, struct err *e)
{
	*ns = 1;
	return !p->graph || gpu_graph_time(p->dev, p->graph, ns, e);
}

bool
gpu_plan_profile(struct gpu_plan *p, int64_t *step_ns, struct err *e)
{
	bool is_lost;

	plan_exec_run(p->exec, p->in, p->out, step_ns);
	return p->dev->fault(p->dev->self, &is_lost, e);
}

void
gpu_plan_close(struct gpu_plan *p)
{
	if (!p)
		return;
	(void)gpu_enter(p->dev);
	gpu_graph_free(p->dev, p->graph);
	p->dev->mem_free(p->dev->self, p->block, p->n_bytes);
	gpu_host_free(p->dev, p->pinned);
	plan_exec_close(p->exec);
	(void)pthread_mutex_destroy(&p->turn);
	arena_fini(&p->arena);
	free(p);
}
