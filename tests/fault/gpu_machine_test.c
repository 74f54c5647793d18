/* What is wrong with a GPU costs no measurement and leaves none that is not one: faults, strangers,
 * throttling, clocks. memory: yes threads: yes */
#include "gpu_rig.h"

#include "../../worker/calibration_cache.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- faults of the machine ---------------------------------------------------------------------- */
static void
machine_faults(void **state)
{
	static const struct {
		const char *fault;
		enum err_code code;
		const char *words;
		int rows;
	} rows[] = {
	    {"lost=1000000", ERR_DEVLOST, "busy or unavailable", 1},
	    {"throttle=1000000", ERR_THROTTLED, "thermal", 1},
	    {"mig=1,throttle=1000000", ERR_THROTTLED, "thermal",
		1}, /* a slice's own handle tells no reasons */
	    {"foreign=1000000", ERR_BUSY, "another process", 1},
	    {"memory=3", ERR_MEMORY, "memory", 30000}, /* a megabyte for the smallest of them */
	};
	struct rig r;
	struct err e = {0};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(rows); k++) {
		char device[96];

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=h200,seed=5,%s", rows[k].fault);
		if (!rig_open(&r, device, &e))
			fail_msg("%s: %s", rows[k].fault, e.msg);
		rig_measure(&r, rows[k].rows);
		for (int i = 0; i < RIG_N; i++) {
			if (r.out[i].n_rows)
				fail_msg("%s: task %d has a row", rows[k].fault, i);
			if (err_of_wire(r.out[i].fail) != rows[k].code ||
			    !strstr(str_dup(&r.a, r.out[i].cause), rows[k].words))
				fail_msg("%s: %s \"%.*s\"", rows[k].fault,
				    err_name(err_of_wire(r.out[i].fail)), STR_ARG(r.out[i].cause));
		}
		rig_close(&r);
	}
}

/* Lost at some moment of a batch, whoever's turn it is: what was measured by then has its time, all else is
 * the machine's fault, and nothing is kept that has no time. */
static void
lost_at_any_moment(void **state)
{
	static const int moments[] = {3, 6, 9, 40, 90, 250};
	struct rig clean;
	struct err e = {0};
	uint32_t n_lost = 0;

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=15", &e));
	rig_measure(&clean, 1);
	for (size_t k = 0; k < COUNT_OF(moments); k++) {
		int at = moments[k];
		char device[64];
		struct rig r;

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=15,lost_at=%d", at);
		assert_true(rig_open(&r, device, &e));
		rig_measure(&r, 1);
		for (int i = 0; i < RIG_N; i++) {
			if (r.out[i].fail)
				n_lost++;
			if (r.out[i].fail ? err_of_wire(r.out[i].fail) != ERR_DEVLOST || r.out[i].n_rows
					  : r.out[i].n_rows != 1 || r.out[i].rows[0].fail ||
				    r.out[i].rows[0].median_ns != clean.out[i].rows[0].median_ns)
				fail_msg("lost at %d, task %d: %.*s, %u rows, the first of %lld ns", at, i,
				    STR_ARG(r.out[i].cause), r.out[i].n_rows,
				    (long long)(r.out[i].n_rows ? r.out[i].rows[0].median_ns : 0));
		}
		rig_close(&r);
	}
	assert_true(n_lost > 0);
	rig_close(&clean);
}

/* Now and then throttled or disturbed: those samples do not count, and the times are the clean ones. */
static void
voids_samples(void **state)
{
	struct rig r, clean;
	struct err e = {0};
	int n_told = 0;

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=12", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=12,throttle=200000,foreign=100000", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	assert_int_equal(rig_n_good(&r), RIG_N);
	for (int i = 0; i < RIG_N; i++) {
		const char *state_now = str_dup(&r.a, r.out[i].rows[0].state);

		assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
		/* what did not count is told with its reason, and its clock and heat are not among those kept
		 */
		n_told += strstr(state_now, "reasons=thermal") && !strstr(state_now, "throttled=0");
		n_told += strstr(state_now, "disturbed=0") == NULL;
		assert_non_null(strstr(state_now, "lowest=1410 celsius=55..55"));
	}
	assert_true(n_told > RIG_N);
	rig_close(&clean);
	rig_close(&r);
}

/* At its power cap: what a kernel takes at full load is what it takes.  The times count, slower as they are,
 * and the rows tell; heat beside it voids samples as ever. */
static void
power_cap_counts(void **state)
{
	struct rig r, clean, hot;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=h200,seed=18", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=h200,seed=18,power=1000000", &e));
	assert_true(rig_open(&hot, "cuda-fake:gpu=h200,seed=18,power=1000000,throttle=1000000", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	rig_measure(&hot, 1);
	assert_int_equal(rig_n_good(&r), RIG_N);
	for (int i = 0; i < RIG_N; i++) {
		const struct m_row *row = &r.out[i].rows[0];
		const char *words = str_dup(&r.a, row->state);

		assert_true(row->median_ns > clean.out[i].rows[0].median_ns);
		assert_non_null(strstr(words, "mhz=1782 lowest=1782"));
		assert_non_null(strstr(words, "throttled=0 disturbed=0 capped="));
		assert_null(strstr(str_dup(&r.a, clean.out[i].rows[0].state), "capped"));
		assert_int_equal(err_of_wire(hot.out[i].fail), ERR_THROTTLED);
	}
	rig_close(&clean);
	rig_close(&r);
	rig_close(&hot);
}

/* What a device can do at best is seen in its memory and on all its SMs, not in a cache or on a few of them;
 * what the calibration keeps is that, and one made by another method is made anew. */
static void
calibrates(void **state)
{
	static const struct {
		const char *name;
		double dram, flops, tensor; /* nine tenths of the data sheet's */
	} models[] = {{"v100", 0.9 * 898.0e9, 0.9 * 15.67e12, 0.9 * 125.3e12},
	    {"a100", 0.9 * 1555.2e9, 0.9 * 19.49e12, 0.9 * 311.9e12},
	    {"h200", 0.9 * 4916.7e9, 0.9 * 66.9e12, 0.9 * 1070e12}};
	struct err e = {0};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(models); k++) {
		const double *fact;
		char device[64];
		struct rig r;

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=%s,seed=21", models[k].name);
		assert_true(rig_open(&r, device, &e));
		fact = r.d.info->fact;
		if (fabs(fact[DEV_FACT_dram_bytes_per_s] / models[k].dram - 1) > 0.03 ||
		    fabs(fact[DEV_FACT_flops_peak] / models[k].flops - 1) > 0.05 ||
		    fabs(r.d.tensor_flops / models[k].tensor - 1) > 0.05 ||
		    fact[DEV_FACT_l2_bytes_per_s] < 1.5 * fact[DEV_FACT_dram_bytes_per_s])
			fail_msg("%s: %g bytes/s of memory, %g of its cache, %g flops", models[k].name,
			    fact[DEV_FACT_dram_bytes_per_s], fact[DEV_FACT_l2_bytes_per_s],
			    fact[DEV_FACT_flops_peak]);
		assert_true(r.d.env.hw.dram_bytes_per_s >= fact[DEV_FACT_dram_bytes_per_s]);
		assert_true(r.d.env.hw.flops_peak >= fact[DEV_FACT_flops_peak]);
		rig_close(&r);
	}
}

static void
other_methods_do_not_count(void **state)
{
	struct calibration old = {.ref_ns = {123456789, 123456789}};
	struct rig r;
	struct err e = {0};
	char *words, *at;

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=22,rtc=12", &e));
	words = str_dup(&r.a, r.d.env.key);
	at = strstr(words, "method=gpu-3");
	assert_non_null(at);
	memcpy(at, "method=gpu-2", 12);
	assert_true(calibration_save_for(NULL, words, &old, &e)); /* as that program would have left it */
	rig_close(&r);
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=22,rtc=12", &e));
	assert_true(r.d.info->fact[DEV_FACT_dram_bytes_per_s] > 1e12);
	rig_close(&r);
}

/* Clocks that rise while it works: what is timed before they have risen would be no measurement. */
static void
warms_up(void **state)
{
	struct rig r, clean;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=14", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=14,cold=50", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	assert_int_equal(rig_n_good(&r), RIG_N);
	for (int i = 0; i < RIG_N; i++)
		assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
	rig_close(&clean);
	rig_close(&r);
}

/* What NVML tells of a slice, and of a GPU whose processes it does not list: that is no stranger's presence.
 */
static void
what_nvml_tells(void **state)
{
	static const char seen[] = "mhz=1410 lowest=1410 celsius=55..55 watt=280 throttled=0 disturbed=0";
	static const struct {
		const char *device, *words;
	} rows[] = {{"gpu=a100,seed=9", ""}, {"gpu=a100,seed=9,mig=1", ""},
	    {"gpu=a100,seed=9,no_list=1", " processes=unseen"}};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(rows); k++) {
		char device[96];
		struct rig r;
		struct err e = {0};

		(void)snprintf(device, sizeof(device), "cuda-fake:%s", rows[k].device);
		if (!rig_open(&r, device, &e))
			fail_msg("%s", e.msg);
		rig_measure(&r, 1);
		for (int i = 0; i < RIG_N; i++) {
			struct strbuf sb;

			sb_init(&sb, &r.a);
			sb_addf(&sb, "%s%s regs=32 blocks=32", seen, rows[k].words);
			if (r.out[i].fail || r.out[i].n_rows != 1 ||
			    !str_eq(r.out[i].rows[0].state, sb_str(&sb)))
				fail_msg("%s: %.*s%.*s", rows[k].device, STR_ARG(r.out[i].cause),
				    STR_ARG(r.out[i].n_rows ? r.out[i].rows[0].state : STR("")));
		}
		rig_close(&r);
	}
}

/* While a kernel is measured the physical GPU is locked, for MIG slices of it too: one measurement at a time.
 * The kernel hangs, so that the watcher is sure to look while it is there. */
struct watch {
	const char *lock;
	atomic_bool is_over, was_held;
};

static void *
watch(void *arg)
{
	struct watch *w = arg;

	while (!w->is_over && !w->was_held) {
		int fd = open(w->lock, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			break;
		if (flock(fd, LOCK_EX | LOCK_NB) != 0)
			w->was_held = true;
		(void)close(fd);
		(void)sched_yield();
	}
	return NULL;
}

static void
one_at_a_time(void **state)
{
	static const char *const devices[] = {"cuda-fake:gpu=a100,seed=16,hang=1000000,kernel_ms=100",
	    "cuda-fake:gpu=a100,seed=16,mig=1,hang=1000000,kernel_ms=100"};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(devices); k++) {
		char lock[128];
		struct watch w = {.lock = lock};
		struct rig r;
		pthread_t thread;
		struct err e = {0};

		/* of seed 16, device 0 */
		(void)snprintf(
		    lock, sizeof(lock), "%s/korch/gpu-FAKE:10:00.0.lock", getenv("XDG_RUNTIME_DIR"));
		assert_true(rig_open(&r, devices[k], &e));
		assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
		rig_measure(&r, 1);
		w.is_over = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(w.was_held);
		rig_close(&r);
	}
}

/* A device that is gone fails its canary, and takes no task. */
static void
gone(void **state)
{
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=13", &e)); /* calibrated while it was well */
	rig_close(&r);
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=13,gone=1", &e));
	assert_false(r.d.canary(r.d.self, &e));
	assert_int_equal(e.code, ERR_DEVLOST);
	rig_measure(&r, 1);
	for (int i = 0; i < RIG_N; i++)
		assert_int_equal(err_of_wire(r.out[i].fail), ERR_DEVLOST);
	rig_close(&r);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(machine_faults),
	    cmocka_unit_test(lost_at_any_moment),
	    cmocka_unit_test(voids_samples),
	    cmocka_unit_test(power_cap_counts),
	    cmocka_unit_test(calibrates),
	    cmocka_unit_test(other_methods_do_not_count),
	    cmocka_unit_test(what_nvml_tells),
	    cmocka_unit_test(warms_up),
	    cmocka_unit_test(one_at_a_time),
	    cmocka_unit_test(gone),
	};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
