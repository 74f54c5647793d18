/* kernels/schedule/rule_digits.c: a loop over two dimensions of what it reads at once is two loops, so that
 * what is joined there has borders of rows and columns, not of numbers of points:
 *
 *   for p in 0..1024                            for p.o in 0..32
 *     .. %4[p div 32, p mod 32] ..      ->        for p.i in 0..32
 *                                                   .. %4[p.o, p.i] .. */
#include "rule_int.h"

/* By what an index divides the axis, where that leaves nothing over; 0: by nothing. */
static int64_t
divisor_of(const struct tir *p, ix_id i, axis_id a)
{
	const struct ix n = *ix_get(p->tx, i);
	const int64_t extent = tx_axis_get(p->tx, a)->hi + 1;
	int64_t c = 0;

	if ((n.kind == IX_DIV || n.kind == IX_MOD) && ix_is_axis(p->tx, n.a, &(axis_id){0}) &&
	    ix_has(p->tx, n.a, a) && extent % n.c == 0)
		return n.c;
	for (uint32_t k = 0; n.kind == IX_LIN && k < n.n_terms && c == 0; k++)
		c = divisor_of(p, n.terms[k].atom, a);
	return c;
}

int64_t
place_divisor(const struct tir *p, ixv_id place, axis_id a)
{
	const struct ixv at = ixv_get(p->tx, place);
	int64_t c = 0;

	for (uint32_t d = 0; d < at.n && c == 0; d++)
		c = divisor_of(p, at.i[d], a);
	return c > 1 ? c : 0;
}

/* By what the block divides the iterator where it reads what others join; 0: by nothing. */
static int64_t
divides(const struct tir *p, const struct tir_block *b, axis_id a)
{
	for (blk_id made = 0; made < p->n_blk; made++) {
		uint32_t n;
		const ixv_id *at;

		if (!blk_reduces(p, made))
			continue;
		at = blk_places_read(p, b, p->blk[made].out[0], &n);
		for (uint32_t k = 0; k < n; k++)
			if (place_divisor(p, at[k], a))
				return place_divisor(p, at[k], a);
	}
	return 0;
}

void
rule_digits(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk && !joins_rows_only(&q->p); b++) {
		const struct tir_block blk = q->p.blk[b];

		if (!blk_stands(&q->p, b) || blk.comb != COMB_NONE)
			continue;
		for (uint32_t k = 0; k < blk.n_iter; k++) {
			const struct tir_iter it = q->p.iter[blk.iter0 + k];
			const int64_t c = divides(&q->p, &blk, it.id);

			if (c)
				(void)propose(q, "split %s.%s %lld", blk.name, it.name, (long long)c);
		}
	}
}
