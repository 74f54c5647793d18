/* client/bindings.h: what --shape and --value say of a model's inputs. */
#ifndef KORCH_BINDINGS_H
#define KORCH_BINDINGS_H

#include "../kernels/base/opt.h"
#include "../proto/msg.h"

/* Fills shapes and values; files are read here.  ERR_USAGE, ERR_IO, ERR_FORMAT, ERR_LIMIT. */
bool bindings_read(struct arena *a, const struct opts *o, struct m_options *out, struct err *e) MUST_CHECK;

#endif
