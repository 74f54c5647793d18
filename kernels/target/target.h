/* kernels/target/target.h: what the generator may assume about the device. */
#ifndef KORCH_TARGET_H
#define KORCH_TARGET_H

#include "../base/base.h"
#include "../base/isa.h"
#include "../vendor/library.h"

/* Of the products in linear primitives on a GPU; sums are in f32 always. */
enum precision { PRECISION_F32, PRECISION_TF32, PRECISION_F16, PRECISION_BF16, PRECISION_COUNT };
const char *precision_name(enum precision p); /* "tf32" */
bool precision_read(struct str name, enum precision *out);
/* Has compute capability `sm` (0: a CPU) tensor cores for it that the generator uses?  f32: always. */
bool precision_on(int sm, enum precision p);

/* What the generator may assume about the device.  Keyed in the environment. */
struct target {
	enum isa isa;   /* a CPU's: for whom the text is compiled */
	int simd_bytes; /* 16, 32, 64 */
	int n_vregs;    /* 16, 32 */
	int64_t l1_bytes, l2_bytes, l3_bytes;
	bool strict;   /* --strict: D11 */
	bool winograd; /* schedules may round as Winograd's form does */
	bool is_cuda;  /* text for a GPU */
	int sm;        /* its compute capability: 70, 75, 80, ...; 0: a CPU */
	enum precision precision;
	int64_t library[LIBRARY_COUNT]; /* versions of those whose kernels may compete; 0: not there */
};
extern const struct target target_sse42, target_avx2, target_avx512, target_neon, target_cuda;
const struct target *target_of_isa(enum isa isa);
/* Can the generator work with these numbers?  ERR_DEVICE naming the one that it cannot. */
bool target_check(const struct target *t, struct err *e) MUST_CHECK;
/* Caches as a device says they are, in bytes; what it does not know (0) stays as it is. */
void target_caches(struct target *t, double l1, double l2, double l3);
/* As text, "avx512,l2=1048576,strict" (target.c): one word, for dumps and korch-opt. */
void target_print(struct strbuf *sb, const struct target *t);
bool target_read(struct str text, struct target *out, struct err *e) MUST_CHECK;

#endif
