/* daemon/rewrite/rewrite.c: rounds of rewriting to a fixpoint.
 *
 * Invariants of a round:
 *  1. g holds a right computation of every tensor mapped so far, whatever rules applied;
 *  2. equal primitives over equal operands are built once (common subexpressions), and so are
 *     equal constants;
 *  3. rules see operands that are already rewritten: what sinks, sinks all the way in one round.
 * Rules push one way only (layout and broadcasts down, slices up, constants into weights), so
 * that rounds end; the bound on rounds is for the mistake in a rule. */
#include "rewrite_int.h"

#include <string.h>

enum { MAX_ROUNDS = 40, MAX_DEPTH = 60, SMALL_CONST_BYTES = 1 << 16 };

/* ---- what is already built -------------------------------------------------------------- */
struct rw_slot {
	uint64_t hash;
	uint32_t node;   /* NO_NODE: a constant */
	uint32_t tensor; /* UINT32_MAX: the slot is free */
};

static void
learn_tensors(struct rw *r)
{
	while (r->n_known < r->g->n_tensors) {
		GROW(r->tmp, r->maker, r->n_known, r->cap_maker);
		GROW(r->tmp, r->uses, r->n_known, r->cap_uses);
		r->maker[r->n_known] = NO_NODE;
		r->uses[r->n_known] = 0;
		r->n_known++;
	}
}

static void
slots_place(struct rw_slot *slots, uint32_t n, struct rw_slot s)
{
	uint32_t i = (uint32_t)(s.hash & (n - 1));

	while (slots[i].tensor != UINT32_MAX)
		i = (i + 1) & (n - 1);
	slots[i] = s;
}

static void
slots_add(struct rw *r, uint64_t hash, uint32_t node, uint32_t tensor)
{
	if (2 * r->n_filled >= r->n_slots) {
		uint32_t n = r->n_slots ? 2 * r->n_slots : 1024;
		struct rw_slot *more = NEW_ARRAY(r->tmp, struct rw_slot, n);

		memset(more, 0xff, n * sizeof(*more));
		for (uint32_t i = 0; i < r->n_slots; i++)
			if (r->slots[i].tensor != UINT32_MAX)
				slots_place(more, n, r->slots[i]);
		r->slots = more;
		r->n_slots = n;
	}
	slots_place(r->slots, r->n_slots, (struct rw_slot){hash, node, tensor});
	r->n_filled++;
}

static uint64_t
expr_hash(const struct expr *x)
{
	uint64_t h = mix64((uint64_t)x->prim + 1);

	h = hash64(x->in, x->n_in * sizeof(*x->in), h);
	for (int i = 0; i < x->at->n; i++) {
		const struct attr *a = &x->at->a[i];
		h = mix64(h ^ ((uint64_t)a->key << 8 | (uint64_t)(unsigned)a->n));
		h = hash64(a->i, (size_t)a->n * sizeof(*a->i), h);
		h = hash64(&a->real, sizeof(a->real), h);
	}
	return h;
}

static bool
node_equals(const struct node *n, const struct expr *x)
{
	return n->prim == x->prim && n->n_in == x->n_in && attrs_eq(&n->at, x->at) &&
	    memcmp(n->in, x->in, n->n_in * sizeof(*n->in)) == 0;
}

static bool
find_node(const struct rw *r, const struct expr *x, uint64_t hash, tensor_id *out)
{
	for (uint32_t i = (uint32_t)(hash & (r->n_slots - 1)); r->n_slots; i = (i + 1) & (r->n_slots - 1)) {
		const struct rw_slot *s = &r->slots[i];

		if (s->tensor == UINT32_MAX)
			return false;
		if (s->hash != hash || s->node == NO_NODE || !node_equals(&r->g->nodes[s->node], x))
			continue;
		out->i = s->tensor;
		return true;
	}
	return false;
}

bool
rw_has_transpose(const struct rw *r, tensor_id x, int rank, const int64_t *perm)
{
	struct attrs at = {0};
	tensor_id found;

	at_list(&at, ATTR_perm, rank, perm);
	const struct expr e = {.prim = PRIM_transpose, .n_in = 1, .in = &x, .at = &at};

	return find_node(r, &e, expr_hash(&e), &found);
}

/* Small constants are equal when their bytes are, large ones when they are the same memory. */
static bool
const_equals(const struct tensor *t, const struct tensor *u, size_t n_bytes)
{
	if (t->role != u->role || t->type != u->type || !shape_eq(&t->shape, &u->shape))
		return false;
	if (!t->data || !u->data) /* a weight whose data is elsewhere */
		return false;
	if (t->data == u->data)
		return true;
	return n_bytes <= SMALL_CONST_BYTES && memcmp(t->data, u->data, n_bytes) == 0;
}

static tensor_id
const_intern(struct rw *r, const struct tensor *t)
{
	size_t n_bytes = ck_mul(ck_size(shape_count(&t->shape)), dtype_size(t->type));
	uint64_t h = mix64((uint64_t)t->type * 31 + t->role);

	h = hash64(t->shape.dim, (size_t)t->shape.rank * sizeof(int64_t), h);
	if (t->data && n_bytes <= SMALL_CONST_BYTES)
		h = hash64(t->data, n_bytes, h);
	for (uint32_t i = (uint32_t)(h & (r->n_slots - 1)); r->n_slots; i = (i + 1) & (r->n_slots - 1)) {
		const struct rw_slot *s = &r->slots[i];

		if (s->tensor == UINT32_MAX)
			break;
		if (s->hash == h && s->node == NO_NODE && const_equals(&r->g->tensors[s->tensor], t, n_bytes))
			return (tensor_id){s->tensor};
	}
	tensor_id id = graph_const(r->g, t->role, t->type, &t->shape, t->data, t->name);
	learn_tensors(r);
	slots_add(r, h, NO_NODE, id.i);
	return id;
}

tensor_id
rw_const(struct rw *r, enum tensor_role role, enum dtype t, const struct shape *s, const void *data)
{
	return const_intern(r, &(struct tensor){.role = role, .type = t, .shape = *s, .data = data});
}

/* ---- building ------------------------------------------------------------------------------ */
static bool
is_on(const struct rw *r, const struct rule *k)
{
	return k->kind <= r->o->worst && !(k->is_gain && r->o->only_form);
}

/* Without the clean-up only constants are folded. */
static bool
applies(struct rw *r, const struct rule *k, const struct expr *x, tensor_id *out)
{
	if (!prims_has(&k->roots, x->prim) || !is_on(r, k) || (!r->o->normalize && k->apply != rule_fold))
		return false;
	return k->apply ? k->apply(r, x, out) : k->first && pattern_apply(r, k->first, k->guard, x, out);
}

static bool
apply_rules(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (r->depth > MAX_DEPTH)
		return false;
	for (uint32_t k = 0; k < r->n_rules; k++) {
		if (!applies(r, &r->rules[k], x, out))
			continue;
		if (!shape_eq(rw_shape(r, *out), &x->result.shape) ||
		    rw_tensor(r, *out)->type != x->result.type)
			bug("rule %s changed the type or shape of a %s", r->rules[k].name,
			    prim_info[x->prim].name);
		r->stats->n_applied[k]++;
		r->n_applied++;
		return true;
	}
	return false;
}

static void
expr_result(const struct rw *r, struct expr *x)
{
	const struct tensor *few[8], **ts = few;
	struct err e = {0};

	if (x->n_in > COUNT_OF(few))
		ts = NEW_ARRAY(r->tmp, const struct tensor *, x->n_in);
	for (uint32_t i = 0; i < x->n_in; i++)
		ts[i] = rw_tensor(r, x->in[i]);
	if (!prim_result(x->prim, ts, x->n_in, x->at, &x->result, &e))
		bug("a rule built a wrong primitive: %s", e.msg);
}

static tensor_id
build_node(struct rw *r, const struct expr *x)
{
	uint64_t h = expr_hash(x);
	struct err e = {0};
	tensor_id out[2];

	if (find_node(r, x, h, out))
		return out[0];
	if (!graph_add(r->g, x->prim, x->in, x->n_in, x->at, r->origin, out, &e))
		bug("a rule built a wrong primitive: %s", e.msg);
	learn_tensors(r);
	r->maker[out[0].i] = r->g->n_nodes - 1;
	slots_add(r, h, r->g->n_nodes - 1, out[0].i);
	return out[0];
}

tensor_id
rw_op(struct rw *r, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at)
{
	static const struct attrs none = {0};
	struct expr x = {.prim = p, .n_in = n_in, .in = in, .at = at ? at : &none};
	tensor_id out;

	expr_result(r, &x);
	r->depth++;
	if (!apply_rules(r, &x, &out))
		out = build_node(r, &x);
	r->depth--;
	return out;
}

tensor_id
rw_op1(struct rw *r, enum prim p, tensor_id x, const struct attrs *at)
{
	return rw_op(r, p, &x, 1, at);
}

tensor_id
rw_op2_at(struct rw *r, enum prim p, tensor_id x, tensor_id y, const struct attrs *at)
{
	return rw_op(r, p, (tensor_id[]){x, y}, 2, at);
}

tensor_id
rw_op2(struct rw *r, enum prim p, tensor_id x, tensor_id y)
{
	return rw_op2_at(r, p, x, y, NULL);
}

tensor_id
rw_reshape(struct rw *r, tensor_id x, const struct shape *to)
{
	struct attrs at = {0};

	at_list(&at, ATTR_shape, to->rank, to->dim);
	return rw_op1(r, PRIM_reshape, x, &at);
}

tensor_id
rw_transpose(struct rw *r, tensor_id x, int rank, const int64_t *perm)
{
	struct attrs at = {0};

	at_list(&at, ATTR_perm, rank, perm);
	return rw_op1(r, PRIM_transpose, x, &at);
}

tensor_id
rw_bcast(struct rw *r, tensor_id x, const struct shape *to)
{
	struct attrs at = {0};

	at_list(&at, ATTR_shape, to->rank, to->dim);
	return rw_op1(r, PRIM_bcast, x, &at);
}

tensor_id
rw_slice(struct rw *r, tensor_id x, const struct shape *to, const int64_t *start, const int64_t *step)
{
	struct attrs at = {0};

	at_slice(&at, to, start, step);
	return rw_op1(r, PRIM_slice, x, &at);
}

/* ---- looking ------------------------------------------------------------------------------- */
const struct node *
rw_maker(const struct rw *r, tensor_id t)
{
	return r->maker[t.i] == NO_NODE ? NULL : &r->g->nodes[r->maker[t.i]];
}

const struct node *
rw_made_by(const struct rw *r, tensor_id t, enum prim p)
{
	const struct node *n = rw_maker(r, t);

	return n && n->prim == p ? n : NULL;
}

bool
rw_single(const struct rw *r, tensor_id t)
{
	return r->uses[t.i] == 1;
}

bool
rw_is_const(const struct rw *r, tensor_id t)
{
	enum tensor_role role = rw_tensor(r, t)->role;

	return role == ROLE_CONST || role == ROLE_WEIGHT;
}

tensor_id
rw_under(const struct rw *r, tensor_id t)
{
	const struct node *b = rw_made_by(r, t, PRIM_bcast);

	return b ? b->in[0] : t;
}

bool
rw_const_under(const struct rw *r, tensor_id t, tensor_id *c)
{
	*c = rw_under(r, t);
	return rw_is_const(r, *c);
}

bool
rw_uniform(const struct rw *r, tensor_id t, double *value)
{
	tensor_id c;

	if (!rw_const_under(r, t, &c))
		return false;
	const struct tensor *u = rw_tensor(r, c);
	if (!u->data || u->type != DT_f32 || shape_count(&u->shape) != 1)
		return false;
	*value = (double)*(const float *)u->data;
	return true;
}

/* ---- a round ------------------------------------------------------------------------------- */
/* Readers of each tensor, outputs counted.  A layout that may sink counts as all its readers. */
static uint32_t *
count_uses(struct arena *tmp, const struct graph *g)
{
	uint32_t *uses = NEW_ARRAY(tmp, uint32_t, g->n_tensors + 1);

	for (uint32_t i = 0; i < g->n_outputs; i++)
		uses[g->outputs[i].i]++;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct node *n = &g->nodes[i];
		bool sinks = n->prim == PRIM_transpose || n->prim == PRIM_reshape || n->prim == PRIM_bcast;
		for (uint32_t k = 0; k < n->n_in; k++) {
			bool again = false;
			for (uint32_t j = 0; j < k; j++)
				again |= n->in[j].i == n->in[k].i;
			if (!again)
				uses[n->in[k].i] += sinks ? uses[n->out[0].i] : 1;
		}
	}
	return uses;
}

static void
import_leaves(struct rw *r, const struct graph *from, tensor_id *map)
{
	for (uint32_t t = 0; t < from->n_tensors; t++)
		map[t] = NO_TENSOR;
	for (uint32_t i = 0; i < from->n_inputs; i++) {
		const struct tensor *t = graph_tensor(from, from->inputs[i]);
		map[from->inputs[i].i] = graph_input(r->g, t->type, &t->shape, t->name);
	}
	learn_tensors(r);
	for (uint32_t i = 0; i < from->n_tensors; i++) {
		struct tensor t = from->tensors[i];

		if (t.role != ROLE_CONST && t.role != ROLE_WEIGHT)
			continue;
		if (t.data && shape_count(&t.shape) == 1) /* a scalar is part of the computation */
			t.role = ROLE_CONST;
		map[i] = const_intern(r, &t);
	}
}

static void
copy_several(struct rw *r, const struct node *n, const tensor_id *in, tensor_id *map)
{
	tensor_id out[2];
	struct err e = {0};

	if (!graph_add(r->g, n->prim, in, n->n_in, &n->at, n->origin, out, &e))
		bug("copying a %s: %s", prim_info[n->prim].name, e.msg);
	learn_tensors(r);
	for (uint32_t i = 0; i < n->n_out; i++)
		map[n->out[i].i] = out[i];
}

/* A further producer of a tensor that has one: taken over as it is. */
static void
copy_alternative(struct rw *r, const struct node *n, const tensor_id *in, tensor_id to)
{
	struct err e = {0};

	if (rw_tensor(r, to)->role != ROLE_INNER)
		return;
	for (uint32_t k = 0; k < r->g->n_nodes; k++) {
		const struct node *m = &r->g->nodes[k];
		struct expr x = {.prim = n->prim, .n_in = n->n_in, .in = in, .at = &n->at};
		if (m->n_out == 1 && m->out[0].i == to.i && node_equals(m, &x))
			return;
	}
	if (!graph_add_alt(r->g, n->prim, in, n->n_in, &n->at, n->origin, n->num, to, &e))
		return; /* rewriting made the alternative depend on what it replaces */
}

/* Offers second producers of what stands in the graph, not of what they themselves bring in. */
static void
add_alternatives(struct rw *r)
{
	uint32_t n_nodes = r->g->n_nodes;

	for (uint32_t i = 0; i < n_nodes; i++)
		for (uint32_t k = 0; k < r->n_rules && r->g->n_nodes < r->o->max_nodes; k++) {
			const struct rule *rule = &r->rules[k];
			struct other x;
			struct err e = {0};

			if (!rule->offer || !is_on(r, rule))
				continue;
			const struct node n = r->g->nodes[i];
			r->origin = n.origin;
			if (!rule->offer(r, &n, &x))
				continue;
			if (graph_add_alt(
				r->g, x.prim, x.in, x.n_in, &x.at, n.origin, rule->kind, n.out[0], &e))
				r->stats->n_applied[k]++;
			else
				r->stats->n_refused[k]++;
		}
}

static void
run_round(struct rw *r, const struct graph *from, bool alternatives, struct graph *to)
{
	struct graph g;
	tensor_id *map = NEW_ARRAY(r->tmp, tensor_id, from->n_tensors + 1);
	uint32_t *uses = count_uses(r->tmp, from);

	graph_init(&g, r->tmp);
	r->g = &g;
	import_leaves(r, from, map);
	for (uint32_t i = 0; i < from->n_nodes; i++) {
		const struct node *n = &from->nodes[i];
		tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, n->n_in + 1);

		for (uint32_t k = 0; k < n->n_in; k++)
			in[k] = map[n->in[k].i];
		r->origin = n->origin;
		if (n->n_out != 1) {
			copy_several(r, n, in, map);
			continue;
		}
		tensor_id *out = &map[n->out[0].i];
		if (out->i != UINT32_MAX) {
			copy_alternative(r, n, in, *out);
			continue;
		}
		*out = rw_op(r, n->prim, in, n->n_in, &n->at);
		r->uses[out->i] += uses[n->out[0].i];
	}
	if (alternatives)
		add_alternatives(r);
	for (uint32_t i = 0; i < from->n_outputs; i++)
		graph_output(&g, map[from->outputs[i].i], from->output_names[i]);
	graph_sort(to, r->tmp, &g, NULL);
	r->g = NULL;
}

/* One round over *held, which stands for what comes of it afterwards.  Two arenas take turns. */
static uint32_t
next_round(struct rw r, struct arena tmp[2], bool alternatives, struct graph *held)
{
	struct graph next;

	r.tmp = &tmp[r.stats->n_rounds & 1];
	arena_fini(r.tmp);
	run_round(&r, held, alternatives, &next);
	*held = next;
	return r.n_applied;
}

bool
rewrite_run(struct arena *a, const struct graph *g, const struct rewrite_opts *o, struct graph *out,
    struct rewrite_stats *stats, struct err *e)
{
	struct arena tmp[2] = {{0}, {0}}, rules = {0};
	struct rewrite_stats own;
	struct rw r = {.a = a, .o = o, .stats = stats ? stats : &own};
	struct graph held = *g;
	uint32_t n_applied;
	bool ok = rules_read(&rules, &r, e);

	*r.stats = (struct rewrite_stats){0};
	if (ok) {
		do
			n_applied = next_round(r, tmp, false, &held);
		while (++r.stats->n_rounds < MAX_ROUNDS && n_applied);
		if (o->alternatives)
			(void)next_round(r, tmp, true, &held);
		graph_sort(out, a, &held, NULL);
	}
	arena_fini(&tmp[0]);
	arena_fini(&tmp[1]);
	arena_fini(&rules);
	return ok;
}
