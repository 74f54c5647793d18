/* proto/hw.c: is a hardware vector that of a machine?  Planners divide by its numbers and turn them into
 * counts, so it is looked at wherever one comes in: at hello, with an import, when a planner starts. */
#include "hw.h"

#include <math.h>

enum kind {
	REAL,
	WHOLE,
	VECTOR, /* a whole number, a power of two */
};
static const struct row {
	const char *field;
	enum kind kind;
	double least, most;
	const char *with;
} rows[] = {
#define HW(KIND, FIELD, LEAST, MOST, WITH) {#FIELD, KIND, (double)(LEAST), (double)(MOST), #WITH},
#include "hw.def"
};
enum { ROWS = COUNT_OF(rows) };

static void
values_of(const struct m_hw *hw, double v[ROWS])
{
	size_t n = 0;

#define HW(KIND, FIELD, LEAST, MOST, WITH) v[n++] = (double)hw->FIELD;
#include "hw.def"
}

static bool
is_known(const double v[ROWS], const char *field)
{
	for (size_t i = 0; i < ROWS; i++)
		if (str_is(str_of(field), rows[i].field))
			return v[i] < 0 || v[i] > 0;
	return false;
}

static bool
check_one(const struct row *r, double v, bool is_needed, struct err *e)
{
	bool is_zero = !(v < 0 || v > 0) && !isnan(v);

	if (is_zero && is_needed)
		return err_set(
		    e, ERR_PROTO, "hw.%s is missing, and hw.%s is there; calibrate again", r->field, r->with);
	if (is_zero)
		return true;
	if (!(v >= r->least && v <= r->most))
		return err_set(e, ERR_PROTO, "hw.%s is %g; it is %g to %g; calibrate again", r->field, v,
		    r->least, r->most);
	if (r->kind == VECTOR && ((int64_t)v & ((int64_t)v - 1)) != 0)
		return err_set(e, ERR_PROTO, "hw.%s is %g; it is a power of two", r->field, v);
	return true;
}

bool
hw_check(const struct m_hw *hw, struct err *e)
{
	double v[ROWS];

	values_of(hw, v);
	for (size_t i = 0; i < ROWS; i++)
		if (!check_one(&rows[i], v[i], is_known(v, rows[i].with), e))
			return false;
	return true;
}
