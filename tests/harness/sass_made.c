/* tests/harness/sass_made.c: machine code from lines. */
#include "sass_made.h"
#include "../../kernels/sass/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Twelve bits of opcode and form; what the upper half has where no field is given. */
static const struct op {
	const char *name;
	uint64_t code, hi;
} ops[] = {
    {"FFMA", 0x223, 0},
    {"FADD", 0x221, 0},
    {"MOV", 0x202, 0xf00},
    {"IADD3", 0x210, 0x07ffe000},
    {"IMAD", 0x224, 0x078e0000},
    {"ISETP", 0x20c, 0x03f05070},
    {"MUFU", 0x308, 0x1000},
    {"HMMA", 0x23c, 0x1800},
    {"HMMA884", 0x236, 0x5400},
    {"LDS", 0x984, 0x800},
    {"STS", 0x388, 0x800},
    {"LDG", 0x981, 0x1e1900},
    {"STG", 0x986, 0x101900},
    {"LDGSTRONG", 0x981, 0x1f5900},
    {"LDGSTS", 0xfae, 0x01901a00},
    {"CS2R", 0x805, 0xff00},
    {"CLOCK", 0x805, 0x5000},
    {"NOP", 0x918, 0},
    {"BAR", 0xb1d, 0},
    {"BRA", 0x947, 0x03800000},
    {"EXIT", 0x94d, 0x03800000},
    {"UNKNOWN", 0x1ff, 0},
};

struct word {
	uint64_t lo, hi;
	uint32_t at;
	bool pinned;
};

static void
put(struct word *w, unsigned first, unsigned n, uint64_t value)
{
	uint64_t *half = first < 64 ? &w->lo : &w->hi;
	const uint64_t mask = ((UINT64_C(1) << n) - 1) << (first & 63);

	*half = (*half & ~mask) | (value << (first & 63) & mask);
}

/* Places of fields that are a letter and a number. */
static const struct field {
	char letter;
	uint8_t first, n;
} fields[] = {{'d', 16, 8}, {'a', 24, 8}, {'b', 32, 8}, {'c', 64, 8}, {'o', 40, 24}, {'p', 81, 3},
    {'u', 122, 3}, {'f', 73, 3}, {'S', 105, 4}, {'W', 110, 3}, {'R', 113, 3}};

static void
branch(struct word *w, int64_t to)
{
	const int64_t quarters = (to - (int64_t)w->at - 1) * SASS_BYTES / 4;

	put(w, 34, 30, (uint64_t)quarters & 0x3fffffff);
	put(w, 64, 18, (uint64_t)(quarters >> 30) & 0x3ffff);
}

static bool
add_guard(struct word *w, struct str s)
{
	const bool negated = s.n > 1 && s.p[1] == '!';
	const char *p = s.p + 1 + negated;

	if (s.n < 3u + negated || p[0] != 'P')
		return false;
	put(w, 12, 3, p[1] == 'T' ? SASS_PT : (uint64_t)(p[1] - '0'));
	put(w, 15, 1, negated);
	return true;
}

static bool
add_word(struct word *w, struct str s)
{
	int64_t v = 0;

	if (str_is(s, "Y")) {
		put(w, 109, 1, 0);
		return true;
	}
	if (str_is(s, "pin"))
		return w->pinned = true;
	if (s.n < 2 || !str_to_i64((struct str){s.p + 1, s.n - 1}, &v))
		return false;
	if (*s.p == 'B')
		for (size_t n = 1; n < s.n; n++)
			put(w, 116u + (unsigned)(s.p[n] - '0'), 1, 1);
	else if (*s.p == 't')
		branch(w, v);
	else if (*s.p == 'q') { /* a uniform register of the address */
		put(w, 91, 1, 1);
		put(w, (w->lo & 0x1ff) == 0x181 || (w->lo & 0x1ff) == 0x184 ? 32 : 64, 6, (uint64_t)v);
	} else {
		for (uint32_t n = 0; n < COUNT_OF(fields); n++)
			if (fields[n].letter == *s.p) {
				put(w, fields[n].first, fields[n].n, (uint64_t)v);
				return true;
			}
		return false;
	}
	return true;
}

static bool
begin(struct word *w, struct str name)
{
	for (uint32_t n = 0; n < COUNT_OF(ops); n++)
		if (str_is(name, ops[n].name)) {
			w->lo |= ops[n].code | (uint64_t)0xffff << 16; /* RZ */
			w->hi |= ops[n].hi | UINT64_C(1) << (109 - 64) | UINT64_C(7) << (110 - 64) |
			    UINT64_C(7) << (113 - 64) | UINT64_C(1) << (105 - 64);
			return true;
		}
	return false;
}

bool
made_word(struct str line, uint32_t at, uint64_t *lo, uint64_t *hi, bool *pinned)
{
	struct word w = {.lo = (uint64_t)SASS_PT << 12, .at = at};
	struct str s = str_cut(&line, ' ');

	if (s.n && *s.p == '@') {
		if (!add_guard(&w, s))
			return false;
		s = str_cut(&line, ' ');
	}
	if (!begin(&w, s))
		return false;
	while (line.n)
		if ((s = str_cut(&line, ' ')).n && !add_word(&w, s))
			return false;
	*lo = w.lo;
	*hi = w.hi;
	*pinned = w.pinned;
	return true;
}

bool
made_kernel(struct arena *a, const char *text, int sm, struct sass_kernel *out)
{
	struct str left = str_of(text);

	*out = (struct sass_kernel){.name = "made", .sm = sm};
	out->instr = NEW_ARRAY(a, struct sass_instr, MADE_MAX);
	uint32_t n_lines = 0;

	for (struct str rest = left; rest.n;)
		n_lines += str_trim(str_cut(&rest, '\n')).n != 0;
	while (left.n) {
		const struct str line = str_trim(str_cut(&left, '\n'));
		uint64_t lo, hi;
		bool pinned;

		if (line.n == 0)
			continue;
		if (out->n_instr == MADE_MAX || !made_word(line, out->n_instr, &lo, &hi, &pinned)) {
			printf("no instruction: %.*s\n", STR_ARG(line));
			return false;
		}
		sass_decode(lo, hi, sm, out->n_instr, n_lines, &out->instr[out->n_instr]);
		out->instr[out->n_instr++].is_pinned = pinned;
	}
	sass_find_blocks(a, out);
	return true;
}

bool
made_cubin(struct arena *a, struct bytes like, const char *text, struct bytes *out)
{
	const char *const *names;
	struct sass_kernel k;
	struct err e = {0};
	struct str left = str_of(text);
	uint32_t n;

	if (!sass_names(a, like, &names, &n, &e) || n == 0 || !sass_read(a, like, names[0], &k, &e))
		return false;
	uint8_t *p = arena_dup(a, like.p, like.n);

	for (uint32_t at = 0; at < k.n_instr; at++) {
		struct str line = str_trim(str_cut(&left, '\n'));
		uint64_t word[2];
		bool pinned;

		if (line.n == 0)
			line = STR("NOP");
		if (!made_word(line, at, &word[0], &word[1], &pinned))
			return false;
		memcpy(p + k.at + (size_t)at * SASS_BYTES, word, sizeof(word));
	}
	*out = (struct bytes){p, like.n};
	return true;
}
