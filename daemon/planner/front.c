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

bool
front_read(struct arena *a, struct bytes onnx, const struct front_opts *o, struct model *out, struct err *e)
{
	if (!model_read(a, onnx, o->file, o->dir, &model_limits_default, out, e))
		return false;
	for (uint32_t i = 0; i < o->n_shapes; i++)
		if (!model_bind(out, o->shapes[i], e))
			return false;
	for (uint32_t i = 0; i < o->n_values; i++)
		if (!model_set(out, &o->values[i], e))
			return false;
	return true;
}

bool
front_run(struct arena *a, struct bytes onnx, const struct front_opts *o, struct front *out, struct err *e)
{
	struct rewrite_opts ro = rewriting_for(o);

	*out = (struct front){.limits = identify_limits_default, .mode = o->mode};
	out->limits.max_beside = o->side_by_side ? IDENTIFY_BESIDE : 0;
	if (!front_read(a, onnx, o, &out->model, e) ||
	    !fission_run(a, &out->model, &out->primitive, &out->fission, e))
		return false;
	if (!rewrite_run(a, &out->primitive, &ro, &out->graph, &out->rewrite, e))
		return err_in(e, "rewriting");
	if (!identify_run(a, &out->graph, o->mode, &out->limits, &out->cands, e))
		return err_in(e, "identification");
	return true;
}
