/* schema/plan_seal.c: who vouches for a plan.
 *
 * A plan is code: its module, and its steps and places, which say on which bytes the code runs.  Two
 * statements are signed by the one who made the plan: of the build (object, what it is the build of,
 * environment, who built it), when a worker has handed it in; and of the whole plan, when it is done: its
 * digest, and its *content*, which is worked out again from what is in memory when it is to run.  So a file
 * that changes while it is read runs nothing that nobody signed. */
#include "plan_file_int.h"

#include <stdio.h>
#include <string.h>

/* ---- statements ---------------------------------------------------------------------------- */
static void
put_str(struct strbuf *sb, struct str s)
{
	sb_addf(sb, "%zu ", s.n);
	sb_add(sb, s);
}

static void
put_hash(struct strbuf *sb, const struct hash *h)
{
	sb_add(sb, (struct str){(const char *)h->b, sizeof(h->b)});
}

struct hash
plan_build_statement(const struct plan_build *b)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addz(&sb, "korch build 1\n");
	put_hash(&sb, &b->object);
	put_hash(&sb, &b->key);
	put_hash(&sb, &b->env);
	put_str(&sb, b->run_compat);
	put_str(&sb, b->worker);
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

static struct hash
plan_statement(const struct hash *digest, const struct hash *content)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_addz(&sb, "korch plan 1\n");
	put_hash(&sb, digest);
	put_hash(&sb, content);
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

static struct hash
build_of(const struct plan *p, const struct plan_seal *s, const struct hash *object)
{
	struct plan_build b = {.object = *object,
	    .key = s->build_key,
	    .env = hash_bytes(p->environment.p, p->environment.n),
	    .run_compat = p->run_compat,
	    .worker = s->worker};

	return plan_build_statement(&b);
}

static struct bytes
bytes_of(const struct signature *s)
{
	return (struct bytes){s->b, s->n};
}

/* ---- in the file ----------------------------------------------------------------------------- */
static void
bind_seal(struct plan_db *f, sqlite3_stmt *st, const struct plan_seal *s)
{
	pf_bind_bytes(f, st, 1, s->signer.der, s->plan.n ? sizeof(s->signer.der) : 0);
	pf_bind_bytes(f, st, 2, s->plan.b, s->plan.n);
	pf_bind_bytes(f, st, 3, s->build.b, s->build.n);
	pf_bind_bytes(f, st, 4, s->build_key.b, s->build.n ? sizeof(s->build_key.b) : 0);
	pf_bind_str(f, st, 5, s->worker.n ? s->worker : STR(""));
	pf_put_row(f, st);
}

void
pf_save_seal(struct plan_db *f, const struct plan_seal *s)
{
	sqlite3_stmt *st;

	if (!s->plan.n && !s->build.n)
		return;
	st = pf_prepare(f, "INSERT OR REPLACE INTO seal VALUES(0,?,?,?,?,?)");
	bind_seal(f, st, s);
	(void)sqlite3_finalize(st);
}

static void
get_signature(struct plan_db *f, sqlite3_stmt *st, int at, struct signature *out)
{
	struct bytes b = pf_get_bytes(f, st, at);

	if (b.n > sizeof(out->b)) {
		pf_damaged(f, "a signature is too long");
		return;
	}
	out->n = b.n;
	if (b.n)
		memcpy(out->b, b.p, b.n);
}

static void
get_exactly(struct plan_db *f, sqlite3_stmt *st, int at, void *to, size_t n, bool is_there)
{
	struct bytes b = pf_get_bytes(f, st, at);

	if (b.n != (is_there ? n : 0))
		pf_damaged(f, "its seal is no seal");
	else if (b.n)
		memcpy(to, b.p, n);
}

void
pf_load_seal(struct plan_db *f, struct arena *a, struct plan_seal *s)
{
	sqlite3_stmt *st;

	*s = (struct plan_seal){.worker = STR("")};
	if (f->version < 6 || !pf_is_well(f))
		return;
	st = pf_prepare(f, "SELECT id, signer, plan, build, build_key, worker FROM seal");
	if (pf_next_row(f, st)) {
		if (pf_get_int(f, st, 0) != 0)
			pf_damaged(f, "its seal is no seal");
		get_signature(f, st, 2, &s->plan);
		get_signature(f, st, 3, &s->build);
		get_exactly(f, st, 1, s->signer.der, sizeof(s->signer.der), s->plan.n != 0);
		get_exactly(f, st, 4, s->build_key.b, sizeof(s->build_key.b), s->build.n != 0);
		s->worker = pf_get_str(f, st, 5, a);
	}
	(void)sqlite3_finalize(st);
}

/* ---- sealing --------------------------------------------------------------------------------- */
static const char *const blob_names[PLAN_BLOBS] = {[PLAN_GRAPH] = "graph",
    [PLAN_SOURCE] = "source",
    [PLAN_MODULE] = "module",
    [PLAN_CONSTANTS] = "constants"};

/* plan_blob_sum of what the file has, a piece at a time. */
static struct hash
sum_of_parts(struct plan_db *f, const char *name)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;
	sqlite3_stmt *st = pf_prepare(f, "SELECT data FROM part WHERE name = ? ORDER BY part");
	bool is_short = false;

	sb_init(&sb, &tmp);
	pf_bind_str(f, st, 1, str_of(name));
	while (pf_next_row(f, st)) {
		struct bytes b = pf_get_bytes(f, st, 0);

		if (is_short || b.n == 0 || b.n > PLAN_PART_BYTES)
			pf_damaged(f, "the parts of a blob do not fit together");
		is_short = b.n < PLAN_PART_BYTES;
		h = hash_bytes(b.p, b.n);
		put_hash(&sb, &h);
	}
	(void)sqlite3_finalize(st);
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

/* SHA-256 of the module; *n: its size. */
static struct hash
object_of(struct plan_db *f, struct arena *a, size_t *n)
{
	struct strbuf sb;
	sqlite3_stmt *st = pf_prepare(f, "SELECT data FROM part WHERE name = 'module' ORDER BY part");

	sb_init(&sb, a);
	while (pf_next_row(f, st)) {
		struct bytes b = pf_get_bytes(f, st, 0);

		sb_add(&sb, (struct str){(const char *)b.p, b.n});
	}
	(void)sqlite3_finalize(st);
	*n = sb.n;
	return hash_bytes(sb.p, sb.n);
}

/* The plan without its large parts: a daemon signs plans larger than what it would like to hold. */
static bool
sign_open(struct plan_db *f, struct arena *a, const struct sign_key *key, struct err *e)
{
	struct plan p = {0};
	struct plan_host h = {0};
	struct hash sums[PLAN_BLOBS], digest, content, object, what;
	size_t n_module;

	pf_load_rows(f, a, &p, &h);
	pf_load_seal(f, a, &h.seal);
	for (int i = 0; i < PLAN_BLOBS; i++)
		sums[i] = sum_of_parts(f, blob_names[i]);
	object = object_of(f, a, &n_module);
	digest = pf_walk(f);
	if (!pf_is_well(f))
		return pf_file_error(f, true, e);
	what = build_of(&p, &h.seal, &object);
	if (n_module && !sign_holds(&key->pub, &what, bytes_of(&h.seal.build)))
		return err_set(e, ERR_WRONG, "%s: its code is not what a worker has built for it", f->path);
	content = plan_content(&p, sums);
	what = plan_statement(&digest, &content);
	sign_make(key, &what, &h.seal.plan);
	h.seal.signer = key->pub;
	pf_run_sql(f, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;");
	pf_save_seal(f, &h.seal);
	return pf_is_well(f) || pf_file_error(f, false, e);
}

bool
plan_seal(const char *path, const struct sign_key *key, struct err *e)
{
	struct plan_db f = {.path = path, .writes = true};
	struct arena tmp = {0};
	int64_t steps_left;
	bool ok = pf_open_stranger(&f, e);

	if (ok && f.version != PLAN_FILE_VERSION)
		ok = err_set(e, ERR_FORMAT, "%s: a plan of another format is not signed", path);
	if (ok) {
		pf_limit_steps(&f, &steps_left);
		ok = sign_open(&f, &tmp, key, e);
	}
	if (sqlite3_close(f.db) != SQLITE_OK)
		bug("a statement on a plan file was left open");
	arena_fini(&tmp);
	return ok;
}

void
plan_seal_build(const struct plan *p, const struct hash *made_of, const char *maker,
    const struct sign_key *key, struct plan_seal *out)
{
	struct hash object = hash_bytes(p->module.p, p->module.n), what;

	*out = (struct plan_seal){.build_key = *made_of, .worker = str_of(maker)};
	if (!p->module.n)
		return;
	what = build_of(p, out, &object);
	sign_make(key, &what, &out->build);
}

bool
plan_sealed_by(const char *path, const struct sign_pub *k)
{
	struct plan_db f = {.path = path};
	struct arena tmp = {0};
	struct plan_seal s = {0};
	struct err e = {0};
	int64_t steps_left;
	bool ok = pf_open_stranger(&f, &e);

	if (ok) {
		pf_limit_steps(&f, &steps_left);
		pf_load_seal(&f, &tmp, &s);
		ok = pf_is_well(&f) && s.plan.n && sign_pub_eq(&s.signer, k);
	}
	if (sqlite3_close(f.db) != SQLITE_OK)
		bug("a statement on a plan file was left open");
	arena_fini(&tmp);
	return ok;
}

/* ---- before it runs ---------------------------------------------------------------------------- */
static bool
holds(const struct plan *p, const struct plan_host *h)
{
	const struct plan_seal *s = &h->seal;
	struct hash sums[PLAN_BLOBS], content, object, what;

	sums[PLAN_GRAPH] = plan_blob_sum((struct bytes){(const uint8_t *)p->graph.p, p->graph.n});
	sums[PLAN_SOURCE] = plan_blob_sum((struct bytes){(const uint8_t *)p->source.p, p->source.n});
	sums[PLAN_MODULE] = plan_blob_sum(p->module);
	sums[PLAN_CONSTANTS] = plan_blob_sum(p->constants);
	content = plan_content(p, sums);
	what = plan_statement(&h->digest, &content);
	if (!sign_holds(&s->signer, &what, bytes_of(&s->plan)))
		return false;
	object = hash_bytes(p->module.p, p->module.n);
	what = build_of(p, s, &object);
	return p->module.n == 0 || sign_holds(&s->signer, &what, bytes_of(&s->build));
}

/* A word about a key file that does not count may be what is missing. */
static bool
refuse(const struct trust *t, const char *path, const char *who, const char *way, struct err *e)
{
	return err_set(e, ERR_UNTRUSTED,
	    "%s: %s; a plan is machine code: %s, generate its code here with korch-plan rebuild, or run it "
	    "with --trust any "
	    "if you would run any program from where it came%s%s",
	    path, who, way, *t->passed_over ? "; not counted: " : "", t->passed_over);
}

bool
plan_trusted(const struct trust *t, const char *path, const struct plan *p, const struct plan_host *h,
    const struct trust_key **by, struct err *e)
{
	char print[SIGN_PRINT], who[SIGN_PRINT + 64];

	*by = NULL;
	if (!h->seal.plan.n)
		return t->any || refuse(t, path, "not signed", "submit its model again", e);
	sign_print(&h->seal.signer, print);
	*by = trust_find(t, &h->seal.signer);
	if (!*by && t->any)
		return true;
	if (!holds(p, h)) {
		*by = NULL;
		return err_set(e, ERR_FORMAT,
		    "%s: the signature by %s does not hold: the plan was changed after it was made; fetch it "
		    "again",
		    path, print);
	}
	(void)snprintf(who, sizeof(who), "signed by %s, a key that you do not trust", print);
	return *by ||
	    refuse(t, path, who, "name the sign.pub of the korchd that made it with --trust FILE", e);
}
