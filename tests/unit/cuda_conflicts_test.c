/* Bank conflicts as the host shim counts them, on patterns whose answer is known: 32 banks of a word; what
 * lanes have in common is given once; wide words go by half and quarter warps. */
#include "../harness/cuda_conflicts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What thread t of 64 does with float s[4096] and 16-byte words of it; how many times longer it takes. */
static const struct {
	const char *what;
	double load, store; /* 0: there is none */
} rows[] = {
    {"s[t] = 1;", 0, 1},
    {"s[2 * t] = 1;", 0, 2},
    {"s[4 * t] = 1;", 0, 4},
    {"s[32 * t] = 1;", 0, 32},
    {"s[33 * t] = 1;", 0, 1},
    {"s[t / 2] = 1;", 0, 1},                     /* two lanes a word */
    {"x += s[0];", 1, 0},                        /* all the same */
    {"x += s[t] + s[8 * t];", (1 + 8) / 2.0, 0}, /* two places of the text */
    {"for (int i = 0; i < 4; i++) x += s[(i + 1) * t];", (1 + 2 + 1 + 4) / 4.0,
	0},                                  /* one place, four times */
    {"if (t % 32 < 8) s[8 * t] = 1;", 0, 2}, /* eight lanes in four banks */
    {"if (t < 0) s[t] = 1;", 0, 0},          /* nobody */
    {"s[t] = 1; K_BARRIER(); s[2 * t] = s[t];", 1, 1.5},
    {"((double *)s)[t] = 1;", 0, 1}, /* half a warp is 128 bytes */
    {"((double *)s)[2 * t] = 1;", 0, 2},
    {"k_move_16(&s[4 * t], w);", 0, 1}, /* a quarter is */
    {"k_move_16(&s[16 * t], w);", 0, 4},
    {"((short *)s)[t] = 1;", 0, 1}, /* halves of a word */
    {"((short *)s)[64 * t] = 1;", 0, 32},
    {"x += w[32 * t % 4];", 0, 0}, /* not shared */
    {"K_ASYNC_COMMIT(); K_ASYNC_WAIT(0);", 0, 0},
};

static void
kernel_of(struct arena *a, const char *what, struct kernel_code *k)
{
	*k = (struct kernel_code){.desc = {.n_passes = 1, .range = {1}}};
	k->desc.launch[0] = (struct launch){.grid = {1, 1, 1}, .block = {64, 1, 1}};
	k->text = str_of(arena_printf(a,
	    "K_KERNEL K_BOUNDS(64)\nk_p0(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 "
	    "hi)\n{\n"
	    "\tK_SHARED float s[4096] K_WORDS;\n\tfloat w[4] K_WORDS = {1, 2, 3, 4}, x = 0;\n"
	    "\tconst int t = K_TID;\n\t%s\n\t__asm__ volatile(\"\" : : \"r\"(s) : \"memory\");\n\t((volatile "
	    "float *)buf[1])[0] = x + w[t %% 4];\n}\n",
	    what));
}

static double
factor(const struct conflict *list, uint32_t n, const char *kind)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(conflict_kind(list[i].kind), kind) == 0) {
			assert_string_equal(list[i].array, "s");
			assert_int_equal(list[i].pass, 0);
			return list[i].turns / list[i].ideal;
		}
	return 0;
}

static void
test_patterns(void **state)
{
	static struct conflict list[CONFLICT_ROWS];
	uint32_t n;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct graph *g = NEW(&a, struct graph);
		struct kernel_code k;
		struct spec s;
		struct err e = {0};

		assert_true(graph_read(g, &a, STR("%0 = input f32[64]\n%1 = relu %0\noutput %1\n"), &e));
		spec_of_graph(&a, g, &s);
		kernel_of(&a, rows[i].what, &k);
		if (!cuda_conflicts(&a, &s, &k, list, &n, &e))
			fail_msg("%s: %s", rows[i].what, e.msg);
		if (factor(list, n, "load") != rows[i].load || factor(list, n, "store") != rows[i].store)
			fail_msg("%s: load %g, store %g; not %g, %g", rows[i].what, factor(list, n, "load"),
			    factor(list, n, "store"), rows[i].load, rows[i].store);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_patterns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
