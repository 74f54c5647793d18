/* daemon/rewrite/match.c: does a pattern match the primitive about to be built, and what is built instead.
 * Nothing is built before match and guard are sure: a rule that gives up leaves no trace. */
#include "rewrite_int.h"

#include <string.h>

/* A name stands for one tensor; what kind of one, its letter says. */
static bool
bind(struct match *m, char name, tensor_id t)
{
	tensor_id *was = &m->t[name - 'a'], c = rw_under(m->r, t);
	double v;

	if (was->i != UINT32_MAX)
		return was->i == t.i;
	*was = t;
	switch (name) {
	case 'c':
		return rw_is_const(m->r, c);
	case 'd':
		return shape_has_data(m->r, c);
	case 'k':
		return rw_uniform(m->r, t, &v);
	case 'v':
		return !rw_is_const(m->r, c);
	case 'w':
		return shape_has_data(m->r, t);
	default:
		return true;
	}
}

static bool match_term(struct match *m, const struct term *q, tensor_id t);

static bool
match_op(struct match *m, const struct term *q, const struct expr *x)
{
	long k = q - m->p->term;

	if (!prims_has(&q->prims, x->prim) || (q->f32 && x->result.type != DT_f32))
		return false;
	m->prim[k] = x->prim;
	m->at[k] = x->at;
	if (q->all) {
		m->all = x->in;
		m->n_all = x->n_in;
		return true;
	}
	for (uint32_t i = 0; i < x->n_in; i++) {
		uint32_t place = q->either && m->swapped ? x->n_in - 1 - i : i;
		if (!match_term(m, &m->p->term[q->in[i]], x->in[place]))
			return false;
	}
	return true;
}

static bool
match_term(struct match *m, const struct term *q, tensor_id t)
{
	const struct node *n = rw_maker(m->r, t);
	double v;

	if ((q->readers && m->r->uses[t.i] != q->readers) || (q->name && !bind(m, q->name, t)))
		return false;
	if (q->kind == TERM_NUMBER) /* 0 is not -0 */
		return rw_uniform(m->r, t, &v) && memcmp(&v, &q->number, sizeof(v)) == 0;
	return q->kind == TERM_NAME ||
	    (n && match_op(m, q, &(struct expr){n->prim, n->n_in, n->in, &n->at, *rw_tensor(m->r, t)}));
}

static tensor_id
build(struct match *m, const struct term *q)
{
	enum prim prim = q->twin < 0 ? q->prim : m->prim[q->twin];
	const struct attrs *at = q->slot ? &m->slot[q->slot - 1] : q->twin < 0 ? NULL : m->at[q->twin];
	struct attrs to_result = {0};
	tensor_id few[3], *in = few;
	uint32_t n_in = q->all ? m->n_all : q->n_in;

	if (q->kind == TERM_NAME)
		return q->under ? rw_under(m->r, named(m, q->name)) : named(m, q->name);
	if (n_in > COUNT_OF(few))
		in = NEW_ARRAY(m->r->tmp, tensor_id, n_in);
	for (uint32_t i = 0; i < n_in; i++) {
		if (q->all)
			m->t['x' - 'a'] = m->all[i];
		in[i] = build(m, &m->p->term[q->in[q->all ? 0 : i]]);
	}
	if (!q->slot && (prim == PRIM_reshape || prim == PRIM_bcast)) {
		at_list(&to_result, ATTR_shape, result_shape(m)->rank, result_shape(m)->dim);
		at = &to_result;
	}
	return rw_op(m->r, prim, in, n_in, at);
}

bool
pattern_apply(struct rw *r, const struct pattern *p, guard_fn *guard, const struct expr *x, tensor_id *out)
{
	for (; p; p = p->next)
		for (int swapped = 0; swapped <= p->either; swapped++) {
			struct match m; /* large: only what is read is set */

			memset(m.t, 0xff, sizeof(m.t));
			m.slot[0].n = m.slot[1].n = 0;
			m.r = r;
			m.p = p;
			m.x = x;
			m.swapped = swapped;
			if (!match_op(&m, p->term, x) || (guard && !guard(&m)))
				continue;
			*out = build(&m, &p->term[p->right]);
			return true;
		}
	return false;
}

/* ---- what guards ask ------------------------------------------------------------------------- */
tensor_id
named(const struct match *m, char name)
{
	tensor_id t = m->t[name - 'a'];

	if (t.i == UINT32_MAX)
		bug("a pattern without '%c'", name);
	return t;
}

const struct shape *
shape_of(const struct match *m, char name)
{
	return rw_shape(m->r, named(m, name));
}

bool
same_shape(const struct match *m)
{
	return shape_eq(shape_of(m, 'x'), result_shape(m));
}

bool
all_are(const struct match *m, enum attr_key key, int64_t v)
{
	const struct attr *list = at_find(m->at[0], key);

	for (int i = 0; i < list->n; i++)
		if (list->i[i] != v)
			return false;
	return true;
}

bool
folds(struct match *m, enum prim p)
{
	tensor_id c = rw_under(m->r, named(m, 'c')), d = rw_under(m->r, named(m, 'd'));

	return make(m, fold_map2(m->r, p, c, d));
}
