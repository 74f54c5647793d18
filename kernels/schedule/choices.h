/* kernels/schedule/choices.h: what rules are told, beside what they know (choice.def). */
#ifndef KORCH_SCHEDULE_CHOICES_H
#define KORCH_SCHEDULE_CHOICES_H

#include <stdint.h>

struct choices {
#define CHOICE(KNOB, WORDS) int64_t KNOB;
#include "choice.def"
#undef CHOICE
};

#endif
