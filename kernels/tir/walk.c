/* kernels/tir/walk.c: the tables of statements as data, and what a program has where. */
#include "tir.h"

#include <string.h>

#define NEST 1
#define FLAT 2
#define BOTH 3
const struct st_info st_info[ST_COUNT] = {
#define ST(N, LEVELS, BODY, TEXT)                                                                            \
	{.name = #N, .text = TEXT, .nest = ((LEVELS)&NEST) != 0, .flat = ((LEVELS)&FLAT) != 0, .body = BODY},
#include "tir.def"
#undef ST
};
/* Letters of a row that code asks for, a bit each. */
#define LETTER(TEXT, C) (__builtin_strchr(TEXT, C) ? 1u << (C - 'A') : 0u)
static const uint32_t letters_of[ST_COUNT] = {
#define ST(N, LEVELS, BODY, T)                                                                               \
	LETTER(T, 'N') | LETTER(T, 'F') | LETTER(T, 'T') | LETTER(T, 'R') | LETTER(T, 'A') | LETTER(T, 'X'),
#include "tir.def"
#undef ST
};
const struct comb_info comb_info[COMB_COUNT] = {
#define COMB(N, ARITY, EXACT, HELP) {.name = #N, .arity = ARITY, .exact = EXACT},
#include "comb.def"
#undef COMB
};
const struct intrin_info intrin_info[INTRIN_COUNT] = {
#define INTRIN(N, ARGS, COMB, TEXT, CUDA, HELP)                                                              \
	{.name = #N, .args = ARGS, .text = TEXT, .cuda = CUDA, .comb = COMB},
#include "intrin.def"
#undef INTRIN
};
#define X(N) #N,
const char *const tir_scope_name[SCOPE_COUNT] = {TIR_SCOPES(X)};
const char *const tir_bind_name[BIND_COUNT] = {TIR_BINDS(X)};
#undef X

bool
st_has(enum st_op op, char field)
{
	return letters_of[op] >> (field - 'A') & 1;
}

bool
tir_arg_is(const struct st *call, uint32_t k, const char *letters)
{
	return call->op == ST_call && strchr(letters, intrin_info[call->ref].args[k]) != NULL;
}

int64_t
intrin_moves(enum intrin what)
{
	return what == INTRIN_move_16 ? 16 : what == INTRIN_move_8 ? 8 : what == INTRIN_move_4 ? 4 : 0;
}

bool
st_is_thread(const struct st *s)
{
	return s->op == ST_for && (s->bind == BIND_warp || s->bind == BIND_lane);
}

bool
st_is_gpu_loop(const struct st *s)
{
	return st_is_thread(s) || (s->op == ST_for && s->bind == BIND_block);
}

uint32_t
tir_path(const struct tir *p, st_id at, st_id *out)
{
	uint32_t n = 0;

	for (st_id i = p->st[at].up; i != ST_NONE; i = p->st[i].up)
		n++;
	for (st_id i = p->st[at].up, k = n; i != ST_NONE; i = p->st[i].up)
		out[--k] = i;
	return n;
}

st_id
tir_find_loop(const struct tir *p, struct str name)
{
	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_for && strncmp(p->st[i].name, name.p, name.n) == 0 &&
		    p->st[i].name[name.n] == 0)
			return i;
	return ST_NONE;
}

blk_id
tir_find_blk(const struct tir *p, struct str name)
{
	for (blk_id b = 0; b < p->n_blk; b++)
		if (str_is(name, p->blk[b].name))
			return b;
	return BLK_NONE;
}

void
tir_each(const struct tir *p, const struct st *s, void (*on_ix)(void *self, ix_id i),
    void (*on_ex)(void *self, ex_id e), void *self)
{
	if (st_has(s->op, 'F'))
		on_ix(self, s->from);
	if (st_has(s->op, 'T'))
		on_ix(self, s->to);
	for (uint32_t k = 0; k < s->n_guard; k++)
		on_ix(self, p->guard[s->guard0 + k].i);
	if (st_has(s->op, 'A')) {
		struct ixv v = ixv_get(p->tx, s->at);

		for (uint32_t k = 0; k < v.n; k++)
			on_ix(self, v.i[k]);
	}
	if (st_has(s->op, 'X'))
		on_ex(self, s->value);
	for (uint32_t k = 0; k < s->n_arg; k++)
		on_ex(self, p->arg[s->arg0 + k]);
}
