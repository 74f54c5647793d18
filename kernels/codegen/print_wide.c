/* kernels/codegen/print_wide.c: a loop over lanes as vectors, which wide.c has found: each as text, or a loop
 * over those that are whole.  A value that is the same for all lanes stays a scalar: operators of C take
 * both. */
#include "codegen_int.h"

const char *
wide_text(enum prim prim)
{
	return prim == PRIM_div ? "($0 / $1)" : prim == PRIM_recip ? "(1.0f / $0)" : prim_info[prim].text;
}

/* The variable of the vector that begins at element `at` of a row. */
static const char *
print_vector_name(struct printing *g, buf_id b, int64_t at)
{
	const int64_t n = g->p->buf[b].dim[0], lanes = g->wide.buf[b];

	if (at < n - n % lanes)
		return arena_printf(g->a, "%s[%lld]", print_buf(g, b), (long long)(at / lanes));
	return arena_printf(g->a, "%s_%lld", print_buf(g, b), (long long)at);
}

/* So many elements of the row as the loop goes by, from `at` on: a vector, or a part of one. */
static const char *
print_part(struct printing *g, buf_id b, int64_t at)
{
	const int64_t n = g->p->buf[b].dim[0], lanes = g->wide.buf[b], off = at % lanes;
	const char *name = print_vector_name(g, b, at - (at < n - n % lanes ? off : 0));

	if (at >= n - n % lanes || g->vec == lanes)
		return name;
	if (g->vec == 1)
		return arena_printf(g->a, "%s[%lld]", name, (long long)off);
	return arena_printf(g->a, "k_part%u_%lld(%s, %lld)", g->vec, (long long)lanes, name, (long long)off);
}

void
print_vectors(struct printing *g, buf_id b)
{
	const int64_t n = g->p->buf[b].dim[0], lanes = g->wide.buf[b], whole = n - n % lanes;

	if (whole)
		print_line(
		    g, "k_v%lld %s[%lld];", (long long)lanes, print_buf(g, b), (long long)(whole / lanes));
	for (int64_t at = whole, part; at < n; at += part) {
		part = wide_part(n - at, (uint32_t)lanes);
		print_line(g, "%s %s;", part == 1 ? "float" : arena_printf(g->a, "k_v%lld", (long long)part),
		    print_vector_name(g, b, at));
	}
}

/* The element of lane `k`. */
static ix_id
index_of_lane(const struct printing *g, ix_id i, uint32_t k)
{
	struct tx *x = g->p->tx;
	const ix_id to = g->lane_loops ? ix_addc(x, ix_axis(x, g->lane), k) : ix_const(x, g->lane_at + k);
	const struct tx_subst sub = {.to = &to, .first = g->lane, .n = 1};

	return ix_subst(x, &sub, i);
}

/* Elements where a table says, one by one. */
static const char *
print_gathered(struct printing *g, buf_id b, ix_id i)
{
	const axis_id lane = g->lane;
	const bool is_wide = g->is_wide;
	struct strbuf sb;

	sb_init(&sb, g->a);
	for (uint32_t k = 0; k < g->vec; k++) {
		const ix_id at = index_of_lane(g, i, k);

		g->lane = AXIS_NONE; /* what the table is asked is no vector */
		g->is_wide = false;
		sb_addf(&sb, "%s%s", k ? ", " : "", print_place(g, b, at));
		g->lane = lane;
		g->is_wide = is_wide;
	}
	return g->vec == 1 ? sb.p : arena_printf(g->a, "(k_v%u){%s}", g->vec, sb.p);
}

const char *
print_lanes(struct printing *g, buf_id b, ix_id i)
{
	int64_t at;

	if (!lies_along(g->p, g->lane, i))
		return print_gathered(g, b, i);
	if (!g->lane_loops)
		i = index_of_lane(g, i, 0);
	if (!g->wide.buf[b])
		return g->vec == 1 ? print_place(g, b, i)
				   : arena_printf(g->a, "K_ROW%u(%s)", g->vec, print_place(g, b, i));
	if (ix_is_const(g->p->tx, i, &at))
		return print_part(g, b, at);
	return arena_printf(g->a, "%s[%s]", print_buf(g, b), print_ix(g, ix_div(g->p->tx, i, g->vec)));
}

bool
is_vector(const struct printing *g, ex_id e)
{
	const struct ex *n = ex_get(g->p->tx, e);
	bool is = n->kind == EX_VAR && g->wide.var[n->tensor];

	if (!g->is_wide)
		return false;
	if (n->kind == EX_READ)
		return ixv_has(g->p->tx, n->at, g->lane);
	for (uint32_t k = 0; n->kind == EX_MAP && k < n->n_arg; k++)
		is |= is_vector(g, n->arg[k]);
	return is;
}

/* (Less a zero: x + 0 is another than x where that is -0.) */
const char *
vector_text(struct printing *g, ex_id e)
{
	const struct ex *n = ex_get(g->p->tx, e);

	if (is_vector(g, e))
		return print_ex(g, e);
	if (n->kind == EX_CONST && n->real == 0 && !__builtin_signbit(n->real))
		return arena_printf(g->a, "(k_v%u){0}", g->vec);
	return arena_printf(g->a, "%s - (k_v%u){0}", print_ex(g, e), g->vec);
}

/* Each vector has names of its own; single floats, behind the last, are no vectors. */
static void
print_vector(struct printing *g, st_id loop, bool has_names)
{
	if (has_names)
		print_line(g, "{");
	g->depth += has_names;
	for (st_id k = loop + 1; k < g->p->st[loop].end; k++)
		print_statement(g, k);
	g->depth -= has_names;
	if (has_names)
		print_line(g, "}");
}

/* The whole vectors of a long loop, up to element `to`. */
static void
print_vectors_of_loop(struct printing *g, st_id i, int64_t from, int64_t to)
{
	const struct st *s = &g->p->st[i];
	const char *v = print_axis(g, s->axis);

	print_line(g, "for (%s %s = %lldL; %s < %lldL; %s += %u) {", g->d->index, v, (long long)from, v,
	    (long long)to, v, g->vec);
	g->depth++;
	g->lane_loops = true;
	print_body(g, i + 1, s->end);
	g->lane_loops = false;
	g->depth--;
	print_line(g, "}");
	g->axis[s->axis] = NULL;
}

void
print_wide(struct printing *g, st_id i)
{
	const struct st *s = &g->p->st[i];
	bool has_names = false;
	int64_t from, to;

	if (!ix_is_const(g->p->tx, s->from, &from) || !ix_is_const(g->p->tx, s->to, &to))
		bug("vectors of a loop without constant bounds");
	for (st_id k = i + 1; k < s->end; k++)
		has_names |= g->p->st[k].op == ST_let;
	g->lane = s->axis;
	g->vec = g->wide.loop[i];
	g->is_wide = true;
	g->lane_at = from;
	if (to - from > WIDE_AS_TEXT) {
		g->lane_at = to - (to - from) % g->vec;
		print_vectors_of_loop(g, i, from, g->lane_at);
	}
	for (; to - g->lane_at >= (to - from > WIDE_AS_TEXT ? LEAST_LANES : 1); g->lane_at += g->vec) {
		g->vec = wide_part(to - g->lane_at, g->wide.loop[i]);
		g->is_wide = g->vec > 1;
		print_vector(g, i, has_names);
	}
	g->lane = AXIS_NONE;
	g->is_wide = false;
	if (g->lane_at < to)
		print_loop(g, i, print_ix(g, ix_const(g->p->tx, g->lane_at)), print_ix(g, s->to));
}

bool
print_held(struct printing *g, const struct st *call)
{
	const struct ex *n = call->ref == INTRIN_hold ? ex_get(g->p->tx, g->p->arg[call->arg0]) : NULL;
	const uint32_t lanes = n ? g->wide.buf[n->tensor] : 0;

	for (int64_t at = 0, all = lanes ? g->p->buf[n->tensor].dim[0] : 0; at < all;
	     at += wide_part(all - at, lanes))
		print_line(g, "K_HIDE(%s);", print_vector_name(g, n->tensor, at));
	return lanes > 0;
}
