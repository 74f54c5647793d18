/* daemon/planner/stages.c: what --dump writes of the half behind the candidates: costs, program, choice, and
 * the chosen kernels as programs and text. */
#include "tune.h"

#include "../../kernels/space/space.h"
#include "../../schema/plan_file.h"

/* What each spec costs in the program now; BLP_NEVER. */
static int64_t *
program_costs(const struct tune *t, struct arena *a)
{
	int64_t *cost = NEW_ARRAY(a, int64_t, MAX_OF(t->front.cands.n_specs, 1u));

	for (uint32_t i = 0; i < t->front.cands.n_specs; i++)
		cost[i] = BLP_NEVER;
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		cost[t->program.spec_of[k]] = t->program.kernels[k].cost;
	return cost;
}

/* "spec 3 cost 5120 | bound 4100 measured 5120 spread 40 samples 31 repeats 1 effort 4 "mr=6 nr=16"" */
static void
put_cost(struct strbuf *sb, const struct tune *t, uint32_t s, int64_t cost)
{
	const struct spec_cost *c = &t->cost[s];

	if (cost == BLP_NEVER)
		sb_addf(sb, "spec %u cost never", s);
	else
		sb_addf(sb, "spec %u cost %lld", s, (long long)cost);
	sb_addf(sb, " | bound %lld", (long long)c->bound_ns);
	if (c->state == LAZY_FAILED)
		sb_addf(sb, " failed %s: %.*s", err_name(c->fail), STR_ARG(c->cause));
	else if (c->measured_ns > 0)
		sb_addf(sb, " measured %lld spread %lld samples %llu repeats %llu effort %llu \"%.*s\"",
		    (long long)c->measured_ns, (long long)c->spread_ns, (unsigned long long)c->samples,
		    (unsigned long long)c->repeats, (unsigned long long)c->effort, STR_ARG(c->schedule));
	else
		sb_addf(sb, " expected %lld", (long long)cost_expected(t, c));
	sb_addc(sb, '\n');
}

static bool
dump_costs(const struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	int64_t *cost = program_costs(t, &tmp);
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++)
		put_cost(&sb, t, i, cost[i]);
	ok = dump_put(
	    &t->dump, STAGE_costs, "--graph=rewrite.txt --candidates=candidates.txt ", sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

static bool
dump_program(const struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	blp_print_whole(&sb, &t->program.blp);
	ok = dump_put(&t->dump, STAGE_program, "", sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

bool
stages_program(const struct tune *t, struct err *e)
{
	return (!dump_wants(&t->dump, STAGE_costs) || dump_costs(t, e)) &&
	    (!dump_wants(&t->dump, STAGE_program) || dump_program(t, e));
}

bool
stages_choice(const struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	if (!dump_wants(&t->dump, STAGE_choice))
		return true;
	sb_init(&sb, &tmp);
	choice_print(&sb, &t->program.blp, &t->choice);
	ok = dump_put(&t->dump, STAGE_choice, "--program=program.txt ", sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}

/* ---- kernels ------------------------------------------------------------------------ */
/* What is common to both golden files of a kernel: command and input. */
static struct dump_case
case_of(struct tune *t, struct arena *a, uint32_t s, const struct plan_code *code)
{
	struct dump_case c = {.name = str_dup(a, code->symbol), .input = t->front.cands.specs[s].text};
	struct strbuf sb;
	char hex[65];

	hash_hex(&t->front.cands.specs[s].hash, hex);
	c.what = arena_printf(a, "Kernel %.12s, node '%s'.", hex, spec_description(t, s));
	sb_init(&sb, a);
	sb_addf(&sb, "--schedule='%.*s' --target=", STR_ARG(code->schedule));
	target_print(&sb, &t->target);
	c.args = sb.p;
	return c;
}

static bool
dump_loops(struct tune *t, struct arena *a, uint32_t s, struct dump_case c, const struct plan_code *code,
    struct err *e)
{
	struct strbuf sb;

	if (!dump_wants(&t->dump, STAGE_loops) || code->desc.is_library)
		return true;
	sb_init(&sb, a);
	if (!space_print(&sb, &t->front.cands.specs[s], code->schedule, &t->target, e))
		return err_in(e, "the dump of kernel %s", c.name);
	c.output = sb_str(&sb);
	return dump_put_case(&t->dump, STAGE_loops, &c, e);
}

static bool
dump_text(struct tune *t, struct arena *a, struct dump_case c, const struct plan_code *code, struct err *e)
{
	struct strbuf sb;

	if (!dump_wants(&t->dump, STAGE_text))
		return true;
	sb_init(&sb, a);
	sb_add(&sb, code->text);
	descriptor_print(&sb, &code->desc, t->target.is_cuda);
	c.args = arena_printf(a, "%s --symbol=%s", c.args, c.name);
	c.output = sb_str(&sb);
	return dump_put_case(&t->dump, STAGE_text, &c, e);
}

bool
stages_kernels(struct tune *t, const struct plan_code *codes, struct err *e)
{
	bool ok = true;

	if (!dump_wants(&t->dump, STAGE_loops) && !dump_wants(&t->dump, STAGE_text))
		return true;
	for (uint32_t s = 0; s < t->front.cands.n_specs && ok; s++) {
		struct arena tmp = {0};

		if (codes[s].is_ready) {
			struct dump_case c = case_of(t, &tmp, s, &codes[s]);

			ok = dump_loops(t, &tmp, s, c, &codes[s], e) && dump_text(t, &tmp, c, &codes[s], e);
		}
		arena_fini(&tmp);
	}
	return ok;
}

bool
stages_plan(const struct tune *t, const struct plan *plan, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok = true;

	if (!dump_wants(&t->dump, STAGE_plan))
		return true;
	sb_init(&sb, &tmp);
	ok = plan_text_print(&sb, plan, e) && dump_put(&t->dump, STAGE_plan, "", sb_str(&sb), e);
	arena_fini(&tmp);
	return ok;
}
