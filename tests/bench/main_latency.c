/* bench-latency CUBIN... > kernels/sass/latency.def: the smallest distances in issue cycles that ptxas keeps,
 * over all kernels of finished cubins, and how often each pair was seen. */
#include "../../kernels/sass/latency.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 20, SMS = 6, CODES = 512, MAX_CUBIN = 64 << 20 };
static const int sms[SMS] = {70, 75, 80, 86, 89, 90};

struct seen {
	uint64_t id; /* sm, kind, slot, part, first, second; 0: free */
	uint32_t cycles, times;
	const char *first, *second;
};
struct learn {
	const struct sass_kernel *k;
	struct seen *seen;
	uint32_t n_seen;
	uint32_t stalls[SMS][2];
	uint8_t least[SMS][1 << 16];
	const char *name[SMS][1 << 16];
	uint64_t n_instr;
};

static int
sm_number(int sm)
{
	int n = SMS - 1;

	while (n && sm < sms[n])
		n--;
	return n;
}

static void
note(struct learn *l, uint64_t id, uint32_t cycles, const char *first, const char *second)
{
	uint64_t at = mix64(id) % SLOTS;

	while (l->seen[at].id && l->seen[at].id != id)
		at = (at + 1) % SLOTS;
	struct seen *s = &l->seen[at];

	if (!s->id) {
		*s = (struct seen){id, cycles, 0, first, second};
		if (++l->n_seen > SLOTS / 2)
			bug("more pairs than the table holds");
	}
	s->cycles = MIN_OF(s->cycles, cycles);
	s->times++;
}

/* One of two instructions is executed: neither waits for the other. */
static bool
exclude(const struct sass_instr *a, const struct sass_instr *b)
{
	return a->guard != SASS_PT && a->guard == b->guard && a->guard_negated != b->guard_negated;
}

static bool
is_known(const struct sass_instr *i)
{
	return !(i->flags & SASS_UNKNOWN) && i->defs.r[0] != UINT64_MAX;
}

/* What a barrier guards says nothing of latencies; a register that is used for what it held before a guarded
 * write, nothing of reading. */
static bool
says_something(const struct sass_dep *d, const struct sass_instr *a, const struct sass_instr *b)
{
	if (!is_known(a) || !is_known(b))
		return false;
	if (d->kind == SASS_LAT_pipe)
		return true;
	return !(a->flags & SASS_VARIABLE) && !exclude(a, b) && !d->keeps;
}

static void
take(void *self, const struct sass_dep *d)
{
	struct learn *l = self;
	const struct sass_instr *a = &l->k->instr[d->first], *b = &l->k->instr[d->second];
	struct sass_tie t[SASS_TIES];

	if (!says_something(d, a, b) || sass_ties(a, b, d->kind, d->resource, t) != 1)
		return;
	note(l,
	    (uint64_t)sms[sm_number(l->k->sm)] << 56 | (uint64_t)t[0].kind << 48 | (uint64_t)t[0].slot << 44 |
		(uint64_t)t[0].part << 40 | (uint64_t)t[0].first << 20 | t[0].second,
	    d->cycles, a->op->name, b->op->name);
}

static void
take_control(struct learn *l, const struct sass_instr *i)
{
	const int sm = sm_number(l->k->sm);
	const uint16_t key = sass_lat_key(i);
	uint8_t *least = &l->least[sm][key];

	l->n_instr++;
	if ((i->flags & SASS_WALL) || i->stall == 0)
		return;
	l->stalls[sm][i->yields] |= 1u << i->stall;
	l->name[sm][key] = i->op->name;
	*least = *least ? MIN_OF(*least, i->stall) : i->stall;
}

static void
learn_kernel(struct learn *l, const struct sass_kernel *k)
{
	l->k = k;
	for (uint32_t n = 0; n < k->n_blocks; n++)
		sass_deps_each(k, &k->block[n], take, l);
	for (uint32_t n = 0; n < k->n_instr; n++)
		take_control(l, &k->instr[n]);
}

static bool
learn_file(struct learn *l, const char *path, struct err *e)
{
	struct arena a = {0};
	const char *const *names;
	uint32_t n_names = 0;
	struct bytes b;
	bool ok =
	    os_read_file(os_real(), &a, path, MAX_CUBIN, &b, e) && sass_names(&a, b, &names, &n_names, e);

	for (uint32_t n = 0; ok && n < n_names; n++) {
		struct sass_kernel k;

		ok = sass_read(&a, b, names[n], &k, e);
		if (ok)
			learn_kernel(l, &k);
	}
	arena_fini(&a);
	return ok || err_in(e, "%s", path);
}

/* ---- the table --------------------------------------------------------------------------------------------
 */
static int
by_id(const void *x, const void *y)
{
	const struct seen *a = x, *b = y;

	return (a->id > b->id) - (a->id < b->id);
}

static void
print_pairs(struct learn *l)
{
	static const char *const kind[] = {"raw", "war", "waw", "pipe"};
	static const char *const slot[] = {
	    "none", "a", "b", "c", "d", "guard", "predicate", "uniform", "upredicate"};
	uint32_t n = 0;

	for (uint32_t q = 0; q < SLOTS; q++)
		if (l->seen[q].id)
			l->seen[n++] = l->seen[q];
	qsort(l->seen, n, sizeof(*l->seen), by_id);
	for (uint32_t q = 0; q < n; q++) {
		const struct seen *s = &l->seen[q];

		printf("LAT(%u, %s, %s, %u, 0x%03x, 0x%03x, %u) /* %s %s %u */\n", (unsigned)(s->id >> 56),
		    kind[s->id >> 48 & 0xff], slot[s->id >> 44 & 0xf], (unsigned)(s->id >> 40 & 0xf),
		    (unsigned)(s->id >> 20 & 0xffff), (unsigned)(s->id & 0xffff),
		    MIN_OF(s->cycles, (uint32_t)SASS_FAR), s->first, s->second, s->times);
	}
}

static void
print_controls(const struct learn *l)
{
	for (int sm = 0; sm < SMS; sm++)
		for (int yields = 0; yields < 2; yields++)
			if (l->stalls[sm][yields])
				printf("CONTROL(%d, %s, 0x%04x)\n", sms[sm], yields ? "true" : "false",
				    l->stalls[sm][yields]);
	for (int sm = 0; sm < SMS; sm++)
		for (uint32_t key = 0; key < 1 << 16; key++)
			if (l->least[sm][key])
				printf("LEAST(%d, 0x%03x, %u) /* %s */\n", sms[sm], key, l->least[sm][key],
				    l->name[sm][key]);
}

static void
print_head(const struct learn *l, int n_files)
{
	printf(
	    "/* kernels/sass/latency.def: what ptxas itself writes, over %llu instructions of %d cubins; "
	    "made by\n"
	    " * bench-latency, not by hand.  Behind each pair how often it was seen.\n"
	    " * LAT(sm, kind, slot of the reader, part, first, second, smallest distance in issue cycles), "
	    "sorted;\n"
	    " * CONTROL(sm, yields, stall counts seen, bit i for i); LEAST(sm, opcode, smallest stall "
	    "count). */\n"
	    "#ifndef LAT\n#define LAT(SM, KIND, SLOT, PART, FIRST, SECOND, CYCLES)\n#endif\n"
	    "#ifndef CONTROL\n#define CONTROL(SM, YIELDS, STALLS)\n#endif\n"
	    "#ifndef LEAST\n#define LEAST(SM, KEY, STALL)\n#endif\n",
	    (unsigned long long)l->n_instr, n_files);
}

int
main(int argc, char **argv)
{
	struct learn *l = heap_alloc(sizeof(*l));
	struct err e = {0};

	l->seen = heap_alloc(SLOTS * sizeof(*l->seen));
	for (int n = 1; n < argc; n++)
		if (!learn_file(l, argv[n], &e)) {
			(void)fprintf(stderr, "bench-latency: %s\n", e.msg);
			return err_exit_status(e.code);
		}
	print_head(l, argc - 1);
	print_pairs(l);
	print_controls(l);
	printf("#undef LAT\n#undef CONTROL\n#undef LEAST\n");
	free(l->seen);
	free(l);
	return 0;
}
