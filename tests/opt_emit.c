/* tests/opt_emit.c: the space of schedules and the generator over a graph taken as one kernel spec. */
#include "opt.h"
#include "../kernels/generate/generate.h"
#include "../kernels/space/sched.h"
#include "harness/cuda_conflicts.h"

static bool
target_of(const struct opt_call *c, struct target *out, struct err *e)
{
	if (!target_read(str_of(opt_arg(c, "--target", "avx2")), out, e))
		return false;
	out->strict |= opt_arg(c, "--strict", NULL) != NULL;
	out->winograd |= opt_arg(c, "--winograd", NULL) != NULL;
	return true;
}

bool
opt_loops(struct opt_call *c, struct err *e)
{
	struct target t;
	struct spec s;

	return target_of(c, &t, e) && opt_read_spec(c, &s, e) &&
	    space_print(c->out, &s, str_of(opt_arg(c, "--schedule", "")), &t, e);
}

bool
opt_emit(struct opt_call *c, struct err *e)
{
	struct target t;
	struct kernel_code k;
	struct spec s;

	struct str schedule = str_of(opt_arg(c, "--schedule", ""));
	const char *symbol = opt_arg(c, "--symbol", "k");

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	if (!generate_kernel(c->a, &s, schedule, &t, symbol, &k, e))
		return false;
	kernel_code_print(c->out, &k, &t);
	return true;
}

bool
opt_conflicts(struct opt_call *c, struct err *e)
{
	struct conflict *rows = NEW_ARRAY(c->a, struct conflict, CONFLICT_ROWS);
	struct kernel_code *k = NEW(c->a, struct kernel_code);
	struct target t;
	struct spec s;
	uint32_t n;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	if (!t.is_cuda)
		return err_set(
		    e, ERR_USAGE, "--target: bank conflicts are of cuda kernels: --target=cuda,sm=80");
	if (!generate_kernel(c->a, &s, str_of(opt_arg(c, "--schedule", "")), &t, "k", k, e) ||
	    !cuda_conflicts(c->a, &s, k, rows, &n, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "pass %u %s %s %.2f\n", rows[i].pass, rows[i].array,
		    conflict_kind(rows[i].kind), rows[i].turns / rows[i].ideal);
	return true;
}

bool
opt_space(struct opt_call *c, struct err *e)
{
	struct target t;
	struct str *list;
	struct spec s;
	uint32_t n;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	space_list(c->a, &s, &t, 32, text_outcome, &list, &n);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "\"%.*s\"\n", STR_ARG(list[i]));
	return true;
}
