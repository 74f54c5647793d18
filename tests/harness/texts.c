/* tests/harness/texts.c: see the header. */
#include "texts.h"
#include "../../kernels/generate/generate.h"
#include "model_candidates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- making ---------------------------------------------------------------------------------------- */
static void
seen_grow(struct texts *t)
{
	uint32_t n = t->n_slots ? t->n_slots * 2 : 4096;
	uint64_t *slot = NEW_ARRAY(t->a, uint64_t, n);

	for (uint32_t i = 0; i < t->n_slots; i++) {
		uint32_t k = (uint32_t)t->seen[i] & (n - 1);

		while (t->seen[i] && slot[k])
			k = (k + 1) & (n - 1);
		if (t->seen[i])
			slot[k] = t->seen[i];
	}
	t->seen = slot;
	t->n_slots = n;
}

/* Notes the spec; false: it was there. */
static bool
is_new(struct texts *t, const struct hash *spec)
{
	uint64_t h = hash64(spec->b, sizeof spec->b, 1) | 1;
	uint32_t k;

	if (t->n_seen * 2 >= t->n_slots)
		seen_grow(t);
	for (k = (uint32_t)h & (t->n_slots - 1); t->seen[k]; k = (k + 1) & (t->n_slots - 1))
		if (t->seen[k] == h)
			return false;
	t->seen[k] = h;
	t->n_seen++;
	return true;
}

/* A row for the schedule, where it makes a kernel with a text. */
static void
add_row(
    struct texts *t, const struct texts_opts *o, struct str target, const struct spec *s, struct str schedule)
{
	struct text_row r = {.spec = s->hash, .target = target, .what = s};
	struct err why = {0};

	if (!kernel_class_of(s, schedule, &o->target, &r.class, &why)) {
		t->refused++;
		return;
	}
	if (r.class == KERNEL_library)
		return;
	struct arena tmp = {0};
	struct kernel_code *k = NEW(&tmp, struct kernel_code);
	bool made = generate_kernel(&tmp, s, schedule, &o->target, "k", k, &why);

	if (made)
		r.text = kernel_code_hash(k);
	arena_fini(&tmp);
	t->refused += !made;
	if (!made)
		return;
	r.schedule = str_of(str_dup(t->a, schedule));
	GROW(t->a, t->row, t->n, t->cap);
	t->row[t->n++] = r;
}

bool
texts_add_model(struct texts *t, const struct texts_opts *o, const char *file, struct err *e)
{
	struct strbuf target;
	struct cand_set cs;
	bool ok = model_candidates(t->a, file, &cs, e);

	sb_init(&target, t->a);
	target_print(&target, &o->target);
	for (int64_t i = o->from; ok && i < cs.n_specs; i += o->step) {
		struct arena tmp = {0};
		struct str *schedules;
		uint32_t n, before = t->n;

		if (!is_new(t, &cs.specs[i].hash))
			continue;
		space_list(&tmp, &cs.specs[i], &o->target, o->effort, text_outcome, &schedules, &n);
		for (uint32_t k = 0; k < n; k++)
			add_row(t, o, sb_str(&target), &cs.specs[i], schedules[k]);
		t->without += t->n == before;
		arena_fini(&tmp);
	}
	return ok;
}

/* ---- as text ---------------------------------------------------------------------------------------- */
void
texts_print(struct strbuf *sb, const struct texts *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct text_row *r = &t->row[i];
		char hex[65];

		hash_hex(&r->spec, hex);
		sb_addf(sb, "%s %.*s %s %016" PRIx64 " \"%.*s\"\n", hex, STR_ARG(r->target),
		    kernel_class_name(r->class), r->text, STR_ARG(r->schedule));
	}
}

static bool
read_text_hash(struct str s, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint64_t)digit;
	}
	return s.n == 16;
}

bool
texts_read(struct texts *t, struct str text, const char *name, struct err *e)
{
	for (uint32_t line = 1; text.n; line++) {
		struct str rest = str_cut(&text, '\n'), hash = str_cut(&rest, ' ');
		struct text_row r = {.target = str_cut(&rest, ' ')};
		bool ok = hash_of_hex(hash, &r.spec) && kernel_class_read(str_cut(&rest, ' '), &r.class) &&
		    read_text_hash(str_cut(&rest, ' '), &r.text);

		if (!ok || rest.n < 2 || rest.p[0] != '"' || rest.p[rest.n - 1] != '"')
			return err_set(e, ERR_FORMAT, "%s line %u is no kernel's text", name, line);
		r.schedule = (struct str){rest.p + 1, rest.n - 2};
		GROW(t->a, t->row, t->n, t->cap);
		t->row[t->n++] = r;
	}
	return true;
}

/* ---- comparing -------------------------------------------------------------------------------------- */
static int
by_kernel(const void *a, const void *b)
{
	const struct text_row *x = a, *y = b;
	int d = hash_cmp(&x->spec, &y->spec);

	d = d ? d : str_cmp(x->target, y->target);
	return d ? d : str_cmp(x->schedule, y->schedule);
}

static struct text_row *
sorted(const struct texts *t)
{
	struct text_row *r = t->n ? arena_dup(t->a, t->row, t->n * sizeof *r) : NULL;

	if (t->n)
		qsort(r, t->n, sizeof *r, by_kernel);
	return r;
}

enum { EQUAL, DIFFERS, GONE, ADDED, OUTCOMES };
struct comparison {
	struct strbuf *sb, list;
	uint32_t n[KERNEL_CLASSES][OUTCOMES], differ, most;
};

static void
note(struct comparison *c, const struct text_row *r, int outcome)
{
	static const char *const words[OUTCOMES] = {"", "another text", "only old", "only new"};
	char hex[65];

	c->n[r->class][outcome]++;
	if (outcome == EQUAL || c->differ++ >= c->most)
		return;
	hash_hex(&r->spec, hex);
	sb_addf(&c->list, "%-12s %-9s %s %.*s \"%.*s\"\n", words[outcome], kernel_class_name(r->class), hex,
	    STR_ARG(r->target), STR_ARG(r->schedule));
}

uint32_t
texts_compare(struct strbuf *sb, const struct texts *old, const struct texts *new, uint32_t most)
{
	const struct text_row *x = sorted(old), *y = sorted(new);
	struct comparison c = {.sb = sb, .most = most};

	sb_init(&c.list, sb->a);
	for (uint32_t i = 0, k = 0; i < old->n || k < new->n;) {
		int d = i == old->n ? 1 : k == new->n ? -1 : by_kernel(&x[i], &y[k]);

		if (d == 0)
			note(&c, &x[i], x[i].text == y[k].text ? EQUAL : DIFFERS);
		else
			note(&c, d < 0 ? &x[i] : &y[k], d < 0 ? GONE : ADDED);
		i += d <= 0;
		k += d >= 0;
	}
	sb_addf(sb, "%-10s %8s %13s %9s %9s\n", "class", "equal", "another text", "only old", "only new");
	for (int i = 0; i < KERNEL_CLASSES; i++) {
		const uint32_t *n = c.n[i];

		if (n[EQUAL] + n[DIFFERS] + n[GONE] + n[ADDED])
			sb_addf(sb, "%-10s %8u %13u %9u %9u\n", kernel_class_name((enum kernel_class)i),
			    n[EQUAL], n[DIFFERS], n[GONE], n[ADDED]);
	}
	sb_add(sb, sb_str(&c.list));
	if (c.differ > most)
		sb_addf(sb, "... and %u more\n", c.differ - most);
	return c.differ;
}
