/* worker/calibrate.c: what a device can do at best: arithmetic, bandwidth of each level, cost of
 * a call; and the words under which its measurements are kept.
 *
 * The bounds stand on these, so each number is the best of many trials and a tenth more: too
 * high only makes a bound looser, too low would make it wrong (D16). */
#include "measure_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 40, LAUNCHES = 256, REF_TRIALS = 300, MAX_LINES = 64, PASSES = 16, FMA_ROUNDS = 4000 };
static const int64_t trial_ns = 400000;
static const size_t dram_bytes = (size_t)192 << 20;
static const double margin = 1.1;

/* Flops of a second at best. */
static double
flops_peak(const struct refs *r)
{
	float x[64] __attribute__((aligned(64)));
	double flops = 12.0 * FMA_ROUNDS * (dev_cpu_simd_bytes() / 4) * 2, best = 0;

	for (size_t i = 0; i < COUNT_OF(x); i++)
		x[i] = 0.5f;
	for (int i = 0; i < 2 * TRIALS; i++)
		best = fmax(best, flops / (double)refs_probe(r, PROBE_FMA, x, 0, FMA_ROUNDS) * 1e9);
	return best;
}

static double
best_rate(const struct refs *r, enum probe which, void *x, size_t n_bytes, int trials)
{
	int64_t n = (int64_t)(n_bytes / (size_t)dev_cpu_simd_bytes()), rounds = 1;
	double best = 0;

	for (int i = 0; i < trials; i++) {
		int64_t took = refs_probe(r, which, x, n, rounds);

		/* First as many rounds as make the clock's own cost vanish. */
		if (took < trial_ns / 4 && rounds < 1 << 20) {
			rounds *= 4;
			i--;
			continue;
		}
		best = fmax(best, (double)n_bytes * (double)rounds / (double)took * 1e9);
	}
	return best;
}

static bool
bandwidth(const struct refs *r, const struct dev_info *info, struct hw *hw, struct err *e)
{
	const struct dev *d = r->dev;
	double l2 = info->fact[DEV_FACT_l2_bytes], l3 = info->fact[DEV_FACT_l3_bytes];
	size_t sizes[4] = {(size_t)info->fact[DEV_FACT_l1_bytes] / 2, (size_t)(l2 / 2),
	    (size_t)fmin(fmax(l3 / 4, 4 * l2), 16 << 20), dram_bytes};
	char *x = d->mem_new(d->self, dram_bytes);

	if (!x)
		return err_set(e, ERR_MEMORY, "no memory to measure the bandwidth of this device");
	memset(x, 0, dram_bytes);
	for (int i = 0; i < 4; i++) {
		int trials = i == 3 ? 3 : TRIALS;
		size_t n = MAX_OF(sizes[i], (size_t)8192) & ~(size_t)4095;

		hw->bytes_per_s[i] =
		    fmax(best_rate(r, PROBE_READ, x, n, trials), best_rate(r, PROBE_COPY, x, n, trials));
	}
	/* A further level is never faster, whatever noise says. */
	for (int i = 2; i >= 0; i--)
		hw->bytes_per_s[i] = fmax(hw->bytes_per_s[i], hw->bytes_per_s[i + 1]);
	d->mem_free(d->self, x, dram_bytes);
	return true;
}

/* Shortest time of a launch of empty passes. */
static double
launch_ns(const struct refs *r, uint32_t n_passes)
{
	const struct dev_kernel *empty = &r->probe[PROBE_NOTHING];
	struct dev_kernel k = {.n_passes = n_passes};
	struct dev_launch l[LAUNCHES];
	void *no_buf[1] = {NULL};
	int64_t best = INT64_MAX;

	for (uint32_t i = 0; i < n_passes; i++) {
		k.pass[i] = empty->pass[0];
		k.range[i] = empty->range[0];
	}
	for (int i = 0; i < LAUNCHES; i++)
		l[i] = (struct dev_launch){&k, no_buf};
	for (int i = 0; i < TRIALS; i++) {
		int64_t from = now_ns();

		r->dev->run(r->dev->self, l, LAUNCHES, NULL);
		best = MIN_OF(best, now_ns() - from);
	}
	return (double)best / LAUNCHES;
}

static void
call_costs(const struct refs *r, struct hw *hw)
{
	double one = launch_ns(r, 1), many = launch_ns(r, PASSES), pass = (many - one) / (PASSES - 1);
	bool is_alone = r->dev->n_threads == 1;

	/* A pass and its barrier cannot be told apart from outside; on one thread there is none. */
	hw->barrier_ns = is_alone ? 0 : fmax(pass, 0);
	hw->call_ns = fmax(is_alone ? fmin(one, fmax(pass, 1)) : one - pass, 1);
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

/* What was seen goes to the device's facts as it is, to the bounds with a margin. */
static void
add_margin(struct hw *h)
{
	h->flops_peak *= margin;
	for (int i = 0; i < 4; i++)
		h->bytes_per_s[i] *= margin;
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
	out->hw.flops_peak = flops_peak(r);
	if (!bandwidth(r, &out->info, &out->hw, e))
		return false;
	call_costs(r, &out->hw);
	for (int i = 0; i < REF_COUNT; i++) {
		out->ref_ns[i] = INT64_MAX;
		for (int k = 0; k < REF_TRIALS; k++)
			out->ref_ns[i] = MIN_OF(out->ref_ns[i], refs_time(r, (enum measure_ref)i));
	}
	note_facts(out);
	add_margin(&out->hw);
	return true;
}
