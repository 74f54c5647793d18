/* kernels/vendor/call_print.c: a call as text. */
#include "library.h"

static void
list(struct strbuf *sb, const char *name, const int64_t *v, int n)
{
	sb_addf(sb, "%s[", name);
	for (int i = 0; i < n; i++)
		sb_addf(sb, "%s%lld", i ? "," : "", (long long)v[i]);
	sb_addc(sb, ']');
}

static void
view(struct strbuf *sb, const char *name, const struct call_view *v)
{
	static const char *const source[] = {"input", "weight", "constant", "result"};

	sb_addf(sb, "%s %s", name, source[v->source]);
	if (v->source != SOURCE_CONST)
		sb_addf(sb, " %u", v->number);
	sb_addf(sb, " %s", dtype_name(v->type));
	shape_print(sb, &v->shape);
	if (!view_is_dense(v))
		list(sb, " strides=", v->stride, v->shape.rank);
	sb_addc(sb, '\n');
}

void
library_call_print(struct strbuf *sb, const struct library_call *c)
{
	static const int params[STEP_COUNT] = {
#define STEP(KIND, HAS_OPERAND, PARAMS) [STEP_##KIND] = PARAMS,
#include "library.def"
	};

	sb_addz(sb, c->linear == CALL_matmul ? "matmul" : "conv");
	if (c->linear == CALL_conv) {
		list(sb, " stride=", c->stride, c->n_spatial);
		list(sb, " dilation=", c->dilation, c->n_spatial);
		list(sb, " lo=", c->lo, c->n_spatial);
		list(sb, " hi=", c->hi, c->n_spatial);
		sb_addf(sb, " group=%lld", (long long)c->group);
	}
	sb_addc(sb, '\n');
	view(sb, "  a", &c->a);
	view(sb, "  b", &c->b);
	view(sb, "  to", &c->result);
	for (uint32_t i = 0; i < c->n_steps; i++) {
		const struct call_step *s = &c->step[i];

		sb_addz(sb, "  ");
		if (s->operand.shape.rank) {
			view(sb, step_name(s->kind), &s->operand);
			continue;
		}
		sb_addz(sb, step_name(s->kind));
		if (params[s->kind] > 0)
			sb_addf(sb, " %.9g", s->a);
		if (params[s->kind] > 1)
			sb_addf(sb, " %.9g", s->b);
		sb_addc(sb, '\n');
	}
}
