/* kernels/base/isa.c: which instruction set a device's words stand for. */
#include "isa.h"

const struct isa_info isa_info[ISA_COUNT] = {
#define ISA(name, bytes, regs, needs, ...) {#name, needs, bytes, regs},
#include "isa.def"
#undef ISA
};

bool
has_word(struct str words, struct str word)
{
	while (words.n)
		if (str_eq(str_cut(&words, ' '), word))
			return true;
	return false;
}

static bool
has_all(struct str features, struct str needs)
{
	while (needs.n)
		if (!has_word(features, str_cut(&needs, ' ')))
			return false;
	return true;
}

bool
isa_of_features(struct str features, enum isa *out)
{
	for (int i = ISA_COUNT; i-- > 0;)
		if (has_all(features, str_of(isa_info[i].needs))) {
			*out = (enum isa)i;
			return true;
		}
	return false;
}

bool
isa_of_needs(struct str needs, enum isa *out)
{
	for (int i = 0; i < ISA_COUNT; i++)
		if (str_is(needs, isa_info[i].needs)) {
			*out = (enum isa)i;
			return true;
		}
	return false;
}
