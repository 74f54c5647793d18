/* kernels/base/class.h: device classes.  A class is what measures alike, as one word that people and patterns
 * name: "cpu:AMD-EPYC-9B14-avx512", "cuda:NVIDIA-A100-SXM4-40GB". */
#ifndef KORCH_CLASS_H
#define KORCH_CLASS_H

#include "base.h"

enum { CLASS_MAX = 64 };

/* What --device asks for: a class, or a pattern in which '*' is any text and '?' any character, in letters of
 * either case.  A kind alone ("cpu", "cuda") is every class of it. */
bool class_fits(struct str pattern, struct str class);

/* Does a CPU's name say which one it is, by a number that is no clock?  Under a hypervisor all of a maker's
 * may be called alike: "AMD EPYC", "Intel(R) Xeon(R) CPU @ 2.20GHz". */
bool class_has_model(struct str name);

/* A CPU's class, from what it calls itself and its instruction set.  A model that is too long is cut, and
 * ends in a part of its digest, so that two do not become one. */
void class_of_cpu(struct str model, const char *isa, char out[CLASS_MAX]);

/* A GPU's; mig: the slice's words, "" of a whole one. */
void class_of_gpu(struct str name, struct str mig, char out[CLASS_MAX]);

/* The kind: what is before the ':'. */
struct str class_kind(struct str class);

#endif
