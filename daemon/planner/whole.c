/* daemon/planner/whole.c: sums of kernels beside whole plans.  What was timed whole on such devices, by as
 * many threads, comes with the end of the job before (result_cache.c); what this job has timed goes back with
 * `done`. */
#include "whole.h"

#include "../../kernels/base/clock_ratio.h"
#include "../../kernels/cost/whole.h"
#include "expect.h"

#include <math.h>

static int64_t
expected_of(const struct tune *t, const struct spec_cost *c)
{
	return cost_is_known(c) ? c->measured_ns : expect_ns(t, c, 0);
}

static void
add_bytes(uint64_t bytes[HEAT_HOT + 1], const struct spec *s, struct str word)
{
	const struct graph *g = &s->g;

	for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
		tensor_id id = i < g->n_inputs ? g->inputs[i] : g->outputs[i - g->n_inputs];
		const struct tensor *x = graph_tensor(g, id);
		size_t n;

		if (shape_bytes(&x->shape, x->type, &n))
			bytes[heat_at(word, i)] += n;
	}
}

/* Of a plan's kernels; *guessed_ns: of their sum, by kernels that were never measured. */
static void
look_at(const struct tune *t, const uint32_t *chosen, uint32_t n, struct m_whole *out, int64_t *guessed_ns)
{
	uint64_t bytes[HEAT_HOT + 1] = {0};

	*out = (struct m_whole){.model = t->model_digest};
	*guessed_ns = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = t->program.spec_of[chosen[i]];
		const struct spec_cost *c = &t->cost[s];

		if (cand_is_view(&t->front.cands, s))
			continue;
		out->kernels++;
		out->sum_ns += expected_of(t, c);
		*guessed_ns += cost_is_known(c) ? 0 : expected_of(t, c);
		add_bytes(bytes, &t->front.cands.specs[s], c->heat);
	}
	out->hot_bytes = bytes[HEAT_HOT];
	out->near_bytes = bytes[HEAT_NEAR];
	out->cold_bytes = bytes[HEAT_COLD];
}

void
whole_note(struct tune *t, const uint32_t *chosen, uint32_t n, const struct hash *plan,
    const struct m_timing *timing)
{
	struct m_whole w;
	int64_t guessed_ns;

	look_at(t, chosen, n, &w, &guessed_ns);
	if (guessed_ns > 0 || w.sum_ns <= 0 || timing->median_ns <= 0 || t->n_timed == COUNT_OF(t->timed))
		return;
	w.plan = *plan;
	w.measured_ns = timing->median_ns;
	w.clock_ratio = timing->clock_ratio;
	t->timed[t->n_timed++] = w;
}

/* Sums are of calibration's clock, so what they leave out is learned at that. */
static struct whole_row
row_of(const struct m_whole *w)
{
	return (struct whole_row){.plan = {.sum_ns = (double)w->sum_ns,
				      .kernels = (double)w->kernels,
				      .bytes = {[HEAT_COLD] = (double)w->cold_bytes,
					  [HEAT_NEAR] = (double)w->near_bytes,
					  [HEAT_HOT] = (double)w->hot_bytes}},
	    .measured_ns = (double)calibrated_ns(w->measured_ns, w->clock_ratio),
	    .model = w->model};
}

static void
learn(const struct tune *t, struct whole_fit *out)
{
	struct arena tmp = {0};
	struct whole_row *rows = NEW_ARRAY(&tmp, struct whole_row, MAX_OF(t->n_wholes, 1u));

	for (uint32_t i = 0; i < t->n_wholes; i++)
		rows[i] = row_of(&t->wholes[i]);
	whole_learn(rows, t->n_wholes, out);
	arena_fini(&tmp);
}

void
whole_say(struct tune *t)
{
	struct m_progress *p = &t->progress;
	struct whole_fit fit;
	struct whole_row row;
	struct whole_time whole;
	struct m_whole w;
	int64_t guessed_ns;

	look_at(t, t->choice.chosen, t->choice.n_chosen, &w, &guessed_ns);
	if (w.sum_ns <= 0 || p->predicted_ns > 0) /* that is another word for a device that is not here */
		return;
	learn(t, &fit);
	row = row_of(&w);
	/* What is expected of kernels errs for all of them alike. */
	whole = whole_expect(&fit, &row.plan, t->predict.sigma * (double)guessed_ns / (double)w.sum_ns);
	p->expected_ns = whole.ns;
	p->expected_low_ns = whole.low_ns;
	p->expected_high_ns = whole.high_ns;
	p->expected_of = fit.n;
}
