/* proto/range.c: see range.h. */
#include "range.h"
#include "meas.h"

#include <math.h>
#include <string.h>

/* Wider than anything honest: eleven days, a sample a nanosecond for a second. */
static const int64_t most_ns = (int64_t)1000000 * 1000000000;
static const uint64_t most_samples = 1000000000, most_bytes = (uint64_t)1 << 40;
static const double most_ratio = 1e6;

/* Each is at least the one before it; *bad: the first that is not. */
static bool
in_order(const int64_t *v, size_t n, size_t *bad)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] < (i ? v[i - 1] : 1) || v[i] > most_ns) {
			*bad = i;
			return false;
		}
	return true;
}

/* No column of a failed row holds what only a time would leave there. */
static bool
failed_check(const struct m_row *r, struct err *e)
{
	enum err_code code = err_of_wire(r->fail);

	if ((uint64_t)err_wire(code) != r->fail)
		return err_set(e, ERR_PROTO, "failure number %llu is none", (unsigned long long)r->fail);
	for (size_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		double v = c->check == CHECK_TIMED ? meas_number(c, FORM_ROW, r) : 0;

		if (v < 0 || v > 0)
			return err_set(e, ERR_PROTO, "it failed (%s), and has times: %s is %g",
			    err_name(code), c->name, v);
	}
	return true;
}

static bool
timed_check(const struct m_row *r, struct err *e)
{
	static const char *const name[] = {"least", "p10", "median", "p90"};
	const int64_t v[] = {r->min_ns, r->p10_ns, r->median_ns, r->p90_ns};
	size_t bad;

	return in_order(v, COUNT_OF(v), &bad) ||
	    err_set(e, ERR_PROTO,
		"%s is %lld ns: least <= p10 <= median <= p90 does not hold, or it is out of range",
		name[bad], (long long)v[bad]);
}

/* Each number within its range of meas.def; NaN is in none. */
static bool
columns_check(const struct m_row *r, struct err *e)
{
	for (size_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		double v;

		if (c->check == CHECK_FREE || (r->fail && c->check != CHECK_ALWAYS))
			continue;
		v = meas_number(c, FORM_ROW, r);
		if (!(v >= c->least && v <= c->most))
			return err_set(e, ERR_PROTO, "its %s is %g, which should be %g to %g", c->name, v,
			    c->least, c->most);
	}
	return true;
}

bool
row_check(const struct m_row *r, struct err *e)
{
	bool ok = (r->fail ? failed_check(r, e) : timed_check(r, e)) && columns_check(r, e);

	return ok || err_in(e, "schedule '%.*s'", (int)MIN_OF(r->schedule.n, (size_t)100), r->schedule.p);
}

bool
sip_split(struct str schedule, struct str *base, struct str *moves)
{
	static const char word[] = "sip=";
	size_t n = sizeof(word) - 1, at = schedule.n;

	while (at > 0 && schedule.p[at - 1] != ' ')
		at--;
	*base = schedule;
	*moves = STR("");
	if (schedule.n - at <= n || memcmp(schedule.p + at, word, n) != 0)
		return false;
	*moves = (struct str){schedule.p + at + n, schedule.n - at - n};
	*base = (struct str){schedule.p, at ? at - 1 : 0};
	return true;
}

/* Moves are printable and hold no blank. */
static bool
is_moved(struct str schedule, struct str base)
{
	struct str of, moves;

	if (!sip_split(schedule, &of, &moves) || !str_eq(of, base))
		return false;
	for (size_t i = 0; i < moves.n; i++)
		if (moves.p[i] <= ' ' || moves.p[i] > '~')
			return false;
	return true;
}

bool
perturbed_check(const struct m_perturbed *p, struct err *e)
{
	struct str base, moves;

	if (sip_split(p->base, &base, &moves))
		return err_set(e, ERR_PROTO, "a perturbed kernel whose base has moves itself");
	if (p->compared > most_bytes || p->pairs > most_samples || p->tried > most_samples ||
	    p->failed > p->tried || p->n_moves > most_samples || p->asked_ns < 0)
		return err_set(e, ERR_PROTO, "a perturbed kernel with counts out of range");
	if (!(p->expected >= 0 && p->expected <= most_ratio))
		return err_set(e, ERR_PROTO, "a perturbed kernel that is expected to take %g", p->expected);
	if (p->schedule.n == 0)
		return true;
	if (!is_moved(p->schedule, p->base))
		return err_set(e, ERR_PROTO, "moves of another kernel than the one that was asked for");
	if (!(p->low > 0 && p->low <= p->ratio && p->ratio <= p->high && p->high < 1))
		return err_set(e, ERR_PROTO,
		    "a gain to %g of the base's time, between %g and %g: that is none", p->ratio, p->low,
		    p->high);
	return (p->pairs > 0 && p->compared > 0) ||
	    err_set(e, ERR_PROTO, "a gain without a pair that was timed, or a result that was compared");
}

bool
timing_check(const struct m_timing *t, struct err *e)
{
	const int64_t v[] = {t->min_ns, t->median_ns};
	size_t bad;

	if (!in_order(v, COUNT_OF(v), &bad) || t->spread_ns < 0 || t->spread_ns > most_ns)
		return err_set(e, ERR_PROTO,
		    "a plan of %lld ns, %lld at least, spread %lld: that is no timing",
		    (long long)t->median_ns, (long long)t->min_ns, (long long)t->spread_ns);
	if (!(t->clock_ratio >= 0 && t->clock_ratio <= most_ratio))
		return err_set(e, ERR_PROTO, "a plan timed at %g of calibration's clock", t->clock_ratio);
	return (t->samples >= 1 && t->samples <= most_samples) ||
	    err_set(e, ERR_PROTO, "a plan timed by %llu samples", (unsigned long long)t->samples);
}
