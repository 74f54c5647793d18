/* kernels/emit/linear_micro.c: the register tile of matmul and convolution as C text.
 *
 * Accumulators are local vector variables, one per row and vector of columns: gcc keeps them
 * in registers because nothing takes their address inside the K loops.  They leave through the
 * block t, behind a compiler barrier: without it the epilogue's vectoriser reaches into the
 * accumulators, splits them in halves and spills.  The K loops are never unrolled: unrolled by
 * two, gcc 12 keeps 13 vectors of products alive and the tile drops from 92 % to 62 % of peak.
 * Source: facts/cpu.md section 2; measured again in tests/bench/main_linear.c. */
#include "linear_int.h"

enum { SHORT_SUM = 16 };

#include <stdio.h>

static int64_t
n_products(const struct micro *m)
{
	int64_t products = 1;

	for (int i = 0; i < m->n_loops; i++)
		products *= m->trip[i];
	return products;
}

static void
emit_head(struct strbuf *sb, const struct micro *m, int rows)
{
	sb_addz(sb, m->row_step ? "(const float *restrict a, " : "(const float *const *row, ");
	sb_addz(sb, "const float *restrict b, float *restrict t");
	if (m->prefetch)
		sb_addz(sb, ", k_i64 ahead");
	sb_addz(sb, ")\n{\n");
	for (int r = 0; r < rows && !m->row_step; r++)
		sb_addf(sb, "\tconst float *restrict a%d = row[%d];\n", r, r);
}

/* Few products are written out in the end, by us or by the compiler; what is common to tiles of different
 * heights may then move out of them, and a product that stands alone is rounded where others are not.  A
 * row must have the same sum in every tile, for rings make some rows again (fuse/ring.c): see K_HIDE. */
static bool
is_short(const struct micro *m)
{
	return m->unroll || n_products(m) <= SHORT_SUM;
}

static void
emit_accumulators(struct strbuf *sb, const struct micro *m, int rows)
{
	if (is_short(m))
		sb_addz(sb, "\tkvec zero = {0};\n\tK_HIDE(zero);\n\tK_HIDE_PLACE(b);\n");
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < m->nv; v++)
			if (m->adds)
				sb_addf(sb, "\tkvec c%d_%d = *(const kvec *)(t + %d);\n", r, v,
				    (r * m->nv + v) * m->lanes);
			else
				sb_addf(sb, "\tkvec c%d_%d = %s;\n", r, v, is_short(m) ? "zero" : "{0}");
}

/* Row r's element `index` and `more`.  Rows that lie evenly have one pointer: one for each row, and a
 * loop for each that fetches ahead, made the tile dearer to compile. */
static const char *
element(char out[96], const struct micro *m, int r, const char *index, int64_t more)
{
	char name[16] = "a", plus[32] = "";

	if (m->row_step)
		more += r * m->row_step;
	else
		(void)snprintf(name, sizeof name, "a%d", r);
	if (more)
		(void)snprintf(plus, sizeof plus, " + %lld", (long long)more);
	(void)snprintf(out, 96, "%s[%s%s]", name, index, plus);
	return out;
}

/* One turn of the innermost loop: nv vectors of b, and for each row either one element of a
 * repeated or nv vectors of it.  `turn` counts written-out turns. */
static void
emit_step(
    struct strbuf *sb, const struct micro *m, int rows, const char *tabs, const char *index, int64_t turn)
{
	char at[96];

	for (int v = 0; v < m->nv; v++)
		sb_addf(sb, "%skvec b%d = *(const kvec *)(b + %lld);\n", tabs, v,
		    (long long)(turn * m->nv + v) * m->lanes);
	for (int v = 0; v < m->nv && m->b_ahead; v += MAX_OF(1, 16 / m->lanes))
		sb_addf(sb, "%s__builtin_prefetch(b + %lld, 0, 2);\n", tabs,
		    (long long)m->b_ahead + v * m->lanes);
	if (!m->a_vector)
		sb_addf(sb, "%skvec x;\n", tabs);
	for (int r = 0; r < rows; r++) {
		if (!m->a_vector)
			sb_addf(sb, "%sx = %s - (kvec){0};", tabs, element(at, m, r, index, 0));
		else
			sb_addz(sb, tabs);
		for (int v = 0; v < m->nv; v++)
			if (m->a_vector)
				sb_addf(sb, " c%d_%d += *(const kvec *)&%s * b%d;", r, v,
				    element(at, m, r, index, v * m->lanes), v);
			else
				sb_addf(sb, " c%d_%d += x * b%d;", r, v, v);
		sb_addc(sb, '\n');
	}
}

/* The innermost loop written out. */
static void
emit_unrolled(struct strbuf *sb, const struct micro *m, int rows, int l, const char *tabs)
{
	char index[48];

	for (int64_t i = 0; i < m->trip[l]; i++) {
		(void)snprintf(index, sizeof index, "%lld", (long long)(i * m->step[l]));
		sb_addf(sb, "%s{\n", tabs);
		emit_step(sb, m, rows, tabs - 1, index, i);
		sb_addf(sb, "%s}\n", tabs);
	}
	sb_addf(sb, "%sb += %lld;\n", tabs, (long long)m->trip[l] * m->nv * m->lanes);
}

/* Loop number l and all inside it.  Rows advance by pointer in the outer loops and by index in
 * the innermost, which leaves one counter there. */
static void
emit_loops(struct strbuf *sb, const struct micro *m, int rows, int l)
{
	static const char tabs[] = "\t\t\t\t\t\t\t\t\t\t";
	const char *in = tabs + sizeof tabs - 2 - l;
	bool last = l == m->n_loops - 1;
	char index[48];

	if (last && m->unroll) {
		emit_unrolled(sb, m, rows, l, in);
		return;
	}
	if (last)
		sb_addf(sb, "%s_Pragma(\"GCC unroll 1\")\n", in);
	sb_addf(sb, "%sfor (k_i64 i%d = 0; i%d < %lld; i%d++", in, l, l, (long long)m->trip[l], l);
	if (last)
		sb_addf(sb, ", b += %d", m->nv * m->lanes);
	sb_addz(sb, ") {\n");
	if (last) {
		if (m->step[l] == 1)
			(void)snprintf(index, sizeof index, "i%d", l);
		else
			(void)snprintf(index, sizeof index, "i%d * %lld", l, (long long)m->step[l]);
		emit_step(sb, m, rows, in - 1, index, 0);
	} else {
		/* The pointers come back from where the loop inside left them. */
		int64_t inside =
		    l + 2 < m->n_loops && l + 1 < MICRO_MAX_LOOPS ? m->trip[l + 1] * m->step[l + 1] : 0;
		emit_loops(sb, m, rows, l + 1);
		if (m->row_step)
			sb_addf(sb, "%s\ta += %lld;\n", in, (long long)(m->step[l] - inside));
		for (int r = 0; r < rows && !m->row_step; r++)
			sb_addf(sb, "%s\ta%d += %lld;\n", in, r, (long long)(m->step[l] - inside));
	}
	sb_addf(sb, "%s}\n", in);
}

/* Row by row, in the order of memory. */
static void
emit_prefetch(struct strbuf *sb, const struct micro *m, int rows)
{
	sb_addf(sb, "\t_Pragma(\"GCC unroll 1\")\n\tfor (k_i64 r = %d; r < %d; r++)\n", rows, 2 * rows);
	sb_addf(sb,
	    "\t\tfor (k_i64 q = 0; q < ahead; q += 16)\n\t\t\t__builtin_prefetch(a + (r * %lld + q), 0, "
	    "3);\n",
	    (long long)m->row_step);
}

void
micro_emit(struct strbuf *sb, const struct micro *m, int rows)
{
	if (rows < 1 || rows > MICRO_MAX_ROWS || m->nv < 1 || m->nv > MICRO_MAX_VECTORS || m->n_loops < 1 ||
	    m->n_loops > MICRO_MAX_LOOPS)
		bug("a register tile of %d rows, %d vectors, %d loops", rows, m->nv, m->n_loops);
	emit_head(sb, m, rows);
	emit_accumulators(sb, m, rows);
	if (m->prefetch)
		emit_prefetch(sb, m, rows);
	emit_loops(sb, m, rows, 0);
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < m->nv; v++)
			sb_addf(sb, "\t*(kvec *)(t + %d) = c%d_%d;\n", (r * m->nv + v) * m->lanes, r, v);
	sb_addz(sb, "\t__asm__ volatile(\"\" ::: \"memory\");\n}\n");
}
