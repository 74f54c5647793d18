/* daemon/train/rows.c: an export's rows become samples. */
#include "rows.h"

#include "../../kernels/base/epoch.h"
#include "../../kernels/space/sched.h"
#include "../../schema/export_read.h"
#include "../planner/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t
model_of(struct arena *a, struct train_set *set, const struct hash *model, const char *name)
{
	static const struct hash unknown;
	struct hash h = hash_eq(model, &unknown) ? hash_bytes(name, strlen(name)) : *model;

	for (uint32_t i = 0; i < set->n_models; i++)
		if (hash_eq(&set->models[i], &h))
			return i;
	GROW(a, set->models, set->n_models, set->cap_models);
	set->models[set->n_models] = h;
	return set->n_models++;
}

static uint32_t
env_of(struct arena *a, struct train_set *set, const struct m_env *env, uint64_t threads)
{
	for (uint32_t i = 0; i < set->n_envs; i++)
		if (hash_eq(&set->envs[i].key, &env->hash) && set->envs[i].threads == threads)
			return i;
	GROW(a, set->envs, set->n_envs, set->cap_envs);
	set->envs[set->n_envs] = (struct train_env){
	    .key = env->hash,
	    .threads = (uint32_t)threads,
	    .device_class = {str_dup(a, env->class), env->class.n},
	};
	return set->n_envs++;
}

void
train_device(const struct m_env *env, uint64_t threads, struct str precision, struct target *t, struct hw *hw)
{
	enum precision p = PRECISION_F32;
	bool strict = str_eq(precision, STR("f32-strict"));

	(void)precision_read(precision, &p);
	*t = env_target(env, strict, env->hw.sm == 0 && str_eq(precision, STR("f32")), p);
	*hw = env_hw(env, threads, t->winograd);
}

void
train_row_flatten(struct arena *a, struct train_row *row)
{
	for (int h = 0; h < HEADS; h++)
		row->flat[h] = NEW_ARRAY(a, float, SAMPLE_FLAT);
	sample_flat(&row->plain, row->flat[HEAD_KERNEL]);
	sample_flat(&row->sample, row->flat[HEAD_SCHEDULE]);
}
struct source {
	const char *name;
	bool is_own, is_taught;
};

/* Is the kernel a library's or the loop program's? */
static bool
is_readable(const struct m_measurement *m, const struct target *t)
{
	enum library l;
	struct sched s;
	struct err e = {0};
	int64_t version;

	return sched_read(m->row.schedule, &s, &e) &&
	    (t->is_cuda || m->epoch >= TRACED_EPOCH || sched_library(&s, &l, &version) ||
		sched_get(&s, KNOB_trace, 0) > 0);
}

/* False: a row that says nothing of this generator's kernels; counted. */
static bool
take_row(struct arena *a, struct train_set *set, const struct m_env *env, const struct spec *spec,
    const struct m_measurement *m, struct train_row *out)
{
	struct target t;
	struct hw hw;
	struct cost_parts parts;
	struct err e = {0};

	train_device(env, m->threads, m->precision, &t, &hw);
	if (m->row.fail || m->row.median_ns <= 0) {
		set->n_failed++;
		return false;
	}
	out->is_older = m->epoch < ROWS_EPOCH;
	set->n_other_epoch += out->is_older;
	if (out->is_older && !out->is_own)
		return false;
	if (!is_readable(m, &t) ||
	    !sample_make(a, spec, m->row.schedule, &t, &hw, m->heat, &out->sample, &e)) {
		set->n_unread++;
		return false;
	}
	(void)cost_analytic_ns(spec, &hw, m->heat, &parts);
	predict_features(spec, &parts, out->line);
	sample_plain(a, spec, &t, &hw, m->heat, &out->plain);
	train_row_flatten(a, out);
	out->ns = (double)m->row.median_ns;
	out->log_ratio = log(out->ns / out->sample.work_ns);
	out->wall_ns = m->wall_ns;
	out->spec = m->spec;
	out->heat = (struct str){str_dup(a, m->heat), m->heat.n};
	out->schedule = (struct str){str_dup(a, m->row.schedule), m->row.schedule.n};
	return true;
}

static bool
add_spec_rows(struct arena *a, struct train_set *set, const struct source *from, const struct export_rows *x,
    uint32_t spec, const uint32_t *rows, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	struct spec s;
	bool ok = spec_read(&tmp, x->specs[spec].text, &s, e);

	for (uint32_t i = 0; ok && i < n; i++) {
		const struct m_measurement *m = &x->rows[rows[i]];
		const struct m_env *env = &x->envs[x->env_of[rows[i]]];
		struct train_row row = {.is_own = from->is_own, .is_taught = from->is_taught};

		if (m->threads == 0 || m->threads > 65536 || !heat_is_word(m->heat))
			ok = err_set(e, ERR_FORMAT, "a measurement with numbers out of range");
		if (!ok || !take_row(a, set, env, &s, m, &row))
			continue;
		row.model = model_of(a, set, &x->specs[spec].model, from->name);
		row.env = env_of(a, set, env, m->threads);
		GROW(a, set->rows, set->n_rows, set->cap_rows);
		set->rows[set->n_rows++] = row;
	}
	arena_fini(&tmp);
	return ok;
}

static bool
add_rows(struct arena *a, struct train_set *set, const struct source *from, struct bytes file, struct err *e)
{
	struct arena tmp = {0};
	struct export_rows x;
	uint32_t *of, n;
	bool ok = export_read(&tmp, file, &x, e);

	of = ok ? NEW_ARRAY(&tmp, uint32_t, MAX_OF(x.n_rows, 1u)) : NULL;
	for (uint32_t s = 0; ok && s < x.n_specs; s++) {
		n = 0;
		for (uint32_t i = 0; i < x.n_rows; i++)
			if (x.spec_of[i] == s)
				of[n++] = i;
		ok = add_spec_rows(a, set, from, &x, s, of, n, e);
	}
	arena_fini(&tmp);
	return ok || err_in(e, "%s", from->name);
}

bool
train_rows_add(struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e)
{
	return add_rows(a, set, &(struct source){.name = name}, file, e);
}

bool
train_rows_add_own(struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e)
{
	return add_rows(a, set, &(struct source){.name = name, .is_own = true}, file, e);
}

bool
train_rows_teach(struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e)
{
	return add_rows(a, set, &(struct source){.name = name, .is_taught = true}, file, e);
}

float
train_weight(const struct train_row *r)
{
	return r->is_own && !r->is_older ? 4 : 1;
}

static int
by_row(const void *pa, const void *pb)
{
	const struct train_row *a = pa, *b = pb;
	int c = hash_cmp(&a->spec, &b->spec);

	if (c == 0)
		c = (a->env > b->env) - (a->env < b->env);
	if (c == 0)
		c = str_cmp(a->heat, b->heat);
	if (c == 0)
		c = str_cmp(a->schedule, b->schedule);
	if (c == 0)
		c = a->is_older - b->is_older;
	return c ? c : (a->ns > b->ns) - (a->ns < b->ns);
}

bool
train_same_race(const struct train_row *a, const struct train_row *b)
{
	return hash_eq(&a->spec, &b->spec) && a->env == b->env && str_eq(a->heat, b->heat);
}

/* What another generator made is no rival of what is made now. */
static bool
is_better(const struct train_row *a, const struct train_row *b)
{
	return a->is_older != b->is_older ? b->is_older : a->ns < b->ns;
}

void
train_rows_end(struct train_set *set)
{
	uint32_t end;

	if (set->n_rows)
		qsort(set->rows, set->n_rows, sizeof(set->rows[0]), by_row);
	for (uint32_t i = 0; i < set->n_rows; i = end) {
		uint32_t best = i;

		for (end = i; end < set->n_rows && train_same_race(&set->rows[i], &set->rows[end]); end++)
			if (is_better(&set->rows[end], &set->rows[best]))
				best = end;
		set->rows[best].is_best = true;
	}
}

struct train_set
train_set_without(struct arena *a, const struct train_set *set, const bool *is_out)
{
	struct train_set x = *set;

	x.rows = NEW_ARRAY(a, struct train_row, MAX_OF(set->n_rows, 1u));
	x.n_rows = 0;
	for (uint32_t i = 0; i < set->n_rows; i++)
		if (!is_out[i])
			x.rows[x.n_rows++] = set->rows[i];
	return x;
}
