/* schema/last_word.c: how a job ended, where its row cannot be written.
 *
 * A full disk must not make a job run again whose client was told that it had failed.  So the place for a
 * job's last word, a file of a fixed size, is taken when the job is accepted, and written in place when its
 * row cannot be.  It goes when the row has been saved after all; until then it counts more than the row. */
#include "db_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = 1024 };

static void
word_path(const char *dir, uint64_t job, char out[OS_PATH_MAX])
{
	(void)snprintf(out, OS_PATH_MAX, "%s/jobs/%" PRIu64 ".end", dir, job);
}

static bool
write_word(const char *path, const char *word, struct err *e)
{
	uint8_t whole[WORD_BYTES] = {0};

	memcpy(whole, word, strlen(word));
	return file_append(path, 0, (struct bytes){whole, sizeof(whole)}, e);
}

bool
last_word_reserve(struct db *db, uint64_t job, struct err *e)
{
	char path[OS_PATH_MAX];

	word_path(db->dir, job, path);
	if (write_word(path, "", e))
		return true;
	(void)unlink(path);
	return false;
}

bool
last_word_put(struct db *db, const struct m_job *job, struct err *e)
{
	char path[OS_PATH_MAX], word[WORD_BYTES];

	word_path(db->dir, job->id, path);
	(void)snprintf(word, sizeof(word), "%.*s %" PRIu64 " %.500s\n", STR_ARG(job->state), job->code,
	    job->reason.n ? job->reason.p : "");
	return write_word(path, word, e) && sync_path(path, e);
}

bool
last_word_find(const struct db *db, struct arena *a, struct m_job *job)
{
	char path[OS_PATH_MAX];
	struct bytes b;
	struct str rest, code;
	struct err none = {0};
	int64_t n;

	word_path(db->dir, job->id, path);
	if (!os_read_file(db->os, a, path, WORD_BYTES, &b, &none) || b.n != WORD_BYTES || !b.p[0])
		return false;
	rest = (struct str){(const char *)b.p, strnlen((const char *)b.p, b.n - 1)};
	rest = str_trim(rest);
	job->state = str_cut(&rest, ' ');
	code = str_cut(&rest, ' ');
	job->code = str_to_i64(code, &n) && n >= 0 ? (uint64_t)n : 0;
	job->reason = (struct str){str_dup(a, rest), rest.n};
	return true;
}

void
last_word_drop(const char *dir, uint64_t job)
{
	char path[OS_PATH_MAX];

	word_path(dir, job, path);
	(void)unlink(path);
}

/* The job of a file's name; 0: it is none of ours. */
static uint64_t
job_of(const char *name)
{
	char *end;
	uint64_t job = strtoull(name, &end, 10);

	return end != name && strcmp(end, ".end") == 0 ? job : 0;
}

void
last_words_sweep(const struct db *db, const struct m_job *open, uint32_t n)
{
	struct arena tmp = {0};
	DIR *d = opendir(arena_printf(&tmp, "%s/jobs", db->dir));
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		uint64_t job = job_of(entry->d_name);
		uint32_t i = 0;

		while (i < n && open[i].id != job)
			i++;
		if (job && i == n)
			last_word_drop(db->dir, job);
	}
	if (d)
		(void)closedir(d);
	arena_fini(&tmp);
}
