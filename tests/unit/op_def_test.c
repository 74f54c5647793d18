/* tests/unit/op_def_test.c: every row of op.def has a golden case of fission: a node of that
 * operator in a model text whose opset chooses that row. */
#include "../../daemon/model/op.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void
mark(struct str text, bool *seen)
{
	int64_t opset = 0;

	while (text.n > 0) {
		struct str line = str_cut(&text, '\n'), word = str_cut(&line, ' ');
		if (str_is(word, "model")) {
			(void)str_cut(&line, '=');
			(void)str_to_i64(line, &opset);
		}
		if (!str_is(word, "node"))
			continue;
		struct arena a = {0};
		const struct op_info *op = op_find(str_dup(&a, str_cut(&line, ' ')), (int)opset);
		if (op)
			seen[op - op_info] = true;
		arena_fini(&a);
	}
}

static void
every_row_has_a_golden_case(void **state)
{
	const char *dir = KORCH_SOURCE_DIR "/tests/golden/fission";
	bool seen[OP_COUNT] = {false};
	struct arena a = {0};
	struct err e = {0};
	int missing = 0;
	DIR *d = opendir(dir);

	(void)state;
	assert_non_null(d);
	for (struct dirent *x; (x = readdir(d));) {
		struct bytes b;
		if (x->d_name[0] == '.')
			continue;
		assert_true(
		    os_read_file(os_real(), &a, arena_printf(&a, "%s/%s", dir, x->d_name), 1 << 24, &b, &e));
		mark((struct str){(const char *)b.p, b.n}, seen);
	}
	(void)closedir(d);
	for (size_t i = 0; i < OP_COUNT; i++)
		if (!seen[i]) {
			print_error("no golden case for %s of opset %d\n", op_info[i].name, op_info[i].since);
			missing++;
		}
	arena_fini(&a);
	assert_int_equal(missing, 0);
}

/* op_find chooses the last row that is not later; names stand together (the lists rely on it). */
static void
rows_of_a_name_stand_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < OP_COUNT; i++) {
		assert_true(op_info[i].in[0] <= op_info[i].in[1]);
		assert_ptr_equal(op_find(op_info[i].name, op_info[i].since), &op_info[i]);
		for (size_t k = i + 2; k < OP_COUNT; k++)
			if (strcmp(op_info[i].name, op_info[k].name) == 0)
				assert_string_equal(op_info[k - 1].name, op_info[k].name);
	}
	assert_null(op_find("Gelu", 19));
	assert_non_null(op_find("Gelu", 20));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_row_has_a_golden_case),
	    cmocka_unit_test(rows_of_a_name_stand_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
