/* tests/unit/store_rig.h: a store in a folder of its own, by a clock that the test moves. */
#ifndef KORCH_TEST_STORE_RIG_H
#define KORCH_TEST_STORE_RIG_H

#include "../../schema/store.h"

struct box {
	char dir[64];
	struct os os;
	struct store_conf conf;
	struct db *db;
	struct arena a;
};
extern int64_t box_clock_ns; /* what all boxes have as wall clock */

void box_make(struct box *b);  /* the folder alone; `db` is the caller's to open */
void box_open(struct box *b);  /* with the store in it, inside a transaction */
void box_close(struct box *b); /* removes the folder */

struct meas_key box_env(struct box *b, const char *class, const char *key);
struct m_row box_row(const char *schedule, int64_t ns, uint64_t samples);
void box_put(struct box *b, const char *spec, const struct meas_key *k, struct m_row row, int64_t wall_ns);
/* Times a schedule once more, in that session. */
void box_again(struct box *b, const char *spec, const struct meas_key *k, uint8_t session, uint64_t gen,
    struct m_row row);
struct m_cost box_find(struct box *b, const char *spec, const struct meas_key *k, uint8_t model);

#endif
