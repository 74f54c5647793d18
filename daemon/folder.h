/* daemon/folder.h: the folder of a job, in three parts: model/ (what was submitted) and given/ (what was
 * built since), which its planner may read, and work/, the one that it may write. */
#ifndef KORCH_DAEMON_FOLDER_H
#define KORCH_DAEMON_FOLDER_H

#include "daemon.h"

/* It goes when the job ends. */
char *job_dir(struct arena *a, const struct daemon *d, const struct job *j);
/* The part of it that its planner writes. */
char *folder_work(struct arena *a, const char *dir);
/* The part with what was built since, and with plans of other jobs. */
char *folder_given(struct arena *a, const char *dir);
/* With its three parts. */
bool folder_make(const char *dir, struct err *e) MUST_CHECK;
/* The file under another name, as a link or, where there are none, a copy. */
bool folder_give(const char *from, const char *to, struct err *e) MUST_CHECK;
/* Is it a file that the planner has written, and no way to another?  What a planner names is looked at before
 * it is touched: it may have been talked into anything. */
bool folder_wrote(const char *dir, struct str path, struct err *e) MUST_CHECK;

/* To a planner: the object where it can read it. */
void planner_give_built(struct daemon *d, struct job *j, const struct m_build_have *b);

#endif
