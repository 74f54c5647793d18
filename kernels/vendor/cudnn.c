/* kernels/vendor/cudnn.c: convolutions by cuDNN 9's backend: engines listed by its heuristics, one
 * of them made into a plan and run.
 *
 * A choice is the engine's number and its knobs, which another process turns into the same plan; cuDNN's
 * own text of a plan promises no more than that and is longer.  A graph of several steps that no engine
 * takes has no choices: then the candidate has none from here. */
#include "cudnn_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIGS = 64, MAX_KNOBS = (VENDOR_MAX_WORDS - 1) / 2, MAX_NOTES = 16 };

struct call {
	struct dnn dnn;
	void *plan, *pack;
	size_t workspace;
};

/* ---- engines -------------------------------------------------------------------------------------- */
static bool
get_desc(struct dnn *d, void *from, int name, int type, void **out, struct err *e)
{
	int64_t n = 0;

	return dnn_new(d, type, out, e) &&
	    dnn_good(d->g->dnn.get(from, name, DNN_T_DESC, 1, &n, out), "a part of a configuration", e) &&
	    (n == 1 || err_set(e, ERR_INFEASIBLE, "cuDNN: a configuration without that part"));
}

/* Rounds more than was asked for?  What cuDNN says of itself; the check has the last word. */
static bool
is_exact(struct dnn *d, void *engine)
{
	int notes[MAX_NOTES];
	int64_t n = 0;

	if (d->g->dnn.get(engine, DNN_ENGINE_NUMERIC, DNN_T_NUMERIC, MAX_NOTES, &n, notes) != 0)
		return true;
	for (int64_t i = 0; i < MIN_OF(n, (int64_t)MAX_NOTES); i++)
		if (notes[i] == DNN_NOTE_TENSOR_CORE || notes[i] == DNN_NOTE_DOWN_CONVERT ||
		    notes[i] == DNN_NOTE_REDUCED)
			return false;
	return true;
}

static bool
read_knobs(struct dnn *d, void *config, struct vendor_choice *c, struct err *e)
{
	void *knob[MAX_KNOBS];
	int64_t n = 0, one;

	for (int i = 0; i < MAX_KNOBS; i++)
		if (!dnn_good(d->g->dnn.desc_new(DNN_CHOICE, &knob[i]), "a knob", e)) {
			while (i-- > 0)
				(void)d->g->dnn.desc_free(knob[i]);
			return false;
		}
	if (d->g->dnn.get(config, DNN_CONFIG_KNOBS, DNN_T_DESC, MAX_KNOBS, &n, knob) != 0)
		n = 0;
	for (int64_t i = 0; i < MIN_OF(n, (int64_t)MAX_KNOBS); i++) {
		int type = 0;
		int64_t v = 0;

		if (d->g->dnn.get(knob[i], DNN_CHOICE_TYPE, DNN_T_KNOB, 1, &one, &type) != 0 ||
		    d->g->dnn.get(knob[i], DNN_CHOICE_VALUE, DNN_T_I64, 1, &one, &v) != 0)
			continue;
		c->word[c->n_words++] = (uint64_t)type;
		c->word[c->n_words++] = (uint64_t)v;
	}
	for (int i = 0; i < MAX_KNOBS; i++)
		(void)d->g->dnn.desc_free(knob[i]);
	return n <= MAX_KNOBS || err_set(e, ERR_LIMIT, "cuDNN: a configuration of %lld knobs", (long long)n);
}

/* The plan of a configuration, with the scratch that it wants. */
static bool
make_plan(struct dnn *d, void *config, void **plan, uint64_t *workspace, struct err *e)
{
	int64_t n = 0, bytes = 0;

	if (!dnn_new(d, DNN_PLAN, plan, e) ||
	    (d->handle && !dnn_set(d, *plan, DNN_PLAN_HANDLE, DNN_T_HANDLE, 1, &d->handle, e)) ||
	    (!d->handle && !dnn_set(d, *plan, DNN_PLAN_DEVICE, DNN_T_DESC, 1, &d->device, e)) ||
	    !dnn_set(d, *plan, DNN_PLAN_CONFIG, DNN_T_DESC, 1, &config, e) ||
	    !dnn_end(d, *plan, "a plan", e) ||
	    !dnn_good(
		d->g->dnn.get(*plan, DNN_PLAN_WORKSPACE, DNN_T_I64, 1, &n, &bytes), "a plan's workspace", e))
		return false;
	*workspace = (uint64_t)bytes;
	return bytes >= 0 ||
	    err_set(e, ERR_INFEASIBLE, "cuDNN: a plan with a workspace of %lld bytes", (long long)bytes);
}

/* Drops the descriptors that were made since. */
static void
back_to(struct dnn *d, uint32_t n)
{
	while (d->n_descs > n)
		(void)d->g->dnn.desc_free(d->desc[--d->n_descs]);
}

/* One configuration of the heuristics as a choice; false: it is none that may be asked for. */
static bool
take_config(struct dnn *d, const struct vendor_op *op, void *config, uint64_t max_workspace,
    struct vendor_choice *out)
{
	uint32_t mark = d->n_descs;
	void *engine, *plan;
	int64_t n = 0, index = -1;
	struct err e = {0};
	bool ok = get_desc(d, config, DNN_CONFIG_ENGINE, DNN_ENGINE, &engine, &e) &&
	    d->g->dnn.get(engine, DNN_ENGINE_INDEX, DNN_T_I64, 1, &n, &index) == 0 && index >= 0 &&
	    (op->math != VENDOR_F32 || is_exact(d, engine));

	*out = (struct vendor_choice){.lib = LIBRARY_cudnn, .n_words = 1, .word = {(uint64_t)index}};
	ok = ok && read_knobs(d, config, out, &e) && make_plan(d, config, &plan, &out->workspace, &e) &&
	    out->workspace <= max_workspace;
	back_to(d, mark);
	return ok;
}

static bool
is_new(const struct vendor_choice *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].n_words == list[n].n_words &&
		    memcmp(list[i].word, list[n].word, list[n].n_words * sizeof(list[n].word[0])) == 0)
			return false;
	return true;
}

/* What one mode of the heuristics says. */
static bool
list_mode(struct dnn *d, const struct vendor_op *op, int mode, uint64_t max_workspace, uint32_t max,
    struct vendor_choice *out, uint32_t *n, struct err *e)
{
	uint32_t mark = d->n_descs;
	void *heur, *config[MAX_CONFIGS];
	int64_t have = 0;
	int made = 0;
	bool ok = dnn_new(d, DNN_HEUR, &heur, e) &&
	    dnn_set(d, heur, DNN_HEUR_GRAPH, DNN_T_DESC, 1, &d->graph, e) &&
	    dnn_set(d, heur, DNN_HEUR_MODE, DNN_T_HEUR_MODE, 1, &mode, e) &&
	    (d->handle || dnn_set(d, heur, DNN_HEUR_DEVICE, DNN_T_DESC, 1, &d->device, e)) &&
	    dnn_end(d, heur, "its heuristics", e);

	while (ok && made < MAX_CONFIGS) {
		ok = dnn_good(d->g->dnn.desc_new(DNN_CONFIG, &config[made]), "a configuration", e);
		made += ok;
	}
	ok = ok &&
	    dnn_good(d->g->dnn.get(heur, DNN_HEUR_RESULTS, DNN_T_DESC, MAX_CONFIGS, &have, config),
		"its engines", e);
	for (int64_t i = 0; ok && i < MIN_OF(have, (int64_t)MAX_CONFIGS) && *n < max; i++)
		if (take_config(d, op, config[i], max_workspace, &out[*n]) && is_new(out, *n))
			++*n;
	while (made > 0)
		(void)d->g->dnn.desc_free(config[--made]);
	back_to(d, mark);
	return ok;
}

bool
dnn_list(struct dnn *d, const struct vendor_op *op, uint64_t max_workspace, uint32_t max,
    struct vendor_choice *out, uint32_t *n, struct err *e)
{
	struct err fallback = {0};

	*n = 0;
	if (!dnn_graph(d, op, e))
		return false;
	if (list_mode(d, op, DNN_MODE_A, max_workspace, max, out, n, e) && *n == max)
		return true;
	/* fewer, or a mode that does not know this graph: the engines of last resort as well */
	return list_mode(d, op, DNN_MODE_FALLBACK, max_workspace, max, out, n, &fallback) || *n > 0 ||
	    e->code == ERR_NONE;
}

/* ---- the table ------------------------------------------------------------------------------------ */
static bool
dnn_open_handle(const struct vendor_api *g, void **handle, struct err *e)
{
	return dnn_good(g->dnn.create(handle), "a handle", e);
}

static void
dnn_close_handle(const struct vendor_api *g, void *handle)
{
	(void)g->dnn.destroy(handle);
}

static bool
dnn_version(const struct vendor_api *g, uint32_t *v)
{
	int part[3];

	for (int i = 0; i < 3; i++)
		if (g->dnn.property(i, &part[i]) != 0 || part[i] < 0 || part[i] > 99)
			return false;
	*v = (uint32_t)(part[0] * 10000 + part[1] * 100 + part[2]);
	return true;
}

static bool
list_here(const struct vendor_api *g, void *handle, const struct vendor_op *op, uint64_t max_workspace,
    uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e)
{
	struct dnn d = {.g = g, .handle = handle};
	bool ok = dnn_list(&d, op, max_workspace, max, out, n, e);

	dnn_free(&d);
	return ok;
}

/* A configuration from a choice's words. */
static bool
make_config(struct dnn *d, const struct vendor_choice *c, void **config, struct err *e)
{
	void *engine, *knob[MAX_KNOBS];
	int64_t index = (int64_t)c->word[0], n = 0;

	if (c->n_words % 2 == 0 || c->word[0] > INT32_MAX)
		return err_set(e, ERR_FORMAT, "cuDNN: a choice of %u words", c->n_words);
	if (!dnn_new(d, DNN_ENGINE, &engine, e) ||
	    !dnn_set(d, engine, DNN_ENGINE_GRAPH, DNN_T_DESC, 1, &d->graph, e) ||
	    (!d->handle && !dnn_set(d, engine, DNN_ENGINE_DEVICE, DNN_T_DESC, 1, &d->device, e)) ||
	    !dnn_set(d, engine, DNN_ENGINE_INDEX, DNN_T_I64, 1, &index, e) ||
	    !dnn_end(d, engine, "an engine", e))
		return false;
	for (uint32_t i = 1; i < c->n_words; i += 2, n++) {
		int type = (int)MIN_OF(c->word[i], (uint64_t)INT32_MAX);
		int64_t v = (int64_t)c->word[i + 1];

		if (!dnn_new(d, DNN_CHOICE, &knob[n], e) ||
		    !dnn_set(d, knob[n], DNN_CHOICE_TYPE, DNN_T_KNOB, 1, &type, e) ||
		    !dnn_set(d, knob[n], DNN_CHOICE_VALUE, DNN_T_I64, 1, &v, e) ||
		    !dnn_end(d, knob[n], "a knob", e))
			return false;
	}
	return dnn_new(d, DNN_CONFIG, config, e) &&
	    dnn_set(d, *config, DNN_CONFIG_ENGINE, DNN_T_DESC, 1, &engine, e) &&
	    (n == 0 || dnn_set(d, *config, DNN_CONFIG_KNOBS, DNN_T_DESC, n, knob, e)) &&
	    dnn_end(d, *config, "a configuration", e);
}

bool
dnn_plan(struct dnn *d, const struct vendor_op *op, const struct vendor_choice *c, void **plan,
    uint64_t *workspace, struct err *e)
{
	void *config;

	return dnn_graph(d, op, e) && make_config(d, c, &config, e) &&
	    make_plan(d, config, plan, workspace, e);
}

static void
dnn_close(const struct vendor_api *g, void *call)
{
	struct call *c = call;

	(void)g;
	dnn_free(&c->dnn);
	free(c);
}

static bool
dnn_open(const struct vendor_api *g, void *handle, const struct vendor_op *op,
    const struct vendor_choice *choice, void **call, struct err *e)
{
	struct call *c = heap_alloc(sizeof(*c));
	uint64_t workspace = 0;
	bool ok;

	c->dnn = (struct dnn){.g = g, .handle = handle};
	ok = dnn_plan(&c->dnn, op, choice, &c->plan, &workspace, e);
	if (ok && workspace > choice->workspace)
		ok = err_set(e, ERR_FORMAT,
		    "cuDNN: the plan wants %llu bytes of workspace and was kept with %llu",
		    (unsigned long long)workspace, (unsigned long long)choice->workspace);
	if (ok)
		*call = c;
	else
		dnn_close(g, c);
	return ok;
}

/* The pack of pointers is made anew for each run: a finished one cannot be changed. */
static bool
dnn_run(const struct vendor_api *g, void *handle, void *call, void *const *buf, void *workspace, void *stream,
    struct err *e)
{
	struct call *c = call;
	struct dnn *d = &c->dnn;
	uint32_t mark = d->n_descs;
	void *pointer[DNN_MAX_REAL], *pack;
	bool ok;

	for (uint32_t i = 0; i < d->n_real; i++)
		pointer[i] = buf[d->buf[i]];
	ok = dnn_good(g->dnn.stream(handle, stream), "a stream", e) && dnn_new(d, DNN_PACK, &pack, e) &&
	    dnn_set(d, pack, DNN_PACK_IDS, DNN_T_I64, d->n_real, d->id, e) &&
	    dnn_set(d, pack, DNN_PACK_POINTERS, DNN_T_POINTER, d->n_real, pointer, e) &&
	    dnn_set(d, pack, DNN_PACK_WORKSPACE, DNN_T_POINTER, 1, &workspace, e) &&
	    dnn_end(d, pack, "the pointers", e) &&
	    dnn_good(g->dnn.run(handle, c->plan, pack), "a convolution", e);
	back_to(d, mark);
	return ok;
}

const struct vendor_table vendor_cudnn = {.open_handle = dnn_open_handle,
    .close_handle = dnn_close_handle,
    .version = dnn_version,
    .list = list_here,
    .open = dnn_open,
    .run = dnn_run,
    .close = dnn_close};
