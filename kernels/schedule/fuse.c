/* kernels/schedule/fuse.c: fuse A B: a loop and its only child become one loop f, a = f div extent of b and
 * b = f mod it. */
#include "step_int.h"

struct fuse {
	st_id a, b;
	int64_t from[2], extent[2];
};

static bool
fuse_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct fuse *t = self;
	const struct st *a = &p->st[t->a], *b = &p->st[t->b];
	struct tx *x = p->tx;
	struct copy c;
	ix_id f;

	if (i != t->a)
		return false;
	c = copy_begin(p, out);
	f = ix_axis(x,
	    tir_for(out, arena_printf(p->arena, "%s~%s", a->name, b->name), ix_const(x, 0),
		ix_const(x, t->extent[0] * t->extent[1]), a->bind));
	c.to[a->axis] = ix_addc(x, ix_div(x, f, t->extent[1]), t->from[0]);
	c.to[b->axis] = ix_addc(x, ix_mod(x, f, t->extent[1]), t->from[1]);
	copy_range(&c, t->b + 1, b->end);
	tir_close(out);
	copy_end(&c);
	return true;
}

bool
step_fuse(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct fuse t;

	if (s->n_name != 2)
		return refuse(e, s, "names", "two loops are fused");
	if (!find_loop(p, s, 0, &t.a, e) || !find_loop(p, s, 1, &t.b, e))
		return false;
	if (t.b != t.a + 1 || p->st[t.b].end != p->st[t.a].end)
		return refuse(e, s, "chain", "the second is not the only child of the first");
	if (!const_extent(p, &p->st[t.a], &t.from[0], &t.extent[0]) ||
	    !const_extent(p, &p->st[t.b], &t.from[1], &t.extent[1]))
		return refuse(e, s, "extent", "a loop's bounds hang on another loop");
	if (p->st[t.a].bind != p->st[t.b].bind || p->st[t.a].bind == BIND_pipeline ||
	    st_is_gpu_loop(&p->st[t.a]))
		return refuse(e, s, "binding", "the two are bound in different ways, or to a GPU's axis");
	tir_rewrite(out, p, fuse_here, &t);
	return true;
}
