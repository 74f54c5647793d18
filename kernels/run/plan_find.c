/* kernels/run/plan_find.c: what a plan says of one of its kernels. */
#include "plan.h"

struct str
plan_heat(const struct plan *p, uint32_t kernel)
{
	for (uint32_t i = 0; i < p->n_heats; i++)
		if (p->heats[i].kernel == kernel)
			return p->heats[i].word;
	return STR("");
}
