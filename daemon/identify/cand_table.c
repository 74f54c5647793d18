/* daemon/identify/cand_table.c: a set of nodes becomes a candidate, and candidates that compute the
 * same share a spec.
 *
 * Making a spec canonical is dear, so a candidate is first written down as it stands: members in
 * graph order, tensors numbered by first appearance.  Repeated blocks of a model give the same
 * bytes; only new bytes are made canonical, checked for feasibility, and found (or not) among the
 * specs by hash.  Constants stand in the bytes by their tensor: equal ones are one tensor after
 * rewriting. */
#include "identify_int.h"

#include "../../kernels/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

struct form { /* one way to write a candidate down */
	uint64_t hash;
	struct str bytes;
	uint32_t spec;                /* NO_NODE: infeasible */
	uint32_t *operands, *results; /* local numbers, in the spec's order */
	uint32_t n_operands, n_results;
	const char *refusal; /* of kernels/schedule, where infeasible */
};
struct table { /* open addressing; values are numbers + 1 */
	uint32_t *slot;
	uint32_t n_slots, n_filled;
};
struct cand_table {
	struct arena *a, *tmp;
	const struct groups *u;
	const struct identify_limits *lim;
	struct cand_set *out;
	uint32_t cap_cands, cap_specs;
	struct form *forms;
	uint32_t n_forms, cap_forms;
	uint64_t *cand_hash;
	uint32_t cap_hash;
	struct table by_form, by_spec, by_cand;
	struct rule_count {
		char *rule;
		uint32_t n;
	} * rules;
	uint32_t n_rules, cap_rules;
	/* the candidate at hand */
	struct bitset members;
	uint32_t *local;     /* per tensor: its number, or NO_NODE */
	tensor_id *numbered; /* tensors by number */
	uint32_t n_numbered;
	const char *refusal; /* of the last set that became no candidate; NULL */
};

struct cand_table *
cand_table_new(struct arena *a, struct arena *tmp, const struct groups *u, const struct identify_limits *lim,
    struct cand_set *out)
{
	struct cand_table *c = NEW(tmp, struct cand_table);

	if (a == tmp) /* a spec that is not kept is taken back, and with it all that came after */
		bug("a cand_table needs two arenas");
	*c = (struct cand_table){.a = a, .tmp = tmp, .u = u, .lim = lim, .out = out};
	*out = (struct cand_set){0};
	c->members = bitset_make(tmp, u->g->n_nodes);
	c->local = NEW_ARRAY(tmp, uint32_t, u->g->n_tensors + 1);
	c->numbered = NEW_ARRAY(tmp, tensor_id, u->g->n_tensors + 1);
	return c;
}

/* ---- tables --------------------------------------------------------------------------------- */
static void
table_place(struct table *t, uint64_t hash, uint32_t value)
{
	uint32_t i = (uint32_t)(hash & (t->n_slots - 1));

	while (t->slot[i])
		i = (i + 1) & (t->n_slots - 1);
	t->slot[i] = value + 1;
}

static void
table_add(struct cand_table *c, struct table *t, uint64_t (*hash_of)(const struct cand_table *, uint32_t),
    uint32_t value)
{
	if (2 * t->n_filled >= t->n_slots) {
		struct table more = {.n_slots = t->n_slots ? 2 * t->n_slots : 1024};
		more.slot = NEW_ARRAY(c->tmp, uint32_t, more.n_slots);
		for (uint32_t i = 0; i < t->n_slots; i++)
			if (t->slot[i])
				table_place(&more, hash_of(c, t->slot[i] - 1), t->slot[i] - 1);
		more.n_filled = t->n_filled;
		*t = more;
	}
	table_place(t, hash_of(c, value), value);
	t->n_filled++;
}

/* Numbers + 1 with this hash's slot, one after the other; 0 at the end. */
static uint32_t
table_next(const struct table *t, uint64_t hash, uint32_t *at)
{
	uint32_t i = (uint32_t)(hash & (t->n_slots - 1));

	if (!t->n_slots)
		return 0;
	i = (i + (*at)++) & (t->n_slots - 1);
	return t->slot[i];
}

static uint64_t
form_hash(const struct cand_table *c, uint32_t v)
{
	return c->forms[v].hash;
}

static uint64_t
spec_hash(const struct cand_table *c, uint32_t v)
{
	uint64_t h;

	memcpy(&h, c->out->specs[v].hash.b, sizeof(h));
	return h;
}

static uint64_t
cand_hash(const struct cand_table *c, uint32_t v)
{
	return c->cand_hash[v];
}

/* ---- members ---------------------------------------------------------------------------------- */
static const struct node *
only_maker(const struct groups *u, uint32_t t)
{
	uint32_t first = u->ix.maker_first[t];

	return u->ix.maker_first[t + 1] == first + 1 ? &u->g->nodes[u->ix.maker[first]] : NULL;
}

static uint32_t
node_number(const struct groups *u, const struct node *n)
{
	return (uint32_t)(n - u->g->nodes);
}

static void
add_views(struct cand_table *c, tensor_id t)
{
	const struct groups *u = c->u;

	while (u->root[t.i] != t.i) {
		const struct node *v = only_maker(u, t.i);
		bit_set(&c->members, node_number(u, v));
		t = v->in[0];
	}
}

/* Is the root made by a member?  A root with alternatives: by any of them. */
static bool
made_inside(const struct cand_table *c, uint32_t root)
{
	const struct groups *u = c->u;

	for (uint32_t i = u->ix.maker_first[root]; i < u->ix.maker_first[root + 1]; i++)
		if (bit_get(&c->members, u->ix.maker[i]))
			return true;
	return false;
}

struct reads {
	tensor_id *roots, *as; /* external: what memory, through which tensor */
	uint32_t n, cap;
};

/* Follows an operand to where it comes from: inlined broadcasts and views inside the candidate
 * become members; external memory is noted. */
static void
resolve(struct cand_table *c, tensor_id t, bool bare, struct reads *r)
{
	const struct groups *u = c->u;

	for (;;) {
		uint32_t root = u->root[t.i];
		const struct node *m = only_maker(u, root);
		if (!bare && m && u->is_inlined[node_number(u, m)]) {
			add_views(c, t);
			bit_set(&c->members, node_number(u, m));
			t = m->in[0];
			continue;
		}
		if (made_inside(c, root)) {
			add_views(c, t);
			return;
		}
		if (tensor_is_const(u->g, (tensor_id){root})) {
			add_views(c, t); /* a view of a constant is the constant */
			return;
		}
		if (r->n == r->cap) {
			uint32_t cap = r->cap;
			r->roots = arena_grow(c->tmp, r->roots, sizeof(*r->roots), r->n, &cap);
			r->as = arena_grow(c->tmp, r->as, sizeof(*r->as), r->n, &r->cap);
		}
		r->roots[r->n].i = root;
		r->as[r->n++] = t;
		return;
	}
}

/* Memory that is read through different views is read once: the views move inside. */
static void
unite_reads(struct cand_table *c, struct reads *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		for (uint32_t k = 0; k < r->n; k++)
			if (r->roots[i].i == r->roots[k].i && r->as[i].i != r->as[k].i)
				add_views(c, r->as[i]);
}

static void
find_members(struct cand_table *c, const uint32_t *nodes, uint32_t n_nodes, bool bare, struct reads *r)
{
	memset(c->members.w, 0, bitset_words(&c->members) * sizeof(*c->members.w));
	for (uint32_t i = 0; i < n_nodes; i++)
		bit_set(&c->members, nodes[i]);
	for (uint32_t i = 0; i < n_nodes; i++) {
		const struct node *n = &c->u->g->nodes[nodes[i]];
		for (uint32_t k = 0; k < n->n_in; k++)
			resolve(c, n->in[k], bare, r);
	}
	unite_reads(c, r);
}

/* ---- the candidate as bytes -------------------------------------------------------------------- */
static void
put_u64(struct strbuf *sb, uint64_t v)
{
	sb_add(sb, (struct str){(const char *)&v, sizeof(v)});
}

static void
put_attrs(struct strbuf *sb, const struct attrs *at)
{
	for (int i = 0; i < at->n; i++) {
		const struct attr *x = &at->a[i];
		put_u64(sb, (uint64_t)x->key << 8 | (uint64_t)(unsigned)x->n);
		sb_add(sb, (struct str){(const char *)x->i, (size_t)x->n * sizeof(*x->i)});
		sb_add(sb, (struct str){(const char *)&x->real, sizeof(x->real)});
	}
}

/* Does the tensor's value belong to the computation? */
static bool
by_value(const struct tensor *t)
{
	return t->role == ROLE_CONST && shape_count(&t->shape) <= SPEC_MAX_CONST;
}

static void
put_tensor(struct cand_table *c, struct strbuf *sb, tensor_id t)
{
	const struct tensor *x = graph_tensor(c->u->g, t);

	if (c->local[t.i] != NO_NODE) {
		put_u64(sb, c->local[t.i]);
		return;
	}
	c->local[t.i] = c->n_numbered;
	c->numbered[c->n_numbered++] = t;
	put_u64(sb, c->local[t.i]);
	put_u64(sb, (uint64_t)x->type << 8 | (uint64_t)(tensor_is_const(c->u->g, t) ? 1 : 0));
	sb_add(sb, (struct str){(const char *)x->shape.dim, (size_t)x->shape.rank * sizeof(int64_t)});
	put_u64(sb, by_value(x) ? (uint64_t)t.i : ~(uint64_t)x->shape.rank);
}

static struct str
write_down(struct cand_table *c, const tensor_id *exports, uint32_t n_exports)
{
	struct strbuf sb;

	sb_init(&sb, c->tmp);
	for (uint32_t i = 0; i < c->n_numbered; i++)
		c->local[c->numbered[i].i] = NO_NODE;
	c->n_numbered = 0;
	BITSET_EACH(i, &c->members)
	{
		const struct node *n = &c->u->g->nodes[i];
		put_u64(&sb, (uint64_t)n->prim << 16 | n->n_in);
		put_attrs(&sb, &n->at);
		for (uint32_t k = 0; k < n->n_in; k++)
			put_tensor(c, &sb, n->in[k]);
		for (uint32_t k = 0; k < n->n_out; k++)
			put_tensor(c, &sb, n->out[k]);
	}
	for (uint32_t i = 0; i < n_exports; i++)
		put_tensor(c, &sb, exports[i]);
	return sb_str(&sb);
}

/* ---- specs ------------------------------------------------------------------------------------- */
static void
count_rule(struct cand_table *c, const char *msg)
{
	size_t n = strcspn(msg, ":");

	for (uint32_t i = 0; i < c->n_rules; i++)
		if (strlen(c->rules[i].rule) == n && memcmp(c->rules[i].rule, msg, n) == 0) {
			c->rules[i].n++;
			return;
		}
	GROW(c->tmp, c->rules, c->n_rules, c->cap_rules);
	c->rules[c->n_rules++] = (struct rule_count){str_dup(c->tmp, (struct str){msg, n}), 1};
}

static uint32_t
find_spec(const struct cand_table *c, const struct spec *s)
{
	uint32_t at = 0, v;
	uint64_t h;

	memcpy(&h, s->hash.b, sizeof(h));
	while ((v = table_next(&c->by_spec, h, &at)) != 0)
		if (hash_eq(&c->out->specs[v - 1].hash, &s->hash) &&
		    str_eq(c->out->specs[v - 1].text, s->text))
			return v - 1;
	return NO_NODE;
}

static uint32_t *
locals_of(struct cand_table *c, const tensor_id *t, uint32_t n)
{
	uint32_t *l = NEW_ARRAY(c->tmp, uint32_t, n + 1);

	for (uint32_t i = 0; i < n; i++)
		l[i] = c->local[t[i].i];
	return l;
}

/* The form for bytes not met before. */
static uint32_t
new_form(struct cand_table *c, struct str bytes, uint64_t hash, const tensor_id *exports, uint32_t n_exports)
{
	struct arena_mark mark = arena_mark(c->a);
	struct form f = {.hash = hash, .bytes = bytes, .spec = NO_NODE};
	struct spec s;
	struct spec_binding b;
	struct err e = {0};
	struct arena scratch = {0};

	spec_make(c->a, c->u->g, &c->members, exports, n_exports, &s, &b);
	f.operands = locals_of(c, b.operands, b.n_operands);
	f.results = locals_of(c, b.results, b.n_results);
	f.n_operands = b.n_operands;
	f.n_results = b.n_results;
	f.spec = find_spec(c, &s);
	if (f.spec != NO_NODE) {
		arena_reset(c->a, mark);
	} else if (schedule_feasible(&scratch, &s, &e)) {
		GROW(c->a, c->out->specs, c->out->n_specs, c->cap_specs);
		f.spec = c->out->n_specs;
		c->out->specs[c->out->n_specs++] = s;
		table_add(c, &c->by_spec, spec_hash, f.spec);
	} else {
		arena_reset(c->a, mark);
		count_rule(c, e.msg);
		f.refusal = str_dup(c->tmp, str_of(e.msg));
	}
	arena_fini(&scratch);
	GROW(c->tmp, c->forms, c->n_forms, c->cap_forms);
	c->forms[c->n_forms] = f;
	table_add(c, &c->by_form, form_hash, c->n_forms);
	return c->n_forms++;
}

static uint32_t
find_form(struct cand_table *c, const tensor_id *exports, uint32_t n_exports)
{
	struct str bytes = write_down(c, exports, n_exports);
	uint64_t h = hash64(bytes.p, bytes.n, 1);
	uint32_t at = 0, v;

	while ((v = table_next(&c->by_form, h, &at)) != 0)
		if (c->forms[v - 1].hash == h && str_eq(c->forms[v - 1].bytes, bytes))
			return v - 1;
	return new_form(c, bytes, h, exports, n_exports);
}

/* ---- candidates -------------------------------------------------------------------------------- */
static bool
is_known(struct cand_table *c, uint64_t h, const tensor_id *exports, uint32_t n_exports)
{
	uint32_t at = 0, v;

	while ((v = table_next(&c->by_cand, h, &at)) != 0) {
		const struct cand *k = &c->out->cands[v - 1];
		if (c->cand_hash[v - 1] == h && k->n_out == n_exports &&
		    bitset_equal(&k->members, &c->members) &&
		    memcmp(k->out, exports, n_exports * sizeof(*exports)) == 0)
			return true;
	}
	return false;
}

static tensor_id *
bind_list(struct cand_table *c, const uint32_t *locals, uint32_t n)
{
	tensor_id *t = NEW_ARRAY(c->a, tensor_id, n + 1);

	for (uint32_t i = 0; i < n; i++)
		t[i] = c->numbered[locals[i]];
	return t;
}

static void
push_cand(struct cand_table *c, uint64_t h, const struct form *f, const struct reads *r,
    const tensor_id *exports, uint32_t n_exports)
{
	struct cand k = {.spec = f->spec, .n_out = n_exports};
	uint32_t n = 0;

	k.members = bitset_make(c->a, c->u->g->n_nodes);
	bitset_copy(&k.members, &c->members);
	k.in = NEW_ARRAY(c->a, tensor_id, r->n + 1);
	for (uint32_t i = 0; i < r->n; i++) {
		bool again = false;
		for (uint32_t j = 0; j < n; j++)
			again |= k.in[j].i == r->roots[i].i;
		if (!again)
			k.in[n++] = r->roots[i];
	}
	k.n_in = n;
	k.out = arena_dup(c->a, exports, n_exports * sizeof(*exports));
	k.bind.operands = bind_list(c, f->operands, f->n_operands);
	k.bind.results = bind_list(c, f->results, f->n_results);
	k.bind.n_operands = f->n_operands;
	k.bind.n_results = f->n_results;
	GROW(c->tmp, c->cand_hash, c->out->n_cands, c->cap_hash);
	GROW(c->a, c->out->cands, c->out->n_cands, c->cap_cands);
	c->cand_hash[c->out->n_cands] = h;
	c->out->cands[c->out->n_cands] = k;
	table_add(c, &c->by_cand, cand_hash, c->out->n_cands);
	c->out->n_cands++;
}

static uint32_t
n_distinct(const struct reads *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		bool again = false;
		for (uint32_t j = 0; j < i; j++)
			again |= r->roots[j].i == r->roots[i].i;
		n += !again;
	}
	return n;
}

enum collected
cand_table_add(struct cand_table *c, const uint32_t *nodes, uint32_t n_nodes, const tensor_id *exports,
    uint32_t n_exports, bool bare)
{
	struct reads r = {0};

	if (!c->n_numbered) /* the first time: nothing is numbered */
		memset(c->local, 0xff, (c->u->g->n_tensors + 1) * sizeof(*c->local));
	find_members(c, nodes, n_nodes, bare, &r);
	uint32_t n = bitset_count(&c->members), n_reads = n_distinct(&r);
	c->refusal = NULL;
	if (n > SPEC_MAX_NODES) {
		c->refusal =
		    arena_printf(c->tmp, "size: %u primitives, a spec holds %d", n, (int)SPEC_MAX_NODES);
		return COLLECT_LIMIT;
	}
	if (n_nodes > 1 && n_reads > c->lim->max_in) {
		c->refusal =
		    arena_printf(c->tmp, "operands: %u are read, %u are allowed", n_reads, c->lim->max_in);
		return COLLECT_LIMIT;
	}
	uint64_t h = hash64(c->members.w, bitset_words(&c->members) * sizeof(uint64_t), n_exports);
	h = hash64(exports, n_exports * sizeof(*exports), h);
	if (is_known(c, h, exports, n_exports))
		return COLLECT_KNOWN;
	uint32_t form = find_form(c, exports, n_exports); /* may move the forms */
	const struct form *f = &c->forms[form];
	if (f->spec == NO_NODE) {
		c->out->n_infeasible++;
		c->refusal = f->refusal;
		return COLLECT_INFEASIBLE;
	}
	push_cand(c, h, f, &r, exports, n_exports);
	return COLLECT_NEW;
}

const char *
cand_table_refusal(const struct cand_table *c)
{
	return c->refusal;
}

void
cand_table_finish(struct cand_table *c)
{
	c->out->infeasible_rules = NEW_ARRAY(c->a, struct str, c->n_rules + 1);
	for (uint32_t i = 0; i < c->n_rules; i++)
		c->out->infeasible_rules[i] =
		    str_of(arena_printf(c->a, "%s: %u", c->rules[i].rule, c->rules[i].n));
	c->out->n_infeasible_rules = c->n_rules;
}
