/* tests/opt_codegen.c: a kernel from its loop program to C, pass by pass. */
#include "opt.h"
#include "../kernels/codegen/codegen.h"
#include "../kernels/generate/generate.h"
#include "../kernels/schedule/schedule.h"

struct look {
	struct opt_call *c;
	struct str before;
	bool prints;
};

static bool
look(void *self, const char *pass, const struct tir *p, struct err *e)
{
	struct look *l = self;
	struct strbuf sb;

	if (!tir_verify(p, e))
		return err_in(e, "after %s", pass);
	sb_init(&sb, l->c->a);
	tir_print(&sb, p);
	if (l->prints && str_eq(sb_str(&sb), l->before))
		sb_addf(l->c->out, "== %s: nothing changed\n", pass);
	else if (l->prints)
		sb_addf(l->c->out, "== %s\n%.*s", pass, STR_ARG(sb_str(&sb)));
	l->before = sb_str(&sb);
	return true;
}

static bool
is_cuda(const struct opt_call *c)
{
	return opt_arg(c, "--cuda", NULL) != NULL;
}

/* The text is a FLAT loop program, or a graph: lowered, and scheduled by the rules. */
static bool
read_flat(struct opt_call *c, struct look *l, const struct target *t, struct tir *out, struct err *e)
{
	struct schedule_target target = space_schedule_target(t);
	struct spec *s = NEW(c->a, struct spec);
	struct tir nest, scheduled;
	struct strbuf trace;

	if (str_starts(c->text, "tir flat"))
		return tir_read(out, c->a, c->text, e) && tir_verify(out, e);
	if (!opt_read_spec(c, s, e))
		return false;
	schedule_lower(c->a, s, opt_arg(c, "--strict", NULL) != NULL, &nest);
	sb_init(&trace, c->a);
	if ((!is_cuda(c) || opt_arg(c, "--schedule", NULL)) &&
	    !space_choices(s, str_of(opt_arg(c, "--schedule", TRACED)), t, &target.chosen, e))
		return false;
	schedule_propose(&nest, &target, &trace, &scheduled);
	if (l->prints)
		sb_addf(c->out, "== trace\n%.*s", STR_ARG(sb_str(&trace)));
	schedule_flat(&scheduled, out);
	return true;
}

static uint32_t
n_operands(const struct tir *p)
{
	uint32_t n = 0;

	for (buf_id b = 0; b < p->n_buf; b++)
		if (p->buf[b].role == BUF_OPERAND)
			n = MAX_OF(n, p->buf[b].index + 1);
	return n;
}

static void
print_pass(struct opt_call *c, const struct codegen_kernel *k, uint32_t i)
{
	sb_addf(c->out, "# pass %u range %lld", i, (long long)k->range[i]);
	if (is_cuda(c))
		sb_addf(c->out, " grid %u block %u", k->grid[i], k->threads[i]);
	sb_addc(c->out, '\n');
}

bool
opt_codegen(struct opt_call *c, struct err *e)
{
	struct look l = {.c = c, .prints = opt_arg(c, "--passes", NULL) != NULL};
	const struct codegen_watch w = {look, &l};
	struct target t = target_cuda;
	struct codegen_form form;
	struct codegen_kernel k;
	struct tir flat, p;

	if (!is_cuda(c) && !target_read(str_of(opt_arg(c, "--target", "avx2")), &t, e))
		return false;
	form = (struct codegen_form){.lanes = (uint32_t)t.simd_bytes / 4, .registers = (uint32_t)t.n_vregs};
	if (!read_flat(c, &l, &t, &flat, e) || (l.prints && !look(&l, "flat", &flat, e)) ||
	    !codegen_run(&flat, &w, &p, e) ||
	    !(is_cuda(c) ? codegen_cuda(c->a, &p, n_operands(&p), "k", &k, e)
			 : codegen_c(c->a, &p, n_operands(&p), "k", &form, &k, e)))
		return false;
	if (l.prints)
		sb_addf(c->out, "== %s", is_cuda(c) ? "CUDA" : "C");
	sb_add(c->out, k.text);
	for (uint32_t i = 0; i < k.n_passes; i++)
		print_pass(c, &k, i);
	sb_addf(c->out, "# shared %zu local %zu packs %u\n", k.shared_bytes, k.local_bytes, k.n_packs);
	for (uint32_t i = 0; i < k.n_overlaps; i++)
		sb_addf(c->out, "# result %u may lie on operand %u\n", k.overlaps[i].result,
		    k.overlaps[i].operand);
	return true;
}
