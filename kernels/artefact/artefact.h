/* kernels/artefact/artefact.h: the descriptor of a kernel's machine code: all that whoever plans with it,
 * feeds it or starts it must know, and that its text alone would tell.  Whoever generates a kernel fills it
 * in; everybody else reads it, from a build's record (schema/artefact.h) or from a plan. */
#ifndef KORCH_ARTEFACT_H
#define KORCH_ARTEFACT_H

#include "../ir/ir.h"

enum { KERNEL_MAX_PASSES = 16 };

/* A constant operand may be packed through a small linear map along a dimension of what is packed:
 * its element d is the sum over taps t of w[d][t] times the operand `step * t` elements further on. */
enum { PACK_MAPS = 2, PACK_MAP_ROWS = 6, PACK_MAP_TAPS = 3 };
struct pack_map {
	int dim, n_taps;
	int64_t step;
	double w[PACK_MAP_ROWS][PACK_MAP_TAPS];
};
/* How a constant operand is stored for the kernel: element d of the destination (row-major in
 * `dim`) is element base + sum coef[i] * d[i] of the dense operand, or zero where
 * sum column[i] * d[i] >= n_columns; through `map`, where it has any, sums of several elements.  A plan
 * maker applies it once (pack_apply). */
struct pack {
	uint32_t operand; /* of the spec */
	int rank;         /* of the destination */
	int64_t dim[MAX_RANK], coef[MAX_RANK], column[MAX_RANK];
	int64_t base, n_columns;
	int n_maps;
	struct pack_map map[PACK_MAPS];
};

/* How a pass is started on a GPU. */
struct launch {
	uint32_t grid[3], block[3];
	size_t smem;   /* dynamic shared memory, bytes */
	bool persists; /* of the grid's blocks, no more are worth launching than the GPU holds at once */
};

/* The kernel ABI (D9).  Each pass is
 *   void SYMBOL_pI(void *const *buf, char *shared, char *local, int64_t lo, int64_t hi);
 * over [lo, hi) of its range; a barrier stands between passes; `shared` is one block per call
 * of the kernel (64-byte aligned, content undefined), `local` one per thread.
 * buf: the spec's operands in order (packed ones in packed form), then its results.
 * No allocation, no globals.  A result overlaps no operand, but for the pairs of `overlaps`: those
 * may be the very same bytes.  It overlaps no other result. */
struct descriptor {
	uint32_t n_passes;
	int64_t range[KERNEL_MAX_PASSES];
	struct launch launch[KERNEL_MAX_PASSES]; /* of a GPU's */
	size_t shared_bytes, local_bytes;
	struct pack *packs;
	uint32_t n_packs;
	struct overlap *overlaps;
	uint32_t n_overlaps;
	bool
	    is_library; /* of a schedule with lib=: no code; a device binds the spec (kernels/device/dev.h) */
};
/* From outside: does it describe a kernel of that spec?  After this its packs can be applied to operands of
 * the spec's shapes, and its counts, ranges and sizes used without a further look.  ERR_PROTO with a
 * sentence. */
bool descriptor_check(const struct descriptor *d, const struct spec *s, struct err *e) MUST_CHECK;
/* The form that the operand is read in; NULL: dense. */
const struct pack *descriptor_pack(const struct descriptor *d, uint32_t operand);
/* How the kernel is started and fed, as a number: machine code that is equal is the same kernel where that
 * is, too. */
uint64_t descriptor_hash(const struct descriptor *d);
/* Passes and sizes as comments, a line a pass: for dumps and golden files. */
void descriptor_print(struct strbuf *sb, const struct descriptor *d, bool is_cuda);

/* ---- pack.c */
bool pack_same_form(const struct pack *a, const struct pack *b); /* NULL: dense */
/* Does it read elements of a tensor of `count` elements only, and is its size one that packing gives?
 * ERR_PROTO. */
bool pack_check(const struct pack *p, int64_t count, struct err *e) MUST_CHECK;
size_t pack_bytes(const struct pack *p, enum dtype t);
/* Packs `data` (the operand, dense) into memory of pack_bytes(). */
void pack_apply(const struct pack *p, const struct tensor *operand, const void *data, void *out);

#endif
