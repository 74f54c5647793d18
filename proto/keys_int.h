/* proto/keys_int.h: what reading certificates and making them share; for this folder alone. */
#ifndef KORCH_KEYS_INT_H
#define KORCH_KEYS_INT_H

#include "keys.h"

/* False: *e says "FILE: " and what mbedTLS calls its answer rc. */
bool keys_failed(const char *file, int rc, enum err_code code, struct err *e);

#endif
