/* tests/harness/peer_list.c: FILE SM WARPS STAGES REGISTERS SHARED-BYTES BLOCKS, a line a cubin. */
#include "peer_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20, MOST_LINES = 4096 };

static bool
read_line(struct arena *a, const char *path, struct str line, struct peer_cubin *out, struct err *e)
{
	const char *slash = strrchr(path, '/');
	const int folder = slash ? (int)(slash + 1 - path) : 0;
	char file[256], sm[8];

	if (sscanf(str_dup(a, line), "%255s %7s %u %u %u %u %u", file, sm, &out->warps, &out->stages,
		&out->registers, &out->shared_bytes, &out->blocks) != 7)
		return err_set(e, ERR_FORMAT, "%s: '%.*s' is no line of gpu_peers.sh", path, STR_ARG(line));
	out->sm = atoi(sm);
	out->file = str_dup(a, str_of(file));
	return os_read_file(
	    os_real(), a, arena_printf(a, "%.*s%s", folder, path, file), MOST_BYTES, &out->cubin, e);
}

bool
peer_list_read(struct arena *a, const char *path, struct peer_cubin **out, uint32_t *n, struct err *e)
{
	struct bytes b;

	*n = 0;
	*out = NEW_ARRAY(a, struct peer_cubin, MOST_LINES);
	if (!os_read_file(os_real(), a, path, MOST_BYTES, &b, e))
		return false;
	for (struct str rest = {(const char *)b.p, b.n}; rest.n && *n < MOST_LINES;) {
		const struct str line = str_trim(str_cut(&rest, '\n'));

		if (line.n && *line.p != '#' && !read_line(a, path, line, &(*out)[(*n)++], e))
			return false;
	}
	return true;
}
