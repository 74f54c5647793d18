/* tests/unit/store_rig.c: see store_rig.h. */
#include "store_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int64_t box_clock_ns = 1000;

static int64_t
fixed_wall(void *self)
{
	(void)self;
	return box_clock_ns;
}

static void
remove_tree(const char *dir)
{
	char cmd[256];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

void
box_make(struct box *b)
{
	memset(b, 0, sizeof(*b));
	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/korch-store-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	b->os = *os_real();
	b->os.wall_ns = fixed_wall;
	b->conf = (struct store_conf){.dir = b->dir, .os = &b->os};
}

void
box_open(struct box *b)
{
	struct err e = {0};

	box_make(b);
	if (!db_open(&b->db, &b->conf, &e))
		fail_msg("%s", e.msg);
	assert_true(db_begin(b->db, &e));
}

void
box_close(struct box *b)
{
	db_close(b->db);
	arena_fini(&b->a);
	remove_tree(b->dir);
}

struct meas_key
box_env(struct box *b, const char *class, const char *key)
{
	struct m_env env = {
	    .class = str_of(class), .key = str_of(key), .run_compat = STR("x"), .compiler = STR("")};
	struct meas_key k = {.threads = 1, .epoch = 1, .precision = STR("f32")};
	struct err e = {0};

	assert_true(env_put(b->db, &env, true, &k.env, &e));
	k.env_hash = hash_bytes(key, strlen(key));
	return k;
}

struct m_row
box_row(const char *schedule, int64_t ns, uint64_t samples)
{
	return (struct m_row){.schedule = str_of(schedule),
	    .median_ns = ns,
	    .p10_ns = ns - 1,
	    .p90_ns = ns + 1,
	    .min_ns = ns - 2,
	    .samples = samples,
	    .cause = STR(""),
	    .stop = STR("converged")};
}

void
box_put(struct box *b, const char *spec, const struct meas_key *k, struct m_row row, int64_t wall_ns)
{
	static const struct hash model = {{1}};
	struct meas_origin from = {.worker = STR("w"), .gen = 1, .effort = 4, .wall_ns = wall_ns};
	struct hash h;
	struct err e = {0};

	assert_true(spec_put(b->db, str_of(spec), &model, &h, &e));
	if (!meas_put(b->db, &h, k, &row, 1, &from, &e))
		fail_msg("%s", e.msg);
	assert_true(attempt_put(b->db, &h, k, 4, 0, STR(""), &e));
}

struct m_cost
box_find(struct box *b, const char *spec, const struct meas_key *k, uint8_t model)
{
	struct hash m = {{model}};
	struct m_cost c;
	struct err e = {0};

	assert_true(meas_find(b->db, &b->a, str_of(spec), k, &m, &c, &e));
	return c;
}

void
box_again(struct box *b, const char *spec, const struct meas_key *k, uint8_t session, uint64_t gen,
    struct m_row row)
{
	struct meas_origin from = {.worker = STR("w"), .gen = gen, .wall_ns = 9};
	struct hash h = hash_bytes(spec, strlen(spec)), s = {{session}};
	struct err e = {0};

	if (!repeat_put(b->db, &h, k, &s, &row, &from, &e))
		fail_msg("%s", e.msg);
}
