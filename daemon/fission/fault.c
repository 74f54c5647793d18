/* daemon/fission/fault.c: what is said when a node fails: which shapes met and where they come from; which
 * inputs a value hangs on that had to be known; and, of what could not be made, the node at the root of it,
 * not the chain. */
#include "fission_int.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMED = 3, SMALL_INPUT = 4096 };

/* ---- what a value hangs on --------------------------------------------------------------------- */
/* Per tensor: does t's value depend on it?  Backwards, as nodes stand behind what they read. */
static bool *
ancestors(const struct fission *f, tensor_id t)
{
	bool *seen = NEW_ARRAY(f->a, bool, f->g->n_tensors);

	seen[t.i] = true;
	for (uint32_t i = f->g->n_nodes; i-- > 0;) {
		const struct node *n = &f->g->nodes[i];
		bool is_read = false;

		for (uint32_t k = 0; k < n->n_out; k++)
			is_read |= seen[n->out[k].i];
		for (uint32_t k = 0; is_read && k < n->n_in; k++)
			seen[n->in[k].i] = true;
	}
	return seen;
}

static uint32_t
inputs_in(const struct fission *f, const bool *seen, uint32_t *list, uint32_t most)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->g->n_inputs; i++) {
		if (!seen[f->g->inputs[i].i])
			continue;
		if (n < most)
			list[n] = i;
		n++;
	}
	return n;
}

uint32_t
f_inputs_of(const struct fission *f, tensor_id t, uint32_t *list, uint32_t most)
{
	return inputs_in(f, ancestors(f, t), list, most);
}

static const struct model_value *
input(const struct fission *f, uint32_t i)
{
	return &f->m->values[f->m->inputs[i]];
}

static bool
is_comparison(enum prim p)
{
	return p == PRIM_eq || p == PRIM_lt || p == PRIM_le;
}

/* The number that the input is compared with on the way. */
static bool
compared_with(const struct fission *f, const bool *seen, double *v)
{
	for (uint32_t i = 0; i < f->g->n_nodes; i++) {
		const struct node *n = &f->g->nodes[i];

		if (!is_comparison(n->prim) || !seen[n->out[0].i])
			continue;
		for (uint32_t k = 0; k < 2; k++) {
			const struct tensor *t = graph_tensor(f->g, n->in[k]);
			const void *data = n->in[k].i < f->n_notes ? f->notes[n->in[k].i].data : NULL;

			if (data && shape_count(&t->shape) == 1) {
				*v = elem_get(t->type, data, 0);
				return true;
			}
		}
	}
	return false;
}

static void
add_example(struct strbuf *sb, const struct fission *f, const struct model_value *v, const bool *seen)
{
	double number;

	sb_addf(sb, "--value %.60s=", v->name);
	if (v->type == DT_bool)
		sb_addz(sb, "true");
	else if (compared_with(f, seen, &number))
		sb_addf(sb, "%.15g", number);
	else
		sb_addz(sb, "...");
}

const char *
f_hangs_on(struct fission *f, tensor_id t)
{
	const bool *seen = ancestors(f, t);
	uint32_t list[MAX_NAMED], n = inputs_in(f, seen, list, MAX_NAMED);
	bool is_small = n > 0;
	struct strbuf sb;

	f->is_said = true;
	sb_init(&sb, f->a);
	sb_addf(&sb, "the input%s", n == 1 ? "" : "s");
	for (uint32_t i = 0; i < n && i < MAX_NAMED; i++)
		sb_addf(&sb, "%s '%.60s'", i ? "," : "", input(f, list[i])->name);
	sb_addz(&sb, n > MAX_NAMED ? ", ..." : "");
	for (uint32_t i = 0; i < n && i < MAX_NAMED; i++)
		is_small &= shape_count(&input(f, list[i])->shape) <= SMALL_INPUT;
	if (n == 0 || n > MAX_NAMED || !is_small)
		return n ? sb.p : "the inputs";
	sb_addf(&sb, " (bind %s, as with", n == 1 ? "it" : "them");
	for (uint32_t i = 0; i < n; i++) {
		sb_addc(&sb, ' ');
		add_example(&sb, f, input(f, list[i]), seen);
	}
	sb_addc(&sb, ')');
	return sb.p;
}

/* ---- which operands met ------------------------------------------------------------------------- */
/* Where a tensor's shape comes from, as far as it can be told. */
static void
add_source(struct strbuf *sb, const struct fission *f, tensor_id t)
{
	uint32_t list[64], n = f_inputs_of(f, t, list, COUNT_OF(list));
	const char *by = NULL;

	if (n == 0) {
		sb_addz(sb, " (a constant)");
		return;
	}
	for (uint32_t i = 0; i < MIN_OF(n, (uint32_t)COUNT_OF(list)) && !by; i++)
		by = input(f, list[i])->shape_by;
	if (by)
		sb_addf(sb, " (from %.80s)", by);
	else if (n == 1 && f->g->inputs[list[0]].i == t.i)
		sb_addz(sb, " (an input)");
	else if (n == 1)
		sb_addf(sb, " (from the input '%.40s')", input(f, list[0])->name);
}

void
f_say_operands(struct fission *f)
{
	struct strbuf sb;
	char msg[sizeof(f->e->msg)];
	uint32_t n = 0;

	sb_init(&sb, f->a);
	for (uint32_t i = 0; i < f->node->n_in && !f->is_said; i++) {
		tensor_id t = f->node->in[i] == NO_VALUE ? NO_TENSOR : f->of_value[f->node->in[i]];

		if (t.i == NO_TENSOR.i)
			continue;
		if (n++ == MAX_NAMED) {
			sb_addz(&sb, ", ...");
			break;
		}
		sb_addf(&sb, "%s'%.40s' %s", n > 1 ? ", " : "; operands: ", f->m->values[f->node->in[i]].name,
		    dtype_name(b_type(f, t)));
		shape_print(&sb, b_shape(f, t));
		add_source(&sb, f, t);
	}
	(void)snprintf(msg, sizeof(msg), "%s", f->e->msg);
	if (sb.n)
		(void)err_set(f->e, f->e->code, "%s%s", msg, sb.p);
}

/* ---- going on ------------------------------------------------------------------------------------ */
void
f_add_fault(struct fission *f, const char *why)
{
	struct fission_faults *l = f->faults;

	GROW(f->a, l->list, l->n, l->cap);
	l->list[l->n++] = (struct fission_fault){.node = f->node, .why = why};
}

void
f_note_fault(struct fission *f)
{
	const struct model_node *n = f->node;
	const char *why = f->absent;

	if (!why)
		why = arena_printf(f->a, "node '%s' (%s): %s", n->name, n->op, f->e->msg);
	/* what fails in a branch matters where the branch is taken, and the If says so then */
	if (f->faults && !n->is_conditional && (!f->absent || strcmp(n->op, "If") == 0))
		f_add_fault(f, arena_printf(f->a, "%s", f->e->msg));
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] != NO_VALUE)
			f->why_absent[n->out[i]] = why;
	f->failed = false;
	f->absent = NULL;
	*f->e = (struct err){0};
}
