/* deploy/docs/rows.c: the tables of opt.def, expanded. */
#include "rows.h"

const struct program_row program_row[PROG_COUNT] = {
#define PROGRAM(ID, NAME, ARGS, TEXT) [PROG_##ID] = {NAME, ARGS, TEXT},
#include "../../kernels/base/opt.def"
};
const struct option_row option_row[OPT_COUNT] = {
#define OPT(ID, PROGRAMS, FLAG, LETTER, TYPE, DEFAULT, ARG, HELP)                                            \
	[OPT_##ID] = {FLAG, DEFAULT, ARG, HELP, #TYPE, PROGRAMS, LETTER},
#include "../../kernels/base/opt.def"
};
