/* kernels/ir/ir_int.h: what the files of kernels/ir share. */
#ifndef KORCH_IR_INT_H
#define KORCH_IR_INT_H

#include "ir.h"

/* Result shape of a primitive whose attributes are present and of the right kind. */
bool shape_infer(enum prim p, const struct tensor *const *in, uint32_t n_in, const struct attrs *at,
    struct shape *out, struct err *e) MUST_CHECK;
/* Plain; with extents and constants' values left out (the structure of a spec); with the ONNX nodes; or with
 * all that a dump adds. */
enum graph_form { FORM_PLAIN, FORM_STRUCTURE, FORM_ORIGINS, FORM_DUMP };
void graph_print_form(struct strbuf *sb, const struct graph *g, enum graph_form form);
/* Attributes that say how large something is, rather than what is done. */
bool attr_is_extent(enum attr_key key);

#endif
