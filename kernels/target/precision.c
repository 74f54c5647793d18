/* kernels/target/precision.c: of products on tensor cores: names, and who has them. */
#include "target.h"

static const struct {
	const char *name;
	int from_sm;
} rows[PRECISION_COUNT] = {
    [PRECISION_F32] = {"f32", 0},
    [PRECISION_TF32] = {"tf32", 80},
    [PRECISION_F16] = {"f16", 75},
    [PRECISION_BF16] = {"bf16", 80},
};

const char *
precision_name(enum precision p)
{
	return rows[p].name;
}

bool
precision_read(struct str name, enum precision *out)
{
	for (int p = 0; p < PRECISION_COUNT; p++)
		if (str_is(name, rows[p].name)) {
			*out = (enum precision)p;
			return true;
		}
	return false;
}

bool
precision_on(int sm, enum precision p)
{
	return p == PRECISION_F32 || (sm > 0 && sm >= rows[p].from_sm);
}
