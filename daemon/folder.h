/* daemon/folder.h: the folder of a job, in four parts: model/ (what was submitted) and given/ (what was
 * built since), which its planner may read, work/, the one that it may write, and made/, which korch-generate
 * writes. */
#ifndef KORCH_DAEMON_FOLDER_H
#define KORCH_DAEMON_FOLDER_H

#include "daemon.h"

/* It goes when the job ends. */
char *job_dir(struct arena *a, const struct daemon *d, const struct job *j);
/* The part of it that its planner writes. */
char *folder_work(struct arena *a, const char *dir);
/* The part with what was built since, and with plans of other jobs. */
char *folder_given(struct arena *a, const char *dir);
/* The part of it that korch-generate writes. */
char *folder_made(struct arena *a, const char *dir);
/* With its parts. */
bool folder_make(const char *dir, struct err *e) MUST_CHECK;
/* The file under another name, as a link or, where there are none, a copy. */
bool folder_give(const char *from, const char *to, struct err *e) MUST_CHECK;
/* Is it a file that the planner has written, and no way to another?  What a planner names is looked at before
 * it is touched: it may have been talked into anything. */
bool folder_wrote(const char *dir, struct str path, struct err *e) MUST_CHECK;

/* To a planner: the object and what describes it where it can read them. */
void planner_give_built(struct daemon *d, struct job *j, const struct m_build_have *b);

/* ---- generate.c */
/* Texts for a device that is not here; the planner gets its answer as of any build. */
void generate_ask(struct daemon *d, struct job *j, const struct m_build_ask *ask);
/* Who asked is gone: what works for it ends. */
void generate_stop(struct job *j);

#endif
