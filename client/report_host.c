/* client/report_host.c: versions and this host, for a report; see report.h. */
#include "report.h"

#include "../kernels/base/epoch.h"
#include "../kernels/base/host.h"
#include "../kernels/jail/jail.h"
#include "../schema/plan_file.h"
#include "../schema/store.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 65536 };

void
report_versions(struct strbuf *sb)
{
	sb_addf(sb, "korch %s, protocol %d, generator epoch %d, store schema %d, plan format %d\n",
	    KORCH_VERSION, (int)PROTO_VERSION, (int)GENERATOR_EPOCH, (int)STORE_SCHEMA,
	    (int)PLAN_FILE_VERSION);
	sb_addf(sb, "built by gcc or clang %s, runs with glibc %s\n", __VERSION__, gnu_get_libc_version());
}

/* Files of /proc have no size before they are read. */
static void
add_file(struct strbuf *sb, const char *path, int lines, const char *words)
{
	static char text[MOST_BYTES];
	size_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	sb_addf(sb, "\n# %s (%s)\n", path, words);
	while (fd >= 0 && n < sizeof(text) && (got = read(fd, text + n, sizeof(text) - n)) > 0)
		n += (size_t)got;
	if (fd >= 0)
		(void)close(fd);
	for (size_t at = 0; at < n && lines > 0; at++) {
		sb_addc(sb, text[at]);
		lines -= text[at] == '\n';
	}
	if (n == 0)
		sb_addz(sb, "(is not there)\n");
	else if (lines > 0 && text[n - 1] != '\n')
		sb_addc(sb, '\n');
}

/* As korchd and korch-worker have it in their logs; those of a named daemon are elsewhere. */
static void
add_jails(struct strbuf *sb)
{
	struct jail_survey s;
	struct str lacks;
	struct err e = {0};

	if (!jail_look(&s, &e)) {
		sb_addf(sb, "jails of this host: %s\n", e.msg);
		return;
	}
	lacks = jail_lacks(sb->a, &s);
	sb_addf(sb, "jails of this host hold %.*s\n", STR_ARG(jail_holds(sb->a, &s)));
	sb_addf(sb, "jails of this host lack %.*s\n", STR_ARG(lacks.n ? lacks : STR("nothing")));
}

void
report_host(struct strbuf *sb, const struct opts *o)
{
	static const struct {
		const char *path;
		int lines;
		const char *words;
	} file[] = {
#define HOST_FILE(PATH, LINES, WORDS) {PATH, LINES, WORDS},
#include "report.def"
	};

	bool moved;
	char *data = data_folder(sb->a, opt_text(o, OPT_data), &moved);

	sb_addf(sb, "cores and memory that cgroups and affinity leave: %u, %llu MiB\n", host_cores(os_real()),
	    (unsigned long long)(host_memory_bytes(os_real()) >> 20));
	sb_addf(
	    sb, "data folder %s%s\n", data, moved ? ", for the usual one is on a network file system" : "");
	add_jails(sb);
	for (size_t i = 0; i < COUNT_OF(file); i++)
		add_file(sb, file[i].path, file[i].lines, file[i].words);
}
