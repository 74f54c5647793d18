/* daemon/planner/front.c: the pure half of a job on one screen. */
#include "front.h"

/* The baselines share layout, emitter and schedules with `full` and differ in one thing only,
 * which primitives stand in one kernel: so they get the normalised graph, without the
 * alternatives that only fusion can use. */
static struct rewrite_opts
rewriting_for(const struct front_opts *o)
{
	enum numeric worst = NUM_PRECISION;

	if (o->strict)
		worst = NUM_EXACT;
	else if (o->tolerance == 0)
		worst = NUM_REASSOC;
	return (struct rewrite_opts){
	    .normalize = true,
	    .alternatives = o->mode == IDENTIFY_FULL,
	    .only_form = o->only_form,
	    .worst = worst,
	    .max_nodes = 100000,
	};
}

/* ---- what --dump writes ---------------------------------------------------------------- */
static const char *
rewrite_args(struct arena *a, const struct rewrite_opts *o)
{
	static const char *const worst[] = {
	    [NUM_EXACT] = "exact", [NUM_REASSOC] = "reassoc", [NUM_PRECISION] = "precision"};

	return arena_printf(a, "--dump --worst=%s %s%s", worst[o->worst],
	    o->alternatives ? "--alternatives " : "", o->only_form ? "--only-form " : "");
}

static const char *
identify_args(struct arena *a, const struct front_opts *o)
{
	static const char *const mode[] = {
	    [IDENTIFY_FULL] = "full", [IDENTIFY_OPERATOR] = "operator", [IDENTIFY_NONE] = "none"};

	return arena_printf(a, "--dump --mode=%s ", mode[o->mode]);
}

static bool
dump_model(const struct front_opts *o, const struct front *f, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	model_text_print(&sb, &f->model);
	ok = dump_put(o->dump, STAGE_model, "--dump ", sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

/* stats: of rewriting; NULL before it. */
static bool
dump_graph(const struct front_opts *o, enum job_stage s, const char *args, const struct graph *g,
    const struct rewrite_stats *stats, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	graph_print_dump(&sb, g);
	if (stats)
		rewrite_print_stats(&sb, stats);
	ok = dump_put(o->dump, s, args, sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

static bool
dump_candidates(const struct front_opts *o, const struct front *f, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb, specs;
	bool ok;

	sb_init(&sb, &tmp);
	sb_init(&specs, &tmp);
	cand_set_print(&sb, &f->graph, &f->cands);
	cand_specs_print(&specs, &f->cands);
	ok = dump_put(o->dump, STAGE_candidates, "--graph=rewrite.txt ", sb_str(&sb), e) &&
	    dump_put(o->dump, STAGE_specs, "--only=0 ", sb_str(&specs), e);
	arena_fini(&tmp);
	return ok;
}

bool
front_read(struct arena *a, struct bytes onnx, const struct front_opts *o, struct front *out, struct err *e)
{
	struct model *m = &out->model;

	if (!model_read(a, onnx, o->file, o->dir, &model_limits_default, m, e))
		return false;
	for (uint32_t i = 0; i < o->n_shapes; i++)
		if (!model_bind(m, o->shapes[i], e))
			return false;
	for (uint32_t i = 0; i < o->n_values; i++)
		if (!model_set(m, &o->values[i], e))
			return false;
	if (o->open_extent > 0)
		out->n_assumed = model_assume(m, o->open_extent, &out->assumed);
	return true;
}

bool
front_run(struct arena *a, struct bytes onnx, const struct front_opts *o, struct front *out, struct err *e)
{
	struct rewrite_opts ro = rewriting_for(o);

	*out = (struct front){.limits = identify_limits_default, .mode = o->mode};
	if (!front_read(a, onnx, o, out, e))
		return false;
	if (dump_wants(o->dump, STAGE_model) && !dump_model(o, out, e))
		return false;
	if (!fission_run(a, &out->model, &out->primitive, &out->fission, e))
		return false;
	if (dump_wants(o->dump, STAGE_fission) &&
	    !dump_graph(o, STAGE_fission, rewrite_args(a, &ro), &out->primitive, NULL, e))
		return false;
	if (!rewrite_run(a, &out->primitive, &ro, &out->graph, &out->rewrite, e))
		return err_in(e, "rewriting");
	if (dump_wants(o->dump, STAGE_rewrite) &&
	    !dump_graph(o, STAGE_rewrite, identify_args(a, o), &out->graph, &out->rewrite, e))
		return false;
	if (!identify_run(a, &out->graph, o->mode, &out->limits, &out->cands, e))
		return err_in(e, "identification");
	return (!dump_wants(o->dump, STAGE_candidates) && !dump_wants(o->dump, STAGE_specs)) ||
	    dump_candidates(o, out, e);
}
