/* kernels/device/pool.c: threads that do a list of passes together.
 *
 * A pass's range is split evenly over as many seats as threads are wanted, each seat's part in SHARES shares.
 * A thread takes its own seat's shares, all at once; when they are gone, half of what another seat has that
 * nobody has begun.  So all threads do the same rows from pass to pass while they keep up with each other,
 * one that is late gets less, and one that is not there at all gets nothing and is not waited for.  Whoever
 * ends the pass's last share opens the next pass, whichever thread it is.
 *
 * What cannot be taken from a thread is the share in its hand, and where other programs want its core it may
 * lose that core for milliseconds.  Then fewer threads are wanted for a while: the others sleep.  A thread is
 * known to have lost its core by a yield from which it comes back late, or by its CPU clock, which stands
 * still while others wait for its share.
 *
 * Invariants:
 *  1. `phase` is (number of the pass, its seats), no seats between two runs; it changes only when no share of
 *     the pass is open or in hand, and by one thread: who found `left` at zero, or the caller of pool_run;
 *  2. a seat's `claim` is (pass, first share that nobody has begun, end); one of another pass says that none
 *     of this pass has been begun.  Read before `phase` was seen unchanged, it can be replaced as long as it
 *     is the same: a share that was open then keeps the pass from ending;
 *  3. pool_work is read with a share in hand, or by who changes the phase;
 *  4. a thread sleeps only after it has said so in `asleep` and looked again; who changes what it waits for
 *     reads `asleep` afterwards: with sequentially consistent atomics one of the two sees the other. */
#include "pool.h"

#include "../base/fp.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SHARES = 8, NEAR_SPINS = 16, SPINS = 1000, LOOK_EVERY = 32 };
/* Half a millisecond until it sleeps: a thread that waits for the slower half of a kernel stays awake, since
 * waking it takes 50 to 150 us where its core has gone idle (virtual machines above all). */
static const int64_t sleep_ns = 500000, look_ns = 50000, late_ns = 100000, settled_ns = 20000000,
		     least_pause_ns = 2000000, most_pause_ns = 512000000;

struct bell { /* what sleepers wait for; alone in its cache line */
	_Alignas(64) atomic_uint value;
	atomic_uint asleep; /* somebody may be */
};
struct seat {
	_Alignas(128) atomic_uint_least64_t claim;
	atomic_bool busy;        /* its thread has a share in hand */
	_Atomic clockid_t clock; /* of its thread's CPU time */
};
struct pool {
	_Alignas(64) atomic_uint_least64_t phase;
	struct pool_pass at; /* the pass at hand; beside the phase, which all who do it have just read */
	const struct pool_work *work;
	uint64_t fp;                   /* control word of who runs it: all threads compute alike */
	_Alignas(64) atomic_uint left; /* shares that are not done */
	_Alignas(64) atomic_uint n_wanted;
	atomic_int_least64_t pause_ns, raise_at, raised_at; /* until and since when so many are wanted */
	struct bell go, back;                               /* phase has changed; more threads are wanted */
	_Alignas(64) atomic_bool stop;
	struct seat *seats; /* n */
	uint32_t n;
	bool spins, is_pinned;
	pthread_t *threads; /* n - 1 */
	struct start *starts;
	pthread_t opener; /* where threads are pinned it was, too; in the end it may run on `allowed` */
	cpu_set_t allowed;
};
struct start {
	struct pool *pool;
	uint32_t thread;
	int core; /* -1: not pinned */
};

static int64_t
now_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

/* ---- sleeping ---------------------------------------------------------------------------------------- */
static void
futex(atomic_uint *at, int op, unsigned value)
{
	(void)syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* What is waited for is to be looked at between the two. */
static unsigned
bell_lie_down(struct bell *b)
{
	unsigned seen = atomic_load(&b->value);

	atomic_store(&b->asleep, 1);
	return seen;
}

static void
bell_sleep(struct bell *b, unsigned seen)
{
	futex(&b->value, FUTEX_WAIT, seen);
}

static void
bell_ring(struct bell *b)
{
	if (!atomic_load(&b->asleep) || !atomic_exchange(&b->asleep, 0))
		return;
	atomic_fetch_add(&b->value, 1);
	futex(&b->value, FUTEX_WAKE, INT_MAX);
}

/* ---- how many threads are wanted ---------------------------------------------------------------------- */
uint32_t
pool_wanted(const struct pool *p)
{
	return atomic_load_explicit(&p->n_wanted, memory_order_relaxed);
}

void
pool_want_all(struct pool *p)
{
	if (atomic_exchange(&p->n_wanted, p->n) < p->n)
		bell_ring(&p->back);
}

/* Somebody else has a thread's core: one thread fewer for a while, and for longer each time that it turns out
 * soon to have been too short. */
static void
withdraw_one(struct pool *p, int64_t now)
{
	unsigned n = atomic_load(&p->n_wanted);
	int64_t pause = atomic_load(&p->pause_ns);

	if (n == 1 || !atomic_compare_exchange_strong(&p->n_wanted, &n, n - 1))
		return;
	pause = now - atomic_load(&p->raised_at) < settled_ns ? MIN_OF(2 * pause, most_pause_ns)
							      : MAX_OF(pause / 4, least_pause_ns);
	atomic_store(&p->pause_ns, pause);
	atomic_store(&p->raise_at, now + pause);
}

/* By who changes the phase. */
static uint32_t
wanted_now(struct pool *p)
{
	uint32_t n = pool_wanted(p);
	int64_t now;

	if (n == p->n)
		return n;
	now = now_ns();
	if (now < atomic_load(&p->raise_at))
		return n;
	atomic_store(&p->raised_at, now);
	atomic_store(&p->raise_at, now + atomic_load(&p->pause_ns));
	n = atomic_fetch_add(&p->n_wanted, 1) + 1;
	bell_ring(&p->back);
	return n;
}

/* ---- phases ------------------------------------------------------------------------------------------- */
static uint64_t
number_of(uint64_t phase)
{
	return phase >> 16;
}

static uint32_t
seats_of(uint64_t phase)
{
	return (uint32_t)(phase & 0xffff);
}

/* is_heard: somebody who sleeps has to know. */
static void
set_phase(struct pool *p, uint32_t n_seats, bool is_heard)
{
	uint64_t old = atomic_load_explicit(&p->phase, memory_order_relaxed);

	atomic_store_explicit(&p->left, n_seats * SHARES, memory_order_relaxed);
	atomic_store(&p->phase, (number_of(old) + 1) << 16 | n_seats);
	if (is_heard)
		bell_ring(&p->go);
}

/* Opens the next pass that more than one thread can share; those before it are done at once. */
static void
advance(struct pool *p, uint32_t thread)
{
	const struct pool_work *w = p->work;
	uint32_t n_wanted;

	while (w->next(w->arg, &p->at)) {
		n_wanted = wanted_now(p);
		if (p->at.n > 1 && n_wanted > 1) {
			set_phase(p, (uint32_t)MIN_OF(p->at.n, (int64_t)n_wanted), true);
			return;
		}
		atomic_store_explicit(&p->seats[thread].busy, true, memory_order_relaxed);
		if (p->at.n > 0)
			w->piece(w->arg, &p->at, thread, 0, p->at.n);
		atomic_store_explicit(&p->seats[thread].busy, false, memory_order_relaxed);
	}
	set_phase(p, 0, thread != 0); /* the end is the caller's alone */
}

/* ---- shares ------------------------------------------------------------------------------------------- */
struct bite { /* shares first to end of a seat */
	uint32_t seat, first, end;
};

/* Takes from the front of the thread's own seat, from the end of another's; false: nothing is left there. */
static bool
take_from(struct pool *p, uint64_t phase, uint32_t seat, bool is_own, bool all, struct bite *out)
{
	atomic_uint_least64_t *claim = &p->seats[seat].claim;
	uint64_t old = atomic_load(claim), new;
	uint32_t first, end, n;

	do {
		bool is_begun = number_of(old) == number_of(phase);

		first = is_begun ? (uint32_t)(old >> 8 & 0xff) : 0;
		end = is_begun ? (uint32_t)(old & 0xff) : SHARES;
		if (first == end || atomic_load(&p->phase) != phase)
			return false;
		n = all ? end - first : (end - first + 1) / 2;
		*out = is_own ? (struct bite){seat, first, first + n} : (struct bite){seat, end - n, end};
		if (is_own)
			first += n;
		else
			end -= n;
		new = number_of(phase) << 16 | first << 8 | end;
	} while (!atomic_compare_exchange_weak(claim, &old, new));
	return true;
}

/* Of the thread's own seat, or of the others'. */
static bool
take(struct pool *p, uint64_t phase, uint32_t thread, bool is_own, struct bite *out)
{
	uint32_t n = seats_of(phase);

	if (is_own)
		return thread < n && take_from(p, phase, thread, true, pool_wanted(p) == p->n, out);
	for (uint32_t i = 1; i <= n; i++) {
		uint32_t seat = (thread + i) % n;

		if (seat != thread && take_from(p, phase, seat, false, false, out))
			return true;
	}
	return false;
}

static void
do_bite(struct pool *p, uint64_t phase, uint32_t thread, const struct bite *b)
{
	const struct pool_work *w = p->work;
	int64_t lo, hi, from, to, at;

	pool_slice(p->at.n, b->seat, seats_of(phase), &lo, &hi);
	pool_slice(hi - lo, b->first, SHARES, &from, &at);
	pool_slice(hi - lo, b->end - 1, SHARES, &at, &to);
	if (thread)
		fp_set_control(p->fp);
	if (from < to)
		w->piece(w->arg, &p->at, thread, lo + from, lo + to);
}

/* What this thread can get of its own seat, or of the others'; true: it did the last of the pass. */
static bool
do_shares(struct pool *p, uint64_t phase, uint32_t thread, bool is_own)
{
	atomic_bool *busy = &p->seats[thread].busy;
	uint32_t n = 0;
	struct bite b;

	atomic_store_explicit(busy, true, memory_order_relaxed);
	while (take(p, phase, thread, is_own, &b)) {
		do_bite(p, phase, thread, &b);
		n += b.end - b.first;
	}
	atomic_store_explicit(busy, false, memory_order_relaxed);
	return n && atomic_fetch_sub(&p->left, n) == n;
}

/* ---- waiting ------------------------------------------------------------------------------------------ */
static void
pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool
spin(struct pool *p, uint64_t phase, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (atomic_load_explicit(&p->phase, memory_order_acquire) != phase)
			return true;
		pause_cpu();
	}
	return false;
}

/* Somebody whose share is waited for, and how much time it has had of a core. */
struct look {
	uint32_t thread;
	int64_t at_ns, cpu_ns; /* at_ns 0: nobody yet */
};

static bool
look_at(struct pool *p, uint32_t thread, int64_t now, struct look *out)
{
	struct timespec t;

	if (!atomic_load_explicit(&p->seats[thread].busy, memory_order_relaxed) ||
	    clock_gettime(atomic_load_explicit(&p->seats[thread].clock, memory_order_relaxed), &t) != 0)
		return false;
	*out = (struct look){thread, now, (int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
	return true;
}

/* Is the one that was looked at before still at work, and its CPU clock stands?  Then others have its core.
 */
static bool
has_lost_core(struct pool *p, uint32_t me, int64_t now, struct look *before)
{
	struct look l;

	if (before->at_ns && now - before->at_ns < look_ns)
		return false;
	if (before->at_ns && look_at(p, before->thread, now, &l)) {
		bool stands = l.cpu_ns - before->cpu_ns < (now - before->at_ns) / 4;

		*before = l;
		return stands;
	}
	before->at_ns = 0;
	for (uint32_t i = 0; i < p->n; i++)
		if (i != me && look_at(p, i, now, before))
			break;
	return false;
}

/* A yield from which it comes back late says that this core is wanted by others. */
static int64_t
yield(struct pool *p)
{
	int64_t from = now_ns(), to;

	(void)sched_yield();
	to = now_ns();
	if (to - from > late_ns)
		withdraw_one(p, to);
	return to;
}

static bool
is_unwanted(const struct pool *p, uint32_t thread)
{
	return thread >= pool_wanted(p);
}

/* Until the phase is another, or the thread is not wanted any more. */
static void
wait_phase(struct pool *p, uint64_t phase, uint32_t thread)
{
	struct look look = {0};
	int64_t from, now;
	unsigned seen;

	if (p->spins) {
		if (spin(p, phase, SPINS))
			return;
		for (from = now = now_ns(); now - from < sleep_ns; now = yield(p)) {
			if (spin(p, phase, LOOK_EVERY) || is_unwanted(p, thread))
				return;
			if (seats_of(phase) && has_lost_core(p, thread, now, &look))
				withdraw_one(p, now);
		}
	}
	seen = bell_lie_down(&p->go);
	if (atomic_load(&p->phase) == phase && !atomic_load(&p->stop))
		bell_sleep(&p->go, seen);
}

static void
wait_wanted(struct pool *p, uint32_t thread)
{
	unsigned seen = bell_lie_down(&p->back);

	if (is_unwanted(p, thread) && !atomic_load(&p->stop))
		bell_sleep(&p->back, seen);
}

/* ---- running ------------------------------------------------------------------------------------------ */
/* The caller returns when the run is over; the others stay until the pool is closed. */
static void
work_on(struct pool *p, uint32_t thread)
{
	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		uint64_t phase;

		if (is_unwanted(p, thread)) {
			wait_wanted(p, thread);
			continue;
		}
		phase = atomic_load(&p->phase);
		if (!seats_of(phase) && thread == 0)
			return;
		if (seats_of(phase) && do_shares(p, phase, thread, true))
			advance(p, thread);
		else if (spin(p, phase, NEAR_SPINS)) /* to look at others' seats takes them their lines */
			continue;
		else if (seats_of(phase) && do_shares(p, phase, thread, false))
			advance(p, thread);
		else
			wait_phase(p, phase, thread);
	}
}

static void
set_clock(struct seat *s)
{
	clockid_t clock;

	if (pthread_getcpuclockid(pthread_self(), &clock) != 0)
		clock = CLOCK_MONOTONIC; /* never stands */
	atomic_store_explicit(&s->clock, clock, memory_order_relaxed);
}

void
pool_run(struct pool *p, const struct pool_work *w)
{
	p->at = (struct pool_pass){0};
	if (p->n == 1) {
		while (w->next(w->arg, &p->at))
			if (p->at.n > 0)
				w->piece(w->arg, &p->at, 0, 0, p->at.n);
		return;
	}
	set_clock(&p->seats[0]);
	p->work = w;
	p->fp = fp_control();
	advance(p, 0);
	work_on(p, 0);
}

void
pool_slice(int64_t count, uint32_t i, uint32_t n, int64_t *lo, int64_t *hi)
{
	int64_t each = count / n, more = count % n;

	*lo = each * i + MIN_OF((int64_t)i, more);
	*hi = *lo + each + ((int64_t)i < more);
}

/* ---- opening and closing ------------------------------------------------------------------------------ */
static void
pin_to(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	/* Refused in some containers: then the scheduler decides, and timing is only noisier. */
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *
worker(void *arg)
{
	const struct start *s = arg;

	pin_to(s->core);
	set_clock(&s->pool->seats[s->thread]);
	work_on(s->pool, s->thread);
	return NULL;
}

/* The i-th core this process may use, wrapping round; -1 where the system does not say. */
static int
allowed_core(const cpu_set_t *set, uint32_t i)
{
	int count = CPU_COUNT(set);

	if (count <= 0)
		return -1;
	i %= (uint32_t)count;
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET((size_t)c, set) && i-- == 0)
			return c;
	return -1;
}

static bool
start_threads(struct pool *p, uint32_t *n_started, struct err *e)
{
	for (*n_started = 0; *n_started + 1 < p->n; (*n_started)++) {
		struct start *s = &p->starts[*n_started + 1];
		int rc = pthread_create(&p->threads[*n_started], NULL, worker, s);

		if (rc != 0)
			return err_set(e, ERR_HOST, "cannot start thread %u of %u: %s; ask for fewer threads",
			    *n_started + 1, p->n, strerror(rc));
	}
	return true;
}

static void
stop_threads(struct pool *p, uint32_t n_started)
{
	atomic_store(&p->stop, true);
	set_phase(p, 0, true);
	bell_ring(&p->back);
	for (uint32_t i = 0; i < n_started; i++)
		(void)pthread_join(p->threads[i], NULL);
	if (p->is_pinned && pthread_equal(p->opener, pthread_self()))
		(void)pthread_setaffinity_np(p->opener, sizeof(p->allowed), &p->allowed);
	free(p->threads);
	free(p->starts);
	free(p->seats);
	free(p);
}

static struct pool *
pool_new(uint32_t n_threads, bool pin)
{
	struct pool *p = aligned_alloc(_Alignof(struct pool), sizeof(*p));
	struct seat *seats = aligned_alloc(_Alignof(struct seat), n_threads * sizeof(*seats));

	if (!p || !seats) {
		free(p);
		free(seats);
		return NULL;
	}
	memset(p, 0, sizeof(*p));
	memset(seats, 0, n_threads * sizeof(*seats));
	if (sched_getaffinity(0, sizeof(p->allowed), &p->allowed) != 0)
		CPU_ZERO(&p->allowed);
	p->opener = pthread_self();
	p->seats = seats;
	p->n = n_threads;
	atomic_store(&p->n_wanted, n_threads);
	atomic_store(&p->pause_ns, least_pause_ns);
	atomic_store(&p->raised_at, INT64_MIN / 2);
	/* Where threads outnumber cores, spinning only takes the core from who is waited for. */
	p->spins = CPU_COUNT(&p->allowed) == 0 || n_threads <= (uint32_t)CPU_COUNT(&p->allowed);
	p->threads = heap_alloc(n_threads * sizeof(*p->threads));
	p->starts = heap_alloc(n_threads * sizeof(*p->starts));
	for (uint32_t i = 0; i < n_threads; i++)
		p->starts[i] = (struct start){p, i, pin ? allowed_core(&p->allowed, i) : -1};
	return p;
}

bool
pool_open(uint32_t n_threads, bool pin, struct pool **out, struct err *e)
{
	struct pool *p;
	uint32_t n_started;

	if (n_threads < 1 || n_threads > POOL_MAX_THREADS)
		return err_set(
		    e, ERR_USAGE, "%u threads: from 1 to %d are possible", n_threads, POOL_MAX_THREADS);
	p = pool_new(n_threads, pin);
	if (!p)
		return err_set(e, ERR_MEMORY, "no memory for a pool of %u threads", n_threads);
	if (!start_threads(p, &n_started, e)) {
		stop_threads(p, n_started);
		return false;
	}
	pin_to(p->starts[0].core);
	p->is_pinned = p->starts[0].core >= 0;
	*out = p;
	return true;
}

void
pool_close(struct pool *p)
{
	if (p)
		stop_threads(p, p->n - 1);
}

uint32_t
pool_threads(const struct pool *p)
{
	return p->n;
}
