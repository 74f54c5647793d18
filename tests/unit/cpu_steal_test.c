/* tests/unit/cpu_steal_test.c: two processes that want one core: the account says that somebody waited.
 * label: cpu */
#include "../../worker/measure_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t ENOUGH_NS = 100000000;

static void
pin_to_first(void)
{
	cpu_set_t all, one;
	size_t i = 0;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		_exit(2);
	while (!CPU_ISSET(i, &all))
		i++;
	CPU_SET(i, &one);
	if (sched_setaffinity(0, sizeof(one), &one) != 0)
		_exit(2);
}

static pid_t
spinner(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_first();
	for (volatile int k = 1; k;)
		;
	_exit(0);
}

static void
one_core_for_two(void **state)
{
	pid_t pids[2];
	int64_t waited;

	(void)state;
	if (access("/proc/self/schedstat", R_OK) != 0) {
		print_message("SKIP: 1 part: this system keeps no account of waiting\n");
		return;
	}
	for (int i = 0; i < 2; i++)
		pids[i] = spinner();
	do {
		waited = 0;
		for (int i = 0; i < 2; i++)
			waited += stolen_ns(pids[i]);
	} while (waited < ENOUGH_NS);
	for (int i = 0; i < 2; i++) {
		(void)kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	assert_int_equal(stolen_ns(pids[0]), 0); /* gone */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_core_for_two)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
