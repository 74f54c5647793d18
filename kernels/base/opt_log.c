/* kernels/base/opt_log.c: the log that a program's options ask for. */
#include "log.h"
#include "opt.h"

bool
opts_log(const struct opts *o, struct log **out, struct err *e)
{
	struct log_conf conf = {.is_json = opt_flag(o, OPT_json), .path = opt_text(o, OPT_log_file)};

	if (!log_level_of(str_of(opt_text(o, OPT_log_level)), &conf.least))
		return err_set(e, ERR_USAGE, "--log-level %s: it is debug, info, warn or error",
		    opt_text(o, OPT_log_level));
	if (opt_flag(o, OPT_quiet))
		conf.least = LEVEL_ERROR;
	return log_open(out, &conf, e);
}
