/* schema/build.c: see build.h. */
#include "build.h"
#include "db_int.h"
#include "plan_file.h"

static struct hash
statement(
    const struct hash *key, const struct meas_key *k, struct str run_compat, const struct m_build_have *b)
{
	struct plan_build what = {.object = b->digest,
	    .key = *key,
	    .env = k->env_hash,
	    .run_compat = run_compat,
	    .worker = b->worker};

	return plan_build_statement(&what);
}

/* That the description is of that very build: plans carry the signature of the build alone. */
static struct hash
described(const struct hash *build, const struct hash *description)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addz(&sb, "korch description 1\n");
	sb_add(&sb, (struct str){(const char *)build->b, sizeof(build->b)});
	sb_add(&sb, (struct str){(const char *)description->b, sizeof(description->b)});
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

/* Is it here, and ours, and its description too? */
static bool
counts(struct db *db, const struct hash *key, const struct meas_key *k, struct str run_compat,
    const struct m_build_have *b, struct bytes signature)
{
	struct hash build = statement(key, k, run_compat, b), both = described(&build, &b->description);
	uint64_t bytes;

	return blob_size(db, &b->digest, &bytes) && blob_size(db, &b->description, &bytes) &&
	    sign_holds(&db->signer.pub, &build, b->signature) &&
	    sign_holds(&db->signer.pub, &both, signature);
}

bool
build_find(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *out, bool *found, struct err *e)
{
	struct m_env env;
	struct q q;

	*out = (struct m_build_have){.path = STR(""),
	    .cause = STR(""),
	    .log = STR(""),
	    .worker = STR(""),
	    .description_path = STR("")};
	*found = false;
	if (!env_get(db, a, k->env, &env, e))
		return false;
	q = q_start(db, SQL_BUILD_FIND, "h", key);
	while (!*found && q_step(&q)) {
		out->key = *key;
		out->digest = q_hash(&q, 0);
		out->log = q_text(&q, a, 1);
		out->worker = q_text(&q, a, 2);
		out->signature = q_blob(&q, a, 3);
		out->took = q_blob(&q, a, 4);
		out->description = q_hash(&q, 5);
		*found = counts(db, key, k, env.run_compat, out, q_blob(&q, a, 6));
	}
	if (!q_end(&q, e))
		return false;
	if (!*found)
		return true;
	out->path = str_of(blob_path(a, db, &out->digest));
	out->description_path = str_of(blob_path(a, db, &out->description));
	return q_run(db, e, SQL_BLOB_USE, "hi", &out->digest, db_wall(db)) &&
	    q_run(db, e, SQL_BLOB_USE, "hi", &out->description, db_wall(db));
}

bool
build_put(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *b, struct err *e)
{
	struct signature *made = NEW_ARRAY(a, struct signature, 1), with;
	struct m_env env;
	struct hash what, both;

	if (!env_get(db, a, k->env, &env, e))
		return false;
	what = statement(key, k, env.run_compat, b);
	sign_make(&db->signer, &what, made);
	b->key = *key;
	b->signature = (struct bytes){made->b, made->n};
	both = described(&what, &b->description);
	sign_make(&db->signer, &both, &with);
	return q_run(db, e, SQL_BUILD_PUT, "hhttbbhbi", key, &b->digest, b->log, b->worker, b->signature,
	    b->took, &b->description, (struct bytes){with.b, with.n}, db_wall(db));
}

bool
db_seal_plan(struct db *db, const char *path, struct err *e)
{
	return plan_seal(path, &db->signer, e);
}
