/* schema/plan_account.c: what korch-plan explain reads: rivals, exchanges, reasons, ONNX nodes.
 * The file is a stranger's: indices are plan_check()'s business, sizes and kinds are checked here. */
#include "plan_file_int.h"

#include <string.h>

/* "none" is written as -1. */
const char pf_account_schema[] =
    "CREATE TABLE rival(id INTEGER PRIMARY KEY, spec BLOB NOT NULL, nodes TEXT NOT NULL, cause TEXT NOT NULL,"
    " candidate INTEGER NOT NULL, is_measured INTEGER NOT NULL, cost_ns INTEGER NOT NULL,"
    " spread_ns INTEGER NOT NULL, bound_ns INTEGER NOT NULL, expected_ns INTEGER NOT NULL) STRICT;"
    "CREATE TABLE exchange(id INTEGER PRIMARY KEY, steps BLOB NOT NULL, rivals BLOB NOT NULL) STRICT;"
    "CREATE TABLE apart(id INTEGER PRIMARY KEY, of_steps INTEGER NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL,"
    " measured INTEGER NOT NULL, exchange INTEGER NOT NULL, open INTEGER NOT NULL, failed INTEGER NOT NULL,"
    " rule TEXT NOT NULL) STRICT;"
    "CREATE TABLE node(id INTEGER PRIMARY KEY, name TEXT NOT NULL, op TEXT NOT NULL, fate TEXT NOT NULL,"
    " reads BLOB NOT NULL, steps BLOB NOT NULL) STRICT;";

static const char *const fates[FATE_COUNT] = {
    [FATE_KERNEL] = "kernel", [FATE_VIEW] = "view", [FATE_FOLDED] = "folded", [FATE_REWRITTEN] = "rewritten"};

static void
bind_index(struct plan_db *f, sqlite3_stmt *s, int at, uint32_t v)
{
	pf_bind_int(f, s, at, v == PLAN_NONE ? -1 : (int64_t)v);
}

static uint32_t
get_index(struct plan_db *f, sqlite3_stmt *s, int at)
{
	int64_t v = pf_get_int(f, s, at);

	if (v < -1 || v >= UINT32_MAX) {
		pf_damaged(f, "a number is out of range");
		return 0;
	}
	return (uint32_t)v;
}

static void
save_rivals(struct plan_db *f, struct arena *tmp, const struct plan *p)
{
	sqlite3_stmt *s = pf_prepare(f, "INSERT INTO rival VALUES(?,?,?,?,?,?,?,?,?,?)");

	for (uint32_t i = 0; i < p->n_rivals; i++) {
		const struct plan_rival *r = &p->rivals[i];

		pf_bind_int(f, s, 1, i);
		pf_bind_bytes(f, s, 2, r->spec.b, sizeof(r->spec.b));
		pf_bind_str(f, s, 3, r->nodes);
		pf_bind_str(f, s, 4, r->cause);
		bind_index(f, s, 5, r->candidate);
		pf_bind_int(f, s, 6, r->is_measured);
		pf_bind_int(f, s, 7, r->cost_ns);
		pf_bind_int(f, s, 8, r->spread_ns);
		pf_bind_int(f, s, 9, r->bound_ns);
		pf_bind_int(f, s, 10, r->expected_ns);
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "INSERT INTO exchange VALUES(?,?,?)");
	for (uint32_t i = 0; i < p->n_exchanges; i++) {
		pf_bind_int(f, s, 1, i);
		pf_bind_words(f, s, 2, tmp, p->exchanges[i].steps, p->exchanges[i].n_steps, 4);
		pf_bind_words(f, s, 3, tmp, p->exchanges[i].rivals, p->exchanges[i].n_rivals, 4);
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
}

void
pf_save_account(struct plan_db *f, struct arena *tmp, const struct plan *p)
{
	sqlite3_stmt *s;

	save_rivals(f, tmp, p);
	s = pf_prepare(f, "INSERT INTO apart VALUES(?,?,?,?,?,?,?,?,?)");
	for (uint32_t i = 0; i < p->n_aparts; i++) {
		const struct plan_apart *x = &p->aparts[i];

		pf_bind_int(f, s, 1, i);
		pf_bind_int(f, s, 2, x->of_steps);
		pf_bind_int(f, s, 3, x->a);
		pf_bind_int(f, s, 4, x->b);
		bind_index(f, s, 5, x->measured);
		bind_index(f, s, 6, x->exchange);
		bind_index(f, s, 7, x->open);
		bind_index(f, s, 8, x->failed);
		pf_bind_str(f, s, 9, x->rule);
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "INSERT INTO node VALUES(?,?,?,?,?,?)");
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		const struct plan_node *n = &p->nodes[i];

		pf_bind_int(f, s, 1, i);
		pf_bind_str(f, s, 2, n->name);
		pf_bind_str(f, s, 3, n->op);
		pf_bind_str(f, s, 4, str_of(fates[n->fate]));
		pf_bind_words(f, s, 5, tmp, n->reads, n->n_reads, 4);
		pf_bind_words(f, s, 6, tmp, n->steps, n->n_steps, 4);
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
}

static void
load_rivals(struct plan_db *f, struct arena *a, struct plan *p)
{
	sqlite3_stmt *s = pf_prepare(f, "SELECT id, spec, nodes, cause, candidate, is_measured, cost_ns, spread_ns, bound_ns,"
					" expected_ns FROM rival ORDER BY id");

	p->n_rivals = pf_count_rows(f, "rival");
	p->rivals = NEW_ARRAY(a, struct plan_rival, p->n_rivals);
	for (uint32_t i = 0; i < p->n_rivals && pf_row_at(f, s, i); i++) {
		struct plan_rival *r = &p->rivals[i];
		struct bytes spec = pf_get_bytes(f, s, 1);

		if (spec.n == sizeof(r->spec.b))
			memcpy(r->spec.b, spec.p, spec.n);
		else
			pf_damaged(f, "a kernel's hash has a wrong size");
		r->nodes = pf_get_str(f, s, 2, a);
		r->cause = pf_get_str(f, s, 3, a);
		r->candidate = get_index(f, s, 4);
		r->is_measured = pf_get_bool(f, s, 5);
		r->cost_ns = pf_get_int(f, s, 6);
		r->spread_ns = pf_get_int(f, s, 7);
		r->bound_ns = pf_get_int(f, s, 8);
		r->expected_ns = pf_get_int(f, s, 9);
	}
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "SELECT id, steps, rivals FROM exchange ORDER BY id");
	p->n_exchanges = pf_count_rows(f, "exchange");
	p->exchanges = NEW_ARRAY(a, struct plan_exchange, p->n_exchanges);
	for (uint32_t i = 0; i < p->n_exchanges && pf_row_at(f, s, i); i++) {
		p->exchanges[i].steps = pf_get_u32s(f, s, 1, a, &p->exchanges[i].n_steps);
		p->exchanges[i].rivals = pf_get_u32s(f, s, 2, a, &p->exchanges[i].n_rivals);
	}
	(void)sqlite3_finalize(s);
}

static enum plan_fate
get_fate(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a)
{
	struct str name = pf_get_str(f, s, at, a);

	for (size_t i = 0; i < COUNT_OF(fates); i++)
		if (str_is(name, fates[i]))
			return (enum plan_fate)i;
	pf_damaged(f, "a node has no known fate");
	return FATE_KERNEL;
}

void
pf_load_account(struct plan_db *f, struct arena *a, struct plan *p)
{
	sqlite3_stmt *s;

	load_rivals(f, a, p);
	s = pf_prepare(f, "SELECT id, of_steps, a, b, measured, exchange, open, failed, rule FROM apart ORDER BY id");
	p->n_aparts = pf_count_rows(f, "apart");
	p->aparts = NEW_ARRAY(a, struct plan_apart, p->n_aparts);
	for (uint32_t i = 0; i < p->n_aparts && pf_row_at(f, s, i); i++)
		p->aparts[i] = (struct plan_apart){.of_steps = pf_get_bool(f, s, 1), .a = pf_get_u32(f, s, 2),
		    .b = pf_get_u32(f, s, 3), .measured = get_index(f, s, 4), .exchange = get_index(f, s, 5),
		    .open = get_index(f, s, 6), .failed = get_index(f, s, 7), .rule = pf_get_str(f, s, 8, a)};
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "SELECT id, name, op, fate, reads, steps FROM node ORDER BY id");
	p->n_nodes = pf_count_rows(f, "node");
	p->nodes = NEW_ARRAY(a, struct plan_node, p->n_nodes);
	for (uint32_t i = 0; i < p->n_nodes && pf_row_at(f, s, i); i++) {
		struct plan_node *n = &p->nodes[i];

		n->name = pf_get_str(f, s, 1, a);
		n->op = pf_get_str(f, s, 2, a);
		n->fate = get_fate(f, s, 3, a);
		n->reads = pf_get_u32s(f, s, 4, a, &n->n_reads);
		n->steps = pf_get_u32s(f, s, 5, a, &n->n_steps);
	}
	(void)sqlite3_finalize(s);
}
