/* tests/opt_sass.c: GPU machine code: what each instruction is, reads and writes, blocks, loops, guards. */
#include "../kernels/sass/decode.h"
#include "opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 4096 };

/* ---- words as text: "lo hi" in hex, a line each ------------------------------------------------- */
static bool
read_word(struct str line, uint64_t word[2], struct err *e)
{
	char text[64];
	char *end = text;

	(void)snprintf(text, sizeof(text), "%.*s", STR_ARG(line));
	for (int i = 0; i < 2; i++) {
		word[i] = strtoull(end, &end, 16);
		end += strspn(end, " ");
	}
	if (*end || line.n < 3)
		return err_set(e, ERR_USAGE, "not two words in hex: '%.*s'", STR_ARG(line));
	return true;
}

static bool
read_words(struct opt_call *c, struct sass_kernel *k, struct err *e)
{
	struct str rest = c->text;
	uint64_t(*words)[2] = arena_alloc(c->a, MAX_WORDS * sizeof(*words));

	while (rest.n) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n == 0 || *line.p == '#')
			continue;
		if (k->n_instr == MAX_WORDS || !read_word(line, words[k->n_instr++], e))
			return e->code ? false : err_set(e, ERR_LIMIT, "more than %d words", MAX_WORDS);
	}
	if (k->n_instr == 0)
		return err_set(e, ERR_USAGE, "no words");
	k->instr = NEW_ARRAY(c->a, struct sass_instr, k->n_instr);
	for (uint32_t i = 0; i < k->n_instr; i++)
		sass_decode(words[i][0], words[i][1], k->sm, i, k->n_instr, &k->instr[i]);
	sass_find_blocks(c->a, k);
	return true;
}

static bool
read_kernel(struct opt_call *c, struct sass_kernel *k, struct err *e)
{
	int64_t sm = 0;

	if (str_starts(c->text, "\177ELF"))
		return sass_read(c->a, (struct bytes){(const uint8_t *)c->text.p, c->text.n},
		    opt_arg(c, "--kernel", "k_p0"), k, e);
	if (!str_to_i64(str_of(opt_arg(c, "--sm", "80")), &sm))
		return err_set(e, ERR_USAGE, "--sm=NUMBER");
	*k = (struct sass_kernel){.name = "words", .sm = (int)sm};
	return read_words(c, k, e);
}

/* ---- printing ------------------------------------------------------------------------------------- */
static void
print_bits(struct strbuf *out, const char *file, const uint64_t *bits, int n)
{
	for (int r = 0; r < n; r++)
		if (bits[r >> 6] >> (r & 63) & 1)
			sb_addf(out, " %s%d", file, r);
}

static void
print_set(struct strbuf *out, const struct sass_set *s)
{
	const uint64_t p = s->p, up = s->up;

	if (memcmp(s->r, sass_everything.r, sizeof(s->r)) == 0) {
		sb_addz(out, " everything");
		return;
	}
	print_bits(out, "R", s->r, 256);
	print_bits(out, "UR", &s->u, 64);
	print_bits(out, "P", &p, 8);
	print_bits(out, "UP", &up, 8);
}

static const struct {
	uint32_t flag;
	const char *name;
} flags[] = {{SASS_WALL, "wall"}, {SASS_VARIABLE, "variable"}, {SASS_LOAD, "load"}, {SASS_STORE, "store"},
    {SASS_ENDS, "ends"}, {SASS_UNKNOWN, "unknown"}};

static void
print_instr(struct strbuf *out, const struct sass_instr *i, uint32_t at)
{
	static const char *const spaces[] = {"", " global", " shared", " local", " constant", " anywhere"};
	char control[32];

	sass_print_control(control, i);
	sb_addf(out, "%u %s %s:", at, control, i->op->name);
	print_set(out, &i->defs);
	sb_addz(out, " <-");
	print_set(out, &i->uses);
	if (i->guard != SASS_PT || i->guard_negated)
		sb_addf(out, " @%s%d", i->guard_negated ? "!" : "", i->guard);
	if (i->mma_bits)
		sb_addf(out, " %ux%ux%u of %u bits", i->mma_m, i->mma_n, i->mma_k, i->mma_bits);
	if (i->bytes)
		sb_addf(out, " %u bytes%s", i->bytes, spaces[i->op->space]);
	if (i->flags & SASS_BRANCH)
		sb_addf(out, " to %d", i->target);
	for (uint32_t f = 0; f < COUNT_OF(flags); f++)
		if (i->flags & flags[f].flag)
			sb_addf(out, " %s", flags[f].name);
	sb_addf(out, "%s\n", i->is_pinned ? " pinned" : "");
}

static void
print_guards(struct strbuf *out, const char *what, const char *file, const uint8_t *by, int n)
{
	for (int r = 0; r < n; r++) {
		if (!by[r])
			continue;
		sb_addf(out, "    %s%d %s", file, r, what);
		for (int b = 0; b < SASS_BARRIERS; b++)
			if (by[r] >> b & 1)
				sb_addf(out, " %d", b);
		sb_addz(out, "\n");
	}
}

static void
print_flow(struct strbuf *out, const struct sass_flow *f, uint32_t at)
{
	struct sass_guards g;

	sass_guards_before(f, at, &g);
	print_guards(out, "will be written, wait for", "R", g.writes, 256);
	print_guards(out, "will be written, wait for", "UR", g.uniform_writes, 64);
	print_guards(out, "will be written, wait for", "P", g.predicate_writes, 8);
	print_guards(out, "will be read, wait for one of", "R", g.reads, 256);
	print_guards(out, "will be read, wait for one of", "UR", g.uniform_reads, 64);
	print_guards(out, "will be read, wait for one of", "P", g.predicate_reads, 8);
}

static void
print_shape(struct strbuf *out, const struct sass_kernel *k)
{
	const struct sass_loop *hot = sass_hot(k);

	for (uint32_t i = 0; i < k->n_blocks; i++) {
		const struct sass_block *b = &k->block[i];

		sb_addf(out, "block %u: %u..%u ->", i, b->first, b->end - 1);
		for (uint32_t q = 0; q < b->n_next; q++)
			sb_addf(out, " %u", b->next[q]);
		sb_addf(out, "%s\n", b->leaves_unknown ? " unknown" : "");
	}
	for (uint32_t i = 0; i < k->n_loops; i++)
		sb_addf(out, "loop %u..%u%s\n", k->loop[i].first, k->loop[i].last,
		    &k->loop[i] == hot ? " hot" : "");
}

bool
opt_sass(struct opt_call *c, struct err *e)
{
	struct sass_kernel k;
	struct sass_flow *f;

	if (!read_kernel(c, &k, e))
		return false;
	f = sass_flow(c->a, &k);
	for (uint32_t i = 0; i < k.n_instr; i++) {
		if (opt_arg(c, "--flow", NULL))
			print_flow(c->out, f, i);
		print_instr(c->out, &k.instr[i], i);
	}
	if (opt_arg(c, "--blocks", NULL))
		print_shape(c->out, &k);
	return true;
}
