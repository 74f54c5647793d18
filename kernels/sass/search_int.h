/* kernels/sass/search_int.h: what the methods of a search share. */
#ifndef KORCH_SASS_SEARCH_INT_H
#define KORCH_SASS_SEARCH_INT_H

#include "price.h"
#include "sched_int.h"
#include "search.h"

enum { SASS_REMEMBERED = 1 << 16, SASS_REACH = 12, OF_ALL = 128 };

/* A move that can be asked of any schedule: it names the instruction, not its place. */
struct sass_attempt {
	uint32_t who;
	int16_t by; /* places; of a stall count: more or less */
	uint8_t kind;
};
struct sass_known {
	uint64_t key; /* 0: free */
	double price; /* or more, where is_least */
	bool is_least;
};
struct sass_record { /* one of the best */
	struct arena a;
	struct sass_candidate c;
	uint64_t key;
};
struct sass_hunt {
	const struct sass_search *how;
	struct bytes base;
	struct sass_kernel k;
	struct sass_loop loop;
	struct sass_sched *s;
	struct sass_price *model;
	struct sass_found *out;
	struct arena tmp;
	struct rng rng;
	uint32_t *memory; /* instructions of the loop that access memory */
	uint32_t n_memory;
	uint8_t *edited; /* for the callback */
	struct sass_known *known;
	struct sass_record slot[SASS_BEST];
	double base_price, least; /* as the search asks for prices: the first one, the least one yet */
	uint64_t asked;           /* times that the whole model was asked */
	bool is_over;             /* the callback ended it */
};
struct sass_attempt sass_attempt_any(struct sass_hunt *h); /* a random one */
enum sass_rule sass_attempt_do(struct sass_hunt *h, const struct sass_attempt *step);
enum sass_rule sass_attempt_count(struct sass_hunt *h, const struct sass_attempt *step); /* counted */
/* The schedule becomes the best one found, or the base. */
void sass_hunt_to_best(struct sass_hunt *h);
/* The schedule as it stands is where the search goes on from. */
void sass_hunt_take(struct sass_hunt *h);
/* Of the schedule as it stands; INFINITY: `limit` or more.  The best are noted. */
double sass_hunt_price(struct sass_hunt *h, double limit);
static inline bool
sass_hunt_goes_on(const struct sass_hunt *h)
{
	return !h->is_over && h->out->tries < h->how->tries;
}

void sass_hunt_anneal(struct sass_hunt *h);
void sass_hunt_greedy(struct sass_hunt *h);
void sass_hunt_genetic(struct sass_hunt *h);

#endif
