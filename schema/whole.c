/* schema/whole.c: plans that were timed whole, beside the sums of their kernels. */
#include "whole.h"
#include "db_int.h"

/* As many as a message holds (proto/msg.def). */
enum { WHOLE_MOST = 512 };

bool
whole_list(struct db *db, struct arena *a, const struct meas_key *k, struct m_whole **out, uint32_t *n,
    struct err *e)
{
	struct q q = q_start(db, SQL_WHOLE_LIST, "iii", k->env, (int64_t)k->threads, (int64_t)WHOLE_MOST);
	uint32_t cap = 0;

	*out = NULL;
	*n = 0;
	while (q_step(&q)) {
		GROW(a, *out, *n, cap);
		(*out)[(*n)++] = (struct m_whole){.plan = q_hash(&q, 0),
		    .model = q_hash(&q, 1),
		    .sum_ns = q_int(&q, 2),
		    .measured_ns = q_int(&q, 3),
		    .kernels = (uint64_t)q_int(&q, 4),
		    .hot_bytes = (uint64_t)q_int(&q, 5),
		    .near_bytes = (uint64_t)q_int(&q, 6),
		    .cold_bytes = (uint64_t)q_int(&q, 7),
		    .clock_ratio = q_real(&q, 8)};
	}
	return q_end(&q, e);
}

bool
whole_put(struct db *db, const struct meas_key *k, const struct m_whole *w, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		if (!q_run(db, e, SQL_WHOLE_PUT, "iihhiiiiiidi", k->env, (int64_t)k->threads, &w[i].plan,
			&w[i].model, w[i].sum_ns, w[i].measured_ns, (int64_t)w[i].kernels,
			(int64_t)w[i].hot_bytes, (int64_t)w[i].near_bytes, (int64_t)w[i].cold_bytes,
			w[i].clock_ratio, db_wall(db)))
			return false;
	return true;
}
