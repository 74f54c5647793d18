/* tests/unit/identify_operator_test.c: `--fusion operator` on operators that are no one kernel: an LSTM,
 * written out step by step, is solved within itself over the same units as a full search, so it lists no more
 * candidates. */
#include "../../daemon/fission/fission.h"
#include "../../daemon/identify/identify.h"
#include "../../daemon/rewrite/rewrite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
candidates_of(
    struct arena *a, const char *text, enum identify_mode mode, struct graph *g, struct cand_set *out)
{
	struct rewrite_opts ro = {.normalize = true,
	    .alternatives = mode == IDENTIFY_FULL,
	    .worst = NUM_PRECISION,
	    .max_nodes = 100000};
	struct fission_stats fs;
	struct rewrite_stats rs;
	struct graph prim;
	struct model m;
	struct err e = {0};

	if (!model_text_read(a, str_of(text), "case", &m, &e) || !fission_run(a, &m, &prim, &fs, &e) ||
	    !rewrite_run(a, &prim, &ro, g, &rs, &e) ||
	    !identify_run(a, g, mode, &identify_limits_default, out, &e))
		fail_msg("%s", e.msg);
}

/* One LSTM of `steps` steps, and operators around it. */
static const char *
lstm(struct arena *a, int steps)
{
	return arena_printf(a,
	    "model opset=22\n"
	    "in x f32[%d,1,48]\n"
	    "const w f32[1,256,48]\n"
	    "const r f32[1,256,64]\n"
	    "const b f32[1,512]\n"
	    "const v f32[64,10]\n"
	    "node LSTM x w r b -> y h c hidden_size=64\n"
	    "node Relu y -> z\n"
	    "node MatMul z v -> s\n"
	    "node Softmax s -> o axis=-1\n"
	    "out o h c\n",
	    steps);
}

static void
an_lstm_lists_no_more_than_a_full_search(void **state)
{
	static const int steps[] = {1, 4, 16, 48};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		struct arena a = {0};
		const char *text = lstm(&a, steps[i]);
		struct cand_set full, operator, none;
		struct graph g;

		candidates_of(&a, text, IDENTIFY_NONE, &g, &none);
		candidates_of(&a, text, IDENTIFY_OPERATOR, &g, &operator);
		candidates_of(&a, text, IDENTIFY_FULL, &g, &full);
		print_message("%d steps: none %u, operator %u, full %u\n", steps[i],
		    none.n_cands, operator.n_cands, full.n_cands);
		assert_true(operator.n_cands <= full.n_cands);
		assert_true(operator.n_cands> none.n_cands);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_lstm_lists_no_more_than_a_full_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
