/* daemon/rewrite/rewrite.h: the algebraic rules. */
#ifndef KORCH_REWRITE_H
#define KORCH_REWRITE_H

#include "../../kernels/ir/ir.h"

struct rewrite_opts {
	bool normalize;        /* exact clean-up that is always right: CSE, dead code, layout algebra,
	                        * channels-last, constants into weights */
	bool alternatives;     /* adds equivalent producers */
	bool only_form;        /* without the rules that save work (GAIN in rule.def) */
	enum numeric worst;    /* the worst numeric kind allowed */
	uint32_t max_nodes;    /* stop adding beyond this many nodes */
	uint32_t alt_elements; /* alternatives of maps with more results than this; 0: 16,384 */
	const char *pattern;   /* this one (the notation of rule.def) instead of the rules; NULL: these */
};
struct rewrite_stats { /* per rule, in the order of rule.def */
	uint32_t n_applied[96], n_refused[96];
	uint32_t n_rounds;
};
/* A new, sorted graph computing the same outputs.  Deterministic.  ERR_FORMAT: a pattern that cannot be read.
 */
bool rewrite_run(struct arena *a, const struct graph *g, const struct rewrite_opts *o, struct graph *out,
    struct rewrite_stats *stats, struct err *e) MUST_CHECK;

/* "# rule N" for each rule that applied. */
void rewrite_print_stats(struct strbuf *sb, const struct rewrite_stats *s);
/* The rows of rule.def, for printing counts. */
uint32_t rewrite_n_rules(void);
const char *rewrite_rule_name(uint32_t i);
const char *rewrite_rule_text(uint32_t i);

#endif
