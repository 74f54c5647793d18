/* deploy/docs/rows.h: kernels/base/opt.def as data, for man pages and completion. */
#ifndef KORCH_DOCS_ROWS_H
#define KORCH_DOCS_ROWS_H

#include "../../kernels/base/opt.h"

#define P(ID) (1u << PROG_##ID)
enum { PROG_ALL = 31 };

struct program_row {
	const char *name, *args, *text;
};
extern const struct program_row program_row[PROG_COUNT];
struct option_row {
	const char *flag, *def, *arg, *help, *type;
	uint32_t programs;
	char letter;
};
extern const struct option_row option_row[OPT_COUNT];

static inline bool
is_for(uint32_t programs, int program)
{
	return (programs >> program & 1) || (programs >> PROG_ALL & 1);
}

#endif
