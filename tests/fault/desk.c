/* tests/fault/desk.c: see desk.h. */
#include "desk.h"

#include "../../daemon/planner/device.h"
#include "../../daemon/planner/tune.h"
#include "../../kernels/generate/generate.h"
#include "../../schema/artefact.h"
#include "../harness/sample.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SPECS = 4096, MAX_WAYS = 128 };

/* ---- the table ----------------------------------------------------------------------- */
struct known *
desk_look_up(struct desk *d, struct str text)
{
	struct hash h = hash_bytes(text.p, text.n);
	struct known *k = d->known;
	struct spec s;
	struct str *list;
	uint32_t n;
	int64_t bound;
	struct err e = {0};

	for (uint32_t i = 0; i < d->n; i++, k++)
		if (hash_eq(&k->spec, &h))
			return k;
	assert_true(d->n++ < MAX_SPECS);
	if (!spec_read(&d->a, text, &s, &e))
		fail_msg("%s", e.msg);
	space_list(&d->a, &s, &target_avx2, d->is_virtual ? 4 : 1, text_outcome, &list, &n);
	*k = (struct known){.of = s,
	    .way = NEW_ARRAY(&d->a, struct str, MAX_WAYS),
	    .tried = NEW_ARRAY(&d->a, struct m_tried, MAX_WAYS),
	    .spec = h,
	    .structure = s.structure,
	    .text = {str_dup(&d->a, text), text.n},
	    .cost = {.spec = h,
		.schedule = n ? list[n - 1] : STR(""),
		.cause = STR(""),
		.effort = 1,
		.compile_ns = d->compile_ns}};
	bound = cost_bound_ns(&s, &d->hw, NULL);
	if (n)
		k->cost.median_ns = k->cost.first_ns = (int64_t)((double)bound * d->cost(&h, bound));
	else
		k->cost.fail = (uint64_t)err_wire(ERR_INFEASIBLE);
	return k;
}

/* The schedules that the planner names, or the space's, and none twice. */
static void
measure_ways(struct desk *d, struct known *k, const struct m_spec_ask *ask)
{
	struct str *list;
	uint32_t n = ask->n_named;

	assert_true(!k->is_measured || ask->effort > k->cost.effort);
	list = NEW_ARRAY(&d->a, struct str, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct str){str_dup(&d->a, ask->named[i].schedule), ask->named[i].schedule.n};
	if (n == 0)
		space_list(&d->a, &k->of, &target_avx512, (uint32_t)ask->effort, text_outcome, &list, &n);
	if (!k->is_measured)
		k->cost.median_ns = 0;
	d->n_again += k->is_measured;
	d->n_named += ask->n_named > 0 && !k->is_measured;
	for (uint32_t i = 0; i < n; i++) {
		bool is_known = false;
		int64_t ns;

		for (uint32_t w = 0; w < k->n_ways; w++)
			is_known = is_known || str_eq(k->way[w], list[i]);
		if (is_known)
			continue;
		assert_true(k->n_ways < MAX_WAYS);
		k->way[k->n_ways++] = list[i];
		d->n_ways++;
		d->n_named_ways += ask->n_named > 0;
		ns = d->first_fails && !k->is_measured && ask->effort < d->effort
		    ? 0
		    : d->way(d, &k->of, ask->heat, list[i]);
		if (ns > 0 && (k->cost.median_ns == 0 || ns < k->cost.median_ns)) {
			k->cost.median_ns = k->cost.first_ns = ns;
			k->cost.schedule = list[i];
		}
		k->tried[k->n_ways - 1] = (struct m_tried){.schedule = list[i], .median_ns = ns};
	}
	k->heat = (struct str){str_dup(&d->a, ask->heat), ask->heat.n};
	k->cost.effort = ask->effort;
	k->cost.fail = k->cost.median_ns > 0 ? 0 : (uint64_t)err_wire(ERR_WRONG);
	d->n_failed += k->cost.fail != 0;
}

static void
tell_siblings(struct desk *d, const struct m_cost_ask *ask, struct m_cost_have *have)
{
	struct m_sibling *s = NEW_ARRAY(&d->a, struct m_sibling, MAX_OF(d->n, 1u));

	for (uint32_t k = 0; k < d->n; k++)
		for (uint32_t i = 0; i < ask->n_structures && d->known[k].is_measured; i++)
			if (hash_eq(&ask->structures[i].hash, &d->known[k].structure) &&
			    d->known[k].cost.median_ns > 0)
				s[have->n_siblings++] = (struct m_sibling){.spec = d->known[k].text,
				    .heat = d->known[k].heat,
				    .schedule = d->known[k].cost.schedule,
				    .median_ns = d->known[k].cost.median_ns,
				    .tried = d->known[k].tried,
				    .n_tried = d->known[k].n_ways};
	for (uint32_t i = 0; d->lie > 0 && i < have->n_siblings; i += 3)
		s[i].median_ns = (int64_t)((double)s[i].median_ns * d->lie) + 1;
	have->siblings = s;
	d->n_told = have->n_siblings;
}

/* asked: NULL: to be measured */
static void
answer_costs(struct desk *d, const struct m_spec_ask *specs, uint32_t n, const struct m_cost_ask *asked)
{
	struct msg m = {.type = MSG_cost_have};
	bool measure = !asked;
	struct m_cost *costs = NEW_ARRAY(&d->a, struct m_cost, MAX_OF(n, 1u));
	struct err e = {0};

	for (uint32_t i = 0; i < n; i++) {
		struct known *k = desk_look_up(d, specs[i].text);

		assert_false(measure && k->is_measured && !d->way); /* nothing is asked for twice */
		if (measure && d->way)
			measure_ways(d, k, &specs[i]);
		k->is_measured = k->is_measured || measure;
		d->n_measured += measure;
		costs[i] = k->is_measured
		    ? k->cost
		    : (struct m_cost){.spec = k->spec, .schedule = STR(""), .cause = STR("")};
	}
	m.cost_have = (struct m_cost_have){.costs = costs, .n_costs = n, .is_answer = !measure};
	if (asked && d->has_siblings)
		tell_siblings(d, asked, &m.cost_have);
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* By the virtual clock: one after the other, each in its time. */
static void
queue_measures(struct desk *d, const struct m_spec_ask *specs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct known *k = desk_look_up(d, specs[i].text);

		assert_false(k->is_measured || k->is_out);
		k->is_out = true;
		assert_true(d->n_out < MAX_SPECS);
		d->out[d->n_out++] = k;
	}
}

static void
measure_next(struct desk *d)
{
	struct known *k = d->out[d->at_out++];
	struct msg m = {.type = MSG_cost_have};
	struct err e = {0};

	k->is_out = false;
	k->is_measured = true;
	d->n_measured++;
	m.cost_have = (struct m_cost_have){.costs = &k->cost, .n_costs = 1};
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* What was out is not measured, unless its answer is on the way already: then it comes late. */
static void
drop_measures(struct desk *d, const struct m_measure_drop *m)
{
	struct msg word = {.type = MSG_dropped};
	struct err e = {0};

	d->n_late = 0;
	for (uint32_t i = d->at_out; i < d->n_out; i++) {
		d->out[i]->is_out = false;
		if (d->n_late < d->max_late)
			d->late[d->n_late++] = d->out[i];
	}
	d->n_out = d->at_out = 0;
	if (m->wants_word)
		assert_true(pipe_send(&d->pipe, &word, &e));
}

static void
answer_late(struct desk *d)
{
	for (uint32_t i = 0; i < d->n_late; i++) {
		d->out[d->at_out = 0] = d->late[i];
		d->n_out = 1;
		measure_next(d);
	}
	d->n_late = d->n_out = d->at_out = 0;
}

static void
pass(struct desk *d, int64_t ns)
{
	if (d->is_virtual)
		(void)atomic_fetch_add(&d->clock->now_ns, ns);
}

static void
answer_race(struct desk *d, const struct m_race_ask *ask)
{
	struct msg m = {.type = MSG_race_have};
	struct err e = {0};

	d->n_races++;
	pass(d, ask->budget_ns);
	d->n_raced += ask->n_kernels;
	m.race_have.cause = STR("");
	m.race_have.costs = NEW_ARRAY(&d->a, struct m_cost, ask->n_kernels);
	m.race_have.n_costs = ask->n_kernels;
	for (uint32_t i = 0; i < ask->n_kernels; i++) {
		struct known *k = desk_look_up(d, ask->kernels[i].spec);

		assert_true(k->is_measured);
		k->cost.median_ns = (int64_t)((double)k->cost.first_ns * d->drift);
		k->cost.repeats++;
		m.race_have.costs[i] = k->cost;
	}
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* Was that built before?  From here on it was, where it is built. */
static bool
has_built(struct desk *d, const struct m_build_ask *ask)
{
	struct msg m = {.type = MSG_build_ask};
	struct bytes b;
	struct hash h;
	struct err e = {0};

	m.build_ask = *ask;
	m.build_ask.only_known = false;
	assert_true(msg_pack(&d->a, &m, PIPE_MAX_BYTES, &b, &e));
	h = hash_bytes(b.p, b.n);
	for (uint32_t i = 0; i < d->n_built; i++)
		if (hash_eq(&d->built[i], &h))
			return true;
	assert_true(d->n_built < COUNT_OF(d->built));
	if (!ask->only_known)
		d->built[d->n_built++] = h;
	return false;
}

/* What describes the kernels as the builder takes them: by the first of its schedules that gives one, where
 * this desk does not say which. */
static struct bytes
describe(struct desk *d, const struct m_build_ask *ask, uint8_t *took)
{
	const bool strict = str_is(ask->precision, "f32-strict");
	const struct target t =
	    env_target(&d->env, strict, !strict && !str_is(ask->precision, "f32-direct"), PRECISION_F32);
	struct artefact all = {
	    .kernels = NEW_ARRAY(&d->a, struct artefact_kernel, MAX_OF(ask->n_kernels, 1u)),
	    .n_kernels = ask->n_kernels,
	    .prelude = prelude_c(&d->a, &t)};
	struct bytes out = {0};
	struct err e = {0};

	for (uint32_t i = 0; i < ask->n_kernels; i++) {
		const struct m_kernel *k = &ask->kernels[i];
		struct kernel_code code = {0};
		struct spec s;
		bool ok = false;

		if (!spec_read(&d->a, k->spec, &s, &e))
			fail_msg("%s", e.msg);
		for (took[i] = d->takes ? d->takes(k) : 0; !ok; took[i] += !ok) {
			struct str schedule = took[i] ? k->others[took[i] - 1].schedule : k->schedule;

			if (took[i] > k->n_others)
				fail_msg("no kernel: %s", e.msg);
			ok = generate_kernel(&d->a, &s, schedule, &t, str_dup(&d->a, k->symbol), &code, &e);
		}
		all.kernels[i] = (struct artefact_kernel){code.desc, code.text};
	}
	if (!artefact_pack(&d->a, &all, &out, &e))
		fail_msg("%s", e.msg);
	return out;
}

static void
answer_build(struct desk *d, const struct m_build_ask *ask)
{
	struct msg m = {.type = MSG_build_have};
	char *path = arena_printf(&d->a, "%s/object", d->dir),
	     *words = arena_printf(&d->a, "%s/words", d->dir);
	bool is_here = has_built(d, ask);
	uint8_t *took = NEW_ARRAY(&d->a, uint8_t, MAX_OF(ask->n_kernels, 1u));
	struct err e = {0};

	m.build_have = (struct m_build_have){.path = STR(""),
	    .cause = STR(""),
	    .log = STR(""),
	    .worker = STR(""),
	    .description_path = STR("")};
	if (ask->only_known && !is_here) {
		d->n_unknown++;
		assert_true(pipe_send(&d->pipe, &m, &e));
		return;
	}
	m.build_have.path = str_of(path);
	m.build_have.description_path = str_of(words);
	assert_true(os_write_file(os_real(), words, describe(d, ask, took), &e));
	for (uint32_t i = 0; i < ask->n_kernels; i++)
		if (d->takes || took[i])
			m.build_have.took = (struct bytes){took, ask->n_kernels};
	pass(d, is_here ? 0 : d->build_ns * (int64_t)ask->n_kernels);
	answer_late(d);
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)"object", 6}, &e));
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* By the table of what kernels really take, where there is one; else the last of them is the fastest. */
static int64_t
whole_time(struct desk *d, const struct m_time_ask *ask, uint32_t i)
{
	struct plan p;
	struct err e = {0};
	int64_t sum = 0;

	if (!d->truth && !d->is_sum)
		return 1000 - (int64_t)i;
	if (!plan_load(&d->a, str_dup(&d->a, ask->plans[i].path), &p, NULL, &e))
		fail_msg("%s", e.msg);
	for (uint32_t s = 0; s < p.n_steps; s++) {
		struct known *k = desk_look_up(d, p.kernels[p.steps[s].kernel].spec);

		const struct plan_kernel *in = &p.kernels[p.steps[s].kernel];

		if (d->way) /* as it was built, measured or not */
			sum += d->truth(
			    &k->spec, d->way(d, &k->of, plan_heat(&p, p.steps[s].kernel), in->schedule));
		else
			sum += d->is_sum ? k->cost.median_ns : d->truth(&k->spec, k->cost.first_ns);
		if (d->first_fails && !in->is_measured) /* it would have failed in there too */
			sum += SECOND;
	}
	return d->fast_fusion.n && str_eq(p.fusion, d->fast_fusion) ? sum / 100 : sum;
}

static int64_t
at_this_clock(const struct desk *d, int64_t ns)
{
	return d->clock_ratio > 0 ? (int64_t)((double)ns / d->clock_ratio) : ns;
}

static void
answer_times(struct desk *d, const struct m_time_ask *ask)
{
	struct msg m = {.type = MSG_time_have};
	struct err e = {0};

	if (!ask->only_known && d->never_times)
		return;
	d->n_times += !ask->only_known;
	d->n_timed = ask->n_plans;
	pass(d, ask->only_known ? 0 : ask->budget_ns);
	m.time_have.cause = STR("");
	m.time_have.timings = NEW_ARRAY(&d->a, struct m_timing, MAX_OF(ask->n_plans, 1u));
	m.time_have.n_timings = ask->only_known ? 0 : ask->n_plans;
	for (uint32_t i = 0; i < m.time_have.n_timings; i++)
		m.time_have.timings[i] =
		    (struct m_timing){.median_ns = at_this_clock(d, whole_time(d, ask, i)),
			.min_ns = 1,
			.clock_ratio = d->clock_ratio,
			.spread_ns = d->plan_spread_ns,
			.samples = 5};
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* All that this desk would tell a planner. */
static struct hash
digest_of_known(const struct desk *d)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct bytes words;
	struct hash h;
	struct err e = {0};

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < d->n; i++) {
		if (!d->known[i].is_measured)
			continue;
		assert_true(rec_pack(&tmp, "cost", &d->known[i].cost, &words, &e));
		sb_add(&sb, (struct str){(const char *)words.p, words.n});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

void
desk_put_aside(struct desk *d)
{
	struct desk_aside *x = &d->aside[d->n_aside++];

	assert_true(d->n_aside <= COUNT_OF(d->aside));
	*x = (struct desk_aside){d->end_key, d->end, arena_printf(&d->a, "%s/aside%u", d->dir, d->n_aside)};
	assert_int_equal(rename(arena_printf(&d->a, "%s/past.korch", d->dir), x->plan), 0);
	d->end_key = (struct hash){0};
}

/* The job of that key is submitted again. */
static void
take_back(struct desk *d, const struct hash *key)
{
	for (uint32_t i = 0; i < d->n_aside; i++) {
		struct desk_aside *x = &d->aside[i];

		if (!hash_eq(&x->key, key))
			continue;
		assert_int_equal(rename(x->plan, arena_printf(&d->a, "%s/past.korch", d->dir)), 0);
		d->end = x->end;
		d->end_key = x->key;
		*x = d->aside[--d->n_aside];
		return;
	}
}

static void
answer_end(struct desk *d, const struct m_end_ask *ask)
{
	struct msg m = {.type = MSG_end_have};
	struct hash now = digest_of_known(d);
	struct err e = {0};

	if (!ask->gives_plan)
		take_back(d, &ask->key);
	if (hash_eq(&ask->key, &d->end_key))
		m.end_have = (struct m_end_have){.end = d->end,
		    .has_plan = true,
		    .is_same = d->says_same || hash_eq(&now, &d->end.costs),
		    .path = str_of(arena_printf(&d->a, "%s/past.korch", d->dir))};
	for (uint32_t i = 0; i < d->n_aside; i++)
		if (hash_eq(&ask->key, &d->aside[i].key))
			m.end_have = (struct m_end_have){
			    .end = d->aside[i].end, .has_plan = true, .path = str_of(d->aside[i].plan)};
	m.end_have.wholes = d->wholes;
	m.end_have.n_wholes = d->n_wholes;
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* The plan of a job that is over, and how it ended, are kept. */
static void
take_done(struct desk *d, const struct m_done *m)
{
	static const struct hash zero;
	struct hash before = d->end.plan;
	char *past = arena_printf(&d->a, "%s/past.korch", d->dir);
	struct err e = {0};

	d->n_timed_whole = m->n_wholes;
	if (m->n_wholes)
		memcpy(d->timed, m->wholes, m->n_wholes * sizeof(*m->wholes));
	d->is_again = !hash_eq(&m->plan, &zero);
	assert_true(d->is_again == (m->plan_path.n == 0));
	if (d->is_again)
		assert_true(hash_eq(&m->plan, &before));
	else
		assert_int_equal(rename(str_dup(&d->a, m->plan_path), past), 0);
	if (hash_eq(&m->end_key, &zero)) /* it was all as before: there is nothing new to keep */
		return;
	d->end_key = m->end_key;
	d->end = m->end;
	d->end.costs = digest_of_known(d);
	if (!hash_file(past, &d->end.plan, &d->end.plan_bytes, &e))
		fail_msg("%s", e.msg);
}

/* ---- a job --------------------------------------------------------------------------- */
static bool
hear(struct desk *d, const struct msg *m)
{
	switch ((int)m->type) {
	case MSG_cost_ask:
		d->n_asks++;
		answer_costs(d, m->cost_ask.specs, m->cost_ask.n_specs, &m->cost_ask);
		break;
	case MSG_measure_ask:
		if (d->is_virtual)
			queue_measures(d, m->measure_ask.specs, m->measure_ask.n_specs);
		else
			answer_costs(d, m->measure_ask.specs, m->measure_ask.n_specs, NULL);
		break;
	case MSG_race_ask:
		answer_race(d, &m->race_ask);
		break;
	case MSG_build_ask:
		answer_build(d, &m->build_ask);
		break;
	case MSG_time_ask:
		answer_times(d, &m->time_ask);
		break;
	case MSG_end_ask:
		pass(d, m->end_ask.gives_plan ? 0 : d->reading_ns); /* that comes behind the first */
		answer_end(d, &m->end_ask);
		break;
	case MSG_measure_drop:
		drop_measures(d, &m->measure_drop);
		break;
	case MSG_progress_say:
		if (m->progress_say.progress.spent_before > 0)
			d->said_spent = m->progress_say.progress.spent_before;
		break;
	case MSG_failed:
		fail_msg("%.*s", STR_ARG(m->failed.text));
		break;
	case MSG_done:
		take_done(d, &m->done);
		return false;
	default:
		fail_msg("the planner says %s", msg_name(m->type));
	}
	return true;
}

static int64_t
virtual_ns(void *self)
{
	struct desk_clock *c = self;

	(void)atomic_fetch_add(&c->n_looks, 1);
	return atomic_load(&c->now_ns);
}

/* The planner by the desk's clock: what main_korch_planner.c does, with another table of functions. */
static _Noreturn void
be_planner(struct desk *d, int in, int out)
{
	struct os os = *os_real();
	struct arena a = {0};
	struct pipe p;
	struct msg m, failed = {.type = MSG_failed};
	struct err e = {0};

	os.self = d->clock;
	os.mono_ns = virtual_ns;
	pipe_init(&p, in, out);
	if (pipe_recv(&p, &a, -1, &m, &e) != PIPE_MSG)
		_exit(1);
	if (tune_run(&a, &p, &m.plan_start, NULL, &os, &e)) {
		pipe_fini(&p);
		arena_fini(&a);
		_exit(0);
	}
	failed.failed = (struct m_failed){.code = (uint64_t)err_wire(e.code), .text = str_of(e.msg)};
	_exit(pipe_send(&p, &failed, &e) ? 0 : 1);
}

static pid_t
start_planner(struct desk *d)
{
	int to[2], from[2];
	pid_t pid;

	assert_true(pipe(to) == 0 && pipe(from) == 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0 && d->is_virtual) {
		(void)close(to[1]);
		(void)close(from[0]);
		be_planner(d, to[0], from[1]);
	}
	if (pid == 0) {
		if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
			_exit(127);
		(void)close(to[1]);
		(void)close(from[0]);
		(void)execl(KORCH_BINARY_DIR "/bin/korch-planner", "korch-planner", (char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	pipe_init(&d->pipe, from[0], to[1]);
	return pid;
}

/* It sleeps, and nothing is on its way to it: it waits for us.  Whatever it has said is here by then. */
static bool
waits(struct desk *d, pid_t pid)
{
	char path[64], line[256] = "";
	const char *at;
	int n_left = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	at = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	(void)fclose(f);
	return at && at[1] == ' ' && at[2] == 'S' && ioctl(d->pipe.out, FIONREAD, &n_left) == 0 &&
	    n_left == 0;
}

/* Its next message; while it waits for something, time passes. */
static void
next_message(struct desk *d, pid_t pid, struct msg *m)
{
	static const struct timespec blink = {.tv_nsec = 200000};
	int64_t seen = -1; /* looks at the clock when time passed last */
	enum pipe_got got;
	struct err e = {0};

	while ((got = pipe_recv(&d->pipe, &d->a, d->is_virtual ? 0 : -1, m, &e)) == PIPE_TIMEOUT) {
		bool is_idle = waits(d, pid);

		if (!is_idle) {
			(void)nanosleep(&blink, NULL);
			continue;
		}
		if ((got = pipe_recv(&d->pipe, &d->a, 0, m, &e)) != PIPE_TIMEOUT)
			break;
		if (d->at_out < d->n_out && !d->never_measures) {
			pass(d, d->measure_ns);
			measure_next(d);
		} else if (atomic_load(&d->clock->n_looks) != seen) {
			seen = atomic_load(&d->clock->n_looks);
			pass(d, SECOND);
		} else
			(void)nanosleep(&blink, NULL);
	}
	if (got != PIPE_MSG)
		fail_msg("the planner ended: %s", e.msg);
}

struct m_progress
desk_job(struct desk *d, int64_t budget_ns, bool prove, struct plan *plan)
{
	struct msg start = {.type = MSG_plan_start}, m;
	char *path = arena_printf(&d->a, "%s/plan.korch", d->dir);
	pid_t pid = start_planner(d);
	struct err e = {0};
	int status;

	int64_t from = d->is_virtual ? atomic_load(&d->clock->now_ns) : 0;

	d->n_asks = d->n_measured = d->n_raced = d->n_races = d->n_times = d->n_timed = 0;
	d->n_ways = d->n_again = d->n_failed = d->n_named = d->n_named_ways = 0;
	d->n_out = d->at_out = d->n_late = 0;
	d->said_spent = 0;
	d->n_unknown = 0;
	start.plan_start = (struct m_plan_start){.job = 1,
	    .env = d->env,
	    .n_workers = 1,
	    .model_name = STR("m.onnx"),
	    .model_path =
		str_of(arena_printf(&d->a, "%s/%s/model.onnx", d->dir, d->model ? d->model : "candy_small")),
	    .out_path = str_of(path),
	    .work_dir = str_of(d->dir),
	    .options = {.device = STR("fake"),
		.threads = 1,
		.budget_ns = budget_ns,
		.tolerance = 1e-3,
		.fusion = d->fusion.n ? d->fusion : STR("full"),
		.effort = MAX_OF(d->effort, (uint64_t)1),
		.prove = prove}};
	assert_true(pipe_send(&d->pipe, &start, &e));
	do
		next_message(d, pid, &m);
	while (hear(d, &m));
	d->took_ns = d->is_virtual ? atomic_load(&d->clock->now_ns) - from : 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(d->pipe.in);
	(void)close(d->pipe.out);
	pipe_fini(&d->pipe);
	if (!plan_load(&d->a, arena_printf(&d->a, "%s/past.korch", d->dir), plan, NULL, &e))
		fail_msg("%s", e.msg);
	return m.done.progress;
}

void
desk_open(struct desk *d, cost_fn cost)
{
	char cmd[512];

	*d = (struct desk){.cost = cost, .drift = 1};
	d->env = sample_env("fake", "device=table");
	d->hw = env_hw(&d->env, 1, false);
	d->known = NEW_ARRAY(&d->a, struct known, MAX_SPECS);
	(void)snprintf(d->dir, sizeof(d->dir), "/tmp/korch-search-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	(void)snprintf(cmd, sizeof(cmd),
	    "tar -xJf '%s/tests/models/small.tar.xz' -C '%s' --strip-components=1 small/candy_small "
	    "small/efficientvit_small small/efficientvit_b1_small",
	    KORCH_SOURCE_DIR, d->dir);
	if (system(cmd) != 0)
		fail_msg("tests/models/small.tar.xz does not unpack");
}

void
desk_by_clock(struct desk *d)
{
	d->is_virtual = true;
	d->clock = mmap(NULL, sizeof(*d->clock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(d->clock != MAP_FAILED);
	atomic_store(&d->clock->now_ns, SECOND);
	d->env.compiler = STR("cc");
	d->env.hw.n_cores = 2;
	d->out = NEW_ARRAY(&d->a, struct known *, MAX_SPECS);
	d->late = NEW_ARRAY(&d->a, struct known *, MAX_SPECS);
}

void
desk_close(struct desk *d)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", d->dir);
	assert_int_equal(system(cmd), 0);
	if (d->clock)
		(void)munmap(d->clock, sizeof(*d->clock));
	arena_fini(&d->a);
}
