/* daemon/train/rows.h: measured rows as samples: what models learn from, and are compared on. */
#ifndef KORCH_TRAIN_ROWS_H
#define KORCH_TRAIN_ROWS_H

#include "../../kernels/cost/predict.h"
#include "../../kernels/predict/predict.h"
#include "../../proto/msg.h"

struct train_row {
	struct sample sample;
	struct sample plain;  /* the same with the schedule that says nothing: what HEAD_KERNEL learns from */
	float *flat[HEADS];   /* SAMPLE_FLAT of plain, of sample */
	double ns, log_ratio; /* ln(ns / bound) */
	double line[PREDICT_FEATURES]; /* what a job's own line is learned from */
	struct hash spec;
	struct str schedule, heat;
	uint32_t model; /* that the spec came with: rows of one model never stand on both sides of a split */
	uint32_t env;   /* measuring environment and threads: those of one race alike */
	bool is_best;   /* the fastest schedule of its spec there */
	bool is_own;    /* of the device class that is trained for, from its own store */
	bool is_older;  /* of another generator: what it ran is not what is generated now, though nearly so */
	bool is_taught; /* of generated graphs, which resemble each other: learned from, and no measure of how
	                   far off predictions are for a network */
	int64_t wall_ns; /* when it was measured */
};
/* How much a row counts: those of the class itself four times as what others measured elsewhere; of another
 * generator once. */
float train_weight(const struct train_row *r);
/* Rows of any number of exports, by spec, environment, heat, schedule, time; environments and models are
 * numbered as they come, so the same exports in another order are another set. */
struct train_set {
	struct train_row *rows;
	uint32_t n_rows, cap_rows;
	struct hash *models;
	uint32_t n_models, cap_models;
	struct train_env {
		struct hash key;
		uint32_t threads;
		struct str device_class;
	} * envs;
	uint32_t n_envs, cap_envs;
	uint32_t n_failed, n_other_epoch,
	    n_unread; /* rows passed over: failed, of other kernels, no sample */
};
/* Adds what an export holds.  A spec whose model is not known is of a model of its own file.  ERR_FORMAT
 * names the file. */
bool train_rows_add(
    struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e) MUST_CHECK;
/* What a row was measured for, by the words of its key. */
void train_device(
    const struct m_env *env, uint64_t threads, struct str precision, struct target *t, struct hw *hw);
/* Fills flat[] from the two samples. */
void train_row_flatten(struct arena *a, struct train_row *row);
/* The same of the device class that is trained for: they weigh more, and rows of another generator epoch join
 * where spec and schedule still read. */
bool train_rows_add_own(
    struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e) MUST_CHECK;
/* The same of generated graphs (korch-make-model blocks). */
bool train_rows_teach(
    struct arena *a, struct train_set *set, const char *name, struct bytes file, struct err *e) MUST_CHECK;
/* The set without the rows that are out, in a; what it points to is shared. */
struct train_set train_set_without(struct arena *a, const struct train_set *set, const bool *is_out);
/* Timed of the same spec on the same device, with operands where the other's lay. */
bool train_same_race(const struct train_row *a, const struct train_row *b);
/* Sorts, and finds the best of each spec; after the last train_rows_add(). */
void train_rows_end(struct train_set *set);

#endif
