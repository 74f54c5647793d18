/* kernels/codegen/sync.c: barriers anew: passes in between have made some needless, or a buffer has another's
 * place. */
#include "codegen_int.h"

void
codegen_sync(const struct tir *p, struct tir *out)
{
	if (!tir_sync(p, out))
		bug("no barrier would part threads that share a buffer");
}
