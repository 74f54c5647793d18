/* daemon/brief.h: the daemon's side of a planner, and whether there is a device for a job. */
#ifndef KORCH_BRIEF_H
#define KORCH_BRIEF_H

#include "daemon.h"

void planner_start(struct daemon *d, struct job *j);
/* Starts planners where there is room and a device; tells the others what they wait for. */
void planners_tick(struct daemon *d);
/* The environment of a connected device of that class; 0: there is none. */
int64_t env_here(const struct daemon *d, struct str class);
/* " (there are: cpu, cuda:NVIDIA-A100-SXM4-40GB)", or "". */
const char *classes_here(struct arena *a, const struct daemon *d);

#endif
