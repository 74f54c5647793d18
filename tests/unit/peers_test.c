/* Who is connected, on a clock of its own: silence ends, a stranger with a thousand connections pushes out
 * his own, local ones have room whatever the network does, and the table forgets whom it was told to. */
#include "../../proto/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t second = 1000000000;
static const struct sock_limits limits = {.max = 100,
    .max_host = 75,
    .max_unproved = 20,
    .max_requests = 4,
    .prove_ns = (int64_t)10 * 1000000000,
    .silent_ns = (int64_t)600 * 1000000000};

static struct sock_peer
peer(uint32_t id, enum sock_way way, uint8_t host)
{
	struct sock_peer p = {.id = id, .way = way, .port = (uint16_t)id};

	p.ip[15] = host;
	(void)snprintf(p.addr, sizeof(p.addr), way == SOCK_LOCAL ? "local" : "10.0.0.%u", host);
	return p;
}

static bool
come(struct peers *p, uint32_t id, enum sock_way way, uint8_t host, int64_t now, uint32_t *cut)
{
	struct sock_peer who = peer(id, way, host);

	enum sock_cut why;

	return peers_add(p, &who, now, cut, &why);
}

static uint32_t
go(struct peers *p, uint32_t id)
{
	uint32_t taken;

	peers_gone(p, id);
	assert_false(peers_is_here(p, id));
	assert_true(peers_take(p, &taken));
	return taken;
}

static void
silence(void **state)
{
	struct peers *p = peers_new(&limits);
	enum sock_cut why;
	uint32_t cut;

	(void)state;
	assert_true(come(p, 1, SOCK_PLAIN, 1, 0, &cut)); /* never says a word */
	assert_true(come(p, 2, SOCK_PLAIN, 1, 0, &cut)); /* says who it is, then nothing */
	assert_true(come(p, 3, SOCK_PLAIN, 1, 0, &cut)); /* waits for an answer */
	assert_true(come(p, 4, SOCK_LOCAL, 0, 0, &cut)); /* local: silent and proved */
	assert_true(come(p, 5, SOCK_LOCAL, 0, 0, &cut)); /* local: not even that */
	assert_true(come(p, 6, SOCK_PLAIN, 1, 0, &cut)); /* its hello is being looked at */
	for (uint32_t i = 2; i <= 4; i++) {
		assert_true(peers_heard(p, i, second));
		peers_bind(p, i, 100 + i, second);
		peers_answered(p, i, second);
		assert_int_equal(peers_bound(p, i), 100 + i);
	}
	assert_true(peers_heard(p, 6, second));
	assert_int_equal(peers_silent(p, 9 * second, &why), 0);
	assert_int_equal(peers_silent(p, 11 * second, &why), 1);
	assert_int_equal(why, CUT_UNPROVED);
	assert_int_equal(peers_silent(p, 11 * second, &why), 5);
	assert_int_equal(peers_silent(p, 11 * second, &why), 0); /* each is named once */
	assert_true(peers_heard(p, 3, 500 * second));
	assert_int_equal(peers_silent(p, 600 * second, &why), 0);
	assert_int_equal(peers_silent(p, 602 * second, &why), 2);
	assert_int_equal(why, CUT_SILENT);
	assert_int_equal(peers_silent(p, 100000 * second, &why), 0); /* who waits is not silent */
	peers_answered(p, 3, 100000 * second);
	assert_int_equal(peers_silent(p, 100599 * second, &why), 0);
	assert_int_equal(peers_silent(p, 100601 * second, &why), 3);
	/* what is bound to nothing any more has ten seconds again */
	peers_answered(p, 6, 200000 * second);
	peers_bind(p, 6, 7, 200000 * second);
	peers_bind(p, 6, 0, 200100 * second);
	assert_int_equal(peers_silent(p, 200109 * second, &why), 0);
	assert_int_equal(peers_silent(p, 200111 * second, &why), 6);
	peers_free(p);
}

/* One host opens connection after connection and proves nothing: it loses its own, others' stay. */
static void
strangers(void **state)
{
	struct peers *p = peers_new(&limits);
	uint32_t cut, id = 1, n_cut = 0;

	(void)state;
	for (; id <= 3; id++)
		assert_true(come(p, id, SOCK_PLAIN, (uint8_t)(100 + id), 0, &cut));
	for (; id <= 3 + 17; id++) {
		assert_true(come(p, id, SOCK_PLAIN, 1, 0, &cut));
		assert_int_equal(cut, 0);
	}
	for (; id <= 60; id++) {
		assert_true(come(p, id, SOCK_PLAIN, 1, 0, &cut));
		assert_int_equal(cut, 4 + n_cut); /* its oldest */
		n_cut++;
		assert_int_equal(go(p, cut), cut);
	}
	/* a newcomer of another host gets in, and proved ones are no strangers */
	assert_true(come(p, 200, SOCK_PLAIN, 9, 0, &cut));
	assert_int_not_equal(cut, 200);
	peers_bind(p, 200, 1, 0);
	assert_true(come(p, 201, SOCK_PLAIN, 1, 0, &cut));
	assert_int_equal(cut, 0);
	assert_true(come(p, 202, SOCK_PLAIN, 1, 0, &cut));
	assert_true(cut > 3 && cut < 200);
	for (uint32_t i = 1; i <= 3; i++)
		assert_true(peers_is_here(p, i));
	peers_free(p);
}

static void
in_all(void **state)
{
	struct peers *p = peers_new(&limits);
	uint32_t cut, id = 1;

	(void)state;
	for (; id <= 75; id++) {
		assert_true(come(p, id, SOCK_PLAIN, 1, 0, &cut));
		peers_bind(p, id, id, 0);
	}
	assert_false(come(p, id, SOCK_PLAIN, 1, 0, &cut)); /* no more of that host */
	assert_int_equal(go(p, id), id);
	for (id++; peers_count(p) < 100; id++) {
		assert_true(come(p, id, SOCK_PLAIN, 2, 0, &cut));
		peers_bind(p, id, id, 0);
	}
	assert_false(come(p, id, SOCK_PLAIN, 3, 0, &cut));
	assert_int_equal(go(p, id++), 101 + 1);
	for (int i = 0; i < 500; i++)
		assert_true(come(p, id++, SOCK_LOCAL, 0, 0, &cut));
	assert_int_equal(go(p, 5), 5);
	assert_true(come(p, id, SOCK_PLAIN, 3, 0, &cut)); /* there is room again */
	peers_free(p);
}

static void
requests(void **state)
{
	struct peers *p = peers_new(&limits);
	uint32_t cut;

	(void)state;
	assert_true(come(p, 1, SOCK_PLAIN, 1, 0, &cut));
	assert_true(come(p, 2, SOCK_LOCAL, 0, 0, &cut));
	for (int i = 0; i < 4; i++)
		assert_true(peers_heard(p, 1, 0));
	assert_false(peers_heard(p, 1, 0));
	peers_answered(p, 1, 0);
	peers_answered(p, 1, 0);
	assert_true(peers_heard(p, 1, 0));
	for (int i = 0; i < 1000; i++)
		assert_true(peers_heard(p, 2, 0));
	peers_free(p);
}

static void
ports(void **state)
{
	struct peers *p = peers_new(&limits);
	struct sock_peer a = peer(1, SOCK_PLAIN, 1), b = peer(2, SOCK_PLAIN, 2);
	enum sock_cut why;
	uint32_t cut;

	(void)state;
	assert_true(peers_add(p, &a, 0, &cut, &why));
	assert_true(peers_has_port(p, a.ip, a.port));
	assert_false(peers_has_port(p, b.ip, a.port));
	assert_false(peers_has_port(p, a.ip, b.port));
	assert_true(peers_add(p, &b, 0, &cut, &why));
	assert_int_equal(go(p, 1), 1);
	assert_false(peers_has_port(p, a.ip, a.port));
	assert_true(peers_has_port(p, b.ip, b.port));
	assert_null(peers_find(p, 1));
	assert_int_equal(peers_find(p, 2)->port, 2);
	peers_free(p);
}

/* Random lives: counts never drift (the table is empty at the end, and a full set fits again). */
static void
lives(void **state)
{
	struct peers *p = peers_new(&limits);
	struct rng r = {3};
	uint32_t here[4096], n = 0, cut, id = 0, taken;
	enum sock_cut why;
	int64_t now = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint32_t at = n ? rng_below(&r, n) : 0;

		now += rng_below(&r, 300) * (second / 100);
		switch (rng_below(&r, 7)) {
		case 0:
		case 1:
			if (n < COUNT_OF(here)) {
				bool local = rng_below(&r, 4) == 0;

				if (!come(p, ++id, local ? SOCK_LOCAL : SOCK_PLAIN,
					local ? 0 : (uint8_t)rng_below(&r, 4), now, &cut))
					cut = id;
				here[n++] = id;
				if (cut)
					peers_gone(p, cut);
			}
			break;
		case 2:
			if (n)
				peers_gone(p, here[at]);
			break;
		case 3:
			if (n)
				peers_bind(p, here[at], rng_below(&r, 2), now);
			break;
		case 4:
			if (n)
				(void)peers_heard(p, here[at], now);
			break;
		case 5:
			while ((cut = peers_silent(p, now, &why)) != 0)
				peers_gone(p, cut);
			break;
		default:
			while (peers_take(p, &taken))
				for (uint32_t k = 0; k < n; k++)
					if (here[k] == taken)
						here[k--] = here[--n];
		}
	}
	for (uint32_t k = 0; k < n; k++)
		peers_gone(p, here[k]);
	while (peers_take(p, &taken))
		;
	assert_int_equal(peers_count(p), 0);
	for (uint32_t k = 0; k < 20; k++) {
		assert_true(come(p, ++id, SOCK_PLAIN, (uint8_t)k, now, &cut));
		assert_int_equal(cut, 0);
	}
	assert_true(come(p, ++id, SOCK_PLAIN, 1, now, &cut));
	assert_int_not_equal(cut, 0);
	peers_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(silence),
	    cmocka_unit_test(strangers),
	    cmocka_unit_test(in_all),
	    cmocka_unit_test(requests),
	    cmocka_unit_test(ports),
	    cmocka_unit_test(lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
