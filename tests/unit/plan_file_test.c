/* tests/unit/plan_file_test.c: a plan comes back from its file as it went in; a damaged file is
 * refused with one error, whatever byte was hit. */
#include "../../schema/plan_file.h"
#include "../harness/plan_sample.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
	char dir[64], path[96], other[96];
};

static int
open_folder(void **state)
{
	struct folder *f = heap_alloc(sizeof(*f));

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/korch-plan-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/a.korch", f->dir);
	(void)snprintf(f->other, sizeof(f->other), "%s/b.korch", f->dir);
	*state = f;
	return 0;
}

static int
close_folder(void **state)
{
	struct folder *f = *state;

	(void)unlink(f->path);
	(void)unlink(f->other);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static const struct plan_host host = {.wall_ns = 5, .made_by = {"korch test", 10}, .host = {"here", 4}};

static void
save_sample(struct arena *a, const char *path, struct plan *p)
{
	struct err e = {0};

	plan_sample_dry(a, p);
	if (!plan_save(path, p, &host, &e))
		fail_msg("%s", e.msg);
}

/* Of a plan in memory: through another file, made elsewhere. */
static void
digest_of(const struct folder *f, const struct plan *p, struct hash *out)
{
	const struct plan_host elsewhere = {.wall_ns = 77, .made_by = {"x", 1}, .host = {"y", 1}};
	struct err e = {0};

	if (!plan_save(f->other, p, &elsewhere, &e) || !plan_file_digest(f->other, out, &e))
		fail_msg("%s", e.msg);
}

static void
comes_back_as_it_was(void **state)
{
	const struct folder *f = *state;
	struct arena a = {0};
	struct plan want, have;
	struct plan_host h;
	struct hash dw, dh, df;
	struct err e = {0};

	save_sample(&a, f->path, &want);
	if (!plan_load(&a, f->path, &have, &h, &e))
		fail_msg("%s", e.msg);
	digest_of(f, &want, &dw);
	digest_of(f, &have, &dh);
	assert_memory_equal(dw.b, dh.b, 32);
	assert_int_equal(have.measured_ns, 170);
	assert_true(have.clock_ratio == 0.9375);
	assert_true(have.expected_ns == want.expected_ns && have.expected_of == want.expected_of);
	assert_true(have.expected_low_ns == 150 && have.expected_high_ns == 190);
	assert_int_equal(h.wall_ns, 5);
	assert_true(str_is(h.host, "here"));
	assert_int_equal((uintptr_t)have.constants.p % PLAN_ALIGN, 0);
	assert_memory_equal(have.constants.p, want.constants.p, want.constants.n);
	assert_true(str_eq(have.source, want.source));
	assert_int_equal(have.steps[1].places[0], 2);
	assert_int_equal(have.rivals[1].candidate, PLAN_NONE);
	assert_true(str_is(have.rivals[1].cause, "wrong output"));
	assert_int_equal(have.nodes[2].fate, FATE_VIEW);
	assert_int_equal(have.n_perturbed, 1);
	assert_memory_equal(have.perturbed, want.perturbed, sizeof(*want.perturbed));
	assert_int_equal(have.n_heats, 1);
	assert_true(have.heats[0].kernel == 1 && str_is(have.heats[0].word, "hnc"));
	assert_int_equal(have.n_expected, 1);
	assert_memory_equal(have.expected, want.expected, sizeof(*want.expected));
	assert_true(have.n_sures == 1 && have.n_sure_costs == 1 && have.n_sure_rows == 1);
	assert_memory_equal(have.sures, want.sures, sizeof(*want.sures));
	assert_true(have.sure_costs[0].candidate == 1 && have.sure_costs[0].cost_ns == 59);
	assert_true(have.sure_rows[0].candidates[0] == 1 && have.sure_rows[0].n_candidates == 1);
	assert_true(plan_file_check(f->path, &df, &e));
	assert_memory_equal(dw.b, df.b, 32);
	assert_memory_equal(h.digest.b, df.b, 32);
	arena_fini(&a);
}

static void
digest_leaves_out_times_and_host(void **state)
{
	const struct folder *f = *state;
	struct arena a = {0};
	struct plan p;
	struct hash before, after;

	plan_sample_dry(&a, &p);
	digest_of(f, &p, &before);
	p.measured_ns = 999;
	p.runner_ns = 7;
	p.expected_ns = 8;
	p.clock_ratio = 1.5;
	digest_of(f, &p, &after);
	assert_true(hash_eq(&before, &after));
	p.kernels[0].cost_ns++;
	digest_of(f, &p, &after);
	assert_false(hash_eq(&before, &after));
	arena_fini(&a);
}

static struct bytes
read_back(struct arena *a, const char *path)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a, path, 1 << 24, &b, &e))
		fail_msg("%s", e.msg);
	return b;
}

static void
write_to(const char *path, const uint8_t *p, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static bool
is_refusal(enum err_code c)
{
	return c == ERR_FORMAT || c == ERR_IO || c == ERR_NEWER || c == ERR_LIMIT;
}

/* A flipped bit either changes nothing that is read (a free byte of a page) or is refused. */
static void
every_flipped_byte_is_found_or_idle(void **state)
{
	const struct folder *f = *state;
	struct arena a = {0};
	struct plan want, have;
	struct hash dw, dh;
	struct rng r = {11};
	struct bytes file;
	uint32_t n_refused = 0;

	save_sample(&a, f->path, &want);
	digest_of(f, &want, &dw);
	file = read_back(&a, f->path);
	for (uint32_t i = 0; i < 1500; i++) {
		struct arena_mark mark = arena_mark(&a);
		uint8_t *bad = arena_dup(&a, file.p, file.n);
		struct err e = {0};

		bad[rng_below(&r, (uint32_t)file.n)] ^= (uint8_t)(1u << rng_below(&r, 8));
		write_to(f->other, bad, file.n);
		if (plan_load(&a, f->other, &have, NULL, &e)) {
			digest_of(f, &have, &dh);
			assert_true(hash_eq(&dw, &dh));
		} else {
			n_refused++;
			assert_true(is_refusal(e.code));
			assert_non_null(strstr(e.msg, "b.korch"));
		}
		arena_reset(&a, mark);
	}
	assert_true(n_refused > 20);
	arena_fini(&a);
}

static void
every_truncation_is_refused(void **state)
{
	const struct folder *f = *state;
	struct arena a = {0};
	struct plan want, have;
	struct bytes file;

	save_sample(&a, f->path, &want);
	file = read_back(&a, f->path);
	for (size_t n = 0; n < file.n; n += n < 256 ? 17 : 4099) {
		struct err e = {0};

		write_to(f->other, file.p, n);
		assert_false(plan_load(&a, f->other, &have, NULL, &e));
		assert_true(is_refusal(e.code));
	}
	arena_fini(&a);
}

static void
newer_older_and_foreign_files_are_named(void **state)
{
	const struct folder *f = *state;
	struct arena a = {0};
	struct plan want, have;
	struct bytes file;
	uint8_t *bad;
	struct err e = {0};

	plan_sample_dry(&a, &want);
	want.values = STR(""); /* which older formats lack */
	if (!plan_save(f->path, &want, &host, &e))
		fail_msg("%s", e.msg);
	file = read_back(&a, f->path);
	bad = arena_dup(&a, file.p, file.n);
	bad[63] = 99; /* user_version, big-endian at 60 */
	write_to(f->other, bad, file.n);
	assert_false(plan_load(&a, f->other, &have, NULL, &e));
	assert_int_equal(e.code, ERR_NEWER);
	bad[63] = PLAN_FILE_OLDEST;
	write_to(f->other, bad, file.n);
	assert_true(plan_load(&a, f->other, &have, NULL, &e));
	bad[63] = PLAN_FILE_OLDEST - 1;
	write_to(f->other, bad, file.n);
	assert_false(plan_load(&a, f->other, &have, NULL, &e));
	assert_non_null(strstr(e.msg, "older Korch"));
	bad[63] = 1;
	bad[68] ^= 1; /* application_id */
	write_to(f->other, bad, file.n);
	assert_false(plan_load(&a, f->other, &have, NULL, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	write_to(f->other, (const uint8_t *)"not a plan at all, only words", 29);
	assert_false(plan_load(&a, f->other, &have, NULL, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	(void)unlink(f->other);
	assert_false(plan_load(&a, f->other, &have, NULL, &e));
	assert_int_equal(e.code, ERR_IO);
	arena_fini(&a);
}

/* One wrong number each; plan_check must see it. */
static void
inconsistent_plans_are_refused(void **state)
{
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	(void)state;
#define REFUSED(CHANGE)                                                                                      \
	do {                                                                                                 \
		plan_sample_dry(&a, &p);                                                                     \
		assert_true(plan_check(&p, &e));                                                             \
		CHANGE;                                                                                      \
		e = (struct err){0};                                                                         \
		assert_false(plan_check(&p, &e));                                                            \
		assert_int_equal(e.code, ERR_FORMAT);                                                        \
		e = (struct err){0};                                                                         \
	} while (0)
	REFUSED(p.places[2].offset = 64);
	REFUSED(p.places[2].offset = SIZE_MAX - 63);
	REFUSED(p.places[0].index = 1);
	REFUSED(p.places[3].n_bytes = 4);
	REFUSED(p.places[1].offset = 2);
	REFUSED(p.steps[0].places[1] = 77);
	REFUSED(p.steps[0].kernel = 2);
	REFUSED(p.steps[0].n_places = 2);
	REFUSED(p.steps[0].places[2] = 0);
	REFUSED(p.steps[1].places[1] = 2);
	REFUSED(p.kernels[0].n_passes = PLAN_MAX_PASSES + 1);
	REFUSED(p.kernels[0].range[0] = -1);
	REFUSED(p.kernels[0].symbol = STR("a b"));
	REFUSED(p.copies[0].to = 2);
	REFUSED(p.rows[0].candidates[0] = 2);
	REFUSED(p.n_threads = 0);
	REFUSED(p.rivals[0].candidate = 2);
	REFUSED(p.rivals[1].bound_ns = -1);
	REFUSED(p.rivals[0].error_ns = -1);
	REFUSED(p.kernels[0].error_ns = NAN);
	REFUSED(p.rivals[1].cause.n = PLAN_MAX_WORDS + 1);
	REFUSED(p.exchanges[0].steps[0] = 2);
	REFUSED(p.exchanges[0].rivals[0] = 2);
	REFUSED(p.n_exchanges = 1);
	REFUSED(p.aparts[0].b = 2);
	REFUSED(p.aparts[1].b = 3);
	REFUSED(p.aparts[0].failed = 2);
	REFUSED(p.aparts[1].exchange = 2);
	REFUSED(p.perturbed[0].kernel = 2);
	REFUSED(p.perturbed[0].ratio = NAN);
	REFUSED(p.perturbed[0].ratio = 0);
	REFUSED(p.perturbed[0].low = INFINITY);
	REFUSED(p.perturbed[0].high = .9);
	REFUSED(p.perturbed[0].expected = -1);
	REFUSED(p.perturbed[0].pairs = -1);
	REFUSED(p.perturbed[0].moves = -1);
	REFUSED(p.nodes[1].reads[0] = 3);
	REFUSED(p.nodes[0].steps[0] = 2);
	REFUSED(p.nodes[2].fate = FATE_COUNT);
#undef REFUSED
	arena_fini(&a);
}

static void
unwritable_folder_leaves_nothing(void **state)
{
	struct arena a = {0};
	struct plan p;
	struct err e = {0};

	(void)state;
	plan_sample_dry(&a, &p);
	assert_false(plan_save("/nowhere/at/all/x.korch", &p, &host, &e));
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.msg, "/nowhere/at/all/x.korch"));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(comes_back_as_it_was, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(digest_leaves_out_times_and_host, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(every_flipped_byte_is_found_or_idle, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(every_truncation_is_refused, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(
		newer_older_and_foreign_files_are_named, open_folder, close_folder),
	    cmocka_unit_test(inconsistent_plans_are_refused),
	    cmocka_unit_test(unwritable_folder_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
