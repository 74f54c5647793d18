/* daemon/train/reliability.c: see reliability.h. */
#include "reliability.h"

#include <math.h>
#include <stdlib.h>

enum { SIDE = 640, EDGE = 64, TOP = 56 };

struct frame {
	double from, to; /* powers of ten, ns */
};

static double
place(const struct frame *f, double ns)
{
	double at = (log10(ns) - f->from) / (f->to - f->from);

	return fmin(fmax(at, 0), 1) * (SIDE - EDGE - TOP);
}

static double
x_of(const struct frame *f, double ns)
{
	return EDGE + place(f, ns);
}

static double
y_of(const struct frame *f, double ns)
{
	return SIDE - EDGE - place(f, ns);
}

static struct frame
frame_of(const struct reliability_point *p, uint32_t n)
{
	double least = INFINITY, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		least = fmin(least, fmin(p[i].predicted_ns, p[i].measured_ns));
		most = fmax(most, fmax(p[i].predicted_ns, p[i].measured_ns));
	}
	if (n == 0 || !(least > 0))
		return (struct frame){2, 9};
	return (struct frame){floor(log10(least)), fmax(ceil(log10(most)), floor(log10(least)) + 1)};
}

/* y = factor x, as far as it is inside. */
static void
draw_line(struct strbuf *sb, const struct frame *f, double factor, const char *style)
{
	double from = pow(10, f->from), to = pow(10, f->to), x0 = from * fmax(1, 1 / factor),
	       x1 = to * fmin(1, 1 / factor);

	sb_addf(sb, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"gray\"%s/>\n",
	    x_of(f, x0), y_of(f, x0 * factor), x_of(f, x1), y_of(f, x1 * factor), style);
}

static void
draw_axes(struct strbuf *sb, const struct frame *f)
{
	static const char *const words[] = {"1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us", "1 ms",
	    "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"};

	for (int p = (int)f->from; p <= (int)f->to; p++) {
		double ns = pow(10, p), x = x_of(f, ns), y = y_of(f, ns);
		const char *word = p >= 0 && p < (int)COUNT_OF(words) ? words[p] : "";

		sb_addf(sb, "<path d=\"M%.1f %dV%dM%d %.1fH%d\" stroke=\"#e4e4e4\" fill=\"none\"/>\n", x, TOP,
		    SIDE - EDGE, EDGE, y, SIDE - TOP);
		sb_addf(sb,
		    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text><text x=\"%d\" y=\"%.1f\" "
		    "text-anchor=\"end\">%s</text>\n",
		    x, SIDE - EDGE + 18, word, EDGE - 6, y + 4, word);
	}
	sb_addf(sb, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured</text>\n", SIDE / 2, SIDE - 20);
	sb_addf(sb,
	    "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">expected</text>\n",
	    SIDE / 2);
}

static void
draw_points(
    struct strbuf *sb, const struct frame *f, const struct reliability_point *p, uint32_t n, bool is_far)
{
	sb_addf(sb, "<g fill=\"%s\" fill-opacity=\"%s\">\n", is_far ? "darkorange" : "steelblue",
	    n > 5000 ? "0.25" : "0.5");
	for (uint32_t i = 0; i < n; i++)
		if (p[i].is_far == is_far)
			sb_addf(sb, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.8\"/>\n",
			    x_of(f, p[i].measured_ns), y_of(f, p[i].predicted_ns));
	sb_addz(sb, "</g>\n");
}

static int
by_value(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

/* "1802 kernels; off by 12.3 % (median), half of ..." */
static void
add_figures(struct strbuf *sb, const struct reliability_point *p, uint32_t n)
{
	struct arena tmp = {0};
	double *off = NEW_ARRAY(&tmp, double, MAX_OF(n, 1u));
	uint32_t near = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!p[i].is_far)
			off[near++] = fabs(p[i].predicted_ns / p[i].measured_ns - 1);
	qsort(off, near, sizeof(off[0]), by_value);
	sb_addf(sb, "%u kernels", near);
	if (near)
		sb_addf(sb, ": off by %.1f %% (median), %.0f %% (nine of ten within)", 100 * off[near / 2],
		    100 * off[near * 9 / 10]);
	if (n > near)
		sb_addf(sb, "; orange: %u more, far or too small", n - near);
	arena_fini(&tmp);
}

static void
add_escaped(struct strbuf *sb, const char *s)
{
	for (; *s; s++)
		if (*s == '<' || *s == '&')
			sb_addz(sb, *s == '<' ? "&lt;" : "&amp;");
		else
			sb_addc(sb, *s);
}

void
reliability_svg(struct strbuf *sb, const char *title, const struct reliability_point *points, uint32_t n)
{
	struct frame f = frame_of(points, n);

	sb_addf(sb,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
	    "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" "
	    "y=\"22\" font-size=\"14\">",
	    SIDE, SIDE, EDGE);
	add_escaped(sb, title);
	sb_addf(sb, "</text>\n<text x=\"%d\" y=\"42\">", EDGE);
	add_figures(sb, points, n);
	sb_addz(sb, "</text>\n");
	draw_axes(sb, &f);
	draw_line(sb, &f, 1, "");
	draw_line(sb, &f, 2, " stroke-dasharray=\"4 4\"");
	draw_line(sb, &f, 0.5, " stroke-dasharray=\"4 4\"");
	draw_points(sb, &f, points, n, true);
	draw_points(sb, &f, points, n, false);
	sb_addz(sb, "</svg>\n");
}
