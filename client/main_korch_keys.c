/* client/main_korch_keys.c: korch-keys: the certificates of a farm. */
#include "../kernels/base/opt.h"
#include "../proto/keys.h"
#include "../proto/msg.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CA_DAYS = 3650 };

static bool
wants(const struct opts *o, uint32_t n, const char *what, struct err *e)
{
	return o->n_args == n || err_set(e, ERR_USAGE, "what is wanted: korch-keys %s; see --help", what);
}

static bool
one(const struct opts *o, const char *role, const char *name, struct err *e)
{
	struct keys_order order = {.dir = o->args[1],
	    .role = role,
	    .name = name,
	    .host = o->value[OPT_host].v,
	    .n_host = strcmp(role, "daemon") == 0 ? opt_n(o, OPT_host) : 0,
	    .days = opt_int(o, OPT_days)};
	struct keys_peer made;
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok = keys_make(&order, e) &&
	    keys_describe(arena_printf(&tmp, "%s/%s/tls.crt", order.dir, name), &made, e);

	sb_init(&sb, &tmp);
	json_text(&sb, str_of(arena_printf(&tmp, "%s/%s", order.dir, name)));
	if (ok && opt_flag(o, OPT_json))
		printf("{\"role\":\"%s\",\"name\":\"%s\",\"folder\":%s}\n", role, name, sb.p);
	else if (ok && !opt_flag(o, OPT_quiet))
		printf("%s/%s: the keys of a %s: put them on its host alone, and name them by --keys\n",
		    order.dir, name, role);
	arena_fini(&tmp);
	return ok;
}

/* Hosts are looked at before the authority is made: half a farm's keys are worse than none. */
static bool
make(const struct opts *o, struct err *e)
{
	int64_t days = opt_int(o, OPT_days);

	if (!wants(o, 2, "make DIR --host NAME...", e))
		return false;
	if (opt_n(o, OPT_host) == 0)
		return err_set(e, ERR_USAGE,
		    "by what names and addresses is korchd reached? give each with --host; a client looks "
		    "for the one that stands in its --daemon");
	if (days < 1 || days > 36500)
		return err_set(e, ERR_USAGE, "--days %lld: 1 to 36500", (long long)days);
	if (!keys_make_ca(o->args[1], MAX_OF(days, (int64_t)CA_DAYS), e))
		return false;
	if (!opt_flag(o, OPT_json) && !opt_flag(o, OPT_quiet))
		printf("%s/ca.key: the authority's: who has it can make keys for anybody; keep it off the "
		       "farm\n",
		    o->args[1]);
	return one(o, "daemon", "daemon", e) && one(o, "worker", "worker", e) &&
	    one(o, "client", "client", e);
}

static bool
add(const struct opts *o, struct err *e)
{
	return wants(o, 4, "add DIR worker|client|daemon NAME", e) && one(o, o->args[2], o->args[3], e);
}

/* ---- list ----------------------------------------------------------------------------- */
static void
print_one(const struct opts *o, const struct keys_peer *k)
{
	const char *role = k->role == AUTH_ROLES ? "daemon" : auth_role_name(k->role);
	struct arena tmp = {0};
	struct strbuf name;
	char day[16], hex[65];

	sb_init(&name, &tmp);
	json_text(&name, str_of(k->name));
	keys_date(k->until_s, day);
	hash_hex(&k->fingerprint, hex);
	if (opt_flag(o, OPT_json))
		printf("{\"role\":\"%s\",\"name\":%s,\"until\":\"%s\",\"fingerprint\":\"%s\"}\n", role,
		    name.p, day, hex);
	else
		printf("%-8s %-24s %-12s %s\n", role, k->name, day, hex);
	arena_fini(&tmp);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool
list(const struct opts *o, struct err *e)
{
	struct dirent **entry;
	int n;

	if (!wants(o, 2, "list DIR", e))
		return false;
	n = scandir(o->args[1], &entry, NULL, by_name);
	if (n < 0)
		return err_set(e, ERR_USAGE, "%s: cannot be read: %s", o->args[1], strerror(errno));
	if (!opt_flag(o, OPT_json))
		printf("%-8s %-24s %-12s %s\n", "ROLE", "NAME", "UNTIL", "FINGERPRINT");
	for (int i = 0; i < n; i++) {
		struct arena tmp = {0};
		char *file = arena_printf(&tmp, "%s/%s/tls.crt", o->args[1], entry[i]->d_name);
		struct keys_peer k;
		struct stat st;

		if (entry[i]->d_name[0] != '.' && stat(file, &st) == 0 && !e->code &&
		    keys_describe(file, &k, e))
			print_one(o, &k);
		free(entry[i]);
		arena_fini(&tmp);
	}
	free(entry);
	return e->code == ERR_NONE;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *word;
		bool (*run)(const struct opts *o, struct err *e);
	} row[] = {{"make", make}, {"add", add}, {"list", list}};
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	int status = opts_main(&a, PROG_KEYS, argc, argv, &o);
	bool found = false;

	for (size_t i = 0; i < COUNT_OF(row) && status < 0; i++)
		if (o.n_args && strcmp(o.args[0], row[i].word) == 0) {
			found = true;
			status = row[i].run(&o, &e) ? 0 : opts_fail(&o, &e);
		}
	if (status < 0 && !found) {
		(void)err_set(&e, ERR_USAGE, "what is wanted: make, add or list; see --help");
		status = opts_fail(&o, &e);
	}
	arena_fini(&a);
	return status;
}
