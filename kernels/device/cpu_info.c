/* kernels/device/cpu_info.c: what this CPU says about itself: the words of run compatibility, the
 * lines of the measuring environment, the numbers of its vector.  Host name, temperature and
 * load are no part of it: they say nothing about how fast the same code runs tomorrow. */
#include "dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
struct feature {
	const char *word;
	bool has;
};

#if defined(__x86_64__)
static size_t
feature_list(struct feature out[16])
{
	size_t n = 0;

	__builtin_cpu_init();
	out[n++] = (struct feature){"sse4.2", __builtin_cpu_supports("sse4.2")};
	out[n++] = (struct feature){"avx", __builtin_cpu_supports("avx")};
	out[n++] = (struct feature){"avx2", __builtin_cpu_supports("avx2")};
	out[n++] = (struct feature){"fma", __builtin_cpu_supports("fma")};
	out[n++] = (struct feature){"bmi2", __builtin_cpu_supports("bmi2")};
	out[n++] = (struct feature){"avx512f", __builtin_cpu_supports("avx512f")};
	out[n++] = (struct feature){"avx512vl", __builtin_cpu_supports("avx512vl")};
	out[n++] = (struct feature){"avx512bw", __builtin_cpu_supports("avx512bw")};
	out[n++] = (struct feature){"avx512dq", __builtin_cpu_supports("avx512dq")};
	return n;
}

static const char arch[] = "x86_64";
#elif defined(__aarch64__)
static size_t
feature_list(struct feature out[16])
{
	out[0] = (struct feature){"neon", true};
	return 1;
}

static const char arch[] = "aarch64";
#else
#error "kernels/device/cpu_info.c: tell it the words of this architecture"
#endif

/* The widest set that KORCH_ISA lets this CPU be taken for; ISA_COUNT: any. */
static bool
isa_limit(enum isa *out, struct err *e)
{
	const char *name = getenv("KORCH_ISA");
	char names[64] = "";
	size_t n = 0;

	*out = ISA_COUNT;
	if (!name || !*name)
		return true;
	for (int i = 0; i < ISA_COUNT; i++) {
		if (!has_word(str_of(isa_info[i].needs), str_of(arch)))
			continue;
		if (strcmp(name, isa_info[i].name) == 0) {
			*out = (enum isa)i;
			return true;
		}
		n += (size_t)snprintf(names + n, sizeof(names) - n, " %s", isa_info[i].name);
	}
	return err_set(e, ERR_USAGE, "KORCH_ISA is '%s'; give one of:%s", name, names);
}

/* Words that only wider sets need are not; those that no set needs are, so that a host held to a set looks as
 * one that has no wider one. */
static bool
is_within(const char *word, enum isa limit)
{
	bool is_needed = false;

	for (int i = 0; i < ISA_COUNT; i++) {
		bool needs = has_word(str_of(isa_info[i].needs), str_of(word));

		if (needs && i <= (int)limit)
			return true;
		is_needed |= needs;
	}
	return !is_needed;
}

/* "x86_64 sse4.2 avx ... elf-1" */
static void
list_features(enum isa limit, char *out, size_t cap)
{
	struct feature feature[16];
	size_t n_features = feature_list(feature), n;

	n = (size_t)snprintf(out, cap, "%s", arch);
	for (size_t i = 0; i < n_features; i++)
		if (feature[i].has && is_within(feature[i].word, limit))
			n += (size_t)snprintf(out + n, cap - n, " %s", feature[i].word);
	(void)snprintf(out + n, cap - n, " elf-1");
}

bool
dev_cpu_isa(enum isa *out, struct err *e)
{
	char words[sizeof(((struct dev_info *)0)->features)];
	enum isa limit;

	if (!isa_limit(&limit, e))
		return false;
	list_features(limit, words, sizeof(words));
	if (!isa_of_features(str_of(words), out))
		return err_set(
		    e, ERR_HOST, "this CPU (\"%s\") is older than what generated code needs", words);
	return true;
}

bool
dev_cpu_is_held(enum isa *to)
{
	struct err none = {0};

	return isa_limit(to, &none) && *to != ISA_COUNT;
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
		if (to.n && str_to_i64(str_cut(&part, '-'), &lo) && str_to_i64(to, &hi) && hi > lo &&
		    hi - lo < 64)
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

enum { MOST_CACHES = 16 };

/* "32768K" */
static double
bytes_of(struct str text)
{
	static const char units[] = "KMG";
	const char *unit = text.n ? strchr(units, text.p[text.n - 1]) : NULL;
	int64_t n, scale = 1;

	if (unit)
		text.n--;
	for (const char *u = units; unit && u <= unit; u++)
		scale *= 1024;
	return str_to_i64(text, &n) && n > 0 && n < (int64_t)1 << 20 ? (double)(n * scale) : 0;
}

double
dev_cpu_cache_bytes(const char *folder, int level)
{
	char path[OS_PATH_MAX], text[64];
	int64_t is;

	for (int i = 0; i < MOST_CACHES; i++) {
		(void)snprintf(path, sizeof(path), "%s/index%d/level", folder, i);
		read_line(path, text, sizeof(text));
		if (!str_to_i64(str_of(text), &is) || is != level)
			continue;
		(void)snprintf(path, sizeof(path), "%s/index%d/type", folder, i);
		read_line(path, text, sizeof(text));
		if (strcmp(text, "Instruction") == 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/index%d/size", folder, i);
		read_line(path, text, sizeof(text));
		return bytes_of(str_of(text));
	}
	return 0;
}

/* Where the kernel does not say, what the C library makes of it: on some CPUs the last one's is that of all
 * of a socket's, of which a core reaches one. */
static double
cache_bytes(int level, int name)
{
	const double bytes = dev_cpu_cache_bytes("/sys/devices/system/cpu/cpu0/cache", level);

	return bytes > 0 ? bytes : positive(sysconf(name));
}

static void
describe_facts(struct dev_info *out)
{
	out->fact[DEV_FACT_cores] = count_cores();
	out->fact[DEV_FACT_threads_per_core] = threads_per_core();
	out->fact[DEV_FACT_max_mhz] = max_mhz();
	out->fact[DEV_FACT_l1_bytes] = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE);
	out->fact[DEV_FACT_l2_bytes] = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE);
	out->fact[DEV_FACT_l3_bytes] = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE);
	out->fact[DEV_FACT_memory_bytes] =
	    positive(sysconf(_SC_PHYS_PAGES)) * positive(sysconf(_SC_PAGESIZE));
}

/* What the CPU calls itself; with the numbers of its family and model where a hypervisor calls all of a
 * maker's alike ("AMD EPYC 25.17"), and those of maker and part alone where CPUs have no names. */
static void
cpu_model(char *out, size_t cap)
{
	char name[128], maker[64], part[64];
	bool is_named;

	cpuinfo_value("model name", name, sizeof(name));
	is_named = strcmp(name, "unknown") != 0;
	(void)snprintf(out, cap, "%s", name);
	if (is_named && class_has_model(str_of(name)))
		return;
	cpuinfo_value(is_named ? "cpu family" : "CPU implementer", maker, sizeof(maker));
	cpuinfo_value(is_named ? "model" : "CPU part", part, sizeof(part));
	if (strcmp(part, "unknown") != 0)
		(void)snprintf(out, cap, "%s%s%s%s%s", is_named ? name : "", is_named ? " " : "", maker,
		    is_named ? "." : " ", part);
}

static void
describe_environment(struct dev_info *out)
{
	char cpu[256], governor[64], microcode[64], turbo[16], smt[16];

	cpu_model(cpu, sizeof(cpu));
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
	enum isa isa, limit;

	*out = (struct dev_info){0};
	if (!isa_limit(&limit, e) || !dev_cpu_isa(&isa, e))
		return false;
	list_features(limit, out->features, sizeof(out->features));
	(void)snprintf(out->run_compat, sizeof(out->run_compat), "%s", isa_info[isa].needs);
	describe_facts(out);
	out->fact[DEV_FACT_simd_bytes] = isa_info[isa].simd_bytes;
	describe_environment(out);
	dev_class_of(str_of(out->run_compat), str_of(out->environment), out->device_class);
	return true;
}
