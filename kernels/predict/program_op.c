/* kernels/predict/program_op.c: what an expression does, by classes of operations. */
#include "program_int.h"

#include <string.h>

struct counting {
	const struct tx *x;
	struct arena tmp;
	struct bitset seen; /* expressions that are counted */
	double *op;
};

/* What the generator's prelude leaves to the C library: no compiler makes vectors of it. */
static bool
is_call(enum prim p)
{
	switch ((int)p) {
	case PRIM_sin:
	case PRIM_cos:
	case PRIM_tan:
	case PRIM_asin:
	case PRIM_acos:
	case PRIM_atan:
	case PRIM_sinh:
	case PRIM_cosh:
	case PRIM_asinh:
	case PRIM_acosh:
	case PRIM_atanh:
	case PRIM_fmod:
		return true;
	}
	return false;
}

static enum leaf_op
op_of(enum prim p)
{
	int flops = prim_info[p].flops;

	if (is_call(p))
		return OP_CALL;
	return flops <= 1 ? OP_CHEAP : flops <= 8 ? OP_SOME : OP_DEAR;
}

/* Expressions are hash-consed: a part that stands in two places is computed once. */
static void
count(struct counting *c, ex_id id)
{
	const struct ex e = *ex_get(c->x, id);

	if (id >= c->seen.n_bits) {
		struct bitset more = bitset_make(&c->tmp, MAX_OF(2 * c->seen.n_bits, id + 64));

		if (c->seen.n_bits)
			memcpy(more.w, c->seen.w, bitset_words(&c->seen) * sizeof(more.w[0]));
		c->seen = more;
	}
	if (bit_get(&c->seen, id))
		return;
	bit_set(&c->seen, id);
	if (e.kind == EX_MAP)
		c->op[op_of(e.prim)]++;
	else if (e.kind == EX_GUARD)
		c->op[OP_GUARD]++;
	for (uint32_t i = 0; i < e.n_arg; i++)
		count(c, e.arg[i]);
}

static void
take_index(void *self, ix_id i)
{
	struct counting *c = self;
	enum ix_kind kind = ix_get(c->x, i)->kind;

	c->op[OP_INDEX] += kind == IX_DIV || kind == IX_MOD || kind == IX_VALUE;
}

void
program_count(const struct tx *x, ex_id e, double op[OP_COUNT])
{
	struct counting c = {.x = x, .op = op};

	count(&c, e);
	ex_indices(x, e, take_index, &c);
	arena_fini(&c.tmp);
}
