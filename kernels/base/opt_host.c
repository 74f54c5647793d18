/* kernels/base/opt_host.c: --show-config goes on with what the settings come to on this host. */
#include "opt.h"

#include "json.h"

#include <stdio.h>

void
opts_say_host(const struct opts *o, const char *name, struct str value)
{
	struct arena tmp = {0};
	struct strbuf sb;

	sb_init(&sb, &tmp);
	if (opt_flag(o, OPT_json)) {
		sb_addf(&sb, "{\"setting\":\"%s\",\"value\":", name);
		json_text(&sb, value);
		sb_addz(&sb, ",\"source\":\"host\"}");
	} else {
		sb_addf(&sb, "%s = %.*s (host)", name, STR_ARG(value));
	}
	(void)puts(sb.p);
	arena_fini(&tmp);
}
