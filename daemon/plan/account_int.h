/* daemon/plan/account_int.h: what the files of the account share. */
#ifndef KORCH_ACCOUNT_INT_H
#define KORCH_ACCOUNT_INT_H

#include "account.h"

/* The program of measured kernels alone, solved once; conditions only leave kernels out, so that its duals
 * hold for every question (blp_plan_again). */
struct measured_program {
	uint32_t *kernel_of; /* its number -> kernel */
	uint32_t n;
	struct blp_state *solver; /* NULL: the plan holds kernels that were not measured */
	struct blp_result base;
	uint32_t n_asks;
	uint64_t n_states; /* made by all questions so far */
};
struct account {
	struct arena *a, *tmp;
	const struct account_in *in;
	struct plan *plan;
	uint32_t *candidate_of; /* kernel -> candidate of the plan, PLAN_NONE */
	uint32_t *step_of;      /* kernel -> step, PLAN_NONE */
	uint32_t *kernel_of_step;
	uint32_t *rival_of;    /* kernel -> rival, PLAN_NONE */
	uint32_t *exchange_of; /* kernel -> exchange with it, PLAN_NONE */
	bool *was_asked;       /* kernel: that exchange was looked for */
	struct measured_program m;
	uint32_t cap_rivals, cap_exchanges, cap_aparts;
	size_t n_words; /* bytes of text so far */
};
/* The kernel as a rival; PLAN_NONE where there is no room. */
uint32_t account_rival(struct account *x, uint32_t kernel);
/* At most PLAN_MAX_WORDS bytes in the plan's memory, "" where there is no room. */
struct str account_words(struct account *x, struct str s);
/* The cheapest plan with kernel k where no other makes its results; PLAN_NONE: none found. */
uint32_t account_exchange_with(struct account *x, uint32_t k);
bool account_is_measured(const struct account *x, uint32_t kernel);

/* account_apart.c: nodes, and why neighbours do not share a kernel. */
void account_aparts(struct account *x);

#endif
