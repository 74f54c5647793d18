/* kernels/device/dev_cuda_module.c: several cubins in one piece of bytes, with how each of their passes
 * is started: what a worker's batch and a plan's module are on a GPU.
 *
 *   "KORCHGPU" u32 sm  u32 n   n times: blob symbol, u32 passes, passes * 7 u32, blob cubin
 * A blob is a u32 length and that many bytes.  Little-endian, as the hosts of these GPUs are. */
#include "gpu.h"

#include <string.h>

static const char MAGIC[8] = {'K', 'O', 'R', 'C', 'H', 'G', 'P', 'U'};

static void
put_u32(struct strbuf *sb, uint32_t v)
{
	sb_add(sb, (struct str){(const char *)&v, sizeof(v)});
}

void
gpu_module_pack(struct arena *a, int sm, const struct gpu_kernel *k, uint32_t n, struct bytes *out)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, (struct str){MAGIC, sizeof(MAGIC)});
	put_u32(&sb, (uint32_t)sm);
	put_u32(&sb, n);
	for (uint32_t i = 0; i < n; i++) {
		put_u32(&sb, ck_u32(k[i].symbol.n));
		sb_add(&sb, k[i].symbol);
		put_u32(&sb, k[i].n_passes);
		for (uint32_t q = 0; q < k[i].n_passes; q++) {
			const struct gpu_pass *p = &k[i].pass[q];
			const uint32_t v[7] = {p->grid[0], p->grid[1], p->grid[2], p->block[0], p->block[1],
			    p->block[2], p->shared};

			sb_add(&sb, (struct str){(const char *)v, sizeof(v)});
		}
		put_u32(&sb, ck_u32(k[i].cubin.n));
		sb_add(&sb, (struct str){(const char *)k[i].cubin.p, k[i].cubin.n});
	}
	*out = (struct bytes){(const uint8_t *)sb.p, sb.n};
}

struct reader { /* sticky: after the first thing missing all is zero */
	const uint8_t *p, *end;
	bool bad;
};

static const uint8_t *
take(struct reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || (size_t)(r->end - r->p) < n) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	return p;
}

static uint32_t
take_u32(struct reader *r)
{
	const uint8_t *p = take(r, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, 4);
	return v;
}

static bool
is_sane(const struct gpu_pass *p)
{
	uint64_t block = (uint64_t)p->block[0] * p->block[1] * p->block[2];

	return p->grid[0] && p->grid[1] && p->grid[2] && p->grid[0] <= INT32_MAX && p->grid[1] < 65536 &&
	    p->grid[2] < 65536 && p->block[0] <= GPU_MAX_BLOCK && p->block[1] <= GPU_MAX_BLOCK &&
	    p->block[2] <= 64 && block && block <= GPU_MAX_BLOCK && p->shared <= 1 << 20;
}

static void
read_kernel(struct reader *r, struct gpu_kernel *k)
{
	k->symbol.n = take_u32(r);
	k->symbol.p = (const char *)take(r, k->symbol.n);
	k->n_passes = take_u32(r);
	r->bad |= k->n_passes > DEV_MAX_PASSES || k->symbol.n == 0 || k->symbol.n > 128;
	for (uint32_t q = 0; q < k->n_passes && !r->bad; q++) {
		struct gpu_pass *p = &k->pass[q];

		for (int i = 0; i < 6; i++)
			*(i < 3 ? &p->grid[i] : &p->block[i - 3]) = take_u32(r);
		p->shared = take_u32(r);
		r->bad |= !is_sane(p);
	}
	k->cubin.n = take_u32(r);
	k->cubin.p = take(r, k->cubin.n);
}

bool
gpu_module_read(struct arena *a, struct bytes b, int *sm, struct gpu_kernel **k, uint32_t *n, struct err *e)
{
	struct reader r = {b.p, b.p + b.n, false};
	const uint8_t *magic = take(&r, sizeof(MAGIC));

	*sm = (int)(take_u32(&r) & 0xffff);
	*n = take_u32(&r);
	if (r.bad || memcmp(magic, MAGIC, sizeof(MAGIC)) != 0)
		return err_set(e, ERR_FORMAT, "these %zu bytes are no module for a GPU", b.n);
	if (*n > GPU_MAX_KERNELS || *n > (size_t)(r.end - r.p) / 12)
		return err_set(e, ERR_FORMAT, "a GPU module of %zu bytes cannot hold %u kernels", b.n, *n);
	*k = NEW_ARRAY(a, struct gpu_kernel, MAX_OF(*n, 1u));
	for (uint32_t i = 0; i < *n && !r.bad; i++)
		read_kernel(&r, &(*k)[i]);
	return (!r.bad && r.p == r.end) ||
	    err_set(e, ERR_FORMAT, "a GPU module that ends early or makes no sense");
}
