/* proto/hw.h: is a hardware vector that came from outside one that can be worked with? */
#ifndef KORCH_HW_H
#define KORCH_HW_H

#include "msg.h"

/* Every number finite and within its range of hw.def; ERR_PROTO names the field. */
bool hw_check(const struct m_hw *hw, struct err *e) MUST_CHECK;

#endif
