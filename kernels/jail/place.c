/* kernels/jail/place.c: the files and folders that a jail sees: the table's, those it was started with, the
 * program's own, and those that variables of the environment name.  A path that goes through links stands for
 * the place it leads to: both are kept. */
#include "jail_int.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
add_link(struct jail_plan *p, const char *path, const char *to)
{
	for (uint32_t i = 0; i < p->n_links; i++)
		if (strcmp(p->link[i].path, path) == 0)
			return;
	GROW(&p->arena, p->link, p->n_links, p->cap_links);
	p->link[p->n_links++] =
	    (struct jail_link){str_dup(&p->arena, str_of(path)), str_dup(&p->arena, str_of(to))};
}

static void
add_real(struct jail_plan *p, const char *path, uint32_t rights)
{
	for (uint32_t i = 0; i < p->n_places; i++)
		if (strcmp(p->place[i].path, path) == 0) {
			p->place[i].rights |= rights;
			return;
		}
	GROW(&p->arena, p->place, p->n_places, p->cap_places);
	p->place[p->n_places++] = (struct jail_place){str_dup(&p->arena, str_of(path)), rights};
}

/* What is not there is not in the jail either. */
static void
add_place(struct jail_plan *p, const char *path, uint32_t rights)
{
	char *real = realpath(path, NULL);

	if (!real)
		return;
	/* the whole file system is what no row may name */
	if (strcmp(real, "/") != 0) {
		add_real(p, real, rights);
		if (path[0] == '/' && strcmp(path, real) != 0)
			add_link(p, path, real);
	}
	free(real);
}

static void
add_pattern(struct jail_plan *p, const struct jail_path *row)
{
	glob_t found = {0};

	if (glob(row->path, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_place(p, found.gl_pathv[i], row->rights);
	globfree(&found);
}

/* "DIR:DIR" */
static void
add_list(struct jail_plan *p, const char *list, uint32_t rights)
{
	struct arena tmp = {0};
	struct str rest = str_of(list);

	while (rest.n) {
		struct str one = str_cut(&rest, ':');

		if (one.n && one.p[0] == '/')
			add_place(p, str_dup(&tmp, one), rights);
	}
	arena_fini(&tmp);
}

/* The program's file, and what lies in the folder that it really lies in: korch's programs find each other
 * there. */
static void
add_program(struct jail_plan *p)
{
	char *real = realpath(p->conf.argv[0], NULL), *slash = real ? strrchr(real, '/') : NULL;

	add_place(p, p->conf.argv[0], PATH_READ | PATH_START);
	if (slash && slash != real) {
		*slash = '\0';
		add_place(p, real, PATH_READ | PATH_START);
	}
	free(real);
}

void
jail_places(struct jail_plan *p)
{
	uint32_t me = 1u << p->conf.jail;

	for (uint32_t i = 0; i < jail_n_paths; i++) {
		const struct jail_path *row = &jail_paths[i];

		if (!(row->jails & me))
			continue;
		if (row->rights & PATH_OWN)
			add_real(p, row->path, row->rights);
		else if (strpbrk(row->path, "*?["))
			add_pattern(p, row);
		else
			add_place(p, row->path, row->rights);
	}
	for (uint32_t i = 0; i < jail_n_vars; i++)
		if (jail_vars[i].jails & me && jail_vars[i].kind == VAR_FOLDERS)
			add_list(p, getenv(jail_vars[i].name) ? getenv(jail_vars[i].name) : "",
			    PATH_READ | PATH_START);
	for (const char *const *r = p->conf.reads; r && *r; r++)
		add_place(p, *r, PATH_READ | PATH_START);
	if (p->conf.argv)
		add_program(p);
	if (p->conf.scratch)
		add_place(p, p->conf.scratch, PATH_READ | PATH_WRITE);
}
