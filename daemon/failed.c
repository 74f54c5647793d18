/* daemon/failed.c: jobs that end without a plan.  What a planner wrote for --dump is kept as a blob.  One
 * that died leaves its folder (model, what it was told, its words) as failed/JOB in the data folder, where
 * korch-planner --replay runs it again; the newest few are kept, of a bounded size in all.  Files are moved
 * and packed on the store's thread, then the job is over. */
#include "folder.h"
#include "job_history.h"

#include "../kernels/base/tar.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_FOLDERS = 8 };
static const uint64_t kept_bytes = (uint64_t)1 << 30;
static const size_t max_dump_bytes = (size_t)256 << 20;

/* ---- dumps -------------------------------------------------------------------------- */
void
dump_take(struct db *db, const char *work_dir, struct hash *digest, uint64_t *bytes)
{
	struct arena tmp = {0};
	const char *dir = arena_printf(&tmp, "%s/korch-dump", work_dir);
	const char *tar = arena_printf(&tmp, "%s/korch-dump.tar", work_dir);
	struct bytes packed;
	struct err none = {0};

	*bytes = 0;
	if (access(dir, F_OK) == 0 &&
	    !(tar_folder(&tmp, dir, max_dump_bytes, &packed, &none) &&
		os_write_file(os_real(), tar, packed, &none) &&
		blob_take(db, tar, "dump", digest, bytes, &none)))
		*bytes = 0;
	arena_fini(&tmp);
}

/* ---- what a dead planner leaves ------------------------------------------------------- */
struct kept {
	uint64_t job;
	uint64_t bytes;
};

/* Files of a folder, and of those in it. */
static uint64_t
bytes_below(const char *dir, int depth)
{
	struct arena tmp = {0};
	uint64_t sum = 0;
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		char *path = arena_printf(&tmp, "%s/%s", dir, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    lstat(path, &st) != 0)
			continue;
		sum += S_ISDIR(st.st_mode) && depth < 8 ? bytes_below(path, depth + 1) : (uint64_t)st.st_size;
	}
	if (d)
		(void)closedir(d);
	arena_fini(&tmp);
	return sum;
}

static int
newest_first(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->job < y->job) - (x->job > y->job);
}

/* The newest stays in any case; of the others as many as fit. */
static void
prune(struct arena *a, const char *dir)
{
	struct kept *list = NULL;
	uint32_t n = 0, cap = 0;
	uint64_t sum = 0;
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		int64_t job;

		if (!str_to_i64(str_of(entry->d_name), &job) || job < 0)
			continue;
		GROW(a, list, n, cap);
		list[n++] = (struct kept){
		    (uint64_t)job, bytes_below(arena_printf(a, "%s/%s", dir, entry->d_name), 0)};
	}
	if (d)
		(void)closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), newest_first);
	for (uint32_t i = 0; i < n; i++) {
		sum += list[i].bytes;
		if (i > 0 && (i >= KEPT_FOLDERS || sum > kept_bytes))
			os_remove_tree(arena_printf(a, "%s/%llu", dir, (unsigned long long)list[i].job));
	}
}

struct fail_op {
	struct store_op op;
	uint64_t job;
	enum err_code code;
	char *why, *dir;
	char *all; /* the folder of those that are kept */
	struct m_job rec;
	struct str words; /* the end of its stderr */
	struct str env;   /* class and key */
	bool has_dump, has_died, is_kept;
	bool is_taped; /* it lived long enough to be told its job */
	char *kept;
	struct hash dump;
	uint64_t dump_bytes;
};

/* For people; a replay needs none of it. */
static bool
write_how(const struct fail_op *x, const char *dir, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	bool ok;

	sb_init(&sb, &tmp);
	sb_addf(&sb, "korch %s: the planner of job %llu died: %s\n", KORCH_VERSION,
	    (unsigned long long)x->rec.id, x->why);
	if (x->is_taped)
		sb_addf(&sb, "to run it again: korch-planner --replay %s\n", dir);
	sb_addf(&sb, "\nmodel %.*s\nstage %.*s\n%.*s\noptions ", STR_ARG(x->rec.name),
	    STR_ARG(x->rec.progress.phase), STR_ARG(x->env));
	rec_json(&sb, "options", &x->rec.options);
	sb_addz(&sb, "\nprogress ");
	rec_json(&sb, "progress", &x->rec.progress);
	sb_addz(&sb, "\n\nits last words:\n");
	sb_add(&sb, x->words);
	ok = os_write_file(
	    os_real(), arena_printf(&tmp, "%s/how.txt", dir), (struct bytes){(const uint8_t *)sb.p, sb.n}, e);
	arena_fini(&tmp);
	return ok;
}

static void
keep_folder(struct fail_op *x)
{
	struct arena tmp = {0};
	struct err none = {0};

	x->kept = arena_printf(&x->op.arena, "%s/%llu", x->all, (unsigned long long)x->job);
	if (os_make_dirs(x->all, &none)) {
		os_remove_tree(x->kept);
		x->is_taped = access(arena_printf(&tmp, "%s/work/" TAPE_NAME, x->dir), R_OK) == 0;
		x->is_kept = rename(x->dir, x->kept) == 0 && write_how(x, x->kept, &none);
		prune(&tmp, x->all);
	}
	arena_fini(&tmp);
}

static bool
run_fail(struct db *db, struct store_op *op)
{
	struct fail_op *x = (struct fail_op *)(void *)op;

	if (x->has_dump)
		dump_take(db, folder_work(&op->arena, x->dir), &x->dump, &x->dump_bytes);
	if (x->has_died)
		keep_folder(x);
	return true;
}

static void
done_fail(struct store_op *op)
{
	struct fail_op *x = (struct fail_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = job_find(d, x->job);
	const char *why = x->why;

	if (x->is_kept)
		why =
		    arena_printf(&op->arena, "%s; korch-planner --replay %s runs it again", x->why, x->kept);
	if (j) {
		j->n_ops--;
		j->rec.dump = x->dump;
		j->rec.dump_bytes = x->dump_bytes;
		if (!job_state_is_over(j->state))
			job_move(d, j, JOB_failed, x->code, why);
	}
	os_remove_tree(x->dir);
	arena_fini(&op->arena);
	free(x);
}

static void
fail(struct daemon *d, struct job *j, enum err_code code, const char *why, bool has_died)
{
	struct fail_op *x = heap_alloc(sizeof(*x));
	struct arena *a = &x->op.arena;

	j->is_ended = true;
	planner_stop(j);
	x->op.run = run_fail;
	x->op.done = done_fail;
	x->op.owner = d;
	x->job = j->rec.id;
	x->code = code;
	x->why = str_dup(a, str_of(why));
	x->dir = job_dir(a, d, j);
	x->all = arena_printf(a, "%s/failed", d->conf->data);
	x->rec = j->rec;
	rec_dup(a, "job", &x->rec);
	x->words = str_of(str_dup(a, j->last_words));
	x->env = str_of(
	    arena_printf(a, "device %.*s\nenvironment %.*s", STR_ARG(j->env.class), STR_ARG(j->env.key)));
	x->has_dump = j->rec.options.dump.n > 0;
	x->has_died = has_died;
	j->n_ops++;
	store_post(d->store, &x->op);
}

void
plan_failed(struct daemon *d, struct job *j, enum err_code code, const char *why)
{
	fail(d, j, code, why, false);
}

void
plan_died(struct daemon *d, struct job *j, enum err_code code, const char *why)
{
	fail(d, j, code, why, true);
}
