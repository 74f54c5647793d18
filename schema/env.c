/* schema/env.c: measuring environments.
 *
 * A row is found by the digest of the full key; the key is compared too.  What is kept beside the key is what
 * the first worker of the environment said: its rows, bounds and plans stand on it.  Another one that names
 * the same key is one more device of the same kind, and changes none of it. */
#include "db_int.h"
#include "env.h"

#include "../kernels/base/class.h"
#include "../kernels/base/epoch.h"
#include "../proto/hw.h"

#include <string.h>

/* "cpu" may become "cpu:AMD-EPYC-9B14-avx512", which is the same said in full; nothing else may change. */
static bool
is_fuller(struct str class, struct str before)
{
	return class.n > before.n && class.p[before.n] == ':' && memcmp(class.p, before.p, before.n) == 0;
}

/* Its numbers, and those that calibration did not look for when they were found. */
static void
keep_hw(struct m_hw *own, const struct m_hw *before)
{
	struct m_hw hw = *before;

	if (!(hw.linear_flops > 0))
		hw.linear_flops = own->linear_flops;
	if (!(hw.exp_per_s > 0))
		hw.exp_per_s = own->exp_per_s;
	if (!(hw.div_per_s > 0))
		hw.div_per_s = own->div_per_s;
	*own = hw;
}

/* What a row keeps when another device of its environment comes. */
static void
keep_known(struct m_env *own, const struct m_env *before)
{
	struct err bad = {0};

	if (before->hw.flops_peak > 0 && hw_check(&before->hw, &bad))
		keep_hw(&own->hw, &before->hw);
	if (before->run_compat.n)
		own->run_compat = before->run_compat;
	if (before->compiler.n)
		own->compiler = before->compiler;
	if (before->class.n && !is_fuller(own->class, before->class))
		own->class = before->class;
}

static bool
see_again(struct db *db, int64_t id, const struct m_env *env, bool is_own, struct err *e)
{
	struct arena tmp = {0};
	struct m_env own = *env, before;
	struct bytes record;
	bool ok = env_get(db, &tmp, id, &before, e);

	if (ok && !is_own)
		keep_known(&own, &before);
	ok = ok && rec_pack(&tmp, "env", &own, &record, e) &&
	    q_run(db, e, SQL_ENV_SEEN, "iibt", id, db_wall(db), record, own.class);
	arena_fini(&tmp);
	return ok;
}

bool
env_put(struct db *db, const struct m_env *env, bool is_own, int64_t *id, struct err *e)
{
	struct arena tmp = {0};
	struct m_env own = *env;
	struct hash hash = hash_bytes(env->key.p, env->key.n);
	struct bytes record;
	struct str text = {0};
	struct q q;
	bool known, ok;

	own.hash = hash;
	ok = rec_pack(&tmp, "env", &own, &record, e);
	q = q_start(db, SQL_ENV_FIND, "h", &hash);
	known = ok && q_step(&q);
	if (known) {
		*id = q_int(&q, 0);
		text = q_text(&q, &tmp, 1);
	}
	ok = q_end(&q, e) && ok;
	if (known && !str_eq(text, env->key))
		ok = err_set(
		    e, ERR_FORMAT, "two environments have the same digest; move %s/korch.db away", db->dir);
	else if (ok && known)
		ok = see_again(db, *id, &own, is_own, e);
	else if (ok) {
		ok = q_run(db, e, SQL_ENV_ADD, "httbi", &hash, env->class, env->key, record, db_wall(db));
		*id = sqlite3_last_insert_rowid(db->sql);
	}
	arena_fini(&tmp);
	return ok;
}

bool
env_of_class(struct db *db, struct arena *a, struct str class, int64_t *id, struct m_env *env, struct err *e)
{
	struct q q = q_start(db, SQL_ENV_CLASS, "t", class);
	struct bytes record = {0};
	bool found = q_step(&q);

	if (found) {
		*id = q_int(&q, 0);
		record = q_blob(&q, a, 1);
	}
	if (!q_end(&q, e))
		return false;
	if (!found)
		return err_set(e, ERR_OFFLINE,
		    "no device of a class that fits '%.*s' was ever seen here; connect a korch-worker for it",
		    STR_ARG(class));
	return rec_unpack(a, "env", record, env, e);
}

bool
env_get(struct db *db, struct arena *a, int64_t id, struct m_env *env, struct err *e)
{
	struct q q = q_start(db, SQL_ENV_ID, "i", id);
	struct bytes record = {0};
	bool found = q_step(&q);

	if (found)
		record = q_blob(&q, a, 0);
	if (!q_end(&q, e))
		return false;
	return found ? rec_unpack(a, "env", record, env, e)
		     : err_set(e, ERR_FAILED, "environment %lld is not in the store", (long long)id);
}

/* ---- of a class that need not be here -------------------------------------------------- */
enum fit { FIT_NONE, FIT_START, FIT_PATTERN, FIT_NAME };

static enum fit
fit_of(struct str pattern, struct str class)
{
	return str_eq(pattern, class)                                                        ? FIT_NAME
	    : class_fits(pattern, class)                                                     ? FIT_PATTERN
	    : pattern.n && class.n > pattern.n && memcmp(pattern.p, class.p, pattern.n) == 0 ? FIT_START
											     : FIT_NONE;
}

/* Calibrated by this generator, calibrated, or seen. */
static int
worth(const struct m_env *env)
{
	return env->hw.flops_peak > 0 ? 1 + (env->epoch == GENERATOR_EPOCH) : 0;
}

/* What a walk over all environments has found. */
struct known {
	enum fit fit;
	struct str class;
	struct m_env env; /* the best of that class */
	int64_t id;
	struct strbuf fitting, all; /* classes, by commas */
	uint32_t n_fitting;
};

static void
add_name(struct strbuf *sb, struct str class)
{
	sb_addf(sb, "%s%.*s", sb->n ? ", " : "", STR_ARG(class));
}

static bool
is_listed(const struct strbuf *sb, struct str class)
{
	struct str rest = sb->n ? sb_str(sb) : STR("");

	while (rest.n)
		if (str_eq(str_trim(str_cut(&rest, ',')), class))
			return true;
	return false;
}

static void
meet(struct known *k, enum fit fit, struct str class, int64_t id, const struct m_env *env)
{
	if (!is_listed(&k->all, class))
		add_name(&k->all, class);
	if (fit == FIT_NONE || fit < k->fit)
		return;
	if (fit > k->fit) {
		k->fit = fit;
		k->n_fitting = 0;
		k->fitting.n = 0;
	}
	if (!is_listed(&k->fitting, class)) {
		add_name(&k->fitting, class);
		if (k->n_fitting++ == 0) {
			k->class = class;
			k->env = *env;
			k->id = id;
		}
	} else if (str_eq(class, k->class) && worth(env) > worth(&k->env)) {
		k->env = *env;
		k->id = id;
	}
}

static bool
choose_known(const struct known *k, struct str pattern, struct err *e)
{
	if (k->fit == FIT_NONE)
		return err_set(e, ERR_UNPLACEABLE,
		    "--device %.*s: this cache knows no such class (it knows: %.300s); korch-cache import "
		    "brings what another one knows",
		    STR_ARG(pattern), k->all.n ? k->all.p : "none");
	if (k->n_fitting > 1)
		return err_set(e, ERR_USAGE, "--device %.*s: %u classes of this cache fit (%.300s); name one",
		    STR_ARG(pattern), k->n_fitting, k->fitting.p);
	return worth(&k->env) > 0 ||
	    err_set(e, ERR_UNPLACEABLE,
		"--device %.*s: class %.*s was never calibrated, so nothing can be predicted for it; connect "
		"a korch-worker on such a host, or import the cache of one",
		STR_ARG(pattern), STR_ARG(k->class));
}

bool
env_known(struct db *db, struct arena *a, struct str pattern, int64_t *id, struct m_env *env, struct err *e)
{
	struct q q = q_start(db, SQL_ENV_ALL, "");
	struct known k = {0};
	struct m_env one;
	bool ok = true;

	sb_init(&k.fitting, a);
	sb_init(&k.all, a);
	while (ok && q_step(&q)) {
		struct str class = q_text(&q, a, 1);

		ok = rec_unpack(a, "env", q_blob(&q, a, 2), &one, e);
		if (ok)
			meet(&k, fit_of(pattern, class), class, q_int(&q, 0), &one);
	}
	ok = q_end(&q, e) && ok && choose_known(&k, pattern, e);
	if (!ok)
		return false;
	*id = k.id;
	*env = k.env;
	env->class = k.class;
	env->epoch = GENERATOR_EPOCH;
	return true;
}
