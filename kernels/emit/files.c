/* kernels/emit/files.c: generated kernels as text for people, and the files that many kernels are compiled
 * as, so that compilers work side by side. Which kernel goes where depends on the kernels alone: the same
 * ones give the same object on every host. */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

/* Kernels on their way to files.  A part that stands in a file already costs nothing there, so each kernel,
 * the largest first, goes where it adds least, among files that stay near an even share. */
struct placing {
	const struct kernel_code *const *codes;
	uint32_t n, n_files, n_parts;
	uint32_t **part;    /* of each kernel: the numbers of its parts */
	struct bitset *has; /* of each file: parts that stand in it */
	uint64_t *load;     /* of each file: bytes */
	uint64_t share;     /* the most that a file is to hold, if possible */
	uint32_t *file;     /* of each kernel */
};

struct named {
	const struct kernel_part *part;
	uint32_t *number; /* where it goes */
};

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->part->name, ((const struct named *)b)->part->name);
}

/* Numbers parts by name; the bytes of all kernels, each part once. */
static uint64_t
number_parts(struct arena *a, struct placing *p)
{
	struct named *all = NULL;
	uint32_t n = 0, cap = 0;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct kernel_code *c = p->codes[i];

		sum += c->text.n;
		p->part[i] = NEW_ARRAY(a, uint32_t, MAX_OF(c->n_parts, 1u));
		for (uint32_t k = 0; k < c->n_parts; k++) {
			GROW(a, all, n, cap);
			all[n++] = (struct named){&c->parts[k], &p->part[i][k]};
		}
	}
	if (n)
		qsort(all, n, sizeof(all[0]), by_name);
	for (uint32_t i = 0; i < n; i++) {
		bool is_new = i == 0 || by_name(&all[i - 1], &all[i]) != 0;

		p->n_parts += is_new;
		*all[i].number = p->n_parts - 1;
		sum -= is_new ? 0 : all[i].part->bytes;
	}
	return sum;
}

static uint64_t
bytes_more(const struct placing *p, uint32_t kernel, uint32_t file)
{
	const struct kernel_code *c = p->codes[kernel];
	uint64_t bytes = c->text.n;

	for (uint32_t k = 0; k < c->n_parts; k++)
		bytes -= bit_get(&p->has[file], p->part[kernel][k]) ? c->parts[k].bytes : 0;
	return bytes;
}

/* Where it adds least within the share, of equals that with least in it; where nothing is left of any share,
 * the file that will hold least. */
static uint32_t
choose_file(const struct placing *p, uint32_t kernel)
{
	uint32_t best = 0;
	uint64_t least = UINT64_MAX;

	for (uint32_t f = 0; f < p->n_files; f++) {
		uint64_t more = bytes_more(p, kernel, f);

		if (p->load[f] + more > p->share)
			continue;
		if (more < least || (more == least && p->load[f] < p->load[best])) {
			least = more;
			best = f;
		}
	}
	for (uint32_t f = 1; f < p->n_files && least == UINT64_MAX; f++)
		if (p->load[f] + bytes_more(p, kernel, f) < p->load[best] + bytes_more(p, kernel, best))
			best = f;
	return best;
}

static void
put(struct placing *p, uint32_t kernel, uint32_t file)
{
	p->load[file] += bytes_more(p, kernel, file);
	for (uint32_t k = 0; k < p->codes[kernel]->n_parts; k++)
		bit_set(&p->has[file], p->part[kernel][k]);
	p->file[kernel] = file;
}

struct sized {
	size_t bytes;
	uint32_t kernel;
};

static int
largest_first(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->kernel < y->kernel ? -1 : 1;
}

/* The file of each kernel. */
static const uint32_t *
place_all(struct arena *a, const struct kernel_code *const *codes, uint32_t n, uint32_t n_files)
{
	struct placing p = {.codes = codes,
	    .n = n,
	    .n_files = n_files,
	    .part = NEW_ARRAY(a, uint32_t *, MAX_OF(n, 1u)),
	    .has = NEW_ARRAY(a, struct bitset, n_files),
	    .load = NEW_ARRAY(a, uint64_t, n_files),
	    .file = NEW_ARRAY(a, uint32_t, MAX_OF(n, 1u))};
	struct sized *order = NEW_ARRAY(a, struct sized, MAX_OF(n, 1u));

	p.share =
	    number_parts(a, &p) * 5 / 4 / n_files; /* a quarter more: else parts are torn from each other */
	for (uint32_t f = 0; f < n_files; f++)
		p.has[f] = bitset_make(a, MAX_OF(p.n_parts, 1u));
	for (uint32_t i = 0; i < n; i++)
		order[i] = (struct sized){codes[i]->text.n, i};
	if (n)
		qsort(order, n, sizeof(order[0]), largest_first);
	for (uint32_t i = 0; i < n; i++)
		put(&p, order[i].kernel, choose_file(&p, order[i].kernel));
	return p.file;
}

uint32_t
emit_c_files(struct arena *a, const struct target *t, const struct kernel_code *const *codes, uint32_t n,
    uint32_t max, struct str **texts)
{
	uint32_t n_files = MIN_OF(MAX_OF((n + EMIT_FILE_KERNELS - 1) / EMIT_FILE_KERNELS, 1u), max);
	const uint32_t *file = place_all(a, codes, n, n_files);
	struct str prelude = emit_c_prelude(a, t);
	struct strbuf *sb = NEW_ARRAY(a, struct strbuf, n_files);

	*texts = NEW_ARRAY(a, struct str, n_files);
	for (uint32_t i = 0; i < n_files; i++) {
		sb_init(&sb[i], a);
		sb_add(&sb[i], prelude);
	}
	for (uint32_t i = 0; i < n; i++) {
		sb_add(&sb[file[i]], codes[i]->text);
		sb_addc(&sb[file[i]], '\n');
	}
	for (uint32_t i = 0; i < n_files; i++)
		(*texts)[i] = sb_str(&sb[i]);
	return n_files;
}

void
emit_print(struct strbuf *sb, const struct kernel_code *k, const struct target *t)
{
	sb_add(sb, k->text);
	descriptor_print(sb, &k->desc, t->is_cuda);
}
