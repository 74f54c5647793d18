/* kernels/space/sched.c: schedules as text and as numbers. */
#include "sched.h"

static const struct knob_info {
	const char *name;
	int64_t least, most;
	const char *tried;
	const char *meaning;
} knobs[KNOB_COUNT] = {
#define KNOB(N, LEAST, MOST, TRIED, MEANING) [KNOB_##N] = {#N, LEAST, MOST, TRIED, MEANING},
#include "knob.def"
#undef KNOB
};

const char *
knob_name(int k)
{
	return knobs[k].name;
}

static int
knob_of_name(struct str s)
{
	for (int k = 0; k < KNOB_COUNT; k++)
		if (str_is(s, knobs[k].name))
			return k;
	return -1;
}

/* The knob `lib` has names for its numbers: library and version. */
enum { LIB_STEP = 100000000 };

static bool
knob_value(int k, struct str text, int64_t *v)
{
	enum library l;
	int64_t version;

	if (k != KNOB_lib)
		return str_to_i64(text, v);
	if (!library_read(text, &l, &version))
		return false;
	*v = (int64_t)l * LIB_STEP + version;
	return true;
}

bool
sched_read(struct str text, struct sched *out, struct err *e)
{
	int before = -1;

	for (int k = 0; k < KNOB_COUNT; k++)
		out->v[k] = INT64_MIN;
	text = str_trim(text);
	while (text.n) {
		struct str item = str_cut(&text, ' '), name, value;

		if (item.n == 0)
			continue;
		value = item;
		name = str_cut(&value, '=');
		int k = knob_of_name(name);

		if (k < 0)
			return err_set(e, ERR_INFEASIBLE, "schedule: there is no knob '%.*s'", STR_ARG(name));
		if (k == before)
			return err_set(e, ERR_INFEASIBLE, "schedule: knob '%s' stands twice", knobs[k].name);
		if (k < before)
			return err_set(e, ERR_INFEASIBLE,
			    "schedule: knob '%s' belongs before '%s': their order is fixed, so that a "
			    "schedule has one text",
			    knobs[k].name, knobs[before].name);
		if (!knob_value(k, value, &out->v[k]) && k == KNOB_lib)
			return err_set(e, ERR_INFEASIBLE,
			    "schedule: '%.*s' is no library and version, as onednn-2.6.3 is", STR_ARG(value));
		if (out->v[k] == INT64_MIN || out->v[k] < knobs[k].least || out->v[k] > knobs[k].most)
			return err_set(e, ERR_INFEASIBLE, "schedule: knob '%s' goes from %lld to %lld",
			    knobs[k].name, (long long)knobs[k].least, (long long)knobs[k].most);
		before = k;
	}
	return true;
}

void
sched_print(struct strbuf *sb, const struct sched *s)
{
	const char *gap = "";

	for (int k = 0; k < KNOB_COUNT; k++) {
		if (s->v[k] == INT64_MIN)
			continue;
		sb_addf(sb, "%s%s=", gap, knobs[k].name);
		if (k == KNOB_lib)
			library_print(sb, (enum library)(s->v[k] / LIB_STEP), s->v[k] % LIB_STEP);
		else
			sb_addi(sb, s->v[k]);
		gap = " ";
	}
}

int64_t
sched_get(const struct sched *s, enum knob k, int64_t otherwise)
{
	return s->v[k] == INT64_MIN ? otherwise : s->v[k];
}

bool
sched_library(const struct sched *s, enum library *l, int64_t *version)
{
	int64_t v = sched_get(s, KNOB_lib, 0);

	*l = (enum library)(v / LIB_STEP);
	*version = v % LIB_STEP;
	return v > 0;
}
