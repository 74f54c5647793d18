/* kernels/tir/form.c: the maps of a form by name, and elements through them. */
#include "form.h"

const struct form_map_info form_map_info[FORM_MAPS] = {
    [MAP_none] = {"", 0, 0, {{0}}},
    [MAP_wino2] = {"wino2", 4, 3, {{1}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}},
    [MAP_wino4] = {"wino4", 6, 3,
	{{1.0 / 4}, {-1.0 / 6, -1.0 / 6, -1.0 / 6}, {-1.0 / 6, 1.0 / 6, -1.0 / 6},
	    {1.0 / 24, 1.0 / 12, 1.0 / 6}, {1.0 / 24, -1.0 / 12, 1.0 / 6}, {0, 0, 1}}},
};
