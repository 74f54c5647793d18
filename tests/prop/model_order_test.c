/* Renaming and reordering all nodes of a real model leaves every hash unchanged:
 *  - of each candidate, when nodes and tensors of the rewritten graph are permuted;
 *  - of each primitive of the rewritten graph, when the model's own nodes are permuted and renamed.
 * (Which sets become candidates may depend on the order where a limit or a greedy joining decides;
 * their hashes may not.) */
#include "../../daemon/fission/fission.h"
#include "../../daemon/identify/identify.h"
#include "../../daemon/rewrite/rewrite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Hashes of all single primitives, sorted. */
struct hashes {
	struct hash *h;
	uint32_t n;
};

static int
cmp_hash(const void *a, const void *b)
{
	return hash_cmp(a, b);
}

static void
rewritten(struct arena *a, const struct model *m, struct graph *alt)
{
	struct rewrite_opts o = {
	    .normalize = true, .alternatives = true, .worst = NUM_REASSOC, .max_nodes = 20000};
	struct rewrite_stats rs;
	struct fission_stats fs;
	struct graph g;
	struct err e = {0};

	if (!fission_run(a, m, &g, &fs, &e) || !rewrite_run(a, &g, &o, alt, &rs, &e))
		fail_msg("%s", e.msg);
}

static struct hashes
hashes_of(struct arena *a, const struct graph *g)
{
	struct cand_set set;
	struct err e = {0};
	struct hashes out;

	if (!identify_run(a, g, IDENTIFY_NONE, &identify_limits_default, &set, &e))
		fail_msg("%s", e.msg);
	out = (struct hashes){NEW_ARRAY(a, struct hash, set.n_cands), set.n_cands};
	for (uint32_t i = 0; i < set.n_cands; i++)
		out.h[i] = set.specs[set.cands[i].spec].hash;
	qsort(out.h, out.n, sizeof(*out.h), cmp_hash);
	return out;
}

static void
same_hashes(const char *name, struct hashes want, struct hashes have)
{
	uint32_t same = 0;

	while (same < want.n && same < have.n && hash_eq(&want.h[same], &have.h[same]))
		same++;
	if (have.n != want.n || same != want.n)
		fail_msg("%s: %u primitives, %u after reordering; the hashes differ from number %u on", name,
		    want.n, have.n, same);
}

/* A random permutation of 0..n-1. */
static uint32_t *
permutation(struct arena *a, struct rng *r, uint32_t n)
{
	uint32_t *p = NEW_ARRAY(a, uint32_t, n);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = rng_below(r, i + 1);

		p[i] = p[k];
		p[k] = i;
	}
	return p;
}

static tensor_id *
renumber(struct arena *a, const uint32_t *p, const tensor_id *t, uint32_t n)
{
	tensor_id *to = NEW_ARRAY(a, tensor_id, n);

	for (uint32_t i = 0; i < n; i++)
		to[i] = (tensor_id){p[t[i].i]};
	return to;
}

/* The same graph, alternatives included: tensors renumbered, nodes in another order in which all
 * producers of a tensor stand before its readers. */
static void
shuffle_graph(struct graph *to, struct arena *a, struct rng *r, const struct graph *g, const uint32_t *p,
    uint32_t *node_map)
{
	struct graph_index x = graph_index_make(a, g);
	uint32_t *left = NEW_ARRAY(a, uint32_t, g->n_tensors);
	bool *done = NEW_ARRAY(a, bool, g->n_nodes);

	*to = *g;
	to->tensors = NEW_ARRAY(a, struct tensor, g->n_tensors);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		to->tensors[p[t]] = g->tensors[t];
		to->tensors[p[t]].name = NULL;
		left[t] = x.maker_first[t + 1] - x.maker_first[t];
	}
	to->nodes = NEW_ARRAY(a, struct node, g->n_nodes);
	for (to->n_nodes = 0; to->n_nodes < g->n_nodes;) {
		uint32_t i = rng_below(r, g->n_nodes);
		struct node n = g->nodes[i];
		bool ready = !done[i];

		for (uint32_t k = 0; ready && k < n.n_in; k++)
			ready = left[n.in[k].i] == 0;
		if (!ready)
			continue;
		done[i] = true;
		for (uint32_t k = 0; k < n.n_out; k++)
			left[n.out[k].i]--;
		n.in = renumber(a, p, n.in, n.n_in);
		n.out = renumber(a, p, n.out, n.n_out);
		node_map[i] = to->n_nodes;
		to->nodes[to->n_nodes++] = n;
	}
	to->inputs = renumber(a, p, g->inputs, g->n_inputs);
	to->outputs = renumber(a, p, g->outputs, g->n_outputs);
	graph_verify(to);
}

/* The image of every candidate has its hash. */
static void
same_images(struct arena *a, struct rng *r, const struct graph *g)
{
	struct graph to;
	uint32_t *p = permutation(a, r, g->n_tensors), *node_map = NEW_ARRAY(a, uint32_t, g->n_nodes);
	struct cand_set candidates, *set = &candidates;
	struct err e = {0};

	if (!identify_run(a, g, IDENTIFY_FULL, &identify_limits_default, set, &e))
		fail_msg("%s", e.msg);
	assert_true(set->n_cands > 50);
	shuffle_graph(&to, a, r, g, p, node_map);
	for (uint32_t i = 0; i < set->n_cands; i++) {
		const struct cand *c = &set->cands[i];
		struct arena_mark m = arena_mark(a);
		struct bitset members = bitset_make(a, to.n_nodes);
		struct spec s;

		BITSET_EACH(k, &c->members)
		bit_set(&members, node_map[k]);
		spec_make(a, &to, &members, renumber(a, p, c->out, c->n_out), c->n_out, &s, NULL);
		if (!hash_eq(&s.hash, &set->specs[c->spec].hash))
			fail_msg("candidate %u:\n%s---\n%s", i, set->specs[c->spec].text.p, s.text.p);
		arena_reset(a, m);
	}
}

/* Nodes in a random topological order, all names new. */
static void
shuffle_model(struct arena *a, struct rng *r, struct model *m)
{
	struct model_node *to = NEW_ARRAY(a, struct model_node, m->n_nodes);
	bool *made = NEW_ARRAY(a, bool, m->n_values), *done = NEW_ARRAY(a, bool, m->n_nodes);
	uint32_t n = 0;

	memset(made, 1, m->n_values);
	for (uint32_t i = 0; i < m->n_nodes; i++)
		for (uint32_t k = 0; k < m->nodes[i].n_out; k++)
			if (m->nodes[i].out[k] != NO_VALUE)
				made[m->nodes[i].out[k]] = false;
	while (n < m->n_nodes) {
		uint32_t i = rng_below(r, m->n_nodes);
		bool ready = !done[i];

		for (uint32_t k = 0; ready && k < m->nodes[i].n_in; k++)
			ready = m->nodes[i].in[k] == NO_VALUE || made[m->nodes[i].in[k]];
		if (!ready)
			continue;
		for (uint32_t k = 0; k < m->nodes[i].n_out; k++)
			if (m->nodes[i].out[k] != NO_VALUE)
				made[m->nodes[i].out[k]] = true;
		done[i] = true;
		to[n] = m->nodes[i];
		to[n].name = arena_printf(a, "renamed_%u", n);
		n++;
	}
	m->nodes = to;
	for (uint32_t i = 0; i < m->n_values; i++)
		m->values[i].name = arena_printf(a, "v%u", m->n_values - i);
}

static void
read_model(struct arena *a, const char *dir, const char *name, struct model *m)
{
	char *folder = arena_printf(a, "%s/%s", dir, name);
	struct bytes onnx;
	struct err e = {0};

	if (!os_read_file(os_real(), a, arena_printf(a, "%s/model.onnx", folder), 1 << 28, &onnx, &e) ||
	    !model_read(a, onnx, name, folder, &model_limits_default, m, &e))
		fail_msg("%s", e.msg);
}

static void
order_and_names_do_not_matter(void **state)
{
	static const char *const names[] = {
	    "candy_small", "efficientvit_small", "segformer_b0_small", "yolov4_small", "yolox_nano_small"};
	const char *dir = *state;

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct arena a = {0};
		struct rng r = {i + 1};
		struct model m;
		struct graph g, other;
		struct hashes want;

		read_model(&a, dir, names[i], &m);
		rewritten(&a, &m, &g);
		same_images(&a, &r, &g);
		want = hashes_of(&a, &g);
		assert_true(want.n > 10);
		shuffle_model(&a, &r, &m);
		rewritten(&a, &m, &other);
		same_hashes(names[i], want, hashes_of(&a, &other));
		arena_fini(&a);
	}
}

static int
unpack(void **state)
{
	static char dir[] = "/tmp/korch-order-XXXXXX";
	struct arena a = {0};
	int status;

	if (!mkdtemp(dir))
		return -1;
	*state = dir;
	status = system(arena_printf(
	    &a, "tar xJf %s/tests/models/small.tar.xz -C %s --strip-components=1", KORCH_SOURCE_DIR, dir));
	arena_fini(&a);
	return status;
}

static int
remove_folder(void **state)
{
	struct arena a = {0};
	int status = system(arena_printf(&a, "rm -rf %s", (const char *)*state));

	arena_fini(&a);
	return status;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(order_and_names_do_not_matter),
	};

	return cmocka_run_group_tests(tests, unpack, remove_folder);
}
