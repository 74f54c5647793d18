/* schema/artefact.h: what a build tells of its machine code: each kernel's descriptor and text (record
 * `artefact` of proto/msg.def).  A worker writes it, korchd keeps it beside the object, and whoever makes a
 * plan packs weights and lays out memory by it: nothing is generated for that. */
#ifndef KORCH_SCHEMA_ARTEFACT_H
#define KORCH_SCHEMA_ARTEFACT_H

#include "../kernels/artefact/artefact.h"
#include "../proto/msg.h"

enum { ARTEFACT_MAX_BYTES = 64 << 20 };

struct artefact_kernel {
	struct descriptor desc;
	struct str text;
};
struct artefact {
	struct artefact_kernel *kernels;
	uint32_t n_kernels;
	struct str prelude;
};
/* ERR_LIMIT: more than ARTEFACT_MAX_BYTES, or a part of it is over its limit. */
bool artefact_pack(struct arena *a, const struct artefact *in, struct bytes *out, struct err *e) MUST_CHECK;
/* From outside: read, and checked against the n specs that the kernels are to compute, before anything is
 * allocated by it.  Texts point into `in`.  ERR_PROTO naming the kernel. */
bool artefact_read(struct arena *a, struct bytes in, const struct spec *const *specs, uint32_t n,
    struct artefact *out, struct err *e) MUST_CHECK;

/* The form of a constant operand as a record, and back.  The record's form is checked, ERR_PROTO; whether it
 * fits the operand, pack_check() says. */
void packing_pack(struct arena *a, const struct pack *p, struct m_packing *out);
bool packing_unpack(const struct m_packing *m, struct pack *out, struct err *e) MUST_CHECK;

#endif
