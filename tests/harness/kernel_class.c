/* tests/harness/kernel_class.c: see the header. */
#include "kernel_class.h"

#include "../../kernels/schedule/schedule.h"

static const char *const names[] = {
#define KERNEL_CLASS(NAME, WORDS) #NAME,
#include "kernel_class.def"
#undef KERNEL_CLASS
};

const char *
kernel_class_name(enum kernel_class c)
{
	return names[c];
}

bool
kernel_class_read(struct str name, enum kernel_class *out)
{
	for (int i = 0; i < KERNEL_CLASSES; i++)
		if (str_is(name, names[i])) {
			*out = (enum kernel_class)i;
			return true;
		}
	return false;
}

/* What the nodes of a spec are, counted. */
struct mix {
	uint32_t convs, depthwise, matmuls, run_time, windows, reductions, serial, maps;
};

static void
count_node(const struct graph *g, const struct node *n, struct mix *m)
{
	const struct prim_info *info = &prim_info[n->prim];

	if (n->prim == PRIM_conv) {
		const struct shape *x = &graph_tensor(g, n->in[0])->shape;

		m->convs++;
		m->depthwise += at_get(&n->at, ATTR_group) == x->dim[x->rank - 1];
	} else if (info->class == CLASS_LINEAR) {
		m->matmuls++;
		m->run_time += graph_tensor(g, n->in[1])->role != ROLE_WEIGHT;
	} else if (info->class == CLASS_REDUCE && info->shape == SHAPE_WINDOW) {
		m->windows++;
	} else if (n->prim == PRIM_argmax || n->prim == PRIM_argmin || n->prim == PRIM_cumsum ||
	    info->class == CLASS_OPAQUE) {
		m->serial++;
	} else if (info->class == CLASS_REDUCE) {
		m->reductions++;
	} else if (info->class == CLASS_MAP) {
		m->maps++;
	}
}

static enum kernel_class
class_of(const struct spec *s, bool has_ring, bool has_winograd)
{
	struct mix m = {0};

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		count_node(&s->g, &s->g.nodes[i], &m);
	if (has_ring)
		return KERNEL_ring;
	if (has_winograd)
		return KERNEL_winograd;
	if (m.run_time > 1 && m.reductions)
		return KERNEL_attention;
	if (m.convs)
		return m.depthwise == m.convs ? KERNEL_depthwise : KERNEL_conv;
	if (m.matmuls)
		return KERNEL_matmul;
	if (m.windows)
		return KERNEL_pooling;
	if (m.serial)
		return KERNEL_serial;
	if (m.reductions)
		return KERNEL_rows;
	return m.maps ? KERNEL_map : KERNEL_layout;
}

/* Nests that hand rows on: the trace has them slide. */
static bool
trace_has_ring(struct arena *a, const struct spec *s, const struct choices *chosen, const struct target *t,
    bool *ring, struct err *e)
{
	struct strbuf trace;
	struct tir nest, bound;

	sb_init(&trace, a);
	schedule_lower(a, s, t->strict, &nest);
	if (!space_by_rules(&nest, chosen, t, &trace, &bound, e))
		return false;
	*ring = trace_has(sb_str(&trace), STEP_slide);
	return true;
}

bool
kernel_class_of(
    const struct spec *s, struct str schedule, const struct target *t, enum kernel_class *out, struct err *e)
{
	struct arena a = {0};
	struct choices chosen = {.wino = 0};
	struct sched sched;
	enum library l;
	int64_t version;
	bool ok = sched_read(schedule, &sched, e), ring = false;

	*out = KERNEL_library;
	if (ok && !sched_library(&sched, &l, &version)) {
		ok = space_choices(s, schedule, t, &chosen, e) && trace_has_ring(&a, s, &chosen, t, &ring, e);
		if (ok)
			*out = class_of(s, ring, chosen.wino > 0);
	}
	arena_fini(&a);
	return ok;
}
