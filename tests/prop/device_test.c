/* tests/prop/device_test.c: every primitive, on every type it takes, over awkward shapes: the
 * generated kernel on the device says what the interpreter says.  The cases come from the table
 * of primitives, so a new row is tested unasked.  label: cpu
 * Of the cases without float32 a third runs, always the same; KORCH_DEVICE_ALL=1 runs them all,
 * KORCH_DEVICE_ONLY=NAME those of one primitive. */
#include "../../kernels/generate/generate.h"
#include "../../worker/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 250, MAX_CASES = 1 << 14 };
static const int64_t extents[] = {0, 1, 7, 8, 9, 31};

struct one {
	struct graph g;
	char *what;
	struct spec spec;
	struct kernel_code code;
	bool has_code;
};
struct cases {
	struct arena a;
	struct one *v[MAX_CASES];
	uint32_t n, n_infeasible, n_run, n_wrong;
	const char *only;
	bool all;
};

static struct shape
shape_of(int rank, ...)
{
	struct shape s = {.rank = rank};
	va_list ap;

	va_start(ap, rank);
	for (int i = 0; i < rank; i++)
		s.dim[i] = va_arg(ap, int);
	va_end(ap);
	return s;
}

static struct shape
line(int64_t n)
{
	return shape_make(1, &n);
}

/* ---- one node over operands of given types and shapes ------------------------------------------ */
struct operand {
	enum dtype type;
	struct shape shape;
};

/* Not every type goes with every primitive: what the table refuses is no case. */
static void
try_node(struct cases *c, enum prim p, const struct attrs *at, uint32_t n, const struct operand *x)
{
	struct one *o = NEW(&c->a, struct one);
	tensor_id in[4], out[2];
	struct strbuf sb;
	struct err e = {0};

	if (c->only && strcmp(c->only, prim_info[p].name) != 0)
		return;
	graph_init(&o->g, &c->a);
	sb_init(&sb, &c->a);
	sb_addz(&sb, prim_info[p].name);
	for (uint32_t i = 0; i < n; i++) {
		in[i] = graph_input(&o->g, x[i].type, &x[i].shape, NULL);
		sb_addf(&sb, " %s", dtype_name(x[i].type));
		shape_print(&sb, &x[i].shape);
	}
	if (!graph_add(&o->g, p, in, n, at, NO_NODE, out, &e))
		return;
	for (uint32_t i = 0; i < prim_n_out(p); i++)
		graph_output(&o->g, out[i], NULL);
	o->what = sb.p;
	if (!c->all && !c->only && !strstr(sb.p, "f32") && hash64(sb.p, sb.n, 5) % 3 != 0)
		return;
	if (c->n == MAX_CASES)
		fail_msg("more than %d cases", MAX_CASES);
	c->v[c->n++] = o;
}

static void
try_same(struct cases *c, enum prim p, const struct attrs *at, uint32_t n, enum dtype t, struct shape s)
{
	struct operand x[4];

	for (uint32_t i = 0; i < n; i++)
		x[i] = (struct operand){t, s};
	if (p == PRIM_select)
		x[0].type = DT_bool;
	try_node(c, p, at, n, x);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define N_LIST(...) ((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define SET(KEY, ...) at_list(&at, ATTR_##KEY, N_LIST(__VA_ARGS__), LIST(__VA_ARGS__))

/* ---- by class ----------------------------------------------------------------------------------- */
static void
maps(struct cases *c, enum prim p)
{
	for (int t = 0; t < DT_COUNT; t++) {
		struct attrs at = {0};

		/* Shifts by a negative number mean nothing. */
		if ((p == PRIM_shl || p == PRIM_shr) && dtype_is_signed((enum dtype)t))
			continue;
		if (p == PRIM_cast) {
			for (int to = 0; to < DT_COUNT; to++) {
				struct attrs how = {0};

				at_int(&how, ATTR_to, to);
				try_same(c, p, &how, 1, (enum dtype)t, shape_of(2, 3, 7));
			}
			continue;
		}
		for (size_t i = 0; i < (t == DT_f32 ? COUNT_OF(extents) : 1); i++)
			try_same(c, p, &at, (uint32_t)prim_info[p].n_in, (enum dtype)t,
			    line(t == DT_f32 ? extents[i] : 23));
	}
}

static void
reductions(struct cases *c, enum prim p)
{
	static const struct {
		int n;
		int64_t axes[2];
	} ways[] = {{1, {1}}, {1, {0}}, {2, {0, 2}}, {2, {1, 2}}};

	for (int t = 0; t < DT_COUNT; t++)
		for (size_t w = 0; w < COUNT_OF(ways); w++)
			for (int k = 0; k < (t == DT_f32 ? 3 : 1); k++) {
				struct attrs at = {0};
				bool is_arg = p == PRIM_argmax || p == PRIM_argmin;

				if (is_arg && ways[w].n > 1)
					continue;
				at_list(&at, ATTR_axes, ways[w].n, ways[w].axes);
				if (is_arg)
					at_int(&at, ATTR_last, k & 1);
				try_same(c, p, &at, 1, (enum dtype)t,
				    k == 0       ? shape_of(3, 3, 7, 5)
					: k == 1 ? shape_of(3, 8, 1, 9)
						 : shape_of(3, 2, 13, 16));
			}
}

static void
windows(struct cases *c, enum prim p)
{
	for (int t = 0; t < DT_COUNT; t++)
		for (int k = 0; k < 3; k++) {
			struct attrs at = {0};

			SET(kernel, 1, 3, 2, 1);
			at_list(&at, ATTR_stride, 4, k == 1 ? LIST(1, 2, 1, 1) : LIST(1, 1, 2, 1));
			at_list(&at, ATTR_dilation, 4, k == 2 ? LIST(1, 2, 1, 1) : LIST(1, 1, 1, 1));
			SET(lo, 0, 1, 0, 0);
			SET(hi, 0, 0, 1, 0);
			try_same(c, p, &at, 1, (enum dtype)t,
			    k ? shape_of(4, 2, 7, 9, 3) : shape_of(4, 1, 8, 5, 16));
		}
}

static void
layouts_of(struct cases *c, enum dtype t)
{
	struct attrs at = {0};
	struct operand two[] = {{t, shape_of(2, 3, 5)}, {t, shape_of(2, 3, 2)}},
		       idx[] = {{t, shape_of(2, 9, 4)}, {DT_i64, line(7)}};

	SET(shape, 5, 7, 9);
	try_same(c, PRIM_bcast, &at, 1, t, shape_of(3, 5, 1, 9));
	try_same(c, PRIM_bcast, &at, 1, t, shape_of(3, 1, 7, 1));
	at = (struct attrs){0};
	SET(perm, 2, 0, 1);
	try_same(c, PRIM_transpose, &at, 1, t, shape_of(3, 7, 8, 9));
	try_same(c, PRIM_transpose, &at, 1, t, shape_of(3, 1, 33, 17));
	at = (struct attrs){0};
	SET(start, 6, 1);
	SET(step, -2, 3);
	SET(shape, 3, 2);
	try_same(c, PRIM_slice, &at, 1, t, shape_of(2, 7, 9));
	for (int mode = PAD_CONSTANT; mode <= PAD_WRAP; mode++) {
		at = (struct attrs){0};
		SET(lo, 2, 0);
		SET(hi, 1, 3);
		at_int(&at, ATTR_mode, mode);
		at_real(&at, ATTR_value, t == DT_bool ? 1 : 3);
		try_same(c, PRIM_pad, &at, 1, t, shape_of(2, 5, 7));
	}
	at = (struct attrs){0};
	at_int(&at, ATTR_axis, 1);
	try_node(c, PRIM_concat, &at, 2, two);
	at = (struct attrs){0};
	at_int(&at, ATTR_axis, 0);
	try_node(c, PRIM_gather, &at, 2, idx);
	idx[1] = (struct operand){DT_i32, shape_of(2, 3, 4)};
	try_node(c, PRIM_gather_elements, &at, 2, idx);
}

static void
layouts(struct cases *c)
{
	struct attrs at = {0};

	for (int t = 0; t < DT_COUNT; t++)
		layouts_of(c, (enum dtype)t);
	SET(shape, 3, 7);
	at_int(&at, ATTR_axis, 1);
	try_node(c, PRIM_iota, &at, 0, NULL);
}

static void
matmuls(struct cases *c)
{
	static const int sizes[][3] = {
	    {1, 1, 1}, {6, 16, 8}, {7, 17, 9}, {13, 31, 1}, {1, 33, 64}, {12, 5, 0}, {29, 48, 37}};

	for (int t = 0; t < DT_COUNT; t++)
		for (size_t i = 0; i < (t == DT_f32 ? COUNT_OF(sizes) : 3); i++) {
			const int *s = sizes[i];
			struct operand x[] = {{(enum dtype)t, shape_of(2, s[0], s[2])},
			    {(enum dtype)t, shape_of(2, s[2], s[1])}};
			struct operand b[] = {{(enum dtype)t, shape_of(3, 3, s[0], s[2])},
			    {(enum dtype)t, shape_of(3, 3, s[2], s[1])}};
			struct attrs none = {0};

			try_node(c, PRIM_matmul, &none, 2, x);
			try_node(c, PRIM_matmul, &none, 2, b);
		}
}

static void
convs(struct cases *c)
{
	static const struct {
		int ci, co, group, k;
		int64_t stride[2], dil[2], ldil[2], lo[2], hi[2];
	} ways[] = {
	    {3, 8, 1, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
	    {16, 17, 1, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
	    {8, 8, 8, 3, {2, 2}, {1, 1}, {1, 1}, {1, 0}, {0, 1}},
	    {6, 9, 3, 3, {1, 2}, {2, 1}, {1, 1}, {2, 1}, {2, 0}},
	    {5, 7, 1, 3, {1, 1}, {1, 1}, {2, 2}, {1, 2}, {2, 1}},
	    {4, 16, 1, 3, {2, 1}, {1, 1}, {1, 1}, {-1, 1}, {1, -1}},
	};

	for (int t = 0; t < DT_COUNT; t++)
		for (size_t i = 0; i < COUNT_OF(ways); i++) {
			struct operand x[] = {{(enum dtype)t, shape_of(4, 2, 9, 7, ways[i].ci)},
			    {(enum dtype)t,
				shape_of(4, ways[i].k, ways[i].k, ways[i].ci / ways[i].group, ways[i].co)}};
			struct attrs at = {0};

			at_list(&at, ATTR_stride, 2, ways[i].stride);
			at_list(&at, ATTR_dilation, 2, ways[i].dil);
			at_list(&at, ATTR_ldil, 2, ways[i].ldil);
			at_list(&at, ATTR_lo, 2, ways[i].lo);
			at_list(&at, ATTR_hi, 2, ways[i].hi);
			at_int(&at, ATTR_group, ways[i].group);
			try_node(c, PRIM_conv, &at, 2, x);
		}
}

static void
opaques_of(struct cases *c, enum dtype t)
{
	struct operand se[] = {{t, shape_of(2, 9, 4)}, {DT_i64, shape_of(2, 1, 4)}, {t, shape_of(2, 1, 4)}};
	struct operand nd[] = {{t, shape_of(2, 9, 4)}, {DT_i64, shape_of(2, 1, 1)}, {t, shape_of(2, 1, 4)}};
	struct operand gn[] = {{t, shape_of(3, 2, 9, 4)}, {DT_i64, shape_of(3, 2, 3, 1)}};

	for (int k = 0; k < 4; k++) {
		struct attrs at = {0};

		at_int(&at, ATTR_axis, k & 1);
		at_int(&at, ATTR_exclusive, k >> 1);
		at_int(&at, ATTR_reverse, k == 2);
		try_same(c, PRIM_cumsum, &at, 1, t, shape_of(2, 7, 9));
		at = (struct attrs){0};
		at_int(&at, ATTR_axis, k & 1);
		at_int(&at, ATTR_k, 3);
		at_int(&at, ATTR_largest, k >> 1);
		try_same(c, PRIM_topk, &at, 1, t, shape_of(2, 7, 9));
	}
	/* Booleans are replaced, never added. */
	for (int mode = 0; mode < (t == DT_bool ? 1 : 5); mode++) {
		struct attrs at = {0};

		at_int(&at, ATTR_axis, 0);
		at_int(&at, ATTR_mode, mode);
		try_node(c, PRIM_scatter_elements, &at, 3, se);
		at = (struct attrs){0};
		at_int(&at, ATTR_mode, mode);
		try_node(c, PRIM_scatter_nd, &at, 3, nd);
	}
	struct attrs at = {0};

	at_int(&at, ATTR_k, 1);
	try_node(c, PRIM_gather_nd, &at, 2, gn);
}

static void
collect(struct cases *c)
{
	for (int p = 0; p < PRIM_COUNT; p++) {
		if (prim_info[p].class == CLASS_MAP)
			maps(c, (enum prim)p);
		else if (p == PRIM_wsum || p == PRIM_wmax)
			windows(c, (enum prim)p);
		else if (prim_info[p].class == CLASS_REDUCE)
			reductions(c, (enum prim)p);
	}
	layouts(c);
	matmuls(c);
	convs(c);
	for (int t = 0; t < DT_COUNT; t++)
		opaques_of(c, (enum dtype)t);
}

/* ---- running ------------------------------------------------------------------------------------- */
static void
emit_all(struct cases *c, struct one *const *v, uint32_t n, struct strbuf *text)
{
	for (uint32_t i = 0; i < n; i++) {
		struct one *o = v[i];
		struct bitset all = bitset_make(&c->a, o->g.n_nodes);
		struct spec_binding bind;
		struct err e = {0};

		for (uint32_t k = 0; k < o->g.n_nodes; k++)
			bit_set(&all, k);
		spec_make(&c->a, &o->g, &all, o->g.outputs, o->g.n_outputs, &o->spec, &bind);
		o->has_code = generate_kernel(
		    &c->a, &o->spec, STR(""), &target_avx2, arena_printf(&c->a, "k%u", i), &o->code, &e);
		if (o->has_code) {
			sb_add(text, o->code.text);
			continue;
		}
		if (e.code != ERR_INFEASIBLE)
			fail_msg("%s: %s", o->what, e.msg);
		c->n_infeasible++;
		print_message("infeasible: %s: %s\n", o->what, e.msg);
	}
}

static void
run_one(struct cases *c, const struct dev *d, struct dev_module *m, uint32_t number, const struct one *o)
{
	struct dev_kernel k = {.n_passes = o->code.desc.n_passes,
	    .shared_bytes = o->code.desc.shared_bytes,
	    .local_bytes = o->code.desc.local_bytes};
	struct check_opts how = {.seed = number};
	struct check *check = NULL;
	double error;
	struct err e = {0};

	memcpy(k.range, o->code.desc.range, sizeof(k.range));
	if (!d->find(d->self, m, arena_printf(&c->a, "k%u", number), &k, &e))
		fail_msg("%s: %s", o->what, e.msg);
	c->n_run++;
	if (!check_open(&o->spec, &how, &check, &e) || !check_kernel(check, d, &k, &o->code, &error, &e)) {
		c->n_wrong++;
		print_error("%s: %s\n", o->what, e.msg);
	}
	check_close(check);
}

static void
run_batch(struct cases *c, const struct dev *d, struct one *const *v, uint32_t n)
{
	struct compile_opts o = {.flags = generate_c_flags(&target_avx2)};
	struct dev_module *m;
	struct strbuf text;
	struct bytes code;
	struct err e = {0};

	sb_init(&text, &c->a);
	sb_add(&text, prelude_c(&c->a, &target_avx2));
	emit_all(c, v, n, &text);
	if (!compile_c(&c->a, sb_str(&text), &o, &code, &e) || !d->load(d->self, code, &m, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < n; i++)
		if (v[i]->has_code)
			run_one(c, d, m, i, v[i]);
	d->unload(d->self, m);
}

static void
every_primitive_type_and_shape(void **state)
{
	struct cases *c = heap_alloc(sizeof(*c));
	struct dev d;
	struct err e = {0};
	enum isa isa;

	(void)state;
	c->only = getenv("KORCH_DEVICE_ONLY");
	c->all = getenv("KORCH_DEVICE_ALL") != NULL;
	if (!dev_cpu_isa(&isa, &e) || isa_info[isa].simd_bytes < target_avx2.simd_bytes)
		skip();
	collect(c);
	assert_true(dev_cpu_open(2, false, &d, &e));
	for (uint32_t i = 0; i < c->n; i += BATCH)
		run_batch(c, &d, c->v + i, MIN_OF(c->n - i, (uint32_t)BATCH));
	d.close(d.self);
	print_message("%u cases run, %u infeasible, %u wrong\n", c->n_run, c->n_infeasible, c->n_wrong);
	assert_int_equal(c->n_wrong, 0);
	assert_true(c->only || c->n_run > 400);
	arena_fini(&c->a);
	free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_primitive_type_and_shape)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
