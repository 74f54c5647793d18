/* schema/plan_digest.c: what a plan in memory is, as one number.
 *
 * Two sums guard a file: `sum`, 64 bits over all that is loaded, checked at every load because it costs
 * milliseconds; and `plan`, SHA-256 over everything but times and host, the plan's identity,
 * checked by `korch-plan verify`.  Both find damage, neither finds a forger (D31).
 *
 * Since format 5 `plan` is over the file's own tables (plan_walk.c), so that nothing in a file is left out
 * because nobody thought of it here: parts and rows that no reader asks for, and their names. */
#include "plan_file_int.h"

#include <string.h>

/* A byte string of everything, each field behind its length, in a fixed order.  Large blobs
 * stand for themselves by a digest the caller chooses. */
typedef void blob_sum_fn(struct strbuf *sb, struct bytes b);

static void
put_u64(struct strbuf *sb, uint64_t v)
{
	char b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (char)(v >> 8 * i & 255);
	sb_add(sb, (struct str){b, 8});
}

static void
put_str(struct strbuf *sb, struct str s)
{
	put_u64(sb, s.n);
	sb_add(sb, s);
}

static void
put_real(struct strbuf *sb, double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	put_u64(sb, u);
}

static void
put_list(struct strbuf *sb, const uint32_t *v, uint32_t n)
{
	put_u64(sb, n);
	for (uint32_t i = 0; i < n; i++)
		put_u64(sb, v[i]);
}

static void
put_shape(struct strbuf *sb, enum dtype type, const struct shape *s)
{
	put_str(sb, str_of(dtype_name(type)));
	put_u64(sb, (uint64_t)s->rank);
	for (int i = 0; i < s->rank; i++)
		put_u64(sb, (uint64_t)s->dim[i]);
}

static void
put_facts(struct strbuf *sb, const struct plan *p)
{
#define PUT_STR(N) put_str(sb, p->N);
#define PUT_U32(N) put_u64(sb, p->N);
#define PUT_U64(N) put_u64(sb, p->N);
#define PUT_SIZE(N) put_u64(sb, p->N);
#define PUT_I64(N) put_u64(sb, (uint64_t)p->N);
#define PUT_BOOL(N) put_u64(sb, p->N);
#define PUT_REAL(N) put_real(sb, p->N);
#define X(KIND, N) PUT_##KIND(N)
	PLAN_FACTS(X)
#undef X
}

static void
put_kernels(struct strbuf *sb, const struct plan *p)
{
	put_u64(sb, p->n_kernels);
	for (uint32_t i = 0; i < p->n_kernels; i++) {
		const struct plan_kernel *k = &p->kernels[i];

		put_str(sb, k->symbol);
		put_str(sb, k->spec);
		put_str(sb, k->schedule);
		put_u64(sb, k->n_operands);
		put_u64(sb, k->n_results);
		put_u64(sb, k->n_passes);
		for (uint32_t j = 0; j < k->n_passes; j++)
			put_u64(sb, (uint64_t)k->range[j]);
		put_u64(sb, k->shared_bytes);
		put_u64(sb, k->local_bytes);
		put_u64(sb, (uint64_t)k->cost_ns);
		put_u64(sb, (uint64_t)k->bound_ns);
		put_u64(sb, k->is_measured);
		put_u64(sb, (uint64_t)k->flops);
		put_u64(sb, (uint64_t)k->bytes);
		put_u64(sb, (uint64_t)k->spread_ns);
		put_u64(sb, k->n_overlaps);
		for (uint32_t j = 0; j < k->n_overlaps; j++) {
			put_u64(sb, k->overlaps[j].result);
			put_u64(sb, k->overlaps[j].operand);
		}
	}
}

static void
put_ios(struct strbuf *sb, const struct plan_io *io, uint32_t n)
{
	put_u64(sb, n);
	for (uint32_t i = 0; i < n; i++) {
		put_str(sb, io[i].name);
		put_shape(sb, io[i].type, &io[i].shape);
	}
}

static void
put_steps(struct strbuf *sb, const struct plan *p)
{
	put_u64(sb, p->n_places);
	for (uint32_t i = 0; i < p->n_places; i++) {
		const struct place *at = &p->places[i];

		put_u64(sb, (uint64_t)at->kind);
		put_u64(sb, at->index);
		put_u64(sb, at->offset);
		put_u64(sb, at->n_bytes);
		put_shape(sb, at->type, &at->shape);
		put_u64(sb, at->tensor);
	}
	put_u64(sb, p->n_steps);
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];

		put_u64(sb, s->kernel);
		put_u64(sb, s->candidate);
		put_str(sb, s->nodes);
		put_list(sb, s->places, s->n_places);
	}
	put_u64(sb, p->n_copies);
	for (uint32_t i = 0; i < p->n_copies; i++) {
		put_u64(sb, p->copies[i].from);
		put_u64(sb, p->copies[i].to);
	}
}

static void
put_evidence(struct strbuf *sb, const struct plan *p)
{
	put_u64(sb, p->n_candidates);
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		put_list(sb, c->reads, c->n_reads);
		put_list(sb, c->makes, c->n_makes);
		put_u64(sb, (uint64_t)c->cost_ns);
		put_u64(sb, c->is_measured);
		put_u64(sb, c->is_chosen);
		put_real(sb, c->reduced_cost);
	}
	put_u64(sb, p->n_rows);
	for (uint32_t i = 0; i < p->n_rows; i++) {
		put_list(sb, p->rows[i].candidates, p->rows[i].n_candidates);
		put_real(sb, p->rows[i].dual);
	}
}

static void
put_rivals(struct strbuf *sb, const struct plan *p)
{
	put_u64(sb, p->n_rivals);
	for (uint32_t i = 0; i < p->n_rivals; i++) {
		const struct plan_rival *r = &p->rivals[i];

		put_str(sb, (struct str){(const char *)r->spec.b, sizeof(r->spec.b)});
		put_str(sb, r->nodes);
		put_str(sb, r->cause);
		put_u64(sb, r->candidate);
		put_u64(sb, r->is_measured);
		put_u64(sb, (uint64_t)r->cost_ns);
		put_u64(sb, (uint64_t)r->spread_ns);
		put_u64(sb, (uint64_t)r->bound_ns);
		put_u64(sb, (uint64_t)r->expected_ns);
	}
	put_u64(sb, p->n_exchanges);
	for (uint32_t i = 0; i < p->n_exchanges; i++) {
		put_list(sb, p->exchanges[i].steps, p->exchanges[i].n_steps);
		put_list(sb, p->exchanges[i].rivals, p->exchanges[i].n_rivals);
	}
}

static void
put_account(struct strbuf *sb, const struct plan *p)
{
	put_rivals(sb, p);
	put_u64(sb, p->n_aparts);
	for (uint32_t i = 0; i < p->n_aparts; i++) {
		const struct plan_apart *x = &p->aparts[i];

		put_list(sb,
		    (const uint32_t[]){x->of_steps, x->a, x->b, x->measured, x->exchange, x->open, x->failed},
		    7);
		put_str(sb, x->rule);
	}
	put_u64(sb, p->n_nodes);
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		put_str(sb, p->nodes[i].name);
		put_str(sb, p->nodes[i].op);
		put_u64(sb, (uint64_t)p->nodes[i].fate);
		put_list(sb, p->nodes[i].reads, p->nodes[i].n_reads);
		put_list(sb, p->nodes[i].steps, p->nodes[i].n_steps);
	}
}

static void
put_all_but_blobs(struct strbuf *sb, const struct plan *p)
{
	put_facts(sb, p);
	put_ios(sb, p->inputs, p->n_inputs);
	put_ios(sb, p->outputs, p->n_outputs);
	put_kernels(sb, p);
	put_steps(sb, p);
	put_evidence(sb, p);
	put_account(sb, p);
}

static void
put_plan(struct strbuf *sb, const struct plan *p, blob_sum_fn *sum)
{
	put_all_but_blobs(sb, p);
	sum(sb, (struct bytes){(const uint8_t *)p->graph.p, p->graph.n});
	sum(sb, (struct bytes){(const uint8_t *)p->source.p, p->source.n});
	sum(sb, p->module);
	sum(sb, p->constants);
}

static void
sum_slow(struct strbuf *sb, struct bytes b)
{
	struct hash h = hash_bytes(b.p, b.n);

	put_u64(sb, b.n);
	sb_add(sb, (struct str){(const char *)h.b, sizeof(h.b)});
}

static void
sum_quick(struct strbuf *sb, struct bytes b)
{
	put_u64(sb, b.n);
	put_u64(sb, hash64(b.p, b.n, 1));
}

void
plan_digest_before_5(const struct plan *p, struct hash *out)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	put_plan(&sb, p, sum_slow);
	*out = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
}

/* What formats before 5 lack; zero adds nothing, so that their sums stay. */
static void
put_errors(struct strbuf *sb, const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_kernels; i++)
		if (p->kernels[i].error_ns != 0) {
			put_u64(sb, i);
			put_real(sb, p->kernels[i].error_ns);
		}
	for (uint32_t i = 0; i < p->n_rivals; i++)
		if (p->rivals[i].error_ns != 0) {
			put_u64(sb, i);
			put_real(sb, p->rivals[i].error_ns);
		}
}

/* Likewise. */
static void
put_perturbed(struct strbuf *sb, const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_perturbed; i++) {
		const struct plan_perturbed *x = &p->perturbed[i];
		const double real[] = {x->ratio, x->low, x->high, x->expected};
		const int64_t whole[] = {x->pairs, x->compared, x->tried, x->failed, x->moves};

		put_u64(sb, x->kernel);
		for (size_t k = 0; k < COUNT_OF(real); k++)
			put_real(sb, real[k]);
		for (size_t k = 0; k < COUNT_OF(whole); k++)
			put_u64(sb, (uint64_t)whole[k]);
	}
}

/* Likewise. */
static void
put_heats(struct strbuf *sb, const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_heats; i++) {
		put_u64(sb, p->heats[i].kernel);
		put_str(sb, p->heats[i].word);
	}
}

/* Likewise. */
static void
put_expected(struct strbuf *sb, const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_expected; i++) {
		const struct plan_expected *x = &p->expected[i];

		put_u64(sb, x->kernel);
		put_u64(sb, (uint64_t)x->ns);
		put_u64(sb, (uint64_t)x->low_ns);
		put_u64(sb, (uint64_t)x->high_ns);
	}
}

/* Likewise. */
static void
put_sure(struct strbuf *sb, const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_sures; i++) {
		put_real(sb, p->sures[i].confidence);
		put_u64(sb, (uint64_t)p->sures[i].least_ns);
		put_u64(sb, p->sures[i].n_predicted);
		put_u64(sb, p->sures[i].n_bound);
	}
	for (uint32_t i = 0; i < p->n_sure_costs; i++) {
		put_u64(sb, p->sure_costs[i].candidate);
		put_u64(sb, (uint64_t)p->sure_costs[i].cost_ns);
	}
	for (uint32_t i = 0; i < p->n_sure_rows; i++) {
		const struct plan_row *row = &p->sure_rows[i];

		put_u64(sb, row->n_candidates);
		for (uint32_t k = 0; k < row->n_candidates; k++)
			put_u64(sb, row->candidates[k]);
		put_real(sb, row->dual);
	}
}

uint64_t
plan_sum(const struct plan *p, const struct plan_host *h)
{
	struct arena tmp = {0};
	struct strbuf sb;
	uint64_t v;

	sb_init(&sb, &tmp);
	put_plan(&sb, p, sum_quick);
	put_u64(&sb, (uint64_t)p->measured_ns);
	if (p->runner_ns || p->runner_measured_ns || p->runner.n) { /* not in older plans */
		put_u64(&sb, (uint64_t)p->runner_ns);
		put_u64(&sb, (uint64_t)p->runner_measured_ns);
		put_str(&sb, p->runner);
	}
	if (p->expected_ns) { /* likewise */
		put_u64(&sb, (uint64_t)p->expected_ns);
		put_u64(&sb, (uint64_t)p->expected_low_ns);
		put_u64(&sb, (uint64_t)p->expected_high_ns);
		put_u64(&sb, p->expected_of);
	}
	if (p->winner.n || p->least_measured_ns) { /* likewise */
		put_str(&sb, p->winner);
		put_u64(&sb, (uint64_t)p->least_measured_ns);
	}
	if (p->clock_ratio > 0) /* likewise */
		put_real(&sb, p->clock_ratio);
	if (p->values.n) /* likewise */
		put_str(&sb, p->values);
	put_errors(&sb, p);
	put_perturbed(&sb, p);
	put_heats(&sb, p);
	put_expected(&sb, p);
	put_sure(&sb, p);
	put_u64(&sb, (uint64_t)h->wall_ns);
	put_str(&sb, h->made_by);
	put_str(&sb, h->host);
	v = hash64(sb.p, sb.n, 2);
	arena_fini(&tmp);
	return v;
}

/* ---- what is signed ------------------------------------------------------------------------ */
struct hash
plan_blob_sum(struct bytes b)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	for (size_t at = 0; at < b.n; at += PLAN_PART_BYTES) {
		h = hash_bytes(b.p + at, MIN_OF(b.n - at, (size_t)PLAN_PART_BYTES));
		sb_add(&sb, (struct str){(const char *)h.b, sizeof(h.b)});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

struct hash
plan_content(const struct plan *p, const struct hash blob[PLAN_BLOBS])
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	put_all_but_blobs(&sb, p);
	put_str(&sb, p->values);
	put_errors(&sb, p);
	put_perturbed(&sb, p);
	put_heats(&sb, p);
	put_expected(&sb, p);
	put_sure(&sb, p);
	for (int i = 0; i < PLAN_BLOBS; i++)
		sb_add(&sb, (struct str){(const char *)blob[i].b, sizeof(blob[i].b)});
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}
