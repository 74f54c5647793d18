/* kernels/base/heat.c: see heat.h. */
#include "heat.h"

static const char letters[] = {[HEAT_COLD] = 'c', [HEAT_NEAR] = 'n', [HEAT_HOT] = 'h'};

char
heat_letter(enum heat h)
{
	return letters[h];
}

enum heat
heat_at(struct str word, uint32_t i)
{
	for (size_t h = 0; i < word.n && h < COUNT_OF(letters); h++)
		if (word.p[i] == letters[h])
			return (enum heat)h;
	return HEAT_COLD;
}

bool
heat_is_word(struct str word)
{
	bool is_warm = false;

	for (size_t i = 0; i < word.n; i++) {
		if (heat_at(word, (uint32_t)i) == HEAT_COLD && word.p[i] != letters[HEAT_COLD])
			return false;
		is_warm |= heat_at(word, (uint32_t)i) != HEAT_COLD;
	}
	return word.n <= HEAT_MAX && (word.n == 0 || is_warm);
}
