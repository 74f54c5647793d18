/* kernels/device/dev_fake.c: a device that computes nothing and takes the time a hash says.
 * The same (spec, schedule, seed) has the same time and the same fault on every host, so that
 * farm, store and solver are tested without a clock. */
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_RATES(X) X(compile) X(wrong) X(crash) X(hang) X(launch)

static bool
read_count(struct str text, uint64_t *out)
{
	int64_t v;

	if (!str_to_i64(text, &v) || v < 0)
		return false;
	*out = (uint64_t)v;
	return true;
}

static bool
set_rate(struct fake_rates *r, struct str key, uint64_t v)
{
	if (v > 1000000)
		return false;
#define X(N)                                                                                                 \
	if (str_is(key, #N)) {                                                                               \
		r->N = (uint32_t)v;                                                                          \
		return true;                                                                                 \
	}
	FAKE_RATES(X)
#undef X
	return false;
}

/* Words stand between blanks or commas, whichever comes first. */
static char
text_sep(struct str text)
{
	const char *blank = memchr(text.p, ' ', text.n), *comma = memchr(text.p, ',', text.n);

	return comma && (!blank || comma < blank) ? ',' : ' ';
}

bool
fake_read(struct str text, uint64_t *seed, struct fake_rates *r, struct err *e)
{
	*seed = 0;
	*r = (struct fake_rates){0};
	while (text.n) {
		struct str word = str_cut(&text, text_sep(text)), value = word, key;
		uint64_t v;

		if (!word.n)
			continue;
		key = str_cut(&value, '=');
		if (!read_count(value, &v) || (!str_is(key, "seed") && !set_rate(r, key, v)))
			return err_set(e, ERR_USAGE,
			    "fake device: \"%.*s\" is none of seed=N, compile=N, wrong=N, crash=N, hang=N, "
			    "launch=N (faults per million)",
			    STR_ARG(word));
		if (str_is(key, "seed"))
			*seed = v;
	}
	return true;
}

/* The class of fault whose share of a million `draw` falls into. */
static enum err_code
fault_of(const struct fake_rates *r, uint32_t draw)
{
	const struct {
		uint32_t rate;
		enum err_code code;
	} rows[] = {{r->compile, ERR_COMPILE}, {r->wrong, ERR_WRONG}, {r->crash, ERR_CRASH},
	    {r->hang, ERR_TIMEOUT}, {r->launch, ERR_LAUNCH}};
	uint32_t edge = 0;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		edge += rows[i].rate;
		if (draw < edge)
			return rows[i].code;
	}
	return ERR_NONE;
}

struct fake_time
fake_measure(
    struct str spec, struct str schedule, int64_t bound_ns, uint64_t seed, const struct fake_rates *r)
{
	uint64_t by_spec = hash64(spec.p, spec.n, mix64(seed));
	struct rng rng = {hash64(schedule.p, schedule.n, by_spec)};
	struct fake_time t = {.status = fault_of(r, rng_below(&rng, 1000000))};
	/* How far from its bound a spec stays at best, and how far this schedule is from that. */
	double best = 1 + (double)(mix64(by_spec) % 1000) / 250, this = 1 + 3 * rng_unit(&rng);
	double ns = (double)MAX_OF(bound_ns, (int64_t)1) * best * this;

	if (t.status != ERR_NONE)
		return t;
	t.ns = ns < 9e18 ? (int64_t)ns + 1 : INT64_MAX;
	t.spread_ns = t.ns / 1000;
	return t;
}

struct dev_module {
	int unused;
};

static bool
fake_describe(void *self, struct dev_info *out, struct err *e)
{
	(void)self;
	(void)e;
	*out = (struct dev_info){
	    .device_class = "fake", .run_compat = "fake", .features = "fake", .environment = "cpu=fake\n"};
	out->fact[DEV_FACT_cores] = 1;
	out->fact[DEV_FACT_simd_bytes] = 32;
	return true;
}

static bool
fake_load(void *self, struct bytes code, struct dev_module **out, struct err *e)
{
	(void)self;
	(void)code;
	(void)e;
	*out = heap_alloc(sizeof(**out));
	return true;
}

static void
fake_unload(void *self, struct dev_module *m)
{
	(void)self;
	free(m);
}

static bool
fake_find(void *self, struct dev_module *m, const char *symbol, struct dev_kernel *k, struct err *e)
{
	(void)self;
	(void)m;
	if (!*symbol || k->n_passes > DEV_MAX_PASSES)
		return err_set(e, ERR_FORMAT, "kernel \"%s\" with %u passes", symbol, k->n_passes);
	return true;
}

static void *
fake_mem_new(void *self, size_t n_bytes)
{
	(void)self;
	return calloc(1, MAX_OF(n_bytes, (size_t)1));
}

static void
fake_mem_free(void *self, void *p, size_t n_bytes)
{
	(void)self;
	(void)n_bytes;
	free(p);
}

static void
fake_copy(void *self, void *to, const void *from, size_t n_bytes)
{
	(void)self;
	if (n_bytes)
		memcpy(to, from, n_bytes);
}

static bool
fake_reserve(void *self, size_t shared_bytes, size_t local_bytes, struct err *e)
{
	(void)self;
	(void)shared_bytes;
	(void)local_bytes;
	(void)e;
	return true;
}

static void
fake_run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	(void)self;
	(void)l;
	for (uint32_t i = 0; ns && i <= n; i++)
		ns[i] = i;
}

static void
fake_close(void *self)
{
	(void)self;
}

void
dev_fake_open(uint32_t n_threads, struct dev *out)
{
	*out = (struct dev){
	    .name = "fake",
	    .n_threads = n_threads,
	    .describe = fake_describe,
	    .load = fake_load,
	    .unload = fake_unload,
	    .find = fake_find,
	    .mem_new = fake_mem_new,
	    .mem_free = fake_mem_free,
	    .put = fake_copy,
	    .get = fake_copy,
	    .reserve = fake_reserve,
	    .run = fake_run,
	    .close = fake_close,
	};
}
