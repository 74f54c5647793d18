/* worker/calibrate.c: what a device can do at best: arithmetic, bandwidth of each level, cost of
 * a call; and the words under which its measurements are kept.
 *
 * The bounds stand on these, so each number is the best of many trials and a tenth more: too
 * high only makes a bound looser, too low would make it wrong (D16).  Products have 4 % more: the loop that
 * is timed has all its operands in registers, and no kernel came nearer than a tenth to it.  Exponentials and
 * divisions have a fifth: their loops go through memory. */
#include "measure_int.h"

#include "../kernels/base/epoch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 14, QUICK_ROUNDS = 1, LAUNCHES = 256, MAX_LINES = 64, PASSES = 16, FMA_ROUNDS = 4000 };
/* Of one round. */
enum {
	FMA_TRIALS = 200,
	MAP_TRIALS = 40,
	MAP_BYTES = 6144,
	MAP_ROUNDS = 16,
	STREAM_TRIALS = 6,
	LAUNCH_TRIALS = 6,
	REF_TRIALS = 40
};
static const int64_t trial_ns = 400000, pause_ns = 60000000;
/* A quick look takes less: what a cache holds of it makes a bound looser, and no bound wrong. */
static const size_t dram_bytes = (size_t)192 << 20, quick_dram_bytes = (size_t)64 << 20;
static const double margin = 1.1, linear_margin = 1.04, map_margin = 1.2, near_margin = 1.3;

/* What has been seen so far. */
struct seen {
	const struct refs *refs;
	size_t sizes[4];   /* bytes that lie in L1, L2, L3, memory */
	int64_t rounds[4]; /* over them, so that the clock's own cost vanishes; 0: not known yet */
	char *x;
	double flops, rate[4], one_ns, many_ns, exps, divs;
	int64_t ref_ns[REF_COUNT];
};

static void
see_flops(struct seen *s)
{
	float x[64] __attribute__((aligned(64)));
	double flops = 12.0 * FMA_ROUNDS * (isa_info[s->refs->isa].simd_bytes / 4) * 2;

	for (size_t i = 0; i < COUNT_OF(x); i++)
		x[i] = 0.5f;
	for (int i = 0; i < FMA_TRIALS; i++)
		s->flops =
		    fmax(s->flops, flops / (double)refs_probe(s->refs, PROBE_FMA, x, 0, FMA_ROUNDS) * 1e9);
}

/* Results a second of a map whose operands and results lie in L1, no power of two apart: a load that looks
 * like a store just before it waits for it. */
static void
see_map(struct seen *s, enum probe which, double *best)
{
	enum { RESULTS = MAP_BYTES / 2 / sizeof(float) };
	float *x = (float *)(void *)s->x;

	for (int i = 0; i < RESULTS; i++)
		x[i] = 0.5f + (float)i / RESULTS;
	for (int i = 0; i < MAP_TRIALS; i++) {
		int64_t n = MAP_BYTES / isa_info[s->refs->isa].simd_bytes,
			ns = refs_probe(s->refs, which, s->x, n, MAP_ROUNDS);

		*best = fmax(*best, (double)RESULTS * MAP_ROUNDS / (double)ns * 1e9);
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

		s->rate[level] = fmax(s->rate[level], bytes / (double)MIN_OF(read_ns, copy_ns) * 1e9);
	}
}

/* Shortest time of a launch of empty passes. */
static void
see_launch(struct seen *s, uint32_t n_passes, double *best_ns)
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
		*best_ns = fmin(*best_ns, (double)(now_ns() - from) / LAUNCHES);
	}
}

static void
see_all(struct seen *s)
{
	see_flops(s);
	see_map(s, PROBE_EXP, &s->exps);
	see_map(s, PROBE_DIV, &s->divs);
	for (int i = 0; i < 4; i++)
		see_rate(s, i);
	see_launch(s, 1, &s->one_ns);
	see_launch(s, PASSES, &s->many_ns);
	for (int i = 0; i < REF_COUNT; i++)
		for (int k = 0; k < REF_TRIALS; k++)
			s->ref_ns[i] = MIN_OF(s->ref_ns[i], refs_time(s->refs, (enum measure_ref)i));
}

/* All that can be seen, in rounds with pauses between: a neighbour on the same core or a slow
 * clock lasts longer than any single probe, and its numbers must not be kept for good. */
static bool
look_around(const struct refs *r, const struct dev_info *info, bool is_quick, struct seen *s, struct err *e)
{
	int rounds = is_quick ? QUICK_ROUNDS : ROUNDS;
	size_t most = is_quick ? quick_dram_bytes : dram_bytes;
	double l2 = info->fact[DEV_FACT_l2_bytes], l3 = info->fact[DEV_FACT_l3_bytes];
	const double sizes[4] = {
	    info->fact[DEV_FACT_l1_bytes] / 2, l2 / 2, fmin(fmax(l3 / 4, 4 * l2), 16 << 20), (double)most};

	*s = (struct seen){
	    .refs = r, .one_ns = INFINITY, .many_ns = INFINITY, .ref_ns = {INT64_MAX, INT64_MAX}};
	s->x = r->dev->mem_new(r->dev->self, most);
	if (!s->x)
		return err_set(e, ERR_MEMORY, "no memory to measure the bandwidth of this device");
	memset(s->x, 0, most);
	for (int i = 0; i < 4; i++)
		s->sizes[i] = (size_t)fmax(sizes[i], 8192) & ~(size_t)4095;
	for (int i = 0; i < rounds; i++) {
		if (i)
			(void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
		see_all(s);
	}
	r->dev->mem_free(r->dev->self, s->x, most);
	return true;
}

static void
take_hw(const struct seen *s, uint32_t n_threads, struct hw *hw)
{
	double pass_ns = (s->many_ns - s->one_ns) / (PASSES - 1);
	bool is_alone = n_threads == 1;

	hw->flops_peak = hw->linear_flops = s->flops;
	hw->exp_per_s = s->exps;
	hw->div_per_s = s->divs;
	hw->bytes_per_s[3] = s->rate[3];
	/* A further level is never faster, whatever noise says. */
	for (int i = 2; i >= 0; i--)
		hw->bytes_per_s[i] = fmax(s->rate[i], hw->bytes_per_s[i + 1]);
	/* A pass and its barrier cannot be told apart from outside; on one thread there is none. */
	hw->barrier_ns = is_alone ? 0 : fmax(pass_ns, 0);
	hw->call_ns = fmax(is_alone ? fmin(s->one_ns, fmax(pass_ns, 1)) : s->one_ns - pass_ns, 1);
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

static bool
calibrate_fake(const struct dev *d, struct calibration *out, struct err *e)
{
	*out = (struct calibration){.hw = hw_fastest, .target = target_avx2, .ref_ns = {1000, 1000}};
	return d->describe(d->self, &out->info, e);
}

bool
calibrate(const struct dev *d, const struct refs *r, bool is_quick, struct calibration *out, struct err *e)
{
	struct seen seen;

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
	out->hw.level_bytes[2] = out->target.l3_bytes;
	if (!look_around(r, &out->info, is_quick, &seen, e))
		return false;
	take_hw(&seen, d->n_threads, &out->hw);
	memcpy(out->ref_ns, seen.ref_ns, sizeof(out->ref_ns));
	note_facts(out);
	add_margin(&out->hw);
	return true;
}
