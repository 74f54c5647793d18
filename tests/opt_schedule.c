/* tests/opt_schedule.c: loop programs: made of a graph taken as one kernel, or read as text. */
#include "opt.h"
#include "../kernels/schedule/schedule.h"

/* The text is a loop program, or a graph, which is lowered (--strict: sums in double). */
static bool
read_program(struct opt_call *c, struct tir *p, struct err *e)
{
	struct spec *s = NEW(c->a, struct spec);

	if (str_starts(c->text, "tir "))
		return tir_read(p, c->a, c->text, e);
	if (!opt_read_spec(c, s, e))
		return false;
	schedule_lower(c->a, s, opt_arg(c, "--strict", NULL) != NULL, p);
	return true;
}

static bool
print_verified(struct opt_call *c, const struct tir *p, struct err *e)
{
	tir_print(c->out, p);
	return tir_verify(p, e);
}

bool
opt_lower(struct opt_call *c, struct err *e)
{
	struct tir p;

	return read_program(c, &p, e) && print_verified(c, &p, e);
}

bool
opt_flat(struct opt_call *c, struct err *e)
{
	struct tir p, flat;

	if (!read_program(c, &p, e) || !tir_verify(&p, e))
		return false;
	if (p.level == TIR_FLAT)
		return err_set(e, ERR_USAGE, "the program is flat");
	schedule_flat(&p, &flat);
	return print_verified(c, &flat, e);
}

bool
opt_apply(struct opt_call *c, struct err *e)
{
	struct tir p, q, flat;

	if (!read_program(c, &p, e) || !tir_verify(&p, e) ||
	    !trace_apply(&p, str_of(opt_arg(c, "--trace", "")), &q, e))
		return false;
	if (!opt_arg(c, "--flat", NULL))
		return print_verified(c, &q, e);
	schedule_flat(&q, &flat);
	return print_verified(c, &flat, e);
}
