/* tests/fuzz/daemon_rig.h: korchd without a network, planners or a clock: its handlers and its store are the
 * real ones, and what would come from outside is said here.  The store is a folder that lies in memory. */
#ifndef KORCH_FUZZ_DAEMON_RIG_H
#define KORCH_FUZZ_DAEMON_RIG_H

#include "../../daemon/planner_process.h"
#include "../../daemon/lease.h"
#include "../../daemon/loop.h"
#include "../../daemon/task.h"
#include "../../proto/hello.h"
#include "../../proto/pipe.h"

enum { RIG_PEERS = 4, RIG_PLANNERS = 4 };
enum { RIG_WORKER, RIG_OTHER_WORKER, RIG_CLIENT, RIG_STRANGER }; /* the last comes over the network */
struct rig {
	struct daemon d;
	struct arena a; /* of what it answered */
	struct {
		bool is_here;
		uint64_t session; /* that it was given */
		struct msg grant; /* the last with tasks */
	} peer[RIG_PEERS];
	uint32_t n_open; /* requests not yet answered or dropped */
};
struct rig *rig_up(void);
void rig_down(struct rig *g); /* aborts where a request was never answered */

/* What a peer sends, as octets; it connects first where it is not. Returns when all that follows is done. */
void rig_say(struct rig *g, uint32_t peer, struct bytes octets);
void rig_gone(struct rig *g, uint32_t peer);
void rig_later(struct rig *g, int64_t ns); /* the clock goes on, and the daemon's tick comes */
/* A planner says octets, or ends; false: there is none of that number. */
bool rig_plan(struct rig *g, uint32_t n, struct bytes octets);
bool rig_plan_ends(struct rig *g, uint32_t n, int status, int signal);

#endif
