/* kernels/schedule/rule_blocks.c: what joins a large plane into few results has no loop over these that
 * threads could share.  It is joined in blocks first, which are a pass's range, and the blocks' results
 * behind it:
 *
 *   for c, for y in 0..224, for x                for y.o in 0..32
 *     %1[c] sum= %0[y, x, c]             ->        for c, for y.i in 0..7, for x
 *                                                    %1'p[c, y.o] sum= %0[7*y.o + y.i, x, c]
 *                                                for c, for y.o: %1[c] sum= %1'p[c, y.o]
 */
#include "rule_int.h"

#include <string.h>

enum { LEAST_POINTS = 1 << 16, FEW_RANGE = 16, LEAST_BLOCKS = 8, MOST_BLOCKS = 32 };

/* As many blocks as leave nothing over; 0: there are none such. */
static int64_t
blocks_of(int64_t trips)
{
	for (int64_t n = MOST_BLOCKS; n >= LEAST_BLOCKS; n--)
		if (trips % n == 0)
			return n;
	return 0;
}

/* The outermost loop over elements; UINT32_MAX: none, or results enough before it, which are no few. */
static uint32_t
loop_to_split(const struct tir *p, blk_id b, const struct nest *nest)
{
	const st_id at = blk_instance(p, b);
	int64_t range = 1;

	for (uint32_t k = 0; k < nest->n; k++) {
		const st_id loop = tir_find_loop(p, str_of(nest->loop[k].name));
		const bool counts = binds_kind(p, &p->st[at], nest->loop[k].axis, ITER_REDUCE);

		if (counts && blocks_of(loop_trips(p, loop)) > 0)
			return k;
		if (!counts && loop_along_memory(p, b) != loop)
			range *= MIN_OF(loop_trips(p, loop), (int64_t)FEW_RANGE);
		if (range >= FEW_RANGE)
			return UINT32_MAX;
	}
	return UINT32_MAX;
}

static void
look_at(struct proposing *q, blk_id b)
{
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	struct nest *nest = NEW(q->p.arena, struct nest);
	const char *loop;
	struct strbuf others;
	uint32_t k;
	int64_t trips;

	if (!blk_joins_rows(&q->p, b) || tx_is_strict(q->p.tx) || blk_points(&q->p, b) < LEAST_POINTS ||
	    !find_nest_of(&q->p, b, nest) || !nest->is_whole || nest->n >= STEP_NAMES)
		return;
	k = loop_to_split(&q->p, b, nest);
	if (k == UINT32_MAX)
		return;
	loop = nest->loop[k].name;
	trips = loop_trips(&q->p, tir_find_loop(&q->p, str_of(loop)));
	sb_init(&others, q->p.arena);
	for (uint32_t i = 0; i < k; i++)
		sb_addf(&others, " %s", nest->loop[i].name);
	if (propose(q, "split %s %lld", loop, (long long)(trips / blocks_of(trips))) &&
	    (k == 0 || propose(q, "reorder %s.o%.*s", loop, STR_ARG(sb_str(&others)))) &&
	    propose(q, "rfactor %s.o", loop))
		return;
	take_back(q, &was, n);
}

void
rule_blocks(struct proposing *q)
{
	const uint32_t n_blk = q->p.n_blk; /* rfactor adds blocks */

	for (blk_id b = 0; b < n_blk && joins_rows_only(&q->p); b++)
		look_at(q, b);
}
