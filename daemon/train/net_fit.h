/* daemon/train/net_fit.h: the network on a set's rows (kernels/predict/net.h). */
#ifndef KORCH_TRAIN_NET_FIT_H
#define KORCH_TRAIN_NET_FIT_H

#include "../../kernels/predict/net.h"
#include "train.h"

struct net_fit {
	struct train_part part;
	const bool *is_target; /* rows whose times nobody knows, which CMD brings near; NULL: none */
	const float *weight;   /* of each row of the set; NULL: 1 */
	struct net_recipe recipe;
};
extern const struct net_recipe net_fit_usual;
extern net_multiply *const train_multiply; /* OpenBLAS's where Korch is built with it, else net_product */
struct net train_net(struct arena *a, const struct train_set *set, const struct net_fit *f);
/* ln(time / bound), at least 0, of every row of the set. */
void train_net_ask(const struct net *n, const struct train_set *set, float *out);
/* Which k of the rows that `may` marks to measure on a device or a model that is new: KMeans on their
 * numbers.  At most all of them; returns how many. */
uint32_t train_pick(const struct train_set *set, const bool *may, uint32_t k, uint32_t *rows);

#endif
