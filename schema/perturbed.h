/* schema/perturbed.h: what came of searches for better orders of machine instructions. */
#ifndef KORCH_PERTURBED_H
#define KORCH_PERTURBED_H

#include "store.h"

/* What came of a search for a better order of a base's instructions, kept with the base's measurement; one
 * that found less than an earlier one leaves that one's finding.  Passed over: a base that was never measured
 * here. */
bool perturbed_put(
    struct db *db, const struct meas_key *k, const struct m_perturbed *p, struct err *e) MUST_CHECK;
/* Moves that the compiler's code does not take: nobody is to have them again, and the search that found them
 * has found nothing. */
bool perturbed_refute(struct db *db, const struct hash *spec, const struct meas_key *k,
    const struct m_row *row, const struct meas_origin *from, struct err *e) MUST_CHECK;
/* All zero but the spec where there was no such search. */
bool perturbed_find(struct db *db, struct arena *a, const struct hash *spec, const struct meas_key *k,
    struct str base, struct m_perturbed *out, struct err *e) MUST_CHECK;

#endif
