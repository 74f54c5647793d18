/* daemon/rewrite/pattern.c: reads patterns, and refuses what could not be matched or built.
 *
 *   patterns  tree " -> " tree {"; " tree " -> " tree}
 *   tree      [name ":"] "(" prims [".f32"] ["~"] ["@" | "@2"] {" " tree [".."]} ")" [readers]
 *             ["*"] name [readers], number
 *   prims     primitives with "|" between them, "map", or "same"
 *   readers   "!" [digit]
 *
 * What each means stands at the head of rule.def. */
#include "rewrite_int.h"

#include <string.h>

_Static_assert(PRIM_COUNT <= 128, "room for every primitive in a struct prims");

struct reader {
	const char *p;
	struct pattern *to;
	uint32_t names; /* of the left side, and e: a bit each */
	bool right;
	struct err *e;
};

static bool
refuse(const struct reader *s, const char *why)
{
	return err_set(s->e, ERR_FORMAT, "pattern, at '%s': %s", s->p, why);
}

static bool
take(struct reader *s, const char *text)
{
	if (strncmp(s->p, text, strlen(text)) != 0)
		return false;
	s->p += strlen(text);
	return true;
}

/* The primitive of that name, or all maps. */
static bool
add_prims(struct term *t, struct str name)
{
	bool maps = str_is(name, "map"), found = false;

	for (enum prim p = 0; p < PRIM_COUNT && (maps || !found); p++) {
		const char *own = prim_info[p].name;
		if (maps ? prim_info[p].class != CLASS_MAP : strncmp(own, name.p, name.n) != 0 || own[name.n])
			continue;
		t->prims.w[p >> 6] |= (uint64_t)1 << (p & 63);
		t->prim = p;
		found = true;
	}
	return found;
}

static bool
read_prims(struct reader *s, struct term *t)
{
	bool same = s->right && take(s, "same");
	struct str rest;

	t->word = same ? s->to->term[0].word : (struct str){s->p, strcspn(s->p, " .~@)")};
	rest = t->word;
	do
		if (!add_prims(t, str_cut(&rest, '|')))
			return refuse(s, "no primitive");
	while (rest.n);
	s->p += same ? 0 : t->word.n;
	return true;
}

/* On the right the same word on the left says which primitive of a set it is, and with which attributes. */
static bool
find_twin(struct reader *s, struct term *t)
{
	int n_left = s->right ? s->to->right : 0;

	for (t->twin = 0; t->twin < n_left && !str_eq(s->to->term[t->twin].word, t->word);)
		t->twin++;
	if (t->twin < n_left || !s->right)
		return true;
	t->twin = -1;
	if (!str_is(t->word, prim_info[t->prim].name))
		return refuse(s, "the left side does not have that set");
	return t->slot || t->prim == PRIM_reshape || t->prim == PRIM_bcast || !prim_info[t->prim].attrs ||
	    refuse(s, "attributes from nowhere");
}

static bool read_tree(struct reader *s, int *at);

static bool
read_operands(struct reader *s, struct term *t)
{
	while (take(s, " ")) {
		if (t->n_in == COUNT_OF(t->in) || t->all)
			return refuse(s, "an operand too many");
		if (!read_tree(s, &t->in[t->n_in++]))
			return false;
		t->all = take(s, "..");
	}
	if (!take(s, ")"))
		return refuse(s, "')' is wanted");
	if (t->all && (t->n_in > 1 || t->either || (!s->right && s->to->term[t->in[0]].name != 'x')))
		return refuse(s, "'..' stands behind an x alone");
	for (enum prim p = 0; p < PRIM_COUNT && !t->all; p++)
		if (prims_has(&t->prims, p) && prim_info[p].n_in != (int)t->n_in)
			return refuse(s, "another number of operands");
	return true;
}

static bool
read_op(struct reader *s, struct term *t)
{
	t->kind = TERM_OP;
	if (!read_prims(s, t))
		return false;
	t->f32 = !s->right && take(s, ".f32");
	t->either = !s->right && take(s, "~");
	s->to->either |= t->either;
	if (s->right && take(s, "@"))
		t->slot = take(s, "2") ? 2 : 1;
	return find_twin(s, t) && read_operands(s, t);
}

static bool
read_name(struct reader *s, struct term *t)
{
	if (*s->p < 'a' || *s->p > 'z')
		return refuse(s, "no operand");
	if (s->right ? !(s->names >> (*s->p - 'a') & 1) : *s->p == 'e')
		return refuse(s, "no name of this side");
	t->name = *s->p++;
	s->names |= 1u << (t->name - 'a');
	return true;
}

static bool
read_leaf(struct reader *s, struct term *t)
{
	struct str number = {s->p, strspn(s->p, "-.0123456789")};

	t->under = s->right && take(s, "*");
	if (!number.n || s->right)
		return read_name(s, t);
	t->kind = TERM_NUMBER;
	s->p += number.n;
	return str_to_f64(number, &t->number) || refuse(s, "no number");
}

static bool
read_tree(struct reader *s, int *at)
{
	struct term *t = &s->to->term[s->to->n];

	*at = s->to->n++;
	if (*at == MAX_TERMS)
		return refuse(s, "too many terms");
	if (!s->right && *s->p && s->p[1] == ':' && !(read_name(s, t) && take(s, ":")))
		return false;
	if (!(take(s, "(") ? read_op(s, t) : t->name ? refuse(s, "'(' is wanted") : read_leaf(s, t)))
		return false;
	if (!s->right && *at && take(s, "!"))
		t->readers = *s->p >= '2' && *s->p <= '9' ? (uint32_t)(*s->p++ - '0') : 1;
	return true;
}

bool
pattern_read(struct arena *a, const char *text, const struct pattern **out, struct err *e)
{
	struct pattern *p = NEW(a, struct pattern);
	struct reader s = {.p = text, .to = p, .names = 1u << ('e' - 'a'), .e = e};
	int left;

	*out = p;
	if (!read_tree(&s, &left))
		return false;
	if (p->term[left].kind != TERM_OP || !take(&s, " -> "))
		return refuse(&s, "a primitive and ' -> ' are wanted");
	s.right = true;
	p->right = p->n;
	if (!read_tree(&s, &left))
		return false;
	return !*s.p ||
	    (take(&s, "; ") ? pattern_read(a, s.p, &p->next, e) : refuse(&s, "the end is wanted"));
}
