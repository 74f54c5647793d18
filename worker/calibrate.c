/* worker/calibrate.c: what a device can do at best: arithmetic, bandwidth of each level, cost of
 * a call; and the words under which its measurements are kept.
 *
 * The bounds stand on these, so each number is the best of many trials: too high only makes a
 * bound looser, too low would make it wrong (D16). */
#include "measure_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 40, LAUNCHES = 256, REF_TRIALS = 300, MAX_LINES = 64, PASSES = 16 };
static const int64_t trial_ns = 400000;
static const size_t dram_bytes = (size_t)192 << 20;

typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BEST_ISA __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define BEST_ISA
#endif

/* ---- arithmetic --------------------------------------------------------------------------- */
/* Chains that no CPU can shorten; enough of them to fill every unit.  Two widths, because which
 * one is faster depends on the CPU.  Returns flops done. */
#define FMA_LOOP(NAME, V, CHAINS) \
	BEST_ISA static double NAME(int64_t rounds, float *out) \
	{ \
		V acc[CHAINS], a, b; \
		for (size_t k = 0; k < sizeof(V) / 4; k++) { \
			a[k] = out[0]; \
			b[k] = out[1]; \
		} \
		for (int i = 0; i < (CHAINS); i++) \
			acc[i] = a * (float)i; \
		for (int64_t r = 0; r < rounds; r++) \
			for (int i = 0; i < (CHAINS); i++) \
				acc[i] = acc[i] * a + b; \
		for (int i = 0; i < (CHAINS); i++) \
			for (size_t k = 0; k < sizeof(V) / 4; k++) \
				out[2] += acc[i][k]; \
		return (double)rounds * (CHAINS) * (double)(sizeof(V) / 4) * 2; \
	}
FMA_LOOP(fma_8, v8, 12)
FMA_LOOP(fma_16, v16, 12)

static double
flops_peak(void)
{
	float seed[3] = {0.5f, 0.25f, 0};
	double best = 0;

	for (int i = 0; i < TRIALS; i++) {
		int64_t from = now_ns(), mid, to;
		double a = fma_8(2000, seed), b;

		mid = now_ns();
		b = fma_16(2000, seed);
		to = now_ns();
		best = fmax(best, a / (double)MAX_OF(mid - from, (int64_t)1) * 1e9);
		best = fmax(best, b / (double)MAX_OF(to - mid, (int64_t)1) * 1e9);
	}
	return seed[2] == seed[2] ? best : 0;
}

/* ---- bandwidth ------------------------------------------------------------------------------ */
BEST_ISA static double
read_all(v8 *x, int64_t n, int64_t rounds, v8 *sink)
{
	v8 s[8] = {{0}};

	for (int64_t r = 0; r < rounds; r++)
		for (int64_t i = 0; i + 8 <= n; i += 8)
			for (int k = 0; k < 8; k++)
				s[k] += x[i + k];
	for (int k = 0; k < 8; k++)
		*sink += s[k];
	return (double)rounds * (double)n * 32;
}

/* The second half written from the first: reads and writes count. */
BEST_ISA static double
copy_half(v8 *x, int64_t n, int64_t rounds, v8 *sink)
{
	int64_t h = n / 2;

	for (int64_t r = 0; r < rounds; r++) {
		for (int64_t i = 0; i < h; i++)
			x[h + i] = x[i] * 0.5f;
		__asm__ volatile("" ::"r"(x) : "memory");
	}
	*sink += x[h];
	return (double)rounds * (double)(2 * h) * 32;
}

typedef double stream_fn(v8 *x, int64_t n, int64_t rounds, v8 *sink);

static double
best_rate(stream_fn *fn, v8 *x, size_t n_bytes, int trials)
{
	int64_t n = (int64_t)(n_bytes / 32), rounds = 1;
	v8 sink = {0};
	double best = 0;

	for (int i = 0; i < trials; i++) {
		int64_t from = now_ns(), took;
		double bytes = fn(x, n, rounds, &sink);

		took = MAX_OF(now_ns() - from, (int64_t)1);
		if (took < trial_ns / 4 && rounds < 1 << 20) {
			rounds *= 4;
			i--;
			continue;
		}
		best = fmax(best, bytes / (double)took * 1e9);
	}
	return best;
}

static bool
bandwidth(const struct dev *d, const struct dev_info *info, struct hw *hw, struct err *e)
{
	double l2 = info->fact[DEV_FACT_l2_bytes], l3 = info->fact[DEV_FACT_l3_bytes];
	size_t sizes[4] = {(size_t)info->fact[DEV_FACT_l1_bytes] / 2, (size_t)(l2 / 2),
	    (size_t)fmin(fmax(l3 / 4, 4 * l2), 16 << 20), dram_bytes};
	v8 *x = d->mem_new(d->self, dram_bytes);

	if (!x)
		return err_set(e, ERR_MEMORY, "no memory to measure the bandwidth of this device");
	for (size_t i = 0; i < dram_bytes / 32; i++)
		x[i] = (v8){1, 2, 3, 4, 5, 6, 7, 8};
	for (int i = 0; i < 4; i++) {
		int trials = i == 3 ? 3 : TRIALS;
		size_t n = MAX_OF(sizes[i], (size_t)8192);

		hw->bytes_per_s[i] = fmax(best_rate(read_all, x, n, trials), best_rate(copy_half, x, n, trials));
	}
	/* A further level is never faster, whatever noise says. */
	for (int i = 2; i >= 0; i--)
		hw->bytes_per_s[i] = fmax(hw->bytes_per_s[i], hw->bytes_per_s[i + 1]);
	d->mem_free(d->self, x, dram_bytes);
	return true;
}

/* ---- calls ------------------------------------------------------------------------------------ */
static void
nothing_p0(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi)
{
	(void)buf;
	(void)shared;
	(void)local;
	(void)lo;
	(void)hi;
	__asm__ volatile("");
}

/* Shortest time of a launch of empty passes. */
static double
launch_ns(const struct dev *d, uint32_t n_passes)
{
	struct dev_kernel k = {.n_passes = n_passes};
	struct dev_launch l[LAUNCHES];
	void (*fn)(void *const *, char *, char *, int64_t, int64_t) = nothing_p0;
	void *no_buf[1] = {NULL};
	int64_t best = INT64_MAX;

	for (uint32_t i = 0; i < n_passes; i++) {
		memcpy(&k.pass[i], &fn, sizeof(fn));
		k.range[i] = d->n_threads;
	}
	for (int i = 0; i < LAUNCHES; i++)
		l[i] = (struct dev_launch){&k, no_buf};
	for (int i = 0; i < TRIALS; i++) {
		int64_t from = now_ns();

		d->run(d->self, l, LAUNCHES, NULL);
		best = MIN_OF(best, now_ns() - from);
	}
	return (double)best / LAUNCHES;
}

static void
call_costs(const struct dev *d, struct hw *hw)
{
	double one = launch_ns(d, 1), many = launch_ns(d, PASSES), pass = (many - one) / (PASSES - 1);

	/* A pass and its barrier cannot be told apart from outside; on one thread there is none. */
	hw->barrier_ns = d->n_threads > 1 ? fmax(pass, 0) : 0;
	hw->call_ns = fmax(d->n_threads > 1 ? one - pass : fmin(one, fmax(pass, 1)), 1);
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
		at += (size_t)snprintf(info->environment + at, sizeof(info->environment) - at, "%.*s\n", STR_ARG(line[i]));
	arena_fini(&tmp);
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
		for (const char *const *f = emit_c_flags(t); *f; f++)
			sb_addf(&sb, "%s%s", f == emit_c_flags(t) ? "" : " ", *f);
		sb_addf(&sb, "\nmethod=%d\n", MEASURE_METHOD);
		add_lines(out, sb.p);
	}
	arena_fini(&tmp);
	return ok;
}

static struct target
target_here(const struct dev_info *info)
{
	struct target t = dev_cpu_simd_bytes() == 32 ? target_avx2 : target_sse42;

	if (info->fact[DEV_FACT_l1_bytes] > 0)
		t.l1_bytes = (int64_t)info->fact[DEV_FACT_l1_bytes];
	if (info->fact[DEV_FACT_l2_bytes] > 0)
		t.l2_bytes = (int64_t)info->fact[DEV_FACT_l2_bytes];
	if (info->fact[DEV_FACT_l3_bytes] > 0)
		t.l3_bytes = (int64_t)info->fact[DEV_FACT_l3_bytes];
	return t;
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
calibrate(const struct dev *d, const struct refs *r, struct calibration *out, struct err *e)
{
	if (strcmp(d->name, "cpu") != 0)
		return calibrate_fake(d, out, e);
	*out = (struct calibration){0};
	if (!dev_cpu_describe(&out->info, e))
		return false;
	out->target = target_here(&out->info);
	if (!measure_environment(&out->target, &out->info, e))
		return false;
	out->hw.n_threads = (int)d->n_threads;
	out->hw.simd_bytes = out->target.simd_bytes;
	out->hw.level_bytes[0] = out->target.l1_bytes;
	out->hw.level_bytes[1] = out->target.l2_bytes;
	out->hw.level_bytes[2] = out->target.l3_bytes;
	out->hw.flops_peak = flops_peak();
	if (!bandwidth(d, &out->info, &out->hw, e))
		return false;
	call_costs(d, &out->hw);
	for (int i = 0; i < REF_COUNT; i++) {
		out->ref_ns[i] = INT64_MAX;
		for (int k = 0; k < REF_TRIALS; k++)
			out->ref_ns[i] = MIN_OF(out->ref_ns[i], refs_time(r, (enum measure_ref)i));
	}
	note_facts(out);
	return true;
}
