/* client/plan_verify.c: says what a plan's certificate is worth after it was checked again. */
#include "plan_explain.h"
#include "plan_why.h"
#include "run_report.h"
#include "sure_words.h"

#include "../kernels/run/certify.h"

#include <inttypes.h>
#include <stdio.h>

/* The costs that it rests on are predictions; what follows from them was added up again. */
static void
say_sure(struct arena *a, const struct plan *p)
{
	struct strbuf sb;

	if (!p->n_sures)
		return;
	sb_init(&sb, a);
	sure_words(&sb, p->latency_ns, p->sures[0].least_ns, p->sures[0].confidence);
	(void)printf("sure      %s: its sum of duals checked, %" PRId64
		     " ns by the costs that are recorded for it; whether those are right no file can tell\n",
	    sb.p, p->sures[0].least_ns);
}

static void
say_words(struct arena *a, const struct plan *p, const struct certificate *c, const struct plan_words *w)
{
	struct str libraries = plan_libraries(a, p);

	(void)printf("digest    %s\n", w->digest);
	if (!*w->signer)
		(void)printf("signed    not signed\n");
	else
		(void)printf("signed    by %s, %s%s\n", w->signer,
		    *w->trusted_by ? "the key in " : "whom you do not trust", w->trusted_by);
	(void)printf(
	    "cover     %u steps make all %u outputs, in this order, each reading what was written for it\n",
	    p->n_steps, p->n_outputs);
	(void)printf("sum       %" PRId64 " ns over %u chosen candidates, %u of them measured\n",
	    p->latency_ns, c->n_chosen, c->n_measured);
	if (c->is_by_duals)
		(void)printf(
		    "bound     %" PRId64 " ns of any such sum: bound checked by duals\n", p->bound_ns);
	else
		(void)printf("bound     LP bound %.0f ns of any such sum checked; %" PRId64
			     " ns and optimality by search (--resolve repeats it)\n",
		    c->dual_bound, p->bound_ns);
	say_sure(a, p);
	if (libraries.n)
		(void)printf("needs     %.*s: not in this file, found or missed when it is opened\n",
		    STR_ARG(libraries));
	(void)printf("verdict   %s\n",
	    p->proved ? "holds: no plan over these candidates has a lesser sum of recorded costs"
		      : "holds: a valid plan with the stated gap; it does not claim to be optimal");
}

static void
say_json(struct arena *a, const struct plan *p, const struct certificate *c, const struct plan_words *w,
    int64_t resolved_ns)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb,
	    "{\"holds\":true,\"digest\":\"%s\",\"latency_ns\":%" PRId64 ",\"bound_ns\":%" PRId64
	    ",\"dual_bound\":%.3f,\"by_duals\":%s,\"proved\":%s,\"chosen\":%u,\"measured\":%u",
	    w->digest, p->latency_ns, p->bound_ns, c->dual_bound, c->is_by_duals ? "true" : "false",
	    p->proved ? "true" : "false", c->n_chosen, c->n_measured);
	sb_addf(&sb, ",\"seal\":\"%s\",\"signer\":\"%s\"", w->seal, w->signer);
	sb_addz(&sb, ",\"confidence\":");
	sure_json(&sb, p->latency_ns, p->n_sures ? p->sures[0].least_ns : 0,
	    p->n_sures ? p->sures[0].confidence : 0);
	sb_addf(&sb, ",\"resolved_ns\":%" PRId64 "}", resolved_ns);
	(void)puts(sb.p);
}

bool
plan_verify(
    struct arena *a, const struct plan *p, const struct plan_words *w, bool json, bool resolve, struct err *e)
{
	struct certificate c;
	int64_t cost = 0;

	if (!plan_certify(p, &c, e) || (resolve && !plan_resolve(a, p, &cost, e)))
		return false;
	if (json) {
		say_json(a, p, &c, w, cost);
		return true;
	}
	say_words(a, p, &c, w);
	if (resolve && cost < p->latency_ns)
		(void)printf("resolve   the search, repeated, finds a plan of %" PRId64
			     " ns (%.1f %% less)\n",
		    cost, 100 * (double)(p->latency_ns - cost) / (double)p->latency_ns);
	else if (resolve)
		(void)printf("resolve   the search, repeated, finds nothing below %" PRId64 " ns\n", cost);
	return true;
}
