/* kernels/sass/sched_int.h: a schedule under edit, for the files that make and change it.
 *
 * Legality is two things.  Order: pairs of the base that must not change places, decided by the two
 * instructions (legal.c) or by a wait that the second inherits (inherit.c).  Distance: issue cycles between
 * two places, an edge of a static graph (graph.c), since pairs that depend on each other keep their order for
 * good; a block's beginning and end are two more places of it.  Only the order in a pipe changes with the
 * schedule. */
#ifndef KORCH_SASS_SCHED_INT_H
#define KORCH_SASS_SCHED_INT_H

#include "latency.h"
#include "legal.h"

enum { SASS_KEYS = 128, SASS_SETTLE = 2, SASS_REUSE_SPAN = 16 };

struct sass_edge { /* clock of the second - clock of the first >= need */
	uint32_t first, second;
	uint8_t need;
	uint8_t rule; /* 0: a fixed latency; else SASS_RULE_settles */
};
struct sass_inherit { /* the second must not pass the first */
	uint32_t first, second;
	uint8_t rule;
};
/* Items of an instruction: list[at[i]] .. list[at[i + 1]] */
struct sass_index {
	uint32_t *at, *list;
};

struct sass_gate { /* of a queue at a block's borders, in the base; no instruction of it: key is SASS_KEYS */
	uint8_t first_key, last_key;
	uint8_t first, last; /* distance from the beginning, to the end; at most SASS_QUEUE_FAR */
	uint8_t before;      /* from the last one of any block before to the beginning */
};
struct sass_graph { /* static, by the base's numbers of instructions */
	const struct sass_edge *edge;
	uint32_t n_edges;
	struct sass_index by_first, by_second;
	const struct sass_inherit *inherit;
	struct sass_index inherits; /* by second */
	uint32_t *clock;            /* of the base, in the block */
	uint16_t *head, *tail;      /* least distance from the block's beginning, to its end */
	uint32_t *fixed;            /* rules for which it never moves */
	uint8_t *span;              /* followers that must be the base's for its reuse flags to stay */
	uint8_t *key;               /* a number for sass_lat_key */
	uint8_t *queue;
	uint8_t (*pipe)[SASS_KEYS];           /* [first][second]: least distance in one queue */
	uint32_t *block;                      /* that it is in */
	struct sass_gate (*gate)[SASS_PIPES]; /* of a block */
	uint8_t hardest_in[SASS_KEYS],
	    hardest_out[SASS_KEYS]; /* most that any other one of its queue asks for */
	uint32_t *length;           /* of a block, in issue cycles */
};
void sass_graph_make(struct arena *a, const struct sass_kernel *k, struct sass_graph *out);
/* inherit.c; adds to the rules for which an instruction never moves. */
struct sass_inherit *sass_inherits_make(
    struct arena *a, const struct sass_kernel *k, uint32_t *fixed, uint32_t *n);

uint32_t sass_pair(const struct sass_instr *a, const struct sass_instr *b, int sm);
bool sass_is_wall(const struct sass_instr *i);
uint32_t sass_fixed(const struct sass_instr *i, int sm);

enum sass_change { SASS_CHANGE_order, SASS_CHANGE_stall, SASS_CHANGE_yield };
struct sass_log {
	uint32_t at;
	uint8_t change, was;
};
struct sass_sched {
	struct arena *a;
	const struct sass_kernel *base;
	struct sass_graph g;
	struct sass_kernel now;
	struct sass_instr *instr; /* now's */
	uint32_t *who, *place;    /* the base's number at a place, and back */
	uint32_t *clock;          /* of a place, in the block */
	uint32_t stalls[2];       /* that ptxas writes without and with the yield bit */
	uint32_t without;         /* rules not asked */
	struct sass_log *log;
	uint32_t n_log, cap_log;
};
static inline bool
sass_asks(const struct sass_sched *s, enum sass_rule r)
{
	return !(s->without >> r & 1);
}
/* The first rule of a mask that is asked. */
enum sass_rule sass_first_rule(const struct sass_sched *s, uint32_t rules);

/* sched.c: changes that are not judged, logged. */
void sass_sched_reset(struct sass_sched *s); /* the base again; marks are void */
void sass_do_exchange(struct sass_sched *s, uint32_t at);
void sass_do_stall(struct sass_sched *s, uint32_t at, uint32_t stall);
void sass_do_yield(struct sass_sched *s, uint32_t at, bool yields);
/* legal_move.c: may the neighbours change their order?  From place to place; distances are not judged. */
enum sass_rule sass_order(const struct sass_sched *s, uint32_t at);
enum sass_rule sass_shift(struct sass_sched *s, uint32_t from, uint32_t to);
/* Places [first, last] judged and, with `repair`, mended; else the rule that is broken.  Takes nothing back.
 */
enum sass_rule sass_settle(struct sass_sched *s, uint32_t first, uint32_t last, bool repair);

struct sass_kernel_moves;
/* Moves that are known to be legal. */
void sass_moves_do(struct sass_sched *s, const struct sass_kernel_moves *m);
/* The words as they stand now, into the cubin that the base was read from. */
void sass_sched_write(const struct sass_sched *s, uint8_t *cubin);

/* judge.c: a distance that is too small, between places. */
struct sass_short {
	enum sass_rule rule;
	uint32_t from, to; /* the stalls of places [from, to) are to be raised by `by` */
	uint32_t by;
};
/* All that concerns the instruction at a place; false: something is too near. */
bool sass_judge(const struct sass_sched *s, uint32_t at, struct sass_short *out);
/* All distances over the stall of a place. */
bool sass_judge_over(const struct sass_sched *s, uint32_t at, struct sass_short *out);
/* All of the kernel. */
bool sass_judge_all(const struct sass_sched *s, uint32_t *at, struct sass_short *out);
bool sass_control_is_seen(const struct sass_sched *s, uint32_t at, uint32_t stall, bool yields);

#endif
