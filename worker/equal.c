/* worker/equal.c: do two kernels give the same bits?  The second is the first with its instructions in
 * another order: it computes the same, or it is wrong.  Inputs are random and adversarial, scratch is
 * poisoned, with other bytes before each run. */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 64, LEAST_SETS = 4, POISON_BASE = 0xff, POISON_OTHER = 0x5a };
/* The first four are run whatever it takes. */
static const enum input_set order[] = {
    SET_NORMAL, SET_SPECIAL, SET_EQUAL, SET_RAMP, SET_LARGE, SET_ZEROS, SET_NEGATIVE, SET_POSITIVE};

static bool
run(const struct equal_ask *q, bool is_other, void *const *operands, struct arena *tmp, struct trial *t,
    struct err *e)
{
	const struct dev_kernel *k = is_other ? q->other : q->base;

	q->before(q->arg, is_other);
	return trial_make(q->spec, operands, q->dev, q->code, tmp, t, e) &&
	    (!q->poison || q->poison(q->dev, is_other ? POISON_OTHER : POISON_BASE, e)) &&
	    trial_run(q->dev, k, t, e) && trial_is_clean(t, e);
}

static bool
same(const struct trial *x, const struct trial *y, const struct spec *s, enum input_set set,
    uint64_t *compared, struct err *e)
{
	for (uint32_t i = x->n_in; i < x->n; i++) {
		const struct tensor *t = graph_tensor(&s->g, s->g.outputs[i - x->n_in]);
		size_t n = x->buf[i].n_bytes, at = 0, size = dtype_size(t->type);
		const unsigned char *a = x->ptr[i], *b = y->ptr[i];

		*compared += (uint64_t)shape_count(&t->shape);
		if (n == 0 || memcmp(a, b, n) == 0)
			continue;
		while (a[at] == b[at])
			at++;
		return err_set(e, ERR_WRONG,
		    "output %u, element %zu is another one than before its instructions were moved (input "
		    "set "
		    "%d)",
		    i - x->n_in, at / MAX_OF(size, (size_t)1), (int)set);
	}
	return true;
}

static bool
one_set(const struct equal_ask *q, enum input_set set, uint64_t seed, uint64_t *compared, bool *is_base,
    struct err *e)
{
	struct arena tmp = {0};
	void **operands = make_operands(&tmp, q->spec);
	struct trial base = {0}, other = {0};
	bool ok;

	fill_operands(q->spec, set, seed, operands);
	ok = run(q, false, operands, &tmp, &base, e);
	*is_base = !ok;
	ok = ok && run(q, true, operands, &tmp, &other, e) && same(&base, &other, q->spec, set, compared, e);
	trial_drop(&base);
	trial_drop(&other);
	arena_fini(&tmp);
	return ok;
}

bool
equal_run(const struct equal_ask *q, uint64_t *compared, bool *is_base, struct err *e)
{
	int64_t from = now_ns();

	*compared = 0;
	*is_base = false;
	for (uint64_t n = 0; n < MOST_ROUNDS * COUNT_OF(order); n++) {
		bool is_late = n >= LEAST_SETS && now_ns() - from >= q->limit_ns;

		if (is_late || (n >= COUNT_OF(order) && *compared >= q->enough))
			return true;
		if (!one_set(
			q, order[n % COUNT_OF(order)], q->seed + n / COUNT_OF(order), compared, is_base, e))
			return false;
	}
	return true;
}
