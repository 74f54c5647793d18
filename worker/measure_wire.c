/* worker/measure_wire.c: frames between parent and measuring child, and requests in them. */
#include "measure_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ITEMS = 1 << 16, MAX_KERNELS = 1 << 16 };

static bool
write_fully(int fd, const void *p, size_t n)
{
	while (n) {
		/* Both ends are sockets; one that is gone makes this fail and raises no signal. */
		ssize_t put = send(fd, p, n, MSG_NOSIGNAL);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		p = (const char *)p + put;
		n -= (size_t)put;
	}
	return true;
}

static bool
read_fully(int fd, void *p, size_t n)
{
	while (n) {
		ssize_t got = read(fd, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		p = (char *)p + got;
		n -= (size_t)got;
	}
	return true;
}

bool
frame_write(int fd, enum frame_kind kind, const void *body, size_t n_bytes)
{
	struct frame_head h = {FRAME_MAGIC, kind, n_bytes};

	return write_fully(fd, &h, sizeof(h)) && write_fully(fd, body, n_bytes);
}

bool
frame_read(int fd, struct arena *a, enum frame_kind *kind, struct bytes *body)
{
	struct frame_head h;
	uint8_t *p;

	if (!read_fully(fd, &h, sizeof(h)) || h.magic != FRAME_MAGIC || h.n_bytes > FRAME_MAX)
		return false;
	p = arena_alloc(a, h.n_bytes + 1);
	if (!read_fully(fd, p, h.n_bytes))
		return false;
	*kind = (enum frame_kind)h.kind;
	*body = (struct bytes){p, h.n_bytes};
	return true;
}

void
put_num(struct strbuf *sb, uint64_t v)
{
	sb_add(sb, (struct str){(const char *)&v, sizeof(v)});
}

void
put_blob(struct strbuf *sb, const void *p, size_t n)
{
	put_num(sb, n);
	sb_add(sb, (struct str){p, n});
}

uint64_t
get_num(struct body *b)
{
	uint64_t v = 0;

	if (b->bad || (size_t)(b->end - b->p) < sizeof(v)) {
		b->bad = true;
		return 0;
	}
	memcpy(&v, b->p, sizeof(v));
	b->p += sizeof(v);
	return v;
}

struct bytes
get_blob(struct body *b)
{
	uint64_t n = get_num(b);
	struct bytes out = {b->p, (size_t)n};

	if (b->bad || n > (uint64_t)(b->end - b->p)) {
		b->bad = true;
		return (struct bytes){0};
	}
	b->p += n;
	return out;
}

void
get_raw(struct body *b, void *out, size_t n)
{
	struct bytes in = get_blob(b);

	if (in.n != n)
		b->bad = true;
	memset(out, 0, n);
	if (!b->bad && n)
		memcpy(out, in.p, n);
}

struct say_hello
hello_mine(void)
{
	struct say_hello h = {.sizes = sizeof(struct say_row) + 1000 * sizeof(struct calibration) +
		1000000 * sizeof(struct pack) + (uint64_t)1000000000 * MEASURE_METHOD};

	memcpy(h.version, KORCH_VERSION, MIN_OF(sizeof(KORCH_VERSION), sizeof(h.version) - 1));
	return h;
}

/* ---- requests -------------------------------------------------------------------------- */
static void
pack_kernel(struct strbuf *sb, const struct measure_kernel *k, bool skip)
{
	put_num(sb, skip);
	put_blob(sb, k->schedule.p, k->schedule.n);
	put_blob(sb, k->symbol.p, k->symbol.n);
	put_num(sb, (uint64_t)k->bound_ns);
	put_num(sb, k->code->n_passes);
	put_blob(sb, k->code->range, sizeof(k->code->range));
	put_num(sb, k->code->shared_bytes);
	put_num(sb, k->code->local_bytes);
	put_blob(sb, k->code->packs, k->code->n_packs * sizeof(struct pack));
}

void
batch_pack(struct strbuf *sb, const struct measure_batch *b, const bool *skip)
{
	put_blob(sb, b->module.p, b->module.n);
	put_blob(sb, b->calibration, sizeof(*b->calibration));
	put_num(sb, (uint64_t)b->budget_ns);
	put_blob(sb, &b->tolerance, sizeof(b->tolerance));
	put_num(sb, b->check_only);
	put_num(sb, b->together);
	put_num(sb, b->in_pairs);
	put_num(sb, b->seed);
	put_num(sb, b->n_items);
	for (uint32_t i = 0; i < b->n_items; i++) {
		const struct measure_item *it = &b->items[i];

		put_blob(sb, it->spec->text.p, it->spec->text.n);
		put_blob(sb, it->heat.p, it->heat.n);
		put_num(sb, (uint64_t)it->known_ns);
		put_blob(sb, &it->tolerance, sizeof(it->tolerance));
		put_num(sb, it->n_kernels);
		for (uint32_t k = 0; k < it->n_kernels; k++)
			pack_kernel(sb, &it->kernels[k], *skip++);
	}
}

static struct str
get_str(struct arena *a, struct body *in)
{
	struct bytes b = get_blob(in);

	return (struct str){str_dup(a, (struct str){(const char *)b.p, b.n}), b.n};
}

static void
unpack_kernel(struct arena *a, struct body *in, struct measure_kernel *k, bool *skip)
{
	struct kernel_code *c = NEW(a, struct kernel_code);
	struct bytes packs;

	*skip = get_num(in) != 0;
	k->schedule = get_str(a, in);
	k->symbol = get_str(a, in);
	k->bound_ns = (int64_t)get_num(in);
	c->n_passes = (uint32_t)get_num(in);
	get_raw(in, c->range, sizeof(c->range));
	c->shared_bytes = get_num(in);
	c->local_bytes = get_num(in);
	packs = get_blob(in);
	c->n_packs = (uint32_t)(packs.n / sizeof(struct pack));
	c->packs = arena_dup(a, packs.p, packs.n);
	k->code = c;
	if (c->n_passes > KERNEL_MAX_PASSES || packs.n % sizeof(struct pack))
		in->bad = true;
}

/* Are weights to be packed in forms that fit them? */
static bool
packs_fit(const struct measure_item *it, struct err *e)
{
	const struct graph *g = &it->spec->g;

	for (uint32_t k = 0; k < it->n_kernels; k++)
		for (uint32_t i = 0; i < it->kernels[k].code->n_packs; i++) {
			const struct pack *p = &it->kernels[k].code->packs[i];

			if (p->operand >= g->n_inputs)
				return err_set(e, ERR_PROTO, "a batch that packs operand %u of %u",
				    p->operand, g->n_inputs);
			if (!pack_check(p, shape_count(&graph_tensor(g, g->inputs[p->operand])->shape), e))
				return false;
		}
	return true;
}

static bool
unpack_item(struct arena *a, struct body *in, struct measure_item *it, bool **skip, struct err *e)
{
	struct spec *s = NEW(a, struct spec);
	struct str text = get_str(a, in);
	struct measure_kernel *kernels;

	it->heat = get_str(a, in);
	it->known_ns = (int64_t)get_num(in);
	get_raw(in, &it->tolerance, sizeof(it->tolerance));
	it->n_kernels = (uint32_t)get_num(in);
	if (in->bad || it->n_kernels > MAX_KERNELS || !heat_is_word(it->heat))
		return err_set(e, ERR_PROTO, "a batch with an item that makes no sense");
	kernels = NEW_ARRAY(a, struct measure_kernel, it->n_kernels);
	*skip = NEW_ARRAY(a, bool, it->n_kernels);
	for (uint32_t k = 0; k < it->n_kernels && !in->bad; k++)
		unpack_kernel(a, in, &kernels[k], &(*skip)[k]);
	it->kernels = kernels;
	it->spec = s;
	return spec_read(a, text, s, e) && (in->bad || packs_fit(it, e));
}

bool
batch_unpack(struct arena *a, struct bytes body, struct child_batch *out, struct err *e)
{
	struct body in = {body.p, body.p + body.n, false};
	struct measure_batch *b = &out->batch;
	struct measure_item *items;

	*out = (struct child_batch){0};
	b->module = get_blob(&in);
	get_raw(&in, &out->calibration, sizeof(out->calibration));
	b->budget_ns = (int64_t)get_num(&in);
	get_raw(&in, &b->tolerance, sizeof(b->tolerance));
	b->check_only = get_num(&in) != 0;
	b->together = get_num(&in) != 0;
	b->in_pairs = get_num(&in) != 0;
	b->seed = get_num(&in);
	b->n_items = (uint32_t)get_num(&in);
	if (in.bad || b->n_items > MAX_ITEMS)
		return err_set(e, ERR_PROTO, "a batch that makes no sense");
	b->items = items = NEW_ARRAY(a, struct measure_item, b->n_items);
	out->skip = NEW_ARRAY(a, bool *, b->n_items);
	for (uint32_t i = 0; i < b->n_items; i++)
		if (!unpack_item(a, &in, &items[i], &out->skip[i], e))
			return false;
	return !in.bad || err_set(e, ERR_PROTO, "a batch that is cut short");
}
