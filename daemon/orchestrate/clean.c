/* daemon/orchestrate/clean.c: from the program as given to the one that is solved.
 *
 * A kernel that can never run (some input cannot be made) and one that makes nothing that any
 * plan needs are dropped; outputs nobody needs are taken away; kernels with equal reads and makes
 * are joined, the cheapest standing for all.  Each step keeps every optimum's cost. */
#include "blp_int.h"

#include <stdlib.h>
#include <string.h>

struct adjacency
adjacency_make(struct arena *a, uint32_t n, const uint32_t *count)
{
	struct adjacency l = {NEW_ARRAY(a, uint32_t, (size_t)n + 1), NULL};
	size_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		l.first[i] = ck_u32(sum);
		sum += count[i];
	}
	l.first[n] = ck_u32(sum);
	l.item = NEW_ARRAY(a, uint32_t, sum);
	return l;
}

struct adjacency
adjacency_invert(struct arena *a, uint32_t n_from, uint32_t n_to, struct adjacency l)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, (size_t)n_to + 1);
	struct adjacency inv;

	for (uint32_t j = 0; j < l.first[n_from]; j++)
		count[l.item[j]]++;
	inv = adjacency_make(a, n_to, count);
	memcpy(count, inv.first, sizeof(*count) * n_to);
	for (uint32_t i = 0; i < n_from; i++)
		for (uint32_t j = l.first[i]; j < l.first[i + 1]; j++)
			inv.item[count[l.item[j]]++] = i;
	return inv;
}

/* What holds while cleaning; all in blp numbers. */
struct clean {
	struct arena *a;
	const struct blp *p;
	bool *is_given, *is_wanted, *is_needed;
	bool *can_run;
	struct adjacency readers, makers;
};

static bool
check_numbers(const struct blp *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_given; i++)
		if (p->given[i] >= p->n_tensors)
			return err_set(
			    e, ERR_MODEL, "given tensor %u is not one of %u", p->given[i], p->n_tensors);
	for (uint32_t i = 0; i < p->n_wanted; i++)
		if (p->wanted[i] >= p->n_tensors)
			return err_set(
			    e, ERR_MODEL, "wanted tensor %u is not one of %u", p->wanted[i], p->n_tensors);
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const struct blp_kernel *b = &p->kernels[k];

		for (uint32_t i = 0; i < b->n_in; i++)
			if (b->in[i] >= p->n_tensors)
				return err_set(e, ERR_MODEL, "kernel %u reads tensor %u of %u", k, b->in[i],
				    p->n_tensors);
		for (uint32_t i = 0; i < b->n_out; i++)
			if (b->out[i] >= p->n_tensors)
				return err_set(e, ERR_MODEL, "kernel %u makes tensor %u of %u", k, b->out[i],
				    p->n_tensors);
		if (b->n_out == 0)
			return err_set(e, ERR_MODEL, "kernel %u makes nothing", k);
	}
	for (uint32_t r = 0; r < p->n_rows; r++)
		for (uint32_t i = 0; i < p->rows[r].n; i++)
			if (p->rows[r].kernels[i] >= p->n_kernels)
				return err_set(e, ERR_MODEL, "row %u has kernel %u of %u", r,
				    p->rows[r].kernels[i], p->n_kernels);
	return true;
}

static struct adjacency
kernel_lists(struct arena *a, const struct blp *p, bool of_inputs)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, p->n_kernels);
	struct adjacency l;

	for (uint32_t k = 0; k < p->n_kernels; k++)
		count[k] = of_inputs ? p->kernels[k].n_in : p->kernels[k].n_out;
	l = adjacency_make(a, p->n_kernels, count);
	for (uint32_t k = 0; k < p->n_kernels; k++)
		if (count[k])
			memcpy(l.item + l.first[k], of_inputs ? p->kernels[k].in : p->kernels[k].out,
			    sizeof(uint32_t) * count[k]);
	return l;
}

/* Runs all that can run, but for the kernels marked in `without` (may be NULL). */
static void
run_all(const struct clean *c, struct arena *a, const bool *without, bool *has_run, bool *made)
{
	const struct blp *p = c->p;
	uint32_t *missing = NEW_ARRAY(a, uint32_t, p->n_kernels);
	uint32_t *queue = NEW_ARRAY(a, uint32_t, (size_t)p->n_tensors + 1), n = 0;

	for (uint32_t i = 0; i < p->n_given; i++)
		if (!made[p->given[i]]) {
			made[p->given[i]] = true;
			queue[n++] = p->given[i];
		}
	for (uint32_t k = 0; k < p->n_kernels; k++)
		missing[k] = p->kernels[k].n_in + 1;
	for (uint32_t k = 0; k < p->n_kernels + n; k++) {
		/* First all kernels once (those without inputs run), then the queue. */
		uint32_t n_readers = 1;
		const uint32_t *reader = &k;

		if (k >= p->n_kernels) {
			uint32_t t = queue[k - p->n_kernels];

			reader = c->readers.item + c->readers.first[t];
			n_readers = c->readers.first[t + 1] - c->readers.first[t];
		}
		for (uint32_t j = 0; j < n_readers; j++) {
			uint32_t r = reader[j];

			if (--missing[r] || (without && without[r]))
				continue;
			has_run[r] = true;
			for (uint32_t o = 0; o < p->kernels[r].n_out; o++)
				if (!made[p->kernels[r].out[o]]) {
					made[p->kernels[r].out[o]] = true;
					queue[n++] = p->kernels[r].out[o];
				}
		}
	}
}

/* From what is wanted backwards through kernels that can run. */
static void
find_needed(struct clean *c)
{
	const struct blp *p = c->p;
	uint32_t *queue = NEW_ARRAY(c->a, uint32_t, (size_t)p->n_tensors + 1), n = 0;

	for (uint32_t i = 0; i < p->n_wanted; i++) {
		uint32_t t = p->wanted[i];

		c->is_wanted[t] = !c->is_given[t];
		if (!c->is_given[t] && !c->is_needed[t]) {
			c->is_needed[t] = true;
			queue[n++] = t;
		}
	}
	for (uint32_t q = 0; q < n; q++)
		for (uint32_t j = c->makers.first[queue[q]]; j < c->makers.first[queue[q] + 1]; j++) {
			const struct blp_kernel *b = &p->kernels[c->makers.item[j]];

			if (!c->can_run[c->makers.item[j]])
				continue;
			for (uint32_t i = 0; i < b->n_in; i++)
				if (!c->is_given[b->in[i]] && !c->is_needed[b->in[i]]) {
					c->is_needed[b->in[i]] = true;
					queue[n++] = b->in[i];
				}
		}
}

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

static uint32_t
sort_unique(uint32_t *v, uint32_t n)
{
	uint32_t m = 0;

	if (n < 2)
		return n;
	qsort(v, n, sizeof(*v), by_number);
	for (uint32_t i = 0; i < n; i++)
		if (m == 0 || v[m - 1] != v[i])
			v[m++] = v[i];
	return m;
}

/* A kernel's needed reads or makes as new tensor numbers. */
static uint32_t
translate(const struct clean *c, const uint32_t *number, const uint32_t *list, uint32_t n, uint32_t *to)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++)
		if (c->is_needed[list[i]])
			to[m++] = number[list[i]];
	return sort_unique(to, m);
}

/* What a kernel reads it need not make. */
static uint32_t
subtract(uint32_t *v, uint32_t n, const uint32_t *w, uint32_t n_w)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		bool is_in = false;

		for (uint32_t j = 0; j < n_w; j++)
			is_in |= w[j] == v[i];
		if (!is_in)
			v[m++] = v[i];
	}
	return m;
}

struct cleaned_kernel {
	uint32_t source, n_in, n_out;
	uint32_t *in, *out;
	uint64_t hash;
};

static int
by_shape(const void *x, const void *y)
{
	const struct cleaned_kernel *a = x, *b = y;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->source > b->source) - (a->source < b->source);
}

static bool
same_shape(const struct cleaned_kernel *a, const struct cleaned_kernel *b)
{
	return a->hash == b->hash && a->n_in == b->n_in && a->n_out == b->n_out &&
	    memcmp(a->in, b->in, sizeof(*a->in) * a->n_in) == 0 &&
	    memcmp(a->out, b->out, sizeof(*a->out) * a->n_out) == 0;
}

/* leader[i] for the i-th cleaned kernel: the first of equals. */
static uint32_t *
find_leaders(struct arena *a, const struct cleaned_kernel *ck, uint32_t n)
{
	struct cleaned_kernel *sorted = arena_dup(a, ck, sizeof(*ck) * n);
	uint32_t *leader = NEW_ARRAY(a, uint32_t, n), *place;
	uint32_t max = 0;

	for (uint32_t i = 0; i < n; i++)
		max = MAX_OF(max, ck[i].source);
	place = NEW_ARRAY(a, uint32_t, (size_t)max + 1);
	for (uint32_t i = 0; i < n; i++)
		place[ck[i].source] = i;
	qsort(sorted, n, sizeof(*sorted), by_shape);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = i;

		/* Runs of equal hashes are short; a collision only needs the longer way back. */
		while (j > 0 && sorted[j - 1].hash == sorted[i].hash)
			j--;
		while (j < i && !same_shape(&sorted[j], &sorted[i]))
			j++;
		leader[place[sorted[i].source]] = place[sorted[j].source];
	}
	return leader;
}

static void
fill_prog(
    struct arena *a, struct prog *g, const struct cleaned_kernel *ck, uint32_t n, const uint32_t *leader)
{
	uint32_t *number = NEW_ARRAY(a, uint32_t, n), *n_in = NEW_ARRAY(a, uint32_t, n);
	uint32_t *n_out = NEW_ARRAY(a, uint32_t, n), *n_duplicate = NEW_ARRAY(a, uint32_t, n);

	for (uint32_t i = 0; i < n; i++) {
		if (leader[i] == i) {
			number[i] = g->n_kernels++;
			n_in[number[i]] = ck[i].n_in;
			n_out[number[i]] = ck[i].n_out;
		}
		n_duplicate[number[leader[i]]]++;
		g->kernel_of[ck[i].source] = number[leader[i]];
	}
	g->in = adjacency_make(a, g->n_kernels, n_in);
	g->out = adjacency_make(a, g->n_kernels, n_out);
	g->duplicates = adjacency_make(a, g->n_kernels, n_duplicate);
	memset(n_duplicate, 0, sizeof(*n_duplicate) * n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = number[leader[i]];

		g->duplicates.item[g->duplicates.first[k] + n_duplicate[k]++] = ck[i].source;
		if (leader[i] != i)
			continue;
		if (ck[i].n_in)
			memcpy(g->in.item + g->in.first[k], ck[i].in, sizeof(uint32_t) * ck[i].n_in);
		memcpy(g->out.item + g->out.first[k], ck[i].out, sizeof(uint32_t) * ck[i].n_out);
	}
	g->makers = adjacency_invert(a, g->n_kernels, g->n_tensors, g->out);
	g->readers = adjacency_invert(a, g->n_kernels, g->n_tensors, g->in);
	g->cost = NEW_ARRAY(a, int64_t, g->n_kernels);
	g->best = NEW_ARRAY(a, uint32_t, g->n_kernels);
}

static void
clean_kernels(struct clean *c, struct prog *g, const uint32_t *number)
{
	const struct blp *p = c->p;
	struct cleaned_kernel *ck = NEW_ARRAY(c->a, struct cleaned_kernel, p->n_kernels);
	uint32_t n = 0;

	g->n_source = p->n_kernels;
	g->kernel_of = NEW_ARRAY(c->a, uint32_t, p->n_kernels);
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const struct blp_kernel *b = &p->kernels[k];
		struct cleaned_kernel *q = &ck[n];

		g->kernel_of[k] = NONE;
		if (!c->can_run[k])
			continue;
		q->source = k;
		q->in = NEW_ARRAY(c->a, uint32_t, b->n_in);
		q->out = NEW_ARRAY(c->a, uint32_t, b->n_out);
		q->n_in = translate(c, number, b->in, b->n_in, q->in);
		q->n_out = translate(c, number, b->out, b->n_out, q->out);
		q->n_out = subtract(q->out, q->n_out, q->in, q->n_in);
		q->hash = hash64(q->in, sizeof(*q->in) * q->n_in, 1);
		q->hash = hash64(q->out, sizeof(*q->out) * q->n_out, q->hash);
		n += q->n_out > 0;
	}
	fill_prog(c->a, g, ck, n, find_leaders(c->a, ck, n));
}

/* Hints keep the numbers of the struct blp: a tensor that no kernel shows still joins its
 * neighbours. */
static void
take_nodes(struct arena *a, const struct blp *p, const struct clean *c, struct prog *g)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, p->n_nodes), m = 0;

	g->n_landmarks = p->n_tensors;
	g->node_tensor = NEW_ARRAY(a, uint32_t, p->n_nodes);
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (p->nodes[i].tensor < p->n_tensors)
			count[i] = p->nodes[i].n_in;
	g->node_in = adjacency_make(a, p->n_nodes, count);
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		g->node_tensor[i] = p->nodes[i].tensor < p->n_tensors ? p->nodes[i].tensor : NONE;
		for (uint32_t j = 0; j < count[i]; j++) {
			uint32_t t = p->nodes[i].in[j];

			g->node_in.item[m++] = t < p->n_tensors && !c->is_given[t] ? t : NONE;
		}
	}
	g->n_nodes = p->n_nodes;
}

/* Some plan does without the kernels marked. */
static bool
can_do_without(const struct clean *c, struct arena *tmp, const bool *without)
{
	bool *made = NEW_ARRAY(tmp, bool, c->p->n_tensors);

	run_all(c, tmp, without, NEW_ARRAY(tmp, bool, c->p->n_kernels), made);
	for (uint32_t t = 0; t < c->p->n_tensors; t++)
		if (c->is_wanted[t] && !made[t])
			return false;
	return true;
}

/* Given rows that hold, over the kernels that are left. */
static void
take_rows(struct arena *a, const struct clean *c, struct prog *g)
{
	const struct blp *p = c->p;
	uint32_t *item = NULL, *first = NEW_ARRAY(a, uint32_t, (size_t)p->n_rows + 1), n = 0, cap = 0;
	struct arena tmp = {0};

	for (uint32_t i = 0; i < p->n_rows; i++) {
		const struct blp_row *row = &p->rows[i];
		bool *is_in = NEW_ARRAY(&tmp, bool, p->n_kernels),
		     *is_left = NEW_ARRAY(&tmp, bool, g->n_kernels);

		for (uint32_t j = 0; j < row->n; j++) {
			is_in[row->kernels[j]] = true;
			if (g->kernel_of[row->kernels[j]] != NONE)
				is_left[g->kernel_of[row->kernels[j]]] = true;
		}
		if (!can_do_without(c, &tmp, is_in)) {
			for (uint32_t k = 0; k < g->n_kernels; k++)
				if (is_left[k]) {
					GROW(a, item, n, cap);
					item[n++] = k;
				}
			first[++g->n_rows] = n;
		}
		arena_fini(&tmp);
	}
	g->row = (struct adjacency){first, item};
}

/* The frontier programme takes tensors in order, so the order decides how wide its frontier is:
 * depth first from what is wanted, operands before results, one branch after the other.
 * Returns how many; order[i] is the i-th tensor. */
static uint32_t
depth_first(const struct clean *c, uint32_t *order)
{
	const struct blp *p = c->p;
	uint32_t *count = NEW_ARRAY(c->a, uint32_t, p->n_tensors), n = 0, top;
	uint32_t *at = NEW_ARRAY(c->a, uint32_t, p->n_tensors),
		 *stack = NEW_ARRAY(c->a, uint32_t, (size_t)p->n_tensors + 1);
	bool *is_seen = NEW_ARRAY(c->a, bool, p->n_tensors);
	struct adjacency before;

	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (p->nodes[i].tensor < p->n_tensors)
			count[p->nodes[i].tensor] += p->nodes[i].n_in;
	before = adjacency_make(c->a, p->n_tensors, count);
	memset(count, 0, sizeof(*count) * p->n_tensors);
	for (uint32_t i = 0; i < p->n_nodes; i++)
		for (uint32_t j = 0; p->nodes[i].tensor < p->n_tensors && j < p->nodes[i].n_in; j++) {
			uint32_t t = p->nodes[i].tensor;

			before.item[before.first[t] + count[t]++] = p->nodes[i].in[j];
		}
	for (uint32_t root = 0; root < p->n_tensors; root++) {
		if (!c->is_wanted[root] || is_seen[root])
			continue;
		is_seen[stack[0] = root] = true;
		for (top = 1; top > 0;) {
			uint32_t t = stack[top - 1];

			if (at[t] < count[t]) {
				uint32_t u = before.item[before.first[t] + at[t]++];

				if (u < t && !is_seen[u])
					is_seen[stack[top++] = u] = true;
			} else {
				order[n++] = t;
				top--;
			}
		}
	}
	for (uint32_t t = 0; t < p->n_tensors; t++)
		if (!is_seen[t])
			order[n++] = t;
	return n;
}

bool
prog_make(struct arena *a, const struct blp *p, struct prog *g, struct err *e)
{
	struct clean c = {.a = a, .p = p};
	uint32_t *number = NEW_ARRAY(a, uint32_t, p->n_tensors);
	uint32_t *order = NEW_ARRAY(a, uint32_t, p->n_tensors), n;

	*g = (struct prog){0};
	if (!check_numbers(p, e))
		return false;
	c.is_given = NEW_ARRAY(a, bool, p->n_tensors);
	c.is_wanted = NEW_ARRAY(a, bool, p->n_tensors);
	c.is_needed = NEW_ARRAY(a, bool, p->n_tensors);
	c.can_run = NEW_ARRAY(a, bool, p->n_kernels);
	c.readers = adjacency_invert(a, p->n_kernels, p->n_tensors, kernel_lists(a, p, true));
	c.makers = adjacency_invert(a, p->n_kernels, p->n_tensors, kernel_lists(a, p, false));
	for (uint32_t i = 0; i < p->n_given; i++)
		c.is_given[p->given[i]] = true;
	run_all(&c, a, NULL, c.can_run, NEW_ARRAY(a, bool, p->n_tensors));
	find_needed(&c);
	g->tensor_of = NEW_ARRAY(a, uint32_t, p->n_tensors);
	g->is_wanted = NEW_ARRAY(a, bool, p->n_tensors);
	n = depth_first(&c, order);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t t = order[i];

		if (!c.is_needed[t])
			continue;
		g->is_wanted[g->n_tensors] = c.is_wanted[t];
		g->tensor_of[g->n_tensors] = t;
		number[t] = g->n_tensors++;
	}
	clean_kernels(&c, g, number);
	take_nodes(a, p, &c, g);
	take_rows(a, &c, g);
	return true;
}

void
prog_set_costs(struct prog *g, const int64_t *cost)
{
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		g->best[k] = g->duplicates.item[g->duplicates.first[k]];
		for (uint32_t j = g->duplicates.first[k]; j < g->duplicates.first[k + 1]; j++)
			if (cost[g->duplicates.item[j]] < cost[g->best[k]])
				g->best[k] = g->duplicates.item[j];
		g->cost[k] = cost[g->best[k]];
	}
}

int64_t
prog_cost_of(const struct prog *g, const uint32_t *set, uint32_t n)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (g->cost[set[i]] == BLP_NEVER)
			return BLP_NEVER;
		sum += g->cost[set[i]];
	}
	return sum;
}

bool
prog_schedule(
    struct arena *tmp, const struct prog *g, uint32_t *set, uint32_t n, uint32_t *n_run, uint8_t *made)
{
	struct arena_mark mark = arena_mark(tmp);
	uint8_t *have = made ? made : NEW_ARRAY(tmp, uint8_t, (size_t)g->n_tensors + 1);
	uint32_t run = 0;
	bool moved = true, all = true;

	memset(have, 0, g->n_tensors);
	while (moved) {
		moved = false;
		for (uint32_t i = run; i < n; i++) {
			uint32_t k = set[i], j = g->in.first[k];

			while (j < g->in.first[k + 1] && have[g->in.item[j]])
				j++;
			if (j < g->in.first[k + 1])
				continue;
			for (j = g->out.first[k]; j < g->out.first[k + 1]; j++)
				have[g->out.item[j]] = 1;
			/* Keeps the order of those that wait. */
			memmove(&set[run + 1], &set[run], sizeof(*set) * (i - run));
			set[run++] = k;
			moved = true;
		}
	}
	for (uint32_t t = 0; t < g->n_tensors; t++)
		all &= !g->is_wanted[t] || have[t];
	if (n_run)
		*n_run = run;
	arena_reset(tmp, mark);
	return all && run == n;
}
