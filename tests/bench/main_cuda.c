/* tests/bench/main_cuda.c: the candidates of a model as CUDA kernels, no GPU needed: every distinct spec is
 * generated, and run through the host shim against the interpreter (--check), compiled by NVRTC with its
 * cubin read (--compile), or written with its prelude as files that NVRTC takes (--write=DIR).
 *
 *   bench-cuda [--step=N] [--from=N] [--part=K/N] [--seconds=S] [--sm=80,90] [--precision=f32]
 *       [--schedule=S | --schedules=N | --vary] [--check] [--compile] [--write=DIR] [--cubins=DIR]
 * [--untiled] MODEL.onnx
 *
 * --step=N: a sample, every N-th; --part=K/N: the K-th of N disjoint shares.  --seconds=S: begins nothing
 * after S seconds and says with which --from it goes on.  --schedules=N: the first N of each spec's space;
 * --vary: one of its space, and another precision for each batch, beginning with --part's; unless --compile
 * another architecture too, so that a sample meets many of them.  --untiled: prints the specs whose linear
 * primitives are not in tiles.  --cubins=DIR: --compile, and keeps what NVRTC made. */
#include "../harness/cuda_nvrtc.h"
#include "../harness/model_candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = NVRTC_BATCH, MAX_SMS = 8, SPACE = 24 };

struct args {
	int64_t step, from, schedules, part, parts, seconds;
	int sm[MAX_SMS];
	uint32_t n_sm;
	bool check, compile, vary, untiled;
	enum precision precision;
	const char *file, *write, *cubins, *schedule;
};
struct totals {
	uint32_t specs, made, checked, heavy, refused, wrong;
	uint32_t linear, tiled; /* kernels with a linear primitive; those with all of it in tiles */
	uint32_t tile_passes;
	struct nvrtc_totals of[MAX_SMS];
};
struct run {
	const struct args *args;
	const struct cand_set *cs;
	struct gpu gpu;
	struct totals t;
	struct arena arena; /* of the batch */
	struct cuda_case *list;
	uint32_t n, batch;
	int64_t from_ns;
};

/* More than the interpreter, and coroutines, should be asked for. */
static bool
is_heavy(const struct spec *s)
{
	double flops = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		flops += node_flops(&s->g, &s->g.nodes[i]);
	return flops > 2e7;
}

/* ---- a batch: kernels for one target --------------------------------------------------------- */
static const struct {
	int sm;
	enum precision precision;
} varied[] = {{80, PRECISION_F32}, {80, PRECISION_TF32}, {70, PRECISION_F32}, {90, PRECISION_F16},
    {80, PRECISION_BF16}, {75, PRECISION_F16}};

static struct target
target_of(const struct run *r, int sm)
{
	const size_t turn = (r->batch + (size_t)r->args->part - 1) % COUNT_OF(varied);
	struct target t = target_cuda;

	t.sm = r->args->vary && !r->args->compile ? varied[turn].sm : sm;
	t.precision = r->args->vary ? varied[turn].precision : r->args->precision;
	if (r->args->vary && !precision_on(t.sm, t.precision))
		t.precision = PRECISION_F32;
	return t;
}

/* Rounded factors, and what an exponential makes of them. */
static double
looser(enum precision p)
{
	return p == PRECISION_F32 ? 5 : p == PRECISION_BF16 ? 8000 : 1000;
}

static void
make_all(struct run *r, const struct target *t)
{
	for (uint32_t i = 0; i < r->n; i++) {
		r->list[i].by = looser(t->precision);
		cuda_case_make(&r->arena, &r->list[i], t, i);
	}
}

/* A product in tiles is work that is known before it is compiled. */
static void
count_tiles(struct run *r, const struct cuda_case *c)
{
	uint32_t tiled = 0;
	bool linear = false;

	for (uint32_t q = 0; q < c->code.desc.n_passes; q++)
		tiled += c->code.work[q].multiply_adds > 0;
	for (uint32_t i = 0; i < c->spec.g.n_nodes; i++)
		linear |= prim_info[c->spec.g.nodes[i].prim].class == CLASS_LINEAR;
	r->t.linear += linear;
	r->t.tiled += tiled > 0;
	r->t.tile_passes += tiled;
	if (linear && tiled == 0 && r->args->untiled)
		printf("spec %llu\n%.*s", (unsigned long long)c->seed - 1, STR_ARG(c->spec.text));
}

static void
count(struct run *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct cuda_case *c = &r->list[i];

		r->t.made += !c->refused;
		r->t.refused += c->refused;
		if (!c->refused)
			count_tiles(r, c);
		if (c->refused && !*c->schedule)
			printf("spec %llu is refused: %.*s\n", (unsigned long long)c->seed - 1,
			    STR_ARG(c->refusal));
	}
}

static void
check(struct run *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		bool heavy = !r->list[i].refused && is_heavy(&r->list[i].spec);

		r->t.heavy += heavy;
		r->list[i].refused |= heavy;
		r->t.checked += !r->list[i].refused;
	}
	r->t.wrong += cuda_cases_check(&r->arena, r->list, r->n);
}

static bool
write_batch(struct run *r, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, &r->arena);
	sb_add(&sb, prelude_cuda(&r->arena, false));
	for (uint32_t i = 0; i < r->n; i++)
		if (!r->list[i].refused)
			sb_add(&sb, r->list[i].code.text);
	return os_write_file(os_real(), arena_printf(&r->arena, "%s/k%u.cu", r->args->write, r->batch),
	    (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
}

static bool
flush(struct run *r, struct err *e)
{
	bool ok = true;

	for (uint32_t k = 0; k < (r->args->compile ? r->args->n_sm : 1) && r->n && ok; k++) {
		struct target t = target_of(r, r->args->sm[k]);

		make_all(r, &t);
		if (k == 0)
			count(r);
		ok = !r->args->compile || gpu_rtc_choose(&r->gpu, r->args->sm[k], e);
		if (r->args->compile && ok)
			cuda_nvrtc_compile(&r->gpu, r->list, r->n, 0, r->args->sm[k], &r->t.of[k]);
	}
	if (r->args->write && ok)
		ok = write_batch(r, e);
	if (r->args->check)
		check(r);
	arena_fini(&r->arena);
	r->list = NULL;
	r->n = 0;
	r->batch++;
	return ok;
}

/* ---- all of them -------------------------------------------------------------------------------- */
static bool
add(struct run *r, int64_t spec, struct str schedule, struct err *e)
{
	if (!r->list)
		r->list = NEW_ARRAY(&r->arena, struct cuda_case, BATCH);
	r->list[r->n++] = (struct cuda_case){
	    .spec = r->cs->specs[spec], .schedule = str_dup(&r->arena, schedule), .seed = (uint64_t)spec + 1};
	return r->n < BATCH || flush(r, e);
}

static bool
add_spec(struct run *r, int64_t spec, struct err *e)
{
	struct arena tmp = {0};
	struct target t = target_of(r, r->args->sm[0]);
	struct str *list;
	uint32_t n;
	bool ok = true;

	if (!r->args->vary && r->args->schedules == 0)
		return add(r, spec, str_of(r->args->schedule), e);
	space_list(&tmp, &r->cs->specs[spec], &t, r->args->vary ? SPACE : (uint32_t)r->args->schedules,
	    text_outcome, &list, &n);
	if (r->args->vary && n)
		ok = add(r, spec, list[(uint64_t)(spec / r->args->step) % n], e);
	for (uint32_t i = 0; i < n && ok && !r->args->vary; i++)
		ok = add(r, spec, list[i], e);
	arena_fini(&tmp);
	return ok;
}

static bool
is_late(const struct run *r)
{
	return r->args->seconds && os_real()->mono_ns(NULL) - r->from_ns > r->args->seconds * 1000000000;
}

static bool
run_all(struct run *r, struct err *e)
{
	r->from_ns = os_real()->mono_ns(NULL);
	for (uint32_t k = 0; k < r->args->n_sm; k++)
		r->t.of[k].keep = r->args->cubins;
	if (r->args->compile) {
		gpu_open(&r->gpu);
		for (uint32_t k = 0; k < r->args->n_sm; k++) /* said before an hour has gone into others */
			if (!gpu_rtc_choose(&r->gpu, r->args->sm[k], e))
				return false;
	}
	for (int64_t i = r->args->from; i < r->cs->n_specs; i++) {
		if (i % r->args->step || i / r->args->step % r->args->parts != r->args->part - 1)
			continue;
		if (is_late(r)) {
			printf("%s: %lld seconds are over: go on with --from=%lld\n", r->args->file,
			    (long long)r->args->seconds, (long long)i);
			break;
		}
		r->t.specs++;
		if (!add_spec(r, i, e))
			return false;
	}
	return flush(r, e);
}

static void
print(const struct run *r, uint32_t n_specs)
{
	const struct totals *t = &r->t;
	const char *file = r->args->file;

	for (uint32_t k = 0; k < r->args->n_sm && r->args->compile; k++)
		cuda_nvrtc_print(&t->of[k], r->args->sm[k], file);
	printf(
	    "%s: %u of %u specs, %u kernels made, %u refused; %u checked, %u too large to check, %u wrong\n",
	    file, t->specs, n_specs, t->made, t->refused, t->checked, t->heavy, t->wrong);
	printf("%s: %u kernels with a linear primitive, %u of them in tiles; %u passes in tiles\n", file,
	    t->linear, t->tiled, t->tile_passes);
}

/* ---- calling ---------------------------------------------------------------------------------- */
static bool
read_sms(struct args *args, struct str list)
{
	args->n_sm = 0;
	while (list.n && args->n_sm < MAX_SMS) {
		int64_t v = 0;

		if (!str_to_i64(str_cut(&list, ','), &v) || v < 50 || v > 999)
			return false;
		args->sm[args->n_sm++] = (int)v;
	}
	return args->n_sm > 0;
}

static bool
read_part(struct args *args, struct str value)
{
	return str_to_i64(str_cut(&value, '/'), &args->part) && str_to_i64(value, &args->parts) &&
	    args->part >= 1 && args->part <= args->parts;
}

static bool
read_arg(struct args *args, struct str arg)
{
	struct str value = arg, name = str_cut(&value, '=');

	if (str_is(name, "--step"))
		return str_to_i64(value, &args->step) && args->step >= 1;
	if (str_is(name, "--from"))
		return str_to_i64(value, &args->from) && args->from >= 0;
	if (str_is(name, "--part"))
		return read_part(args, value);
	if (str_is(name, "--seconds"))
		return str_to_i64(value, &args->seconds) && args->seconds >= 1 && args->seconds < 1000000;
	if (str_is(name, "--schedules"))
		return str_to_i64(value, &args->schedules) && args->schedules >= 0 && args->schedules < 1000;
	if (str_is(name, "--sm"))
		return read_sms(args, value);
	if (str_is(name, "--precision"))
		return precision_read(value, &args->precision);
	args->check |= str_is(arg, "--check");
	args->compile |= str_is(arg, "--compile");
	args->vary |= str_is(arg, "--vary");
	args->untiled |= str_is(arg, "--untiled");
	if (str_is(name, "--schedule"))
		args->schedule = value.p;
	else if (str_is(name, "--write"))
		args->write = value.p;
	else if (str_is(name, "--cubins"))
		args->cubins = value.p;
	else if (!str_starts(arg, "--"))
		args->file = arg.p;
	else
		return str_is(arg, "--check") || str_is(arg, "--compile") || str_is(arg, "--vary") ||
		    str_is(arg, "--untiled");
	return true;
}

static bool
read_args(int argc, char **argv, struct args *args)
{
	for (int i = 1; i < argc; i++)
		if (!read_arg(args, str_of(argv[i])))
			return false;
	args->compile |= args->cubins != NULL;
	return args->file != NULL;
}

int
main(int argc, char **argv)
{
	struct args args = {.step = 1, .part = 1, .parts = 1, .sm = {80}, .n_sm = 1, .schedule = ""};
	struct arena a = {0};
	struct cand_set cs;
	struct run r = {.args = &args, .cs = &cs};
	struct err e = {0};
	uint32_t failed = 0;

	if (!read_args(argc, argv, &args)) {
		fprintf(stderr,
		    "usage: bench-cuda [--step=N] [--from=N] [--part=K/N] [--seconds=S] [--sm=80,90]"
		    " [--precision=f32|tf32|f16|bf16] [--schedule=S | --schedules=N | --vary] [--check] "
		    "[--compile]"
		    " [--write=DIR] [--cubins=DIR] [--untiled] MODEL.onnx\n");
		return 2;
	}
	if (!model_candidates(&a, args.file, &cs, &e) || !run_all(&r, &e)) {
		fprintf(stderr, "bench-cuda: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	for (uint32_t k = 0; k < args.n_sm && args.compile; k++)
		failed += r.t.of[k].failed;
	print(&r, (uint32_t)cs.n_specs);
	arena_fini(&a);
	return r.t.wrong || failed ? 1 : 0;
}
