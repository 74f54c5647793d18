/* daemon/model/support.c: all operators of a model that op.def does not have, and why: with counts, and whose
 * they are. */
#include "op.h"

#include <string.h>

static const struct {
	const char *name, *maker, *advice;
} domains[] = {
#define DOMAIN(NAME, MAKER, ADVICE) {NAME, MAKER, ADVICE},
#include "domain.def"
};

bool
model_has_row(const struct model_node *n)
{
	return !n->domain[0] && op_find(n->op, n->opset);
}

/* The first opset that has it; 0: none. */
static int
first_opset(const struct model_node *n)
{
	int first = MODEL_MAX_OPSET;

	if (n->domain[0] || !op_is_known(n->op))
		return 0;
	while (op_find(n->op, first - 1))
		first--;
	return first;
}

static struct model_missing *
find_or_add(
    struct arena *a, const struct model_node *n, struct model_missing **list, uint32_t *n_list, uint32_t *cap)
{
	for (uint32_t i = 0; i < *n_list; i++)
		if (strcmp((*list)[i].op, n->op) == 0 && strcmp((*list)[i].domain, n->domain) == 0 &&
		    (*list)[i].opset == n->opset)
			return &(*list)[i];
	GROW(a, *list, *n_list, *cap);
	(*list)[*n_list] = (struct model_missing){
	    .op = n->op, .domain = n->domain, .opset = n->opset, .first_opset = first_opset(n)};
	return &(*list)[(*n_list)++];
}

uint32_t
model_missing_ops(struct arena *a, const struct model *m, struct model_missing **out)
{
	uint32_t n = 0, cap = 0;

	*out = NULL;
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct model_node *node = &m->nodes[i];

		if (model_has_row(node))
			continue;
		struct model_missing *x = find_or_add(a, node, out, &n, &cap);
		GROW(a, x->nodes, x->n_nodes, x->cap_nodes);
		x->nodes[x->n_nodes++] = i;
		x->n_conditional += node->is_conditional;
	}
	return n;
}

const char *
model_domain_maker(const char *domain, const char **advice)
{
	for (size_t i = 0; i < COUNT_OF(domains); i++)
		if (strcmp(domains[i].name, domain) == 0) {
			*advice = domains[i].advice;
			return domains[i].maker;
		}
	*advice = NULL;
	return NULL;
}

const char *
model_missing_why(struct arena *a, const struct model_node *n)
{
	const char *advice, *maker = model_domain_maker(n->domain, &advice);

	if (maker)
		return arena_printf(a,
		    "operators of the domain '%s' are not supported; they are made by %s: %s", n->domain,
		    maker, advice);
	if (n->domain[0])
		return arena_printf(a,
		    "operators of the domain '%.100s' are not supported, only those of ai.onnx", n->domain);
	if (first_opset(n))
		return arena_printf(a, "operator '%s' exists from opset %d on; the file has %d", n->op,
		    first_opset(n), n->opset);
	return arena_printf(a, "operator '%.100s' is not supported", n->op);
}

static void
add_missing(struct strbuf *sb, const struct model *m, const struct model_missing *x)
{
	uint32_t n = x->n_nodes - x->n_conditional, i = 0;

	while (m->nodes[x->nodes[i]].is_conditional)
		i++;
	sb_addf(sb, "%s%s%s%.60s", sb->n ? ", " : "", x->domain, x->domain[0] ? "." : "", x->op);
	if (x->first_opset)
		sb_addf(sb, " (from opset %d on; the file has %d)", x->first_opset, x->opset);
	if (n > 1)
		sb_addf(sb, " (%u nodes, first '%.60s')", n, m->nodes[x->nodes[i]].name);
	else
		sb_addf(sb, " (node '%.60s')", m->nodes[x->nodes[i]].name);
}

/* Advice about the first foreign domain. */
static const char *
advice_for(struct arena *a, const struct model_missing *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *advice, *maker = model_domain_maker(list[i].domain, &advice);

		if (maker && list[i].n_nodes > list[i].n_conditional)
			return arena_printf(a, ". %s: made by %s: %s", list[i].domain, maker, advice);
	}
	return "";
}

bool
model_check_ops(const struct model *m, struct err *e)
{
	struct model_missing *list;
	struct strbuf sb;
	uint32_t n = model_missing_ops(m->arena, m, &list), n_real = 0, n_said = 0;

	sb_init(&sb, m->arena);
	for (uint32_t i = 0; i < n; i++) {
		if (list[i].n_nodes == list[i].n_conditional) /* matters only where the branch is taken */
			continue;
		n_real++;
		if (sb.n < 180) {
			add_missing(&sb, m, &list[i]);
			n_said++;
		}
	}
	if (n_real == 0)
		return true;
	if (n_said < n_real)
		sb_addf(&sb, " and %u more", n_real - n_said);
	return err_set(e, ERR_MODEL, "%.80s: %s not supported: %.260s%s; korch-submit --check says all",
	    m->file, n_real == 1 ? "an operator is" : arena_printf(m->arena, "%u operators are", n_real),
	    sb.p, advice_for(m->arena, list, n));
}
