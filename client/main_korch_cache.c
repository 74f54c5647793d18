/* client/main_korch_cache.c: korch-cache: the measurements that are kept.  All goes through the
 * daemon that owns the data folder (D26). */
#include "cache_evidence.h"
#include "cache_explain.h"
#include "cache_predict.h"
#include "cache_stats.h"
#include "job_view.h"
#include "output.h"
#include "session.h"
#include "plan_why.h"

#include "../proto/meas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cache {
	struct arena *arena;
	const struct opts *o;
	struct session session;
	const char *arg; /* of show, import; else NULL */
};

static const int64_t patience_ns = 600000000000; /* an import or a check of a large store */

static bool
ask(struct cache *c, struct msg *m, struct msg *answer, enum msg_type want, struct err *e)
{
	if (!client_call(c->session.client, c->arena, m, patience_ns, answer, e))
		return false;
	if (answer->type != want)
		return err_set(e, ERR_PROTO, "the daemon answered '%s' to '%s'", msg_name(answer->type),
		    msg_name(m->type));
	return true;
}

static void
print_counts(const struct cache *c, const struct msg *m)
{
	struct strbuf sb;

	sb_init(&sb, c->arena);
	for (uint32_t i = 0; i < m->counts.n_counts; i++)
		sb_addf(&sb, "%s\"%.*s\": %" PRIu64, i ? ", " : "{", STR_ARG(m->counts.counts[i].name),
		    m->counts.counts[i].value);
	sb_addz(&sb, ", \"predictors\": [");
	for (uint32_t i = 0; i < m->counts.n_predictors; i++) {
		sb_addz(&sb, i ? ", " : "");
		rec_json(&sb, "predictor", &m->counts.predictors[i]);
	}
	(void)printf("%s]}\n", sb.p);
}

static bool
verb_stats(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_stats}, got;

	if (!ask(c, &m, &got, MSG_counts, e))
		return false;
	if (opt_flag(c->o, OPT_json))
		print_counts(c, &got);
	else
		cache_stats_words(c->arena, &got.counts);
	return true;
}

static void
add_row(struct strbuf *sb, const struct m_measurement *m)
{
	char hex[65], schedule[SCHEDULE_SHOWN];

	hash_hex(&m->spec, hex);
	(void)schedule_shown(schedule, m->row.schedule);
	sb_addf(sb, "%.12s  ", hex);
	if (m->heat.n)
		sb_addf(sb, "heat=%.*s  ", STR_ARG(m->heat));
	if (m->row.fail) {
		sb_addf(sb, "%-10s  %s  %.*s", err_name(err_of_wire(m->row.fail)), schedule,
		    STR_ARG(m->row.cause));
		return;
	}
	print_ns(sb, m->row.median_ns);
	sb_addc(sb, ' ');
	meas_listed(sb, m);
	sb_addf(sb, "%s  %s", m->is_best ? "  best" : "", schedule);
}

static void
print_rows(const struct cache *c, const struct msg *m)
{
	for (uint32_t i = 0; i < m->measurements.n_rows; i++) {
		struct arena tmp = {0};
		struct strbuf sb;

		sb_init(&sb, &tmp);
		if (opt_flag(c->o, OPT_json))
			rec_json(&sb, "measurement", &m->measurements.rows[i]);
		else {
			add_row(&sb, &m->measurements.rows[i]);
			sb_addc(&sb, '\n');
			cache_repeats(&sb, &m->measurements.rows[i]);
		}
		(void)printf(opt_flag(c->o, OPT_json) ? "%s\n" : "%s", sb.p);
		arena_fini(&tmp);
	}
}

static bool
verb_list(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_list}, got;

	m.cache_list.class = str_of(opt_text(c->o, OPT_class));
	m.cache_list.max = 512;
	do {
		if (!ask(c, &m, &got, MSG_measurements, e))
			return false;
		print_rows(c, &got);
		if (got.measurements.n_rows)
			m.cache_list.after = got.measurements.rows[got.measurements.n_rows - 1].spec;
	} while (got.measurements.more && got.measurements.n_rows);
	return true;
}

static int
hex_digit(char ch)
{
	const char *at = ch ? strchr("0123456789abcdef", ch) : NULL;

	return at ? (int)(at - "0123456789abcdef") : -1;
}

/* The rows of the specs whose hash begins with the argument. */
static bool
find_rows(struct cache *c, struct msg *got, struct err *e)
{
	struct msg m = {.type = MSG_cache_show};
	size_t n = strlen(c->arg);
	uint8_t *prefix = arena_alloc(c->arena, 32);

	if (n < 2 || n > 64 || n % 2)
		return err_set(
		    e, ERR_USAGE, "%s: wanted 2 to 64 hex digits (an even number) of a spec hash", c->arg);
	for (size_t i = 0; i < n; i += 2) {
		int hi = hex_digit(c->arg[i]), lo = hex_digit(c->arg[i + 1]);

		if (hi < 0 || lo < 0)
			return err_set(e, ERR_USAGE, "%s: '%.2s' are no hex digits", c->arg, c->arg + i);
		prefix[i / 2] = (uint8_t)(hi * 16 + lo);
	}
	m.cache_show.prefix = (struct bytes){prefix, n / 2};
	if (!ask(c, &m, got, MSG_measurements, e))
		return false;
	return got->measurements.n_rows ||
	    err_set(e, ERR_FAILED, "no measurement of a spec that starts with %s", c->arg);
}

static bool
verb_show(struct cache *c, struct err *e)
{
	struct msg got;

	if (!find_rows(c, &got, e))
		return err_in(e, "show");
	if (!opt_flag(c->o, OPT_json) && got.measurements.rows[0].text.n)
		(void)printf("%.*s\n", STR_ARG(got.measurements.rows[0].text));
	print_rows(c, &got);
	return true;
}

static bool
verb_explain(struct cache *c, struct err *e)
{
	struct msg got;

	if (!find_rows(c, &got, e))
		return err_in(e, "explain");
	cache_explain(c->arena, got.measurements.rows, got.measurements.n_rows, opt_flag(c->o, OPT_json));
	return true;
}

static bool
verb_export(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_export}, got;
	const char *to = opt_text(c->o, OPT_cache_output);
	struct strbuf sb;

	if (!*to)
		return err_set(e, ERR_USAGE, "export: -o FILE is missing: where shall the export go?");
	if (!output_check(c->o, to, e))
		return false;
	m.cache_export.class = str_of(opt_text(c->o, OPT_class));
	if (!ask(c, &m, &got, MSG_blob_made, e) ||
	    !client_get_file(c->session.client, &got.blob_made.digest, to, e))
		return false;
	if (!opt_flag(c->o, OPT_json))
		return true;
	sb_init(&sb, c->arena);
	json_text(&sb, str_of(to));
	(void)printf("{\"output\":%s,\"bytes\":%" PRIu64 "}\n", sb.p, got.blob_made.bytes);
	return true;
}

/* The cache as a file of this host, which goes again. */
static bool
fetch_export(struct cache *c, struct bytes *file, struct err *e)
{
	struct msg m = {.type = MSG_cache_export}, got;
	char dir[OS_PATH_MAX], *path;
	bool ok;

	m.cache_export.class = str_of(opt_text(c->o, OPT_class));
	if (!ask(c, &m, &got, MSG_blob_made, e) || !os_temp_dir("cache", dir, e))
		return false;
	path = arena_printf(c->arena, "%s/export", dir);
	ok = client_get_file(c->session.client, &got.blob_made.digest, path, e) &&
	    os_read_file(os_real(), c->arena, path, (size_t)1 << 29, file, e);
	os_remove_tree(dir);
	return ok;
}

static bool
check_hex(const char *hex, struct err *e)
{
	for (const char *p = hex; *p; p++)
		if (hex_digit(*p) < 0 || p - hex >= 64)
			return err_set(e, ERR_USAGE, "%s: wanted the first hex digits of a spec hash", hex);
	return true;
}

static bool
verb_predict(struct cache *c, struct err *e)
{
	const char *plot = opt_text(c->o, OPT_plot);
	struct export_rows x;
	struct bytes file;

	if (!c->arg && !*plot)
		return err_set(e, ERR_USAGE,
		    "predict takes the first digits of a spec hash, or --plot FILE.svg, or both");
	if ((c->arg && !check_hex(c->arg, e)) || !fetch_export(c, &file, e) ||
	    !export_read(c->arena, file, &x, e))
		return false;
	return (!c->arg || cache_predict(c->arena, &x, c->arg, opt_flag(c->o, OPT_json), e)) &&
	    (!*plot || cache_predict_plot(c->arena, &x, file, plot, e));
}

static bool
verb_import(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_import}, got;
	struct m_file file;

	if (!client_put_file(c->session.client, c->arg, "import", &file, e))
		return false;
	m.cache_import =
	    (struct m_cache_import){.digest = file.digest, .dry_run = opt_flag(c->o, OPT_dry_run)};
	if (!ask(c, &m, &got, MSG_ok, e))
		return err_in(e, "%s", c->arg);
	(void)printf("%.*s\n", STR_ARG(got.ok.text)); /* JSON in any case */
	return true;
}

static uint64_t
count_of(const struct msg *m, const char *name)
{
	for (uint32_t i = 0; i < m->counts.n_counts; i++)
		if (str_is(m->counts.counts[i].name, name))
			return m->counts.counts[i].value;
	return 0;
}

/* Measurements are what a cache is for: they go by their own word alone. */
static void
print_gc(const struct cache *c, const struct msg *got)
{
	bool rows = opt_flag(c->o, OPT_gc_measurements), dry = opt_flag(c->o, OPT_dry_run);
	const char *verb = dry ? "would be dropped" : "dropped";
	uint64_t n = count_of(got, "measurements");

	if (opt_flag(c->o, OPT_json)) {
		(void)printf("{\"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"jobs\": %" PRIu64
			     ", \"measurements\": %" PRIu64 ", \"measurements_of_that_age\": %" PRIu64
			     ", \"dry_run\": %s}\n",
		    count_of(got, "files"), count_of(got, "bytes"), count_of(got, "jobs"), rows ? n : 0, n,
		    dry ? "true" : "false");
		return;
	}
	(void)printf("%" PRIu64 " files (%.1f MiB) and %" PRIu64 " ended jobs %s\n", count_of(got, "files"),
	    (double)count_of(got, "bytes") / (1 << 20), count_of(got, "jobs"), verb);
	if (rows)
		(void)printf("%" PRIu64 " measurements %s\n", n, verb);
	else if (n)
		(void)printf("%" PRIu64 " measurements of that age stay; --measurements drops them too\n", n);
}

static bool
verb_gc(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_gc}, got;
	double days = opt_real(c->o, OPT_older_than);

	if (!(days >= 0 && days <= 36500))
		return err_set(e, ERR_USAGE, "--older-than %s: it is a number of days, 0 to 36500",
		    opt_text(c->o, OPT_older_than));
	m.cache_gc = (struct m_cache_gc){.older_ns = (int64_t)(days * 86400e9),
	    .measurements = opt_flag(c->o, OPT_gc_measurements),
	    .dry_run = opt_flag(c->o, OPT_dry_run)};
	if (!ask(c, &m, &got, MSG_counts, e))
		return false;
	print_gc(c, &got);
	return true;
}

static bool
verb_verify(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_verify}, got;

	if (!ask(c, &m, &got, MSG_ok, e))
		return false;
	if (got.ok.value)
		return err_set(e, ERR_FORMAT, "the store is damaged: %.*s",
		    (int)MIN_OF(got.ok.text.n, (size_t)400), got.ok.text.p);
	(void)puts(
	    opt_flag(c->o, OPT_json) ? "{\"holds\": true}" : "all rows and files are as they were written");
	return true;
}

static void
print_evidence(const struct cache *c, const struct m_evidence *ev)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	if (opt_flag(c->o, OPT_json)) {
		rec_json(&sb, "evidence", ev);
		sb_addc(&sb, '\n');
	} else
		evidence_words(&sb, ev);
	(void)fputs(sb.p, stdout);
	arena_fini(&tmp);
}

/* What workers said that does not count, newest first. */
static bool
verb_evidence(struct cache *c, struct err *e)
{
	struct msg m = {.type = MSG_cache_evidence}, got;
	uint64_t n = 0;

	m.cache_evidence.max = 64;
	do {
		if (!ask(c, &m, &got, MSG_evidence_have, e))
			return false;
		for (uint32_t i = 0; i < got.evidence_have.n_list; i++, n++)
			print_evidence(c, &got.evidence_have.list[i]);
		if (got.evidence_have.n_list)
			m.cache_evidence.before = got.evidence_have.list[got.evidence_have.n_list - 1].id;
	} while (got.evidence_have.more && got.evidence_have.n_list);
	if (n == 0 && !opt_flag(c->o, OPT_json) && !opt_flag(c->o, OPT_quiet))
		(void)fprintf(stderr, "no result was refused or in doubt\n");
	return true;
}

static const struct verb {
	const char *name, *arg;
	bool (*run)(struct cache *c, struct err *e);
	bool may_miss; /* the argument */
} verbs[] = {
    {"stats", NULL, verb_stats, false},
    {"list", NULL, verb_list, false},
    {"show", "the first digits of a spec hash", verb_show, false},
    {"explain", "the first digits of a spec hash", verb_explain, false},
    {"predict", "the first digits of a spec hash", verb_predict, true},
    {"export", NULL, verb_export, false},
    {"import", "one file made by export", verb_import, false},
    {"gc", NULL, verb_gc, false},
    {"verify", NULL, verb_verify, false},
    {"evidence", NULL, verb_evidence, false},
};

static const struct verb *
read_call(struct cache *c, struct err *e)
{
	const struct opts *o = c->o;
	const struct verb *v = NULL;

	for (size_t i = 0; o->n_args && i < COUNT_OF(verbs); i++)
		if (strcmp(verbs[i].name, o->args[0]) == 0)
			v = &verbs[i];
	if (!v) {
		(void)err_set(e, ERR_USAGE,
		    "wanted one of stats, list, show, explain, predict, export, import, gc, verify, "
		    "evidence%s%s; see "
		    "korch-cache --help",
		    o->n_args ? ", got " : "", o->n_args ? o->args[0] : "");
		return NULL;
	}
	if (o->n_args != (v->arg ? 2u : 1u) && !(v->may_miss && o->n_args == 1)) {
		(void)err_set(e, ERR_USAGE, "%s takes %s", v->name, v->arg ? v->arg : "no argument");
		return NULL;
	}
	c->arg = o->n_args > 1 ? o->args[1] : NULL;
	return v;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	struct cache c = {.arena = &a, .o = &o, .session = {.signal_fd = -1}};
	int rc = opts_main(&a, PROG_CACHE, argc, argv, &o);

	if (rc < 0) {
		const struct verb *v = read_call(&c, &e);
		bool ok = v && session_open(&c.session, &a, &o, NULL, &e) && v->run(&c, &e);

		rc = ok ? 0 : opts_fail(&o, &e);
		session_close(&c.session);
	}
	arena_fini(&a);
	return rc;
}
