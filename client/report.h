/* client/report.h: --report DIR of korch-submit: what a report of a fault needs, as files below DIR and all
 * of them in DIR.tar.  No model unless --report-model, and never a token or a private key. */
#ifndef KORCH_REPORT_H
#define KORCH_REPORT_H

#include "session.h"

struct report {
	const char *model;
	const char *plan;        /* "": none was to be written */
	struct session *session; /* its client is NULL where it came to none */
	uint64_t job;            /* 0: it came to none */
	const struct err *end;   /* how the call ended */
};
/* Before the work: a folder that is not there yet, or an empty one. */
bool report_check(const struct opts *o, struct err *e) MUST_CHECK;
/* Writes it.  What cannot be had is said in the report itself. */
bool report_write(const struct opts *o, const struct report *r, struct err *e) MUST_CHECK;

/* ---- its parts ---- */
/* Versions and this host, as lines for people. */
void report_versions(struct strbuf *sb);
void report_host(struct strbuf *sb, const struct opts *o);

/* What must not leave this host, and what stands in its place. */
struct scrub {
	struct arena *arena;
	struct {
		struct str secret;
		const char *instead;
		bool whole; /* only where no letter or digit stands beside it */
	} * row;
	uint32_t n, cap;
};
/* Tokens of --token-file, the home folder, this host's name. */
void scrub_init(struct scrub *s, struct arena *a, const struct opts *o);
void scrub_add(struct scrub *s, struct str secret, const char *instead, bool whole);
/* The same text without them, and without private keys in PEM form. */
struct str scrub_text(const struct scrub *s, struct str text);
/* Every file below `dir`, in place. */
bool scrub_folder(const struct scrub *s, const char *dir, struct err *e) MUST_CHECK;

#endif
