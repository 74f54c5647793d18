/* tests/opt_library.c: what a library would be asked for. */
#include "opt.h"
#include "../kernels/vendor/library.h"

bool
opt_library(struct opt_call *c, struct err *e)
{
	struct library_call call;
	struct spec s;

	if (!opt_read_spec(c, &s, e) || !library_call_of(&s, &call, e))
		return false;
	library_call_print(c->out, &call);
	for (int l = 0; l < LIBRARY_COUNT; l++) {
		struct err why = {0};
		bool takes = library_takes((enum library)l, &call, &why);

		sb_addf(c->out, "%s: %s\n", library_id((enum library)l), takes ? "yes" : why.msg);
	}
	return true;
}
