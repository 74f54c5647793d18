/* tests/harness/setting.h: how much of a test is run, from the environment. */
#ifndef KORCH_TEST_SETTING_H
#define KORCH_TEST_SETTING_H

#include <stdint.h>

/* The whole number in $NAME, else `otherwise`. */
uint64_t setting(const char *name, uint64_t otherwise);

#endif
