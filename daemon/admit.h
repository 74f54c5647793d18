/* daemon/admit.h: does a result count? */
#ifndef KORCH_ADMIT_H
#define KORCH_ADMIT_H

#include "task.h"

/* What the loop knows of an outcome when it comes. */
struct admit_ask {
	enum farm_hold hold; /* that names the task */
	struct meas_key env; /* of the device; threads and precision are the outcome's */
	/* schedules that another lease of the task found below the bound as well */
	const struct str *doubted;
	uint32_t n_doubted;
	bool is_last; /* there will be no further lease: what is in doubt now is not believed */
};
enum admit_is {
	ADMIT_REFUSED, /* evidence, and nothing else */
	ADMIT_TAKEN,
	ADMIT_DOUBTED, /* what is not in doubt is taken, and the task done once more */
};
struct admitted {
	enum admit_is is;
	char why[400];          /* refused or doubted: for people */
	struct m_row *rows;     /* those that are taken */
	struct m_digest *specs; /* of a race: of each of them */
	uint32_t n_rows;
	struct str *doubted; /* schedules */
	uint32_t n_doubted;
};
/* Judges; writes nothing.  false: the store failed, and nothing is known of the outcome.  On the store's
 * thread; all in `a`. */
bool admit_outcome(struct db *db, struct arena *a, const struct m_outcome *o, const struct admit_ask *ask,
    struct admitted *out, struct err *e) MUST_CHECK;

#endif
