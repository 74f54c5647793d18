/* kernels/vendor/cudnn_int.h: an operation as cuDNN's descriptors, for cudnn.c (engines and
 * plans) and cudnn_graph.c (the graph) alone. */
#ifndef KORCH_CUDNN_INT_H
#define KORCH_CUDNN_INT_H

#include "vendor_int.h"

enum { DNN_MAX_DESCS = 96, DNN_MAX_REAL = 3 + VENDOR_MAX_POSTS };
/* Descriptors in the order in which they were made; freed the other way round. */
struct dnn {
	const struct vendor_api *g;
	void *handle; /* NULL: no device, only a device's properties (as text) */
	void *device;
	void *desc[DNN_MAX_DESCS];
	uint32_t n_descs;
	void *graph;
	int64_t id[DNN_MAX_REAL]; /* the real tensors' ids, and the buffers that they stand for */
	uint32_t buf[DNN_MAX_REAL], n_real;
};
bool dnn_good(int status, const char *what, struct err *e);
/* A new descriptor, kept in `d`. */
bool dnn_new(struct dnn *d, int type, void **out, struct err *e);
bool dnn_set(struct dnn *d, void *desc, int name, int type, int64_t n, const void *v, struct err *e);
bool dnn_end(struct dnn *d, void *desc, const char *what, struct err *e);
void dnn_free(struct dnn *d);
/* Fills graph, id and buf. */
bool dnn_graph(struct dnn *d, const struct vendor_op *op, struct err *e);
/* Properties of a device that is not here, as cuDNN's JSON; for dnn.handle == NULL. */
bool dnn_device(struct dnn *d, const char *json, struct err *e);
/* As vendor_list, without a handle too. */
bool dnn_list(struct dnn *d, const struct vendor_op *op, uint64_t max_workspace, uint32_t max,
    struct vendor_choice *out, uint32_t *n, struct err *e);
/* The plan of one choice, and the scratch that it wants. */
bool dnn_plan(struct dnn *d, const struct vendor_op *op, const struct vendor_choice *c, void **plan,
    uint64_t *workspace, struct err *e);

#endif
