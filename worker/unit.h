/* worker/unit.h: one task on its way through a device: its spec, the kernels made for it, its rows.
 * What the CPU's and the GPU's device have in common. */
#ifndef KORCH_WORKER_UNIT_H
#define KORCH_WORKER_UNIT_H

#include "device.h"
#include "measure.h"

struct unit {
	const struct m_task *task;
	struct m_outcome *out;
	struct spec spec;
	struct target target;
	double tolerance; /* of its kernels; 0: the usual one */
	struct measure_kernel *kernels;
	struct kernel_code *codes;
	struct cuda_made *made; /* a GPU's: what each became */
	uint32_t n;             /* kernels that are still in */
	int64_t known_ns;
};
enum { MAKER_HANDS = 16 }; /* threads that generate at a time */
typedef bool unit_emit(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e);
/* The task as a whole has failed: no rows, no kernels. */
void unit_fail(struct arena *a, struct unit *u, enum err_code code, const char *why);
/* Reads the spec and generates a kernel for each schedule to try, kNUMBER_0, kNUMBER_1 ...; or fails it. */
void unit_make(const struct device *d, struct arena *a, struct unit *u, uint32_t number, unit_emit *emit);
/* The same of n units, numbered as they stand, on all cores. */
void unit_make_all(const struct device *d, struct arena *a, struct unit *units, uint32_t n, unit_emit *emit);
/* Kernel `at` leaves with a row that says why; true: it did.  False: the task fails, because the
 * error is none of a kernel. */
bool unit_drop(struct arena *a, struct unit *u, uint32_t at, const struct err *e);
/* Kernel `from` takes the place `to`. */
void unit_move(struct unit *u, uint32_t to, uint32_t from);
/* Kernel `at` was measured. */
void unit_row(struct arena *a, struct unit *u, uint32_t at, const struct m_row *r, size_t code_bytes,
    int64_t compile_ns);
/* Those of the units that have kernels, as a batch's items; of[i] is the unit behind items[i]. */
void unit_items(struct arena *a, struct unit *units, uint32_t n, struct measure_batch *b, struct unit ***of);
/* A batch that never ran. */
void unit_unmeasured(struct arena *a, struct unit *u, const struct err *e);
/* Units that a cancel left undone. */
void unit_given_up(struct arena *a, struct unit *units, uint32_t n);

#endif
