/* client/step_table.c: see step_table.h. */
#include "step_table.h"
#include "plan_why.h"

#include <stdio.h>
#include <stdlib.h>

struct step_line *
step_lines(struct arena *a, const struct plan *p, const int64_t *ns)
{
	struct step_line *lines = NEW_ARRAY(a, struct step_line, p->n_steps);
	double total = 0;

	for (uint32_t i = 0; i < p->n_steps; i++)
		total += (double)ns[i];
	for (uint32_t i = 0; i < p->n_steps; i++)
		lines[i] = (struct step_line){
		    .step = i, .ns = ns[i], .share = total > 0 ? (double)ns[i] / total : 0};
	return lines;
}

static int
by_time(const void *px, const void *py)
{
	const struct step_line *x = px, *y = py;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->step > y->step) - (x->step < y->step);
}

uint32_t
step_lines_top(struct step_line *lines, uint32_t n, int64_t top)
{
	if (top <= 0)
		return n;
	qsort(lines, n, sizeof(*lines), by_time);
	return (uint32_t)MIN_OF(top, (int64_t)n);
}

static void
print_line(const struct plan *p, const struct step_line *l)
{
	const struct plan_kernel *k = &p->kernels[p->steps[l->step].kernel];
	double us = (double)l->ns / 1e3;
	struct str heat = why_heat(p, p->steps[l->step].kernel);
	char hex[65], schedule[SCHEDULE_SHOWN];

	why_kernel_hex(k, hex);
	(void)printf("%4u %.*s %10.*f%c %5.1f%% %5.0f%% %9.2f %9.1f %8.2f  %-4.*s  %-24s %.*s\n", l->step,
	    WHY_DIGITS, hex, us < 10 ? 3 : 1, us, l->is_guess ? '?' : ' ', 100 * l->share,
	    l->ns ? 100 * (double)k->bound_ns / (double)l->ns : 0, (double)k->flops / 1e6,
	    (double)k->bytes / 1024, l->ns ? (double)k->flops / (double)l->ns : 0, STR_ARG(heat),
	    schedule_shown(schedule, k->schedule), STR_ARG(p->steps[l->step].nodes));
}

void
step_table_print(const struct plan *p, const struct step_line *lines, uint32_t n)
{
	double rest = 1;

	(void)printf("%4s %-*s %10s  %6s %6s %9s %9s %8s  %-4s  %-24s %s\n", "step", WHY_DIGITS, "kernel",
	    "us", "share", "bound", "MFLOP", "KiB", "GFLOP/s", "heat", "schedule", "ONNX nodes");
	for (uint32_t i = 0; i < n; i++) {
		print_line(p, &lines[i]);
		rest -= lines[i].share;
	}
	if (n < p->n_steps)
		(void)printf(
		    "%4s %u more, %.1f%% of the time\n", "", p->n_steps - n, 100 * MAX_OF(rest, 0.0));
	(void)printf("heat: of each operand, then of each result, as the kernel was timed: h in the core's "
		     "own cache, n in "
		     "the last cache, c from beyond; -: all c\n"
		     "bound: the least that a kernel takes with its operands there\n");
}
