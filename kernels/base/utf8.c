/* kernels/base/utf8.c: see utf8.h. */
#include "utf8.h"

int32_t
utf8_at(struct str s, size_t *n)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const uint8_t *p = (const uint8_t *)s.p;
	uint32_t c = p[0];
	size_t want = c < 0x80      ? 1
	    : c >= 0xc2 && c < 0xe0 ? 2
	    : c >= 0xe0 && c < 0xf0 ? 3
	    : c >= 0xf0 && c < 0xf5 ? 4
				    : 0;

	*n = 1;
	if (want == 1)
		return (int32_t)c;
	if (want == 0 || want > s.n)
		return -1;
	c &= 0x7fu >> want;
	for (size_t i = 1; i < want; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return -1;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[want] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return -1;
	*n = want;
	return (int32_t)c;
}

bool
utf8_is_hidden(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c < 0x2010) ||
	    (c >= 0x2028 && c < 0x2030) || (c >= 0x2060 && c < 0x2070) || c == 0xfeff;
}

struct str
utf8_plain(struct str *rest)
{
	size_t n;
	bool is_hidden = utf8_is_hidden(utf8_at(*rest, &n));
	struct str c = {rest->p, n};

	rest->p += n;
	rest->n -= n;
	return is_hidden ? STR("?") : c;
}

void
utf8_add_plain(struct strbuf *sb, struct str s)
{
	while (s.n)
		sb_add(sb, utf8_plain(&s));
}
