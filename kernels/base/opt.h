/* kernels/base/opt.h: the options of all programs: flag, then KORCH_* variable, then file of
 * settings, then default.  Rows are in opt.def. */
#ifndef KORCH_OPT_H
#define KORCH_OPT_H

#include "folder.h"
#include "stage.h"

enum program {
#define PROGRAM(ID, NAME, ARGS, TEXT) PROG_##ID,
#include "opt.def"
	PROG_COUNT
};
enum opt_id {
#define OPT(ID, PROGRAMS, FLAG, LETTER, TYPE, DEFAULT, ARG, HELP) OPT_##ID,
#include "opt.def"
	OPT_COUNT
};
enum opt_source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };

struct opts {
	enum program program;
	struct {
		const char **v; /* one entry, or several of a LIST; n == 0: not set and no default */
		uint32_t n;
		enum opt_source source;
	} value[OPT_COUNT];
	const char **args; /* what is no option, in order */
	uint32_t n_args;
};

/* Reads all settings.  ERR_USAGE names the option, variable or line of the file. */
bool opts_read(
    struct arena *a, enum program p, int argc, char **argv, struct opts *o, struct err *e) MUST_CHECK;
/* What main() starts with: reads settings; a wrong call, --help, --version and --show-config
 * are dealt with here.  Returns -1 to go on, else the exit status. */
int opts_main(struct arena *a, enum program p, int argc, char **argv, struct opts *o);

bool opt_flag(const struct opts *o, enum opt_id id);
const char *opt_text(const struct opts *o, enum opt_id id); /* "" when not set */
int64_t opt_int(const struct opts *o, enum opt_id id);      /* checked when read */
double opt_real(const struct opts *o, enum opt_id id);
uint32_t opt_n(const struct opts *o, enum opt_id id); /* entries of a LIST */
const char *opt_at(const struct opts *o, enum opt_id id, uint32_t i);
bool opt_given(const struct opts *o, enum opt_id id); /* not by default */
/* --memory: 0, or MiB that a measuring child can do with.  ERR_USAGE. */
bool opt_memory(const struct opts *o, uint64_t *mib, struct err *e) MUST_CHECK;
/* Each setting with its value and source, a line or an object each: --show-config. */
void opts_settings(struct strbuf *sb, const struct opts *o, bool json);
/* One more line behind them: what was found out on this host. */
void opts_say_host(const struct opts *o, const char *name, struct str value);
/* What `o` was given by flags that program `to` has too, but --json: *n words for a call of that.  What
 * stands in the environment or the file of settings it reads itself. */
char **opts_pass(struct arena *a, const struct opts *o, enum program to, int *n);
const char *program_name(enum program p);

/* korch WORD: the program that a word starts, and what is put before its arguments ("": nothing). */
struct program_word {
	const char *word, *flag, *text;
	enum program program;
};
enum {
	WORD_COUNT = 0
#define WORD(WORD_, PROGRAM, FLAG, TEXT) +1
#include "opt.def"
};
extern const struct program_word word_row[WORD_COUNT];
const struct program_word *word_find(struct str word); /* NULL: there is none */
/* The one that was probably meant; NULL where none is like it. */
const struct program_word *word_near(struct str word);

/* A finished error on stderr ("korch-submit: ..."; with --json an object {"error": ...} on
 * stdout as well); returns its exit status. */
int opts_fail(const struct opts *o, const struct err *e);

/* The log that --log-level, --log-file, --quiet and --json ask for. */
struct log;
bool opts_log(const struct opts *o, struct log **out, struct err *e) MUST_CHECK;

/* The end of every program: whether all that was printed to stdout has arrived.  Returns `status`, or 1 where
 * it was 0 and a part is missing.  opts_main sees to it that exit() does this; _exit() does not. */
int opts_close(int status);

/* A program that lies beside this one's file, or in ../libexec/korch.  NULL when there is no such program. */
char *program_beside(struct arena *a, const char *program);
/* One that others start: in $KORCH_LIBEXEC, where that is set, else beside this one. */
char *helper_path(struct arena *a, const char *program);

#endif
