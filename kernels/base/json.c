/* kernels/base/json.c: see json.h. */
#include "json.h"

/* Length of the UTF-8 sequence at p, 0 if it is none. */
static size_t
utf8_length(const uint8_t *p, size_t n)
{
	size_t want = p[0] < 0x80         ? 1
	    : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
	    : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
	    : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
					  : 0;

	if (want == 0 || want > n)
		return 0;
	for (size_t i = 1; i < want; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return want;
}

void
json_text(struct strbuf *sb, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;

	sb_addc(sb, '"');
	for (size_t i = 0; i < s.n;) {
		size_t n = utf8_length(p + i, s.n - i);

		if (n == 0) {
			sb_addz(sb, "\xef\xbf\xbd");
			n = 1;
		} else if (p[i] == '"' || p[i] == '\\')
			sb_addf(sb, "\\%c", p[i]);
		else if (p[i] == '\n')
			sb_addz(sb, "\\n");
		else if (p[i] < 0x20 || p[i] == 0x7f)
			sb_addf(sb, "\\u%04x", (unsigned)p[i]);
		else
			sb_add(sb, (struct str){s.p + i, n});
		i += n;
	}
	sb_addc(sb, '"');
}
