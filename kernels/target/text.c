/* kernels/target/text.c: a target as text, for dumps: a name, then what differs from what it stands for:
 *
 *   avx512,l2=1048576,strict
 *   cuda,sm=80,precision=tf32 */
#include "target.h"

#include <stddef.h>
#include <string.h>

enum kind { KIND_INT, KIND_I64, KIND_FLAG };
static const struct {
	const char *name;
	enum kind kind;
	size_t at;
} fields[] = {
    {"simd", KIND_INT, offsetof(struct target, simd_bytes)},
    {"vregs", KIND_INT, offsetof(struct target, n_vregs)},
    {"l1", KIND_I64, offsetof(struct target, l1_bytes)},
    {"l2", KIND_I64, offsetof(struct target, l2_bytes)},
    {"l3", KIND_I64, offsetof(struct target, l3_bytes)},
    {"sm", KIND_INT, offsetof(struct target, sm)},
    {"strict", KIND_FLAG, offsetof(struct target, strict)},
    {"winograd", KIND_FLAG, offsetof(struct target, winograd)},
};

static int64_t
get(const struct target *t, size_t i)
{
	const char *at = (const char *)t + fields[i].at;
	int64_t v = 0;
	bool flag;
	int n;

	switch (fields[i].kind) {
	case KIND_INT:
		memcpy(&n, at, sizeof(n));
		return n;
	case KIND_I64:
		memcpy(&v, at, sizeof(v));
		return v;
	case KIND_FLAG:
		memcpy(&flag, at, sizeof(flag));
		return flag;
	}
	bug("kind %d", (int)fields[i].kind);
}

static void
set(struct target *t, size_t i, int64_t v)
{
	char *at = (char *)t + fields[i].at;
	bool flag = v != 0;
	int n = (int)v;

	switch (fields[i].kind) {
	case KIND_INT:
		memcpy(at, &n, sizeof(n));
		return;
	case KIND_I64:
		memcpy(at, &v, sizeof(v));
		return;
	case KIND_FLAG:
		memcpy(at, &flag, sizeof(flag));
		return;
	}
}

void
target_print(struct strbuf *sb, const struct target *t)
{
	const struct target *base = t->is_cuda ? &target_cuda : target_of_isa(t->isa);

	sb_addz(sb, t->is_cuda ? "cuda" : isa_info[t->isa].name);
	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		if (get(t, i) == get(base, i))
			continue;
		sb_addf(sb, ",%s", fields[i].name);
		if (fields[i].kind != KIND_FLAG)
			sb_addf(sb, "=%lld", (long long)get(t, i));
	}
	if (t->precision != PRECISION_F32)
		sb_addf(sb, ",precision=%s", precision_name(t->precision));
	for (int l = 0; l < LIBRARY_COUNT; l++)
		if (t->library[l])
			sb_addf(sb, ",%s=%lld", library_id((enum library)l), (long long)t->library[l]);
}

static bool
read_field(struct target *t, struct str word)
{
	struct str value = word, name = str_cut(&value, '=');
	int64_t v = 1;

	if (str_is(name, "precision"))
		return precision_read(value, &t->precision);
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		if (str_is(name, fields[i].name)) {
			const int64_t most = fields[i].kind == KIND_INT ? INT32_MAX : (int64_t)1 << 40;

			if (fields[i].kind != KIND_FLAG && (!str_to_i64(value, &v) || v < 0 || v > most))
				return false;
			set(t, i, v);
			return true;
		}
	for (int l = 0; l < LIBRARY_COUNT; l++)
		if (str_is(name, library_id((enum library)l)) && str_to_i64(value, &v)) {
			t->library[l] = v;
			return true;
		}
	return false;
}

bool
target_read(struct str text, struct target *out, struct err *e)
{
	struct str rest = text, name = str_cut(&rest, ',');
	struct arena tmp = {0};
	struct strbuf sb;
	bool found = str_is(name, "cuda");

	sb_init(&sb, &tmp);
	*out = target_cuda;
	for (int i = 0; i < ISA_COUNT; i++) {
		sb_addf(&sb, "%s, ", isa_info[i].name);
		if (str_is(name, isa_info[i].name)) {
			*out = *target_of_isa((enum isa)i);
			found = true;
		}
	}
	if (!found)
		(void)err_set(e, ERR_USAGE, "--target=%.*s: it is one of %scuda", STR_ARG(text), sb.p);
	arena_fini(&tmp);
	while (found && rest.n) {
		struct str word = str_cut(&rest, ',');

		found = read_field(out, word) ||
		    err_set(e, ERR_USAGE, "--target=%.*s: '%.*s' is nothing of a target", STR_ARG(text),
			STR_ARG(word));
	}
	return found;
}
