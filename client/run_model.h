/* client/run_model.h: korch-run over a model: a plan at once, and at the end what tuning would cost and
 * bring. */
#ifndef KORCH_RUN_MODEL_H
#define KORCH_RUN_MODEL_H

#include "run_folder.h"
#include "session.h"

struct run_model {
	const char *model;       /* its file; NULL: a plan is run */
	const char *plan;        /* the file of its plan */
	bool is_kept;            /* by -o */
	struct run_folder *made; /* else the folder that it is in and that goes with it; NULL: gone */
	double budget_s;         /* what korch-submit would take at most */
	struct m_progress progress;
	struct session session;
};
/* By its content: an ONNX file begins with its version.  ERR_FORMAT where it is neither that nor a plan; what
 * cannot be read counts as a plan, whose reader says why. */
bool run_model_is(const char *path, bool *is_model, struct err *e) MUST_CHECK;
/* Options that mean nothing to a plan.  ERR_USAGE names the first. */
bool run_model_no_options(const struct opts *o, struct err *e) MUST_CHECK;
/* Makes the plan: joins a daemon, submits, waits, fetches; says which extents were taken as 1.  From here
 * until run_model_end SIGINT and SIGTERM end nothing but that. */
bool run_model_plan(
    struct run_model *m, struct arena *a, const struct opts *o, const char *path, struct err *e) MUST_CHECK;
/* The plan is read: what was made for it goes, and signals do again what they usually do.  May be called
 * again. */
void run_model_end(struct run_model *m);
/* After the run: what tuning costs and brings, and what to type; as words. */
void run_model_words(const struct run_model *m, struct arena *a, const struct opts *o);
/* The job's end as a member of an object: as korch-submit --json has it. */
void run_model_json(struct strbuf *sb, const struct run_model *m);

#endif
