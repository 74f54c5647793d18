/* kernels/schedule/rule_points.c: on a GPU, a nest over points: all its loops over places as one, in blocks
 * of threads, so that neighbouring threads touch neighbouring elements of what is stored. */
#include "rule_int.h"

/* The loops over places stand outermost, carried orders and elements inside of them. */
static void
sort_loops(struct proposing *q, blk_id b)
{
	struct strbuf was, now;
	struct nest n;

	if (!find_nest_of(&q->p, b, &n))
		return;
	sb_init(&was, q->p.arena);
	sb_init(&now, q->p.arena);
	for (int places = 1; places >= 0; places--)
		for (uint32_t k = 0; k < n.n; k++) {
			const char *name = n.loop[k].name;

			if (loop_counts_places(&q->p, tir_find_loop(&q->p, str_of(name))) == places)
				sb_addf(&now, " %s", name);
			if (places)
				sb_addf(&was, " %s", name);
		}
	if (!str_eq(sb_str(&was), sb_str(&now)))
		(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&now)));
}

/* A loop and its only children as far as all count places: as one; its name. */
static const char *
fuse_places(struct proposing *q, const char *name)
{
	for (;;) {
		const st_id i = tir_find_loop(&q->p, str_of(name)), in = i + 1;

		if (in == q->p.n_st || q->p.st[in].op != ST_for || q->p.st[in].end != q->p.st[i].end ||
		    !loop_counts_places(&q->p, in) || !propose(q, "fuse %s %s", name, q->p.st[in].name))
			return name;
		name = q->p.st[i].name;
	}
}

static void
deal_out(struct proposing *q, const char *name)
{
	const int64_t n = loop_trips(&q->p, tir_find_loop(&q->p, str_of(name))), threads = q->target->threads;

	if (n <= threads) {
		(void)propose(q, "bind %s lane", name);
		return;
	}
	if (!propose(q, "split %s %lld", name, (long long)threads))
		return;
	(void)propose(q, "bind %s.o block", name);
	(void)propose(q, "bind %s.i lane", name);
}

/* (Steps leave the number of nests, so the k-th stays the k-th.) */
void
rule_points(struct proposing *q)
{
	uint32_t n_roots = 0;

	for (st_id i = 0; i < q->p.n_st; i = q->p.st[i].end)
		n_roots++;
	for (uint32_t k = 0; k < n_roots; k++) {
		st_id root = 0, at;

		for (uint32_t n = 0; n < k; n++)
			root = q->p.st[root].end;
		if (q->p.st[root].op != ST_for || q->p.st[root].bind != BIND_serial)
			continue;
		at = q->p.st[root].end - 1;
		if (q->p.st[at].op == ST_block)
			sort_loops(q, q->p.st[at].ref);
		if (loop_counts_places(&q->p, root))
			deal_out(q, fuse_places(q, q->p.st[root].name));
	}
}
