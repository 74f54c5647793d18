/* What worker and measuring child say to each other: whatever bytes arrive, the structs made of them hold
 * what their readers rely on; what is accepted is packed and read again to the same JSON.  The first byte
 * chooses: a message alone, or a stream of frames as from a child that kernels have written all over. */
#include "../../proto/meas.h"
#include "../../worker/measure_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct str
json_of(struct arena *a, const struct msg *m)
{
	struct strbuf sb;

	sb_init(&sb, a);
	msg_json(&sb, m);
	return sb_str(&sb);
}

static void
batch(struct arena *a, const struct msg *m)
{
	struct child_batch b;
	struct msg again = {.type = MSG_batch_ask}, last = {.type = MSG_batch_ask};
	struct err e = {0};
	bool *settled;
	uint32_t n = 0;

	if (!batch_unpack(a, &m->batch_ask, &b, &e)) {
		if (!e.msg[0])
			abort();
		return;
	}
	for (uint32_t i = 0; i < b.batch.n_items; i++)
		n += b.batch.items[i].n_kernels;
	settled = NEW_ARRAY(a, bool, n + 1);
	n = 0;
	for (uint32_t i = 0; i < b.batch.n_items; i++)
		for (uint32_t k = 0; k < b.batch.items[i].n_kernels; k++) {
			const struct measure_kernel *x = &b.batch.items[i].kernels[k];

			if (x->code->desc.n_passes > KERNEL_MAX_PASSES || strlen(x->symbol.p) > x->symbol.n)
				abort();
			settled[n++] = b.skip[i][k];
		}
	b.batch.calibration = &b.calibration;
	batch_pack(a, &b.batch, settled, &again.batch_ask);
	if (!batch_unpack(a, &again.batch_ask, &b, &e))
		abort();
	b.batch.calibration = &b.calibration;
	batch_pack(a, &b.batch, settled, &last.batch_ask);
	if (!str_eq(json_of(a, &again), json_of(a, &last)))
		abort();
}

static void
calibrated(struct arena *a, const struct msg *m)
{
	struct calibration *c = NEW(a, struct calibration);
	struct m_calibration again;
	struct err e = {0};

	if (!calibration_unpack(&m->calibrate_have.calibration, c, &e)) {
		if (e.code != ERR_PROTO || !e.msg[0])
			abort();
		return;
	}
	calibration_pack(a, c, &again);
	if (!calibration_unpack(&again, c, &e))
		abort();
}

static void
row(struct arena *a, const struct msg *m)
{
	struct m_measured own = m->batch_row.measured;
	struct bytes out;
	struct err e = {0};

	rec_dup(a, "measured", &own);
	meas_cut(&own.row);
	if (!rec_pack(a, "measured", &own, &out, &e))
		abort();
}

static void
message(struct arena *a, const struct msg *m)
{
	if (m->type == MSG_batch_ask)
		batch(a, m);
	else if (m->type == MSG_calibrate_have)
		calibrated(a, m);
	else if (m->type == MSG_batch_row)
		row(a, m);
	else if (m->type == MSG_child_welcome)
		(void)measure_is_same_build(&m->child_welcome);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a = {0};
	struct bytes body, rest = {data + 1, n ? n - 1 : 0};
	size_t used;
	struct msg m;
	struct err e = {0};

	if (n == 0)
		return 0;
	if (data[0] < 128 && msg_unpack(&a, rest, &m, &e))
		message(&a, &m);
	while (data[0] >= 128 && (used = frame_next(rest, &body)) != 0 && used != SIZE_MAX) {
		if (msg_unpack(&a, body, &m, &e))
			message(&a, &m);
		rest.p += used;
		rest.n -= used;
	}
	arena_fini(&a);
	return 0;
}
