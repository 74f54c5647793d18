/* kernels/cost/box.c: see box.h. */
#include "box.h"

struct box
box_all(const struct shape *s)
{
	struct box b;

	for (int d = 0; d < s->rank; d++) {
		b.at[d] = 0;
		b.step[d] = 1;
		b.n[d] = s->dim[d];
	}
	return b;
}

double
box_count(const struct box *b, int rank)
{
	double n = 1;

	for (int d = 0; d < rank; d++)
		n *= (double)b->n[d];
	return n;
}

/* ---- sets ------------------------------------------------------------------------------------- */
static int64_t
last(const struct box *b, int d)
{
	return b->at[d] + (b->n[d] - 1) * b->step[d];
}

static int64_t
common(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

static bool
apart(const struct box *x, const struct box *y, int rank)
{
	for (int d = 0; d < rank; d++) {
		if (last(x, d) < y->at[d] || last(y, d) < x->at[d])
			return true;
		if ((x->at[d] - y->at[d]) % common(x->step[d], y->step[d]))
			return true;
	}
	return false;
}

/* Is y within x? */
static bool
within(const struct box *x, const struct box *y, int rank)
{
	for (int d = 0; d < rank; d++) {
		if (y->at[d] < x->at[d] || last(y, d) > last(x, d) || (y->at[d] - x->at[d]) % x->step[d])
			return false;
		if (y->n[d] > 1 && y->step[d] % x->step[d])
			return false;
	}
	return true;
}

void
boxes_add(struct boxes *s, const struct box *b)
{
	double met = 0, own = box_count(b, s->rank);
	int least = 0, left = 0;

	for (int i = 0; i < s->n; i++) {
		if (within(&s->v[i], b, s->rank))
			return;
		if (!apart(&s->v[i], b, s->rank) && !within(b, &s->v[i], s->rank))
			met += box_count(&s->v[i], s->rank);
	}
	if (own <= met)
		return;
	for (int i = 0; i < s->n; i++)
		if (apart(&s->v[i], b, s->rank))
			s->v[left++] = s->v[i];
	s->n = left;
	for (int i = 1; i < s->n; i++)
		if (box_count(&s->v[i], s->rank) < box_count(&s->v[least], s->rank))
			least = i;
	if (s->n < MAX_BOXES)
		s->v[s->n++] = *b;
	else if (own > box_count(&s->v[least], s->rank))
		s->v[least] = *b;
}

double
boxes_count(const struct boxes *s)
{
	double n = 0;

	for (int i = 0; i < s->n; i++)
		n += box_count(&s->v[i], s->rank);
	return n;
}

/* ---- layouts ------------------------------------------------------------------------------------ */
/* Cuts dimension d down to [0, have) and says whether anything is left. */
static bool
clip(struct box *b, int d, int64_t have)
{
	int64_t skip = b->at[d] < 0 ? (-b->at[d] + b->step[d] - 1) / b->step[d] : 0;

	b->at[d] += skip * b->step[d];
	b->n[d] -= skip;
	if (b->n[d] > 0 && last(b, d) >= have)
		b->n[d] = b->at[d] < have ? (have - 1 - b->at[d]) / b->step[d] + 1 : 0;
	return b->n[d] > 0;
}

static bool
shifted(const struct shape *x, const struct box *out, const int64_t *by, struct box *to)
{
	*to = *out;
	for (int d = 0; d < x->rank; d++) {
		to->at[d] -= by[d];
		if (!clip(to, d, x->dim[d]))
			return false;
	}
	return true;
}

static bool
of_slice(const struct node *n, int rank, const struct box *out, struct box *to)
{
	for (int d = 0; d < rank; d++) {
		int64_t step = at_ints(&n->at, ATTR_step)[d],
			from = at_ints(&n->at, ATTR_start)[d] + out->at[d] * step;

		to->n[d] = out->n[d];
		to->step[d] = out->n[d] > 1 ? out->step[d] * (step < 0 ? -step : step) : 1;
		to->at[d] = step < 0 ? from - (out->n[d] - 1) * to->step[d] : from;
	}
	return true;
}

static bool
of_concat(const struct graph *g, const struct node *n, uint32_t i, const struct box *out, struct box *to)
{
	const struct shape *x = &graph_tensor(g, n->in[i])->shape;
	int64_t by[MAX_RANK] = {0}, axis = at_get(&n->at, ATTR_axis);

	for (uint32_t k = 0; k < i; k++)
		by[axis] += graph_tensor(g, n->in[k])->shape.dim[axis];
	return shifted(x, out, by, to);
}

/* Dimensions [lo, hi) of `b` as one run of the flattened group: [*from, *from + *len). */
static bool
as_run(const struct shape *s, const struct box *b, int lo, int hi, int64_t *from, int64_t *len)
{
	bool is_open = true; /* so far one position each */

	*from = 0;
	*len = 1;
	for (int d = lo; d < hi; d++) {
		if (!is_open && b->n[d] != s->dim[d])
			return false;
		if (b->n[d] > 1 && b->step[d] != 1)
			return false;
		*from = *from * s->dim[d] + b->at[d];
		*len *= b->n[d];
		is_open = is_open && b->n[d] == 1;
	}
	return true;
}

/* The run as a box over dimensions [lo, hi). */
static bool
from_run(const struct shape *s, int64_t from, int64_t len, int lo, int hi, struct box *to)
{
	int64_t inner = 1;
	bool is_placed = false; /* it lies within one position of what is further out */

	for (int d = hi; d-- > lo; inner *= s->dim[d]) {
		to->step[d] = 1;
		to->at[d] = from / inner % s->dim[d];
		to->n[d] = 1;
		if (is_placed)
			continue;
		if (from % inner || len % inner)
			return false;
		to->n[d] = MIN_OF(len / inner, s->dim[d]);
		if (to->at[d] + len / inner <= s->dim[d])
			is_placed = true;
		else if (to->at[d] != 0)
			return false;
	}
	return true;
}

/* Dimensions are matched in groups of equal products; in each the box must be a run, or its one long
 * dimension the same. */
static bool
of_reshape(const struct shape *x, const struct shape *y, const struct box *out, struct box *to)
{
	int i = 0, j = 0;

	while (i < x->rank || j < y->rank) {
		int lo = i, from = j;
		int64_t a = 1, b = 1, at, len;

		do {
			if (i < x->rank && (a <= b || j == y->rank))
				a *= x->dim[i++];
			else if (j < y->rank)
				b *= y->dim[j++];
		} while (a != b && (i < x->rank || j < y->rank));
		if (i - lo == 1 && j - from == 1) {
			to->at[lo] = out->at[from];
			to->step[lo] = out->step[from];
			to->n[lo] = out->n[from];
		} else if (!as_run(y, out, from, j, &at, &len) || !from_run(x, at, len, lo, i, to))
			return false;
	}
	return true;
}

/* ---- windows -------------------------------------------------------------------------------------- */
struct window
window_of(const struct graph *g, const struct node *n, int d)
{
	bool conv = n->prim == PRIM_conv;
	int i = d - conv;

	return (struct window){.have = graph_tensor(g, n->in[0])->shape.dim[d],
	    .out = graph_tensor(g, n->out[0])->shape.dim[d],
	    .k = conv ? graph_tensor(g, n->in[1])->shape.dim[i] : at_ints(&n->at, ATTR_kernel)[i],
	    .stride = at_ints(&n->at, ATTR_stride)[i],
	    .dilation = at_ints(&n->at, ATTR_dilation)[i],
	    .lo = at_ints(&n->at, ATTR_lo)[i],
	    .ldil = conv ? at_ints(&n->at, ATTR_ldil)[i] : 1};
}

struct reach {
	int64_t taps, touched, latest; /* latest: the last element touched; -1: none */
};

/* Taps at one position whose first one falls on `first`, outside or not.  With gaps elements may come out of
 * order: what lies before the latest is not counted again. */
static void
reach_add(struct reach *r, const struct window *w, int64_t first)
{
	const int64_t room = w->have - 1 - first;
	const int64_t from = first < 0 ? (w->dilation - 1 - first) / w->dilation : 0;
	const int64_t to = room < 0 ? -1 : MIN_OF(w->k - 1, room / w->dilation);
	int64_t fresh = from;

	if (from > to)
		return;
	r->taps += to - from + 1;
	if (r->latest >= first)
		fresh = MAX_OF(from, (r->latest - first) / w->dilation + 1);
	if (fresh > to)
		return;
	r->touched += to - fresh + 1;
	r->latest = first + to * w->dilation;
}

/* Positions `move` apart whose taps all fall on elements, as those of the position before them do. */
static void
reach_add_inside(struct reach *r, const struct window *w, int64_t move, int64_t n)
{
	r->taps += n * w->k;
	r->touched += n * MIN_OF(w->k, (move + w->dilation - 1) / w->dilation);
	r->latest += n * move;
}

/* Elements that lie apart: a tap may fall between two. */
static void
reach_add_apart(struct reach *r, const struct window *w, int64_t first)
{
	for (int64_t k = 0; k < w->k; k++) {
		const int64_t x = first + k * w->dilation;

		if (x < 0 || x % w->ldil || x / w->ldil >= w->have)
			continue;
		r->taps++;
		r->touched += x / w->ldil > r->latest;
		r->latest = MAX_OF(r->latest, x / w->ldil);
	}
}

static int64_t
div_up(int64_t x, int64_t by)
{
	return x > 0 ? (x + by - 1) / by : 0;
}

double
window_taps(const struct window *w, int64_t at, int64_t step, int64_t n, double *touched)
{
	const int64_t first = at * w->stride - w->lo, move = step * w->stride;
	const int64_t room =
	    w->have - 1 - (w->k - 1) * w->dilation - first; /* of the first position that is inside */
	const int64_t inside = div_up(-first, move), behind = room < 0 ? 0 : MIN_OF(n, room / move + 1);
	struct reach r = {.latest = -1};

	for (int64_t i = 0; i < n; i++)
		if (w->ldil != 1) {
			reach_add_apart(&r, w, first + i * move);
		} else if (i > inside && i < behind) {
			reach_add_inside(&r, w, move, behind - i);
			i = behind - 1;
		} else {
			reach_add(&r, w, first + i * move);
		}
	*touched = (double)r.touched;
	return (double)r.taps;
}

/* What positions of one dimension touch: all between the first and the last where taps leave no gap, else
 * what the tap in the middle does. */
static bool
of_window(const struct window *w, int d, const struct box *out, struct box *to)
{
	int64_t move = w->stride * out->step[d], mid = w->k / 2;

	if (w->ldil != 1 || w->k < 1)
		return false;
	to->at[d] = out->at[d] * w->stride - w->lo;
	to->step[d] = 1;
	if (w->dilation == 1 && (move <= w->k || out->n[d] == 1)) {
		to->n[d] = (out->n[d] - 1) * move + w->k;
	} else {
		to->at[d] += mid * w->dilation;
		to->n[d] = out->n[d];
		to->step[d] = out->n[d] > 1 ? move : 1;
	}
	return clip(to, d, w->have);
}

static void
whole(const struct shape *x, int d, struct box *to)
{
	to->at[d] = 0;
	to->step[d] = 1;
	to->n[d] = x->dim[d];
}

static bool
of_conv(const struct graph *g, const struct node *n, uint32_t i, const struct box *out, struct box *to)
{
	const struct shape *x = &graph_tensor(g, n->in[i])->shape;
	int last_x = x->rank - 1, last_y = graph_tensor(g, n->out[0])->shape.rank - 1;
	int64_t group = at_get(&n->at, ATTR_group);

	for (int d = 1; d < last_y; d++) {
		struct window w = window_of(g, n, d);
		double touched;

		if (i == 0 && !of_window(&w, d, out, to))
			return false;
		/* a tap that always falls outside takes no weight: then nothing is known */
		if (i == 1 &&
		    (w.ldil != 1 ||
			window_taps(&w, out->at[d], out->step[d], out->n[d], &touched) <
			    (double)(out->n[d] * w.k)))
			for (int64_t k = 0; k < w.k; k++) {
				struct window one = w;

				one.k = 1;
				one.lo = w.lo - k * w.dilation;
				if (window_taps(&one, out->at[d], out->step[d], out->n[d], &touched) < 1)
					return false;
			}
		if (i == 1)
			whole(x, d - 1, to);
	}
	whole(x, last_x, to);
	if (i == 0) {
		to->at[0] = out->at[0];
		to->step[0] = out->step[0];
		to->n[0] = out->n[0];
		/* channels of a group are read where one of its results is needed */
		return group == 1 || out->n[last_y] == graph_tensor(g, n->out[0])->shape.dim[last_y];
	}
	whole(x, last_x - 1, to);
	to->at[last_x] = out->at[last_y];
	to->step[last_x] = out->step[last_y];
	to->n[last_x] = out->n[last_y];
	return true;
}

/* ---- primitives ------------------------------------------------------------------------------------- */
static bool
of_dims(const struct graph *g, const struct node *n, uint32_t i, const struct box *out, struct box *to)
{
	const struct shape *x = &graph_tensor(g, n->in[i])->shape;

	*to = *out;
	switch (n->prim) {
	case PRIM_bcast:
		for (int d = 0; d < x->rank; d++)
			if (x->dim[d] == 1)
				whole(x, d, to);
		return true;
	case PRIM_transpose:
		for (int d = 0; d < x->rank; d++) {
			int64_t of = at_ints(&n->at, ATTR_perm)[d];

			to->at[of] = out->at[d];
			to->step[of] = out->step[d];
			to->n[of] = out->n[d];
		}
		return true;
	case PRIM_matmul: /* a: all of K in the last dimension; b: in the one before */
		whole(x, x->rank - 1 - (int)i, to);
		return true;
	case PRIM_wsum:
	case PRIM_wmax:
		for (int d = 0; d < x->rank; d++) {
			struct window w = window_of(g, n, d);

			if (!of_window(&w, d, out, to))
				return false;
		}
		return true;
	default:
		break;
	}
	if (prim_info[n->prim].class == CLASS_MAP)
		return true;
	if (prim_info[n->prim].class != CLASS_REDUCE)
		return false;
	for (int d = 0; d < x->rank; d++)
		if (x->dim[d] != graph_tensor(g, n->out[0])->shape.dim[d])
			whole(x, d, to);
	return true;
}

bool
box_operand(const struct graph *g, const struct node *n, uint32_t i, const struct box *out, struct box *to)
{
	const struct shape *x = &graph_tensor(g, n->in[i])->shape, *y = &graph_tensor(g, n->out[0])->shape;

	if (box_count(out, y->rank) < 1 || shape_count(x) < 1)
		return false;
	switch (n->prim) {
	case PRIM_slice:
		return of_slice(n, x->rank, out, to);
	case PRIM_pad: /* whatever the border shows, the inside shows itself */
		return shifted(x, out, at_ints(&n->at, ATTR_lo), to);
	case PRIM_concat:
		return of_concat(g, n, i, out, to);
	case PRIM_reshape:
		return of_reshape(x, y, out, to);
	case PRIM_conv:
		return of_conv(g, n, i, out, to);
	default:
		return of_dims(g, n, i, out, to);
	}
}
