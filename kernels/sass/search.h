/* kernels/sass/search.h: the schedule of a kernel's hot loop searched for a faster one, by legal moves alone:
 * on the static model (price.h), or with a callback that times on a device. */
#ifndef KORCH_SASS_SEARCH_H
#define KORCH_SASS_SEARCH_H

#include "perturb.h"

enum sass_method { SASS_ANNEAL, SASS_GREEDY, SASS_GENETIC, SASS_METHODS };
const char *sass_method_name(enum sass_method m);              /* "anneal" */
bool sass_method_read(struct str text, enum sass_method *out); /* false: no such method */

/* A price in any unit, lower is better; what it is at or above `limit` may be answered by infinity.  `edited`
 * is the whole cubin with the moves done.  NAN ends the search (time is over, the device is lost): what was
 * found until then stands.  A cubin is priced once, then remembered. */
typedef double sass_price_fn(void *self, struct bytes edited, const struct sass_moves *moves, double limit);

enum { SASS_BEST = 8 };
struct sass_search {
	enum sass_method method;
	uint64_t seed;  /* same seed, same prices: same result */
	uint64_t tries; /* moves tried at most */
	uint32_t warps,
	    blocks; /* the model's: warps on a quarter of a multiprocessor, blocks they belong to; 0: 1 */
	/* the model's: how many times longer a word of shared memory takes (price.h); 0: 1 */
	double load, matrix, store, copy;
	double heat; /* annealing: temperature at first, of the logarithm of a ratio of prices; 0: .002 */
	sass_price_fn *price; /* NULL: the static model, in cycles an iteration of the hot loop */
	void *self;
};
struct sass_candidate {
	struct sass_moves moves;
	double price;
};
struct sass_found {
	double base_price;
	struct sass_candidate
	    best[SASS_BEST];          /* each below the base's price, cheapest first, no cubin twice */
	uint32_t n_best;              /* 0: nothing better was found */
	uint64_t tries, accepted;     /* moves tried; of them, kept */
	uint64_t refused[SASS_RULES]; /* moves that a rule forbade, of `tries` too */
	uint64_t priced;              /* schedules that were given a price */
};
/* Of one kernel; ERR_FORMAT: no cubin, no such kernel; ERR_INFEASIBLE: it has no loop that could be searched.
 */
bool sass_search(struct arena *a, struct bytes base, const char *kernel, const struct sass_search *s,
    struct sass_found *out, struct err *e) MUST_CHECK;

#endif
