/* schema/export_read.h: the rows of an export, for programs that learn from them. */
#ifndef KORCH_EXPORT_READ_H
#define KORCH_EXPORT_READ_H

#include "../proto/msg.h"

/* An export as it is, without a store: what programs that learn from rows read.  Hostile bytes: sizes,
 * digests, hardware vectors and references are checked.  ERR_FORMAT, ERR_LIMIT. */
struct export_spec {
	struct hash hash, model; /* model: all zeros where it is not known */
	struct str text;
};
struct export_rows {
	struct m_env *envs;
	struct export_spec *specs; /* sorted by hash */
	struct m_measurement *rows;
	uint32_t *env_of, *spec_of; /* of each row */
	struct m_predictor *predictors;
	uint32_t n_predictors, cap_predictors;
	uint32_t n_envs, n_specs, n_rows, cap_envs, cap_specs, cap_rows;
};
bool export_read(struct arena *a, struct bytes in, struct export_rows *out, struct err *e) MUST_CHECK;

#endif
