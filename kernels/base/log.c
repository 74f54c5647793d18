/* kernels/base/log.c: the one place that writes log lines.  A line is made in memory of its own and
 * written by one call, so that lines of several threads and processes never mix. */
#include "log.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A value has at most so many bytes, and so many when it is quoted: every line fits. */
enum { LINE_BYTES = 16384, VALUE_BYTES = 1024, QUOTED_BYTES = 2000 };
static const int64_t SECOND = 1000000000;

struct log {
	struct log_conf conf;
	char path[OS_PATH_MAX];
	atomic_int fd;
	struct {
		atomic_int_least64_t second; /* of the monotonic clock, in which n were written */
		atomic_uint n, n_left_out;
	} rate[LOG_EVENTS];
};

static const struct log_row row[LOG_EVENTS] = {
#define EVENT(ID, NAME, LEVEL, PER_SECOND, KEYS, TEXT)                                                       \
	[LOG_##ID] = {                                                                                       \
	    .name = NAME, .keys = KEYS, .text = TEXT, .level = LEVEL_##LEVEL, .per_second = PER_SECOND},
#include "log.def"
};
static const char *const level_name[LEVEL_COUNT] = {
    [LEVEL_DEBUG] = "debug", [LEVEL_INFO] = "info", [LEVEL_WARN] = "warn", [LEVEL_ERROR] = "error"};

const struct log_row *
log_row(enum log_event ev)
{
	return &row[ev];
}

const char *
log_level_name(enum log_level level)
{
	return level_name[level];
}

bool
log_level_of(struct str name, enum log_level *out)
{
	for (int i = 0; i < LEVEL_COUNT; i++)
		if (str_is(name, level_name[i])) {
			*out = (enum log_level)i;
			return true;
		}
	return false;
}

/* ---- the file ----------------------------------------------------------------------- */
static int
open_path(const char *path, struct err *e)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		(void)err_set(e, ERR_IO, "%s: cannot write the log there: %s", path, strerror(errno));
	return fd;
}

bool
log_open(struct log **out, const struct log_conf *conf, struct err *e)
{
	struct log *l = heap_alloc(sizeof(*l));
	int fd = 2;

	l->conf = *conf;
	if (!l->conf.os)
		l->conf.os = os_real();
	if (conf->path && conf->path[0]) {
		if (strlen(conf->path) >= sizeof(l->path))
			(void)err_set(e, ERR_USAGE, "%.60s...: the log file's name is too long", conf->path);
		fd = e->code ? -1 : open_path(conf->path, e);
		(void)snprintf(l->path, sizeof(l->path), "%s", conf->path);
	}
	if (fd < 0) {
		free(l);
		return false;
	}
	l->conf.path = l->path;
	atomic_init(&l->fd, fd);
	*out = l;
	return true;
}

/* The number stays: another thread may be writing to it. */
bool
log_reopen(struct log *l, struct err *e)
{
	int fd;

	if (!l || !l->path[0])
		return true;
	fd = open_path(l->path, e);
	if (fd < 0)
		return false;
	if (dup3(fd, atomic_load(&l->fd), O_CLOEXEC) < 0) {
		(void)close(fd);
		return err_set(e, ERR_IO, "%s: cannot be opened anew: %s", l->path, strerror(errno));
	}
	(void)close(fd);
	log_event(l, log_reopened, KVZ("file", l->path));
	return true;
}

void
log_close(struct log *l)
{
	if (l && l->path[0])
		(void)close(atomic_load(&l->fd));
	free(l);
}

/* ---- a line ------------------------------------------------------------------------- */
struct line {
	char p[LINE_BYTES + 1]; /* and its end */
	size_t n;
};

static void
add(struct line *to, const char *p, size_t n)
{
	n = MIN_OF(n, LINE_BYTES - to->n);
	memcpy(to->p + to->n, p, n);
	to->n += n;
}

static void PRINTF_LIKE(2, 3) addf(struct line *to, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(to->p + to->n, LINE_BYTES + 1 - to->n, fmt, ap);
	va_end(ap);
	to->n += MIN_OF((size_t)MAX_OF(n, 0), LINE_BYTES - to->n);
}

static void
add_quoted(struct line *to, struct str s)
{
	size_t n, room = to->n + QUOTED_BYTES;

	add(to, "\"", 1);
	for (size_t i = 0; i < s.n && to->n < room; i += n) {
		int32_t c = utf8_at((struct str){s.p + i, s.n - i}, &n);

		if (c == '"' || c == '\\')
			addf(to, "\\%c", (char)c);
		else if (c == '\n')
			add(to, "\\n", 2);
		else if (utf8_is_hidden(c))
			addf(to, "\\u%04x", c < 0 ? 0xfffdu : (unsigned)c);
		else
			add(to, s.p + i, n);
	}
	add(to, "\"", 1);
}

static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !(c && strchr("._/:@+,-", c)))
			return false;
	}
	return true;
}

static void
add_time(struct line *to, int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / SECOND);
	struct tm tm = {0};

	(void)gmtime_r(&s, &tm);
	addf(to, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
	    tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(wall_ns % SECOND / 1000000));
}

static void
add_pair(struct line *to, bool is_json, const struct log_kv *kv)
{
	struct str s = {kv->text.p, MIN_OF(kv->text.n, (size_t)VALUE_BYTES)};

	if (!kv->is_number && s.n == 0)
		return;
	addf(to, is_json ? ",\"%s\":" : " %s=", kv->key);
	if (kv->is_number)
		addf(to, "%lld", (long long)kv->number);
	else if (!is_json && is_plain(s))
		add(to, s.p, s.n);
	else
		add_quoted(to, s);
}

/* May one more be written in this second?  *n_left_out: how many were not since the last that was.  Threads
 * that meet here may let one more pass: it is a measure against floods. */
static bool
may_write(struct log *l, enum log_event ev, uint32_t *n_left_out)
{
	int64_t second = l->conf.os->mono_ns(l->conf.os->self) / SECOND;

	*n_left_out = 0;
	if (row[ev].per_second == 0)
		return true;
	if (atomic_exchange(&l->rate[ev].second, second) != second)
		atomic_store(&l->rate[ev].n, 0);
	if (atomic_fetch_add(&l->rate[ev].n, 1) >= row[ev].per_second) {
		(void)atomic_fetch_add(&l->rate[ev].n_left_out, 1);
		return false;
	}
	*n_left_out = atomic_exchange(&l->rate[ev].n_left_out, 0);
	return true;
}

void
log_write(struct log *l, enum log_event ev, const struct log_kv *kv)
{
	enum log_level level = row[ev].level;
	struct log_kv more = KVI("more", 0);
	struct line line = {.n = 0};
	uint32_t n_left_out;
	size_t at = 0;

	if (!l || level < l->conf.least || !may_write(l, ev, &n_left_out))
		return;
	addf(&line, "%s", l->conf.is_json ? "{\"time\":\"" : "");
	add_time(&line, l->conf.os->wall_ns(l->conf.os->self));
	addf(&line, l->conf.is_json ? "\",\"level\":\"%s\",\"event\":\"%s\"" : " %s %s", level_name[level],
	    row[ev].name);
	for (; kv->key; kv++)
		add_pair(&line, l->conf.is_json, kv);
	more.number = n_left_out;
	if (n_left_out)
		add_pair(&line, l->conf.is_json, &more);
	addf(&line, "%s", l->conf.is_json ? "}" : "");
	line.p[line.n++] = '\n';
	while (at < line.n) {
		ssize_t n = write(atomic_load(&l->fd), line.p + at, line.n - at);

		if (n <= 0 && errno != EINTR)
			return; /* a full disk is no reason to stop */
		at += n > 0 ? (size_t)n : 0;
	}
}
