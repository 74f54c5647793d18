/* tests/harness/text_time.h: the text of one generator timed beside that of another, of the same spec and
 * schedule, in turns in one process. */
#ifndef KORCH_TEST_TEXT_TIME_H
#define KORCH_TEST_TEXT_TIME_H

#include "generator.h"
#include "texts.h"

struct text_time_opts {
	const struct generator *old, *new;
	const struct target *target; /* the host's, or less */
	const char *flags;           /* more of them for what is new */
	uint32_t count;              /* kernels of each class, evenly out of all */
	int turns;
	double rel;    /* the largest difference of results, of the largest magnitude, that is none */
	bool lines;    /* a line for each kernel, too */
	bool has_only; /* of that class alone */
	enum kernel_class only;
};
/* Geometric means and the slowest kernel by class, new over old; beside each what the old text takes over
 * itself, compiled a second time: the error of that figure; what compiling the new text takes of the
 * processor, over the old.  wrong: kernels whose results differ; refused: those that the new generator does
 * not make. */
struct text_times {
	uint32_t wrong, refused;
};
bool text_time(struct strbuf *sb, const struct texts *t, const struct text_time_opts *o,
    struct text_times *out, struct err *e) MUST_CHECK;

#endif
