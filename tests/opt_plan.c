/* tests/opt_plan.c: a plan as text, or a plan file. */
#include "opt.h"
#include "../schema/plan_file.h"

bool
opt_plan(struct opt_call *c, struct err *e)
{
	struct plan p;

	if (str_starts(c->text, "SQLite format 3") ? !plan_load(c->a, c->file, &p, NULL, e)
						   : !plan_text_read(c->a, c->text, &p, e))
		return false;
	return plan_text_print(c->out, &p, e);
}
