/* kernels/jail/jail.h: programs that handle what others wrote (the compiler, generated code, the planner) run
 * in a jail: an allow-list of system calls, files and variables (jail.def), in namespaces of their own,
 * behind Landlock, under limits.  korch-jail makes it and starts the program; who starts one asks here for
 * the command line. */
#ifndef KORCH_JAIL_H
#define KORCH_JAIL_H

#include "../base/base.h"

#include <sys/types.h>

enum jail { JAIL_COMPILE, JAIL_MEASURE, JAIL_GPU, JAIL_PLAN, JAIL_COUNT };
/* As rows of the table name them. */
enum {
	JAIL_C = 1 << JAIL_COMPILE,
	JAIL_M = 1 << JAIL_MEASURE,
	JAIL_G = 1 << JAIL_GPU,
	JAIL_P = 1 << JAIL_PLAN
};
const char *jail_name(enum jail j); /* "compile" */

enum jail_hold {
#define HOLD(ID, NAME, WHY) JAIL_HOLD_##ID,
#include "jail.def"
	JAIL_HOLDS
};

struct jail_conf {
	enum jail jail;
	const char *const *reads; /* beside the table's: files or folders, NULL at the end; may be NULL */
	const char *scratch;      /* the one folder that it may write; NULL: none.  TMPDIR and HOME inside */
	const char *dir;          /* where it runs; NULL: scratch, or / */
	uint64_t memory_bytes;    /* address space; 0: no limit */
	uint64_t file_bytes;      /* the largest file; 0: the table's */
	uint64_t cpu_s;           /* of a process; 0: the table's */
	uint32_t n_processes;     /* threads count; 0: the table's */
	bool is_idle;             /* behind all else that wants a processor or a disk */
	bool until_hangup;        /* ends when the other end of its standard input is closed */
	char *const *argv;        /* ends with NULL; argv[0] is a path */
};
/* The command line that starts conf->argv in its jail, in `a`; its exit status is the program's, or
 * JAIL_FAILED with words on stderr that begin with JAIL_WORDS.  ERR_HOST where korch-jail is not installed.
 */
#define JAIL_WORDS "korch-jail: "
enum { JAIL_FAILED = 78 };
bool jail_command(
    struct arena *a, const struct jail_conf *conf, char *const **argv, struct err *e) MUST_CHECK;
/* Starts it in a process group of its own, with no signal blocked or ignored.  fd[i] becomes its file i;
 * JAIL_FD_NULL: /dev/null, JAIL_FD_SAME: as it is here.  ERR_HOST. */
enum { JAIL_FD_NULL = -1, JAIL_FD_SAME = -2 };
bool jail_start(char *const *argv, const int fd[3], pid_t *pid, struct err *e) MUST_CHECK;

/* In a program that was started so: it starts no other from here on, in any of its threads.  What the filter
 * allows is not widened by it, and a program outside of any jail loses that right alone. */
void jail_lock(void);

/* Settings of this process and all that it starts: "best" (what the host has), "strict" (all or nothing),
 * "off" (limits alone), and folders that may be read beside the table's ("DIR:DIR").  ERR_USAGE. */
bool jail_settings(const char *mode, const char *reads, struct err *e) MUST_CHECK;

/* What holds here, found out by making a jail.  lacks[i]: "" or why mechanism i does not hold. */
struct jail_survey {
	bool is_off;
	int landlock; /* its version */
	uint32_t n_calls;
	char lacks[JAIL_HOLDS][120];
};
bool jail_look(struct jail_survey *out, struct err *e) MUST_CHECK;
/* For people, in `a`: "user namespace, ... Landlock 7, ..."; of what is missing with its reason, "" where
 * nothing is. */
struct str jail_holds(struct arena *a, const struct jail_survey *s);
struct str jail_lacks(struct arena *a, const struct jail_survey *s);

/* At the start of a program that starts jailed ones: the settings, and a line of the log.  ERR_HOST under
 * "strict" where something is missing. */
struct log;
bool jail_begin(struct log *l, const char *mode, const char *reads, struct err *e) MUST_CHECK;
/* Behind the lines of --show-config; returns the exit status. */
struct opts;
int jail_show(const struct opts *o);

#endif
