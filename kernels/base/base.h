/* kernels/base/base.h: what every part stands on: errors, arenas, strings, checked integers, bit sets,
 * hashes, random numbers, the table of OS functions.  Knows nothing of models, kernels or the network. */
#ifndef KORCH_BASE_H
#define KORCH_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* ---- errors ------------------------------------------------------------------------- */
enum err_code {
#define ERR(NAME, EXIT, WIRE, TEXT) ERR_##NAME,
#include "err.def"
#undef ERR
	ERR_COUNT
};

/* An error is a value with a finished sentence: where: what: what to do.  It holds no
 * allocation, so it can say "out of memory" too.  Zero-initialised means "no error". */
struct err {
	enum err_code code;
	char msg[508];
};

/* Both return false, so that a fallible function can end with `return err_set(...)`. */
bool err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Prepends context ("node 'x': ...") to an error that is already set. */
bool err_in(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Shows the compiler that the result is false, so that it knows what a caller has set. */
#define err_set(...)                                                                                         \
	__extension__({                                                                                      \
		(void)(err_set)(__VA_ARGS__);                                                                \
		false;                                                                                       \
	})
#define err_in(...)                                                                                          \
	__extension__({                                                                                      \
		(void)(err_in)(__VA_ARGS__);                                                                 \
		false;                                                                                       \
	})
int err_exit_status(enum err_code code);
int err_wire(enum err_code code);
/* The class of a wire number; ERR_FAILED for a number that this version does not know. */
enum err_code err_of_wire(uint64_t wire);
const char *err_name(enum err_code code); /* "COMPILE" */
const char *err_text(enum err_code code); /* "compile error" */

/* Our own fault: says where and aborts, in release builds too. */
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void bug_at(const char *file, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* ---- memory ------------------------------------------------------------------------- */
/* Memory that is freed together.  A zeroed struct is a valid empty arena.  Allocation
 * cannot fail: true exhaustion aborts, in one place; sizes from outside are checked against
 * limits before they reach an arena.  Not thread-safe: an arena has one owner. */
struct arena_block;
struct arena {
	struct arena_block *top;
	size_t used_bytes;  /* of the top block */
	size_t total_bytes; /* handed out since the arena was made or reset */
};
struct arena_mark {
	struct arena_block *top;
	size_t used_bytes, total_bytes;
};

void *arena_alloc(struct arena *a, size_t n_bytes); /* zeroed, 16-byte aligned */
void *arena_dup(struct arena *a, const void *p, size_t n_bytes);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
struct arena_mark arena_mark(const struct arena *a);
void arena_reset(struct arena *a, struct arena_mark m);  /* frees all that came after m */
void arena_fini(struct arena *a);                        /* frees everything; a is empty again */
void arena_join(struct arena *into, struct arena *from); /* what was from's is into's; from is empty again */
#define NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define NEW_ARRAY(a, T, n) ((T *)arena_alloc((a), ck_mul((size_t)(n), sizeof(T))))
/* Doubles an arena-backed array when len == cap: GROW(a, p, len, cap). */
#define GROW(a, p, len, cap)                                                                                 \
	((len) < (cap) ? (void)0 : (void)((p) = arena_grow((a), (p), sizeof(*(p)), (len), &(cap))))
void *arena_grow(struct arena *a, const void *p, size_t size, uint32_t len, uint32_t *cap);

/* Heap for objects of irregular life; aborts when exhausted. */
void *heap_alloc(size_t n_bytes); /* zeroed */
void *heap_resize(void *p, size_t n_bytes);
enum { HUGE_PAGE = 1 << 21 };
void prefer_huge(void *p, size_t n_bytes); /* where whole ones lie in it; refused, nothing is lost */

/* ---- bytes and strings -------------------------------------------------------------- */
struct bytes {
	const uint8_t *p;
	size_t n;
};
struct str {
	const char *p;
	size_t n;
};
#define STR(lit) ((struct str){"" lit, sizeof(lit) - 1})
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */
struct str str_of(const char *cstr); /* NULL gives the empty string */
bool str_eq(struct str a, struct str b);
bool str_is(struct str a, const char *b);
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, const char *prefix);
/* Cuts off and returns what stands before the next `sep` (or all); *rest moves behind it. */
struct str str_cut(struct str *rest, char sep);
struct str str_trim(struct str s);
char *str_dup(struct arena *a, struct str s); /* NUL-terminated copy */
bool str_to_i64(struct str s, int64_t *out);  /* decimal, whole string, in range */
bool str_to_f64(struct str s, double *out);   /* decimal or hex float, inf, nan */

/* Builds text in an arena; always NUL-terminated. */
struct strbuf {
	struct arena *a;
	char *p;
	size_t n, cap;
};
void sb_init(struct strbuf *sb, struct arena *a);
void sb_add(struct strbuf *sb, struct str s);
void sb_addz(struct strbuf *sb, const char *cstr);
void sb_addc(struct strbuf *sb, char c);
void sb_addi(struct strbuf *sb, int64_t v); /* decimal; much faster than sb_addf */
void sb_adda(struct strbuf *sb, double v);  /* as "%a" prints it; likewise */
void sb_addf(struct strbuf *sb, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sb_vaddf(struct strbuf *sb, const char *fmt, va_list ap);
struct str sb_str(const struct strbuf *sb);

/* ---- checked integers --------------------------------------------------------------- */
/* For sizes that were checked at the door: an overflow here is a bug and aborts. */
size_t ck_mul(size_t a, size_t b);
size_t ck_add(size_t a, size_t b);
uint32_t ck_u32(size_t n);
int ck_int(int64_t n);
size_t ck_size(int64_t n);
int64_t ck_i64(size_t n);
/* For sizes from outside: false where the result does not fit. */
bool try_mul_i64(int64_t a, int64_t b, int64_t *out) MUST_CHECK;
bool try_add_i64(int64_t a, int64_t b, int64_t *out) MUST_CHECK;

/* ---- bit sets ----------------------------------------------------------------------- */
struct bitset {
	uint64_t *w;
	uint32_t n_bits;
};
struct bitset bitset_make(struct arena *a, uint32_t n_bits);
static inline uint32_t
bitset_words(const struct bitset *b)
{
	return (b->n_bits + 63) / 64;
}
static inline bool
bit_get(const struct bitset *b, uint32_t i)
{
	return b->w[i >> 6] >> (i & 63) & 1;
}
static inline void
bit_set(struct bitset *b, uint32_t i)
{
	b->w[i >> 6] |= (uint64_t)1 << (i & 63);
}
static inline void
bit_clear(struct bitset *b, uint32_t i)
{
	b->w[i >> 6] &= ~((uint64_t)1 << (i & 63));
}
void bitset_copy(struct bitset *to, const struct bitset *from);
void bitset_or(struct bitset *to, const struct bitset *from);
void bitset_andnot(struct bitset *to, const struct bitset *from);
bool bitset_meets(const struct bitset *a, const struct bitset *b);
bool bitset_within(const struct bitset *a, const struct bitset *b);
bool bitset_equal(const struct bitset *a, const struct bitset *b);
uint32_t bitset_count(const struct bitset *b);
/* The first member >= from; b->n_bits when there is none. */
uint32_t bitset_next(const struct bitset *b, uint32_t from);
#define BITSET_EACH(i, b) for (uint32_t i = bitset_next((b), 0); i < (b)->n_bits; i = bitset_next((b), i + 1))

/* ---- disjoint sets ------------------------------------------------------------------ */
/* up[i] == i at first: every number by itself.  The root of a set is its smallest number. */
uint32_t sets_root(uint32_t *up, uint32_t i);
void sets_join(uint32_t *up, uint32_t a, uint32_t b);

/* ---- hashes ------------------------------------------------------------------------- */
/* SHA-256: identity of specs, artefacts and files.  Full keys are compared all the same. */
struct hash {
	uint8_t b[32];
};
struct hash hash_bytes(const void *p, size_t n);
/* Of a file's content, read piece by piece. */
bool hash_file(const char *path, struct hash *out, uint64_t *n_bytes, struct err *e) MUST_CHECK;
bool hash_eq(const struct hash *a, const struct hash *b);
int hash_cmp(const struct hash *a, const struct hash *b);
void hash_hex(const struct hash *h, char out[65]);
bool hash_of_hex(struct str hex, struct hash *out);
/* Fast, not for identity: tables and canonical ordering. */
static inline uint64_t
mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}
uint64_t hash64(const void *p, size_t n, uint64_t seed);

/* ---- random numbers ----------------------------------------------------------------- */
/* Seeded, the same on every machine (splitmix64). */
struct rng {
	uint64_t s;
};
uint64_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n); /* n > 0 */
double rng_unit(struct rng *r);                /* [0, 1) */
double rng_normal(struct rng *r);              /* mean 0, deviation 1 */
double rng_bell(struct rng *r);                /* much like it, within 3.5, for a tenth of its time */

/* ---- the operating system ----------------------------------------------------------- */
/* Time and files stand behind this table, so that tests replace them (virtual clock, the
 * n-th call fails).  `self` is the implementation's own. */
struct os {
	void *self;
	int64_t (*mono_ns)(void *self); /* monotonic */
	int64_t (*wall_ns)(void *self); /* since 1970, for records only */
	/* The whole file; at most max_bytes, else ERR_LIMIT.  The copy lives in `a`. */
	bool (*read_file)(void *self, struct arena *a, const char *path, size_t max_bytes, struct bytes *out,
	    struct err *e);
	/* The old file or the new one, never a half; what is no file is written as out.h says. */
	bool (*write_file)(void *self, const char *path, struct bytes data, struct err *e);
};
const struct os *os_real(void);
enum err_code os_err_code(int code); /* of an errno: ERR_FULL or ERR_IO */
bool os_read_file(const struct os *os, struct arena *a, const char *path, size_t max_bytes, struct bytes *out,
    struct err *e) MUST_CHECK;
bool os_write_file(const struct os *os, const char *path, struct bytes data, struct err *e) MUST_CHECK;
/* The name of a network file system, by statfs's f_type; NULL for any other. */
const char *os_network_fs(long fs_type);
/* A place where the kill tests may end this process: with KORCH_KILL_AT=N in the environment the N-th passage
 * of any seam is its last, with NAME:N that of the seam `name`. */
void os_seam(const char *name);
/* mkdir -p, mode 0700 for what it makes. */
bool os_make_dirs(const char *path, struct err *e) MUST_CHECK;
/* A new folder for this user alone, "korch-WHAT-" and six letters, below TMPDIR or /tmp.  ERR_IO. */
enum { OS_PATH_MAX = 4096 };
bool os_temp_dir(const char *what, char out[OS_PATH_MAX], struct err *e) MUST_CHECK;
/* A folder and all below it, as far as that can be had; links are removed, not followed. */
void os_remove_tree(const char *dir);

#endif
