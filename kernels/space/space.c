/* kernels/space/space.c: which schedules of a spec are worth a try. */
#include "sched.h"

#include <math.h>

struct search {
	struct arena *a;
	const struct spec *spec;
	const struct target *target;
	space_outcome *outcome;
	struct str *list;
	uint64_t *seen;   /* what each of the list became */
	uint32_t n, most; /* most: without those of libraries */
	uint32_t n_library;
};

static void
propose(struct search *s, struct str text)
{
	struct arena tmp = {0};
	uint64_t h = 0;
	bool ok = s->n < s->most + s->n_library && s->outcome(&tmp, s->spec, text, s->target, &h);

	arena_fini(&tmp);
	for (uint32_t i = 0; i < s->n && ok; i++)
		ok = s->seen[i] != h;
	if (!ok)
		return;
	s->seen[s->n] = h;
	s->list[s->n++] = text;
}

static void
propose_each(struct search *s, const char *const *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		propose(s, str_of(text[i]));
}

/* What kind the work is. */
struct shape_of_work {
	bool has_pair, has_linear, has_rows; /* linear primitives, two of them; reductions */
	double longest;                      /* elements of a linear primitive's sum */
};

static double
sum_length(const struct graph *g, const struct node *n)
{
	return node_flops(g, n) / 2 / fmax((double)shape_count(&graph_tensor(g, n->out[0])->shape), 1);
}

static void
look_at_graph(const struct graph *g, struct shape_of_work *w)
{
	*w = (struct shape_of_work){.has_pair = false};
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const enum prim_class class = prim_info[g->nodes[i].prim].class;

		w->has_pair |= w->has_linear && class == CLASS_LINEAR;
		w->has_linear |= class == CLASS_LINEAR;
		if (class == CLASS_LINEAR)
			w->longest = fmax(w->longest, sum_length(g, &g->nodes[i]));
		w->has_rows |= class == CLASS_REDUCE;
	}
}

static struct str
library_schedule(struct arena *a, const struct target *t, enum library l, uint32_t algo)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "lib=");
	library_print(&sb, l, t->library[l]);
	if (algo)
		sb_addf(&sb, " algo=%u", algo);
	if (library_is_cuda(l) && t->precision != PRECISION_F32)
		sb_addf(&sb, " math=%d", (int)t->precision);
	return sb_str(&sb);
}

/* Calls of the libraries that are there and can compute it: nothing to compare. */
static void
propose_libraries(struct search *s)
{
	struct library_call call;
	struct err e;

	if (s->target->strict || s->most < 2 || !library_call_of(s->spec, &call, &e))
		return;
	for (int l = 0; l < LIBRARY_COUNT; l++) {
		if (!s->target->library[l] || !library_takes((enum library)l, &call, &e))
			continue;
		for (uint32_t algo = 0; algo < library_algos((enum library)l); algo++) {
			struct str text = library_schedule(s->a, s->target, (enum library)l, algo);

			s->seen[s->n] = hash64(text.p, text.n, 2);
			s->list[s->n++] = text;
			s->n_library++;
		}
	}
}

static void
propose_gpu(struct search *s, const struct shape_of_work *w)
{
	static const char *const products[] = {"splitk=1 trace=1", "splitk=4 trace=1", "tm=8 tn=8 trace=1",
	    "tm=8 tn=4 trace=1", "tm=4 tn=4 trace=1", "tk=32 trace=1", "tm=2 tn=2 trace=1", "tk=8 trace=1",
	    "splitk=16 trace=1"};
	static const char *const points[] = {"vector=4 trace=1", "vector=2 trace=1", "vector=8 trace=1",
	    "threads=256 vector=4 trace=1", "threads=64 trace=1", "threads=256 trace=1"};

	propose(s, STR(TRACED));
	if (w->has_linear && s->target->precision != PRECISION_F32)
		propose(s, STR("exact=1 trace=1")); /* where rounding is beyond what the task allows */
	propose_libraries(s);
	if (w->has_linear)
		propose_each(s, products, COUNT_OF(products));
	propose_each(s, points, COUNT_OF(points));
}

static bool
may_have_winograd(const struct spec *s, const struct target *t)
{
	return t->winograd && !t->strict && !t->is_cuda && spec_winograd(s);
}

/* Of which edge tiles are; 0: the form is none for it.  Smaller ones compute more, and are for images that
 * the larger stick out of. */
static int64_t
winograd_edge(const struct spec *s, const struct target *t)
{
	if (!may_have_winograd(s, t))
		return 0;
	return winograd_suits(s, t, 4) ? 4 : winograd_suits(s, t, 2) ? 2 : 0;
}

bool
space_winograd(const struct spec *s, const struct target *t)
{
	return may_have_winograd(s, t) && winograd_suited(s);
}

struct str
space_guess(struct arena *a, const struct spec *s, const struct target *t)
{
	const long long edge = (long long)winograd_edge(s, t);

	return edge ? str_of(arena_printf(a, "wino=%lld " TRACED, edge)) : STR(TRACED);
}

/* Libraries have their vectors along the columns of the products (the channels of a depthwise convolution),
 * and block over their rows: with less than a vector of the one, or a single one of the other, they take
 * several times as long as generated code. */
static bool
suits_libraries(const struct library_call *c, const struct target *t)
{
	const struct shape *s = &c->result.shape;
	int64_t columns = s->dim[s->rank - 1], rows = 1;
	int first = c->linear == CALL_conv || s->rank < 2 ? 0 : s->rank - 2;

	if (c->linear == CALL_conv && c->group != columns)
		columns /= c->group;
	for (int d = first; d + 1 < s->rank; d++)
		rows *= s->dim[d];
	return rows > 1 && columns >= t->simd_bytes / (int64_t)sizeof(float);
}

struct str
space_library(struct arena *a, const struct spec *s, const struct target *t)
{
	struct library_call call;
	struct err e;

	if (t->strict || t->is_cuda || winograd_edge(s, t) || !library_call_of(s, &call, &e) ||
	    !suits_libraries(&call, t))
		return STR("");
	for (int l = 0; l < LIBRARY_COUNT; l++)
		if (t->library[l] && library_takes((enum library)l, &call, &e))
			return library_schedule(a, t, (enum library)l, 0);
	return STR("");
}

/* Sums of a channel, or few, over a window of their own. */
static bool
has_own_windows(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (s->g.nodes[i].prim == PRIM_conv && at_get(&s->g.nodes[i].at, ATTR_group) > 1)
			return true;
	return false;
}

/* By whole tiles; larger blocks of them read a mapped weight less often, where the second cache holds them.
 */
static void
propose_tiles(struct search *s)
{
	const long long edge = (long long)winograd_edge(s->spec, s->target);

	if (!edge)
		return;
	propose(s, str_of(arena_printf(s->a, "wino=%lld " TRACED, edge)));
	propose(s, str_of(arena_printf(s->a, "block=24 wino=%lld " TRACED, edge)));
}

/* Few rows by many columns read a panel of a weight often: where it is more than half of the second cache, it
 * comes from further away each time (a sum of 8,000 by 48 columns: 2.5 times the guess's time). */
static bool
holds_panel(const struct target *t, const struct shape_of_work *w, int vectors)
{
	return t->l2_bytes <= 0 || w->longest * vectors * t->simd_bytes <= (double)t->l2_bytes / 2;
}

/* What rules of the loop program leave to choose (kernels/schedule/choice.def). */
static void
propose_choices(struct search *s, const struct shape_of_work *w)
{
	static const char *const rows[] = {"block=1 trace=1", "block=32 trace=1"};

	if (w->has_linear)
		propose(s, STR("nv=1 " TRACED));
	if (w->has_linear && holds_panel(s->target, w, 3))
		propose(s, STR("mr=4 nv=3 " TRACED));
	if (w->has_rows)
		propose_each(s, rows, COUNT_OF(rows));
}

static void
propose_cpu(struct search *s, const struct shape_of_work *w)
{
	const int field = s->target->n_vregs / 4;
	const bool has_windows = has_own_windows(s->spec);

	propose(s, STR(TRACED));
	propose_tiles(s);
	propose_libraries(s);
	if (has_windows) /* half of the registers */
		propose(s, str_of(arena_printf(s->a, "mr=%d field=2 " TRACED, field)));
	if (w->has_pair) /* nests that go through an image together: fewer threads, and less is made twice */
		propose(s, STR("block=32 " TRACED));
	if (w->has_pair && has_windows)
		propose(s, str_of(arena_printf(s->a, "block=32 mr=%d field=2 " TRACED, field)));
	propose_choices(s, w);
}

void
space_list(struct arena *a, const struct spec *s, const struct target *t, uint32_t effort,
    space_outcome *outcome, struct str **schedules, uint32_t *n)
{
	struct search search = {.a = a,
	    .spec = s,
	    .outcome = outcome,
	    .target = t,
	    .most = effort + (t->precision != PRECISION_F32)};
	struct shape_of_work w;
	uint32_t room = search.most;

	for (int l = 0; l < LIBRARY_COUNT; l++)
		room += library_algos((enum library)l);
	search.list = NEW_ARRAY(a, struct str, room);
	search.seen = NEW_ARRAY(a, uint64_t, room);
	look_at_graph(&s->g, &w);
	(t->is_cuda ? propose_gpu : propose_cpu)(&search, &w);
	*schedules = search.list;
	*n = search.n;
}
