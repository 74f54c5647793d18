/* kernels/jail/jail_int.h: the jail from inside: the table as rows, and the steps that korch-jail takes.  For
 * this folder and its tests. */
#ifndef KORCH_JAIL_INT_H
#define KORCH_JAIL_INT_H

#include "jail.h"

#include <linux/filter.h>

/* ---- the table (table.c) ---------------------------------------------------------------- */
enum jail_verdict { VERDICT_ALLOW, VERDICT_REFUSE, VERDICT_LACK, VERDICT_NONE, VERDICT_KILL };
/* When a row counts: (argument & mask) == value; mask 0: always.  is_self: value is the process's own number.
 */
struct jail_when {
	uint8_t arg;
	bool is_wide; /* all 64 bits: a pointer */
	bool is_self;
	uint64_t mask, value;
};
struct jail_call {
	const char *name;
	uint32_t number;
	uint32_t jails;
	enum jail_verdict verdict;
	bool is_rare;
	struct jail_when when;
	const char *why;
};
extern const struct jail_call jail_calls[];
extern const uint32_t jail_n_calls;

enum {
	PATH_READ = 1,
	PATH_START = 2,
	PATH_WRITE = 4,
	PATH_DEVICE = 8,
	PATH_PROC = 16,
	PATH_EMPTY = 32,
	PATH_THREADS = 64,
	PATH_OWN = PATH_PROC | PATH_EMPTY | PATH_THREADS /* made for the jail */
};
struct jail_path {
	const char *path; /* may be a pattern as of glob(3) */
	uint32_t jails;
	uint32_t rights;
	bool is_rare;
	const char *why;
};
extern const struct jail_path jail_paths[];
extern const uint32_t jail_n_paths;

enum { VAR_TEXT, VAR_FOLDERS };
struct jail_var {
	const char *name; /* "OMP_*": all that begin so */
	uint32_t jails;
	int kind;
	const char *why;
};
extern const struct jail_var jail_vars[];
extern const uint32_t jail_n_vars;

struct jail_limit {
	int resource;
	uint32_t jails;
	uint64_t value;
	const char *why;
};
extern const struct jail_limit jail_limits[];
extern const uint32_t jail_n_limits;
extern const char *const jail_hold_names[JAIL_HOLDS];

/* The row that decides; NULL: none does, and the call is denied. */
const struct jail_call *jail_decide(enum jail j, uint32_t number, const uint64_t args[6], uint64_t self);

/* ---- the filter (filter.c) ---------------------------------------------------------------- */
enum { FILTER_MAX = 1024 };
struct jail_filter {
	struct sock_filter f[FILTER_MAX];
	unsigned short n;
	uint32_t n_calls; /* distinct ones that are allowed */
};
void jail_filter_make(enum jail j, uint64_t self, struct jail_filter *out);
/* From here on, for all threads; errno where the system cannot do that. */
bool jail_filter_enter(const struct jail_filter *f) MUST_CHECK;

/* ---- what a jail is made of (place.c) -------------------------------------------------------- */
struct jail_place {
	const char *path; /* without links */
	uint32_t rights;
};
struct jail_link { /* a path that stands for a place */
	const char *path, *to;
};
struct jail_plan { /* a jail to be made */
	struct arena arena;
	struct jail_conf conf;
	bool is_off, is_strict, is_inside, is_survey;
	struct jail_place *place;
	uint32_t n_places, cap_places;
	struct jail_link *link;
	uint32_t n_links, cap_links;
	struct jail_survey held;
};
/* Fills in the places: the table's, the conf's, the program's folder, those of the environment. */
void jail_places(struct jail_plan *p);

/* ---- steps, in this order; each notes in p->held what does not hold ------------------------------ */
void jail_spaces(struct jail_plan *p); /* namespaces (space.c) */
/* The first process of a process namespace, or the only one where there is none. */
void jail_count(struct jail_plan *p); /* while the host's /proc is there (limit.c) */
void jail_root(struct jail_plan *p);  /* (root.c) */
/* The process that becomes the program. */
void jail_landlock(struct jail_plan *p);                             /* (landlock.c) */
void jail_rights_drop(void);                                         /* (limit.c) */
void jail_limits_set(struct jail_plan *p);                           /* (limit.c) */
char **jail_environment(struct arena *a, const struct jail_plan *p); /* (limit.c) */
void jail_lack(struct jail_plan *p, enum jail_hold which, const char *step, int error);

#endif
