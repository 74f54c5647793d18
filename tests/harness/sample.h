/* tests/harness/sample.h: small things that the wire carries. */
#ifndef KORCH_TEST_SAMPLE_H
#define KORCH_TEST_SAMPLE_H

#include "../../proto/msg.h"

/* A device of one core that planners can plan for, with the numbers of worker/fake.c.  Points to `class` and
 * `key`. */
struct m_env sample_env(const char *class, const char *key);
/* A spec of one primitive; each extent is another spec. */
struct str sample_spec(struct arena *a, int extent);

#endif
