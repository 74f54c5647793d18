/* tests/unit/model_test.c: ONNX bytes, good and bad.  The protobuf bytes are written here by
 * hand, field by field, so that a test can be wrong in exactly one place. */
#include "../../daemon/model/model.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- a writer of protobuf fields ------------------------------------------------------ */
static void
varint(struct strbuf *sb, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		sb_addc(sb, (char)((v & 0x7f) | 0x80));
	sb_addc(sb, (char)v);
}

static void
put_int(struct strbuf *sb, int field, int64_t v)
{
	varint(sb, (uint64_t)field << 3);
	varint(sb, (uint64_t)v);
}

static void
put_bytes(struct strbuf *sb, int field, struct str s)
{
	varint(sb, (uint64_t)field << 3 | 2);
	varint(sb, s.n);
	sb_add(sb, s);
}

static void
put_text(struct strbuf *sb, int field, const char *s)
{
	put_bytes(sb, field, str_of(s));
}

struct writer {
	struct arena a;
	struct strbuf graph, functions;
	int64_t opset, ir;
};

static struct strbuf
new_text(struct writer *w)
{
	struct strbuf sb;

	sb_init(&sb, &w->a);
	return sb;
}

static void
start(struct writer *w)
{
	*w = (struct writer){.opset = 13, .ir = 8};
	sb_init(&w->graph, &w->a);
	sb_init(&w->functions, &w->a);
}

/* "in in -> out" as a NodeProto, with one integer attribute when it has a name. */
static struct str
node_text(struct writer *w, const char *op, const char *name, const char *ins, const char *outs,
    const char *attr, const char *ref)
{
	struct strbuf sb = new_text(w);
	struct str rest;

	for (rest = str_of(ins); rest.n > 0;)
		put_bytes(&sb, 1, str_cut(&rest, ' '));
	for (rest = str_of(outs); rest.n > 0;)
		put_bytes(&sb, 2, str_cut(&rest, ' '));
	put_text(&sb, 3, name);
	put_text(&sb, 4, op);
	if (attr) {
		struct strbuf at = new_text(w);
		put_text(&at, 1, attr);
		put_int(&at, 20, 2);
		if (ref)
			put_text(&at, 21, ref);
		else
			put_int(&at, 3, 1);
		put_bytes(&sb, 5, sb_str(&at));
	}
	return sb_str(&sb);
}

static void
node(struct writer *w, const char *op, const char *name, const char *ins, const char *outs)
{
	put_bytes(&w->graph, 1, node_text(w, op, name, ins, outs, NULL, NULL));
}

/* dims: >= 0 a number, -1 the symbol "n" */
static void
value(struct writer *w, int field, const char *name, int rank, const int64_t *dims)
{
	struct strbuf shape = new_text(w), tensor = new_text(w), type = new_text(w), info = new_text(w);

	for (int i = 0; i < rank; i++) {
		struct strbuf d = new_text(w);
		if (dims[i] >= 0)
			put_int(&d, 1, dims[i]);
		else
			put_text(&d, 2, "n");
		put_bytes(&shape, 1, sb_str(&d));
	}
	put_int(&tensor, 1, 1);
	put_bytes(&tensor, 2, sb_str(&shape));
	put_bytes(&type, 1, sb_str(&tensor));
	put_text(&info, 1, name);
	put_bytes(&info, 2, sb_str(&type));
	put_bytes(&w->graph, field, sb_str(&info));
}

static void
input(struct writer *w, const char *name, int64_t n)
{
	value(w, 11, name, 1, &n);
}

static void
output(struct writer *w, const char *name, int64_t n)
{
	value(w, 12, name, 1, &n);
}

/* An initializer with raw data of `n_raw` bytes, or external data at a location. */
static void
init(struct writer *w, const char *name, int type, int64_t dim, size_t n_raw, const char *location)
{
	struct strbuf t = new_text(w);

	put_int(&t, 1, dim);
	put_int(&t, 2, type);
	put_text(&t, 8, name);
	if (location) {
		struct strbuf s = new_text(w);
		put_text(&s, 1, "location");
		put_text(&s, 2, location);
		put_bytes(&t, 13, sb_str(&s));
		put_int(&t, 14, 1);
	} else {
		put_bytes(&t, 9, (struct str){arena_alloc(&w->a, n_raw + 1), n_raw});
	}
	put_bytes(&w->graph, 5, sb_str(&t));
}

static void
start_again(struct writer *w)
{
	arena_fini(&w->a);
	start(w);
}

static struct bytes
finish(struct writer *w)
{
	struct strbuf m = new_text(w), opset = new_text(w);

	put_int(&m, 1, w->ir);
	put_bytes(&m, 7, sb_str(&w->graph));
	put_text(&opset, 1, "");
	put_int(&opset, 2, w->opset);
	put_bytes(&m, 8, sb_str(&opset));
	sb_add(&m, sb_str(&w->functions));
	return (struct bytes){(const uint8_t *)m.p, m.n};
}

/* Reads what was written; the message must be exactly `want` (NULL: no error). */
static void
expect(struct writer *w, struct model *m, const char *dir, const char *want)
{
	struct err e = {0};
	bool ok = model_read(&w->a, finish(w), "m.onnx", dir, NULL, m, &e);

	assert_string_equal(e.msg, want ? want : "");
	assert_int_equal(ok, want == NULL);
}

/* ---- good ----------------------------------------------------------------------------- */
static void
sorts_nodes_and_drops_inputs_with_initializers(void **state)
{
	struct writer w;
	struct model m;

	(void)state;
	start(&w);
	w.ir = 3;
	node(&w, "Add", "second", "t b", "y");
	node(&w, "Relu", "first", "x", "t");
	input(&w, "x", 2);
	input(&w, "b", 2);
	init(&w, "b", 1, 2, 8, NULL);
	output(&w, "y", 2);
	expect(&w, &m, NULL, NULL);
	assert_int_equal(m.n_inputs, 1);
	assert_string_equal(m.values[m.inputs[0]].name, "x");
	assert_string_equal(m.nodes[0].name, "first");
	assert_string_equal(m.nodes[1].name, "second");
	arena_fini(&w.a);
}

/* Function twice(a) = Cast(a + a, to=@to), called with to=1. */
static void
inlines_functions_with_their_attributes(void **state)
{
	struct writer w;
	struct model m;
	struct strbuf f, call;

	(void)state;
	start(&w);
	f = new_text(&w);
	put_text(&f, 1, "Twice");
	put_text(&f, 4, "a");
	put_text(&f, 5, "c");
	put_text(&f, 6, "kind");
	put_bytes(&f, 7, node_text(&w, "Add", "sum", "a a", "b", NULL, NULL));
	put_bytes(&f, 7, node_text(&w, "Cast", "", "b", "c", "to", "kind"));
	put_text(&f, 10, "mine");
	put_bytes(&w.functions, 25, sb_str(&f));
	call = new_text(&w);
	sb_add(&call, node_text(&w, "Twice", "call", "x", "y", "kind", NULL));
	put_text(&call, 7, "mine");
	put_bytes(&w.graph, 1, sb_str(&call));
	input(&w, "x", 2);
	output(&w, "y", 2);
	expect(&w, &m, NULL, NULL);
	assert_int_equal(m.n_nodes, 2);
	assert_string_equal(m.nodes[0].name, "call.1/sum");
	assert_string_equal(m.nodes[1].op, "Cast");
	assert_int_equal(model_attr_find(&m.nodes[1], "to")->i, 1);
	assert_string_equal(m.values[m.outputs[0]].name, "y");
	arena_fini(&w.a);
}

/* If(c) with then { t = Exp(x) } and else { t = Relu(x) }: the branches' names do not meet, their
 * nodes come before, and If has the operands c, t of one, t of the other. */
static void
puts_branches_before_the_choice(void **state)
{
	static const char *const which[] = {"then_branch", "else_branch"}, *const op[] = {"Exp", "Relu"};
	struct writer w;
	struct model m;
	struct strbuf n;
	int64_t dim = 2;

	(void)state;
	start(&w);
	n = new_text(&w);
	sb_add(&n, node_text(&w, "If", "choose", "c", "y", NULL, NULL));
	for (int i = 0; i < 2; i++) {
		struct strbuf at = new_text(&w), g = new_text(&w), out = new_text(&w);
		put_bytes(&g, 1, node_text(&w, op[i], "inner", "x", "t", NULL, NULL));
		put_text(&out, 1, "t");
		put_bytes(&g, 12, sb_str(&out));
		put_text(&at, 1, which[i]);
		put_bytes(&at, 6, sb_str(&g));
		put_int(&at, 20, 5);
		put_bytes(&n, 5, sb_str(&at));
	}
	put_bytes(&w.graph, 1, sb_str(&n));
	input(&w, "x", 2);
	value(&w, 11, "c", 1, &dim);
	output(&w, "y", 2);
	expect(&w, &m, NULL, NULL);
	assert_int_equal(m.n_nodes, 3);
	assert_string_equal(m.nodes[0].op, "Exp");
	assert_true(m.nodes[0].is_conditional);
	assert_string_equal(m.nodes[1].op, "Relu");
	assert_string_equal(m.nodes[2].op, "If");
	assert_false(m.nodes[2].is_conditional);
	assert_int_equal(m.nodes[2].n_in, 3);
	assert_int_equal(m.nodes[2].in[1], m.nodes[0].out[0]);
	assert_int_equal(m.nodes[2].in[2], m.nodes[1].out[0]);
	assert_int_equal(m.nodes[2].n_attr, 0);
	arena_fini(&w.a);
}

/* Dropping them as an unknown field would change the function's meaning. */
static void
refuses_default_attributes_of_functions(void **state)
{
	struct writer w;
	struct model m;
	struct strbuf f;

	(void)state;
	start(&w);
	f = new_text(&w);
	put_text(&f, 1, "F");
	put_text(&f, 11, "");
	put_bytes(&w.functions, 25, sb_str(&f));
	expect(&w, &m, NULL, "m.onnx: it has a function with default attributes; they are not supported");
	arena_fini(&w.a);
}

static void
recursive_functions_end(void **state)
{
	struct writer w;
	struct model m;
	struct strbuf f, call;

	(void)state;
	start(&w);
	f = new_text(&w);
	call = new_text(&w);
	sb_add(&call, node_text(&w, "Again", "call", "a", "b", NULL, NULL));
	put_text(&call, 7, "mine");
	put_text(&f, 1, "Again");
	put_text(&f, 4, "a");
	put_text(&f, 5, "b");
	put_bytes(&f, 7, sb_str(&call));
	put_bytes(&f, 7, sb_str(&call));
	put_text(&f, 10, "mine");
	put_bytes(&w.functions, 25, sb_str(&f));
	put_bytes(&w.graph, 1, sb_str(&call));
	input(&w, "a", 2);
	output(&w, "b", 2);
	struct err e = {0};
	assert_false(model_read(&w.a, finish(&w), "m.onnx", NULL, NULL, &m, &e));
	assert_non_null(strstr(e.msg, "functions call each other more than 32 deep"));
	arena_fini(&w.a);
}

static void
binds_shapes(void **state)
{
	struct writer w;
	struct model m;
	struct err e = {0};
	int64_t dims[] = {-1, 3};

	(void)state;
	start(&w);
	node(&w, "Add", "add", "x z", "y");
	value(&w, 11, "x", 2, dims);
	value(&w, 11, "z", 2, dims);
	output(&w, "y", -1);
	expect(&w, &m, NULL, NULL);
	assert_false(model_bind(&m, STR("q=1x3"), &e));
	assert_string_equal(e.msg,
	    "--shape q: the model has no such input or named extent; its inputs are: x z; its named extents: "
	    "n");
	assert_int_equal(err_exit_status(e.code), 2);
	assert_false(model_bind(&m, STR("x=2x4"), &e));
	assert_string_equal(e.msg, "--shape x=2x4: dimension 1 of this input is already 3, by the file");
	assert_false(model_bind(&m, STR("x=2"), &e));
	assert_false(model_bind(&m, STR("x=2xx"), &e));
	assert_false(model_bind(&m, STR("x"), &e));
	assert_true(model_bind(&m, STR("x=2x3"), &e));
	assert_int_equal(m.values[m.inputs[1]].shape.dim[0], 2);
	arena_fini(&w.a);
}

/* ---- bad ------------------------------------------------------------------------------ */
static void
names_what_is_wrong(void **state)
{
	struct writer w;
	struct model m;

	(void)state;
	start(&w);
	node(&w, "Relu", "r", "nowhere", "y");
	output(&w, "y", 2);
	expect(&w, &m, NULL,
	    "m.onnx: node 'r' (Relu): its operand 0, 'nowhere', is made by no node and is no input");

	start_again(&w);
	node(&w, "Relu", "r", "x", "x");
	input(&w, "x", 2);
	output(&w, "x", 2);
	expect(&w, &m, NULL, "m.onnx: node 'r' (Relu): its result 'x' is made twice");

	start_again(&w);
	node(&w, "Relu", "r", "s", "t");
	node(&w, "Relu", "q", "t", "s");
	output(&w, "s", 2);
	expect(&w, &m, NULL, "m.onnx: the graph has a circle through the nodes 'r', 'q'");

	start_again(&w);
	output(&w, "y", 2);
	expect(&w, &m, NULL, "m.onnx: output 'y' is made by no node and is no input");

	start_again(&w);
	w.opset = 99;
	expect(&w, &m, NULL, "m.onnx: it wants opset 99; supported are 1 to 28");

	start_again(&w);
	w.ir = 99;
	expect(&w, &m, NULL, "m.onnx: its IR version is 99; supported are 3 to 14");
	arena_fini(&w.a);
}

static void
tensors_must_fit_their_shapes(void **state)
{
	struct writer w;
	struct model m;

	(void)state;
	start(&w);
	init(&w, "w", 1, 3, 8, NULL);
	expect(&w, &m, NULL, "m.onnx: initializer: tensor 'w': it has 8 raw bytes where its shape needs 12");

	start_again(&w);
	init(&w, "w", 8, 3, 8, NULL);
	expect(&w, &m, NULL, "m.onnx: initializer: tensor 'w': its type string (8) is not supported");

	start_again(&w);
	init(&w, "w", 1, INT64_MAX / 2, 8, NULL);
	expect(&w, &m, NULL,
	    "m.onnx: initializer: tensor 'w': with it the tensors have more than 4294967296 bytes");

	start_again(&w);
	init(&w, "w", 1, 2, 8, NULL);
	init(&w, "w", 1, 2, 8, NULL);
	expect(&w, &m, NULL, "m.onnx: two initializers are named 'w'");
	arena_fini(&w.a);
}

static void
external_data_stays_in_the_folder(void **state)
{
	char dir[] = "/tmp/korch-model-XXXXXX";
	struct arena names = {0};
	struct writer w;
	struct model m;
	struct err e = {0};
	float v[2] = {1, 2};

	(void)state;
	assert_non_null(mkdtemp(dir));
	start(&w);
	const char *path = arena_printf(&names, "%s/w.bin", dir),
		   *trap = arena_printf(&names, "%s/trap", dir);
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)v, sizeof(v)}, &e));
	assert_int_equal(symlink("/etc/passwd", trap), 0);
	init(&w, "w", 1, 2, 0, "w.bin");
	output(&w, "w", 2);
	expect(&w, &m, dir, NULL);
	assert_memory_equal(m.values[m.outputs[0]].init->data, v, sizeof(v));
	expect(&w, &m, NULL,
	    "m.onnx: initializer: tensor 'w': it has external data ('w.bin'), which cannot be read here");

	start_again(&w);
	init(&w, "w", 1, 2, 0, "sub/../../w.bin");
	expect(&w, &m, dir,
	    "m.onnx: initializer: tensor 'w': its external data 'sub/../../w.bin' lies outside the model's "
	    "folder");
	start_again(&w);
	init(&w, "w", 1, 2, 0, "trap");
	expect(&w, &m, dir,
	    "m.onnx: initializer: tensor 'w': its external data 'trap' lies outside the model's folder");
	start_again(&w);
	init(&w, "w", 1, 3, 0, "w.bin");
	expect(&w, &m, dir,
	    "m.onnx: initializer: tensor 'w': its external data (12 bytes at 0) lies outside 'w.bin' of 8 "
	    "bytes");
	(void)unlink(path);
	(void)unlink(trap);
	(void)rmdir(dir);
	arena_fini(&names);
	arena_fini(&w.a);
}

/* Every prefix of a good file, and thousands with random bytes changed: an error or a model, and
 * nothing else.  Messages deeper than the limit are refused before the library sees them. */
static void
survives_damage(void **state)
{
	struct writer w;
	struct model m;
	struct rng r = {7};

	(void)state;
	start(&w);
	node(&w, "Add", "add", "x b", "y");
	input(&w, "x", 2);
	init(&w, "b", 1, 2, 8, NULL);
	output(&w, "y", 2);
	struct bytes good = finish(&w);
	for (size_t n = 0; n < good.n; n++) {
		struct arena a = {0};
		struct err e = {0};
		void *exact = malloc(MAX_OF(n, 1));
		memcpy(exact, good.p, n);
		bool ok = model_read(&a, (struct bytes){exact, n}, "m.onnx", NULL, NULL, &m, &e);
		assert_true(ok || e.msg[0]);
		free(exact);
		arena_fini(&a);
	}
	for (int i = 0; i < 20000; i++) {
		struct arena a = {0};
		struct err e = {0};
		uint8_t *bad = arena_dup(&a, good.p, good.n);
		for (uint32_t k = rng_below(&r, 4) + 1; k > 0; k--)
			bad[rng_below(&r, (uint32_t)good.n)] = (uint8_t)rng_next(&r);
		bool ok = model_read(&a, (struct bytes){bad, good.n}, "m.onnx", NULL, NULL, &m, &e);
		assert_true(ok || e.msg[0]);
		arena_fini(&a);
	}
	arena_fini(&w.a);
}

/* graph { node { attribute { g { node { attribute { g ... */
static void
refuses_deep_nesting(void **state)
{
	static const int around[] = {1, 5, 6};
	struct writer w;
	struct model m;
	struct err e = {0};

	(void)state;
	start(&w);
	struct str inner = STR("");
	for (int i = 0; i < 3 * 100; i++) {
		struct strbuf sb = new_text(&w);
		put_bytes(&sb, around[2 - i % 3], inner);
		inner = sb_str(&sb);
	}
	sb_add(&w.graph, inner);
	assert_false(model_read(&w.a, finish(&w), "m.onnx", NULL, NULL, &m, &e));
	assert_non_null(strstr(e.msg, "messages are nested too deep"));
	arena_fini(&w.a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sorts_nodes_and_drops_inputs_with_initializers),
	    cmocka_unit_test(inlines_functions_with_their_attributes),
	    cmocka_unit_test(recursive_functions_end),
	    cmocka_unit_test(refuses_default_attributes_of_functions),
	    cmocka_unit_test(puts_branches_before_the_choice),
	    cmocka_unit_test(binds_shapes),
	    cmocka_unit_test(names_what_is_wrong),
	    cmocka_unit_test(tensors_must_fit_their_shapes),
	    cmocka_unit_test(external_data_stays_in_the_folder),
	    cmocka_unit_test(survives_damage),
	    cmocka_unit_test(refuses_deep_nesting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
