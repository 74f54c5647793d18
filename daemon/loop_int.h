/* daemon/loop_int.h: the loop from inside; for loop*.c and main alone. */
#ifndef KORCH_LOOP_INT_H
#define KORCH_LOOP_INT_H

#include "loop.h"

#include <uv.h>

struct loop {
	uv_loop_t uv;
	uv_async_t wake;
	uv_timer_t timer;
	uv_signal_t term, intr, hup;
	bool is_stopped;
};
struct loop *loop_new(void);

#endif
