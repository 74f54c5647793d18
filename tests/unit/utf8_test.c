/* Text that others wrote: what is a character, and what of it a terminal may be given. */
#include "../../kernels/base/json.h"
#include "../../kernels/base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LIT(s)                                                                                               \
	{                                                                                                    \
		"" s, sizeof(s) - 1                                                                          \
	}
#define NONE "\xef\xbf\xbd"
/* What begins with which code point of how many bytes; the whole on a terminal, and as JSON. */
static const struct {
	struct str text;
	int32_t c;
	size_t n;
	const char *plain, *json;
} rows[] = {
    {LIT("a\tb"), 'a', 1, "a?b", "\"a\\u0009b\""},
    {LIT("\x1b[31mred"), 0x1b, 1, "?[31mred", "\"\\u001b[31mred\""}, {LIT("\0z"), 0, 1, "?z", "\"\\u0000z\""},
    {LIT("\x7f"), 0x7f, 1, "?", "\"\\u007f\""},
    {LIT("\xc3\xa9t\xc3\xa9"), 0xe9, 2, "\xc3\xa9t\xc3\xa9", "\"\xc3\xa9t\xc3\xa9\""},
    {LIT("\xc2\x9b"
	 "2J"),
	0x9b, 2, "?2J",
	"\"\xc2\x9b"
	"2J\""}, /* CSI as one character */
    {LIT("\xe2\x80\xae"
	 "txt"),
	0x202e, 3, "?txt",
	"\"\xe2\x80\xae"
	"txt\""},                                                                      /* right to left */
    {LIT("\xe2\x80\x8b"), 0x200b, 3, "?", "\"\xe2\x80\x8b\""},                         /* no width */
    {LIT("\xf0\x9f\x98\x80"), 0x1f600, 4, "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""}, /* above 2^16 */
    {LIT("\xf4\x8f\xbf\xbf"), 0x10ffff, 4, "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\""},
    /* none at all */
    {LIT("\xff"), -1, 1, "?", "\"" NONE "\""}, {LIT("\x80"), -1, 1, "?", "\"" NONE "\""},
    {LIT("\xc3"), -1, 1, "?", "\"" NONE "\""},                               /* cut off */
    {LIT("\xe2\x82"), -1, 1, "??", "\"" NONE NONE "\""},                     /* likewise */
    {LIT("\xe2\x82y"), -1, 1, "??y", "\"" NONE NONE "y\""},                  /* broken off */
    {LIT("\xc0\x80"), -1, 1, "??", "\"" NONE NONE "\""},                     /* too long */
    {LIT("\xe0\x80\x80"), -1, 1, "???", "\"" NONE NONE NONE "\""},           /* likewise */
    {LIT("\xf0\x80\x80\x80"), -1, 1, "????", "\"" NONE NONE NONE NONE "\""}, /* likewise */
    {LIT("\xed\xa0\x80"), -1, 1, "???", "\"" NONE NONE NONE "\""},           /* half of a pair */
    {LIT("\xf4\x90\x80\x80"), -1, 1, "????", "\"" NONE NONE NONE NONE "\""}, /* beyond the last */
};

static void
each_row(void **state)
{
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct strbuf plain, json;
		size_t n = 0;

		assert_int_equal(utf8_at(rows[i].text, &n), rows[i].c);
		assert_int_equal(n, rows[i].n);
		sb_init(&plain, &a);
		utf8_add_plain(&plain, rows[i].text);
		assert_string_equal(plain.p, rows[i].plain);
		sb_init(&json, &a);
		json_text(&json, rows[i].text);
		assert_string_equal(json.p, rows[i].json);
	}
	arena_fini(&a);
}

/* Whatever the bytes, each is taken once and no more than there are. */
static void
any_bytes(void **state)
{
	(void)state;
	for (uint32_t v = 0; v < 1u << 16; v++) {
		char p[2] = {(char)(v >> 8), (char)(v & 255)};
		struct str rest = {p, 2};
		size_t sum = 0, before = 2;

		while (rest.n) {
			(void)utf8_plain(&rest);
			assert_true(rest.n < before && rest.p == p + 2 - rest.n);
			sum += before - rest.n;
			before = rest.n;
		}
		assert_int_equal(sum, 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_row), cmocka_unit_test(any_bytes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
