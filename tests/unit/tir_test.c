/* tests/unit/tir_test.c: loop programs written by hand: their text both ways, what the verifier lets pass
 * and what it catches, and what they compute.  memory: yes */
#include "../../kernels/interp/program.h"
#include "../../kernels/tir/tir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char row_sums[] = "tir nest\n"
			       "buf %0 f32[5,33] global operand 0\n"
			       "buf %1 f32[5,1] global result 0\n"
			       "block t1(i0 < 5, k0 < 33 reduce): %1[i0, 0] sum= %0[i0, k0]\n"
			       "for t1.i0 in 0..5 parallel\n"
			       "  for t1.k0 in 0..33\n"
			       "    t1(t1.i0, t1.k0)\n";
/* The same over tiles of four, the last cut by a guard. */
static const char guarded_tiles[] =
    "tir nest\n"
    "buf %0 f32[5,33] global operand 0\n"
    "buf %1 f32[5,1] global result 0\n"
    "block t1(i0 < 5, k0 < 33 reduce): %1[i0, 0] sum= %0[i0, k0]\n"
    "for t1.i0 in 0..5\n"
    "  for t1.k0.o in 0..9\n"
    "    for t1.k0.i in 0..4\n"
    "      t1(t1.i0, 4*t1.k0.o + t1.k0.i) where 0 <= 4*t1.k0.o + t1.k0.i < 33\n";
static const char flat[] = "tir flat\n"
			   "buf %0 f32[5,33] global operand 0\n"
			   "buf %1 f32[5,1] global result 0\n"
			   "buf %acc f32[1] local temp align 64\n"
			   "for y in 0..5 parallel\n"
			   "  alloc %acc\n"
			   "  store %acc[0] = f32(0)\n"
			   "  for x in 0..33\n"
			   "    index z = 32 - x\n"
			   "    if 0 <= x < 33 and -5 <= 2*y - x < 9\n"
			   "      call prefetch(%0[y, z], i64(16))\n"
			   "    let v0 = mul(%0[y, z], guard(1 <= x < 2, f32(0.1), f32(1)))\n"
			   "    store %acc[0] = add(%acc[0], v0)\n"
			   "  store %1[y, 0] = %acc[0]\n";
/* Two rows at a time through shared memory, by four threads of two warps; a table, a position, a layout. */
static const char shared[] = "tir flat\n"
			     "buf %0 f32[6,8] global operand 0\n"
			     "buf %1 f32[6,8] global result 0\n"
			     "buf %s f32[8] shared temp layout(d0 to d0 mod 4, d0 div 4) swizzle(1, 0, 2)\n"
			     "buf %t i64[3] global table = 1 -2 3\n"
			     "for b in 0..6 block\n"
			     "  for w in 0..2 warp\n"
			     "    for l in 0..2 lane\n"
			     "      alloc %s\n"
			     "      for k in 0..2\n"
			     "        for j in 0..2 vector\n"
			     "          store %s[4*w + 2*l + j] = %0[b, 4*w + 2*l + j]\n"
			     "        sync shared\n"
			     "        for j2 in 0..2\n"
			     "          store %1[b, 4*w + 2*l + j2] = add(%s[7 - j2 - 2*l - 4*w], "
			     "cast.f32(%t[value(select(lt(index(j2), i64(1)), i64(0), i64(2)), 0, 2)]))\n"
			     "        sync shared\n";
/* Eight lanes in registers, folded. */
static const char lanes[] = "tir flat\n"
			    "buf %0 f32[5,33] global operand 0\n"
			    "buf %1 f32[5,1] global result 0\n"
			    "buf %r f32[1] reg temp\n"
			    "buf %l f32[8] reg temp\n"
			    "for y in 0..5 parallel\n"
			    "  alloc %r\n"
			    "  alloc %l\n"
			    "  store %r[0] = %0[y, 32]\n"
			    "  for i in 0..8 vector\n"
			    "    store %l[i] = f32(0)\n"
			    "  for x in 0..4\n"
			    "    for j in 0..8 vector\n"
			    "      store %l[j] = add(%l[j], %0[y, 8*x + j])\n"
			    "  call fold_sum(%r[0], %l[0])\n"
			    "  store %1[y, 0] = %r[0]\n";
/* Eight rows of a wider matrix as columns. */
static const char turned[] = "tir flat\n"
			     "buf %0 f32[128] global operand 0\n"
			     "buf %1 f32[64] global result 0\n"
			     "call turn(%0[4], i64(16), %1[0], i64(8))\n";
/* Words whose places are read of a shared buffer: of the one that is written another thread has stored it. */
static const char indexed[] = "tir flat\n"
			      "buf %0 f32[16] global operand 0\n"
			      "buf %1 f32[16] global result 0\n"
			      "buf %s i64[4] shared temp\n"
			      "for b in 0..1 block\n"
			      "  alloc %s\n"
			      "  for l in 0..4 lane\n"
			      "    store %s[l] = index(3 - l)\n"
			      "  sync shared\n"
			      "  for l2 in 0..4 lane\n"
			      "    call move_16(%1[4*value(%s[3 - l2], 0, 3)], %0[4*value(%s[l2], 0, 3)])\n"
			      "  sync shared\n";
/* A constant whose columns lie in two panels of three, in one dimension; the last column is none. */
static const char packed[] =
    "tir flat\n"
    "buf %0 f32[24] pack operand 0 from(d0 < 2, d1 < 4, d2 < 3 of [4,5] at d1, 3*d0 + d2)\n"
    "buf %1 f32[4,5] global result 0\n"
    "for y in 0..4 parallel\n"
    "  for x in 0..5\n"
    "    store %1[y, x] = add(%0[12*(x div 3) + 3*y + (x mod 3)], mul(%0[23], f32(5)))\n";
/* Rows of half the height, without the first of an even part: the guard speaks of y, the place of (y + 1)
 * div 2. */
static const char halved[] =
    "tir flat\n"
    "buf %0 f32[52] global operand 0\n"
    "buf %1 f32[56] global result 0\n"
    "for p in 0..2 parallel\n"
    "  for y in 0..14\n"
    "    for x in 0..2\n"
    "      store %1[28*p + 2*y + x] = guard(0 <= 12*p + y - 1 < 26, %0[24*p + 4*((y + 1) div 2) + 2*x - 4], "
    "f32(0))\n";
/* Half a product of matrices: eight columns at a time, one instruction that is a nest, and as a call. */
static const char nested[] =
    "tir nest\n"
    "buf %0 f32[5,33] global operand 0\n"
    "buf %1 f32[5,8] global result 0\n"
    "block t1(i0 < 5, i1 < 8, k0 < 2 reduce): %1[i0, i1] sum= mul(%0[i0, k0], %0[k0, i1 + 2])\n"
    "for t1.i0 in 0..5\n"
    "  for t1.k0 in 0..2\n"
    "    for t1.i1 in 0..8 call fma8_f32\n"
    "      t1(t1.i0, t1.i1, t1.k0)\n";
static const char called[] = "tir flat\n"
			     "buf %0 f32[5,33] global operand 0\n"
			     "buf %1 f32[5,8] global result 0\n"
			     "for y in 0..5\n"
			     "  for x in 0..8\n"
			     "    store %1[y, x] = f32(0)\n"
			     "  for k in 0..2\n"
			     "    call fma8_f32(%1[y, 0], %0[y, k], %0[k, 2])\n";
/* A 16 x 16 times a 16 x 8 matrix of shared memory, by one warp. */
static const char multiplied[] = "tir flat\n"
				 "buf %0 f32[5,33] global operand 0\n"
				 "buf %1 f32[16,8] global result 0\n"
				 "buf %a f16[16,24] shared temp\n"
				 "buf %b f16[8,16] shared temp\n"
				 "buf %c f32[16,8] spread temp\n"
				 "for o in 0..1 block\n"
				 "  alloc %a\n"
				 "  alloc %b\n"
				 "  alloc %c\n"
				 "  for i in 0..16\n"
				 "    for k in 0..16 lane\n"
				 "      store %a[i, k + 8] = cast.f16(add(%0[0, i], %0[1, k]))\n"
				 "  for q in 0..8\n"
				 "    for p in 0..16 lane\n"
				 "      store %b[q, p] = cast.f16(%0[2, p + q])\n"
				 "  for y in 0..16\n"
				 "    for x in 0..8\n"
				 "      store %c[y, x] = f32(1)\n"
				 "  sync shared\n"
				 "  call mma_f16(%c[0, 0], i64(8), %a[0, 8], i64(24), %b[0, 0], i64(16))\n"
				 "  sync shared\n"
				 "  for r in 0..16\n"
				 "    for s in 0..8\n"
				 "      store %1[r, s] = %c[r, s]\n";
/* Rows through shared memory in two versions: one is copied while another is read. */
static const char versions[] = "tir flat\n"
			       "buf %0 f32[5,33] global operand 0\n"
			       "buf %1 f32[5,4] global result 0\n"
			       "buf %s f32[2,4] shared temp\n"
			       "for b in 0..1 block\n"
			       "  alloc %s\n"
			       "  for l in 0..4 lane\n"
			       "    store %s[0, l] = %0[0, l]\n"
			       "  for k in 0..4\n"
			       "    sync shared\n"
			       "    for m in 0..4 lane\n"
			       "      store %s[(k + 1) mod 2, m] = %0[k + 1, m]\n"
			       "    for n in 0..4 lane\n"
			       "      store %1[k, n] = %s[k mod 2, 3 - n]\n"
			       "  sync shared\n"
			       "  for q in 0..4 lane\n"
			       "    store %1[4, q] = %s[0, 3 - q]\n"
			       "  sync shared\n";
static const char *const all[] = {versions, row_sums, guarded_tiles, lanes, flat, shared, turned, packed,
    halved, indexed, nested, called, multiplied};

static bool
verdict(const char *text, struct err *e)
{
	struct arena a = {0};
	struct tir p;
	bool ok = tir_read(&p, &a, str_of(text), e) && tir_verify(&p, e);

	arena_fini(&a);
	return ok;
}

static void
test_text_both_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		struct arena a = {0};
		struct strbuf sb;
		struct err e = {0};
		struct tir p;

		if (!tir_read(&p, &a, str_of(all[i]), &e))
			fail_msg("%s in\n%s", e.msg, all[i]);
		sb_init(&sb, &a);
		tir_print(&sb, &p);
		assert_string_equal(sb.p, all[i]);
		if (!tir_verify(&p, &e))
			fail_msg("%s in\n%s", e.msg, all[i]);
		arena_fini(&a);
	}
}

/* ---- what they compute ---- */
static bool
run(const char *text, const float *in, float *out, struct err *e)
{
	bool ok = true;

	for (int order = ORDER_FORWARD; order <= ORDER_SHUFFLED && ok; order++) {
		struct arena a = {0};
		struct tir p;

		ok = tir_read(&p, &a, str_of(text), e) &&
		    program_run(&a, &p, (const void *[]){in}, (void *[]){out},
			&(struct program_opts){.order = (enum program_order)order, .seed = 3}, e);
		arena_fini(&a);
	}
	return ok;
}

static void
test_meaning(void **state)
{
	float in[5 * 33], out[128];
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 5 * 33; i++)
		in[i] = (float)(i % 7);
	for (int k = 0; k < 3; k++) {
		assert_true(run(k == 0 ? row_sums : k == 1 ? guarded_tiles : lanes, in, out, &e));
		for (int y = 0; y < 5; y++) {
			float sum = 0;

			for (int x = 0; x < 33; x++)
				sum += in[y * 33 + x];
			assert_true(out[y] == sum);
		}
	}
	assert_true(run(flat, in, out, &e));
	for (int y = 0; y < 5; y++) {
		float sum = 0;

		for (int x = 32; x >= 0; x--)
			sum += in[y * 33 + x] * (x == 31 ? 0.1f : 1);
		assert_true(fabsf(out[y] - sum) < 1e-4f);
	}
	if (!run(shared, in, out, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 48; i++)
		assert_true(out[i] == in[i / 8 * 8 + 7 - i % 8] + (i % 2 ? 3 : 1));
	if (!run(turned, in, out, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 64; i++)
		assert_true(out[i] == in[4 + i % 8 * 16 + i / 8]);
	if (!run(packed, in, out, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 20; i++)
		assert_true(out[i] == in[i]);
	if (!run(versions, in, out, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 20; i++)
		assert_true(out[i] == in[i / 4 * 33 + 3 - i % 4]);
	for (int k = 0; k < 2; k++) {
		assert_true(run(k ? called : nested, in, out, &e));
		for (int i = 0; i < 40; i++)
			assert_true(out[i] ==
			    in[i / 8 * 33] * in[i % 8 + 2] + in[i / 8 * 33 + 1] * in[33 + i % 8 + 2]);
	}
	if (!run(multiplied, in, out, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 128; i++) {
		float sum = 1;

		for (int k = 0; k < 16; k++)
			sum += (in[i / 8] + in[33 + k]) * in[66 + k + i % 8];
		assert_true(out[i] == sum);
	}
}

/* ---- mutations: one change, and which rule catches it ---- */
struct mutation {
	const char *program, *from, *to, *rule;
};
static const struct mutation refused[] = {
    {row_sums, "t1(t1.i0, t1.k0)", "t1(t1.k0, t1.k0)", "binding"},
    {row_sums, "t1(t1.i0, t1.k0)", "t1(t1.i0 + 1, t1.k0)", "binding"},
    {row_sums, "t1(t1.i0, t1.k0)", "t1(t1.i0)", "binding"},
    {row_sums, "t1(t1.i0, t1.k0)", "t1(t1.i0, t1.i0)", "cover"},
    {row_sums, "t1.k0 in 0..33", "t1.k0 in 0..32", "cover"},
    {row_sums, "t1.k0 in 0..33", "t1.k0 in 1..33", "cover"},
    {row_sums, "t1(t1.i0, t1.k0)", "t1(t1.i0, 32 - t1.k0)", "cover"},
    {row_sums, "%0[i0, k0]", "%0[i0, k0 + 1]", "bounds"},
    {row_sums, "%1[i0, 0] sum=", "%1[k0 mod 5, 0] sum=", "binding"},
    {row_sums, "%1[i0, 0] sum=", "%0[i0, 0] sum=", "buffer"},
    {row_sums, "result 0", "result 0\nbuf %2 f32[5,1] global result 0", "buffer"},
    {guarded_tiles, " < 33\n", " < 34\n", "binding"},
    {guarded_tiles, " where 0 <= 4*t1.k0.o + t1.k0.i < 33", "", "binding"},
    {guarded_tiles, " < 33\n", " < 32\n", "cover"},
    {guarded_tiles, "      t1(", "      t1(t1.i0, 0)\n      t1(", "cover"},
    {flat, "    index z = 32 - x\n", "    index z = 33 - x\n", "bounds"},
    {flat, "  store %acc[0] = f32(0)\n", "", "order"},
    {flat, "  alloc %acc\n", "", "alloc"},
    {flat, "  alloc %acc\n", "  if 0 <= y < 9\n    alloc %acc\n", "alloc"},
    {flat, "y in 0..5", "y in 0..6", "bounds"},
    {flat, "store %1[y, 0]", "store %0[y, 0]", "buffer"},
    {flat, "let v0 = mul(%0[y, z], guard(1 <= x < 2, f32(0.1), f32(1)))\n",
	"if 0 <= x < 9\n      let v0 = %0[y, z]\n", "let"},
    {flat, "  for x in 0..33", "  for x in 0..2*y + 1 unroll", ""},
    {shared, "        sync shared\n        for j2", "        for j2", "sync"},
    {shared, "2)]))\n        sync", "2)]))\n        if 0 <= l < 1\n          sync", "sync"},
    {shared, "2)]))\n        sync shared\n", "2)]))\n", "sync"},
    {shared, "      for k in 0..2\n", "      for k in 0..l + 1\n", "sync"},
    {shared, "      alloc %s\n", "", "alloc"},
    {lanes, "%l[0])", "%0[y, 0])", "call"},
    {lanes, "(%r[0], %l[0])", "(f32(0), %l[0])", "call"},
    {lanes, "%l[0])", "%l[1])", "call"},
    {lanes, "  store %r[0] = %0[y, 32]\n", "", "order"},
    {turned, "%0[4]", "%0[9]", "bounds"},
    {turned, "i64(16)", "i64(17)", "bounds"},
    {turned, "i64(8)", "i64(-8)", "bounds"},
    {turned, "%1[0]", "%1[1]", "bounds"},
    {turned, "turn(%0[4]", "turn(f32(4)", "call"},
    {turned, "%1[0]", "%0[0]", "buffer"},
    {packed, "f32[24]", "f32[23]", "buffer"},
    {packed, "pack operand", "global operand", "buffer"},
    {packed, "[4,5] at", "[20] at", "buffer"},
    {packed, "3*d0 + d2", "3*d0 + d2 - 1", "buffer"},
    {turned, "%0[4], i64(16)", "%1[0], i64(8)", "order"},
    {versions, "    sync shared\n", "", "sync"},
    {versions, "  sync shared\n  for q", "  for q", "sync"},
    {versions, "%s[k mod 2, 3 - n]", "%s[(k + 1) mod 2, 3 - n]", "sync"},
    {versions, "%s[k mod 2, 3 - n]", "%s[(k + 3) mod 2, 3 - n]", "sync"},
    {versions, "%s[k mod 2, 3 - n]", "%s[n div 2, 3 - n]", "sync"},
    {versions, "%s[k mod 2, 3 - n]", "%s[0, 3 - n]", "sync"},
    {versions, "%s f32[2,4]", "%s f32[1,4]", "bounds"},
    {halved, "0 <= 12*p", "-1 <= 12*p", "bounds"},
    {halved, "f32[52]", "f32[50]", "bounds"},
    {halved, "((y + 1) div 2)", "(y div 2)", "bounds"},
    {indexed, "  sync shared\n  for l2", "  for l2", "sync"},
    {nested, "call fma8_f32", "call dot4_i8", "value"},
    {nested, "call fma8_f32", "call turn", "instruction"},
    {nested, "t1.i1 in 0..8", "t1.i1 in 0..7", "indices"},
    {nested, "t1.k0 in 0..2", "t1.k0 in 0..2 call fma8_f32", "binding"},
    {nested, "sum= mul(", "max= mul(", "value"},
    {nested, "sum= mul(", "sum= add(", "value"},
    {nested, "%0[k0, i1 + 2]", "%0[k0, 2*i1]", "indices"},
    {nested, "%0[k0, i1 + 2]", "%1[k0, i1]", "value"},
    {nested, "t1(t1.i0, t1.i1, t1.k0)", "t1(t1.i0, 7 - t1.i1, t1.k0)", "indices"},
    {nested, "t1.k0)\n", "t1.k0) where 0 <= t1.i1 < 5\n", "nest"},
    {called, "%0[k, 2]", "%0[k, 26]", "bounds"},
    {called, "%1[y, 0]", "%1[y, 1]", "bounds"},
    {called, "%1[y, 0]", "%0[y, 0]", "buffer"},
    {called, "    store %1[y, x] = f32(0)\n", "    let v0 = f32(0)\n", "order"},
    {called, "for y in 0..5\n", "for y in 0..5 call fma8_f32\n", "call"},
    {multiplied, "%a f16[16,24] shared", "%a f16[16,24] local", "call"},
    {multiplied, "%c f32[16,8] spread", "%c f32[16,8] local", "call"},
    {multiplied, "  sync shared\n  call", "  call", "sync"},
    {multiplied, "%c[0, 0], i64(8)", "%c[0, 0], i64(7)", "call"},
    {multiplied, "%b f16[8,16]", "%b bf16[8,16]", "type"},
    {multiplied, "%a[0, 8]", "%a[0, 9]", "bounds"},
    {multiplied, "%a[0, 8]", "%a[1, 8]", "bounds"},
    {multiplied, "i64(24)", "i64(23)", "call"},
};

static char *
mutated(struct arena *a, const struct mutation *m)
{
	const char *at = strstr(m->program, m->from);

	if (!at)
		fail_msg("'%s' is not in\n%s", m->from, m->program);
	return arena_printf(a, "%.*s%s%s", (int)(at - m->program), m->program, m->to, at + strlen(m->from));
}

static void
test_verifier_catches(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(refused); i++) {
		struct arena a = {0};
		struct err e = {0};
		char *text = mutated(&a, &refused[i]);

		if (verdict(text, &e))
			fail_msg("not caught: '%s' for '%s'", refused[i].to, refused[i].from);
		if (strncmp(e.msg, refused[i].rule, strlen(refused[i].rule)) != 0)
			fail_msg("'%s' for '%s': wanted rule %s, got %s", refused[i].to, refused[i].from,
			    refused[i].rule, e.msg);
		arena_fini(&a);
	}
}

/* What only running finds: races, and what is undefined element by element. */
static const struct mutation wrong[] = {
    {flat, "store %1[y, 0] =", "store %1[0, 0] =", "race"},
    {row_sums, "for t1.k0 in 0..33\n", "for t1.k0 in 0..33 parallel\n", "race"},
    {flat, "  for x in 0..33\n", "  for x in 0..33 vector\n", "race"},
    {shared, "        sync shared\n        for j2", "        for j2", "race"},
    {shared, "add(%s[7 - j2 - 2*l - 4*w]", "add(%s[4*w + 2*l + j2]", ""},
    {shared, "2)]))\n        sync shared\n", "2)]))\n", "race"},
    {flat, "store %1[y, 0] =", "store %1[y div 2, 0] =", "race"},
    {guarded_tiles, "where 0 <= 4", "where 1 <= 4", "undefined"},
    {lanes, "i in 0..8", "i in 0..7", "undefined"},
    {versions, "    sync shared\n", "", "race"},
    {versions, "%s[k mod 2, 3 - n]", "%s[(k + 1) mod 2, 3 - n]", "race"},
    {nested, "t1.k0 in 0..2\n", "t1.k0 in 0..2 parallel\n", "race"},
    {called, "x in 0..8", "x in 0..7", "undefined"},
    {called, "k in 0..2\n", "k in 0..2 parallel\n", "race"},
    {multiplied, "p in 0..16", "p in 0..15", "undefined"},
    {multiplied, "  sync shared\n  call", "  call", "race"},
};

static void
test_interpreter_catches(void **state)
{
	float in[5 * 33] = {0}, out[128];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct arena a = {0};
		struct err e = {0};
		bool ok = run(mutated(&a, &wrong[i]), in, out, &e);

		if (ok != (wrong[i].rule[0] == 0) ||
		    strncmp(e.msg, wrong[i].rule, strlen(wrong[i].rule)) != 0)
			fail_msg("'%s' for '%s': wanted rule '%s', got '%s'", wrong[i].to, wrong[i].from,
			    wrong[i].rule, ok ? "" : e.msg);
		arena_fini(&a);
	}
}

/* ---- hostile text: no byte changed, left out or doubled makes the reader, the verifier or a run fall ----
 */
static void
test_hostile_text(void **state)
{
	static const char bytes[] = "0123456789 \n()[]%.,+-*<=tvxkmindreducelanewarpguardvalueblock";
	struct rng r = {7};
	uint32_t n_read = 0, n_good = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct arena a = {0};
		struct err e = {0};
		const char *from = all[rng_below(&r, COUNT_OF(all))];
		char *text = arena_dup(&a, from, strlen(from) + 1);
		float in[5 * 33] = {0}, out[64];
		struct strbuf one, two;
		struct tir p, q;

		for (uint32_t k = 1 + rng_below(&r, 2); k > 0; k--)
			text[rng_below(&r, (uint32_t)strlen(text))] = bytes[rng_below(&r, sizeof(bytes) - 1)];
		if (tir_read(&p, &a, str_of(text), &e)) {
			n_read++;
			sb_init(&one, &a);
			sb_init(&two, &a);
			tir_print(&one, &p);
			if (!tir_read(&q, &a, sb_str(&one), &e))
				fail_msg("%s\n%s", e.msg, one.p);
			tir_print(&two, &q);
			assert_string_equal(one.p, two.p);
			if (tir_verify(&p, &e) && p.n_buf >= 2 && p.buf[0].role == BUF_OPERAND &&
			    p.buf[0].type == DT_f32 && p.buf[0].rank == 2 && p.buf[0].index == 0 &&
			    p.buf[0].dim[0] * p.buf[0].dim[1] <= 165 && p.buf[1].index == 0 &&
			    p.buf[1].role == BUF_RESULT && p.buf[1].rank == 2 &&
			    p.buf[1].dim[0] * p.buf[1].dim[1] * (int64_t)dtype_size(p.buf[1].type) <= 256) {
				n_good++;
				(void)!program_run(&a, &p, (const void *[]){in}, (void *[]){out},
				    &(struct program_opts){.max_steps = 20000}, &e);
			}
		}
		arena_fini(&a);
	}
	print_message("%u of 20000 are read, %u are right and run\n", n_read, n_good);
	assert_true(n_read > 100 && n_good > 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text_both_ways),
	    cmocka_unit_test(test_meaning),
	    cmocka_unit_test(test_verifier_catches),
	    cmocka_unit_test(test_interpreter_catches),
	    cmocka_unit_test(test_hostile_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
