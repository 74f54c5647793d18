/* daemon/farm/farm_int.h: the farm from inside; for this folder alone. */
#ifndef KORCH_FARM_INT_H
#define KORCH_FARM_INT_H

#include "farm.h"

struct promise { /* a lease announced by a device, of a task that nobody has asked for yet */
	struct hash key;
	uint64_t device, gen;
	int64_t deadline_ns;
	bool is_orphan; /* of a task that nobody waits for any more, and its device does not know yet */
};
struct farm {
	struct farm_task **tasks;
	uint32_t n_tasks, cap_tasks;
	struct farm_task **buckets;
	uint32_t n_buckets;
	struct farm_device *devices;
	uint32_t n_devices, cap_devices;
	struct promise *promises;
	uint32_t n_promises, cap_promises;
	uint64_t next_gen, next_seq;
	struct farm_counts counts;
};

#define GROW_HEAP(p, n, cap)                                                                                 \
	((n) < (cap) ? (void)0                                                                               \
		     : (void)((cap) = (cap) ? (cap)*2 : 16, (p) = heap_resize((p), (cap) * sizeof(*(p)))))

struct farm_device *farm_device_of(const struct farm *f, uint64_t id); /* NULL: none */
void farm_device_fault(struct farm *f, struct farm_device *d, int64_t now_ns);
void farm_device_success(struct farm_device *d);
/* The lease ends, whatever comes next: the task is READY. */
void farm_end_lease(struct farm *f, struct farm_task *t);

#endif
