/* worker/calibrate.c: what a device can do at best: arithmetic, bandwidth of each level, cost of
 * a call; and the words under which its measurements are kept.
 *
 * The bounds stand on these, so each number is what the fastest tenth of many trials had at least, and a
 * tenth more: too high only makes a bound looser, too low would make it wrong (D16).  (The very best trial is
 * of a moment that no kernel has for long.)  Products have 4 % more: the loop that is timed has all its
 * operands in registers, and no kernel came nearer than a tenth to it.  Exponentials and divisions have a
 * fifth: their loops go through memory.
 *
 * References are frozen as a race meets them, so that what kernels are told to take is what they take in a
 * plan. */
#include "measure_int.h"

#include "../kernels/base/epoch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	ROUNDS = 14,
	QUICK_ROUNDS = 1,
	REACH_EVERY = 4,
	LAUNCHES = 256,
	MAX_LINES = 64,
	PASSES = 16,
	FMA_ROUNDS = 4000
};
/* Of one round. */
enum {
	FMA_TRIALS = 200,
	MAP_TRIALS = 40,
	MAP_BYTES = 6144,
	MAP_ROUNDS = 16,
	STREAM_TRIALS = 6,
	LAUNCH_TRIALS = 6,
	REF_TRIALS = 12,
	REACH_WARM_UPS = 3,
	FRESH_TRIALS = 8,
	FRESH_BYTES = 1 << 20
};
/* Rates of a cache and of memory that are no further apart say nothing of its size. */
static const double cache_shows = 1.25;
/* ... and what is read at less than this share of the cache's rate is not all in it. */
static const double cache_share = 0.9;
static const int64_t trial_ns = 400000, pause_ns = 60000000;
/* A quick look takes less: what a cache holds of it makes a bound looser, and no bound wrong.  It believes in
 * no larger cache than that. */
static const size_t dram_bytes = (size_t)192 << 20, quick_dram_bytes = (size_t)64 << 20;
static const double margin = 1.1, linear_margin = 1.04, map_margin = 1.2, near_margin = 1.3;

/* What is looked at, each a series of trials. */
enum {
	SEEN_flop,
	SEEN_exp,
	SEEN_div,
	SEEN_one,  /* a launch of one pass */
	SEEN_many, /* of PASSES */
	SEEN_byte, /* of L1, L2, L3, memory */
	SEEN_ref = SEEN_byte + 4,
	SEEN_reach = SEEN_ref + REF_COUNT, /* a byte of each size */
	SEEN_COUNT = SEEN_reach + REACH_SIZES
};
enum { MOST_TRIALS = ROUNDS * FMA_TRIALS };
struct series {
	double ns[MOST_TRIALS]; /* each of one: flop, byte, launch */
	uint32_t n;
};
/* What has been seen so far. */
struct seen {
	const struct refs *refs;
	size_t sizes[4];   /* bytes that lie in L1, L2, L3, memory */
	int64_t rounds[4]; /* over them, so that the clock's own cost vanishes; 0: not known yet */
	char *x;
	struct cache_reach reach;
	struct series *of; /* SEEN_COUNT */
};

static void
note(struct seen *s, int what, double ns)
{
	struct series *of = &s->of[what];

	if (of->n < MOST_TRIALS)
		of->ns[of->n++] = ns;
}

static int
by_ns(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What so large a share of the trials takes at most. */
static double
share_ns(struct seen *s, int what, double share)
{
	struct series *of = &s->of[what];

	if (of->n == 0)
		bug("calibration has not looked at number %d", what);
	qsort(of->ns, of->n, sizeof(of->ns[0]), by_ns);
	return of->ns[(uint32_t)(share * of->n)];
}

static double
fast_ns(struct seen *s, int what)
{
	return share_ns(s, what, 0.1);
}

static void
see_flops(struct seen *s)
{
	float x[64] __attribute__((aligned(64)));
	double flops = 12.0 * FMA_ROUNDS * (isa_info[s->refs->isa].simd_bytes / 4) * 2;

	for (size_t i = 0; i < COUNT_OF(x); i++)
		x[i] = 0.5f;
	for (int i = 0; i < FMA_TRIALS; i++)
		note(s, SEEN_flop, (double)refs_probe(s->refs, PROBE_FMA, x, 0, FMA_ROUNDS) / flops);
}

/* Results of a map whose operands and results lie in L1, no power of two apart: a load that looks
 * like a store just before it waits for it. */
static void
see_map(struct seen *s, enum probe which, int what)
{
	enum { RESULTS = MAP_BYTES / 2 / sizeof(float) };
	float *x = (float *)(void *)s->x;

	for (int i = 0; i < RESULTS; i++)
		x[i] = 0.5f + (float)i / RESULTS;
	for (int i = 0; i < MAP_TRIALS; i++) {
		int64_t n = MAP_BYTES / isa_info[s->refs->isa].simd_bytes,
			ns = refs_probe(s->refs, which, s->x, n, MAP_ROUNDS);

		note(s, what, (double)ns / ((double)RESULTS * MAP_ROUNDS));
	}
	memset(s->x, 0, MAP_BYTES);
}

static void
see_rate(struct seen *s, int level)
{
	int64_t n = (int64_t)(s->sizes[level] / (size_t)isa_info[s->refs->isa].simd_bytes);
	int trials = level == 3 ? 1 : STREAM_TRIALS;

	for (; s->rounds[level] == 0 ||
	     refs_probe(s->refs, PROBE_READ, s->x, n, s->rounds[level]) < trial_ns / 4;)
		s->rounds[level] = MAX_OF(s->rounds[level] * 4, (int64_t)1);
	for (int i = 0; i < trials; i++) {
		double bytes = (double)s->sizes[level] * (double)s->rounds[level];
		int64_t read_ns = refs_probe(s->refs, PROBE_READ, s->x, n, s->rounds[level]);
		int64_t copy_ns = refs_probe(s->refs, PROBE_COPY, s->x, n, s->rounds[level]);

		note(s, SEEN_byte + level, (double)MIN_OF(read_ns, copy_ns) / bytes);
	}
}

/* Weights from memory are a few MB at a time, whose first read is faster than an endless one: a seventh, on a
 * Xeon. */
static void
see_fresh(struct seen *s)
{
	const int64_t n = FRESH_BYTES / isa_info[s->refs->isa].simd_bytes;

	for (int i = 0; i < FRESH_TRIALS && refs_evict(s->refs, s->x, FRESH_BYTES); i++)
		note(s, SEEN_byte + 3, (double)refs_probe(s->refs, PROBE_READ, s->x, n, 1) / FRESH_BYTES);
}

/* Reads of more and more of the last cache, behind some that bring it there (a cache of what the second one
 * drops takes in little by the first), and of memory at last. */
static void
see_reach(struct seen *s)
{
	const int64_t vector = isa_info[s->refs->isa].simd_bytes;

	for (uint32_t i = 0; i < s->reach.n; i++) {
		const int64_t n = (int64_t)s->reach.bytes[i] / vector;

		(void)refs_probe(s->refs, PROBE_READ, s->x, n, REACH_WARM_UPS);
		note(s, SEEN_reach + (int)i,
		    (double)refs_probe(s->refs, PROBE_READ, s->x, n, 1) / (double)s->reach.bytes[i]);
	}
}

/* A launch of empty passes. */
static void
see_launch(struct seen *s, uint32_t n_passes, int what)
{
	const struct dev_kernel *empty = &s->refs->probe[PROBE_NOTHING];
	struct dev_kernel k = {.n_passes = n_passes};
	struct dev_launch l[LAUNCHES];
	void *no_buf[1] = {NULL};

	for (uint32_t i = 0; i < n_passes; i++) {
		k.pass[i] = empty->pass[0];
		k.range[i] = empty->range[0];
	}
	for (int i = 0; i < LAUNCHES; i++)
		l[i] = (struct dev_launch){.kernel = &k, .buf = no_buf};
	for (int i = 0; i < LAUNCH_TRIALS; i++) {
		int64_t from = now_ns();

		s->refs->dev->run(s->refs->dev->self, l, LAUNCHES, NULL);
		note(s, what, (double)(now_ns() - from) / LAUNCHES);
	}
}

/* As a race meets them: behind something that has swept the core's own caches, where a core's clock is
 * another than in a loop of products alone. */
static void
see_refs(struct seen *s)
{
	const int64_t n = (int64_t)s->sizes[2] / isa_info[s->refs->isa].simd_bytes;

	for (int i = 0; i < REF_COUNT * REF_TRIALS; i++) {
		(void)refs_probe(s->refs, PROBE_READ, s->x, n, 1);
		note(s, SEEN_ref + i % REF_COUNT,
		    (double)refs_time(s->refs, (enum measure_ref)(i % REF_COUNT)));
	}
}

static void
see_all(struct seen *s, bool with_reach)
{
	see_flops(s);
	see_map(s, PROBE_EXP, SEEN_exp);
	see_map(s, PROBE_DIV, SEEN_div);
	for (int i = 0; i < 4; i++)
		see_rate(s, i);
	see_fresh(s);
	if (with_reach)
		see_reach(s);
	see_launch(s, 1, SEEN_one);
	see_launch(s, PASSES, SEEN_many);
	see_refs(s);
}

/* From what surely lies in the last cache up to all that it is said to hold, by half as much again; then
 * memory. */
static void
set_reach(struct cache_reach *r, size_t from, double claimed, size_t most)
{
	for (size_t n = from; (double)n <= claimed && n < most && r->n < REACH_SIZES - 1;
	     n = n * 3 / 2 & ~(size_t)4095)
		r->bytes[r->n++] = n;
	r->bytes[r->n++] = most;
}

double
cache_reach(const struct cache_reach *r, double claimed)
{
	const double near = r->rate[0], far = r->rate[r->n - 1];
	double over; /* of the way from the last size that lies in it to the first that does not */
	uint32_t i = 1;

	if (near < cache_shows * far)
		return claimed;
	while (i < r->n && r->rate[i] >= cache_share * near)
		i++;
	if (i == r->n || (i + 1 == r->n && claimed < (double)r->bytes[i]))
		return claimed;
	over = fmax(r->rate[i - 1] - cache_share * near, 0) / fmax(r->rate[i - 1] - r->rate[i], 1);
	return fmin(claimed, (double)r->bytes[i - 1] + over * (double)(r->bytes[i] - r->bytes[i - 1]));
}

/* All that can be seen, in rounds with pauses between: a neighbour on the same core or a slow
 * clock lasts longer than any single probe, and its numbers must not be kept for good. */
static bool
look_around(struct arena *a, const struct refs *r, const struct dev_info *info, bool is_quick, struct seen *s,
    struct err *e)
{
	int rounds = is_quick ? QUICK_ROUNDS : ROUNDS;
	double l2 = info->fact[DEV_FACT_l2_bytes], l3 = info->fact[DEV_FACT_l3_bytes];
	size_t most = is_quick ? quick_dram_bytes : dram_bytes;
	const double sizes[4] = {
	    info->fact[DEV_FACT_l1_bytes] / 2, l2 / 2, fmin(fmax(l3 / 4, 4 * l2), 16 << 20), (double)most};

	*s = (struct seen){.refs = r, .of = NEW_ARRAY(a, struct series, SEEN_COUNT)};
	s->x = r->dev->mem_new(r->dev->self, most);
	if (!s->x)
		return err_set(e, ERR_MEMORY, "no memory to measure the bandwidth of this device");
	memset(s->x, 0, most);
	for (int i = 0; i < 4; i++)
		s->sizes[i] = (size_t)fmax(sizes[i], 8192) & ~(size_t)4095;
	if (!is_quick)
		set_reach(&s->reach, s->sizes[2], l3, most);
	for (int i = 0; i < rounds; i++) {
		if (i)
			(void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
		see_all(s, i % REACH_EVERY == 0);
	}
	r->dev->mem_free(r->dev->self, s->x, most);
	return true;
}

static double
a_second(struct seen *s, int what)
{
	return 1e9 / fmax(fast_ns(s, what), 1e-9);
}

static void
take_hw(struct seen *s, uint32_t n_threads, struct hw *hw)
{
	double one_ns = fast_ns(s, SEEN_one), pass_ns = (fast_ns(s, SEEN_many) - one_ns) / (PASSES - 1);
	bool is_alone = n_threads == 1;

	hw->flops_peak = hw->linear_flops = a_second(s, SEEN_flop);
	hw->exp_per_s = a_second(s, SEEN_exp);
	hw->div_per_s = a_second(s, SEEN_div);
	hw->bytes_per_s[3] = a_second(s, SEEN_byte + 3);
	/* A further level is never faster, whatever noise says. */
	for (int i = 2; i >= 0; i--)
		hw->bytes_per_s[i] = fmax(a_second(s, SEEN_byte + i), hw->bytes_per_s[i + 1]);
	/* A pass and its barrier cannot be told apart from outside; on one thread there is none. */
	hw->barrier_ns = is_alone ? 0 : fmax(pass_ns, 0);
	hw->call_ns = fmax(is_alone ? fmin(one_ns, fmax(pass_ns, 1)) : one_ns - pass_ns, 1);
}

/* ---- the words --------------------------------------------------------------------------------- */
static int
by_text(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* Adds "key=value" lines to the environment and sorts all of them. */
static void
add_lines(struct dev_info *info, const char *more)
{
	struct arena tmp = {0};
	struct str rest = str_of(arena_printf(&tmp, "%s%s", info->environment, more)), line[MAX_LINES];
	size_t n = 0, at = 0;

	while (rest.n && n < MAX_LINES) {
		line[n] = str_cut(&rest, '\n');
		n += line[n].n > 0;
	}
	qsort(line, n, sizeof(line[0]), by_text);
	for (size_t i = 0; i < n && at < sizeof(info->environment); i++)
		at += (size_t)snprintf(
		    info->environment + at, sizeof(info->environment) - at, "%.*s\n", STR_ARG(line[i]));
	arena_fini(&tmp);
}

/* Where another library or version competes, another schedule may win. */
static void
add_libraries(struct strbuf *sb)
{
	for (int l = 0; l < LIBRARY_COUNT; l++) {
		int64_t version = dev_cpu_library((enum library)l);

		if (!version)
			continue;
		sb_addz(sb, "library=");
		library_print(sb, (enum library)l, version);
		sb_addc(sb, '\n');
	}
}

bool
measure_environment(const struct target *t, struct dev_info *out, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct str version;
	bool ok = dev_cpu_describe(out, e) && compiler_version(&tmp, &version, e);

	sb_init(&sb, &tmp);
	if (ok) {
		sb_addf(&sb, "compiler=%.*s\nepoch=%d\nflags=", STR_ARG(version), GENERATOR_EPOCH);
		for (const char *const *f = generate_c_flags(t); *f; f++)
			sb_addf(&sb, "%s%s", f == generate_c_flags(t) ? "" : " ", *f);
		sb_addf(&sb, "\nmethod=%d\n", MEASURE_METHOD);
		add_libraries(&sb);
		add_lines(out, sb.p);
	}
	arena_fini(&tmp);
	return ok;
}

static struct target
target_here(enum isa isa, const struct dev_info *info)
{
	struct target t = *target_of_isa(isa);

	for (int l = 0; l < LIBRARY_COUNT; l++)
		t.library[l] = dev_cpu_library((enum library)l);
	target_caches(
	    &t, info->fact[DEV_FACT_l1_bytes], info->fact[DEV_FACT_l2_bytes], info->fact[DEV_FACT_l3_bytes]);
	return t;
}

/* What was seen goes to the device's facts as it is, to the bounds with a margin. */
static void
add_margin(struct hw *h)
{
	h->flops_peak *= margin;
	h->linear_flops *= linear_margin;
	h->exp_per_s *= map_margin;
	h->div_per_s *= map_margin;
	for (int i = 0; i < 4;
	     i++) /* products of two vectors moved 1.16 times what copies do in the first cache */
		h->bytes_per_s[i] *= i == 0 ? near_margin : margin;
	h->call_ns /= margin;
	h->barrier_ns /= margin;
}

static void
note_facts(struct calibration *c)
{
	const struct hw *h = &c->hw;

	c->info.fact[DEV_FACT_flops_peak] = h->flops_peak;
	c->info.fact[DEV_FACT_l1_bytes_per_s] = h->bytes_per_s[0];
	c->info.fact[DEV_FACT_l2_bytes_per_s] = h->bytes_per_s[1];
	c->info.fact[DEV_FACT_l3_bytes_per_s] = h->bytes_per_s[2];
	c->info.fact[DEV_FACT_dram_bytes_per_s] = h->bytes_per_s[3];
	c->info.fact[DEV_FACT_call_ns] = h->call_ns;
	c->info.fact[DEV_FACT_barrier_ns] = h->barrier_ns;
}

static void
take_all(struct seen *s, uint32_t n_threads, struct calibration *out)
{
	take_hw(s, n_threads, &out->hw);
	for (uint32_t i = 0; i < s->reach.n; i++)
		s->reach.rate[i] = a_second(s, SEEN_reach + (int)i);
	out->target.l3_bytes = s->reach.n > 0 ? (int64_t)cache_reach(&s->reach, (double)out->target.l3_bytes)
					      : MIN_OF(out->target.l3_bytes, (int64_t)quick_dram_bytes);
	out->hw.level_bytes[2] = out->target.l3_bytes;
	for (int i = 0; i < REF_COUNT; i++)
		out->ref_ns[i] = (int64_t)(share_ns(s, SEEN_ref + i, 0.5) + 0.5);
	note_facts(out);
	add_margin(&out->hw);
}

static bool
calibrate_fake(const struct dev *d, struct calibration *out, struct err *e)
{
	*out = (struct calibration){.hw = hw_fastest, .target = target_avx2, .ref_ns = {1000, 1000}};
	return d->describe(d->self, &out->info, e);
}

bool
calibrate(const struct dev *d, const struct refs *r, bool is_quick, struct calibration *out, struct err *e)
{
	struct arena tmp = {0};
	struct seen seen;
	bool ok;

	if (strcmp(d->name, "cpu") != 0)
		return calibrate_fake(d, out, e);
	*out = (struct calibration){0};
	if (!dev_cpu_describe(&out->info, e))
		return false;
	out->target = target_here(r->isa, &out->info);
	out->hw.n_threads = (int)d->n_threads;
	out->hw.simd_bytes = out->target.simd_bytes;
	out->hw.level_bytes[0] = out->target.l1_bytes;
	out->hw.level_bytes[1] = out->target.l2_bytes;
	ok = look_around(&tmp, r, &out->info, is_quick, &seen, e);
	if (ok)
		take_all(&seen, d->n_threads, out);
	arena_fini(&tmp);
	return ok;
}
