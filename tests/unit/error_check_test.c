/* Which differences from the reference are rounding's: a right result in another order of sums passes though
 * its divisors nearly cancel, and each way of being wrong does not, not even there. */
#include "../../kernels/interp/error_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Linear attention: out[i][c] = sum_j q[i][j] kv[j][c] / sum_j q[i][j] k[j]. */
enum { ROWS = 40, INNER = 64, COLUMNS = 24, HARD_ROW = 17 };
static const char attention[] =
    "%0 = input f32[40,64]\n%1 = input f32[64,24]\n%2 = input f32[64,1]\n"
    "%3 = matmul %0 %1\n%4 = matmul %0 %2\n%5 = bcast %4 shape=[40,24]\n%6 = div %3 %5\noutput %6\n";

enum fault {
	RIGHT,
	WRONG_INDEX,
	DROPPED_TERM,
	SWAPPED_SIGN,
	NO_LAST,
	NO_LAST_TERM,
	OTHER_ROW,
	HALF_PRECISION,
	FAULTS
};
static const char *const fault_name[FAULTS] = {[RIGHT] = "right",
    [WRONG_INDEX] = "wrong index",
    [DROPPED_TERM] = "dropped term",
    [SWAPPED_SIGN] = "swapped sign",
    [NO_LAST] = "last element missing",
    [NO_LAST_TERM] = "divisor's last term missing",
    [OTHER_ROW] = "divisor of another row",
    [HALF_PRECISION] = "operands of half precision"};

struct bench {
	struct arena a;
	struct graph g;
	const void *in[3];
	void *want[1];
	struct wanted w;
	struct error_check j;
	float *have;
	int64_t n;
};

static void
open_graph(struct bench *b, const char *text)
{
	struct err e = {0};

	*b = (struct bench){.n = 0};
	if (!graph_read(&b->g, &b->a, str_of(text), &e))
		fail_msg("%s", e.msg);
}

static float *
random_floats(struct bench *b, struct rng *r, int64_t n)
{
	float *x = NEW_ARRAY(&b->a, float, n);

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)rng_normal(r);
	return x;
}

/* The reference's values; of a float result in full, else at all places by samples. */
static void
want_all(struct bench *b, bool sampled)
{
	const struct tensor *t = graph_tensor(&b->g, b->g.outputs[0]);
	struct err e = {0};

	if (!interp_run(&b->a, &b->g, b->in, NULL, b->want, &e))
		fail_msg("%s", e.msg);
	b->n = shape_count(&t->shape);
	b->w = (struct wanted){.dense = b->want[0]};
	b->w.scale = wanted_scale(t, &b->w);
	if (sampled) {
		b->w.dense = NULL;
		b->w.n = (uint32_t)b->n;
		b->w.at = NEW_ARRAY(&b->a, int64_t, b->n);
		b->w.value = NEW_ARRAY(&b->a, double, b->n);
		for (int64_t i = 0; i < b->n; i++) {
			b->w.at[i] = i;
			b->w.value[i] = elem_get(t->type, b->want[0], i);
		}
	}
	b->j = (struct error_check){.arena = &b->a,
	    .g = &b->g,
	    .inputs = b->in,
	    .want = &b->w,
	    .seed = 1,
	    .max_cone = sampled ? 1000000 : 0};
}

static float
rounded_if(enum fault f, float x)
{
	return f == HALF_PRECISION ? bf16_to_float(float_to_bf16(x)) : x;
}

/* sum_j q[j] x[j * step], in float, from the last term on. */
static float
dot(const float *q, const float *x, int step, enum fault f, bool is_divisor)
{
	int from = f == DROPPED_TERM && !is_divisor, to = INNER - (f == NO_LAST_TERM && is_divisor);
	float sum = 0;

	for (int j = to - 1; j >= from; j--) {
		int k = f == WRONG_INDEX && !is_divisor && j == 5 ? 6 : j;
		float term = rounded_if(f, q[j]) * rounded_if(f, x[k * step]);

		sum += f == SWAPPED_SIGN && !is_divisor && j == 9 ? -term : term;
	}
	return sum;
}

static void
attend(struct bench *b, enum fault f)
{
	const float *q = b->in[0], *kv = b->in[1], *k = b->in[2];

	b->have = NEW_ARRAY(&b->a, float, b->n);
	for (int i = 0; i < ROWS; i++)
		for (int c = 0; c < COLUMNS; c++)
			b->have[i * COLUMNS + c] = dot(q + i * INNER, kv + c, COLUMNS, f, false) /
			    dot(q + (f == OTHER_ROW && i ? i - 1 : i) * INNER, k, 1, f, true);
	if (f == NO_LAST)
		b->have[b->n - 1] = 0;
}

/* One row's divisor is next to nothing beside its terms. */
static void
attention_bench(struct bench *b, bool sampled)
{
	struct rng r = {11};
	float *q, *k;
	double sum = 0;

	open_graph(b, attention);
	q = random_floats(b, &r, ROWS * INNER);
	b->in[1] = random_floats(b, &r, INNER * COLUMNS);
	k = random_floats(b, &r, INNER);
	for (int j = 0; j < INNER - 1; j++)
		sum += (double)q[HARD_ROW * INNER + j] * (double)k[j];
	q[HARD_ROW * INNER + INNER - 1] = (float)((3e-4 - sum) / (double)k[INNER - 1]);
	b->in[0] = q;
	b->in[2] = k;
	want_all(b, sampled);
}

static void
a_divisor_that_cancels_excuses_its_row_alone(void **state)
{
	(void)state;
	for (int sampled = 0; sampled < 2; sampled++)
		for (int f = 0; f < FAULTS; f++) {
			struct bench b;
			struct verdict v;

			attention_bench(&b, sampled);
			attend(&b, (enum fault)f);
			v = check_error(&b.j, 0, 1e-4, b.have);
			if (f == RIGHT && (v.n_off || !v.n_excused))
				fail_msg("a right result: %lld elements off, %lld excused, one by %g of the "
					 "largest",
				    (long long)v.n_off, (long long)v.n_excused, v.worst);
			if (f != RIGHT && !v.n_off)
				fail_msg("%s passes, %s", fault_name[f], sampled ? "sampled" : "in full");
			if (f == RIGHT) {
				b.have[HARD_ROW * COLUMNS + 3] *= 1.5f;
				assert_int_equal(check_error(&b.j, 0, 1e-4, b.have).n_off, 1);
			}
			arena_fini(&b.a);
		}
}

static void
what_is_within_the_tolerance_is_not_shaken(void **state)
{
	struct bench b;
	struct verdict v;

	(void)state;
	attention_bench(&b, false);
	b.have = arena_dup(&b.a, b.want[0], (size_t)b.n * sizeof(float));
	v = check_error(&b.j, 0, 1e-4, b.have);
	assert_int_equal(v.n_off + v.n_excused, 0);
	assert_int_equal(b.j.n_shakes, 0);
	assert_null(b.w.moved);
	arena_fini(&b.a);
}

/* A sum that lies on the threshold falls on either side of it; no other does. */
static void
a_comparison_is_crossed_where_a_last_bit_decides(void **state)
{
	static const char text[] =
	    "%0 = input f32[300,8]\n%1 = sum %0 axes=[1]\n%2 = const f32[1,1] 0x1p+0\n"
	    "%3 = bcast %2 shape=[300,1]\n%4 = lt %1 %3\n%5 = cast %4 to=@\noutput %5\n";
	static const struct {
		const char *name;
		enum dtype type;
	} to[] = {{"f32", DT_f32}, {"i32", DT_i32}};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(to); k++) {
		struct bench b;
		struct rng r = {4};
		struct strbuf sb;
		const char *at = strchr(text, '@');
		float *x;
		void *have;

		b = (struct bench){.n = 0};
		sb_init(&sb, &b.a);
		sb_add(&sb, (struct str){text, (size_t)(at - text)});
		sb_addz(&sb, to[k].name);
		sb_addz(&sb, at + 1);
		if (!graph_read(&b.g, &b.a, sb_str(&sb), &(struct err){0}))
			fail_msg("no graph: %s", sb.p);
		x = random_floats(&b, &r, 2400);
		for (int i = 0; i < 8; i++)
			x[7 * 8 + i] = 0.125f;
		b.in[0] = x;
		want_all(&b, false);
		have = arena_dup(&b.a, b.want[0], 1200);
		elem_set(to[k].type, have, 7, 1 - elem_get(to[k].type, have, 7));
		assert_int_equal(check_error(&b.j, 0, 1e-4, have).n_off, 0);
		elem_set(to[k].type, have, 8, 1 - elem_get(to[k].type, have, 8));
		assert_int_equal(check_error(&b.j, 0, 1e-4, have).n_off, 1);
		assert_int_equal(check_error(&b.j, 0, 1e-4, have).at, 8);
		arena_fini(&b.a);
	}
}

/* What is copied and compared stays equal: no shake makes an excuse of it. */
static void
equals_stay_equal(void **state)
{
	struct bench b;
	struct rng r = {5};
	void *have;

	(void)state;
	open_graph(&b,
	    "%0 = input f32[64]\n%1 = rmax %0 axes=[0]\n%2 = bcast %1 shape=[64]\n%3 = eq %0 %2\n%4 = cast "
	    "%3 to=f32\noutput %4\n");
	b.in[0] = random_floats(&b, &r, 64);
	want_all(&b, false);
	have = NEW_ARRAY(&b.a, float, 64);
	assert_int_equal(check_error(&b.j, 0, 1e-4, have).n_off, 1);
	arena_fini(&b.a);
}

/* A sine of numbers without a last bit's worth of phase would excuse anything. */
static void
a_result_that_shows_nothing_is_no_proof(void **state)
{
	struct bench b;
	struct rng r = {6};
	float *x, *other;

	(void)state;
	open_graph(&b, "%0 = input f32[500]\n%1 = sin %0\noutput %1\n");
	x = random_floats(&b, &r, 500);
	other = random_floats(&b, &r, 500);
	for (int i = 0; i < 500; i++)
		x[i] *= 1e9f;
	b.in[0] = x;
	want_all(&b, false);
	assert_true(check_error(&b.j, 0, 1e-4, other).n_off > 300);
	b.j.may_be_wild = true;
	assert_true(check_error(&b.j, 0, 1e-4, other).n_excused > 300);
	arena_fini(&b.a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_divisor_that_cancels_excuses_its_row_alone),
	    cmocka_unit_test(what_is_within_the_tolerance_is_not_shaken),
	    cmocka_unit_test(a_comparison_is_crossed_where_a_last_bit_decides),
	    cmocka_unit_test(equals_stay_equal),
	    cmocka_unit_test(a_result_that_shows_nothing_is_no_proof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
