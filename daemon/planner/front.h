/* daemon/planner/front.h: the pure half of a job, from ONNX bytes to candidate kernels. */
#ifndef KORCH_FRONT_H
#define KORCH_FRONT_H

#include "../fission/fission.h"
#include "../identify/identify.h"
#include "../rewrite/rewrite.h"
#include "../../proto/msg.h"
#include "dump.h"

struct front_opts {
	const char *file;         /* names the model in messages */
	const char *dir;          /* where external data may lie; NULL: none allowed */
	const struct str *shapes; /* "INPUT=1x3x224x224", "SYMBOL=224" */
	const struct model_given *values;
	uint32_t n_shapes, n_values;
	int64_t open_extent; /* what they do not close; 0: it stays open */
	enum identify_mode mode;
	double tolerance; /* 0: exact and reassociating rewrites only (D12) */
	bool strict;      /* exact rewrites only (D11) */
	bool only_form;   /* only the rewrites that the generator needs */
	const struct dump *dump;
};
/* One struct per arrow; each stage reads the one before and never changes it. */
struct front {
	struct model model;
	struct graph primitive; /* after fission */
	struct graph graph;     /* after rewriting: what candidates and plan are about */
	struct cand_set cands;
	struct fission_stats fission;
	struct rewrite_stats rewrite;
	struct identify_limits limits;
	enum identify_mode mode;
	struct model_assumed *assumed; /* extents that were left open, and are open_extent now */
	uint32_t n_assumed;
};
/* The model as the options make it: read, shapes closed, values bound.  Fills model and assumed. */
bool front_read(struct arena *a, struct bytes onnx, const struct front_opts *o, struct front *out,
    struct err *e) MUST_CHECK;
/* What a job's options say of the model alone; ERR_FORMAT where a tensor's bytes do not fit its shape. */
bool front_asked(
    struct arena *a, const struct m_options *from, struct front_opts *out, struct err *e) MUST_CHECK;
/* Everything lives in `a`.  Errors are those of the stage that failed. */
bool front_run(struct arena *a, struct bytes onnx, const struct front_opts *o, struct front *out,
    struct err *e) MUST_CHECK;

#endif
