/* proto/ticket.c: a ticket is a code over the grant, by a secret of the data folder: the daemon keeps no list
 * of what it has granted, and knows its own grants after a crash. */
#include "ticket.h"

static void
add_u64(struct strbuf *sb, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		sb_addc(sb, (char)(v >> 8 * i & 255));
}

void
ticket_make(const uint8_t secret[SECRET_BYTES], const struct ticket *t, uint8_t out[HMAC_BYTES])
{
	static const char purpose[] = "korch ticket 1";
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	sb_add(&sb, (struct str){purpose, sizeof(purpose)});
	sb_add(&sb, (struct str){(const char *)t->key.b, sizeof(t->key.b)});
	add_u64(&sb, t->gen);
	add_u64(&sb, t->kind);
	sb_add(&sb, (struct str){(const char *)t->env.b, sizeof(t->env.b)});
	add_u64(&sb, t->who.n);
	sb_add(&sb, t->who);
	hmac_of((struct bytes){secret, SECRET_BYTES}, (struct bytes){(const uint8_t *)sb.p, sb.n}, out);
	arena_fini(&tmp);
}

bool
ticket_holds(const uint8_t secret[SECRET_BYTES], const struct ticket *t, struct bytes shown)
{
	uint8_t want[HMAC_BYTES];

	ticket_make(secret, t, want);
	return hmac_same(want, shown);
}
