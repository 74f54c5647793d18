/* tests/harness/texts.h: the kernels of models as rows (spec, schedule, hash of the text), to see what
 * another generator, or another build, makes otherwise. */
#ifndef KORCH_TEST_TEXTS_H
#define KORCH_TEST_TEXTS_H

#include "../../daemon/identify/identify.h"
#include "kernel_class.h"

struct text_row {
	struct hash spec;
	struct str target, schedule;
	enum kernel_class class;
	uint64_t text;           /* kernel_code_hash() of it: how it is started included, the head not */
	const struct spec *what; /* NULL in a list that was read */
};
struct texts {
	struct arena *a;
	struct text_row *row;
	uint32_t n, cap;
	uint32_t refused, without; /* schedules that are refused; specs with no kernel at all */
	uint64_t *seen;            /* specs that are in it */
	uint32_t n_seen, n_slots;
};
struct texts_opts {
	struct target target;
	uint32_t effort; /* schedules of a spec, at most (space_list) */
	int64_t step, from;
};
/* Adds every step-th distinct spec of the model's candidates with the schedules of its space. */
bool texts_add_model(struct texts *t, const struct texts_opts *o, const char *file, struct err *e) MUST_CHECK;
/* One line a row. */
void texts_print(struct strbuf *sb, const struct texts *t);
bool texts_read(struct texts *t, struct str text, const char *name, struct err *e) MUST_CHECK;
/* By class: rows that are equal, whose text differs, that one list alone has; then up to `most` of those that
 * are not equal.  How many are not. */
uint32_t texts_compare(struct strbuf *sb, const struct texts *old, const struct texts *new, uint32_t most);

#endif
