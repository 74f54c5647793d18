/* daemon/planner_process.h: the daemon's side of a planner. */
#ifndef KORCH_PLANNER_PROCESS_H
#define KORCH_PLANNER_PROCESS_H

#include "daemon.h"

/* Starts planners where there is room and a device; tells the others what they wait for. */
void planners_tick(struct daemon *d);

#endif
