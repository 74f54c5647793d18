/* kernels/base/opt_word.c: the words of korch, and what may have been meant by one that is none. */
#include "opt.h"

#include <string.h>

const struct program_word word_row[WORD_COUNT] = {
#define WORD(WORD_, PROGRAM, FLAG, TEXT) {WORD_, FLAG, TEXT, PROG_##PROGRAM},
#include "opt.def"
};

const struct program_word *
word_find(struct str word)
{
	for (size_t i = 0; i < WORD_COUNT; i++)
		if (str_is(word, word_row[i].word))
			return &word_row[i];
	return NULL;
}

/* Letters to be put in, taken out or changed (Levenshtein), row by row of the usual table. */
static size_t
apart(struct str x, struct str y)
{
	enum { MOST = 32 };
	size_t row[MOST + 1];

	if (x.n > MOST || y.n > MOST)
		return MOST;
	for (size_t k = 0; k <= y.n; k++)
		row[k] = k;
	for (size_t i = 0; i < x.n; i++) {
		size_t before = row[0];

		row[0] = i + 1;
		for (size_t k = 0; k < y.n; k++) {
			size_t changed = before + (x.p[i] != y.p[k]);

			before = row[k + 1];
			row[k + 1] = MIN_OF(changed, MIN_OF(before, row[k]) + 1);
		}
	}
	return row[y.n];
}

static bool
begins(struct str word, struct str part)
{
	return part.n >= 2 && part.n < word.n && memcmp(part.p, word.p, part.n) == 0;
}

/* Its beginning, or at most two letters off and no more than half of them. */
const struct program_word *
word_near(struct str word)
{
	const struct program_word *best = NULL;
	size_t least = 3;

	for (size_t i = 0; i < WORD_COUNT; i++) {
		struct str row = str_of(word_row[i].word);
		size_t n = begins(row, word) ? 0 : apart(word, row);

		if (n < least && 2 * n <= row.n) {
			best = &word_row[i];
			least = n;
		}
	}
	return best;
}
