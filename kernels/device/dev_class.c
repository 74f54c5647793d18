/* kernels/device/dev_class.c: a device's class, from the words of its environment: plans hold those. */
#include "dev.h"

#include <string.h>

/* The value of a line "key=value"; empty where there is none. */
static struct str
value_of(struct str lines, const char *key)
{
	while (lines.n) {
		struct str value = str_cut(&lines, '\n'), have = str_cut(&value, '=');

		if (str_is(have, key))
			return value;
	}
	return (struct str){0};
}

void
dev_class_of(struct str run_compat, struct str environment, char out[DEV_CLASS_MAX])
{
	struct str cpu = value_of(environment, "cpu"), gpu = value_of(environment, "gpu"),
		   mig = value_of(environment, "mig");
	enum isa isa;

	out[0] = '\0';
	if (gpu.n)
		class_of_gpu(gpu, str_is(mig, "none") ? STR("") : mig, out);
	else if (cpu.n && isa_of_needs(run_compat, &isa))
		class_of_cpu(cpu, isa_info[isa].name, out);
}
