/* kernels/schedule/split.c: split LOOP N [TAIL]: the loop a becomes a.o over tiles and a.i inside, a = N*o +
 * i; what N leaves over goes as the tail says. */
#include "step_int.h"

enum { MOST_THREADS = 1024 };

struct split {
	const struct tir *p;
	const struct step *s;
	st_id loop;
	int64_t from, extent;
	struct err *e;
};

/* A tile that begins earlier makes points again: each must come out as before. */
static bool
may_repeat(const struct split *t)
{
	if (hands_on(t->p, t->loop))
		return refuse(
		    t->e, t->s, "tail", "a shifted tile would look for rows that are not there any more");
	for (st_id i = t->loop + 1; i < t->p->st[t->loop].end; i++) {
		const struct tir_block *b = &t->p->blk[t->p->st[i].ref];

		if (st_is_gpu_loop(&t->p->st[i]))
			return refuse(
			    t->e, t->s, "tail", "a GPU's threads would make points again without a barrier");
		if (t->p->st[i].op != ST_block)
			continue;
		if (b->comb != COMB_NONE)
			return refuse(t->e, t->s, "tail", "a shifted tile would join elements twice");
		for (uint32_t o = 0; o < b->n_out; o++)
			if (blk_reads_buf(t->p, b, b->out[o]))
				return refuse(
				    t->e, t->s, "tail", "a shifted tile would read what it has replaced");
	}
	return true;
}

static const char *
named(const struct split *t, const struct tir *out, const char *part, const char *suffix)
{
	char *to = arena_printf(t->p->arena, "%s%s%s", t->p->st[t->loop].name, part, suffix);

	while (tir_find_loop(t->p, str_of(to)) != ST_NONE || tir_find_loop(out, str_of(to)) != ST_NONE)
		to = arena_printf(t->p->arena, "%s'", to);
	return to;
}

/* The body over n tiles of `size`, from `start` on; `last`: no tile begins behind it. */
static void
add_tiles(const struct split *t, struct copy *c, int64_t start, int64_t n, int64_t size, int64_t last,
    const char *part)
{
	struct tx *x = t->p->tx;
	const struct st *s = &t->p->st[t->loop];
	ix_id zero = ix_const(x, 0), at = ix_const(x, start);
	uint32_t n_open = 0;

	if (n == 0)
		return;
	if (n > 1) {
		axis_id o = tir_for(c->out, named(t, c->out, part, ".o"), zero, ix_const(x, n), s->bind);

		at = ix_add(x, at, ix_mulc(x, ix_axis(x, o), size));
		at = ix_min(x, at, ix_const(x, last));
		n_open++;
	}
	if (size > 1) {
		axis_id i = tir_for(c->out, named(t, c->out, part, ".i"), zero, ix_const(x, size),
		    n > 1 ? BIND_serial : s->bind);

		at = ix_add(x, at, ix_axis(x, i));
		n_open++;
	}
	c->to[s->axis] = at;
	copy_range(c, t->loop + 1, s->end);
	while (n_open-- > 0)
		tir_close(c->out);
	c->suffix = "'t"; /* of a second copy */
}

static bool
split_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct split *t = self;
	int64_t f = t->s->number[0], n = t->extent / f, rest = t->extent % f, end = t->from + t->extent;
	struct copy c;

	if (i != t->loop)
		return false;
	c = copy_begin(p, out);
	if (rest == 0) {
		add_tiles(t, &c, t->from, n, f, end, "");
	} else if (t->s->tail == TAIL_cut) {
		add_tiles(t, &c, t->from, n, f, end, "");
		add_tiles(t, &c, end - rest, 1, rest, end, ".t");
	} else if (t->s->tail == TAIL_balanced) {
		int64_t parts = n + 1, size = (t->extent + parts - 1) / parts,
			full = t->extent - parts * (size - 1);

		add_tiles(t, &c, t->from, full, size, end, "");
		add_tiles(t, &c, t->from + full * size, parts - full, size - 1, end, ".t");
	} else if (t->s->tail == TAIL_shift) {
		add_tiles(t, &c, t->from, n + 1, f, end - f, "");
	} else {
		c.guard = (struct tir_guard){ix_axis(p->tx, p->st[i].axis), t->from, end};
		add_tiles(t, &c, t->from, n + 1, f, end, "");
	}
	copy_end(&c);
	return true;
}

bool
step_split(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct split t = {.p = p, .s = s, .e = e};

	if (!find_loop(p, s, 0, &t.loop, e))
		return false;
	if (!const_extent(p, &p->st[t.loop], &t.from, &t.extent))
		return refuse(e, s, "extent", "the loop's bounds hang on another loop");
	if (t.extent < 2 || s->number[0] < 2 || s->number[0] == t.extent ||
	    (s->number[0] > t.extent && (s->tail != TAIL_guard || s->number[0] > MOST_THREADS)))
		return refuse(e, s, "factor",
		    "not between one and the loop's extent, with a guard the most threads of a block");
	if (p->st[t.loop].bind >= BIND_pipeline || st_is_gpu_loop(&p->st[t.loop]))
		return refuse(e, s, "binding", "the loop is a pipeline, an instruction, or an axis of a GPU");
	if (s->tail == TAIL_shift && t.extent % s->number[0] && p->st[t.loop].bind != BIND_serial)
		return refuse(e, s, "binding", "a shifted tile would be made by two iterations at a time");
	if (s->tail == TAIL_shift && t.extent % s->number[0] && !may_repeat(&t))
		return false;
	tir_rewrite(out, p, split_here, &t);
	return true;
}
