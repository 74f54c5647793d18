/* kernels/vendor/choice.c: the table of libraries, and how a schedule names one. */
#include "library.h"

#define TYPE_BIT(T) (1u << DT_##T)

static const struct library_row {
	const char *id, *name;
	bool is_cuda;
	unsigned linear, steps;
	uint32_t most, algos;
	unsigned types;
} rows[LIBRARY_COUNT] = {
#define LIBRARY(ID, NAME, IS_CUDA, LINEAR, STEPS, MOST, ALGOS, TYPES)                                        \
	[LIBRARY_##ID] = {#ID, NAME, IS_CUDA, LINEAR, STEPS, MOST, ALGOS, TYPES},
#include "library.def"
};

const char *
library_id(enum library l)
{
	return rows[l].id;
}

const char *
library_name(enum library l)
{
	return rows[l].name;
}

bool
library_is_cuda(enum library l)
{
	return rows[l].is_cuda;
}

uint32_t
library_algos(enum library l)
{
	return rows[l].algos;
}

void
library_print(struct strbuf *sb, enum library l, int64_t version)
{
	sb_addf(sb, "%s-%lld.%lld.%lld", rows[l].id, (long long)(version / 10000),
	    (long long)(version / 100 % 100), (long long)(version % 100));
}

bool
library_read(struct str text, enum library *l, int64_t *version)
{
	struct str id = str_cut(&text, '-'), part;
	int64_t v;

	*version = 0;
	for (int i = 0; i < 3; i++) {
		part = str_cut(&text, '.');
		if (!str_to_i64(part, &v) || v < 0 || v > (i ? 99 : LIBRARY_VERSION_MAX / 10000))
			return false;
		*version = *version * 100 + v;
	}
	if (text.n)
		return false;
	for (int i = 0; i < LIBRARY_COUNT; i++)
		if (str_is(id, rows[i].id)) {
			*l = (enum library)i;
			return *version > 0;
		}
	return false;
}

bool
library_of_schedule(struct str schedule, enum library *l, int64_t *version, int64_t *algo)
{
	bool found = false;

	*algo = 0;
	while (schedule.n) {
		struct str value = str_cut(&schedule, ' '), name = str_cut(&value, '=');

		if (str_is(name, "lib"))
			found = library_read(value, l, version);
		else if (str_is(name, "algo") && !str_to_i64(value, algo))
			return false;
	}
	return found;
}

static const char *const step_names[STEP_COUNT] = {
#define STEP(KIND, ...) [STEP_##KIND] = #KIND,
#include "library.def"
};

const char *
step_name(enum step_kind k)
{
	return step_names[k];
}

bool
library_takes(enum library l, const struct library_call *c, struct err *e)
{
	const struct library_row *r = &rows[l];

	if (!(r->linear >> c->linear & 1))
		return err_set(e, ERR_INFEASIBLE, "library: %s is not asked for such products", r->name);
	if (!(r->types >> c->result.type & 1))
		return err_set(e, ERR_INFEASIBLE, "library: %s is not asked for %s", r->name,
		    dtype_name(c->result.type));
	if (c->n_steps > r->most)
		return err_set(e, ERR_INFEASIBLE, "library: %u steps after the products; %s takes %u",
		    c->n_steps, r->name, r->most);
	for (uint32_t i = 0; i < c->n_steps; i++)
		if (!(r->steps >> c->step[i].kind & 1))
			return err_set(e, ERR_INFEASIBLE, "library: %s is not asked for '%s'", r->name,
			    step_name(c->step[i].kind));
	return true;
}
