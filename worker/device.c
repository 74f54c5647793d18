/* worker/device.c: finds a device by its name; what all kinds share. */
#include "device.h"

#include "../kernels/device/gpu_fake.h"

bool
device_open(struct arena *a, struct str name, struct device_conf *conf, struct device *out, struct err *e)
{
	static const struct {
		const char *class;
		bool (*open)(
		    struct arena *a, const struct device_conf *conf, struct device *out, struct err *e);
	} kind[] = {{"cpu", device_cpu_open}, {"cuda", device_cuda_open}, {"cuda-fake", device_cuda_open},
	    {"fake", device_fake_open}};
	struct str class;

	conf->args = name;
	class = str_cut(&conf->args, ':');
	conf->is_fake = str_is(class, "cuda-fake");
	for (size_t i = 0; i < COUNT_OF(kind); i++)
		if (str_is(class, kind[i].class))
			return kind[i].open(a, conf, out, e);
	return err_set(e, ERR_USAGE,
	    "'%.*s' is no device; there are cpu, cuda:0, cuda:all, fake and cuda-fake", STR_ARG(name));
}

/* fake: settings of the fake driver, or NULL. */
static bool
all_gpus(struct arena *a, const struct str *fake, struct str **out, uint32_t *n, struct err *e)
{
	struct gpu g = {0};
	int n_gpus = 0;
	bool ok = true;

	if (!fake)
		gpu_open(&g);
	else
		ok = gpu_fake_open(*fake, &g, e);
	ok = ok && gpu_ready(&g, true, &n_gpus, e);
	*n = ok ? (uint32_t)n_gpus : 0;
	*out = NEW_ARRAY(a, struct str, MAX_OF(*n, 1u));
	for (uint32_t i = 0; i < *n; i++)
		(*out)[i] = str_of(fake ? arena_printf(a, "cuda-fake:dev=%u,%.*s", i, STR_ARG(*fake))
					: arena_printf(a, "cuda:%u", i));
	gpu_close(&g);
	return ok;
}

bool
device_names(struct arena *a, struct str name, struct str **out, uint32_t *n, struct err *e)
{
	static const char fake_all[] = "cuda-fake:all";
	struct str rest = name;

	if (str_is(name, "cuda:all"))
		return all_gpus(a, NULL, out, n, e);
	if (str_is(str_cut(&rest, ','), fake_all))
		return all_gpus(a, &rest, out, n, e);
	*out = NEW_ARRAY(a, struct str, name.n + 1);
	*n = 0;
	if (!str_starts(name, "cuda:")) {
		(*out)[(*n)++] = name;
		return true;
	}
	while (name.n) {
		struct str one = str_cut(&name, ',');

		if (!str_starts(one, "cuda:"))
			return err_set(e, ERR_USAGE,
			    "'%.*s' stands in a list of GPUs: those are cuda:0,cuda:1 ...", STR_ARG(one));
		(*out)[(*n)++] = one;
	}
	return true;
}

static bool
is_known(const struct m_task *t, struct str schedule)
{
	for (uint32_t i = 0; i < t->n_known; i++)
		if (str_eq(t->known[i].name, schedule))
			return true;
	return false;
}

void
task_schedules(struct arena *a, const struct m_task *t, const struct spec *s, const struct target *target,
    struct str **out, uint32_t *n)
{
	struct str *all;
	uint32_t n_all = t->n_named;

	if (t->schedule.n) {
		*out = arena_dup(a, &t->schedule, sizeof(t->schedule));
		*n = 1;
		return;
	}
	all = NEW_ARRAY(a, struct str, MAX_OF(n_all, 1u));
	for (uint32_t i = 0; i < n_all; i++)
		all[i] = t->named[i].schedule;
	if (n_all == 0)
		space_list(a, s, target, (uint32_t)MIN_OF(MAX_OF(t->effort, (uint64_t)1), (uint64_t)256),
		    text_outcome, &all, &n_all);
	*out = NEW_ARRAY(a, struct str, MAX_OF(n_all, 1u));
	*n = 0;
	for (uint32_t i = 0; i < n_all; i++)
		if (!is_known(t, all[i]))
			(*out)[(*n)++] = all[i];
}

bool
task_target(
    const struct device *d, struct str precision, struct target *out, double *tolerance, struct err *e)
{
	struct str limit = precision, name = str_cut(&limit, ':');
	double most = 0;

	*out = d->target;
	*tolerance = 0;
	out->strict = str_is(name, "f32-strict");
	out->winograd = !out->strict && !str_is(name, "f32-direct");
	if (out->strict || str_is(name, "f32") || str_is(name, "f32-direct"))
		return limit.n == 0 ||
		    err_set(e, ERR_INFEASIBLE, "precision '%.*s': f32 has no tolerance of its own",
			STR_ARG(precision));
	if (!precision_read(name, &out->precision) || !precision_on(out->sm, out->precision))
		return err_set(e, ERR_INFEASIBLE, "precision '%.*s' is nothing that device %s can do",
		    STR_ARG(precision), d->class);
	if (!str_to_f64(limit, &most) || !(most > 0) || most > 1)
		return err_set(
		    e, ERR_INFEASIBLE, "precision '%.*s' names no tolerance above 0", STR_ARG(precision));
	*tolerance = most;
	return true;
}

struct m_hw
device_hw_told(const struct hw *h, const struct target *t, int64_t n_cores)
{
	return (struct m_hw){.flops_peak = h->flops_peak,
	    .linear_flops = h->linear_flops,
	    .exp_per_s = h->exp_per_s,
	    .div_per_s = h->div_per_s,
	    .l1_bytes_per_s = h->bytes_per_s[0],
	    .l2_bytes_per_s = h->bytes_per_s[1],
	    .l3_bytes_per_s = h->bytes_per_s[2],
	    .dram_bytes_per_s = h->bytes_per_s[3],
	    .l1_bytes = t->l1_bytes,
	    .l2_bytes = t->l2_bytes,
	    .l3_bytes = t->l3_bytes,
	    .call_ns = h->call_ns,
	    .barrier_ns = h->barrier_ns,
	    .simd_bytes = t->simd_bytes,
	    .n_vregs = t->n_vregs,
	    .n_cores = n_cores};
}
