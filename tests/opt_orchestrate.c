/* tests/opt_orchestrate.c: the binary program from its text form. */
#include "opt.h"
#include "../daemon/orchestrate/blp.h"
#include "../daemon/plan/choice_check.h"

#include <math.h>

static bool
arg_number(const struct opt_call *c, const char *name, int64_t *out, struct err *e)
{
	*out = 0;
	return str_to_i64(str_of(opt_arg(c, name, "0")), out) ||
	    err_set(e, ERR_USAGE, "%s wants a number", name);
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

	if (!arg_number(c, "--states", &states, e) || !arg_number(c, "--width", &width, e) ||
	    !arg_number(c, "--rounds", &rounds, e) || !blp_read(c->a, c->text, &p, e))
		return false;
	lim.max_states = (uint64_t)states;
	lim.beam_width = (uint32_t)width;
	lim.max_rounds = (uint32_t)rounds;
	if (!blp_solver_read(str_of(opt_arg(c, "--solver", "")), &lim.solver, e))
		return false;
	if (!blp_solve(c->a, &p, NULL, 0, &lim, &r, e) || !blp_check_order(&p, r.chosen, r.n_chosen, e) ||
	    !blp_check_bound(&p, r.rows, r.n_rows, &bound, e))
		return false;
	if (bound < r.pi || bound > r.pi)
		return err_set(e, ERR_WRONG, "the duals prove %.6f, not %.6f", bound, r.pi);
	choice_print(c->out, &p, &r);
	return true;
}

/* Can it run in that order, does it cost what it says, and is its bound no more than that? */
bool
opt_choice(struct opt_call *c, struct err *e)
{
	struct str program;
	struct blp p;
	struct blp_result r;
	int64_t cost = 0;

	if (!opt_file(c, "--program", &program, e) || !blp_read(c->a, program, &p, e) ||
	    !choice_read(c->a, c->text, &p, &r, e) || !blp_check_order(&p, r.chosen, r.n_chosen, e))
		return false;
	for (uint32_t i = 0; i < r.n_chosen; i++) {
		if (p.kernels[r.chosen[i]].cost == BLP_NEVER)
			return err_set(e, ERR_WRONG, "kernel %u must not be chosen", r.chosen[i]);
		cost += p.kernels[r.chosen[i]].cost;
	}
	if (cost != r.cost || r.bound > r.cost)
		return err_set(e, ERR_WRONG, "its kernels cost %lld, it says %lld (bound %lld)",
		    (long long)cost, (long long)r.cost, (long long)r.bound);
	choice_print(c->out, &p, &r);
	return true;
}
