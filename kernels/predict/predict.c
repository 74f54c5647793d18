/* kernels/predict/predict.c: asking a trained predictor. */
#include "predict.h"

#include <math.h>

/* Numbers a little beside what training saw are no other world. */
static const double margin = 0.1;
/* ... and rates by half of what they were, or twice. */
static const double rate_margin = 0.7;
/* ... and caches by fifty times: what of a kernel lies in them, heat and shares of the bytes say. */
static const double size_margin = 4;
/* Below it a kernel is timed sooner than it is believed: most of its time is the call's own. */
static const double too_small_ns = 1000;

/* A rate that calibration found.  Of equal machines a busy one's is half of the other's, and bounds have
 * taken it in. */
static bool
is_rate(uint32_t i)
{
	return (i >= SPEC_device_flops_peak && i <= SPEC_device_dram) || i == SPEC_device_call ||
	    i == SPEC_device_barrier;
}

static bool
is_size(uint32_t i)
{
	return i >= SPEC_device_l1_bytes && i <= SPEC_device_l3_bytes;
}

/* How far beside what training saw a number may be. */
static double
room_of(const struct predict_model *m, uint32_t i)
{
	if (is_size(i))
		return size_margin;
	return is_rate(i) ? rate_margin : margin * ((double)m->most[i] - (double)m->least[i] + 1);
}

static bool
is_far(const struct predict_model *m, const float *x)
{
	for (uint32_t i = 0; i < m->f.n_features; i++) {
		const double room = room_of(m, i);

		if ((double)x[i] < (double)m->least[i] - room || (double)x[i] > (double)m->most[i] + room)
			return true;
	}
	return false;
}

uint32_t
predict_group(const struct sample *s)
{
	static const double one_and_a_half = 0.405; /* its logarithm */

	return interval_group(
	    s->work_ns, s->spec[SPEC_n_linear] > 0, (double)s->spec[SPEC_device_threads] > one_and_a_half);
}

/* value: what the model says of x. */
static void
answer(const struct predict_model *m, double value, const float *x, const struct sample *s,
    struct prediction *out)
{
	enum { MOST = 4 }; /* e^4 times its bound: nobody can say */

	out->log_ratio = fmin(fmax(value, -MOST), MOST);
	out->ns = s->work_ns * exp(out->log_ratio);
	out->group = predict_group(s);
	out->is_far = s->work_ns < too_small_ns || is_far(m, x);
}

void
predict_kernel(const struct predictor *p, const struct sample *plain, struct prediction *out)
{
	const struct predict_model *m = &p->head[HEAD_KERNEL];
	float x[SAMPLE_FLAT];

	sample_flat(plain, x);
	answer(m, forest_value(&m->f, x), x, plain, out);
}

double
predict_mean(double trees, double network)
{
	return (trees + network) / 2;
}

static double
network_value(const struct net *n, const struct sample *s)
{
	struct arena tmp = {0};
	struct net_sample one = net_sample_of(&tmp, s);
	float value;

	net_predict(n, &one, 1, &value);
	arena_fini(&tmp);
	return (double)value;
}

void
predict_sample(const struct predictor *p, const struct sample *s, struct prediction *out)
{
	const struct predict_model *m = &p->head[HEAD_SCHEDULE];
	float x[SAMPLE_FLAT];
	double value;

	sample_flat(s, x);
	value = forest_value(&m->f, x);
	if (p->network)
		value = predict_mean(value, network_value(p->network, s));
	answer(m, value, x, s, out);
}

const double predict_sure_level = 0.95, predict_sure_errors = 1.645;

double
predict_sure(const struct predictor *p, uint32_t group, double bound_ns, double expected_ns)
{
	double low = interval_low(&p->head[HEAD_KERNEL].interval, group, (double)p->sure);

	return fmax(bound_ns, expected_ns * exp(low));
}

double
predict_heard(const struct predictor *p, enum predict_head head, const struct prediction *of, double left)
{
	const struct interval *v = &p->head[head].interval;

	return fmin(
	    fmax(left, fmin(interval_at(v, of->group, 0.05), 0)), fmax(interval_at(v, of->group, 0.95), 0));
}

double
predict_quantile(const struct predictor *p, enum predict_head head, const struct prediction *of, double level)
{
	return of->ns * exp(interval_at(&p->head[head].interval, of->group, level));
}
