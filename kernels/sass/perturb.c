/* kernels/sass/perturb.c: a list of moves as text, and back. */
#include "perturb.h"

#include <string.h>

struct reader {
	struct arena *a;
	struct str left;
	struct err *e;
	const char *kernel; /* whose moves are read */
};

/* ---- pieces -----------------------------------------------------------------------------------------------
 */
static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool
is_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	    c == '$';
}

static size_t
span(struct str s, bool (*is)(char))
{
	size_t n = 0;

	while (n < s.n && is(s.p[n]))
		n++;
	return n;
}

static struct str
take(struct reader *r, size_t n)
{
	const struct str s = {r->left.p, n};

	r->left.p += n;
	r->left.n -= n;
	return s;
}

static bool
skip(struct reader *r, char c)
{
	if (r->left.n == 0 || *r->left.p != c)
		return false;
	(void)take(r, 1);
	return true;
}

/* Decimal, without a sign or a leading zero: a list has one text. */
static bool
number(struct reader *r, uint32_t *out)
{
	size_t n = 0;
	uint64_t v = 0;

	while (n < r->left.n && r->left.p[n] >= '0' && r->left.p[n] <= '9' && n < 10)
		v = v * 10 + (uint64_t)(r->left.p[n++] - '0');
	if (n == 0 || v > UINT32_MAX || (n > 1 && r->left.p[0] == '0'))
		return false;
	*out = (uint32_t)v;
	(void)take(r, n);
	return true;
}

/* ---- a move -----------------------------------------------------------------------------------------------
 */
static const struct kind {
	char letter, between;
	uint32_t most;
} kinds[] = {{SASS_MOVE, '>', UINT32_MAX}, {SASS_STALL, '=', 15}, {SASS_YIELD, '=', 1}};

static bool
read_move(struct reader *r, struct sass_move *out)
{
	const struct str all = {r->left.p, MIN_OF(r->left.n, (size_t)24)};
	const struct kind *k = NULL;

	for (uint32_t n = 0; n < COUNT_OF(kinds) && r->left.n; n++)
		if (*r->left.p == kinds[n].letter)
			k = &kinds[n];
	if (k)
		(void)take(r, 1);
	if (!k || !number(r, &out->at) || !skip(r, k->between) || !number(r, &out->to) || out->to > k->most)
		return err_set(r->e, ERR_FORMAT,
		    "moves: kernel '%.64s': '%.*s' is no move: m40>37, s41=0..15 or y12=0..1 is", r->kernel,
		    STR_ARG(all));
	out->kind = (enum sass_move_kind)k->letter;
	return true;
}

static bool
read_moves(struct reader *r, struct sass_kernel_moves *out)
{
	uint32_t cap = 0;

	do {
		struct sass_move m;

		if (out->n == SASS_MOVES_MAX)
			return err_set(r->e, ERR_LIMIT, "moves: kernel '%.64s': more than %d", out->kernel,
			    SASS_MOVES_MAX);
		if (!read_move(r, &m))
			return false;
		GROW(r->a, out->move, out->n, cap);
		out->move[out->n++] = m;
	} while (skip(r, '.'));
	return true;
}

/* ---- kernels ----------------------------------------------------------------------------------------------
 */
static bool
is_there(const struct sass_moves *m, const char *kernel)
{
	for (uint32_t n = 0; n < m->n_kernels; n++)
		if (strcmp(m->kernel[n].kernel, kernel) == 0)
			return true;
	return false;
}

static bool
read_kernel(struct reader *r, struct sass_moves *out)
{
	const struct str name = take(r, span(r->left, is_name));

	if (name.n == 0 || name.n > SASS_NAME_MAX || !skip(r, '.'))
		return err_set(r->e, ERR_FORMAT,
		    "moves: a kernel's name, of letters, digits, _ and $, and a dot are to stand before "
		    "'%.*s'",
		    (int)MIN_OF(r->left.n, (size_t)24), r->left.p);
	struct sass_kernel_moves k = {.kernel = str_dup(r->a, name)};

	r->kernel = k.kernel;
	if (is_there(out, k.kernel))
		return err_set(r->e, ERR_FORMAT, "moves: kernel '%.64s' stands there twice", k.kernel);
	if (!read_moves(r, &k))
		return false;
	out->kernel[out->n_kernels++] = k;
	return true;
}

static bool
read_digest(struct reader *r, struct sass_moves *out)
{
	if (span(r->left, is_hex) != SASS_DIGEST)
		return err_set(r->e, ERR_FORMAT,
		    "moves: they begin with %d hex digits of the base's SHA-256 and a colon", SASS_DIGEST);
	memcpy(out->digest, take(r, SASS_DIGEST).p, SASS_DIGEST);
	return skip(r, ':') ||
	    err_set(r->e, ERR_FORMAT, "moves: behind the digest '%s' a colon is to stand", out->digest);
}

bool
sass_moves_read(struct arena *a, struct str text, struct sass_moves *out, struct err *e)
{
	struct reader r = {.a = a, .left = text, .e = e};

	*out = (struct sass_moves){.digest = ""};
	if (text.n > SASS_MOVES_TEXT)
		return err_set(e, ERR_LIMIT, "moves: more than %d bytes", SASS_MOVES_TEXT);
	if (!read_digest(&r, out))
		return false;
	out->kernel = NEW_ARRAY(a, struct sass_kernel_moves, SASS_MOVES_KERNELS);
	if (r.left.n == 0)
		return true;
	do {
		if (out->n_kernels == SASS_MOVES_KERNELS)
			return err_set(e, ERR_LIMIT, "moves: of more than %d kernels", SASS_MOVES_KERNELS);
		if (!read_kernel(&r, out))
			return false;
	} while (skip(&r, ','));
	if (r.left.n)
		return err_set(e, ERR_FORMAT,
		    "moves: kernel '%.64s': '%.*s' follows a move: a dot, a comma or nothing is to", r.kernel,
		    (int)MIN_OF(r.left.n, (size_t)24), r.left.p);
	return true;
}

struct str
sass_moves_print(struct arena *a, const struct sass_moves *m)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, m->digest);
	sb_addc(&sb, ':');
	for (uint32_t n = 0; n < m->n_kernels; n++) {
		if (n)
			sb_addc(&sb, ',');
		sb_addz(&sb, m->kernel[n].kernel);
		for (uint32_t q = 0; q < m->kernel[n].n; q++) {
			const struct sass_move *x = &m->kernel[n].move[q];

			sb_addc(&sb, '.');
			sb_addc(&sb, (char)x->kind);
			sb_addi(&sb, x->at);
			sb_addc(&sb, x->kind == SASS_MOVE ? '>' : '=');
			sb_addi(&sb, x->to);
		}
	}
	return sb_str(&sb);
}

void
sass_moves_digest(struct bytes base, char out[SASS_DIGEST + 1])
{
	const struct hash h = hash_bytes(base.p, base.n);
	char hex[65];

	hash_hex(&h, hex);
	memcpy(out, hex, SASS_DIGEST);
	out[SASS_DIGEST] = 0;
}
