/* kernels/vendor/onednn_omp.c: one thread for a call, where oneDNN runs its kernels by OpenMP: the pool's
 * threads are those of its caller. */
#include "onednn_int.h"

#include <dlfcn.h>
#include <string.h>

struct omp
omp_find(void)
{
	struct omp o = {NULL, NULL};
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
	void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"),
	     *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");

	if (get && set) {
		memcpy(&o.get, &get, sizeof(get));
		memcpy(&o.set, &set, sizeof(set));
	}
#endif
	return o;
}

int
omp_alone(struct omp o)
{
	int before = o.get ? o.get() : 1;

	if (before != 1)
		o.set(1);
	return before;
}

void
omp_not_alone(struct omp o, int before)
{
	if (before != 1)
		o.set(before);
}
