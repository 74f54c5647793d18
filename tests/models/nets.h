/* tests/models/nets.h: the evaluation models, and blocks to train the predictor on. */
#ifndef KORCH_NETS_H
#define KORCH_NETS_H

#include "gen.h"

/* size: the input's height and width; 0: as published, or the small stand-in's */
typedef void net_fn(struct gen *g, bool is_small, int64_t size);
net_fn net_candy, net_efficientvit, net_efficientvit_b1, net_yolov4, net_yolox_nano, net_segformer_b0,
    net_blocks, net_ways;

#endif
