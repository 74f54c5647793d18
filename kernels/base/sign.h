/* kernels/base/sign.h: codes and signatures that show who said something. */
#ifndef KORCH_SIGN_H
#define KORCH_SIGN_H

#include "base.h"

enum { HMAC_BYTES = 32, SECRET_BYTES = 32 };
/* HMAC-SHA256. */
void hmac_of(struct bytes key, struct bytes data, uint8_t out[HMAC_BYTES]);
/* Are they equal?  Takes the same time wherever they differ; no for another size than HMAC_BYTES. */
bool hmac_same(const uint8_t want[HMAC_BYTES], struct bytes have);
/* Of the system's generator for keys. */
void random_bytes(void *p, size_t n);
/* The same as mbedTLS calls it: `self` is not looked at, the answer is 0. */
int random_for_mbedtls(void *self, unsigned char *out, size_t n);

#endif
