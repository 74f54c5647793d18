/* kernels/base/isa.h: the instruction sets of isa.def. */
#ifndef KORCH_ISA_H
#define KORCH_ISA_H

#include "base.h"

enum isa {
#define ISA(name, bytes, regs, needs, ...) ISA_##name,
#include "isa.def"
#undef ISA
	ISA_COUNT
};

struct isa_info {
	const char *name;
	const char *needs; /* words of a device's features; a plan's run compatibility */
	int simd_bytes, n_vregs;
};
extern const struct isa_info isa_info[ISA_COUNT];

/* Is `word` among the words of `words`, which blanks part? */
bool has_word(struct str words, struct str word);
/* The widest set whose words are all among `features`, or whose words are just `needs`; false where
 * there is none. */
bool isa_of_features(struct str features, enum isa *out);
bool isa_of_needs(struct str needs, enum isa *out);

#endif
