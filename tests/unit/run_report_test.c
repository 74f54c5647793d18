/* What korch-run says of streams: both times side by side where both were timed, none where none was. */
#include "../../client/run_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void
streams(void **state)
{
	static const struct {
		struct plan_streams s;
		const char *words, *json;
	} rows[] = {{{4, 3, 3, 5, 2000000, 1500000},
			"streams: 3 used; 2.000 ms on 1, 1.500 ms on 3 with 5 waits, timed in turns when the "
			"plan was opened\n",
			",\"streams\":{\"asked\":4,\"used\":3,\"side\":3,\"waits\":5,\"one_ns\":2000000,"
			"\"side_ns\":1500000}"},
	    {{4, 1, 2, 1, 2000000, 2000001},
		"streams: 1 used; 2.000 ms on 1, 2.000 ms on 2 with 1 waits, timed in turns when the plan "
		"was opened\n",
		",\"streams\":{\"asked\":4,\"used\":1,\"side\":2,\"waits\":1,\"one_ns\":2000000,\"side_ns\":"
		"2000001}"},
	    {{4, 1, 1, 0, 0, 0}, "streams: 1 used; no two kernels can gain by running side by side\n",
		",\"streams\":{\"asked\":4,\"used\":1,\"side\":1,\"waits\":0,\"one_ns\":0,\"side_ns\":0}"},
	    {{1, 1, 1, 0, 0, 0}, "streams: 1 used; no more were asked for\n",
		",\"streams\":{\"asked\":1,\"used\":1,\"side\":1,\"waits\":0,\"one_ns\":0,\"side_ns\":0}"}};
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct strbuf words, json;

		sb_init(&words, &a);
		sb_init(&json, &a);
		run_report_streams(&words, &rows[i].s, false);
		run_report_streams(&json, &rows[i].s, true);
		assert_string_equal(words.p, rows[i].words);
		assert_string_equal(json.p, rows[i].json);
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(streams)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
