/* tests/opt_orchestrate.c: the binary program from its text form. */
#include "opt.h"
#include "../daemon/orchestrate/blp.h"

#include <math.h>

static bool
arg_number(const struct opt_call *c, const char *name, int64_t *out, struct err *e)
{
	*out = 0;
	return str_to_i64(str_of(opt_arg(c, name, "0")), out) ||
	    err_set(e, ERR_USAGE, "--%s wants a number", name);
}

/* Solves, checks order and bound without the solver's code, prints the plan. */
bool
opt_orchestrate(struct opt_call *c, struct err *e)
{
	struct blp p;
	struct blp_result r;
	struct blp_limits lim = {0};
	int64_t states, width, rounds;
	double bound;

	if (!arg_number(c, "states", &states, e) || !arg_number(c, "width", &width, e) ||
	    !arg_number(c, "rounds", &rounds, e) || !blp_read(c->a, c->text, &p, e))
		return false;
	lim.max_states = (uint64_t)states;
	lim.beam_width = (uint32_t)width;
	lim.max_rounds = (uint32_t)rounds;
	if (!blp_solve(c->a, &p, NULL, 0, &lim, &r, e) || !blp_check_order(&p, r.chosen, r.n_chosen, e) ||
	    !blp_check_bound(&p, r.rows, r.n_rows, &bound, e))
		return false;
	if (bound < r.pi || bound > r.pi)
		return err_set(e, ERR_WRONG, "the duals prove %.6f, not %.6f", bound, r.pi);
	sb_addf(c->out, "kernels %u of %u\nplan", r.n_chosen, p.n_kernels);
	for (uint32_t i = 0; i < r.n_chosen; i++)
		sb_addf(c->out, " %u", r.chosen[i]);
	sb_addf(
	    c->out, "\nduals prove %.3f\ncost %lld bound %lld ", r.pi, (long long)r.cost, (long long)r.bound);
	if (r.proved)
		sb_addz(c->out, "proved\n");
	else
		sb_addf(c->out, "gap %.6f\n", (double)(r.cost - r.bound) / (double)r.cost);
	return true;
}
