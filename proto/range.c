/* proto/range.c: see range.h. */
#include "range.h"

#include <math.h>

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

static bool
failed_check(const struct m_row *r, struct err *e)
{
	enum err_code code = err_of_wire(r->fail);

	if ((uint64_t)err_wire(code) != r->fail)
		return err_set(e, ERR_PROTO, "failure number %llu is none", (unsigned long long)r->fail);
	return (r->median_ns == 0 && r->p10_ns == 0 && r->p90_ns == 0 && r->min_ns == 0 && r->samples == 0) ||
	    err_set(e, ERR_PROTO, "it failed (%s), and has times", err_name(code));
}

static bool
timed_check(const struct m_row *r, struct err *e)
{
	static const char *const name[] = {"least", "p10", "median", "p90"};
	const int64_t v[] = {r->min_ns, r->p10_ns, r->median_ns, r->p90_ns};
	size_t bad;

	if (!in_order(v, COUNT_OF(v), &bad))
		return err_set(e, ERR_PROTO,
		    "%s is %lld ns: least <= p10 <= median <= p90 does not hold, or it is out of range",
		    name[bad], (long long)v[bad]);
	if (r->samples < 1 || r->samples > most_samples)
		return err_set(e, ERR_PROTO, "%llu samples; at most %llu are", (unsigned long long)r->samples,
		    (unsigned long long)most_samples);
	if (!(r->error >= 0 && isfinite(r->error)))
		return err_set(
		    e, ERR_PROTO, "its error is %g; a kernel that is right has a finite one", r->error);
	return (r->clock_ratio >= 0 && r->clock_ratio <= most_ratio) ||
	    err_set(e, ERR_PROTO, "its clock ratio is %g", r->clock_ratio);
}

bool
row_check(const struct m_row *r, struct err *e)
{
	bool ok = r->fail ? failed_check(r, e) : timed_check(r, e);

	if (ok && (r->code_bytes > most_bytes || r->compile_ns < 0 || r->compile_ns > most_ns))
		ok = err_set(e, ERR_PROTO, "%llu bytes compiled in %lld ns",
		    (unsigned long long)r->code_bytes, (long long)r->compile_ns);
	return ok || err_in(e, "schedule '%.*s'", (int)MIN_OF(r->schedule.n, (size_t)100), r->schedule.p);
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
	return (t->samples >= 1 && t->samples <= most_samples) ||
	    err_set(e, ERR_PROTO, "a plan timed by %llu samples", (unsigned long long)t->samples);
}
