/* kernels/predict/shipped.c: the trained predictor that comes with Korch, as bytes inside the program. */
#include "predict.h"

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"korch_predict_first:\n"
	".incbin \"" KORCH_PREDICT_FILE "\"\n"
	"korch_predict_last:\n"
	".byte 0\n"
	".popsection\n");
extern const uint8_t korch_predict_first[] __attribute__((visibility("hidden")));
extern const uint8_t korch_predict_last[] __attribute__((visibility("hidden")));

struct bytes
predictor_shipped(void)
{
	return (struct bytes){korch_predict_first, (size_t)(korch_predict_last - korch_predict_first)};
}
