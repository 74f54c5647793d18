/* tests/opt_emit.c: the fusion module and the generator over a graph taken as one kernel spec. */
#include "opt.h"
#include "../kernels/emit/emit.h"
#include "../kernels/fuse/tile.h"
#include "harness/cuda_conflicts.h"

static bool
target_of(const struct opt_call *c, struct target *out, struct err *e)
{
	if (!target_read(str_of(opt_arg(c, "--target", "avx2")), out, e))
		return false;
	out->strict |= opt_arg(c, "--strict", NULL) != NULL;
	out->winograd |= opt_arg(c, "--winograd", NULL) != NULL;
	return true;
}

/* Verifies the program behind each pass (with --bounds: and proves its bounds), and with --passes prints it
 * where it has changed. */
struct tile_look {
	struct opt_call *c;
	struct str before;
	bool prints, proves;
};

static bool
look_at_tile(void *self, const char *pass, enum tile_form level, const struct tile_prog *p, struct err *e)
{
	struct tile_look *l = self;
	struct strbuf sb;

	if (!tile_verify(p, level, e) || (l->proves && !tile_bounds(p, level, e)))
		return err_in(e, "after %s", pass);
	sb_init(&sb, l->c->a);
	tile_print_level(&sb, p, level);
	if (l->prints && str_eq(sb_str(&sb), l->before))
		sb_addf(l->c->out, "== %s: nothing changed\n", pass);
	else if (l->prints)
		sb_addf(l->c->out, "== %s\n%.*s", pass, STR_ARG(sb_str(&sb)));
	l->before = sb_str(&sb);
	return true;
}

bool
opt_tile(struct opt_call *c, struct err *e)
{
	struct tile_look look = {.c = c,
	    .prints = opt_arg(c, "--passes", NULL) != NULL,
	    .proves = opt_arg(c, "--bounds", NULL) != NULL};
	const struct tile_watch watch = {look_at_tile, &look};
	struct target t;
	struct sched sched;
	struct tile_prog p;
	struct spec s;

	if (!target_of(c, &t, e))
		return false;
	if (!t.is_cuda)
		return err_set(e, ERR_USAGE, "a CPU's kernels have no tile program: see korch-opt loops");
	if (!opt_read_spec(c, &s, e) || !sched_read(str_of(opt_arg(c, "--schedule", "")), &sched, e) ||
	    !tile_make_watched(c->a, &s, &sched, &t, NULL, &watch, &p, e))
		return false;
	if (!look.prints)
		tile_print(c->out, &p);
	return true;
}

bool
opt_loops(struct opt_call *c, struct err *e)
{
	struct target t;
	struct spec s;

	return target_of(c, &t, e) && opt_read_spec(c, &s, e) &&
	    fuse_print(c->out, &s, str_of(opt_arg(c, "--schedule", "")), &t, e);
}

bool
opt_emit(struct opt_call *c, struct err *e)
{
	struct target t;
	struct kernel_code k;
	struct spec s;

	struct str schedule = str_of(opt_arg(c, "--schedule", ""));
	const char *symbol = opt_arg(c, "--symbol", "k");

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	if (!(t.is_cuda ? emit_cuda(c->a, &s, schedule, &t, symbol, &k, e)
			: emit_c(c->a, &s, schedule, &t, symbol, &k, e)))
		return false;
	emit_print(c->out, &k, &t);
	return true;
}

bool
opt_conflicts(struct opt_call *c, struct err *e)
{
	struct conflict *rows = NEW_ARRAY(c->a, struct conflict, CONFLICT_ROWS);
	struct kernel_code *k = NEW(c->a, struct kernel_code);
	struct target t;
	struct spec s;
	uint32_t n;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	if (!t.is_cuda)
		return err_set(
		    e, ERR_USAGE, "--target: bank conflicts are of cuda kernels: --target=cuda,sm=80");
	if (!emit_cuda(c->a, &s, str_of(opt_arg(c, "--schedule", "")), &t, "k", k, e) ||
	    !cuda_conflicts(c->a, &s, k, rows, &n, e))
		return false;
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "pass %u %s %s %.2f\n", rows[i].pass, rows[i].array,
		    conflict_kind(rows[i].kind), rows[i].turns / rows[i].ideal);
	return true;
}

bool
opt_space(struct opt_call *c, struct err *e)
{
	struct target t;
	struct str *list;
	struct spec s;
	uint32_t n;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	space_list(c->a, &s, &t, 32, emit_outcome, &list, &n);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "\"%.*s\"\n", STR_ARG(list[i]));
	return true;
}
