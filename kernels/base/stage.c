/* kernels/base/stage.c: the stages that --dump writes, as data. */
#include "stage.h"

const struct stage_info stage_info[STAGE_COUNT] = {
#define X(NAME, FILE, PASS, MAKES, WORDS) [STAGE_##NAME] = {#NAME, FILE, PASS, MAKES, WORDS},
    STAGES(X)
#undef X
};

static bool
stage_of(struct str word, uint32_t *stages)
{
	if (str_is(word, "all")) {
		*stages |= (1u << STAGE_COUNT) - 1;
		return true;
	}
	for (uint32_t i = 0; i < STAGE_COUNT; i++)
		if (str_is(word, stage_info[i].name)) {
			*stages |= 1u << i;
			return true;
		}
	return false;
}

bool
stages_read(struct str words, uint32_t *stages, struct err *e)
{
#define X(NAME, FILE, PASS, MAKES, WORDS) ", " #NAME
	static const char all[] = "all" STAGES(X);
#undef X

	*stages = 0;
	while (words.n) {
		struct str word = str_trim(str_cut(&words, ','));

		if (!stage_of(word, stages))
			return err_set(e, ERR_USAGE, "--dump %.*s: it is some of %s", STR_ARG(word), all);
	}
	return true;
}
