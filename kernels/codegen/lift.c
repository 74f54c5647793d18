/* kernels/codegen/lift.c: an if that is all of a loop's body, and asks nothing of that loop, stands around
 * it:
 *
 *   for j in 0..8064                            if 0 <= y + k - 1 < 56
 *     if 0 <= y + k - 1 < 56           ->         for j in 0..8064
 *       store %1[j] = min(max(..))                  store %1[j] = min(max(..))
 *
 * gcc 12 does so at -O3 alone; of a store under an if it makes vectors with masks, or none. */
#include "codegen_int.h"

enum { MOST_GUARDS = 8 };

/* The if's guards that the loop changes (or that it does not). */
static uint32_t
guards_of(const struct tir *p, st_id test, axis_id loop, bool changed, struct tir_guard *out)
{
	const struct st *s = &p->st[test];
	uint32_t n = 0;

	for (uint32_t k = 0; k < s->n_guard; k++)
		if (ix_has(p->tx, p->guard[s->guard0 + k].i, loop) == changed)
			out[n++] = p->guard[s->guard0 + k];
	return n;
}

static void
add_if(struct tir *out, uint32_t n, const struct tir_guard *guard)
{
	struct st test = {.op = ST_if};

	tir_guards(out, &test, n, guard);
	tir_add(out, test);
}

static bool
lift(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *loop = &p->st[i], *test = loop + 1;
	struct tir_guard outer[MOST_GUARDS], inner[MOST_GUARDS];
	uint32_t n_outer, n_inner;

	if (loop->op != ST_for || (loop->bind != BIND_serial && loop->bind != BIND_vector) ||
	    i + 1 >= loop->end || test->op != ST_if || test->end != loop->end || test->n_guard > MOST_GUARDS)
		return false;
	n_outer = guards_of(p, i + 1, loop->axis, false, outer);
	n_inner = guards_of(p, i + 1, loop->axis, true, inner);
	if (!n_outer)
		return false;
	*(bool *)self = true;
	add_if(out, n_outer, outer);
	tir_add(out, *loop);
	if (n_inner)
		add_if(out, n_inner, inner);
	for (st_id k = i + 2; k < loop->end; k = p->st[k].end)
		tir_copy(out, p, k, NULL);
	if (n_inner)
		tir_close(out);
	tir_close(out);
	tir_close(out);
	return true;
}

void
codegen_lift(const struct tir *p, struct tir *out)
{
	rewrite_all(out, p, lift);
}
