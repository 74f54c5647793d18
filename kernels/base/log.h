/* kernels/base/log.h: the log of korchd and korch-worker: one line an event, from the table log.def.
 *
 *   2026-11-22T21:38:01.123Z info job.move job=41 from=queued to=planning
 *   {"time":"2026-11-22T21:38:01.123Z","level":"info","event":"job.move","job":41,...}
 *
 * A value with anything but letters, digits and . _ / : @ + , - is quoted as a JSON string, whoever
 * it came from: no value makes a line of its own or speaks to a terminal. */
#ifndef KORCH_LOG_H
#define KORCH_LOG_H

#include "base.h"

enum log_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR, LEVEL_COUNT };
enum log_event {
#define EVENT(ID, NAME, LEVEL, PER_SECOND, KEYS, TEXT) LOG_##ID,
#include "log.def"
	LOG_EVENTS
};

struct log;
struct log_conf {
	const struct os *os; /* clocks; NULL: the real ones */
	enum log_level least;
	bool is_json;
	const char *path; /* appended to; "" or NULL: stderr */
};
/* ERR_IO naming the file. */
bool log_open(struct log **out, const struct log_conf *conf, struct err *e) MUST_CHECK;
/* The path anew, after the file was moved away; failed: the old one stays. */
bool log_reopen(struct log *l, struct err *e) MUST_CHECK;
void log_close(struct log *l);

struct log_kv {
	const char *key; /* NULL ends a list */
	struct str text;
	int64_t number;
	bool is_number;
};
/* Any thread; a NULL log is silent.  Pairs with an empty text are left out. */
void log_write(struct log *l, enum log_event ev, const struct log_kv *kv);
#define KV(K, S)                                                                                             \
	{                                                                                                    \
		.key = (K), .text = (S)                                                                      \
	}
#define KVZ(K, CSTR) KV(K, str_of(CSTR))
#define KVI(K, N)                                                                                            \
	{                                                                                                    \
		.key = (K), .number = (int64_t)(N), .is_number = true                                        \
	}
/* log_event(l, job_move, KVI("job", 41), KVZ("to", "done")) */
#define log_event(L, ID, ...) log_write((L), LOG_##ID, (const struct log_kv[]){__VA_ARGS__, {.key = NULL}})

bool log_level_of(struct str name, enum log_level *out); /* debug, info, warn, error */
/* A row of the table, for documents and tests; keys by blanks. */
struct log_row {
	const char *name, *keys, *text;
	enum log_level level;
	uint32_t per_second;
};
const struct log_row *log_row(enum log_event ev);
const char *log_level_name(enum log_level level);

#endif
