/* kernels/space/sched.h: a schedule's choices as numbers: for whoever reads more of it than its text. */
#ifndef KORCH_SCHED_H
#define KORCH_SCHED_H

#include "space.h"

/* A schedule as numbers (space.def). */
enum knob {
#define KNOB(N, ...) KNOB_##N,
#include "knob.def"
#undef KNOB
	KNOB_COUNT
};
struct sched {
	int64_t v[KNOB_COUNT]; /* INT64_MIN: the default */
};
bool sched_read(struct str text, struct sched *out, struct err *e) MUST_CHECK;
void sched_print(struct strbuf *sb, const struct sched *s);
/* Does it name a library's kernel in place of a generated one? */
bool sched_library(const struct sched *s, enum library *l, int64_t *version);
const char *knob_name(int k);
/* The knob's value, or `otherwise`. */
int64_t sched_get(const struct sched *s, enum knob k, int64_t otherwise);

#endif
