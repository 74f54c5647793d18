/* kernels/base/str.c: strings to read and strings to build. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct str
str_of(const char *cstr)
{
	return (struct str){cstr ? cstr : "", cstr ? strlen(cstr) : 0};
}

bool
str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool
str_is(struct str a, const char *b)
{
	return str_eq(a, str_of(b));
}

int
str_cmp(struct str a, struct str b)
{
	size_t n = MIN_OF(a.n, b.n);
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

bool
str_starts(struct str s, const char *prefix)
{
	struct str p = str_of(prefix);

	return s.n >= p.n && str_eq((struct str){s.p, p.n}, p);
}

struct str
str_cut(struct str *rest, char sep)
{
	const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
	struct str head = *rest;

	if (!at) {
		*rest = (struct str){rest->p + rest->n, 0};
		return head;
	}
	head.n = (size_t)(at - rest->p);
	rest->p += head.n + 1;
	rest->n -= head.n + 1;
	return head;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str
str_trim(struct str s)
{
	while (s.n && is_blank(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

char *
str_dup(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, ck_add(s.n, 1));

	if (s.n)
		memcpy(p, s.p, s.n);
	return p;
}

/* The C library's number readers want a terminated string; numbers are short. */
static bool
terminate(struct str s, char buf[64])
{
	if (s.n == 0 || s.n > 63 || is_blank(s.p[0]))
		return false;
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	return true;
}

bool
str_to_i64(struct str s, int64_t *out)
{
	char buf[64], *end;
	long long v;

	if (!terminate(s, buf))
		return false;
	errno = 0;
	v = strtoll(buf, &end, 10);
	if (errno || end != buf + s.n)
		return false;
	*out = v;
	return true;
}

bool
str_to_f64(struct str s, double *out)
{
	char buf[64], *end;
	double v;

	if (!terminate(s, buf))
		return false;
	v = strtod(buf, &end);
	if (end != buf + s.n)
		return false;
	*out = v;
	return true;
}

void
sb_init(struct strbuf *sb, struct arena *a)
{
	*sb = (struct strbuf){.a = a, .p = arena_alloc(a, 64), .cap = 64};
}

static void
reserve(struct strbuf *sb, size_t more)
{
	size_t need = ck_add(ck_add(sb->n, more), 1);
	char *p;

	if (need <= sb->cap)
		return;
	sb->cap = MAX_OF(need, ck_mul(sb->cap, 2));
	p = arena_alloc(sb->a, sb->cap);
	memcpy(p, sb->p, sb->n);
	sb->p = p;
}

void
sb_add(struct strbuf *sb, struct str s)
{
	reserve(sb, s.n);
	if (s.n)
		memcpy(sb->p + sb->n, s.p, s.n);
	sb->n += s.n;
	sb->p[sb->n] = '\0';
}

void
sb_addz(struct strbuf *sb, const char *cstr)
{
	sb_add(sb, str_of(cstr));
}

void
sb_addc(struct strbuf *sb, char c)
{
	sb_add(sb, (struct str){&c, 1});
}

void
sb_addi(struct strbuf *sb, int64_t v)
{
	char buf[20], *p = buf + sizeof(buf);
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		sb_addc(sb, '-');
	sb_add(sb, (struct str){p, (size_t)(buf + sizeof(buf) - p)});
}

void
sb_adda(struct strbuf *sb, double v)
{
	char buf[16], *p = buf;
	uint64_t bits, digits;
	int exponent;

	memcpy(&bits, &v, sizeof(bits));
	exponent = (int)(bits >> 52 & 0x7ff);
	digits = bits << 12;
	if (exponent == 0x7ff || (exponent == 0 && digits)) { /* infinite, not a number, denormal */
		sb_addf(sb, "%a", v);
		return;
	}
	sb_addz(sb, bits >> 63 ? "-0x" : "0x");
	*p++ = exponent ? '1' : '0';
	if (digits)
		*p++ = '.';
	for (; digits; digits <<= 4)
		*p++ = "0123456789abcdef"[digits >> 60];
	sb_add(sb, (struct str){buf, (size_t)(p - buf)});
	sb_addc(sb, 'p');
	exponent -= exponent ? 1023 : 0;
	if (exponent >= 0)
		sb_addc(sb, '+');
	sb_addi(sb, exponent);
}

void
sb_vaddf(struct strbuf *sb, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	if (!fmt)
		bug("no format");
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		bug("bad format '%s'", fmt);
	reserve(sb, (size_t)n);
	(void)vsnprintf(sb->p + sb->n, (size_t)n + 1, fmt, ap);
	sb->n += (size_t)n;
}

void
sb_addf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sb_vaddf(sb, fmt, ap);
	va_end(ap);
}

struct str
sb_str(const struct strbuf *sb)
{
	return (struct str){sb->p, sb->n};
}
