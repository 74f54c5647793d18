/* kernels/predict/net_sample.h: a sample (sample.h) as the network reads it. */
#ifndef KORCH_PREDICT_NET_SAMPLE_H
#define KORCH_PREDICT_NET_SAMPLE_H

#include "net.h"
#include "sample.h"

/* Of samples, and small: trained in a minute or two on a core, tens of thousands of kernels a second. */
extern const struct net_shape net_usual;
/* The sample's leaves stay where they are; want and weight are 0. */
struct net_sample net_sample_of(struct arena *a, const struct sample *s);

#endif
