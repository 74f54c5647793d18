/* client/run_folder.h: a folder for a plan that is needed once, and that goes with its process, killed or
 * not. */
#ifndef KORCH_RUN_FOLDER_H
#define KORCH_RUN_FOLDER_H

#include "../kernels/base/base.h"

struct run_folder {
	char path[OS_PATH_MAX];
	int fd; /* open and locked as long as the process lives */
};
/* A new one below TMPDIR, "korch-run-XXXXXX".  Those whose process was killed go first: nobody holds their
 * lock. */
bool run_folder_make(struct run_folder *f, struct err *e) MUST_CHECK;
void run_folder_drop(struct run_folder *f);

#endif
