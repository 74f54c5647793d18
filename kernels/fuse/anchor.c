/* kernels/fuse/anchor.c: which axes of a linear stage are rows, columns, batch, K; the packed
 * form of its second factor.
 *
 * An axis is a row where only the first factor has it, the column where it is contiguous in the
 * result and the second factor has it, batch where both have it.  A depthwise convolution is the
 * case where the column is in both: its tile reads vectors of the first factor. */
#include "anchor_int.h"
#include "lower_int.h"

/* The column must run along the result's contiguous axis: swaps the factors to get it so. */
static bool
orient(struct tile_prog *p, struct stage *s, axis_id *column)
{
	if (s->n_par == 0 || s->n_red == 0 || s->axis[s->n_par - 1].stride != 1)
		return false;
	*column = s->axis[s->n_par - 1].id;
	if (!ex_has(p->tx, s->b, *column)) {
		ex_id a = s->a;

		s->a = s->b;
		s->b = a;
	}
	return ex_has(p->tx, s->b, *column);
}

/* Vectors in a row: as wide as leaves the fewest columns unused, two where that is a tie; eight
 * columns where a has them too, because then b is all that a wider tile would read less often. */
int
anchor_vectors(const struct tile_prog *p, int64_t n_columns, bool a_vector, int64_t rows)
{
	static const int order[] = {2, 3, 4, 1};
	int lanes = p->target->simd_bytes / 4;

	if (a_vector)
		return (int)sched_get(p->sched, KNOB_nv, MAX_OF(1, 8 / lanes));
	int64_t least = INT64_MAX;
	int best = 2;

	/* One sum alone, and each product would wait for the one before it. */
	for (uint32_t i = 0; i < COUNT_OF(order) - (rows == 1 && n_columns > 2 * lanes); i++) {
		int64_t nr = (int64_t)order[i] * lanes, used = (n_columns + nr - 1) / nr * nr;

		if (used < least) {
			least = used;
			best = order[i];
		}
	}
	return (int)sched_get(p->sched, KNOB_nv, best);
}

/* As many rows as there are registers for: rows * nv accumulators, nv of b, and one of a unless
 * it is multiplied straight from memory. */
int
anchor_rows(const struct tile_prog *p, int nv, bool a_vector)
{
	int rows = (p->target->n_vregs - nv - !a_vector) / nv;

	return MAX_OF(1, MIN_OF(rows, a_vector && nv == 1 ? 8 : 14));
}

struct packing {
	struct stage *s;
	const struct stage *all; /* every stage as it was */
	uint32_t n_all;
	axis_id column;
	int64_t n_columns, nr;
	struct stage_axis axis[ANCHOR_AXES]; /* batch and K axes of the factor, in order */
	axis_id mine[ANCHOR_AXES];           /* their copies in the packing stage */
	uint32_t n_axis, n_batch;
	axis_id panel, lane;
	int64_t n_panels, count;
	const struct winograd *wino; /* K begins with the positions of a tile */
};

/* The axes that the second factor has, but for the column: batch first. */
static bool
packing_axes(struct tile_prog *p, struct packing *k)
{
	struct stage *s = k->s;

	if (s->sweeps && ex_has(p->tx, s->b, p->turn)) { /* all turns' parts are packed ahead */
		k->axis[k->n_axis++] = (struct stage_axis){.id = p->turn, .extent = p->n_turns};
		k->n_batch++;
	}
	for (uint32_t i = 0; i < s->n_par + s->n_red; i++) {
		if (s->axis[i].id == k->column || (i < s->n_par && !ex_has(p->tx, s->b, s->axis[i].id)))
			continue;
		if (k->n_axis == ANCHOR_AXES)
			return false;
		k->n_batch += i < s->n_par;
		k->axis[k->n_axis++] = s->axis[i];
	}
	return true;
}

/* Extents of the packed tensor: batch..., panel, K..., lane. */
static void
packed_dims(const struct packing *k, int64_t dim[], axis_id id[])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < k->n_axis; i++) {
		if (i == k->n_batch) {
			dim[n] = k->n_panels;
			id[n++] = k->panel;
		}
		dim[n] = k->axis[i].extent;
		id[n++] = k->mine[i];
	}
	if (k->n_batch == k->n_axis) {
		dim[n] = k->n_panels;
		id[n++] = k->panel;
	}
	dim[n] = k->nr;
	id[n] = k->lane;
}

/* Flat index into the packed tensor, over the linear stage's own axes. */
static ix_id
packed_at(struct tile_prog *p, const struct packing *k)
{
	struct tx *x = p->tx;
	ix_id at = ix_const(x, 0), column = ix_axis(x, k->column);

	for (uint32_t i = 0; i < k->n_axis; i++) {
		if (i == k->n_batch)
			at = ix_add(x, ix_mulc(x, at, k->n_panels), ix_div(x, column, k->nr));
		at = ix_add(x, ix_mulc(x, at, k->axis[i].extent), ix_axis(x, k->axis[i].id));
	}
	if (k->n_batch == k->n_axis)
		at = ix_add(x, ix_mulc(x, at, k->n_panels), ix_div(x, column, k->nr));
	return ix_add(x, ix_mulc(x, at, k->nr), ix_mod(x, column, k->nr));
}

/* The factor over the packing stage's axes; zero behind the last column. */
static ex_id
packing_body(struct tile_prog *p, const struct packing *k, ix_id *column)
{
	struct tx *x = p->tx;
	uint32_t n = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, n);

	for (uint32_t i = 0; i < n; i++)
		to[i] = IX_NONE;
	for (uint32_t i = 0; i < k->n_axis; i++)
		to[k->axis[i].id] = ix_axis(x, k->mine[i]);
	*column = ix_add(x, ix_mulc(x, ix_axis(x, k->panel), k->nr), ix_axis(x, k->lane));
	to[k->column] = *column;
	ex_id body = ex_subst(x, &(struct tx_subst){.to = to, .n = n}, k->s->b);
	if (k->n_panels * k->nr == k->n_columns)
		return body;
	return ex_guard(x, *column, 0, k->n_columns, body, ex_real(x, DT_f32, 0));
}

struct reader {
	uint32_t tensor, n;
};

static void
count_reader(void *self, const struct ex *read)
{
	struct reader *r = self;

	r->n += read->tensor == r->tensor;
}

/* Is there one read of a tensor in the whole program? */
static bool
is_read_once(const struct packing *k, const struct tile_prog *p, uint32_t tensor)
{
	struct reader r = {.tensor = tensor};

	for (uint32_t i = 0; i < k->n_all; i++) {
		const struct stage *s = &k->all[i];

		if (s->kind == STAGE_LINEAR) {
			ex_reads(p->tx, s->a, count_reader, &r);
			ex_reads(p->tx, s->b, count_reader, &r);
		} else if (s->body != EX_NONE) {
			ex_reads(p->tx, s->body, count_reader, &r);
		}
		if (s->init != EX_NONE)
			ex_reads(p->tx, s->init, count_reader, &r);
	}
	return r.n == 1;
}

/* A model constant that is read affinely, and only here, is packed when the plan is made. */
static bool
pack_ahead(struct tile_prog *p, const struct packing *k, ix_id column)
{
	struct tx *x = p->tx;
	const struct ex *b = ex_get(x, k->s->b);
	uint32_t t = b->tensor;
	axis_id id[ANCHOR_AXES + 2];
	struct tile_pack pack = {.rank = (int)k->n_axis + 2, .n_columns = k->n_columns};
	ix_id at;

	if (b->kind != EX_READ || p->tensors[t].at != AT_OPERAND || p->tensors[t].pack ||
	    p->spec->g.tensors[t].role != ROLE_WEIGHT || !is_read_once(k, p, t) || pack.rank > PACK_RANK)
		return false;
	packed_dims(k, pack.dim, id);
	uint32_t n = tx_n_axes(x);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, n);

	for (uint32_t i = 0; i < n; i++)
		to[i] = IX_NONE;
	for (uint32_t i = 0; i < k->n_axis; i++)
		to[k->axis[i].id] = ix_axis(x, k->mine[i]);
	to[k->column] = column;
	at = ix_subst(x, &(struct tx_subst){.to = to, .n = n}, b->ix);
	for (int i = 0; i < pack.rank; i++)
		if (!ix_coef(x, at, id[i], &pack.coef[i]) || !ix_coef(x, column, id[i], &pack.column[i]))
			return false;
	pack.base = ix_get(x, at)->kind == IX_LIN ? ix_get(x, at)->c : 0;
	if (k->wino)
		winograd_maps(k->wino, &pack, 1);
	p->tensors[t].pack = arena_dup(p->arena, &pack, sizeof pack);
	p->tensors[t].count = k->count;
	k->s->b = ex_read(x, DT_f32, t, packed_at(p, k));
	return true;
}

/* A factor that is known only at run time is packed by a stage of its own. */
static void
pack_stage(struct tile_prog *p, struct packing *k, ex_id body)
{
	struct stage m = {.kind = STAGE_MAP,
	    .packs = true,
	    .tensor2 = UINT32_MAX,
	    .node = NO_NODE,
	    .body = body,
	    .a = EX_NONE,
	    .b = EX_NONE,
	    .acc = DT_f32,
	    .init = EX_NONE,
	    .target = IX_NONE};
	int64_t dim[ANCHOR_AXES + 2], stride = 1;
	axis_id id[ANCHOR_AXES + 2];

	packed_dims(k, dim, id);
	m.n_par = k->n_axis + 2;
	for (uint32_t i = m.n_par; i-- > 0;) {
		m.axis[i] = (struct stage_axis){.id = id[i], .extent = dim[i], .stride = stride};
		stride *= dim[i];
	}
	m.tensor = anchor_tensor(p, k->count, p->n_stages);
	k->s->b = ex_read(p->tx, DT_f32, m.tensor, packed_at(p, k));
	GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
	p->stages[p->n_stages++] = m;
}

uint32_t
anchor_tensor(struct tile_prog *p, int64_t count, uint32_t stage)
{
	GROW(p->arena, p->tensors, p->n_tensors, p->cap_tensors);
	p->tensors[p->n_tensors] =
	    (struct tile_tensor){.at = AT_NOWHERE, .type = DT_f32, .count = count, .stage = stage};
	return p->n_tensors++;
}

/* Products of each packed element: packing a run-time factor must pay. */
static bool
worth_packing(const struct tile_prog *p, const struct stage *s)
{
	int64_t rows = 1;

	for (uint32_t i = 0; i < s->n_par; i++)
		if (!ex_has(p->tx, s->b, s->axis[i].id))
			rows *= s->axis[i].extent;
	return rows >= 4;
}

static bool
can_tile(const struct tile_prog *p, const struct stage *s)
{
	return s->acc == DT_f32 && ex_get(p->tx, s->a)->type == DT_f32 && ex_get(p->tx, s->b)->type == DT_f32;
}

/* Extents of what is packed, and its axes. */
static void
lay_out(struct tile_prog *p, struct packing *k)
{
	struct tx *x = p->tx;

	k->count = k->n_panels * k->nr;
	for (uint32_t i = 0; i < k->n_axis; i++) {
		k->mine[i] = tx_axis(x, AXIS_PAR, 0, k->axis[i].extent - 1, IX_NONE);
		k->count *= k->axis[i].extent;
	}
	k->panel = tx_axis(x, AXIS_PAR, 0, k->n_panels - 1, IX_NONE);
	k->lane = tx_axis(x, AXIS_PAR, 0, k->nr - 1, IX_NONE);
}

/* The factor in Winograd's form: the window's axes come first and count positions. */
static bool
pack_winograd(struct tile_prog *p, const struct packing *direct)
{
	struct packing k = *direct;
	ix_id column;

	k.wino = winograd_form(sched_get(p->sched, KNOB_wino, 0));
	if (!k.wino || !winograd_finds(p, k.s))
		return false;
	for (uint32_t i = 0, to = 2; i < direct->n_axis; i++) {
		const struct stage_axis *a = &direct->axis[i];
		int at = a->id == k.s->slide[0] ? 0 : a->id == k.s->slide[1] ? 1 : (int)to++;

		k.axis[at] = *a;
		if (at < 2)
			k.axis[at].extent = k.wino->p;
	}
	lay_out(p, &k);
	(void)packing_body(p, &k, &column);
	if (!pack_ahead(p, &k, column))
		return false;
	k.s->wino = k.wino;
	return true;
}

static bool
pack_direct(struct tile_prog *p, struct packing *k)
{
	ix_id column;

	lay_out(p, k);
	ex_id body = packing_body(p, k, &column);

	if (pack_ahead(p, k, column))
		return true;
	if (!worth_packing(p, k->s))
		return false;
	pack_stage(p, k, body);
	return true;
}

static bool
shape_packing(struct tile_prog *p, struct packing *k)
{
	const struct stage *s = k->s;

	k->column = s->axis[s->n_par - 1].id;
	k->n_axis = k->n_batch = 0;
	k->n_columns = s->axis[s->n_par - 1].extent;
	k->nr = (int64_t)anchor_vectors(p, k->n_columns, ex_has(p->tx, s->a, k->column), linear_rows(p, s)) *
	    (p->target->simd_bytes / 4);
	k->n_panels = (k->n_columns + k->nr - 1) / k->nr;
	return packing_axes(p, k);
}

/* Makes the stage read a packed second factor, or leaves it as it is. */
static void
pack(struct tile_prog *p, struct packing *k)
{
	struct stage *s = k->s, was;

	if (!can_tile(p, s) || !orient(p, s, &k->column) || !shape_packing(p, k))
		return;
	if (!pack_winograd(p, k)) {
		was = *s;
		if ((columns_split(p, s, k->all, k->n_all) && !shape_packing(p, k)) || !pack_direct(p, k)) {
			*s = was;
			return;
		}
	}
	s->body = ex_map(p->tx, PRIM_mul, DT_f32, 2, (ex_id[]){s->a, s->b});
	s->packed = true;
}

void
anchors_pack(struct tile_prog *p)
{
	struct stage *all = p->stages;
	uint32_t n_all = p->n_stages;

	p->stages = NULL;
	p->n_stages = p->cap_stages = 0;
	for (uint32_t i = 0; i < n_all; i++) {
		struct stage s = all[i], wide;

		if (s.kind == STAGE_LINEAR) {
			stage_split_divisions(p->tx, &s);
			if (can_tile(p, &s) && anchor_widen(p, &s, &wide)) {
				pack(p, &(struct packing){.s = &wide, .all = all, .n_all = n_all});
				stage_append(p, &wide);
			} else {
				pack(p, &(struct packing){.s = &s, .all = all, .n_all = n_all});
			}
		}
		stage_append(p, &s);
	}
}
