/* tests/harness/plan_sample.c: a small plan with hand-written kernels. */
#include "plan_sample.h"

#include <string.h>

static const char code[] = "void scale_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
			   "{\n"
			   "	const float *x = b[0], *w = b[1];\n"
			   "	float *y = b[2];\n"
			   "	for (long i = lo; i < hi; i++)\n"
			   "		y[i] = 2 * x[i] + w[i];\n"
			   "}\n"
			   "void mirror_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
			   "{\n"
			   "	const float *y = b[0];\n"
			   "	float *t = (float *)s;\n"
			   "	for (long i = lo; i < hi; i++)\n"
			   "		t[i] = y[36 - i];\n"
			   "}\n"
			   "void mirror_p1(void *const *b, char *s, char *l, long lo, long hi)\n"
			   "{\n"
			   "	const float *y = b[0], *t = (const float *)s;\n"
			   "	float *z = b[1];\n"
			   "	for (long i = lo; i < hi; i++)\n"
			   "		z[i] = y[i] + t[i];\n"
			   "}\n";

static float
weight(int i)
{
	return (float)i - 18;
}

void
plan_sample_expect(const float *x, float *z)
{
	for (int i = 0; i < SAMPLE_N; i++)
		z[i] = 2 * x[i] + weight(i) + (2 * x[36 - i] + weight(36 - i));
}

static struct place
make_place(enum place_kind kind, uint32_t index, uint32_t tensor)
{
	struct shape s = shape_make(1, (const int64_t[]){SAMPLE_N});

	return (struct place){.kind = kind,
	    .index = index,
	    .n_bytes = SAMPLE_N * 4,
	    .type = DT_f32,
	    .shape = s,
	    .tensor = tensor};
}

static uint32_t *
list(struct arena *a, uint32_t n, const uint32_t *v)
{
	return arena_dup(a, v, n * sizeof(*v));
}

static void
fill_steps(struct arena *a, struct plan *p)
{
	p->n_kernels = 2;
	p->kernels = NEW_ARRAY(a, struct plan_kernel, 2);
	p->kernels[0] = (struct plan_kernel){.spec = STR("spec 1\n"),
	    .schedule = STR("v=8"),
	    .symbol = STR("scale"),
	    .n_operands = 2,
	    .n_results = 1,
	    .n_passes = 1,
	    .range = {SAMPLE_N},
	    .cost_ns = 100,
	    .bound_ns = 50,
	    .is_measured = true,
	    .flops = 74,
	    .bytes = 444};
	p->kernels[1] = (struct plan_kernel){.spec = STR("spec 1\n#"),
	    .symbol = STR("mirror"),
	    .schedule = STR(""),
	    .n_operands = 1,
	    .n_results = 1,
	    .n_passes = 2,
	    .range = {SAMPLE_N, SAMPLE_N},
	    .shared_bytes = SAMPLE_N * 4,
	    .local_bytes = 64,
	    .cost_ns = 60,
	    .bound_ns = 30,
	    .is_measured = true,
	    .flops = 37,
	    .bytes = 296};
	p->n_places = 5;
	p->places = NEW_ARRAY(a, struct place, 5);
	p->places[0] = make_place(PLACE_INPUT, 0, 0);
	p->places[1] = make_place(PLACE_CONST, 0, 1);
	p->places[2] = make_place(PLACE_WORK, 0, 2);
	p->places[3] = make_place(PLACE_OUTPUT, 0, 3);
	p->places[4] = make_place(PLACE_OUTPUT, 1, 0);
	p->n_steps = 2;
	p->steps = NEW_ARRAY(a, struct plan_step, 2);
	p->steps[0] =
	    (struct plan_step){.kernel = 0, .n_places = 3, .candidate = 0, .nodes = STR("scale, shift")};
	p->steps[0].places = list(a, 3, (const uint32_t[]){0, 1, 2});
	p->steps[1] = (struct plan_step){.kernel = 1, .n_places = 2, .candidate = 1, .nodes = STR("mirror")};
	p->steps[1].places = list(a, 2, (const uint32_t[]){2, 3});
	p->n_copies = 1;
	p->copies = NEW_ARRAY(a, struct plan_copy, 1);
	p->copies[0] = (struct plan_copy){0, 4};
	p->work_bytes = SAMPLE_N * 4;
}

static void
fill_evidence(struct arena *a, struct plan *p)
{
	p->n_candidates = 2;
	p->candidates = NEW_ARRAY(a, struct plan_candidate, 2);
	p->candidates[0] = (struct plan_candidate){.reads = list(a, 2, (const uint32_t[]){0, 1}),
	    .n_reads = 2,
	    .makes = list(a, 1, (const uint32_t[]){2}),
	    .n_makes = 1,
	    .cost_ns = 100,
	    .is_measured = true,
	    .is_chosen = true,
	    .reduced_cost = 0};
	p->candidates[1] = (struct plan_candidate){.reads = list(a, 1, (const uint32_t[]){2}),
	    .n_reads = 1,
	    .makes = list(a, 1, (const uint32_t[]){3}),
	    .n_makes = 1,
	    .cost_ns = 60,
	    .is_measured = true,
	    .is_chosen = true,
	    .reduced_cost = 0.5};
	p->n_rows = 1;
	p->rows = NEW_ARRAY(a, struct plan_row, 1);
	p->rows[0] = (struct plan_row){
	    .candidates = list(a, 1, (const uint32_t[]){1}), .n_candidates = 1, .dual = 59.5};
}

/* Step 0 could do with the measured rival 0; mirror could be part of it, if rival 1 worked. */
static void
fill_account(struct arena *a, struct plan *p)
{
	static const struct plan_rival rivals[] = {{.spec = {{1, 2, 3}},
						       .nodes = {"scale", sizeof("scale") - 1},
						       .cause = {"", sizeof("") - 1},
						       .candidate = 1,
						       .is_measured = true,
						       .cost_ns = 120,
						       .spread_ns = 4,
						       .bound_ns = 40},
	    {.spec = {{4, 5, 6}},
		.nodes = {"scale,mirror", sizeof("scale,mirror") - 1},
		.cause = {"wrong output", sizeof("wrong output") - 1},
		.candidate = PLAN_NONE,
		.bound_ns = 70,
		.expected_ns = 90}};

	p->kernels[0].spread_ns = 6;
	p->n_rivals = 2;
	p->rivals = arena_dup(a, rivals, sizeof(rivals));
	p->n_exchanges = 2;
	p->exchanges = NEW_ARRAY(a, struct plan_exchange, 2);
	p->exchanges[0] = (struct plan_exchange){.steps = list(a, 1, (const uint32_t[]){0}),
	    .n_steps = 1,
	    .rivals = list(a, 1, (const uint32_t[]){0}),
	    .n_rivals = 1};
	p->exchanges[1] = (struct plan_exchange){.steps = list(a, 1, (const uint32_t[]){1}), .n_steps = 1};
	p->n_aparts = 2;
	p->aparts = NEW_ARRAY(a, struct plan_apart, 2);
	p->aparts[0] = (struct plan_apart){.of_steps = true,
	    .a = 0,
	    .b = 1,
	    .measured = PLAN_NONE,
	    .exchange = PLAN_NONE,
	    .open = PLAN_NONE,
	    .failed = 1,
	    .rule = STR("")};
	p->aparts[1] = (struct plan_apart){.a = 1,
	    .b = 2,
	    .measured = 0,
	    .exchange = 0,
	    .open = PLAN_NONE,
	    .failed = PLAN_NONE,
	    .rule = STR("size: 13 units, 12 are allowed")};
	p->n_perturbed = 1;
	p->perturbed = NEW(a, struct plan_perturbed);
	p->perturbed[0] = (struct plan_perturbed){.kernel = 1,
	    .ratio = .95,
	    .low = .94,
	    .high = .96,
	    .expected = .93,
	    .pairs = 96,
	    .compared = 10000000,
	    .tried = 8,
	    .failed = 1,
	    .moves = 12};
	p->n_heats = 1;
	p->heats = NEW(a, struct plan_heat);
	p->heats[0] = (struct plan_heat){.kernel = 1, .word = STR("hnc")};
	p->n_expected = 1;
	p->expected = NEW(a, struct plan_expected);
	p->expected[0] = (struct plan_expected){.kernel = 1, .ns = 500, .low_ns = 400, .high_ns = 700};
	p->n_sures = 1;
	p->sures = NEW(a, struct plan_sure);
	p->sures[0] = (struct plan_sure){.confidence = .95, .least_ns = 61, .n_predicted = 12, .n_bound = 3};
	p->n_sure_costs = 1;
	p->sure_costs = NEW(a, struct plan_sure_cost);
	p->sure_costs[0] = (struct plan_sure_cost){.candidate = 1, .cost_ns = 59};
	p->n_sure_rows = 1;
	p->sure_rows = NEW(a, struct plan_row);
	p->sure_rows[0] = (struct plan_row){
	    .candidates = list(a, 1, (const uint32_t[]){1}), .n_candidates = 1, .dual = 58.5};
	p->n_nodes = 3;
	p->nodes = NEW_ARRAY(a, struct plan_node, 3);
	p->nodes[0] = (struct plan_node){
	    .name = STR("scale"), .op = STR("Mul"), .steps = list(a, 1, (const uint32_t[]){0}), .n_steps = 1};
	p->nodes[1] = (struct plan_node){.name = STR("shift"),
	    .op = STR("Add"),
	    .reads = list(a, 1, (const uint32_t[]){0}),
	    .n_reads = 1,
	    .steps = list(a, 1, (const uint32_t[]){0}),
	    .n_steps = 1};
	p->nodes[2] = (struct plan_node){.name = STR("mirror"),
	    .op = STR("Slice"),
	    .fate = FATE_VIEW,
	    .reads = list(a, 1, (const uint32_t[]){1}),
	    .n_reads = 1};
}

void
plan_sample_dry(struct arena *a, struct plan *p)
{
	struct shape s = shape_make(1, (const int64_t[]){SAMPLE_N});
	size_t n_bytes = SAMPLE_N * 4 + PLAN_ALIGN;
	uint8_t *w = arena_alloc(a, n_bytes);

	w += -(uintptr_t)w % PLAN_ALIGN;
	for (int i = 0; i < SAMPLE_N; i++) {
		float v = weight(i);

		memcpy(w + i * 4, &v, 4);
	}
	*p = (struct plan){.run_compat = STR("fake"),
	    .environment = STR("cpu=fake\n"),
	    .model_name = STR("sample"),
	    .values = STR("mode=1"),
	    .model_digest = STR("00"),
	    .version = STR("1"),
	    .n_threads = 1,
	    .n_operators = 3,
	    .n_primitives = 4,
	    .n_candidates_total = 9,
	    .n_distinct = 7,
	    .latency_ns = 160,
	    .bound_ns = 59,
	    .measured_ns = 170,
	    .clock_ratio = 0.9375,
	    .expected_ns = 165,
	    .expected_low_ns = 150,
	    .expected_high_ns = 190,
	    .expected_of = 12,
	    .tolerance = 1e-3,
	    .proved = true,
	    .fusion = STR("full"),
	    .graph = STR("graph text\n"),
	    .limits = STR("none"),
	    .source = str_of(code),
	    .module = {(const uint8_t *)"\177ELF", 4},
	    .constants = {w, SAMPLE_N * 4},
	    .certificate = STR("bound checked by duals"),
	    .stop = STR("asked to end"),
	    .what_if = STR("")};
	p->n_inputs = 1;
	p->inputs = NEW_ARRAY(a, struct plan_io, 1);
	p->inputs[0] = (struct plan_io){STR("x"), DT_f32, s};
	p->n_outputs = 2;
	p->outputs = NEW_ARRAY(a, struct plan_io, 2);
	p->outputs[0] = (struct plan_io){STR("z"), DT_f32, s};
	p->outputs[1] = (struct plan_io){STR("same"), DT_f32, s};
	fill_steps(a, p);
	fill_evidence(a, p);
	fill_account(a, p);
}

bool
plan_sample(struct arena *a, struct plan *out, struct err *e)
{
	static const char *const flags[] = {"-O2", NULL};
	struct compile_opts o = {.flags = flags};
	struct dev_info info;

	plan_sample_dry(a, out);
	if (!dev_cpu_describe(&info, e))
		return false;
	out->run_compat = str_of(str_dup(a, str_of(info.run_compat)));
	return compile_c(a, str_of(code), &o, &out->module, e);
}
