/* client/main_korch_plan.c: korch-plan: reads a plan: what it runs, why, whether its proof holds. */
#include "plan_explain.h"
#include "plan_rebuild.h"
#include "plan_show.h"

#include "../kernels/base/opt.h"

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
	(void)e;
	plan_show(c->arena, &c->plan, &c->host, opt_flag(c->o, OPT_json));
	return true;
}

static bool
do_explain(struct call *c, struct err *e)
{
	return plan_explain(c->arena, &c->plan, c->what, opt_flag(c->o, OPT_json), e);
}

static bool
do_dot(struct call *c, struct err *e)
{
	int64_t steps = opt_int(c->o, OPT_steps);

	if (steps < 0 || steps > UINT32_MAX)
		return err_set(e, ERR_USAGE, "--steps %s: it is 0 or more", opt_text(c->o, OPT_steps));
	plan_dot(c->arena, &c->plan, (uint32_t)steps);
	return true;
}

/* To stdout, or where -o says. */
static bool
do_source(struct call *c, struct err *e)
{
	const char *to = opt_text(c->o, OPT_plan_output);

	if (*to)
		return os_write_file(
		    os_real(), to, (struct bytes){(const uint8_t *)c->plan.source.p, c->plan.source.n}, e);
	if (fwrite(c->plan.source.p, 1, c->plan.source.n, stdout) != c->plan.source.n || fflush(stdout) != 0)
		return err_set(e, ERR_IO, "cannot write to stdout");
	return true;
}

static bool
do_rebuild(struct call *c, struct err *e)
{
	const char *to = *opt_text(c->o, OPT_plan_output) ? opt_text(c->o, OPT_plan_output) : c->path;

	if (!plan_rebuild(c->arena, &c->plan, e))
		return err_in(e, "%s", c->path);
	if (!plan_save(to, &c->plan, &c->host, e))
		return false;
	if (!opt_flag(c->o, OPT_quiet))
		(void)fprintf(stderr, "korch-plan: %s: %u kernels rebuilt for \"%.*s\"\n", to,
		    c->plan.n_kernels, STR_ARG(c->plan.run_compat));
	if (opt_flag(c->o, OPT_json))
		(void)printf("{\"kernels\":%u,\"code_bytes\":%zu}\n", c->plan.n_kernels, c->plan.module.n);
	return true;
}

static bool
do_verify(struct call *c, struct err *e)
{
	struct hash digest;
	char hex[65];

	if (!plan_file_check(c->path, &digest, e))
		return false;
	hash_hex(&digest, hex);
	return plan_verify(
		   c->arena, &c->plan, hex, opt_flag(c->o, OPT_json), opt_flag(c->o, OPT_resolve), e) ||
	    err_in(e, "%s", c->path);
}

static const struct {
	const char *word;
	bool (*run)(struct call *c, struct err *e);
} words[] = {
    {"show", do_show},
    {"explain", do_explain},
    {"verify", do_verify},
    {"dot", do_dot},
    {"source", do_source},
    {"rebuild", do_rebuild},
};

static bool
run(struct call *c, struct err *e)
{
	const struct opts *o = c->o;

	if (o->n_args != 2 && (o->n_args != 3 || strcmp(o->args[0], "explain") != 0))
		return err_set(e, ERR_USAGE,
		    "wanted show, explain, verify, dot, source or rebuild, and one PLAN.korch (explain "
		    "also takes a node or a kernel); --help tells more");
	c->path = o->args[1];
	c->what = o->n_args == 3 ? o->args[2] : NULL;
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (strcmp(o->args[0], words[i].word) == 0)
			return plan_load(c->arena, c->path, &c->plan, &c->host, e) && words[i].run(c, e);
	return err_set(
	    e, ERR_USAGE, "wanted show, explain, verify, dot, source or rebuild, and not \"%s\"", o->args[0]);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct call c = {.arena = &a, .o = &o};
	struct err e = {0};
	int status = opts_main(&a, PROG_PLAN, argc, argv, &o);

	if (status >= 0)
		return status;
	status = run(&c, &e) ? 0 : opts_fail(&o, &e);
	arena_fini(&a);
	return status;
}
