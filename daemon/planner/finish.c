/* daemon/planner/finish.c: from the choice to the plan file.  All chosen (spec, schedule) pairs
 * are built and checked together by a worker; a kernel that fails there is taken out and the
 * choice made again. */
#include "away.h"
#include "result_cache.h"
#include "finish.h"
#include "held.h"
#include "perturb.h"
#include "rivals.h"
#include "sure.h"
#include "ways.h"
#include "what_if.h"
#include "whole.h"

#include "../../kernels/space/sched.h"
#include "../../proto/range.h"
#include "../../schema/artefact.h"
#include "../../schema/plan_file.h"

#include <string.h>
#include <sys/utsname.h>

enum { MAX_BUILDS = 20, MODULE_MAX_BYTES = 256 << 20 };

/* The specs of the choice that need code, each once, in order of first use. */
static uint32_t
chosen_specs(const struct tune *t, struct arena *a, uint32_t **out)
{
	struct bitset seen = bitset_make(a, MAX_OF(t->front.cands.n_specs, 1u));
	uint32_t *specs = NEW_ARRAY(a, uint32_t, t->choice.n_chosen), n = 0;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];

		if (bit_get(&seen, s) || cand_is_view(&t->front.cands, s))
			continue;
		bit_set(&seen, s);
		specs[n++] = s;
	}
	*out = specs;
	return n;
}

static void
others_of(struct tune *t, const struct ways *w, struct m_kernel *k)
{
	struct m_other *o = NEW_ARRAY(t->plan_arena, struct m_other, WAYS_MAX);

	for (uint32_t i = 1; i < w->n; i++)
		o[i - 1].schedule = w->schedule[i];
	k->others = o;
	k->n_others = w->n - 1;
}

/* ERR_DEADLINE: not by then. */
static bool
ask_build(struct tune *t, const uint32_t *specs, uint32_t n, const struct plan_code *codes,
    const struct ways *ways, struct build_when when, struct m_build_have *have, struct err *e)
{
	struct msg ask = {.type = MSG_build_ask}, m;
	struct strbuf target;
	struct m_kernel *k = NEW_ARRAY(t->plan_arena, struct m_kernel, n);
	int64_t from = t->os->mono_ns(t->os->self);

	for (uint32_t i = 0; i < n; i++) {
		k[i] = (struct m_kernel){.spec = t->front.cands.specs[specs[i]].text,
		    .schedule = ways[i].schedule[0],
		    .symbol = codes[specs[i]].symbol};
		others_of(t, &ways[i], &k[i]);
	}
	ask.build_ask = (struct m_build_ask){.threads = t->start.options.threads,
	    .precision = t->precision,
	    .kernels = k,
	    .n_kernels = n,
	    .only_known = when.only_known};
	sb_init(&target, t->plan_arena);
	if (away_has_no_builder(t)) {
		target_print(&target, &t->target);
		ask.build_ask.target = sb_str(&target);
	}
	if (!pipe_send(t->pipe, &ask, e) || !costs_await(t, MSG_build_have, when.until_ns, &m, e))
		return false;
	if (m.type != MSG_build_have)
		return err_set(e, ERR_DEADLINE, "its build was not done in time");
	*have = m.build_have;
	if (when.only_known)
		return have->fail || have->path.n ||
		    err_set(e, ERR_DEADLINE, "there is no time for its build");
	share_note_build(
	    t, share_build_ns(t, t->choice.chosen, t->choice.n_chosen), t->os->mono_ns(t->os->self) - from);
	return true;
}

/* The schedules that the builder took, where it had a choice. */
static bool
note_took(const uint32_t *specs, uint32_t n, struct plan_code *codes, const struct ways *ways,
    struct bytes took, struct err *e)
{
	if (took.n && took.n != n)
		return err_set(e, ERR_PROTO, "a build of %u kernels tells the schedules of %zu", n, took.n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t way = took.n ? took.p[i] : 0;

		if (way >= ways[i].n)
			return err_set(e, ERR_PROTO, "a build took a schedule that it was not given");
		codes[specs[i]].schedule = ways[i].schedule[way];
	}
	return true;
}

/* A device binds what its schedule calls a library's kernel, whatever the descriptor says. */
static bool
is_as_its_schedule(const struct plan_code *c, struct err *e)
{
	struct sched sched;
	enum library l;
	int64_t version;
	struct str plain, moves;

	(void)sip_split(c->schedule, &plain, &moves);
	if (!sched_read(plain, &sched, e))
		return false;
	return sched_library(&sched, &l, &version) == c->desc.is_library ||
	    err_set(e, ERR_PROTO, "kernel %.*s of a build is %s library's call, unlike its schedule",
		STR_ARG(c->symbol), c->desc.is_library ? "a" : "no");
}

/* What the builder tells of its machine code: the plan is made by that, and nothing is generated here. */
static bool
read_description(struct tune *t, const uint32_t *specs, uint32_t n, struct plan_code *codes,
    const struct m_build_have *have, struct str *source, struct err *e)
{
	const struct spec **of = NEW_ARRAY(t->plan_arena, const struct spec *, n);
	struct artefact artefact;
	struct strbuf text;
	struct bytes b;

	for (uint32_t i = 0; i < n; i++)
		of[i] = &t->front.cands.specs[specs[i]];
	if (!os_read_file(t->os, t->plan_arena, str_dup(t->plan_arena, have->description_path),
		ARTEFACT_MAX_BYTES, &b, e) ||
	    !artefact_read(t->plan_arena, b, of, n, &artefact, e))
		return false;
	sb_init(&text, t->plan_arena);
	sb_add(&text, artefact.prelude);
	for (uint32_t i = 0; i < n; i++) {
		struct plan_code *c = &codes[specs[i]];

		c->desc = artefact.kernels[i].desc;
		c->text = artefact.kernels[i].text;
		if (!is_as_its_schedule(c, e))
			return false;
		c->is_ready = true;
		sb_add(&text, c->text);
	}
	*source = sb_str(&text);
	return true;
}

/* Has the kernels built; have->fail: that is why not. */
static bool
build_once(struct tune *t, const uint32_t *specs, uint32_t n, struct plan_code *codes, struct build_when when,
    struct m_build_have *have, struct str *source, struct err *e)
{
	struct ways *ways = NEW_ARRAY(t->plan_arena, struct ways, n);

	ways_guess(t, specs, n);
	for (uint32_t i = 0; i < n; i++) {
		codes[specs[i]].symbol = str_of(arena_printf(t->plan_arena, "k%u", i));
		codes[specs[i]].is_ready = false;
		ways_list(t, specs[i], &ways[i]);
	}
	if (!ask_build(t, specs, n, codes, ways, when, have, e))
		return false;
	return have->fail ||
	    (note_took(specs, n, codes, ways, have->took, e) &&
		read_description(t, specs, n, codes, have, source, e));
}

/* The failed kernel, from "SYMBOL: cause"; false when it names none. */
static bool
blame(struct tune *t, const uint32_t *specs, uint32_t n, const struct plan_code *codes,
    const struct m_build_have *have, struct err *e)
{
	struct str rest = have->cause, symbol = str_cut(&rest, ':');

	for (uint32_t i = 0; i < n; i++) {
		struct spec_cost *c = &t->cost[specs[i]];

		if (!str_eq(codes[specs[i]].symbol, symbol))
			continue;
		if (!t->is_plain && perturb_undo(t, specs[i])) {
			perturb_unmoved(t, specs[i], str_trim(rest));
			return true;
		}
		c->state = LAZY_FAILED;
		c->fail = err_of_wire(have->fail);
		c->cause = str_trim(rest);
		t->progress.failed++;
		return true;
	}
	return err_set(e, err_of_wire(have->fail), "building the plan's kernels: %.*s", STR_ARG(have->cause));
}

static bool
is_infrastructure(uint64_t fail)
{
	enum err_code c = err_of_wire(fail);

	return c != ERR_INFEASIBLE && c != ERR_COMPILE && c != ERR_WRONG && c != ERR_CRASH &&
	    c != ERR_TIMEOUT && c != ERR_LAUNCH;
}

/* What the daemon says of a build goes into the plan, and the daemon signs no other one. */
static void
keep_signature(struct tune *t, const struct m_build_have *have)
{
	struct plan_seal *s = &t->seal;

	*s = (struct plan_seal){
	    .build_key = have->key, .worker = {str_dup(t->arena, have->worker), have->worker.n}};
	s->build.n = MIN_OF(have->signature.n, sizeof(s->build.b));
	if (s->build.n)
		memcpy(s->build.b, have->signature.p, s->build.n);
}

/* The machine code of a build that is done; none where nobody here can make it. */
static bool
take_module(struct tune *t, const struct m_build_have *have, struct bytes *module, struct err *e)
{
	*module = (struct bytes){0};
	t->seal = (struct plan_seal){0};
	if (away_has_no_builder(
		t)) /* the text alone: whoever has a compiler for the device makes code of it */
		return true;
	keep_signature(t, have);
	return os_read_file(
	    t->os, t->plan_arena, str_dup(t->plan_arena, have->path), MODULE_MAX_BYTES, module, e);
}

/* Builds until all chosen kernels work; each failure removes one kernel from the program. */
static bool
build(struct tune *t, struct plan_code *codes, struct bytes *module, struct str *source, struct err *e)
{
	for (int attempt = 0; attempt < MAX_BUILDS; attempt++) {
		struct m_build_have have;
		uint32_t *specs, n = chosen_specs(t, t->plan_arena, &specs);

		if (n == 0) {
			t->seal = (struct plan_seal){0};
			*module = (struct bytes){0};
			*source = STR("");
			return true;
		}
		if (!progress_say(t, "building", true, e) ||
		    !build_once(t, specs, n, codes, (struct build_when){0}, &have, source, e))
			return false;
		if (have.fail == 0)
			return take_module(t, &have, module, e);
		if (is_infrastructure(have.fail))
			return err_set(e, err_of_wire(have.fail), "building the plan's kernels: %.*s",
			    STR_ARG(have.cause));
		if (!blame(t, specs, n, codes, &have, e))
			return false;
		if (what_if_asked(t))
			return err_set(e, ERR_FAILED,
			    "a kernel of the plan %s failed when it was built: %.*s", t->progress.what_if.p,
			    STR_ARG(have.cause));
		if (!search_incumbent(t, e))
			return false;
	}
	return err_set(e, ERR_FAILED,
	    "gave up after %d builds with failing kernels; the last ones are in the job's log", MAX_BUILDS);
}

static const char *const *
origin_names(struct tune *t)
{
	uint32_t n = t->front.model.n_nodes;
	const char **names = NEW_ARRAY(t->plan_arena, const char *, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++)
		names[i] = t->front.model.nodes[i].name;
	return names;
}

/* "sr=16000, mode=1": inputs that became constants. */
static struct str
value_words(const struct tune *t)
{
	const struct m_options *o = &t->start.options;
	struct strbuf sb;

	sb_init(&sb, t->plan_arena);
	for (uint32_t i = 0; i < o->n_values; i++)
		sb_addf(&sb, "%s%.*s=%.*s", i ? ", " : "", STR_ARG(o->values[i].name),
		    STR_ARG(o->values[i].words));
	return sb.n ? sb_str(&sb) : STR("");
}

static struct str
limits_words(struct tune *t)
{
	const struct identify_limits *l = &t->front.limits;

	return str_of(arena_printf(t->plan_arena,
	    "candidates of at most %u primitives, %u anchors (%u sets with a pair), "
	    "%u reductions, %u inputs, %u outputs; %u dropped, "
	    "%u infeasible; %llu schedules a candidate%s%s",
	    l->max_nodes, l->max_anchors, l->max_pairs, l->max_reductions, l->max_in, l->max_out,
	    t->front.cands.n_dropped, t->front.cands.n_infeasible, (unsigned long long)t->effort,
	    t->target.precision == PRECISION_F32 ? "" : "; products in ",
	    t->target.precision == PRECISION_F32 ? "" : precision_name(t->target.precision)));
}

/* Why the search ended, what kept the machines from measuring, and instructions from being moved. */
static struct str
stop_reason(struct tune *t)
{
	const size_t most = t->n_unmoved && t->n_trouble ? 180 : 400; /* of each, for both to fit a message */
	struct m_progress *p = &t->progress;
	struct strbuf sb;

	if (!t->n_trouble && !t->n_unmoved)
		return p->stop;
	sb_init(&sb, t->arena);
	if (t->n_trouble)
		sb_addf(&sb, "%u measurement%s ended by the machine's fault: %.*s", t->n_trouble,
		    t->n_trouble == 1 ? "" : "s", (int)MIN_OF(t->trouble.n, most), t->trouble.p);
	if (t->n_unmoved)
		sb_addf(&sb, "%sthe instructions of %u kernel%s stay as compiled: %.*s", sb.n ? "; " : "",
		    t->n_unmoved, t->n_unmoved == 1 ? "" : "s", (int)MIN_OF(t->unmoved.n, most),
		    t->unmoved.p);
	p->trouble = sb_str(&sb);
	return str_of(arena_printf(t->plan_arena, "%.*s; %.*s", STR_ARG(p->stop), STR_ARG(p->trouble)));
}

static bool
make(struct tune *t, const struct plan_code *codes, struct bytes module, struct str source, struct plan *plan,
    struct err *e)
{
	uint32_t n = t->front.cands.n_specs;
	int64_t *bound = NEW_ARRAY(t->plan_arena, int64_t, n);
	bool *measured = NEW_ARRAY(t->plan_arena, bool, n);
	char *digest = arena_alloc(t->plan_arena, 65);
	int64_t *was;
	bool ok;
	struct plan_parts parts = {
	    .graph = &t->front.graph,
	    .cands = &t->front.cands,
	    .program = &t->program,
	    .choice = &t->choice,
	    .codes = codes,
	    .bound_ns = bound,
	    .is_measured = measured,
	    .origin_names = origin_names(t),
	    .n_origins = t->front.model.n_nodes,
	    .module = module,
	    .source = source,
	};

	costs_show_known(t);
	for (uint32_t i = 0; i < n; i++) {
		bound[i] = t->cost[i].bound_ns;
		measured[i] = cost_is_known(&t->cost[i]);
	}
	for (uint32_t i = 0; i < t->n_held; i++)
		measured[t->held[i].spec] &= t->held[i].cost_ns > 0;
	hash_hex(&t->model_digest, digest);
	*plan = (struct plan){
	    .run_compat = t->start.env.run_compat,
	    .environment = t->start.env.key,
	    .model_name = t->start.model_name,
	    .model_digest = str_of(digest),
	    .version = STR(KORCH_VERSION),
	    .values = value_words(t),
	    .n_threads = (uint32_t)t->start.options.threads,
	    .n_operators = t->front.fission.n_operators,
	    .tolerance = t->start.options.strict ? 0 : t->start.options.tolerance,
	    .fusion = t->start.options.fusion,
	    .limits = limits_words(t),
	    .stop = stop_reason(t),
	    .what_if = t->progress.what_if,
	    .what_if_base_ns = t->progress.what_if_base_ns,
	};
	was = held_show(t, t->plan_arena);
	ok = plan_make(t->plan_arena, &parts, plan, e) || err_in(e, "making the plan");
	if (ok) {
		explain_plan(t, plan);
		sure_tell(t, plan);
	}
	held_hide(t, was);
	return ok;
}

static bool
save(struct tune *t, const struct plan *plan, const char *path, struct err *e)
{
	struct utsname u;
	struct plan_host host = {.wall_ns = t->os->wall_ns(t->os->self),
	    .made_by = STR("korch " KORCH_VERSION),
	    .host = STR(""),
	    .seal = t->seal};

	if (uname(&u) == 0)
		host.host = str_of(arena_printf(t->plan_arena, "%s %s %s", u.sysname, u.release, u.machine));
	return plan_save(path, plan, &host, e);
}

bool
finish_say(struct tune *t, struct str path, const struct hash *earlier, struct err *e)
{
	struct msg done = {.type = MSG_done};
	struct strbuf report;
	struct m_progress *p = &t->progress;

	p->phase = STR("done");
	p->seconds = (double)(t->os->mono_ns(t->os->self) - t->began_ns) * 1e-9;
	p->seconds_left = 0;
	p->wanted = 0;
	sb_init(&report, t->arena);
	rec_json(&report, "progress", p);
	done.done = (struct m_done){
	    .plan_path = path, .progress = *p, .report = sb_str(&report), .precision = STR("")};
	if (earlier)
		done.done.plan = *earlier;
	done.done.wholes = t->timed;
	done.done.n_wholes = t->n_timed;
	if (t->cost && !cached_fill(t, &done.done))
		done.done.end_key = (struct hash){{0}};
	if (!t->cost && t->taken)
		cached_refill(t, &done.done);
	return pipe_send(t->pipe, &done, e);
}

/* The price alone was asked for: nothing is built. */
static bool
says_price_only(const struct tune *t)
{
	const struct m_options *o = &t->start.options;

	for (uint32_t i = 0; i < o->n_extra; i++)
		if (str_is(o->extra[i].name, "plan") && str_is(o->extra[i].value, "none"))
			return what_if_asked(t);
	return false;
}

/* Steps of the choice whose kernel was never measured: the budget ended before any plan was. */
static uint32_t
count_guessed(const struct tune *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];

		n +=
		    !cand_is_view(&t->front.cands, s) && (held_is_guess(t, s) || !cost_is_known(&t->cost[s]));
	}
	return n;
}

void
finish_note(struct tune *t, uint32_t n_steps, int64_t latency_ns, int64_t bound_ns, bool proved)
{
	struct m_progress *p = &t->progress;

	p->chosen = n_steps;
	p->guessed = count_guessed(t);
	p->latency_ns = latency_ns;
	p->bound_ns = bound_ns;
	p->proved = proved;
	p->gap = latency_ns > 0 ? (double)(latency_ns - bound_ns) / (double)latency_ns : 0;
}

/* Kernels that failed are found by the plan's own build; here one more costs the trial. */
bool
finish_trial(struct tune *t, const char *path, struct build_when when, struct err *e)
{
	struct arena own = {0}, *before = t->plan_arena;
	struct plan_code *codes = NEW_ARRAY(&own, struct plan_code, t->front.cands.n_specs);
	struct m_build_have have = {0};
	struct bytes module;
	struct str source;
	struct plan plan;
	uint32_t *specs, n;
	int64_t from;
	bool ok;

	t->plan_arena = &own;
	n = chosen_specs(t, &own, &specs);
	ok = build_once(t, specs, n, codes, when, &have, &source, e);
	if (ok && have.fail)
		ok = err_set(e, err_of_wire(have.fail), "%.*s", STR_ARG(have.cause));
	from = t->os->mono_ns(t->os->self);
	ok = ok && os_read_file(t->os, &own, str_dup(&own, have.path), MODULE_MAX_BYTES, &module, e) &&
	    make(t, codes, module, source, &plan, e) && save(t, &plan, path, e);
	if (ok)
		t->file_ns = t->os->mono_ns(t->os->self) - from;
	t->plan_arena = before;
	arena_fini(&own);
	return ok;
}

/* The whole plan's own time stands beside the sum of its kernels, and beside the runner-up's (D20).  A farm
 * that cannot time it now costs the number, not the plan. */
void
finish_times(const struct tune *t, struct plan *plan)
{
	const struct m_progress *p = &t->progress;

	plan->measured_ns = p->measured_ns;
	plan->clock_ratio = p->clock_ratio;
	plan->runner_ns = p->runner_ns;
	plan->runner_measured_ns = p->runner_measured_ns;
	plan->runner = p->runner.n ? p->runner : STR("");
	plan->expected_ns = p->expected_ns;
	plan->expected_low_ns = p->expected_low_ns;
	plan->expected_high_ns = p->expected_high_ns;
	plan->expected_of = p->expected_of;
	plan->winner = p->winner.n ? p->winner : STR("");
	plan->least_measured_ns = p->least_measured_ns;
}

bool
finish_without_plan(struct tune *t, struct err *e)
{
	t->is_final = true;
	return finish_say(t, STR(""), NULL, e);
}

/* A plan that nobody has timed does not take the place of the one that this job ended with before while it
 * rests on more than half as many guesses: one measured kernel more says little of the rest. */
static bool
is_no_better(const struct tune *t)
{
	struct arena tmp = {0};
	uint32_t n_past, n_guessed = count_guessed(t);
	bool has_past = cached_choice(t, &tmp, &n_past) && n_past > 0 && t->past.has_plan && !t->dump.stages;

	arena_fini(&tmp);
	return has_past && t->is_cut && t->progress.measured_ns == 0 && n_guessed > 0 &&
	    2 * (uint64_t)n_guessed > t->past.end.progress.guessed;
}

bool
finish_run(struct tune *t, struct err *e)
{
	struct plan_code *codes = NEW_ARRAY(t->arena, struct plan_code, t->front.cands.n_specs);
	struct plan plan;
	struct bytes module;
	struct str source;
	const char *path = str_dup(t->arena, t->start.out_path);
	bool may_time = tune_may_measure(t) && !t->start.options.predict;

	if (says_price_only(t)) {
		finish_note(
		    t, t->choice.n_chosen, t->choice.cost, MIN_OF(t->choice.bound, t->choice.cost), false);
		return finish_say(t, STR(""), NULL, e);
	}
	if (t->is_repeat && t->past.has_plan && !t->dump.stages)
		return finish_again(t, e);
	t->is_final = true;
	away_note(t);
	t->codes = codes;
	if (!build(t, codes, &module, &source, e))
		return false;
	t->least_ns = t->choice.cost;
	if (t->is_repeat) {
		cached_times(t);
	} else if (may_time && t->choice.n_chosen > 0) {
		if (!plan_race(t, e))
			return false;
		if (is_no_better(t)) {
			cached_take(t, t->past.end.progress.latency_ns);
			cached_progress(t);
			return finish_as_before(t, e);
		}
		if (t->taken)
			return finish_taken(t, e);
		if (t->progress.winner.n && !build(t, codes, &module, &source, e))
			return false;
	}
	if (!make(t, codes, module, source, &plan, e))
		return false;
	finish_note(t, plan.n_steps, plan.latency_ns, plan.bound_ns, plan.proved);
	whole_say(t);
	finish_times(t, &plan);
	if (t->dump.stages &&
	    !(stages_choice(t, e) && stages_kernels(t, codes, e) && stages_plan(t, &plan, e)))
		return false;
	return save(t, &plan, path, e) && finish_say(t, t->start.out_path, NULL, e);
}
