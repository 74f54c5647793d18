/* daemon/identify/cand_text.c: a set of candidates as text, for dumps and golden files.  A line each:
 *
 *   spec 5: %1=neg %2=abs %3=exp.1 | in %0 | out %3
 *
 * the number of its spec; its nodes by first result and primitive, ".1" where another node of that primitive
 * makes the same tensor before it (an alternative); what it reads and makes.  "# ..." are counts. */
#include "identify.h"

/* How many nodes before node `i` make the same tensor by the same primitive. */
static uint32_t
turn_of(const struct graph *g, uint32_t i)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < i; k++)
		n += g->nodes[k].out[0].i == g->nodes[i].out[0].i && g->nodes[k].prim == g->nodes[i].prim;
	return n;
}

static void
put_tensors(struct strbuf *sb, const char *what, const tensor_id *t, uint32_t n)
{
	sb_addf(sb, " | %s", what);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(sb, " %%%u", t[i].i);
}

void
cand_set_print(struct strbuf *sb, const struct graph *g, const struct cand_set *s)
{
	struct arena tmp = {0};
	uint32_t *turn = NEW_ARRAY(&tmp, uint32_t, g->n_nodes);

	for (uint32_t i = 0; i < g->n_nodes; i++)
		turn[i] = turn_of(g, i);
	for (uint32_t i = 0; i < s->n_cands; i++) {
		const struct cand *c = &s->cands[i];

		sb_addf(sb, "spec %u:", c->spec);
		BITSET_EACH(k, &c->members)
		{
			sb_addf(sb, " %%%u=%s", g->nodes[k].out[0].i, prim_info[g->nodes[k].prim].name);
			if (turn[k])
				sb_addf(sb, ".%u", turn[k]);
		}
		put_tensors(sb, "in", c->in, c->n_in);
		put_tensors(sb, "out", c->out, c->n_out);
		sb_addc(sb, '\n');
	}
	sb_addf(sb, "# candidates %u distinct %u infeasible %u dropped %u\n", s->n_cands, s->n_specs,
	    s->n_infeasible, s->n_dropped);
	for (uint32_t i = 0; i < s->n_infeasible_rules; i++)
		sb_addf(sb, "# infeasible %.*s\n", STR_ARG(s->infeasible_rules[i]));
	arena_fini(&tmp);
}

void
cand_specs_print(struct strbuf *sb, const struct cand_set *s)
{
	for (uint32_t i = 0; i < s->n_specs; i++) {
		char hex[65];

		hash_hex(&s->specs[i].hash, hex);
		sb_addf(sb, "# spec %u %s\n", i, hex);
		sb_add(sb, s->specs[i].text);
	}
}

/* ---- reading ------------------------------------------------------------------------ */
struct reader {
	struct arena *a;
	const struct graph *g;
	struct cand_set *out;
	uint32_t cap_cands, cap_specs;
	struct err *e;
};

static struct str
word_of(struct str *line)
{
	*line = str_trim(*line);
	return str_cut(line, ' ');
}

static bool
number_of(struct str word, const char *before, uint32_t limit, uint32_t *out)
{
	int64_t v;

	if (!str_starts(word, before))
		return false;
	word = (struct str){word.p + str_of(before).n, word.n - str_of(before).n};
	if (!str_to_i64(word, &v) || v < 0 || v >= limit)
		return false;
	*out = (uint32_t)v;
	return true;
}

/* "%3=exp.1" */
static bool
find_node(const struct reader *r, struct str word, uint32_t *out)
{
	struct str turn = word, name, tensor = str_cut(&turn, '=');
	uint32_t t, want = 0, n = 0;
	enum prim prim;

	name = str_cut(&turn, '.');
	if (!number_of(tensor, "%", r->g->n_tensors, &t) || !prim_of_name(name, &prim) ||
	    (turn.n && !number_of(turn, "", r->g->n_nodes, &want)))
		return false;
	for (uint32_t i = 0; i < r->g->n_nodes; i++)
		if (r->g->nodes[i].out[0].i == t && r->g->nodes[i].prim == prim && n++ == want) {
			*out = i;
			return true;
		}
	return false;
}

static bool
read_members(struct reader *r, struct str text, struct cand *c)
{
	c->members = bitset_make(r->a, r->g->n_nodes);
	for (text = str_trim(text); text.n; text = str_trim(text)) {
		struct str word = word_of(&text);
		uint32_t node;

		if (!find_node(r, word, &node))
			return err_set(r->e, ERR_FORMAT, "the graph has no node '%.*s'", STR_ARG(word));
		bit_set(&c->members, node);
	}
	return true;
}

static bool
read_tensors(struct reader *r, struct str text, const char *what, tensor_id **out, uint32_t *n)
{
	uint32_t cap = 0;

	*n = 0;
	*out = NULL;
	if (!str_is(word_of(&text), what))
		return err_set(r->e, ERR_FORMAT, "'| %s ...' is wanted", what);
	for (text = str_trim(text); text.n; text = str_trim(text)) {
		struct str word = word_of(&text);
		uint32_t t;

		if (!number_of(word, "%", r->g->n_tensors, &t))
			return err_set(r->e, ERR_FORMAT, "the graph has no tensor '%.*s'", STR_ARG(word));
		GROW(r->a, *out, *n, cap);
		(*out)[(*n)++] = (tensor_id){t};
	}
	return true;
}

/* The spec is made anew; candidates of one number must come to one text. */
static bool
read_spec(struct reader *r, struct cand *c)
{
	struct cand_set *s = r->out;
	struct spec spec;

	spec_make(r->a, r->g, &c->members, c->out, c->n_out, &spec, &c->bind);
	if (c->spec == s->n_specs) {
		GROW(r->a, s->specs, s->n_specs, r->cap_specs);
		s->specs[s->n_specs++] = spec;
		return true;
	}
	return (c->spec < s->n_specs && hash_eq(&s->specs[c->spec].hash, &spec.hash)) ||
	    err_set(
		r->e, ERR_FORMAT, "spec %u is another one, or not numbered in order of first use", c->spec);
}

static bool
read_cand(struct reader *r, struct str line)
{
	struct str members = str_cut(&line, '|'), in = str_cut(&line, '|'), head = str_cut(&members, ':');
	struct cand c = {0};

	if (!str_is(word_of(&head), "spec") || !number_of(str_trim(head), "", UINT32_MAX, &c.spec))
		return err_set(r->e, ERR_FORMAT, "'spec N: ... | in ... | out ...' is wanted");
	if (!read_members(r, members, &c) || !read_tensors(r, in, "in", &c.in, &c.n_in) ||
	    !read_tensors(r, line, "out", &c.out, &c.n_out))
		return false;
	if (c.n_out == 0 || bitset_count(&c.members) == 0 || bitset_count(&c.members) > SPEC_MAX_NODES)
		return err_set(
		    r->e, ERR_FORMAT, "a candidate has 1 to %d nodes, and a result", SPEC_MAX_NODES);
	if (!read_spec(r, &c))
		return false;
	GROW(r->a, r->out->cands, r->out->n_cands, r->cap_cands);
	r->out->cands[r->out->n_cands++] = c;
	return true;
}

bool
cand_set_read(struct arena *a, struct str text, const struct graph *g, struct cand_set *out, struct err *e)
{
	struct reader r = {.a = a, .g = g, .out = out, .e = e};

	*out = (struct cand_set){0};
	for (uint32_t n = 1; text.n; n++) {
		struct str line = str_trim(str_cut(&text, '\n'));

		if (line.n && line.p[0] != '#' && !read_cand(&r, line))
			return err_in(e, "line %u", n);
	}
	return true;
}
