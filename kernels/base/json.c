/* kernels/base/json.c: see json.h. */
#include "json.h"
#include "utf8.h"

void
json_text(struct strbuf *sb, struct str s)
{
	size_t n;

	sb_addc(sb, '"');
	for (size_t i = 0; i < s.n; i += n) {
		int32_t c = utf8_at((struct str){s.p + i, s.n - i}, &n);

		if (c < 0)
			sb_addz(sb, "\xef\xbf\xbd");
		else if (c == '"' || c == '\\')
			sb_addf(sb, "\\%c", (char)c);
		else if (c == '\n')
			sb_addz(sb, "\\n");
		else if (c < 0x20 || c == 0x7f)
			sb_addf(sb, "\\u%04x", (unsigned)c);
		else
			sb_add(sb, (struct str){s.p + i, n});
	}
	sb_addc(sb, '"');
}
