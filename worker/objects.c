/* worker/objects.c: see objects.h.  An object is what one file of several kernels was compiled to; a kernel
 * is found in it by the name that its text's hash gives.  Texts are of users who need not trust each other,
 * so a kernel is known by a hash that nobody can bring another text to. */
#include "objects.h"

#include "../kernels/base/parallel.h"
#include "../kernels/device/dev.h"

#include <stdlib.h>
#include <string.h>

struct object { /* p NULL: none */
	uint8_t *p;
	size_t n;
	uint64_t used; /* when last, by `clock` */
};
struct known { /* a kernel */
	struct hash hash;
	uint32_t object;
};
struct objects {
	struct object *object;
	struct known *known;
	uint32_t n_objects, n_known;
	size_t n_bytes, most_bytes;
	uint64_t clock;
};

struct objects *
objects_new(size_t most_bytes)
{
	struct objects *o = heap_alloc(sizeof(*o));

	*o = (struct objects){.most_bytes = most_bytes};
	return o;
}

void
objects_free(struct objects *o)
{
	for (uint32_t i = 0; o && i < o->n_objects; i++)
		free(o->object[i].p);
	if (o) {
		free(o->object);
		free(o->known);
	}
	free(o);
}

static struct known *
find(const struct objects *o, const struct hash *h)
{
	for (uint32_t i = 0; i < o->n_known; i++)
		if (memcmp(o->known[i].hash.b, h->b, sizeof(h->b)) == 0)
			return &o->known[i];
	return NULL;
}

/* ---- what a kernel is known by -------------------------------------------------------- */
/* Whatever else its machine code depends on. */
static bool
hash_ground(struct arena *a, const struct target *t, struct str prelude, struct hash *out, struct err *e)
{
	struct strbuf sb;
	struct str version;

	if (!compiler_version(a, &version, e))
		return false;
	sb_init(&sb, a);
	sb_add(&sb, version);
	for (const char *const *flag = generate_c_flags(t); *flag; flag++)
		sb_addf(&sb, "\n%s", *flag);
	sb_addc(&sb, '\n');
	sb_add(&sb, prelude);
	*out = hash_bytes(sb.p, sb.n);
	return true;
}

static struct hash
hash_kernel(struct arena *a, const struct hash *ground, const struct kernel_code *k)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, (struct str){(const char *)ground->b, sizeof(ground->b)});
	sb_add(&sb, (struct str){k->text.p + k->head_bytes, k->text.n - k->head_bytes});
	return hash_bytes(sb.p, sb.n);
}

static struct str
name_of(struct arena *a, const struct hash *h)
{
	char hex[65];

	hash_hex(h, hex);
	return str_of(arena_printf(a, "k%.32s", hex));
}

/* ---- compiling ------------------------------------------------------------------------ */
struct asked { /* what is wanted, and what of it is to be compiled */
	struct arena *a;
	const struct objects_want *want;
	struct str prelude;
	struct hash *hash; /* one a kernel */
	struct kernel_code *codes;
	const struct kernel_code **missing;
	const struct hash **missing_hash;
	uint32_t n_missing;
};

static bool
is_missing(const struct asked *q, const struct objects *o, const struct hash *h)
{
	for (uint32_t i = 0; i < q->n_missing; i++)
		if (memcmp(q->missing_hash[i]->b, h->b, sizeof(h->b)) == 0)
			return false;
	return !find(o, h);
}

static bool
ask(struct objects *o, struct arena *a, const struct objects_want *want, struct asked *q, struct err *e)
{
	uint32_t n = MAX_OF(want->n, 1u);
	struct hash ground;

	*q = (struct asked){.a = a,
	    .want = want,
	    .prelude = prelude_c(a, want->target),
	    .hash = NEW_ARRAY(a, struct hash, n),
	    .codes = NEW_ARRAY(a, struct kernel_code, n),
	    .missing = NEW_ARRAY(a, const struct kernel_code *, n),
	    .missing_hash = NEW_ARRAY(a, const struct hash *, n)};
	if (!hash_ground(a, want->target, q->prelude, &ground, e))
		return false;
	for (uint32_t i = 0; i < want->n; i++) {
		const struct kernel_code *k = want->codes[i];

		if (k->desc.is_library)
			continue;
		q->hash[i] = hash_kernel(a, &ground, k);
		if (!is_missing(q, o, &q->hash[i]))
			continue;
		q->codes[i] = *k;
		q->codes[i].text = kernel_called(a, k->text, name_of(a, &q->hash[i]));
		q->missing[q->n_missing] = &q->codes[i];
		q->missing_hash[q->n_missing++] = &q->hash[i];
	}
	return true;
}

/* Objects that hold the kernels `missing`, each in that of its file. */
static void
keep(struct objects *o, const struct asked *q, const struct bytes *made, uint32_t n, const uint32_t *file)
{
	o->object = heap_resize(o->object, (o->n_objects + n) * sizeof(*o->object));
	o->known = heap_resize(o->known, (o->n_known + q->n_missing) * sizeof(*o->known));
	for (uint32_t i = 0; i < n; i++) {
		struct object *to = &o->object[o->n_objects + i];

		*to = (struct object){heap_alloc(made[i].n), made[i].n, ++o->clock};
		memcpy(to->p, made[i].p, made[i].n);
		o->n_bytes += made[i].n;
	}
	for (uint32_t i = 0; i < q->n_missing; i++)
		o->known[o->n_known++] = (struct known){*q->missing_hash[i], o->n_objects + file[i]};
	o->n_objects += n;
}

static struct compile_opts
how(const struct objects_want *want)
{
	return (struct compile_opts){.flags = generate_c_flags(want->target), .cancel = want->cancel};
}

static bool
make_missing(struct objects *o, const struct asked *q, int64_t *each_ns, struct err *e)
{
	struct compile_opts opts = how(q->want);
	int64_t start = os_real()->mono_ns(NULL);
	uint32_t n, hands = parallel_hands(PARALLEL_MOST);
	const uint32_t *file;
	struct bytes *made;
	struct str *texts;

	*each_ns = 0;
	if (q->n_missing == 0)
		return true;
	n = generate_n_files(q->n_missing, hands, COMPILE_MAX_FILES);
	generate_c_files(q->a, q->want->target, q->missing, q->n_missing, n, &texts, &file);
	made = NEW_ARRAY(q->a, struct bytes, n);
	if (!compile_objects(q->a, texts, n, &opts, made, e))
		return false;
	keep(o, q, made, n, file);
	*each_ns = (os_real()->mono_ns(NULL) - start) * MIN_OF(n, hands) / q->n_missing;
	return true;
}

/* ---- keeping the limit ---------------------------------------------------------------- */
static void
drop(struct objects *o, uint32_t object)
{
	uint32_t good = 0;

	o->n_bytes -= o->object[object].n;
	free(o->object[object].p);
	o->object[object] = (struct object){0};
	for (uint32_t i = 0; i < o->n_known; i++)
		if (o->known[i].object != object)
			o->known[good++] = o->known[i];
	o->n_known = good;
}

/* Objects that are gone leave no hole. */
static void
close_up(struct objects *o)
{
	uint32_t good = 0;

	for (uint32_t i = 0; i < o->n_objects; i++) {
		if (!o->object[i].p)
			continue;
		for (uint32_t k = 0; k < o->n_known && good != i; k++)
			if (o->known[k].object == i)
				o->known[k].object = good;
		o->object[good++] = o->object[i];
	}
	o->n_objects = good;
}

static void
keep_limit(struct objects *o)
{
	if (o->n_bytes <= o->most_bytes)
		return;
	while (o->n_bytes > o->most_bytes) {
		uint32_t oldest = UINT32_MAX;

		for (uint32_t i = 0; i < o->n_objects; i++)
			if (o->object[i].p &&
			    (oldest == UINT32_MAX || o->object[i].used < o->object[oldest].used))
				oldest = i;
		drop(o, oldest);
	}
	close_up(o);
}

/* ---- both ----------------------------------------------------------------------------- */
bool
objects_make(struct objects *o, const struct objects_want *want, int64_t *each_ns, struct err *e)
{
	struct arena tmp = {0};
	struct asked q;
	bool ok = ask(o, &tmp, want, &q, e) && make_missing(o, &q, each_ns, e);

	arena_fini(&tmp);
	return ok;
}

/* All that `want` needs, each object once, and what its functions are to be called. */
static bool
link_all(struct objects *o, const struct asked *q, struct arena *a, struct bytes *out, struct err *e)
{
	const struct objects_want *want = q->want;
	struct compile_opts opts = how(want);
	struct link_name *names = NEW_ARRAY(q->a, struct link_name, MAX_OF(want->n, 1u) * KERNEL_MAX_PASSES);
	struct bytes *list = NEW_ARRAY(q->a, struct bytes, MAX_OF(o->n_objects, 1u));
	uint64_t since = ++o->clock;
	uint32_t n = 0, n_names = 0;

	for (uint32_t i = 0; i < want->n; i++) {
		const struct known *k = want->codes[i]->desc.is_library ? NULL : find(o, &q->hash[i]);
		struct object *at;

		if (!k)
			continue;
		at = &o->object[k->object];
		if (at->used <= since)
			list[n++] = (struct bytes){at->p, at->n};
		at->used = since + 1;
		for (uint32_t p = 0; p < want->codes[i]->desc.n_passes; p++)
			names[n_names++] =
			    (struct link_name){arena_printf(q->a, "%s_p%u", want->symbols[i], p),
				arena_printf(q->a, "%s_p%u", name_of(q->a, &q->hash[i]).p, p)};
	}
	o->clock = since + 1;
	return n ? link_objects(a, list, n, names, n_names, &opts, out, e)
		 : compile_c(a, q->prelude, &opts, out, e);
}

bool
objects_link(
    struct objects *o, struct arena *a, const struct objects_want *want, struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct asked q;
	int64_t each_ns;
	bool ok = ask(o, &tmp, want, &q, e) && make_missing(o, &q, &each_ns, e) && link_all(o, &q, a, out, e);

	keep_limit(o);
	arena_fini(&tmp);
	return ok;
}
