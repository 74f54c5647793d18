/* kernels/vendor/cpu_library.c: which of the libraries for CPUs this program was built with. */
#include "cpu_library.h"

const struct cpu_library *
cpu_library(enum library l)
{
#ifdef KORCH_ONEDNN
	if (l == LIBRARY_onednn)
		return &cpu_onednn;
#endif
	(void)l;
	return NULL;
}
