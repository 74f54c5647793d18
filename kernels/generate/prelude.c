/* kernels/generate/prelude.c: the text before generated kernels, and the compiler's arguments. */
#include "generate.h"

static const char *const prelude[] = {
#include "prelude_c.inc"
};

struct str
prelude_c(struct arena *a, const struct target *t)
{
	struct strbuf sb;

	sb_init(&sb, a);
	if (t->strict)
		sb_addz(&sb, "#define K_STRICT\n");
	sb_addf(&sb,
	    "typedef float kvec __attribute__((vector_size(%d), aligned(4), may_alias));\n#define K_LANES "
	    "%d\n",
	    t->simd_bytes, t->simd_bytes / 4);
	/* A vector, and a place, of which the compiler knows nothing.  Sums that begin with a known zero
	 * begin with a product instead, and which of two products goes into the multiply-add then differs
	 * from tile to tile; products that tiles have in common move out of them and are rounded. */
	sb_addf(&sb,
	    "#if defined(__x86_64__)%s\n#define K_HIDE(V) __asm__(\"\" : \"+v\"(V))\n#elif "
	    "defined(__aarch64__)\n"
	    "#define K_HIDE(V) __asm__(\"\" : \"+w\"(V))\n#else\n#define K_HIDE(V) __asm__(\"\" : "
	    "\"+m\"(V))\n#endif\n"
	    "#define K_HIDE_PLACE(P) __asm__(\"\" : \"+r\"(P))\n",
	    t->simd_bytes > 32 ? " && defined(__AVX512F__)" : "");
	for (size_t i = 0; i < COUNT_OF(prelude); i++)
		sb_addz(&sb, prelude[i]);
	return sb_str(&sb);
}

static const char *const cuda_prelude[] = {
#include "prelude_cuda.inc"
};

static const char *const host_prelude[] = {
#include "prelude_host.inc"
};
static const char *const host_banks[] = {
#include "prelude_host_banks.inc"
};
static const char *const host_run[] = {
#include "prelude_host_run.inc"
};
static const char *const host_mma[] = {
#include "prelude_host_mma.inc"
};

static const char *const loops_prelude[] = {
#include "prelude_index.inc"
#include "prelude_team.inc"
};

static void
add_lines(struct strbuf *sb, const char *const *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sb_addz(sb, line[i]);
}

struct str
prelude_cuda(struct arena *a, bool for_host)
{
	struct strbuf sb;

	sb_init(&sb, a);
	if (for_host) {
		add_lines(&sb, host_prelude, COUNT_OF(host_prelude));
		add_lines(&sb, host_banks, COUNT_OF(host_banks));
		add_lines(&sb, host_run, COUNT_OF(host_run));
	} else
		add_lines(&sb, cuda_prelude, COUNT_OF(cuda_prelude));
	add_lines(&sb, prelude, COUNT_OF(prelude));
	add_lines(&sb, loops_prelude, COUNT_OF(loops_prelude));
	if (for_host)
		add_lines(&sb, host_mma, COUNT_OF(host_mma));
	return sb_str(&sb);
}

/* No -ffast-math: it reassociates, and deletes the rounding by a large constant in k_exp_f32.
 * No tree-pre: it splits max(x, 0) * y into a path for each side, and the vectoriser then
 * computes both.  Never -fno-thread-jumps: with it gcc 12 vectorises `inside ? x[i] : 0` under a
 * condition that does not change in the loop into the wrong side (prop/linear_test, seed 105).
 * Short rows of sums must not be zeroed by a call of memset: no loop-distribute-patterns.
 * Not -O3: it unrolls the loop of two channels inside `inside ? x[i] : 0` first, and gcc 12 then
 * vectorises the outer loop with the condition of the wrong iterations (prop/linear_test, seed 1).
 * With vectors and peeling asked for by name -O2 gives the same speed in four fifths of the time.  What is to
 * be written out says so (K_WRITTEN_OUT), so that little else need be.
 * No predictive-commoning, which gcc 12 does at -O2 where it makes vectors: it carries what one window reads
 * over to the next in registers that a tile's sums need (7 x 3 windows of 3 channels by AVX2: 2.5 times the
 * time). No code-hoisting, tree-bit-ccp and what follows these below: a quarter of what is left, for nothing
 * that a kernel's time shows.  Never among them: gcse and slp-vectorize, without which layouts take up to 1.6
 * times their time; tree-dominator-opts, on which one loop hangs; one region of registers for all of a
 * function (ira-region=one: convolutions by AVX-512 take 1.04). */
#define BOTH                                                                                                 \
	"-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops",                              \
	    "--param=max-completely-peeled-insns=40", "-fno-math-errno", "-fno-trapping-math",               \
	    "-fno-tree-pre", "-fno-predictive-commoning", "-fno-code-hoisting", "-fno-tree-bit-ccp",         \
	    "-fno-tree-loop-distribute-patterns", "-fno-tree-vrp", "-fno-rerun-cse-after-loop",              \
	    "-fno-cse-follow-jumps", "-fno-schedule-insns2", "-fno-store-merging", "-fno-tree-tail-merge",   \
	    "-fno-crossjumping", "-fno-optimize-strlen", "-fwrapv"
/* gcc 12 makes (double)(float)d of two neighbours a vector without the rounding: no slp-vectorize
 * (prop/emit_strict_test). */
#define STRICT BOTH, "-ffp-contract=off", "-fno-tree-slp-vectorize"
#define FAST BOTH, "-fno-signed-zeros", "-ffp-contract=fast"

const char *const *
generate_c_flags(const struct target *t)
{
	static const char *const flags[ISA_COUNT][2][40] = {
#define ISA(name, bytes, regs, needs, ...) {{FAST, __VA_ARGS__, NULL}, {STRICT, __VA_ARGS__, NULL}},
#include "../base/isa.def"
#undef ISA
	};

	return flags[t->isa][t->strict];
}
