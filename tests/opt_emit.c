/* tests/opt_emit.c: the fusion module and the generator over a graph taken as one kernel spec. */
#include "opt.h"
#include "../kernels/emit/emit.h"
#include "../kernels/fuse/tile.h"

#include <string.h>

static bool
target_of(const struct opt_call *c, struct target *out, struct err *e)
{
	const char *name = opt_arg(c, "--target", "avx2");
	struct strbuf sb;

	sb_init(&sb, c->a);
	*out = target_cuda;
	for (int i = 0; i < ISA_COUNT; i++) {
		sb_addf(&sb, "%s, ", isa_info[i].name);
		if (strcmp(name, isa_info[i].name) == 0)
			*out = *target_of_isa((enum isa)i);
	}
	out->strict = opt_arg(c, "--strict", NULL) != NULL;
	out->winograd = opt_arg(c, "--winograd", NULL) != NULL;
	if (out->is_cuda && strcmp(name, "cuda") != 0)
		return err_set(
		    e, ERR_USAGE, "--target=%s: it is one of %.*scuda", name, STR_ARG(sb_str(&sb)));
	return true;
}

bool
opt_tile(struct opt_call *c, struct err *e)
{
	struct target t;
	struct sched sched;
	struct tile_prog p;
	struct spec s;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e) ||
	    !sched_read(str_of(opt_arg(c, "--schedule", "")), &sched, e) ||
	    !tile_make(c->a, &s, &sched, &t, &p, e))
		return false;
	tile_print(c->out, &p);
	return true;
}

bool
opt_emit(struct opt_call *c, struct err *e)
{
	struct target t;
	struct kernel_code k;
	struct spec s;

	struct str schedule = str_of(opt_arg(c, "--schedule", ""));

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	if (!(t.is_cuda ? emit_cuda(c->a, &s, schedule, &t, "k", &k, e)
			: emit_c(c->a, &s, schedule, &t, "k", &k, e)))
		return false;
	sb_add(c->out, k.text);
	for (uint32_t i = 0; i < k.n_passes; i++)
		sb_addf(c->out, "# pass %u range %lld%s\n", i, (long long)k.range[i],
		    t.is_cuda
			? arena_printf(c->a, " grid %u block %u", k.launch[i].grid[0], k.launch[i].block[0])
			: "");
	sb_addf(c->out, "# shared %zu local %zu packs %u\n", k.shared_bytes, k.local_bytes, k.n_packs);
	return true;
}

bool
opt_space(struct opt_call *c, struct err *e)
{
	struct target t;
	struct str *list;
	struct spec s;
	uint32_t n;

	if (!target_of(c, &t, e) || !opt_read_spec(c, &s, e))
		return false;
	space_list(c->a, &s, &t, 32, &list, &n);
	for (uint32_t i = 0; i < n; i++)
		sb_addf(c->out, "\"%.*s\"\n", STR_ARG(list[i]));
	return true;
}
