/* tests/harness/library_plan.c: see the header. */
#include "library_plan.h"
#include "library.h"

#include <math.h>
#include <string.h>

static struct place
make_place(const struct library_shape *s, enum place_kind kind, size_t offset)
{
	int64_t rows = kind == PLACE_CONST ? s->width : s->rows;

	return (struct place){.kind = kind,
	    .offset = offset,
	    .n_bytes = (size_t)(rows * s->width) * sizeof(float),
	    .type = DT_f32,
	    .shape = shape_make(2, (const int64_t[]){rows, s->width})};
}

/* Places: the input, the output, two in work memory, then the weights. */
enum { AT_INPUT, AT_OUTPUT, AT_WORK, AT_WEIGHT = AT_WORK + 2 };

static void
fill_places(struct arena *a, const struct library_shape *s, struct plan *p)
{
	struct place weight = make_place(s, PLACE_CONST, 0), work = make_place(s, PLACE_WORK, 0);
	uint8_t *w;
	struct rng r = {1};

	p->n_places = AT_WEIGHT + s->n_weights;
	p->places = NEW_ARRAY(a, struct place, p->n_places);
	p->places[AT_INPUT] = make_place(s, PLACE_INPUT, 0);
	p->places[AT_OUTPUT] = make_place(s, PLACE_OUTPUT, 0);
	for (uint32_t i = 0; i < 2; i++)
		p->places[AT_WORK + i] = make_place(s, PLACE_WORK, i * work.n_bytes);
	p->work_bytes = 2 * work.n_bytes;
	for (uint32_t i = 0; i < s->n_weights; i++)
		p->places[AT_WEIGHT + i] = make_place(s, PLACE_CONST, i * weight.n_bytes);
	w = arena_alloc(a, s->n_weights * weight.n_bytes + PLAN_ALIGN);
	w += -(uintptr_t)w % PLAN_ALIGN;
	p->constants = (struct bytes){w, s->n_weights * weight.n_bytes};
	for (size_t i = 0; i < p->constants.n / sizeof(float); i++) {
		float v = (float)((rng_unit(&r) * 2 - 1) / sqrt((double)s->width));

		memcpy(w + i * sizeof(v), &v, sizeof(v));
	}
}

static bool
fill_kernels(struct arena *a, const struct library_shape *s, struct plan *p, struct err *e)
{
	static const char *const end[] = {"output %2\n", "%3 = relu %2\noutput %3\n"};

	p->n_kernels = 2;
	p->kernels = NEW_ARRAY(a, struct plan_kernel, 2);
	for (uint32_t i = 0; i < 2; i++) {
		long long m = s->rows, n = s->width;
		struct spec spec;
		const char *graph = arena_printf(a,
		    "%%0 = input f32[%lld,%lld]\n%%1 = weight f32[%lld,%lld]\n%%2 = matmul %%0 %%1\n%s", m, n,
		    n, n, end[i]);

		if (!kernel_spec(a, graph, &spec, e))
			return false;
		p->kernels[i] = (struct plan_kernel){.spec = spec.text,
		    .schedule = str_of(library_schedule(a, 0)),
		    .symbol = str_of(arena_printf(a, "k%u", i)),
		    .n_operands = 2,
		    .n_results = 1,
		    .n_passes = 1,
		    .range = {1},
		    .cost_ns = 1000,
		    .bound_ns = 1,
		    .is_measured = true};
	}
	return true;
}

static void
fill_steps(struct arena *a, const struct library_shape *s, struct plan *p)
{
	p->n_steps = s->n_layers;
	p->steps = NEW_ARRAY(a, struct plan_step, s->n_layers);
	for (uint32_t i = 0; i < s->n_layers; i++) {
		const uint32_t places[] = {i == 0 ? AT_INPUT : AT_WORK + (i - 1) % 2,
		    AT_WEIGHT + i % s->n_weights, i + 1 == s->n_layers ? AT_OUTPUT : AT_WORK + i % 2};

		p->steps[i] = (struct plan_step){.kernel = i % 2,
		    .n_places = 3,
		    .nodes = str_of(arena_printf(a, "layer%u", i)),
		    .places = arena_dup(a, places, sizeof(places))};
	}
}

bool
library_plan(struct arena *a, const struct library_shape *s, struct plan *p, struct err *e)
{
	static const struct str none = {"", 0};
	struct compile_opts o = {0};
	struct dev_info info;
	struct shape shape = shape_make(2, (const int64_t[]){s->rows, s->width});

	if (!dev_cpu_describe(&info, e))
		return false;
	*p = (struct plan){.run_compat = str_of(str_dup(a, str_of(info.run_compat))),
	    .environment = str_of(str_dup(a, str_of(info.environment))),
	    .model_name = STR("layers"),
	    .model_digest = STR("00"),
	    .version = STR("1"),
	    .n_threads = 1,
	    .tolerance = 1e-3,
	    .latency_ns = 1000 * (int64_t)s->n_layers,
	    .fusion = STR("full"),
	    .graph = none,
	    .limits = none,
	    .source = none,
	    .certificate = none,
	    .stop = none,
	    .runner = none,
	    .what_if = none};
	p->n_inputs = p->n_outputs = 1;
	p->inputs = NEW_ARRAY(a, struct plan_io, 1);
	p->outputs = NEW_ARRAY(a, struct plan_io, 1);
	p->inputs[0] = (struct plan_io){STR("x"), DT_f32, shape};
	p->outputs[0] = (struct plan_io){STR("y"), DT_f32, shape};
	fill_places(a, s, p);
	fill_steps(a, s, p);
	return fill_kernels(a, s, p, e) && compile_c(a, STR("int korch_no_kernels;\n"), &o, &p->module, e);
}
