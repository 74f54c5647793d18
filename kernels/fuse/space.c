/* kernels/fuse/space.c: schedules as text and as numbers, and which ones are worth a try. */
#include "tile.h"

static const struct knob_info {
	const char *name;
	int64_t least, most;
	const char *tried;
	const char *meaning;
} knobs[KNOB_COUNT] = {
#define KNOB(N, LEAST, MOST, TRIED, MEANING) [KNOB_##N] = {#N, LEAST, MOST, TRIED, MEANING},
#include "space.def"
#undef KNOB
};

static int
knob_of_name(struct str s)
{
	for (int k = 0; k < KNOB_COUNT; k++)
		if (str_is(s, knobs[k].name))
			return k;
	return -1;
}

bool
sched_read(struct str text, struct sched *out, struct err *e)
{
	int before = -1;

	for (int k = 0; k < KNOB_COUNT; k++)
		out->v[k] = INT64_MIN;
	text = str_trim(text);
	while (text.n) {
		struct str item = str_cut(&text, ' '), name = item;
		struct str value;

		if (item.n == 0)
			continue;
		value = item;
		name = str_cut(&value, '=');
		int k = knob_of_name(name);

		if (k < 0)
			return err_set(e, ERR_INFEASIBLE, "schedule: there is no knob '%.*s'", STR_ARG(name));
		if (k <= before)
			return err_set(e, ERR_INFEASIBLE, "schedule: knob '%s' is out of order", knobs[k].name);
		if (!str_to_i64(value, &out->v[k]) || out->v[k] < knobs[k].least || out->v[k] > knobs[k].most)
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
		sb_addf(sb, "%s%s=%lld", gap, knobs[k].name, (long long)s->v[k]);
		gap = " ";
	}
}

int64_t
sched_get(const struct sched *s, enum knob k, int64_t otherwise)
{
	return s->v[k] == INT64_MIN ? otherwise : s->v[k];
}

void
space_list(struct arena *a, const struct spec *s, const struct target *t, uint32_t effort,
    struct str **schedules, uint32_t *n)
{
	(void)s;
	(void)t;
	*schedules = NEW_ARRAY(a, struct str, 1);
	*n = MIN_OF(effort, 1u);
	if (*n)
		(*schedules)[0] = STR("");
}
