/* client/cache_predict.c: see cache_predict.h.  By the predictor that serves the class: its own, which is in
 * the export, or what came with Korch. */
#include "cache_predict.h"

#include "../daemon/train/reliability.h"
#include "../daemon/train/rows.h"
#include "../kernels/base/epoch.h"
#include "../kernels/base/json.h"
#include "../kernels/generate/generate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { EFFORT = 4096 }; /* all of the space */

static bool
predictor_of(
    struct arena *a, const struct export_rows *x, struct str class, struct predictor *out, struct err *e)
{
	for (uint32_t i = 0; i < x->n_predictors; i++)
		if (str_eq(x->predictors[i].class, class) && x->predictors[i].epoch == SAMPLES_EPOCH)
			return predictor_read(a, x->predictors[i].file, out, e);
	return predictor_read(a, predictor_shipped(), out, e);
}

static bool
same_race(const struct m_measurement *a, const struct m_measurement *b)
{
	return hash_eq(&a->spec, &b->spec) && hash_eq(&a->env_hash, &b->env_hash) &&
	    a->threads == b->threads && str_eq(a->precision, b->precision) && str_eq(a->heat, b->heat);
}

/* The time of that schedule in a row's race; 0: none. */
static int64_t
measured(const struct export_rows *x, const struct m_measurement *of, struct str schedule)
{
	for (uint32_t i = 0; i < x->n_rows; i++)
		if (same_race(&x->rows[i], of) && x->rows[i].epoch == GENERATOR_EPOCH &&
		    !x->rows[i].row.fail && str_eq(x->rows[i].row.schedule, schedule))
			return x->rows[i].row.median_ns;
	return 0;
}

struct line {
	const struct m_measurement *race;
	struct str class, schedule;
	int64_t measured_ns;
	double ns, low_ns, high_ns;
	bool is_far;
};

static void
say(const struct line *l, bool json)
{
	struct arena tmp = {0};
	struct strbuf sb;
	char hex[65];

	hash_hex(&l->race->spec, hex);
	sb_init(&sb, &tmp);
	if (!json) {
		sb_addf(&sb, "  %10.2f us  %10.2f to %.2f", l->ns / 1e3, l->low_ns / 1e3, l->high_ns / 1e3);
		if (l->measured_ns)
			sb_addf(&sb, "  measured %.2f", (double)l->measured_ns / 1e3);
		sb_addf(&sb, "%s  %.*s\n", l->is_far ? "  far" : "",
		    (int)MIN_OF(l->schedule.n ? l->schedule.n : 7, (size_t)160),
		    l->schedule.n ? l->schedule.p : "default");
	} else {
		sb_addf(&sb, "{\"spec\":\"%s\",\"class\":", hex);
		json_text(&sb, l->class);
		sb_addf(&sb, ",\"threads\":%" PRIu64 ",\"heat\":", l->race->threads);
		json_text(&sb, l->race->heat);
		sb_addz(&sb, ",\"schedule\":");
		json_text(&sb, l->schedule);
		sb_addf(&sb,
		    ",\"expected_ns\":%.1f,\"low_ns\":%.1f,\"high_ns\":%.1f,\"is_far\":%s,\"measured_ns\":"
		    "%" PRId64 "}\n",
		    l->ns, l->low_ns, l->high_ns, l->is_far ? "true" : "false", l->measured_ns);
	}
	(void)fputs(sb.p, stdout);
	arena_fini(&tmp);
}

static void
say_head(const struct m_measurement *m, struct str class, const struct prediction *best, bool json)
{
	char hex[65];

	hash_hex(&m->spec, hex);
	if (!json)
		(void)printf("%.12s on %.*s, threads=%" PRIu64
			     "%s%.*s: expected, by its best schedule, %.2f us%s\n"
			     "    expected       with 90 %%, us; measured; schedule\n",
		    hex, STR_ARG(class), m->threads, m->heat.n ? " heat=" : "", STR_ARG(m->heat),
		    best->ns / 1e3,
		    best->is_far ? " (far: unlike what was learned from, or too small; measure it)" : "");
}

static bool
predict_race(struct arena *a, const struct export_rows *x, uint32_t row, bool json, struct err *e)
{
	const struct m_measurement *m = &x->rows[row];
	const struct m_env *env = &x->envs[x->env_of[row]];
	struct target t;
	struct hw hw;
	struct str *list;
	struct predictor p;
	struct prediction best;
	struct sample plain;
	struct spec s;
	uint32_t n;

	if (!spec_read(a, x->specs[x->spec_of[row]].text, &s, e) || !predictor_of(a, x, env->class, &p, e))
		return false;
	train_device(env, m->threads, m->precision, &t, &hw);
	sample_plain(a, &s, &t, &hw, m->heat, &plain);
	predict_kernel(&p, &plain, &best);
	say_head(m, env->class, &best, json);
	space_list(a, &s, &t, EFFORT, text_outcome, &list, &n);
	for (uint32_t i = 0; i < n; i++) {
		struct line l = {.race = m, .class = env->class, .schedule = list[i]};
		struct sample one;
		struct prediction q;
		struct err why = {0};

		if (!sample_make(a, &s, l.schedule, &t, &hw, m->heat, &one, &why))
			continue;
		predict_sample(&p, &one, &q);
		l.ns = q.ns;
		l.is_far = q.is_far;
		l.low_ns = predict_quantile(&p, HEAD_SCHEDULE, &q, 0.05);
		l.high_ns = predict_quantile(&p, HEAD_SCHEDULE, &q, 0.95);
		l.measured_ns = measured(x, m, l.schedule);
		say(&l, json);
	}
	return true;
}

bool
cache_predict(struct arena *a, const struct export_rows *x, const char *hex, bool json, struct err *e)
{
	uint32_t n_told = 0;

	for (uint32_t i = 0; i < x->n_rows; i++) {
		char have[65];
		bool is_first = true;

		hash_hex(&x->rows[i].spec, have);
		if (strncmp(have, hex, strlen(hex)) != 0)
			continue;
		for (uint32_t k = 0; k < i && is_first; k++)
			is_first = !same_race(&x->rows[k], &x->rows[i]);
		if (!is_first)
			continue;
		n_told++;
		if (!predict_race(a, x, i, json, e))
			return false;
	}
	return n_told > 0 || err_set(e, ERR_FAILED, "no measurement of a spec that starts with %s", hex);
}

bool
cache_predict_plot(
    struct arena *a, const struct export_rows *x, struct bytes file, const char *path, struct err *e)
{
	struct train_set set = {0};
	struct predictor *by_env;
	struct reliability_point *points;
	struct strbuf sb;
	uint32_t n = 0;

	if (!train_rows_add(a, &set, "the cache", file, e))
		return false;
	train_rows_end(&set);
	by_env = NEW_ARRAY(a, struct predictor, MAX_OF(set.n_envs, 1u));
	points = NEW_ARRAY(a, struct reliability_point, MAX_OF(set.n_rows, 1u));
	for (uint32_t i = 0; i < set.n_envs; i++)
		if (!predictor_of(a, x, set.envs[i].device_class, &by_env[i], e))
			return false;
	for (uint32_t i = 0; i < set.n_rows; i++) {
		const struct train_row *r = &set.rows[i];
		struct prediction p;

		if (!r->is_best)
			continue;
		predict_kernel(&by_env[r->env], &r->plain, &p);
		points[n++] = (struct reliability_point){p.ns, r->ns, p.is_far};
	}
	if (n == 0)
		return err_set(e, ERR_FAILED, "no kernel of this generator has a time: nothing to draw");
	sb_init(&sb, a);
	reliability_svg(&sb, "Kernels in this cache, by what serves their class", points, n);
	return os_write_file(os_real(), path, (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
}
