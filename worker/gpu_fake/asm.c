/* worker/gpu_fake/asm.c: machine code for the fake compiler's cubins: of each pass a loop as a bad compiler
 * would leave it.  It is what kernels/sass reads, prices and perturbs; the host's object computes.
 *
 *   loop:  LDG  R8..R11 <- [R2]                 sets barrier 0; barrier 1 once R2 is read
 *          IADD3 R2 <- R2 + 16                  waits for 1
 *          FFMA R16..R19 += R8..R11 * R28       the first one waits for 0: all that follows waits with it
 *          FFMA R32.. += R29 * R30              some, which depend on nothing, and might have gone before
 *          IADD3 R0 <- R0 - 1; ISETP P0 <- R0 != 0; @P0 BRA loop
 *
 * Legal, and slower than need be; how many of each there are is by a hash of the kernel's text. */
#include "gpu_fake_int.h"

enum {
	STALL_AT = 105 - 64,
	NO_YIELD_AT = 109 - 64,
	WRITE_AT = 110 - 64,
	READ_AT = 113 - 64,
	WAIT_AT = 116 - 64,
	NONE = 7,
	PT = 7,
	RZ = 255,
	R_COUNT = 0,
	R_ADDRESS = 2,
	R_LOADED = 8,
	R_SUM = 16,
	R_FACTOR = 28,
	R_FREE = 32,
	LOAD_BARRIER = 0,
	ADDRESS_BARRIER = 1,
	LATENCY = 5, /* of what is neither a load nor a predicate */
	PREDICATE = 13
};
struct control {
	unsigned stall, write, read, wait;
};
struct assembler {
	struct fake_word *word;
	uint32_t n;
	int sm;
};

static const struct control plain = {LATENCY, NONE, NONE, 0};

/* lo: without guard and registers; hi: without control bits. */
static void
put(struct assembler *a, unsigned guard, uint64_t lo, uint64_t hi, struct control c)
{
	a->word[a->n++] = (struct fake_word){lo | (uint64_t)guard << 12,
	    hi | (uint64_t)c.stall << STALL_AT | (uint64_t)1 << NO_YIELD_AT | (uint64_t)c.write << WRITE_AT |
		(uint64_t)c.read << READ_AT | (uint64_t)c.wait << WAIT_AT};
}

static uint64_t
registers(unsigned d, unsigned a, uint64_t b)
{
	return (uint64_t)d << 16 | (uint64_t)a << 24 | b << 32;
}

static void
ffma(struct assembler *a, unsigned d, unsigned x, unsigned y, struct control c)
{
	put(a, PT, 0x223 | registers(d, x, y), d, c);
}

static void
iadd(struct assembler *a, unsigned d, unsigned x, uint32_t v, struct control c)
{
	put(a, PT, 0x810 | registers(d, x, v), 0x07ffe000 | RZ, c);
}

static void
move(struct assembler *a, unsigned d, uint32_t v)
{
	put(a, PT, 0x802 | registers(d, 0, v), 0xf00, plain);
}

/* Volta's loads have no descriptor, later ones one in UR4. */
static void
load(struct assembler *a, unsigned d, unsigned x, struct control c)
{
	if (a->sm < 75)
		put(a, PT, 0x381 | registers(d, x, 0), 0x001eed00, c);
	else
		put(a, PT, 0x981 | registers(d, x, 4), 0x0c1e1d00, c);
}

static void
store(struct assembler *a, unsigned x, unsigned v)
{
	if (a->sm < 75)
		put(a, PT, 0x386 | registers(0, x, v), 0x0010e900, plain);
	else
		put(a, PT, 0x986 | registers(0, x, v), 0x0c101904, plain);
}

/* Quarters of bytes from the next instruction on; from sm_90 on the lowest eight bits stand apart. */
static void
branch(struct assembler *a, uint32_t to)
{
	int64_t quarters = ((int64_t)to - (int64_t)a->n - 1) * 4;
	uint64_t v = (uint64_t)(a->sm >= 90 ? quarters >> 8 : quarters);
	uint64_t low = a->sm >= 90 ? (uint64_t)quarters & 0xff : 0;

	put(a, 0, 0x947 | low << 16 | v << 34, 0x03800000 | (v >> 30 & 0x3ffff), plain);
}

static void
start(struct assembler *a)
{
	if (a->sm >= 75) /* ULDC.64 UR4, c[0x0][0x118] */
		put(a, PT, 0x0000460000040ab9, 0xa00, plain);
	move(a, R_COUNT, 64);
	move(a, R_ADDRESS, 0);
	move(a, R_ADDRESS + 1, 0);
	for (unsigned i = 0; i < 4; i++) {
		move(a, R_SUM + i, 0);
		move(a, R_FACTOR + i, 0x3f800000);
	}
	put(a, PT, 0x918, 0, (struct control){15, NONE, NONE, 0});
}

static void
loop(struct assembler *a, uint64_t hash)
{
	uint32_t top = a->n, n_free = 8 + (uint32_t)(hash % 17);

	load(a, R_LOADED, R_ADDRESS, (struct control){4, LOAD_BARRIER, ADDRESS_BARRIER, 0});
	iadd(a, R_ADDRESS, R_ADDRESS, 16, (struct control){LATENCY, NONE, NONE, 1 << ADDRESS_BARRIER});
	for (unsigned i = 0; i < 4; i++)
		ffma(a, R_SUM + i, R_LOADED + i, R_FACTOR,
		    (struct control){LATENCY, NONE, NONE, i == 0 ? 1 << LOAD_BARRIER : 0});
	for (unsigned i = 0; i < n_free; i++)
		ffma(a, R_FREE + i, R_FACTOR + 1, R_FACTOR + 2, plain);
	iadd(a, R_COUNT, R_COUNT, UINT32_MAX, plain);
	put(a, PT, 0x20c | registers(0, R_COUNT, RZ), 0x03f05270, (struct control){PREDICATE, NONE, NONE, 0});
	branch(a, top);
}

uint32_t
gpu_fake_assemble(const struct fake_code *head, uint32_t pass, struct fake_word out[FAKE_MOST_WORDS])
{
	struct assembler a = {.word = out, .sm = (int)head->sm};

	start(&a);
	loop(&a, mix64(head->text ^ mix64(pass + 1)) + head->recode);
	for (unsigned i = 0; i < 4; i++)
		store(&a, R_ADDRESS, R_SUM + i);
	put(&a, PT, 0x94d, 0x03800000, plain); /* EXIT */
	return a.n;
}
