/* schema/predictor.h: what was trained for each device class, by the generator epoch that it knows. */
#ifndef KORCH_PREDICTOR_H
#define KORCH_PREDICTOR_H

#include "store.h"

/* p->file is empty where there is none. */
bool predictor_find(struct db *db, struct arena *a, struct str class, uint64_t epoch, struct m_predictor *out,
    struct err *e) MUST_CHECK;
/* In place of what is there; of a training over rows_tried measurements of the class, 0: made elsewhere. */
bool predictor_put(struct db *db, const struct m_predictor *p, uint64_t rows_tried, struct err *e) MUST_CHECK;
/* A training over that many measurements was not better than what serves: not again before there are more. */
bool predictor_tried(
    struct db *db, struct str class, uint64_t epoch, uint64_t rows, struct err *e) MUST_CHECK;
/* A class with `fewest` measurements, and a tenth, more (or fewer: gc) than when it was last trained for;
 * *rows is how many there are, 0: none is. */
bool predictor_wanted(struct db *db, struct arena *a, uint64_t epoch, uint64_t fewest, struct str *class,
    uint64_t *rows, struct err *e) MUST_CHECK;
/* A line for each class with measurements, without files. */
bool predictor_list(struct db *db, struct arena *a, uint64_t epoch, struct m_predictor **out, uint32_t *n,
    struct err *e) MUST_CHECK;
/* Of two for the same class and epoch: the one that learned from more measurements; of equally many the one
 * that is less far off, then the later one. */
bool predictor_is_better(const struct m_predictor *a, const struct m_predictor *b);

#endif
