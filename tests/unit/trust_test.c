/* tests/unit/trust_test.c: whose plans run here: keys and their files, the keys that a user was given, and
 * what a plan's signature is of: whatever is changed in a signed plan, or whoever else signs it, it does not
 * run. */
#include "../../schema/plan_file_int.h"
#include "../harness/plan_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
	struct arena a;
	char dir[OS_PATH_MAX];
	struct sign_key key;
	char *path; /* of a plan that it has signed */
	struct plan plan;
	struct plan_host host;
	struct trust trust; /* that key alone */
};

static const uint8_t code[] = "not code, but bytes for all that is signed";

/* A plan with something in each table and each large part, signed. */
static void
make_plan(struct rig *r, const char *path, const struct sign_key *key)
{
	struct hash made_of = hash_bytes("x", 1);
	struct plan_host host = {.wall_ns = 5, .made_by = STR("test"), .host = STR("here")};
	struct plan p;
	struct err e = {0};

	plan_sample_dry(&r->a, &p);
	p.module = (struct bytes){code, sizeof(code)};
	plan_seal_build(&p, &made_of, "a worker", key, &host.seal);
	if (!plan_save_sealed(path, &p, &host, key, &e))
		fail_msg("%s", e.msg);
}

static int
open_rig(void **state)
{
	struct rig *r = heap_alloc(sizeof(*r));
	struct trust_key *own;
	struct err e = {0};

	if (!os_temp_dir("trust", r->dir, &e) || !sign_key_open(r->dir, &r->key, &e))
		fail_msg("%s", e.msg);
	r->path = arena_printf(&r->a, "%s/a.korch", r->dir);
	make_plan(r, r->path, &r->key);
	if (!plan_load(&r->a, r->path, &r->plan, &r->host, &e))
		fail_msg("%s", e.msg);
	own = NEW_ARRAY(&r->a, struct trust_key, 1);
	*own = (struct trust_key){r->key.pub, "here"};
	r->trust = (struct trust){.keys = own, .n = 1, .passed_over = ""};
	*state = r;
	return 0;
}

static int
close_rig(void **state)
{
	struct rig *r = *state;

	os_remove_tree(r->dir);
	arena_fini(&r->a);
	free(r);
	return 0;
}

static char *
in(struct rig *r, const char *name)
{
	return arena_printf(&r->a, "%s/%s", r->dir, name);
}

/* ---- keys ------------------------------------------------------------------------------------ */
static void
a_folder_has_one_key(void **state)
{
	struct rig *r = *state;
	struct sign_key again;
	struct sign_pub pub;
	struct stat st;
	struct err e = {0};

	assert_int_equal(stat(in(r, "sign.key"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(sign_key_open(r->dir, &again, &e) && sign_pub_eq(&again.pub, &r->key.pub));
	assert_true(sign_pub_read(in(r, "sign.pub"), &pub, &e) && sign_pub_eq(&pub, &r->key.pub));
	assert_int_equal(unlink(in(r, "sign.pub")), 0);
	assert_true(sign_key_open(r->dir, &again, &e));
	assert_true(sign_pub_read(in(r, "sign.pub"), &pub, &e) && sign_pub_eq(&pub, &r->key.pub));
	assert_int_equal(chmod(in(r, "sign.key"), 0640), 0);
	assert_false(sign_key_open(r->dir, &again, &e));
	assert_int_equal(e.code, ERR_HOST);
	assert_non_null(strstr(e.msg, "chmod 600"));
}

/* Programs that come to a new folder at once have the same key. */
static void
makers_at_once_agree(void **state)
{
	enum { N = 8 };
	struct rig *r = *state;
	char *dir = in(r, "new");
	struct sign_key key;
	struct err e = {0};
	int go[2], said[2], status;
	struct sign_pub pub;

	assert_int_equal(mkdir(dir, 0700), 0);
	assert_true(pipe(go) == 0 && pipe(said) == 0);
	for (int i = 0; i < N; i++)
		if (fork() == 0) {
			char c;
			bool ok;

			(void)close(go[1]);
			(void)(read(go[0], &c, 1) + 1); /* its end: all are there */
			ok = sign_key_open(dir, &key, &e) &&
			    write(said[1], key.pub.der, sizeof(key.pub.der)) == (ssize_t)sizeof(key.pub.der);
			_exit(ok ? 0 : 1);
		}
	(void)close(go[0]);
	(void)close(go[1]);
	for (int i = 0; i < N; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_true(sign_key_open(dir, &key, &e));
	for (int i = 0; i < N; i++) {
		assert_int_equal(read(said[0], pub.der, sizeof(pub.der)), sizeof(pub.der));
		assert_true(sign_pub_eq(&pub, &key.pub));
	}
	(void)close(said[0]);
	(void)close(said[1]);
}

/* A key, a digest and their signature as openssl makes them; the signature of RFC 6979, A.2.5 ("sample"). */
static void
signatures_are_the_standard_ones(void **state)
{
	static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
				  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7\n"
				  "Yfps5mliLmDyn7Z5A/4QCLi8maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n"
				  "-----END PUBLIC KEY-----\n";
	static const uint8_t sample[] = {0x30, 0x46, 0x02, 0x21, 0x00, 0xef, 0xd4, 0x8b, 0x2a, 0xac, 0xb6,
	    0xa8, 0xfd, 0x11, 0x40, 0xdd, 0x9c, 0xd4, 0x5e, 0x81, 0xd6, 0x9d, 0x2c, 0x87, 0x7b, 0x56, 0xaa,
	    0xf9, 0x91, 0xc3, 0x4d, 0x0e, 0xa8, 0x4e, 0xaf, 0x37, 0x16, 0x02, 0x21, 0x00, 0xf7, 0xcb, 0x1c,
	    0x94, 0x2d, 0x65, 0x7c, 0x41, 0xd4, 0x36, 0xc7, 0xa1, 0xb6, 0xe2, 0x9f, 0x65, 0xf3, 0xe9, 0x00,
	    0xdb, 0xb9, 0xaf, 0xf4, 0x06, 0x4d, 0xc4, 0xab, 0x2f, 0x84, 0x3a, 0xcd, 0xa8};
	struct rig *r = *state;
	struct hash what = hash_bytes("sample", 6), other = hash_bytes("samples", 7);
	struct signature mine, again;
	struct sign_pub k;
	struct err e = {0};
	uint8_t cut[sizeof(sample)];

	assert_true(os_write_file(
	    os_real(), in(r, "rfc.pub"), (struct bytes){(const uint8_t *)pem, strlen(pem)}, &e));
	assert_true(sign_pub_read(in(r, "rfc.pub"), &k, &e));
	assert_true(sign_holds(&k, &what, (struct bytes){sample, sizeof(sample)}));
	assert_false(sign_holds(&k, &other, (struct bytes){sample, sizeof(sample)}));
	assert_false(sign_holds(&r->key.pub, &what, (struct bytes){sample, sizeof(sample)}));
	for (size_t i = 0; i < sizeof(sample); i++) {
		memcpy(cut, sample, sizeof(sample));
		assert_false(sign_holds(&k, &what, (struct bytes){sample, i}));
		cut[i] ^= 1;
		assert_false(sign_holds(&k, &what, (struct bytes){cut, sizeof(cut)}));
	}
	sign_make(&r->key, &what, &mine);
	sign_make(&r->key, &what, &again);
	assert_true(mine.n == again.n && memcmp(mine.b, again.b, mine.n) == 0);
	assert_true(sign_holds(&r->key.pub, &what, (struct bytes){mine.b, mine.n}));
}

/* ---- which keys count -------------------------------------------------------------------------- */
static bool
is_trusted(struct rig *r, const char *data, const char *given)
{
	struct trust t;
	struct err e = {0};

	return trust_read(&r->a, data, &given, given ? 1 : 0, &t, &e) && trust_find(&t, &r->key.pub);
}

static void
put_key(struct rig *r, const char *folder, int folder_mode, int mode)
{
	struct str pem = sign_pub_pem(&r->a, &r->key.pub);
	char *path = arena_printf(&r->a, "%s/farm.pub", folder);
	struct err e = {0};

	assert_true(os_make_dirs(folder, &e));
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)pem.p, pem.n}, &e));
	assert_int_equal(chmod(path, (mode_t)mode), 0);
	assert_int_equal(chmod(folder, (mode_t)folder_mode), 0);
}

static void
keys_come_from_where_they_should(void **state)
{
	static const struct {
		const char *folder;
		int folder_mode, mode;
		bool counts;
	} rows[] = {{"config/korch/trusted", 0755, 0644, true}, {"config/korch/trusted", 0755, 0664, false},
	    {"config/korch/trusted", 0777, 0644, false}, {"data/korch/trusted", 0700, 0600, true},
	    {"data/korch/trusted", 0700, 0602, false}, {"config/korch", 0755, 0644, false}};
	struct rig *r = *state;

	(void)setenv("XDG_CONFIG_HOME", in(r, "config"), 1);
	(void)setenv("XDG_DATA_HOME", in(r, "data"), 1);
	assert_false(is_trusted(r, "", NULL));
	assert_true(is_trusted(r, r->dir, NULL)); /* the data folder's own */
	assert_true(is_trusted(r, "", in(r, "sign.pub")));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		put_key(r, in(r, rows[i].folder), rows[i].folder_mode, rows[i].mode);
		if (is_trusted(r, "", NULL) != rows[i].counts)
			fail_msg("row %zu: %s", i, rows[i].folder);
		os_remove_tree(in(r, "config"));
		os_remove_tree(in(r, "data"));
	}
}

/* What keeps a key from counting is said to who misses it. */
static void
a_key_passed_over_is_named(void **state)
{
	struct rig *r = *state;
	const struct trust_key *by;
	struct trust t;
	struct err e = {0};

	(void)setenv("XDG_CONFIG_HOME", in(r, "config"), 1);
	(void)setenv("XDG_DATA_HOME", in(r, "data"), 1);
	put_key(r, in(r, "config/korch/trusted"), 0755, 0666);
	assert_true(trust_read(&r->a, "", NULL, 0, &t, &e));
	assert_false(plan_trusted(&t, "p", &r->plan, &r->host, &by, &e));
	assert_int_equal(e.code, ERR_UNTRUSTED);
	assert_non_null(strstr(e.msg, "farm.pub may be written by others"));
}

/* ---- what is signed ------------------------------------------------------------------------------ */
static bool
runs(struct rig *r, const struct plan *p, const struct plan_host *h, enum err_code *code_of)
{
	const struct trust_key *by;
	struct err e = {0};
	bool ok = plan_trusted(&r->trust, "p", p, h, &by, &e);

	assert_true(ok == (by != NULL));
	*code_of = e.code;
	return ok;
}

static void
who_signed_is_asked(void **state)
{
	struct rig *r = *state;
	struct trust nobody = {.passed_over = ""}, any = {.any = true, .passed_over = ""};
	const struct trust_key *by;
	struct plan_host none = r->host;
	char print[SIGN_PRINT];
	struct err e = {0};

	assert_true(plan_trusted(&r->trust, "p", &r->plan, &r->host, &by, &e));
	assert_string_equal(by->from, "here");
	assert_false(plan_trusted(&nobody, "p", &r->plan, &r->host, &by, &e));
	assert_int_equal(e.code, ERR_UNTRUSTED);
	sign_print(&r->key.pub, print);
	assert_non_null(strstr(e.msg, print));
	assert_non_null(strstr(e.msg, "--trust FILE"));
	assert_non_null(strstr(e.msg, "korch-plan rebuild"));
	e = (struct err){0};
	assert_true(plan_trusted(&any, "p", &r->plan, &r->host, &by, &e) && !by);
	none.seal.plan.n = 0;
	assert_false(plan_trusted(&r->trust, "p", &r->plan, &none, &by, &e));
	assert_int_equal(e.code, ERR_UNTRUSTED);
	assert_non_null(strstr(e.msg, "not signed"));
	assert_true(plan_trusted(&any, "p", &r->plan, &none, &by, &e));
}

/* Another value of a field, by its kind; false: there is none to take. */
typedef bool change_fn(struct arena *a, void *field, uint32_t *n);

static bool
change_bit(struct arena *a, void *field, uint32_t *n)
{
	(void)a;
	(void)n;
	*(uint8_t *)field ^= 1;
	return true;
}

static bool
change_text(struct arena *a, void *field, uint32_t *n)
{
	struct str *s = field;

	(void)n;
	*s = str_of(arena_printf(a, "%.*sx", STR_ARG(*s)));
	return true;
}

static bool
change_shape(struct arena *a, void *field, uint32_t *n)
{
	struct shape *s = field;

	(void)a;
	(void)n;
	s->dim[0]++;
	s->rank = MAX_OF(s->rank, 1);
	return true;
}

static bool
change_list(struct arena *a, void *field, uint32_t *n)
{
	uint32_t *list;

	if (!*n)
		return false;
	memcpy(&list, field, sizeof(list));
	list = arena_dup(a, list, sizeof(*list) * *n);
	list[0] ^= 1;
	memcpy(field, &list, sizeof(list));
	return true;
}

#define change_BOOL change_bit
#define change_U32 change_bit
#define change_U64 change_bit
#define change_INDEX change_bit
#define change_I64 change_bit
#define change_SIZE change_bit
#define change_REAL change_bit
#define change_HASH change_bit
#define change_DTYPE change_bit
#define change_FATE change_bit
#define change_PLACE change_bit
#define change_TEXT change_text
#define change_STR change_text
#define change_SHAPE change_shape
#define change_U32S change_list
#define change_PAIRS change_list
#define change_RANGES change_bit

struct field {
	const char *name;
	change_fn *change;
	size_t at, n_at;                     /* in its row */
	size_t row_bytes, list_at, count_at; /* row_bytes 0: of the plan itself */
};
#define TABLE(NAME, STRUCT, LIST_AT, COUNT_AT)                                                               \
	static const struct field *fields_of_##NAME(size_t *n)                                               \
	{                                                                                                    \
		enum {                                                                                       \
			ROW_LIST = offsetof(struct plan, LIST_AT),                                           \
			ROW_COUNT = offsetof(struct plan, COUNT_AT)                                          \
		};                                                                                           \
		typedef struct STRUCT ROW;                                                                   \
		static const struct field list[] = {
#define COL(KIND, COLUMN, AT)                                                                                \
	{#COLUMN, change_##KIND, offsetof(ROW, AT), 0, sizeof(ROW), ROW_LIST, ROW_COUNT},
#define LIST(KIND, COLUMN, AT, COUNT)                                                                        \
	{#COLUMN, change_##KIND, offsetof(ROW, AT), offsetof(ROW, COUNT), sizeof(ROW), ROW_LIST, ROW_COUNT},
#define END(NAME)                                                                                            \
	}                                                                                                    \
	;                                                                                                    \
	*n = COUNT_OF(list);                                                                                 \
	return list;                                                                                         \
	}
#include "../../schema/plan_table.def"

typedef const struct field *table_fn(size_t *n);
static table_fn *const tables[] = {
#define TABLE(NAME, STRUCT, LIST_AT, COUNT_AT) fields_of_##NAME,
#define COL(KIND, COLUMN, AT)
#define LIST(KIND, COLUMN, AT, COUNT)
#define END(NAME)
#include "../../schema/plan_table.def"
};

/* Its first row with that field changed, in a plan of its own.  Enums may become a neighbour that has no
 * name: those of the sample are even. */
static bool
forge(struct arena *a, struct plan *p, const struct field *f)
{
	uint8_t *list;
	uint32_t n;

	memcpy(&list, (uint8_t *)p + f->list_at, sizeof(list));
	memcpy(&n, (uint8_t *)p + f->count_at, sizeof(n));
	if (!n)
		return false;
	list = arena_dup(a, list, f->row_bytes * n);
	memcpy((uint8_t *)p + f->list_at, &list, sizeof(list));
	return f->change(a, list + f->at, (uint32_t *)(void *)(list + f->n_at));
}

static void
every_field_is_signed(void **state)
{
	struct rig *r = *state;
	uint32_t n_changed = 0;
	enum err_code what;

	for (size_t t = 0; t < COUNT_OF(tables); t++) {
		size_t n;
		const struct field *f = tables[t](&n);

		for (size_t i = 0; i < n; i++) {
			struct plan p = r->plan;

			if (!forge(&r->a, &p, &f[i]))
				continue;
			n_changed++;
			if (runs(r, &p, &r->host, &what) || what != ERR_FORMAT)
				fail_msg("table %zu, field %s: a change is not noticed", t, f[i].name);
		}
	}
	assert_true(n_changed > 50);
}

static void
every_fact_is_signed(void **state)
{
	static const struct field facts[] = {
#define X(KIND, N) {#N, change_##KIND, offsetof(struct plan, N), 0, 0, 0, 0},
	    PLAN_FACTS(X) PLAN_FACTS_5(X)
#undef X
	};
	struct rig *r = *state;
	enum err_code what;

	for (size_t i = 0; i < COUNT_OF(facts); i++) {
		struct plan p = r->plan;

		(void)facts[i].change(&r->a, (uint8_t *)&p + facts[i].at, NULL);
		if (runs(r, &p, &r->host, &what) || what != ERR_FORMAT)
			fail_msg("fact %s: a change is not noticed", facts[i].name);
	}
}

/* A plan whose code was swapped, and each other part of bytes; of any length. */
static void
code_that_was_swapped_does_not_run(void **state)
{
	static const uint8_t evil[] = "not code, and not what anybody has signed.";
	struct rig *r = *state;
	enum err_code what;
	struct plan p = r->plan;

	assert_true(runs(r, &p, &r->host, &what));
	p.module = (struct bytes){evil, sizeof(evil)};
	assert_false(runs(r, &p, &r->host, &what));
	p.module.n--;
	assert_false(runs(r, &p, &r->host, &what));
	p.module.n = 0;
	assert_false(runs(r, &p, &r->host, &what));
	p = r->plan;
	p.constants.n--;
	assert_false(runs(r, &p, &r->host, &what));
	p = r->plan;
	p.source.n--;
	assert_false(runs(r, &p, &r->host, &what));
	p = r->plan;
	p.graph.n--;
	assert_false(runs(r, &p, &r->host, &what));
	assert_int_equal(what, ERR_FORMAT);
}

/* The file of a forger who does all again but the signatures: other code, right sums, right digest. */
static void
a_forger_needs_the_key(void **state)
{
	static const uint8_t evil[] = "evil";
	struct rig *r = *state;
	char *path = in(r, "forged.korch");
	struct plan p = r->plan, have;
	struct plan_host h;
	struct hash digest;
	enum err_code what;
	struct err e = {0};

	p.module = (struct bytes){evil, sizeof(evil)};
	assert_true(plan_save(path, &p, &r->host, &e)); /* with the old seal */
	assert_true(plan_file_check(path, &digest, &e));
	assert_true(plan_load(&r->a, path, &have, &h, &e));
	assert_int_equal(h.seal.plan.n, r->host.seal.plan.n);
	assert_false(runs(r, &have, &h, &what));
	assert_int_equal(what, ERR_FORMAT);
	/* and a daemon that is handed it signs nothing that none of its workers has built */
	assert_false(plan_seal(path, &r->key, &e));
	assert_int_equal(e.code, ERR_WRONG);
}

/* Each thing that a build is the build of, and whose it is. */
static void
builds_are_of_one_place(void **state)
{
	struct rig *r = *state;
	enum err_code what;
	struct plan_host h = r->host;

	h.seal.build_key.b[0] ^= 1;
	assert_false(runs(r, &r->plan, &h, &what));
	h = r->host;
	h.seal.worker = STR("another");
	assert_false(runs(r, &r->plan, &h, &what));
	h = r->host;
	h.seal.build.n = 0;
	assert_false(runs(r, &r->plan, &h, &what));
	h = r->host;
	h.seal.build = h.seal.plan; /* a signature of the same key, of something else */
	assert_false(runs(r, &r->plan, &h, &what));
	h = r->host;
	h.seal.plan = h.seal.build;
	assert_false(runs(r, &r->plan, &h, &what));
	h = r->host;
	h.digest.b[0] ^= 1;
	assert_false(runs(r, &r->plan, &h, &what));
}

/* Another's signature under our key's name, or a key that is none. */
static void
a_name_is_no_signature(void **state)
{
	struct rig *r = *state;
	char *dir = in(r, "other"), *path = in(r, "b.korch");
	struct sign_key other;
	struct plan_host h;
	struct plan p;
	struct bytes none = {r->key.pub.der, SIGN_PUB_BYTES - 1};
	struct sign_pub k;
	enum err_code what;
	struct err e = {0};

	assert_true(os_make_dirs(dir, &e) && sign_key_open(dir, &other, &e));
	make_plan(r, path, &other);
	assert_true(plan_load(&r->a, path, &p, &h, &e));
	assert_false(runs(r, &p, &h, &what));
	assert_int_equal(what, ERR_UNTRUSTED);
	h.seal.signer = r->key.pub;
	assert_false(runs(r, &p, &h, &what));
	assert_int_equal(what, ERR_FORMAT);
	assert_true(plan_sealed_by(path, &other.pub) && !plan_sealed_by(path, &r->key.pub));
	assert_false(sign_pub_of(none, &k));
	none = (struct bytes){NEW_ARRAY(&r->a, uint8_t, SIGN_PUB_BYTES), SIGN_PUB_BYTES};
	assert_false(sign_pub_of(none, &k));
	memcpy((uint8_t *)(uintptr_t)none.p, r->key.pub.der, none.n);
	((uint8_t *)(uintptr_t)none.p)[none.n - 1] ^= 1; /* not on the curve */
	assert_false(sign_pub_of(none, &k));
}

int
main(void)
{
#define T(NAME) cmocka_unit_test_setup_teardown(NAME, open_rig, close_rig)
	const struct CMUnitTest tests[] = {T(a_folder_has_one_key), T(makers_at_once_agree),
	    T(signatures_are_the_standard_ones), T(keys_come_from_where_they_should),
	    T(a_key_passed_over_is_named), T(who_signed_is_asked), T(every_field_is_signed),
	    T(every_fact_is_signed), T(code_that_was_swapped_does_not_run), T(a_forger_needs_the_key),
	    T(builds_are_of_one_place), T(a_name_is_no_signature)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
