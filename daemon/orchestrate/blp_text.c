/* daemon/orchestrate/blp_text.c: the text form of a program, "korch-blp 2":
 *
 *   tensors N kernels M
 *   input T                              always available
 *   output T                             must be made
 *   p TENSOR CLASS NIN in...             a node: hint for landmark rows
 *   k COST NIN in... NOUT out... NMEM member...   members are not used; COST "never": must not be chosen
 *   # comment */
#include "blp.h"

#include <string.h>

struct reader {
	struct arena *a;
	struct str line;
	uint32_t n_line;
	struct blp *p;
	uint32_t cap_kernels, cap_given, cap_wanted, cap_nodes;
	uint32_t want_kernels;
	struct blp_kernel *kernels;
	struct blp_node *nodes;
	uint32_t *given, *wanted;
	struct err *e;
};

static bool
fail(struct reader *r, const char *what)
{
	return err_set(r->e, ERR_FORMAT, "line %u: %s", r->n_line, what);
}

static bool
number(struct reader *r, int64_t min, int64_t max, int64_t *out)
{
	struct str word;

	r->line = str_trim(r->line);
	word = str_cut(&r->line, ' ');
	if (!str_to_i64(word, out) || *out < min || *out > max)
		return fail(r, "a number in range is expected");
	return true;
}

static bool
number_list(struct reader *r, uint32_t **out, uint32_t *n)
{
	int64_t count, v;

	if (!number(r, 0, 1 << 20, &count))
		return false;
	if ((size_t)count > r->line.n)
		return fail(r, "the list is shorter than its length");
	*n = (uint32_t)count;
	*out = NEW_ARRAY(r->a, uint32_t, *n);
	for (uint32_t i = 0; i < *n; i++) {
		if (!number(r, 0, (int64_t)r->p->n_tensors - 1, &v))
			return false;
		(*out)[i] = (uint32_t)v;
	}
	return true;
}

static bool
read_kernel(struct reader *r)
{
	struct blp_kernel k = {.cost = BLP_NEVER};
	uint32_t *in, *out, *members, n_members;

	r->line = str_trim(r->line);
	if (str_starts(r->line, "never "))
		(void)str_cut(&r->line, ' ');
	else if (!number(r, 1, BLP_MAX_COST, &k.cost))
		return false;
	if (!number_list(r, &in, &k.n_in) || !number_list(r, &out, &k.n_out) ||
	    !number_list(r, &members, &n_members))
		return false;
	if (k.n_out == 0)
		return fail(r, "a kernel without outputs");
	k.in = in;
	k.out = out;
	GROW(r->a, r->kernels, r->p->n_kernels, r->cap_kernels);
	r->kernels[r->p->n_kernels++] = k;
	return true;
}

static bool
read_node(struct reader *r)
{
	struct blp_node n = {0};
	uint32_t *in;
	int64_t t, class;

	if (!number(r, 0, (int64_t)r->p->n_tensors - 1, &t) || !number(r, 0, 99, &class) ||
	    !number_list(r, &in, &n.n_in))
		return false;
	n.tensor = (uint32_t)t;
	n.in = in;
	GROW(r->a, r->nodes, r->p->n_nodes, r->cap_nodes);
	r->nodes[r->p->n_nodes++] = n;
	return true;
}

static bool
read_item(struct reader *r, struct str word)
{
	int64_t t;

	if (str_is(word, "k"))
		return read_kernel(r);
	if (str_is(word, "p"))
		return read_node(r);
	if (!str_is(word, "input") && !str_is(word, "output"))
		return fail(r, "input, output, p or k is expected");
	if (!number(r, 0, (int64_t)r->p->n_tensors - 1, &t))
		return false;
	if (str_is(word, "input")) {
		GROW(r->a, r->given, r->p->n_given, r->cap_given);
		r->given[r->p->n_given++] = (uint32_t)t;
	} else {
		GROW(r->a, r->wanted, r->p->n_wanted, r->cap_wanted);
		r->wanted[r->p->n_wanted++] = (uint32_t)t;
	}
	return true;
}

/* The two lines at the head. */
static bool
read_head(struct reader *r, struct str word, uint32_t n_items)
{
	int64_t n;

	if (n_items == 0)
		return (str_is(word, "korch-blp") && str_is(str_trim(r->line), "2")) ||
		    fail(r, "'korch-blp 2' is expected");
	if (!str_is(word, "tensors") || !number(r, 0, 1 << 24, &n))
		return fail(r, "'tensors N kernels M' is expected");
	r->p->n_tensors = (uint32_t)n;
	if (!str_is(str_cut(&r->line, ' '), "kernels") || !number(r, 0, 1 << 24, &n))
		return fail(r, "'tensors N kernels M' is expected");
	r->want_kernels = (uint32_t)n;
	return true;
}

bool
blp_read(struct arena *a, struct str text, struct blp *out, struct err *e)
{
	struct reader r = {.a = a, .p = out, .e = e};
	uint32_t n_items = 0;

	*out = (struct blp){0};
	while (text.n) {
		struct str word;

		r.n_line++;
		r.line = str_trim(str_cut(&text, '\n'));
		if (r.line.n == 0 || r.line.p[0] == '#')
			continue;
		word = str_cut(&r.line, ' ');
		if (!(n_items < 2 ? read_head(&r, word, n_items) : read_item(&r, word)))
			return false;
		n_items++;
	}
	if (n_items < 2)
		return fail(&r, "the head 'korch-blp 2', 'tensors N kernels M' is missing");
	if (out->n_kernels != r.want_kernels)
		return fail(&r, "the number of kernels is not the one of the head");
	out->kernels = r.kernels;
	out->nodes = r.nodes;
	out->given = r.given;
	out->wanted = r.wanted;
	return true;
}

static void
print_list(struct strbuf *sb, const uint32_t *v, uint32_t n)
{
	sb_addf(sb, " %u", n);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(sb, " %u", v[i]);
}

static void
print_program(struct strbuf *sb, const struct blp *p, bool is_whole)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < p->n_kernels; k++)
		n += is_whole || p->kernels[k].cost != BLP_NEVER;
	sb_addf(sb, "korch-blp 2\ntensors %u kernels %u\n", p->n_tensors, n);
	for (uint32_t i = 0; i < p->n_given; i++)
		sb_addf(sb, "input %u\n", p->given[i]);
	for (uint32_t i = 0; i < p->n_wanted; i++)
		sb_addf(sb, "output %u\n", p->wanted[i]);
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		sb_addf(sb, "p %u 1", p->nodes[i].tensor);
		print_list(sb, p->nodes[i].in, p->nodes[i].n_in);
		sb_addc(sb, '\n');
	}
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		if (p->kernels[k].cost == BLP_NEVER && !is_whole)
			continue;
		if (p->kernels[k].cost == BLP_NEVER)
			sb_addz(sb, "k never");
		else
			sb_addf(sb, "k %lld", (long long)p->kernels[k].cost);
		print_list(sb, p->kernels[k].in, p->kernels[k].n_in);
		print_list(sb, p->kernels[k].out, p->kernels[k].n_out);
		sb_addz(sb, " 0\n");
	}
}

void
blp_print(struct strbuf *sb, const struct blp *p)
{
	print_program(sb, p, false);
}

void
blp_print_whole(struct strbuf *sb, const struct blp *p)
{
	print_program(sb, p, true);
}
