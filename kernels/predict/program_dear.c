/* kernels/predict/program_dear.c: exponentials and divisions that each element needs at least, as calibration
 * times them, in the text of a map (kernels/generate/prelude_c.inc).
 *
 *   c < 8 ? a[c] * sigmoid(a[c]) : b[c - 8] * sigmoid(b[c - 8])     one of each
 *   0 <= i < 56 ? sigmoid(a[i]) : 0                                 none: a border may be anything
 */
#include "program_int.h"

struct dear {
	double exps, divs;
};
struct looking {
	const struct tx *x;
	struct bitset seen; /* hash-consed: each part counts once */
	bool (*moves)(void *self, const struct ex *from);
	void *self;
};

/* Is some of what it is computed from, elements or what a let has named, another in each turn? */
static bool
any_moves(struct looking *k, struct bitset *seen, ex_id id)
{
	const struct ex e = *ex_get(k->x, id);
	bool any;

	if (bit_get(seen, id))
		return false;
	bit_set(seen, id);
	any = (e.kind == EX_READ || e.kind == EX_VAR) && k->moves(k->self, &e);
	for (uint32_t i = 0; i < e.n_arg && !any; i++)
		any = any_moves(k, seen, e.arg[i]);
	return any;
}

bool
program_moves(const struct tx *x, ex_id e, bool (*moves)(void *self, const struct ex *from), void *self)
{
	struct arena tmp = {0};
	struct looking k = {.x = x, .moves = moves, .self = self};
	struct bitset seen = bitset_make(&tmp, e + 1); /* parts stand before */
	bool any = any_moves(&k, &seen, e);

	arena_fini(&tmp);
	return any;
}

/* What is computed of values that stay may be computed less often. */
static struct dear
of_map(struct looking *k, ex_id id, enum prim p)
{
	bool exps = p == PRIM_exp || p == PRIM_sigmoid,
	     divs = p == PRIM_sigmoid || p == PRIM_recip || p == PRIM_erf,
	     any = (exps || divs) && program_moves(k->x, id, k->moves, k->self);

	return (struct dear){exps && any, divs && any};
}

/* What both arms of a choice share counts as the first one's, and so for none. */
static struct dear
look(struct looking *k, ex_id id)
{
	const struct ex e = *ex_get(k->x, id);
	struct dear all = {0}, arm[COUNT_OF(e.arg)];

	if (bit_get(&k->seen, id))
		return all;
	bit_set(&k->seen, id);
	if (e.kind == EX_MAP)
		all = of_map(k, id, e.prim);
	for (uint32_t i = 0; i < e.n_arg; i++)
		arm[i] = look(k, e.arg[i]);
	if (e.kind == EX_GUARD)
		return (struct dear){MIN_OF(arm[0].exps, arm[1].exps), MIN_OF(arm[0].divs, arm[1].divs)};
	for (uint32_t i = 0; i < e.n_arg; i++) {
		all.exps += arm[i].exps;
		all.divs += arm[i].divs;
	}
	return all;
}

void
program_dear(const struct tx *x, ex_id e, bool (*moves)(void *self, const struct ex *from), void *self,
    struct program_leaf *l)
{
	struct arena tmp = {0};
	struct looking k = {
	    .x = x, .seen = bitset_make(&tmp, e + 1) /* parts stand before */, .moves = moves, .self = self};
	struct dear d = look(&k, e);

	l->exps += d.exps;
	l->divs += d.divs;
	arena_fini(&tmp);
}
