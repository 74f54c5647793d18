/* client/main_korch_plan.c: korch-plan: reads a plan: what it runs, why, whether its proof holds. */
#include "output.h"
#include "plan_away.h"
#include "plan_explain.h"
#include "plan_port.h"
#include "plan_rebuild.h"
#include "plan_show.h"
#include "plan_trust.h"
#include "run_report.h"

#include "../kernels/jail/jail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
	struct arena *arena;
	const struct opts *o;
	const char *path;
	const char *what; /* explain: a node or a kernel; NULL */
	struct plan plan;
	struct plan_host host;
};

static bool
do_show(struct call *c, struct err *e)
{
	int64_t top = opt_int(c->o, OPT_top);
	struct plan_signer by;

	if (top < 0)
		return err_set(e, ERR_USAGE, "--top %s: it is 0 or more", opt_text(c->o, OPT_top));
	if (!plan_signer_of(c->arena, c->o, c->path, &c->plan, &c->host, &by, e))
		return false;
	plan_show(c->arena, &c->plan, &c->host, &by, top, opt_flag(c->o, OPT_json));
	return true;
}

static bool
do_explain(struct call *c, struct err *e)
{
	return plan_explain(c->arena, &c->plan, c->what, opt_flag(c->o, OPT_json), e);
}

/* A text as the result: to stdout, or where -o says. */
static bool
give_text(struct call *c, struct str text, struct err *e)
{
	const char *to = opt_text(c->o, OPT_plan_output);
	bool json = opt_flag(c->o, OPT_json);
	struct strbuf sb;

	if (*to && !os_write_file(os_real(), to, (struct bytes){(const uint8_t *)text.p, text.n}, e))
		return false;
	if (*to && !json)
		return true;
	sb_init(&sb, c->arena);
	if (json) {
		sb_addz(&sb, "{\"output\":");
		json_string(&sb, str_of(to));
		sb_addz(&sb, ",\"text\":");
		json_string(&sb, *to ? STR("") : text);
		sb_addz(&sb, "}\n");
		text = sb_str(&sb);
	}
	(void)fwrite(text.p, 1, text.n, stdout);
	return true;
}

static bool
do_dot(struct call *c, struct err *e)
{
	int64_t steps = opt_int(c->o, OPT_steps);

	if (steps < 0 || steps > UINT32_MAX)
		return err_set(e, ERR_USAGE, "--steps %s: it is 0 or more", opt_text(c->o, OPT_steps));
	return give_text(c, plan_dot(c->arena, &c->plan, (uint32_t)steps), e);
}

static bool
do_source(struct call *c, struct err *e)
{
	return give_text(c, c->plan.source, e);
}

static bool
rebuild(struct call *c, struct err *e)
{
	static const char fake[] = "cuda-fake:";
	const char *device = opt_text(c->o, OPT_plan_device);
	bool is_fake = strncmp(device, fake, sizeof(fake) - 1) == 0;

	if (*device && !is_fake)
		return err_set(e, ERR_USAGE,
		    "--device %s: rebuild takes this host's compiler, or that of cuda-fake:SETTINGS", device);
	if (plan_wants_gpu(&c->plan))
		return plan_rebuild_gpu(c->arena, &c->plan, is_fake ? device + sizeof(fake) - 1 : NULL, e);
	return !is_fake ? plan_rebuild(c->arena, &c->plan, e)
			: err_set(e, ERR_USAGE, "--device %s: the plan is for a CPU", device);
}

static bool
do_rebuild(struct call *c, struct err *e)
{
	const char *to = *opt_text(c->o, OPT_plan_output) ? opt_text(c->o, OPT_plan_output) : c->path;
	struct strbuf sb;

	if (!rebuild(c, e))
		return err_in(e, "%s", c->path);
	if (!plan_sign_save(c->arena, c->o, &c->plan, &c->host, "korch-plan rebuild", to, e))
		return false;
	if (!opt_flag(c->o, OPT_quiet))
		(void)fprintf(stderr, "korch-plan: %s: %u kernels rebuilt for \"%.*s\"\n", to,
		    c->plan.n_kernels, STR_ARG(c->plan.run_compat));
	if (!opt_flag(c->o, OPT_json))
		return true;
	sb_init(&sb, c->arena);
	sb_addz(&sb, "{\"output\":");
	json_string(&sb, str_of(to));
	(void)printf("%s,\"kernels\":%u,\"code_bytes\":%zu}\n", sb.p, c->plan.n_kernels, c->plan.module.n);
	return true;
}

/* All is said of a plan that nobody trusted has signed, and then that. */
static bool
do_verify(struct call *c, struct err *e)
{
	bool json = opt_flag(c->o, OPT_json), is_signed = c->host.seal.plan.n != 0, ok;
	const struct trust_key *by;
	struct err why = {0};
	struct hash digest;
	char hex[65], signer[SIGN_PRINT] = "";
	struct plan_words w = {.digest = hex, .signer = signer};

	ok = plan_trust_check(c->arena, c->o, c->path, &c->plan, &c->host, &by, &why);
	if (!ok && (json || why.code != ERR_UNTRUSTED)) {
		*e = why;
		return false;
	}
	if (!plan_file_check(c->path, &digest, e))
		return false;
	hash_hex(&digest, hex);
	if (is_signed)
		sign_print(&c->host.seal.signer, signer);
	w.seal = by ? "trusted" : is_signed ? "unknown" : "none";
	w.trusted_by = by ? by->from : "";
	if (!plan_verify(c->arena, &c->plan, &w, json, opt_flag(c->o, OPT_resolve), e))
		return err_in(e, "%s", c->path);
	*e = why;
	return ok;
}

static bool
do_port(struct call *c, struct err *e)
{
	return plan_port(c->arena, c->o, c->path, &c->plan, e);
}

static const struct word {
	const char *word;
	bool (*run)(struct call *c, struct err *e);
	bool takes_output;
} words[] = {
    {"show", do_show, false},
    {"explain", do_explain, false},
    {"verify", do_verify, false},
    {"dot", do_dot, true},
    {"source", do_source, true},
    {"rebuild", do_rebuild, true},
    {"port", do_port, false},
};

/* Settings of the file or variables are meant for the words that take them. */
static bool
check_daemon(const struct call *c, const struct word *w, struct err *e)
{
	return w->run == do_port || c->o->value[OPT_daemon].source != FROM_FLAG ||
	    err_set(e, ERR_USAGE, "--daemon: %s reads a file; it is for port", w->word);
}

/* -o as a setting of the file or a variable is meant for the words that take it. */
static bool
check_output(const struct call *c, const struct word *w, struct err *e)
{
	const char *to = opt_text(c->o, OPT_plan_output);
	const char *where = *to ? to : w->run == do_rebuild ? c->path : NULL;

	if (w->takes_output)
		return !where || output_check(c->o, where, e);
	return !*to || c->o->value[OPT_plan_output].source != FROM_FLAG ||
	    err_set(
		e, ERR_USAGE, "-o %s: %s writes to stdout; -o is for dot, source and rebuild", to, w->word);
}

static bool
run(struct call *c, struct err *e)
{
	const struct opts *o = c->o;

	if (o->n_args != 2 && (o->n_args != 3 || strcmp(o->args[0], "explain") != 0))
		return err_set(e, ERR_USAGE,
		    "wanted show, explain, verify, dot, source, rebuild or port, and one PLAN.korch (explain "
		    "also takes a node or a kernel); --help tells more");
	c->path = o->args[1];
	c->what = o->n_args == 3 ? o->args[2] : NULL;
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (strcmp(o->args[0], words[i].word) == 0)
			return check_daemon(c, &words[i], e) && check_output(c, &words[i], e) &&
			    plan_load(c->arena, c->path, &c->plan, &c->host, e) && words[i].run(c, e);
	return err_set(e, ERR_USAGE,
	    "wanted show, explain, verify, dot, source, rebuild or port, and not \"%s\"", o->args[0]);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct call c = {.arena = &a, .o = &o};
	struct err e = {0};
	int status = opts_main(&a, PROG_PLAN, argc, argv, &o);

	if (status < 0)
		status = jail_settings(opt_text(&o, OPT_sandbox), opt_text(&o, OPT_sandbox_read), &e) &&
			run(&c, &e)
		    ? 0
		    : opts_fail(&o, &e);
	arena_fini(&a);
	return status;
}
