/* kernels/run/cpu_info.c: what this CPU says about itself: the words of run compatibility, the
 * lines of the measuring environment, the numbers of its vector.  Host name, temperature and
 * load are no part of it: they say nothing about how fast the same code runs tomorrow. */
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *
dev_fact_name(enum dev_fact f)
{
	static const char *const names[DEV_FACT_COUNT] = {
#define X(N) #N,
	    DEV_FACTS(X)
#undef X
	};

	if (f < 0 || f >= DEV_FACT_COUNT)
		bug("no device fact %d", (int)f);
	return names[f];
}

static bool
has_word(struct str words, struct str word)
{
	while (words.n)
		if (str_eq(str_cut(&words, ' '), word))
			return true;
	return false;
}

bool
dev_compatible(struct str need, const struct dev_info *have, struct err *e)
{
	struct str rest = need;

	if (!str_trim(need).n)
		return err_set(e, ERR_DEVICE, "it does not say which device it is for; make it again");
	while (rest.n) {
		struct str word = str_cut(&rest, ' ');

		if (word.n && !has_word(str_of(have->features), word))
			return err_set(e, ERR_DEVICE,
			    "it is for a device with \"%.*s\", and this one (\"%s\") has no %.*s; "
			    "rebuild it here (korch-plan rebuild) or tune again",
			    STR_ARG(need), have->features, STR_ARG(word));
	}
	return true;
}

/* ---- instruction sets ---------------------------------------------------------------- */
#if defined(__x86_64__)
struct isa {
	const char *word;
	bool has;
};

static size_t
isa_list(struct isa out[16])
{
	size_t n = 0;

	__builtin_cpu_init();
	out[n++] = (struct isa){"sse4.2", __builtin_cpu_supports("sse4.2")};
	out[n++] = (struct isa){"avx", __builtin_cpu_supports("avx")};
	out[n++] = (struct isa){"avx2", __builtin_cpu_supports("avx2")};
	out[n++] = (struct isa){"fma", __builtin_cpu_supports("fma")};
	out[n++] = (struct isa){"bmi2", __builtin_cpu_supports("bmi2")};
	out[n++] = (struct isa){"avx512f", __builtin_cpu_supports("avx512f")};
	out[n++] = (struct isa){"avx512vl", __builtin_cpu_supports("avx512vl")};
	out[n++] = (struct isa){"avx512bw", __builtin_cpu_supports("avx512bw")};
	out[n++] = (struct isa){"avx512dq", __builtin_cpu_supports("avx512dq")};
	return n;
}

static const char arch[] = "x86_64";

int
dev_cpu_simd_bytes(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32 : 16;
}

static const char *
code_needs(void)
{
	return dev_cpu_simd_bytes() == 32 ? "x86_64 avx2 fma elf-1" : "x86_64 sse4.2 elf-1";
}
#elif defined(__aarch64__)
struct isa {
	const char *word;
	bool has;
};

static size_t
isa_list(struct isa out[16])
{
	out[0] = (struct isa){"neon", true};
	return 1;
}

static const char arch[] = "aarch64";

int
dev_cpu_simd_bytes(void)
{
	return 16;
}

static const char *
code_needs(void)
{
	return "aarch64 neon elf-1";
}
#else
#error "kernels/run/cpu_info.c: tell it the words of this architecture"
#endif

static void
describe_isa(struct dev_info *out)
{
	struct isa isa[16];
	size_t n_isa = isa_list(isa), n = 0;

	n += (size_t)snprintf(out->features, sizeof(out->features), "%s", arch);
	for (size_t i = 0; i < n_isa; i++)
		if (isa[i].has)
			n += (size_t)snprintf(out->features + n, sizeof(out->features) - n, " %s", isa[i].word);
	(void)snprintf(out->features + n, sizeof(out->features) - n, " elf-1");
	(void)snprintf(out->run_compat, sizeof(out->run_compat), "%s", code_needs());
	(void)snprintf(out->device_class, sizeof(out->device_class), "cpu");
}

/* ---- what the system tells ----------------------------------------------------------- */
/* First line of a small file, "" where it cannot be read. */
static void
read_line(const char *path, char *out, size_t cap)
{
	FILE *f = fopen(path, "re");

	out[0] = 0;
	if (!f)
		return;
	if (!fgets(out, (int)cap, f))
		out[0] = 0;
	out[strcspn(out, "\n")] = 0;
	(void)fclose(f);
}

/* The value behind "key  : value" in /proc/cpuinfo's first block. */
static void
cpuinfo_value(const char *key, char *out, size_t cap)
{
	char line[1024];
	FILE *f = fopen("/proc/cpuinfo", "re");

	(void)snprintf(out, cap, "unknown");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		struct str rest = str_of(line), have = str_trim(str_cut(&rest, ':'));

		if (!str_is(have, key))
			continue;
		(void)snprintf(out, cap, "%.*s", STR_ARG(str_trim(rest)));
		break;
	}
	(void)fclose(f);
}

/* Of the machine: how many of them a process may use says nothing about their speed. */
static int
count_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	return n > 0 && n < 1 << 20 ? (int)n : 1;
}

/* "0-1" or "0,4" names two threads of one core; "0" names one. */
static int
threads_per_core(void)
{
	char list[256];
	struct str rest;
	int n = 0;

	read_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", list, sizeof(list));
	for (rest = str_of(list); rest.n; n++) {
		struct str part = str_cut(&rest, ','), to = part;
		int64_t lo, hi;

		(void)str_cut(&to, '-');
		if (to.n && str_to_i64(str_cut(&part, '-'), &lo) && str_to_i64(to, &hi) && hi > lo && hi - lo < 64)
			n += (int)(hi - lo);
	}
	return MAX_OF(n, 1);
}

static double
max_mhz(void)
{
	char text[64];
	double v;

	read_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", text, sizeof(text));
	return str_to_f64(str_trim(str_of(text)), &v) ? v / 1000 : 0;
}

static double
positive(long v)
{
	return v > 0 ? (double)v : 0;
}

static void
describe_facts(struct dev_info *out)
{
	out->fact[DEV_FACT_cores] = count_cores();
	out->fact[DEV_FACT_threads_per_core] = threads_per_core();
	out->fact[DEV_FACT_max_mhz] = max_mhz();
	out->fact[DEV_FACT_simd_bytes] = dev_cpu_simd_bytes();
	out->fact[DEV_FACT_l1_bytes] = positive(sysconf(_SC_LEVEL1_DCACHE_SIZE));
	out->fact[DEV_FACT_l2_bytes] = positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
	out->fact[DEV_FACT_l3_bytes] = positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
	out->fact[DEV_FACT_memory_bytes] = positive(sysconf(_SC_PHYS_PAGES)) * positive(sysconf(_SC_PAGESIZE));
}

static void
describe_environment(struct dev_info *out)
{
	char cpu[256], governor[64], microcode[64], turbo[16], smt[16];

	cpuinfo_value("model name", cpu, sizeof(cpu));
	cpuinfo_value("microcode", microcode, sizeof(microcode));
	read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof(governor));
	read_line("/sys/devices/system/cpu/cpufreq/boost", turbo, sizeof(turbo));
	read_line("/sys/devices/system/cpu/smt/active", smt, sizeof(smt));
	(void)snprintf(out->environment, sizeof(out->environment),
	    "boost=%s\ncores=%d\ncpu=%s\ngovernor=%s\nisa=%s\nmicrocode=%s\nsmt=%s\n",
	    *turbo ? turbo : "unknown", (int)out->fact[DEV_FACT_cores], cpu, *governor ? governor : "unknown",
	    out->features, microcode, *smt ? smt : "unknown");
}

bool
dev_cpu_describe(struct dev_info *out, struct err *e)
{
	*out = (struct dev_info){0};
	describe_isa(out);
	if (!has_word(str_of(out->features), STR("sse4.2")) && !has_word(str_of(out->features), STR("neon")))
		return err_set(e, ERR_HOST, "this CPU (\"%s\") is older than what generated code needs", out->features);
	describe_facts(out);
	describe_environment(out);
	return true;
}
