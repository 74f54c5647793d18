/* tests/harness/kernel_class.h: which class of kernels a schedule makes of a spec (kernel_class.def). */
#ifndef KORCH_TEST_KERNEL_CLASS_H
#define KORCH_TEST_KERNEL_CLASS_H

#include "../../kernels/space/sched.h"

enum kernel_class {
#define KERNEL_CLASS(NAME, WORDS) KERNEL_##NAME,
#include "kernel_class.def"
#undef KERNEL_CLASS
	KERNEL_CLASSES
};
const char *kernel_class_name(enum kernel_class c);
bool kernel_class_read(struct str name, enum kernel_class *out);
/* Of the program that the schedule makes. */
bool kernel_class_of(const struct spec *s, struct str schedule, const struct target *t,
    enum kernel_class *out, struct err *e) MUST_CHECK;

#endif
